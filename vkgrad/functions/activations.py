"""The activations of networks beyond the common ones (`relu gelu silu elu leaky_relu softplus` are element-wise
functions), by PyTorch's names, formulas, and derivatives at the kinks.

NaN stays NaN: it fails every comparison and falls through to the branch that returns it. This module must not know
modules.
"""

from __future__ import annotations

from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.elementwise import abs as absolute
from vkgrad.functions.elementwise import elu, expm1, floating, sigmoid, softplus, tanh, where
from vkgrad.functions.reductions import softmax
from vkgrad.functions.shapes import along_axis, reshape
from vkgrad.tensor import Operand, Tensor, lift

__all__ = [
    "celu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "mish", "prelu", "relu6", "selu", "softmin",
    "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip

# Klambauer et al. (2017), arXiv:1706.02515, equation 14: what makes mean 0 and variance 1 a fixed point.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@composite
def hardtanh(x: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x, but at least `min_val` and at most `max_val`; the derivative at both is 0."""
    if not min_val < max_val:
        raise OptionError(f"hardtanh: min_val must be below max_val, got {min_val} and {max_val}")
    x = lift(floating(x))
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


def relu6(x: Operand) -> Tensor:
    """x, but at least 0 and at most 6."""
    return hardtanh(x, 0.0, 6.0)


@composite
def hardsigmoid(x: Operand) -> Tensor:
    """x / 6 + 1/2 from -3 to 3; 0 below and 1 above."""
    x = lift(floating(x))
    return where(x <= -3, 0.0, where(x >= 3, 1.0, x / 6 + 0.5))


@composite
def hardswish(x: Operand) -> Tensor:
    """x * (x + 3) / 6 from -3 to 3; 0 below and x above.

    Source: Howard et al. (2019), arXiv:1905.02244, section 5.2.
    """
    x = lift(floating(x))
    return where(x <= -3, 0.0, where(x >= 3, x, x * (x + 3) / 6))


@composite
def softsign(x: Operand) -> Tensor:
    """x / (1 + |x|)."""
    x = lift(floating(x))
    return x / (1 + absolute(x))


@composite
def softshrink(x: Operand, lambd: float = 0.5) -> Tensor:
    """x moved by `lambd` towards 0, and 0 within that distance of it."""
    if lambd < 0:
        raise OptionError(f"softshrink: lambd must not be negative, got {lambd}")
    x = lift(floating(x))
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0.0))


@composite
def hardshrink(x: Operand, lambd: float = 0.5) -> Tensor:
    """x, but 0 within `lambd` of 0."""
    x = lift(floating(x))
    return where(absolute(x) <= lambd, 0.0, x)


@composite
def tanhshrink(x: Operand) -> Tensor:
    """x - tanh(x)."""
    x = lift(floating(x))
    return x - tanh(x)


@composite
def mish(x: Operand) -> Tensor:
    """x * tanh(softplus(x)).

    Source: Misra (2019), arXiv:1908.08681, equation 1.
    """
    x = lift(floating(x))
    return x * tanh(softplus(x))


@composite
def celu(x: Operand, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x / alpha) - 1).

    Source: Barron (2017), arXiv:1704.07483, equation 2.
    """
    if alpha == 0:
        raise OptionError("celu: alpha must not be 0")
    x = lift(floating(x))
    return where(x > 0, x, alpha * expm1(where(x > 0, 0.0, x / alpha)))


@composite
def selu(x: Operand) -> Tensor:
    """A scaled `elu` that brings activations towards mean 0 and variance 1.

    Source: Klambauer et al. (2017), arXiv:1706.02515, equation 2.
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@composite
def prelu(x: Operand, weight: Operand) -> Tensor:
    """x where it is positive, else `weight` times x.

    Shapes: x (B, C, ...); weight (1,) or (C,), one slope per channel.

    Raises: `ShapeError` when there are neither one slope nor as many as channels.
    """
    x, weight = lift(floating(x)), lift(weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.shape not in ((), (1,), (channels,)):
        raise ShapeError(f"prelu: needs one slope or {channels}, one per channel of {x.shape}; got {weight.shape}")
    if weight.size > 1:
        weight = reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return where(x > 0, x, weight * x)


@composite
def glu(x: Operand, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second.

    Shapes: (..., 2 n, ...) -> (..., n, ...).

    Source: Dauphin et al. (2017), arXiv:1612.08083, equation 1.

    Raises: `ShapeError` when the extent is odd.
    """
    x = lift(floating(x))
    axis = along_axis("glu", axis, x.ndim)
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of {x.shape} must have an even extent, to be halved")
    half, before = x.shape[axis] // 2, (slice(None),) * axis
    return x[(*before, slice(None, half))] * sigmoid(x[(*before, slice(half, None))])


def softmin(x: Operand, axis: int = -1) -> Tensor:
    """`softmax` of -x."""
    return softmax(-lift(floating(x)), axis=axis)


@composite
def threshold(x: Operand, threshold: float, value: float) -> Tensor:
    """x where it is above `threshold`, else `value`."""
    x = lift(floating(x))
    return where(x <= threshold, value, x)
