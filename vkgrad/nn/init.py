"""First values of parameters, drawn on the device from the seed of `vkgrad.manual_seed`.

Functions of a shape return a new tensor. Those with PyTorch's names, which end in an underscore, give new values to the
tensor that they are called with, and return it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, prod, sqrt
from typing import Any

from vkgrad import functions as f
from vkgrad import random
from vkgrad.errors import OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.ir.dtypes import float32
from vkgrad.tensor import Tensor


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output element reads, and how many outputs an input element reaches, for a weight.

    Shapes: (out, in, ...), where the rest is a convolution's window.

    Raises:
        ShapeError: the weight has fewer than two axes.
    """
    if len(shape) < 2:
        raise ShapeError(
            f"init: a weight of shape {tuple(shape)} has no fan, which needs two axes, (out, in, ...); zeros_ and "
            "normal_ take any"
        )
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


# ---- PyTorch's names: new values for a tensor
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a weight must be larger for activations to keep their size through a nonlinearity.

    `param` is the slope of "leaky_relu", 0.01 if None.

    Raises:
        OptionError: a nonlinearity that there is not.
    """
    gains = {"tanh": 5.0 / 3, "relu": sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return sqrt(2.0 / (1 + slope * slope))
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    raise OptionError(f"calculate_gain: there is no nonlinearity {nonlinearity!r}")


def _given(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad():
        tensor.assign(value.astype(tensor.dtype))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Numbers spread evenly from a to b."""
    return _given(tensor, uniform(tensor.shape, a, b))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers."""
    return _given(tensor, normal(tensor.shape, mean, std))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normal numbers, but only those from a to b: the inverse of their distribution function at even numbers."""
    low, high = (erf((bound - mean) / (std * sqrt(2.0))) for bound in (a, b))
    drawn = f.erfinv(uniform(tensor.shape, low, high)) * (std * sqrt(2.0)) + mean
    return _given(tensor, f.clip(drawn, a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _given(tensor, f.full_like(tensor, val))


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: needs a matrix, got {tensor.shape}")
    return _given(tensor, f.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that returns its input, as many channels as there are.

    Shapes: (out, in, window of odd extents).
    """
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ShapeError(
            f"dirac_: needs the weight of a convolution whose outputs divide into groups, got {tensor.shape}"
        )
    outputs, inputs, *window = tensor.shape
    own = f.arange(outputs) % (outputs // groups)
    is_one = f.reshape(own, (-1, 1)) == f.arange(inputs)
    for extent in window:
        is_one = f.logical_and(f.expand_dims(is_one, axis=-1), f.arange(extent) == extent // 2)
    return _given(tensor, is_one)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """See `xavier_uniform`."""
    return _given(tensor, xavier_uniform(tensor.shape, gain))


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """See `xavier_normal`."""
    return _given(tensor, xavier_normal(tensor.shape, gain))


def _kaiming_std(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise OptionError(f'{name}: mode must be "fan_in" or "fan_out", not {mode!r}')
    return calculate_gain(nonlinearity, a) / sqrt(fans(tensor.shape)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Even numbers that keep the size of activations (`fan_in`) or gradients (`fan_out`) through a nonlinearity.

    Source: He, Zhang, Ren and Sun (2015), arXiv:1502.01852, section 2.2.
    """
    bound = sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal numbers that do the same."""
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Rows, or columns if there are fewer, that are orthogonal and of length `gain`, all such being as likely.

    Source: Saxe, McClelland and Ganguli (2014), arXiv:1312.6120; uniform by Mezzadri (2007), arXiv:math-ph/0609050.
    """
    from vkgrad.linalg import qr  # what few programs need is imported at its first use

    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: needs at least two axes, got {tensor.shape}")
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    q, r = qr(normal((max(rows, columns), min(rows, columns))))
    q = q * f.sign(f.diagonal(r))
    return _given(tensor, f.reshape(q if rows >= columns else q.T, tensor.shape) * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Normal numbers, but in each column a part `sparsity` of the rows, chosen by chance, is 0.

    Source: Martens (2010), Deep learning via Hessian-free optimization, section 5.
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: needs a matrix, got {tensor.shape}")
    count = -int(-sparsity * tensor.shape[0] // 1)
    places = f.argsort(f.argsort(uniform(tensor.shape), axis=0), axis=0)
    return _given(tensor, f.where(places < count, 0.0, normal(tensor.shape, 0.0, std)))
