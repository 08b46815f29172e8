"""First values of parameters, drawn on the device from the seed of `vkgrad.manual_seed`.

Each function takes a shape and returns a new tensor; nothing here changes one in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from vkgrad import functions as f
from vkgrad import random
from vkgrad.errors import ShapeError
from vkgrad.ir.dtypes import float32
from vkgrad.tensor import Tensor


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output element reads, and how many outputs an input element reaches, for a weight.

    Shapes: (out, in, ...), where the rest is a convolution's window.

    Raises:
        ShapeError: the weight has fewer than two axes.
    """
    if len(shape) < 2:
        raise ShapeError(f"a weight of shape {tuple(shape)} has no fan: it needs two axes, (out, in, ...)")
    window = prod(shape[2:])
    return shape[1] * window, shape[0] * window


def uniform(shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: Any = None) -> Tensor:
    """Numbers spread evenly from `low` to `high`."""
    return random.uniform(random.next_key(), tuple(shape), low, high, dtype=dtype or float32)


def normal(shape: Sequence[int], mean: float = 0.0, std: float = 1.0, dtype: Any = None) -> Tensor:
    """Normal numbers."""
    return random.normal(random.next_key(), tuple(shape), dtype=dtype or float32) * std + mean


def zeros(shape: Sequence[int], dtype: Any = None) -> Tensor:
    return f.zeros(tuple(shape), dtype=dtype or float32)


def ones(shape: Sequence[int], dtype: Any = None) -> Tensor:
    return f.ones(tuple(shape), dtype=dtype or float32)


def kaiming_uniform(shape: Sequence[int], a: float = 0.0, dtype: Any = None) -> Tensor:
    """Even numbers that keep the size of activations through a leaky ReLU of slope `a`.

    Source: He, Zhang, Ren and Sun (2015), arXiv:1502.01852, equation 14, with the bound of a uniform distribution.
    """
    bound = sqrt(6.0 / ((1.0 + a * a) * fans(shape)[0]))
    return uniform(shape, -bound, bound, dtype)


def kaiming_normal(shape: Sequence[int], a: float = 0.0, dtype: Any = None) -> Tensor:
    """Normal numbers that keep the size of activations through a leaky ReLU of slope `a`.

    Source: He, Zhang, Ren and Sun (2015), arXiv:1502.01852, equation 14.
    """
    return normal(shape, 0.0, sqrt(2.0 / ((1.0 + a * a) * fans(shape)[0])), dtype)


def xavier_uniform(shape: Sequence[int], gain: float = 1.0, dtype: Any = None) -> Tensor:
    """Even numbers that keep the size of both activations and gradients where the activation is about linear.

    Source: Glorot and Bengio (2010), Understanding the difficulty of training deep networks, equation 16.
    """
    bound = gain * sqrt(6.0 / sum(fans(shape)))
    return uniform(shape, -bound, bound, dtype)


def xavier_normal(shape: Sequence[int], gain: float = 1.0, dtype: Any = None) -> Tensor:
    """Normal numbers of the spread of `xavier_uniform`."""
    return normal(shape, 0.0, gain * sqrt(2.0 / sum(fans(shape))), dtype)


def default_weight(shape: Sequence[int], dtype: Any = None) -> Tensor:
    """The weight that PyTorch gives linear and convolution layers: even numbers within 1 / sqrt(fan in)."""
    return kaiming_uniform(shape, a=sqrt(5.0), dtype=dtype)


def default_bias(shape: Sequence[int], weight_shape: Sequence[int], dtype: Any = None) -> Tensor:
    """The bias that PyTorch gives them: even numbers within 1 / sqrt(fan in) of the weight beside it."""
    fan_in = fans(weight_shape)[0]
    bound = 1.0 / sqrt(fan_in) if fan_in else 0.0
    return uniform(shape, -bound, bound, dtype)
