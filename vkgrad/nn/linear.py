"""Layers that are matrix products."""

from __future__ import annotations

from math import sqrt
from typing import Any

from vkgrad.nn import init
from vkgrad.nn.functional import bilinear, linear
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor


class Linear(Module):
    """x @ weight.T + bias.

    Shapes: (..., in_features) -> (..., out_features); weight (out_features, in_features), bias (out_features,).

    Args:
        bias: whether something is added to the product.
        dtype: element type of weight and bias, float32 if None. Their first values are drawn as PyTorch draws them, by
            the generator that `vkgrad.manual_seed` sets.

    Example:
        >>> import vkgrad as vg
        >>> layer = vg.nn.Linear(4, 3)
        >>> layer(vg.ones((2, 4))).shape
        (2, 3)
        >>> layer
        Linear(4, 3), 15 parameters: weight (3, 4), bias (3,)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None) -> None:
        self.in_features = in_features
        self.out_features = out_features
        shape = (out_features, in_features)
        self.weight = parameter(init.default_weight(shape, dtype))
        self.bias = parameter(init.default_bias((out_features,), shape, dtype)) if bias else None

    def forward(self, x: Any) -> Tensor:
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class Bilinear(Module):
    """x1 @ weight @ x2 + bias, for each output feature.

    Shapes: (..., in1_features) and (..., in2_features) -> (..., out_features); weight (out, in1, in2), bias (out,).
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        bound = 1.0 / sqrt(in1_features)
        self.weight = parameter(init.uniform((out_features, in1_features, in2_features), -bound, bound, dtype))
        self.bias = parameter(init.uniform((out_features,), -bound, bound, dtype)) if bias else None

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}"
