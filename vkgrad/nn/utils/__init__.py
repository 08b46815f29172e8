"""What PyTorch keeps in `torch.nn.utils`, by its names; each thing is in a module of its own.

`parametrize` and `parametrizations`: parameters that are computed from others. `rnn`: sequences of different lengths.
"""

from vkgrad.nn.utils import parametrizations, parametrize, rnn
from vkgrad.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from vkgrad.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from vkgrad.optim.clipping import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_linear_bn_eval",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "rnn",
    "vector_to_parameters",
]
