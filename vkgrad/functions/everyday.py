"""Small functions that NumPy's users expect and the array API standard does not have, and NumPy's old names.

This module must not know how anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.creation import arange, linspace, place
from vkgrad.functions.elementwise import (
    abs,
    acos,
    acosh,
    as_floats,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_invert,
    divide,
    equal,
    exp,
    greater,
    isinf,
    isnan,
    less,
    log,
    logaddexp,
    logical_and,
    logical_not,
    maximum,
    minimum,
    multiply,
    pow,
    remainder,
    sign,
    sin,
    trunc,
    where,
)
from vkgrad.functions.joining import concat, split
from vkgrad.functions.lookup import nonzero, take
from vkgrad.functions.shapes import along_axis
from vkgrad.functions.sorting import searchsorted, sort
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, float32, promote
from vkgrad.tensor import Operand, Tensor, lift

__all__ = [
    "absolute", "append", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argwhere",
    "array_split", "deg2rad", "delete", "fix", "flatnonzero", "float_power", "fmax", "fmin", "fmod", "geomspace",
    "heaviside", "indices", "invert", "isin", "isneginf", "isposinf", "logaddexp2", "logspace", "mod", "power",
    "rad2deg", "select", "sinc", "true_divide",
]  # fmt: skip

# NumPy's older names.
absolute, power, mod, true_divide, invert, fix = abs, pow, remainder, divide, bitwise_invert, trunc
arccos, arcsin, arctan, arctan2 = acos, asin, atan, atan2
arccosh, arcsinh, arctanh = acosh, asinh, atanh


# ---- one element of each operand
def _beside_nan(x: Operand, y: Operand, choose: Any) -> Tensor:
    first, second = lift(x), lift(y)
    return where(isnan(first), second, where(isnan(second), first, choose(first, second)))


def fmax(x: Operand, y: Operand) -> Tensor:
    """The larger; the other one where one is NaN."""
    return _beside_nan(x, y, maximum)


def fmin(x: Operand, y: Operand) -> Tensor:
    """The smaller; the other one where one is NaN."""
    return _beside_nan(x, y, minimum)


def fmod(x: Operand, y: Operand) -> Tensor:
    """What division without a fraction leaves of x; it has the sign of x."""
    first, second = lift(x), lift(y)
    if promote(first.dtype, second.dtype).kind != "f":
        rest = remainder(first, second)  # it has the sign of y
        other_sign = logical_and(rest != 0, less(first, 0) != less(second, 0))
        return where(other_sign, rest - second, rest)
    # Not `abs`, whose derivative at 0 is 0: that of this by x is 1 everywhere.
    sizes = (where(less(z, 0), -z, z) for z in (first, second))
    rest = remainder(*sizes)
    return where(less(first, 0), -rest, rest)


def float_power(x: Operand, y: Operand) -> Tensor:
    """x ** y as floats, whatever they are."""
    return pow(as_floats(x), as_floats(y))


def logaddexp2(x: Operand, y: Operand) -> Tensor:
    """log2(2**x + 2**y), without overflow."""
    return multiply(logaddexp(as_floats(x) * math.log(2), as_floats(y) * math.log(2)), 1 / math.log(2))


def sinc(x: Operand) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    angle = as_floats(x) * math.pi
    away = abs(angle) > 0.5
    safe = where(away, angle, 1.0)
    # Near 0 by its series: differences of nearly equal numbers would be all that is left of the quotient's derivatives.
    squared = where(away, 0.0, angle * angle)
    series: Any = 0.0
    for n in range(9, 0, -1):
        series = (series + 1) * squared * (-1 / (2 * n * (2 * n + 1)))
    return where(away, sin(safe) / safe, series + 1)


def heaviside(x: Operand, at_zero: Operand) -> Tensor:
    """0 below 0, 1 above it, `at_zero` there; NaN of NaN."""
    given = as_floats(x)
    return where(isnan(given), given, where(equal(given, 0), at_zero, greater(given, 0).astype(given.dtype)))


def deg2rad(x: Operand) -> Tensor:
    """Degrees as radians."""
    return as_floats(x) * (math.pi / 180)


def rad2deg(x: Operand) -> Tensor:
    """Radians as degrees."""
    return as_floats(x) * (180 / math.pi)


def isposinf(x: Operand) -> Tensor:
    """Where x is infinity."""
    return logical_and(isinf(x), greater(x, 0))


def isneginf(x: Operand) -> Tensor:
    """Where x is minus infinity."""
    return logical_and(isinf(x), less(x, 0))


def select(conditions: Sequence[Operand], choices: Sequence[Operand], default: Operand = 0) -> Tensor:
    """Of the choices the first whose condition holds, else `default`."""
    if len(conditions) != len(choices) or not conditions:
        raise OptionError(f"select: {len(conditions)} conditions for {len(choices)} choices; takes a choice for each")
    found: Any = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return found


def isin(x: Operand, test: Operand, invert: bool = False) -> Tensor:
    """Where an element of x is one of `test`, or none of them if `invert`."""
    given, those = lift(x), lift(test).reshape(-1)
    common = promote(given.dtype, those.dtype)
    if those.size == 0:
        found = Tensor(b.constant(False, bool_, given.shape))
    else:
        ordered = sort(those.astype(common))
        at = searchsorted(ordered, given.astype(common))
        found = equal(take(ordered, minimum(at, those.size - 1), 0), given)
    return logical_not(found) if invert else found


# ---- places
def argwhere(x: Operand, *, size: int | None = None) -> Tensor:
    """Where x is not zero: the coordinates of one place a row (int32). See `nonzero` for `size`."""
    places = nonzero(lift(x).reshape(1) if not lift(x).ndim else x, size=size)
    rows = concat([axis.expand_dims(1) for axis in places], 1)
    return rows if lift(x).ndim else rows[:, :0]


def flatnonzero(x: Operand, *, size: int | None = None) -> Tensor:
    """Where the flattened x is not zero (int32)."""
    return nonzero(lift(x).reshape(-1), size=size)[0]


def indices(dimensions: Sequence[int]) -> Tensor:
    """The coordinates of every place of a shape (int32). Shapes: (axes, *dimensions)."""
    shape = tuple(dimensions)
    return concat([place(shape, axis).broadcast_to(shape).expand_dims(0) for axis in range(len(shape))], 0)


# ---- more or fewer elements
def append(x: Operand, values: Operand, axis: int | None = None) -> Tensor:
    """x with `values` behind it along `axis`; both flattened if it is None."""
    return concat([x, values], axis)


def delete(x: Operand, index: int | slice | Sequence[int], axis: int | None = None) -> Tensor:
    """x without what is at `index` along `axis`; flattened if it is None."""
    given = lift(x) if axis is not None else lift(x).reshape(-1)
    along = along_axis("delete", axis or 0, given.ndim)
    extent = given.shape[along]
    named = range(extent)[index] if isinstance(index, slice) else [index] if isinstance(index, int) else index
    gone = {place % extent for place in named if -extent <= place < extent}
    if any(not -extent <= place < extent for place in named):
        raise ShapeError(f"delete: {index} is out of range for extent {extent}")
    return take(given, [place for place in range(extent) if place not in gone], axis=along)


def array_split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut along `axis` as `split` does; parts that cannot be equal differ by one, the longer ones first."""
    given = lift(x)
    if not isinstance(indices_or_sections, int):
        return split(given, indices_or_sections, axis)
    extent = given.shape[along_axis("array_split", axis, given.ndim)]
    if indices_or_sections < 1:
        raise ShapeError(f"array_split: takes at least one part, got {indices_or_sections}")
    length, longer = divmod(extent, indices_or_sections)
    ends = list(accumulate(length + (part < longer) for part in range(indices_or_sections)))
    return split(given, ends[:-1], axis)


# ---- numbers in a geometric row
def logspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = float32
) -> Tensor:
    """`num` powers of `base`, whose exponents are evenly spaced from `start` to `stop`."""
    return pow(base, linspace(start, stop, num, endpoint=endpoint)).astype(dtype)


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = float32) -> Tensor:
    """`num` numbers from `start` to `stop`, each the same factor times the one before; exactly at both ends."""
    if isinstance(start, Tensor) or isinstance(stop, Tensor):  # which are not read
        ends: Any = [log(abs(as_floats(end))) for end in (start, stop)]
        side: Any = sign(as_floats(start))
    else:
        if start == 0 or stop == 0 or (start < 0) != (stop < 0):
            raise OptionError(f"geomspace: start and stop must have one sign and not be 0, got {start} and {stop}")
        side = math.copysign(1.0, start)
        ends = [math.log(side * end) for end in (start, stop)]
    found = exp(linspace(*ends, num, endpoint=endpoint)) * side
    place_ = arange(num)
    found = where(place_ == 0, start, found)
    return (where(place_ == num - 1, stop, found) if endpoint and num > 1 else found).astype(dtype)
