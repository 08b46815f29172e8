"""Reductions that leave NaN out: `nansum`, `nanmean`, `nanmedian` and their kin.

NaN stands for what is missing; its gradient is 0. This module must not know how a reduction is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vkgrad.errors import OptionError
from vkgrad.functions.elementwise import as_floats, ceil, floor, isnan, logical_not, maximum, sqrt, where
from vkgrad.functions.lookup import take_along_axis
from vkgrad.functions.reductions import all as all_of
from vkgrad.functions.reductions import argmax, argmin, max, min, prod, sum
from vkgrad.functions.scans import cumprod, cumsum
from vkgrad.functions.sorting import sort
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.tensor import Operand, Tensor, lift

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip

Axes = int | Sequence[int] | None


def _filled(x: Operand, value: float) -> Tensor:
    x = lift(x)
    return where(isnan(x), value, x) if x.dtype.kind == "f" else x


def _present(x: Operand, axis: Axes, keepdims: bool) -> Tensor:
    """How many elements are numbers."""
    return sum(logical_not(isnan(x)), axis, keepdims)


def nansum(x: Operand, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum of the elements that are numbers; 0 of none."""
    return sum(_filled(x, 0), axis, keepdims, dtype)


def nanprod(x: Operand, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product of the elements that are numbers; 1 of none."""
    return prod(_filled(x, 1), axis, keepdims, dtype)


def nancumsum(x: Operand, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Running sums in which NaN counts as 0."""
    return cumsum(_filled(x, 0), axis, dtype)


def nancumprod(x: Operand, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Running products in which NaN counts as 1."""
    return cumprod(_filled(x, 1), axis, dtype)


def _extreme(x: Operand, axis: Axes, keepdims: bool, join: Callable[..., Tensor], beyond: float) -> Tensor:
    x = lift(x)
    found = join(_filled(x, beyond), axis, keepdims)
    return where(all_of(isnan(x), axis, keepdims), math.nan, found) if x.dtype.kind == "f" else found


def nanmax(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest number; NaN if there is none."""
    return _extreme(x, axis, keepdims, max, -math.inf)


def nanmin(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest number; NaN if there is none."""
    return _extreme(x, axis, keepdims, min, math.inf)


def nanargmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first largest number is (int32); -1 where there is none."""
    return _place(x, axis, keepdims, argmax, -math.inf)


def nanargmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first smallest number is (int32); -1 where there is none."""
    return _place(x, axis, keepdims, argmin, math.inf)


def _place(x: Operand, axis: int | None, keepdims: bool, find: Callable[..., Tensor], beyond: float) -> Tensor:
    x = lift(x)
    return where(all_of(isnan(x), axis, keepdims), -1, find(_filled(x, beyond), axis, keepdims))


def nanmean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements that are numbers; NaN of none."""
    x = as_floats(x)
    return nansum(x, axis, keepdims) / _present(x, axis, keepdims).astype(x.dtype)


def nanvar(x: Operand, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The variance of the elements that are numbers; NaN where there are no more of them than `correction`."""
    x = as_floats(x)
    apart = where(isnan(x), 0, x - nanmean(x, axis, keepdims=True))
    divisor = _present(x, axis, keepdims).astype(x.dtype) - correction
    return sum(apart * apart, axis, keepdims) / where(divisor > 0, divisor, math.nan)


def nanstd(x: Operand, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The square root of `nanvar`; its derivative is 0 where all elements are equal."""
    found = nanvar(x, axis, correction, keepdims)
    positive = found != 0
    return where(positive, sqrt(where(positive, found, 1.0)), 0.0)


def nanquantile(x: Operand, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The value below which a part q of the numbers lies, between two of them in proportion; NaN of none.

    Raises: `OptionError` for q outside 0 to 1.
    """
    parts: Any = q if isinstance(q, Tensor) else np.asarray(q, np.float64)
    if not isinstance(q, Tensor) and parts.size and not (parts.min() >= 0 and parts.max() <= 1):
        raise OptionError(f"nanquantile: q must lie between 0 and 1, got {q}")
    values = as_floats(x)
    flat = values.reshape(-1) if axis is None else values
    place = b.normalise_axes("nanquantile", axis or 0, flat.ndim)[0]
    last = flat.moveaxis(place, -1)
    ordered, count = sort(last), _present(last, -1, True)  # NaN comes last
    at = maximum(count - 1, 0).astype(last.dtype) * lift(parts).astype(last.dtype).reshape(-1)
    below = take_along_axis(ordered, floor(at).astype(int32))
    above = take_along_axis(ordered, ceil(at).astype(int32))
    same = below == above  # infinities among them, which have no difference
    found = where(same, below, below + where(same, 0, above - below) * (at - floor(at)))
    found = found.moveaxis(-1, 0)
    if keepdims:
        found = found.reshape(parts.size, *(1 for _ in values.shape)) if axis is None else found.expand_dims(place + 1)
    return found.reshape(*parts.shape, *found.shape[1:])


def nanmedian(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The middle one of the numbers, or the mean of the two in the middle; NaN of none."""
    return nanquantile(x, 0.5, axis, keepdims)


def nanpercentile(x: Operand, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """`nanquantile` in hundredths."""
    return nanquantile(x, (q if isinstance(q, Tensor) else np.asarray(q, np.float64)) / 100, axis, keepdims)
