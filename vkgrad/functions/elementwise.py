"""Functions of one element of each operand, by the names of the array API standard.

Operands are tensors, NumPy arrays, lists or Python numbers; they take a common type and shape. Integers and masks
become float32 where only floats make sense (`exp`, `divide`). This module must not know axes.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from vkgrad.errors import OptionError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, float32
from vkgrad.ir.op import OPS
from vkgrad.precision import single
from vkgrad.tensor import Operand, Tensor, apply, is_operand, lift, method, operator

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "digamma",
    "divide",
    "divmod",
    "elu",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "gelu",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "leaky_relu",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]  # fmt: skip

Unary = Callable[[Operand], Tensor]
Binary = Callable[[Operand, Operand], Tensor]


def floating(x: Any) -> Any:
    """`x` as floats: integer tensors and masks become float32; a Python number stays one, and stays weak."""
    if isinstance(x, bool | int):
        return float(x)
    if isinstance(x, float):
        return x
    x = lift(x)
    return x if x.dtype.kind == "f" else x.astype(float32)


def as_floats(x: Any) -> Tensor:
    """`x` as a tensor of floats."""
    return lift(floating(x))


def exact(x: Any) -> Any:
    """`floating`, for functions that lose digits in half precision: inside `autocast` they take float32."""
    return single(floating(x))


def as_mask(x: Any) -> Tensor:
    """`x` as a mask: everything but 0 holds."""
    return lift(x).astype(bool_)


def _as_it_is(x: Any) -> Any:
    return x


def _unary(op: str, takes: Callable[[Any], Any] = _as_it_is) -> Unary:
    def function(x: Operand) -> Tensor:
        return apply(op, takes(x))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = OPS[op].doc or f"{op} of each element."
    return function


def _binary(op: str, takes: Callable[[Any], Any] = _as_it_is) -> Binary:
    def function(x: Operand, y: Operand) -> Tensor:
        return apply(op, takes(x), takes(y))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = OPS[op].doc or f"{op} of each pair of elements."
    return function


# ---- arithmetic
add, subtract, multiply = _binary("add"), _binary("subtract"), _binary("multiply")
divide = _binary("divide", floating)
floor_divide, remainder = _binary("floor_divide"), _binary("remainder")
maximum, minimum = _binary("maximum"), _binary("minimum")
negative, sign, square = _unary("negative"), _unary("sign"), _unary("square")
abs = _unary("abs")
reciprocal = _unary("reciprocal", exact)
sqrt, rsqrt, cbrt = _unary("sqrt", floating), _unary("rsqrt", exact), _unary("cbrt", floating)

# ---- exponentials, angles and special functions
exp, exp2, expm1 = _unary("exp", exact), _unary("exp2", exact), _unary("expm1", exact)
log, log2 = _unary("log", exact), _unary("log2", exact)
log10, log1p = _unary("log10", exact), _unary("log1p", exact)
sin, cos, tan = _unary("sin", floating), _unary("cos", floating), _unary("tan", exact)
asin, acos, atan = _unary("asin", exact), _unary("acos", exact), _unary("atan", floating)
sinh, cosh, tanh = _unary("sinh", exact), _unary("cosh", exact), _unary("tanh", floating)
asinh, acosh, atanh = _unary("asinh", floating), _unary("acosh", floating), _unary("atanh", floating)
atan2, nextafter = _binary("atan2", floating), _binary("nextafter", floating)
erf, erfc, erfinv = _unary("erf", floating), _unary("erfc", floating), _unary("erfinv", exact)
lgamma, digamma = _unary("lgamma", exact), _unary("digamma", exact)
sigmoid, softplus, relu = _unary("sigmoid", floating), _unary("softplus", exact), _unary("relu", floating)

# ---- comparisons, logic, bits
equal, not_equal = _binary("equal"), _binary("not_equal")
less, less_equal = _binary("less"), _binary("less_equal")
greater, greater_equal = _binary("greater"), _binary("greater_equal")
signbit = _unary("signbit", floating)
isnan, isinf, isfinite = _unary("isnan", floating), _unary("isinf", floating), _unary("isfinite", floating)
logical_and, logical_or = _binary("logical_and", as_mask), _binary("logical_or", as_mask)
logical_xor, logical_not = _binary("logical_xor", as_mask), _unary("logical_not", as_mask)
bitwise_and, bitwise_or, bitwise_xor = _binary("bitwise_and"), _binary("bitwise_or"), _binary("bitwise_xor")
bitwise_invert = _unary("bitwise_invert")
bitwise_left_shift, bitwise_right_shift = _binary("bitwise_left_shift"), _binary("bitwise_right_shift")


# ---- rounding: integers are whole already
def _rounding(op: str) -> Unary:
    of_floats = _unary(op)

    def function(x: Operand) -> Tensor:
        x = lift(x)
        return of_floats(x) if x.dtype.kind == "f" else x

    function.__name__ = function.__qualname__ = op
    function.__doc__ = OPS[op].doc or f"{op} of each element; integers stay as they are."
    return function


floor, ceil, trunc, _whole = _rounding("floor"), _rounding("ceil"), _rounding("trunc"), _rounding("round")


def round(x: Operand, decimals: int = 0) -> Tensor:
    """The nearest number of so many decimals, whole by default; halves go to even. Integers stay as they are.

    Raises: `OptionError` for integers to tens or hundreds.
    """
    x = lift(x)
    if not decimals:
        return _whole(x)
    if x.dtype.kind != "f":
        if decimals < 0:
            raise OptionError(f"round: integers are not rounded to {10**-decimals}; use .astype(vg.float32) first")
        return x
    scale = 10.0 ** builtins.abs(decimals)
    return _whole(x * scale) / scale if decimals > 0 else _whole(x / scale) * scale


def divmod(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """The quotient rounded down, and what it leaves."""
    return floor_divide(x, y), remainder(x, y)


def _with_remainder(swap: bool) -> Callable[[Tensor, Any], tuple[Tensor, Tensor]]:
    def call(self: Tensor, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        return divmod(other, self) if swap else divmod(self, other)

    return call


Tensor.__divmod__ = _with_remainder(False)
Tensor.__rdivmod__ = _with_remainder(True)

# Whole powers up to the fourth and half powers need only multiplications and roots, which are exact to a rounding in
# every float type; `pow` itself goes through a logarithm.
_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    1: lambda x: x,
    2: square,
    3: lambda x: square(x) * x,
    4: lambda x: square(square(x)),
    -1: reciprocal,
    -2: lambda x: reciprocal(square(x)),
    0.5: sqrt,
    -0.5: rsqrt,
}


def pow(x: Operand, y: Operand) -> Tensor:
    """x ** y; 0 ** 0 is 1.

    An integer to a negative integer power is 1 / x**-y without its fraction (a kernel cannot raise as NumPy does).
    """
    if isinstance(y, np.generic):
        y = y.item()
    if isinstance(y, int | float) and isinstance(x, Tensor) and x.dtype.kind == "f" and y in _POWERS:
        return _POWERS[y](single(x))
    return apply("pow", single(x), single(y))


Tensor.__pow__, Tensor.__rpow__ = operator(pow), operator(pow, swap=True)
Tensor.__truediv__, Tensor.__rtruediv__ = operator(divide), operator(divide, swap=True)


# ---- choices
def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """x where `condition` holds (is not 0), else y. The branch that is not taken passes no gradient, not even a NaN."""
    return apply("where", as_mask(condition), x, y)


@method
def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x, but at least `min` and at most `max`; NaN stays NaN."""
    if min is not None:
        x = maximum(x, min)
    return lift(x) if max is None else minimum(x, max)


def copysign(x1: Operand, x2: Operand) -> Tensor:
    """|x1| with the sign of x2, which may be that of -0.0."""
    x1, x2 = floating(x1), floating(x2)
    return where(equal(signbit(x1), signbit(x2)), x1, negative(x1))


def hypot(x1: Operand, x2: Operand) -> Tensor:
    """sqrt(x1**2 + x2**2), without overflow; its derivative where both are 0 is 0."""
    x1, x2 = floating(x1), floating(x2)
    largest = maximum(abs(x1), abs(x2)).detach()
    scale = where(logical_and(isfinite(largest), largest > 0), largest, 1.0)
    squares = square(divide(x1, scale)) + square(divide(x2, scale))
    away = squares != 0
    found = where(away, sqrt(where(away, squares, 1.0)), 0.0) * scale
    return where(logical_or(isinf(x1), isinf(x2)), math.inf, found)  # whatever the other one is


def positive(x: Operand) -> Tensor:
    """+x: x itself."""
    return lift(x)


# ---- every number here is real
def real(x: Operand) -> Tensor:
    """The real part of real numbers: x itself."""
    return lift(x)


def conj(x: Operand) -> Tensor:
    """The complex conjugate of real numbers: x itself."""
    return lift(x)


def imag(x: Operand) -> Tensor:
    """The imaginary part of real numbers: zeros."""
    x = lift(x)
    return Tensor(b.constant(0, x.dtype, x.shape))


def logaddexp(x: Operand, y: Operand) -> Tensor:
    """log(exp(x) + exp(y)), without overflow. Equal infinities share the gradient."""
    x, y = floating(x), floating(y)
    # Not by `maximum` and `abs`, whose corners lie where this has none: both ways to write it have all derivatives.
    first = greater_equal(x, y)
    larger, other = where(first, x, y), where(first, y, x)
    infinite = logical_and(equal(x, y), isinf(x))
    found = larger + softplus(where(infinite, 0.0, other - larger))
    return where(infinite, 0.5 * larger + 0.5 * other, found)


# ---- activations
def silu(x: Operand) -> Tensor:
    """x * sigmoid(x)."""
    x = lift(floating(x))
    return x * sigmoid(x)


def gelu(x: Operand, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """x times the probability that a standard normal number is below it.

    Source: Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016; `approximate="tanh"` is their section 2's formula.
    """
    x = lift(floating(x))
    if approximate == "tanh":
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    if approximate != "none":
        raise OptionError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, else `negative_slope` times x; the derivative at 0 is `negative_slope`."""
    x = lift(floating(x))
    return where(x > 0, x, negative_slope * x)


def elu(x: Operand, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1). Its derivative at 0 is alpha, that from the left."""
    x = lift(floating(x))
    return where(x > 0, x, alpha * expm1(where(x > 0, 0.0, x)))


def log_sigmoid(x: Operand) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-lift(floating(x)))


for _function in (abs, exp, log, sqrt, square, sign, tanh, sigmoid, relu, sin, cos, floor, ceil, round, isnan):
    method(_function)
