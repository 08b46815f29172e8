"""Tensors made from nothing: constants and counters, which the device generates; nothing is uploaded.

Without a `dtype` they are float32, or int32 where every number given is whole and the numbers count (`arange`).

This module must not know where a tensor is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.functions.elementwise import where
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, dtype_of, float32, int32, promote
from vkgrad.ir.op import Shape
from vkgrad.placement import placed
from vkgrad.tensor import Scalar, Tensor, lift

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "one_hot", "ones", "ones_like", "tri",
    "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def as_shape(name: str, shape: int | Sequence[int]) -> Shape:
    """A shape from an extent or a sequence of them. Raises `ShapeError` for a negative one."""
    given = (shape,) if isinstance(shape, float | int) else tuple(shape)
    if fractions := [extent for extent in given if isinstance(extent, float | str)]:
        raise ShapeError(f"{name}: extents are whole numbers, not {fractions[0]!r}; // gives a whole quotient")
    extents = tuple(int(extent) for extent in given)
    if any(extent < 0 for extent in extents):
        raise ShapeError(f"{name}: extents must not be negative, got {extents}")
    return extents


def as_integers(name: str, what: str, dtype: Any) -> None:
    """Refuse places and labels that are not of integers. Raises: `DTypeError`."""
    if dtype.kind not in "iu":
        raise DTypeError(f"{name}: {what} must be of integers, got {dtype.name}; convert it with .astype(vg.int32)")


@placed
def full(shape: int | Sequence[int], fill_value: Scalar, dtype: Any = None) -> Tensor:
    """A tensor of `shape` whose elements are all `fill_value`; its type is the value's unless named."""
    value = lift(fill_value)
    return Tensor(b.expand(b.cast(value.node, dtype_of(dtype or value.dtype)), as_shape("shape", shape)))


@placed
def zeros(shape: int | Sequence[int], dtype: Any = None) -> Tensor:
    return full(shape, 0, dtype or float32)


@placed
def ones(shape: int | Sequence[int], dtype: Any = None) -> Tensor:
    return full(shape, 1, dtype or float32)


@placed
def empty(shape: int | Sequence[int], dtype: Any = None) -> Tensor:
    """A tensor for values that do not matter: zeros, since memory that is never written need not be read."""
    return zeros(shape, dtype)


@placed
def full_like(x: Tensor, fill_value: Scalar, dtype: Any = None) -> Tensor:
    return full(x.shape, fill_value, dtype or x.dtype)


@placed
def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    return full_like(x, 0, dtype)


@placed
def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    return full_like(x, 1, dtype)


@placed
def empty_like(x: Tensor, dtype: Any = None) -> Tensor:
    return zeros_like(x, dtype)


def counter(extent: int, dtype: DType = int32) -> Tensor:
    """0, 1, … extent - 1."""
    return Tensor(b.cast(b.build("iota", extent=extent), dtype))


def place(shape: Shape, axis: int) -> Tensor:
    """The coordinate along `axis` (int32), with extent 1 along the other axes of `shape`."""
    axis %= len(shape)
    return Tensor(b.reshape(b.build("iota", extent=shape[axis]), tuple(
        extent if a == axis else 1 for a, extent in enumerate(shape))))  # fmt: skip


@placed
def arange(start: Scalar, stop: Scalar | None = None, step: Scalar = 1, dtype: Any = None) -> Tensor:
    """start, start + step, … up to but not including `stop`; from 0 if only one number is given.

    Example:
        >>> import vkgrad as vg
        >>> vg.arange(5, 0, -2).tolist()
        [5, 3, 1]
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise OptionError("arange: step must not be 0")
    whole = all(isinstance(value, int) for value in (start, stop, step))
    kind = dtype_of(dtype or (int32 if whole else float32))
    # Whole numbers are counted as integers whatever they become, and fractions as floats.
    exact = kind if kind.kind in "iu" and not kind.narrow else int32
    numbers = counter(max(0, math.ceil((stop - start) / step)), exact if whole else promote(kind, float32))
    if step != 1:
        numbers = numbers * step
    return (numbers if start == 0 else numbers + start).astype(kind)


@placed
def linspace(start: float, stop: float, num: int, dtype: Any = None, endpoint: bool = True) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, exactly at both ends (without the last if not `endpoint`)."""
    kind = dtype_of(dtype or float32)
    (num,) = as_shape("linspace", num)
    steps = num - 1 if endpoint else num
    numbers = counter(num, promote(kind, float32))
    spaced = numbers * ((stop - start) / max(steps, 1)) + start
    if endpoint and num > 1:
        spaced = where(counter(num) == steps, stop if isinstance(stop, Tensor) else float(stop), spaced)
    return spaced.astype(kind)


@placed
def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on the k-th diagonal (above the main one for positive k), else zeros."""
    shape = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    return (place(shape, 1) - place(shape, 0) == k).astype(dtype or float32)


@placed
def tri(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on and below the k-th diagonal, else zeros."""
    shape = as_shape("tri", (n_rows, n_rows if n_cols is None else n_cols))
    return (place(shape, 1) - place(shape, 0) <= k).astype(dtype or float32)


def tril(x: Tensor, k: int = 0) -> Tensor:
    """x with zeros above the k-th diagonal of its last two axes."""
    x = _matrix("tril", x)
    return where(place(x.shape, -1) - place(x.shape, -2) <= k, x, zeros_like(x))


def triu(x: Tensor, k: int = 0) -> Tensor:
    """x with zeros below the k-th diagonal of its last two axes."""
    x = _matrix("triu", x)
    return where(place(x.shape, -1) - place(x.shape, -2) >= k, x, zeros_like(x))


def _matrix(name: str, x: Any) -> Tensor:
    x = lift(x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: a matrix has at least 2 axes, got shape {x.shape}")
    return x


def one_hot(x: Any, num_classes: int, dtype: Any = float32) -> Tensor:
    """For each integer, a row that is 1 at that place and 0 elsewhere; an integer out of range gives a row of zeros.

    Shapes: x (...) -> (..., num_classes).
    """
    x = lift(x)
    as_integers("one_hot", "a place", x.dtype)
    x = x.astype(x.dtype.computed)  # a small type may not reach `num_classes`
    return (Tensor(b.reshape(x.node, (*x.shape, 1))) == counter(num_classes, x.dtype)).astype(dtype)
