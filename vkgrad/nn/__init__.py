"""Networks: modules, layers, losses and first values, by PyTorch's names.

`vkgrad.nn.functional` has the same without parameters; `vkgrad.nn.init` draws first values.
"""

from vkgrad.nn import functional, init
from vkgrad.nn.activation import (
    ELU,
    GELU,
    Flatten,
    Identity,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from vkgrad.nn.containers import ModuleList, Sequential
from vkgrad.nn.convolution import Conv1d, Conv2d, ConvTranspose2d
from vkgrad.nn.dropout import Dropout
from vkgrad.nn.linear import Bilinear, Embedding, Linear
from vkgrad.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
)
from vkgrad.nn.module import Module, StateMismatch, parameter
from vkgrad.nn.normalization import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from vkgrad.nn.pooling import AvgPool2d, MaxPool2d

__all__ = [
    "ELU",
    "GELU",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "StateMismatch",
    "Tanh",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "functional",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "parameter",
]
