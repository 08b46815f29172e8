"""A layer and the batch norm behind it as one layer, for evaluation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.history import no_grad
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor

Layer = TypeVar("Layer", bound=Module)


def fuse_conv_bn_eval(conv: Layer, bn: Any, transpose: bool = False) -> Layer:
    """A convolution that computes what `conv` and then `bn` compute in evaluation.

    Args:
        transpose: `conv` is a transposed convolution, whose weight has the outputs second.

    Raises:
        OptionError: one of them is in training, or `bn` has no running statistics.
    """
    return _fused("fuse_conv_bn_eval", conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Layer, bn: Any) -> Layer:
    """A linear layer that computes what `linear` and then `bn` compute in evaluation. Raises as `fuse_conv_bn_eval`."""
    return _fused("fuse_linear_bn_eval", linear, bn, 0)


def _fused(name: str, layer: Any, bn: Any, axis: int) -> Any:
    if layer.training or bn.training or bn.running_mean is None:
        raise OptionError(f"{name}: both must be in evaluation, with running statistics; call model.eval() first")
    fused = deepcopy(layer)
    with no_grad():
        scale = f.rsqrt(bn.running_var + bn.eps)
        scale = scale if bn.weight is None else scale * bn.weight
        columns = [-1 if a == axis else 1 for a in range(layer.weight.ndim)]
        mean = -bn.running_mean if layer.bias is None else layer.bias - bn.running_mean
        bias = mean * scale if bn.bias is None else mean * scale + bn.bias
        fused.weight = parameter(Tensor((layer.weight * f.reshape(scale, columns)).node))
        fused.bias = parameter(Tensor(bias.node))
    return fused
