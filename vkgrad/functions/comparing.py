"""Comparisons of whole tensors, and values put in the place of those that are no numbers.

Results are tensors like any other: nothing is read before somebody asks. This module must not know how anything is
computed.
"""

from __future__ import annotations

from vkgrad.functions.elementwise import (
    abs,
    as_floats,
    equal,
    isfinite,
    isinf,
    isnan,
    less_equal,
    logical_and,
    logical_or,
    where,
)
from vkgrad.functions.reductions import all as all_of
from vkgrad.functions.types import finfo
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["allclose", "array_equal", "isclose", "nan_to_num"]


def isclose(x: Operand, y: Operand, rtol: Operand = 1e-5, atol: Operand = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where |x - y| <= atol + rtol |y|; infinities are close to themselves, NaN only if `equal_nan`."""
    x, y = as_floats(x), as_floats(y)
    near = logical_and(less_equal(abs(x - y), atol + rtol * abs(y)), isfinite(y))
    near = logical_or(near, equal(x, y))
    return logical_or(near, logical_and(isnan(x), isnan(y))) if equal_nan else near


def allclose(x: Operand, y: Operand, rtol: Operand = 1e-5, atol: Operand = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close, as one mask; see `isclose`."""
    return all_of(isclose(x, y, rtol, atol, equal_nan))


def array_equal(x: Operand, y: Operand, equal_nan: bool = False) -> Tensor:
    """Whether shapes and elements are the same, as one mask."""
    x, y = lift(x), lift(y)
    if x.shape != y.shape:
        return Tensor(b.constant(False, bool_))
    same = equal(x, y)
    return all_of(logical_or(same, logical_and(isnan(x), isnan(y))) if equal_nan else same)


def nan_to_num(
    x: Operand, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """x with numbers for NaN and the infinities; the greatest and the least of the type where none are given."""
    del copy
    x = lift(x)
    if x.dtype.kind != "f":
        return x
    limits = finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    x = where(isnan(x), nan, x)
    return where(isinf(x), where(x > 0, Tensor(b.constant(high, x.dtype)), low), x)
