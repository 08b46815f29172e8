"""Functions that put elements in order, or count them by value: sorts, selections, quantiles, sets and histograms.

Every sort is stable, in both directions, and NaN comes last in both. Gradients go to the elements that were chosen, of
equal ones by position. A result whose size depends on values needs `size=`; without it the values are read when the
function is called. This module must not know how elements are sorted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import ceil, floating, floor, isinf, isnan, logical_and, round, where
from vkgrad.functions.lookup import take, take_along_axis
from vkgrad.functions.reductions import any as any_of
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32, promote
from vkgrad.ops import sorting
from vkgrad.ops.indexed import along, scatter
from vkgrad.ops.scans import scan
from vkgrad.tensor import Operand, Tensor, derived, lift, method, tensor

__all__ = [
    "argsort", "bincount", "histogram", "kthvalue", "median", "quantile", "searchsorted", "sort", "topk", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


class Chosen(NamedTuple):
    """Elements, and where along the axis they are (int32)."""

    values: Tensor
    indices: Tensor


class Unique(NamedTuple):
    """Distinct elements in order, where each is found first, where each element went, and how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def _last(name: str, x: Operand, axis: int) -> tuple[Tensor, int]:
    x = lift(x)
    place = b.normalise_axes(name, axis, x.ndim)[0]
    return x.moveaxis(place, -1), place


def _order(x: Tensor, descending: bool) -> Tensor:
    keys = x.astype(int32) if x.dtype.kind == "b" else x
    return Tensor(sorting.argsort(keys.node, descending))


@method
def argsort(x: Operand, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Where each element of the sorted tensor is in x, along `axis` (int32). It is stable whatever `stable` says."""
    last, place = _last("argsort", x, axis)
    return _order(last, descending).moveaxis(-1, place)


@method
def sort(x: Operand, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis`.

    Example:
        >>> import vkgrad as vg
        >>> vg.sort(vg.tensor([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]
        >>> vg.grad(lambda x: (vg.sort(x) * vg.tensor([1.0, 2.0, 3.0])).sum())(vg.tensor([0.5, 0.1, 0.1])).tolist()
        [3.0, 1.0, 2.0]
    """
    last, place = _last("sort", x, axis)
    return derived(along(last.node, _order(last, descending).node, permutes=True), last).moveaxis(-1, place)


def topk(x: Operand, k: int, axis: int = -1, largest: bool = True) -> Chosen:
    """The k largest elements along `axis`, the largest first, or the k smallest; of equal ones the first.

    Raises: `ShapeError` when there are fewer than k.
    """
    last, place = _last("topk", x, axis)
    if not 0 <= k <= last.shape[-1]:
        raise ShapeError(f"topk: k = {k} must be at most {last.shape[-1]}, the elements of axis {axis}")
    chosen = _order(last, largest)[..., :k]
    values = derived(along(last.node, chosen.node), last)
    return Chosen(values.moveaxis(-1, place), chosen.moveaxis(-1, place))


def kthvalue(x: Operand, k: int, axis: int = -1, keepdims: bool = False) -> Chosen:
    """The k-th smallest element along `axis`, counted from 1."""
    found = lift(x)
    place = b.normalise_axes("kthvalue", axis, found.ndim)[0]
    if not 1 <= k <= found.shape[place]:
        raise ShapeError(f"kthvalue: k = {k}, and axis {axis} has {found.shape[place]} elements; it counts from 1")
    last = found.moveaxis(place, -1)
    chosen = _order(last, False)[..., k - 1 : k]
    parts = (derived(along(last.node, chosen.node), last).moveaxis(-1, place), chosen.moveaxis(-1, place))
    return Chosen(*(part if keepdims else part.squeeze(place) for part in parts))


def quantile(x: Operand, q: Any, axis: int | None = None, keepdims: bool = False, method: str = "linear") -> Tensor:
    """The value below which a part q of the elements lies; NaN if one of them is. The axes of q come first.

    `method` is what happens between two elements: "linear", "lower", "higher", "nearest" or "midpoint". A q that is a
    tensor is not read: it has a derivative, and gives NaN where it is not between 0 and 1.

    Raises: `OptionError` for q outside 0 to 1 or another method.
    """
    values = floating(x)
    flat = values.reshape(-1) if axis is None else values
    last, place = _last("quantile", flat, axis or 0)
    parts: Any = q.astype(last.dtype) if isinstance(q, Tensor) else np.asarray(q, np.float64)
    if not isinstance(q, Tensor) and parts.size and not (parts.min() >= 0 and parts.max() <= 1):
        raise OptionError(f"quantile: q must lie between 0 and 1, got {q}")
    if last.shape[-1] == 0:
        raise ShapeError("quantile: there are no elements")
    low, high, share = _edges(parts, last.shape[-1], method)
    ordered = sort(last)
    shape = (*parts.shape, *(1 for _ in last.shape[:-1]))
    weight = lift(share).astype(last.dtype).reshape(*shape)
    below, above = (take(ordered, lift(edge).astype(int32), -1) for edge in (low, high))
    if parts.ndim:
        below, above = (y.moveaxis(tuple(range(-parts.ndim, 0)), tuple(range(parts.ndim))) for y in (below, above))
    apart = where(logical_and(isinf(below), above == below), 0, above - below)
    found = below + apart * weight
    found = where(any_of(isnan(last), -1), float("nan"), found)
    if not keepdims:
        return found
    whole = [1] * values.ndim if axis is None else [1 if a == place else e for a, e in enumerate(values.shape)]
    return found.reshape(*parts.shape, *whole)


def _edges(parts: Any, count: int, method: str) -> tuple[Any, Any, Any]:
    """The places below and above each part, and how much of what is above counts: tensors of one, else arrays."""
    # A user's numbers are worked out here, in double precision.
    floor_of, ceil_of, round_of, choose = (
        (floor, ceil, round, where) if isinstance(parts, Tensor) else (np.floor, np.ceil, np.round, np.where)
    )
    at = parts * float(count - 1)
    low, high = floor_of(at), ceil_of(at)
    weights = {
        "linear": at - low, "lower": 0 * at, "higher": 0 * at + 1, "nearest": (round_of(at) != low) * 1.0,
        "midpoint": 0 * at + 0.5,
    }  # fmt: skip
    if method not in weights:
        raise OptionError(f"quantile: method must be one of {', '.join(weights)}, got {method!r}")
    share = weights[method]
    return choose(share == 1, high, low), choose(share == 0, low, high), share


def median(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The middle element, or the mean of the two in the middle; NaN if one of the elements is."""
    return quantile(x, 0.5, axis, keepdims)


def searchsorted(x1: Operand, x2: Operand, *, side: str = "left", sorter: Operand | None = None) -> Tensor:
    """Where in x1, which is sorted along its last axis, each element of x2 belongs (int32).

    Shapes: x1 (..., N) and x2 (..., M) -> (..., M); where x1 has one axis, x2 may have any shape.
    """
    if side not in ("left", "right"):
        raise OptionError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    ordered, values = lift(x1), lift(x2)
    if sorter is not None:
        ordered = take_along_axis(ordered, lift(sorter), -1)
    common = promote(ordered.dtype, values.dtype)
    shape = values.shape
    if ordered.ndim == 1:
        values = values.reshape(-1)
    elif ordered.shape[:-1] != shape[:-1]:
        raise ShapeError(f"searchsorted: {ordered.shape} and {shape} must agree in all axes but the last")
    if ordered.shape[-1] == 0:
        return Tensor(b.constant(0, int32, shape))
    found = sorting.searchsorted(ordered.astype(common).node, values.astype(common).node, side == "right")
    return Tensor(found).reshape(*shape)


# ---- sets
def unique_all(x: Operand, *, size: int | None = None, fill_value: Any = None) -> Unique:
    """The distinct elements of x in order, and where they come from.

    Where `size` is given there are so many, the last repeated, or `fill_value` in its place (with counts of 0); else x
    is read to see how many there are. Each NaN is distinct.
    """
    given = lift(x)
    flat = given.reshape(-1)
    n = flat.size
    if n == 0:
        none = Tensor(b.constant(0, int32, (0,)))
        return Unique(flat, none, none.reshape(*given.shape), none)
    order = _order(flat, False)
    ordered = derived(along(flat.node, order.node, permutes=True), flat)
    is_new = (ordered[1:] != ordered[:-1]).astype(int32)
    rank = Tensor(b.reshape(scan(b.cast(_with_zero(is_new).node, int32), "sum"), (n,)))  # which distinct one it is
    count = rank[-1] + 1
    distinct = int(count) if size is None else size
    first = Tensor(sorting.searchsorted(rank.node, counter(distinct).node))
    end = Tensor(sorting.searchsorted(rank.node, counter(distinct).node, right=True))
    exists = counter(distinct) < count
    at = where(exists, first, _first_of_last(rank, count))
    values = take(ordered, at, 0)
    if fill_value is not None:
        values = where(exists, values, fill_value)
    inverse = Tensor(along(rank.node, sorting.inverse(order.node), permutes=True))
    return Unique(values, take(order, at, 0), inverse.reshape(*given.shape), end - first)


def _with_zero(x: Tensor) -> Tensor:
    """x with a 0 in front."""
    return Tensor(b.build("pad", x.node, low=(1,), high=(0,), interior=(0,), value=0))


def _first_of_last(rank: Tensor, count: Tensor) -> Tensor:
    """Where the last distinct element begins."""
    return Tensor(sorting.searchsorted(rank.node, (count - 1).reshape(1).node))


def unique_values(x: Operand, *, size: int | None = None, fill_value: Any = None) -> Tensor:
    """The distinct elements of x in order; see `unique_all`."""
    return unique_all(x, size=size, fill_value=fill_value).values


def unique_counts(x: Operand, *, size: int | None = None) -> UniqueCounts:
    """The distinct elements of x in order, and how often each occurs."""
    found = unique_all(x, size=size)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Operand, *, size: int | None = None) -> UniqueInverse:
    """The distinct elements of x in order, and for each element of x which it is."""
    found = unique_all(x, size=size)
    return UniqueInverse(found.values, found.inverse_indices)


unique = unique_values


# ---- counting
def bincount(x: Operand, weights: Operand | None = None, minlength: int = 0, *, length: int | None = None) -> Tensor:
    """How often each number from 0 on occurs in x, or the sum of the weights where it does.

    With `length` there are so many counts, and other numbers are left out; else x is read to find its largest.
    """
    numbers = lift(x)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise DTypeError(f"bincount: takes one axis of integers, got {numbers.dtype.name} of shape {numbers.shape}")
    extent = length if length is not None else max(int(numbers.max()) + 1 if numbers.size else 0, minlength)
    if weights is None:
        terms = Tensor(b.constant(1, int32, (*numbers.shape, 1)))
    else:
        terms = lift(weights).reshape(-1, 1)
        if terms.shape[0] != numbers.size:
            raise ShapeError(f"bincount: {terms.shape[0]} weights for {numbers.size} numbers")
    if numbers.size == 0 or extent == 0:
        return Tensor(b.constant(0, terms.dtype, (extent,)))
    return derived(scatter(terms.node, numbers.astype(int32).node, extent), terms).reshape(extent)


def histogram(
    x: Operand,
    bins: int | Any = 10,
    range: tuple[float, float] | None = None,
    weights: Operand | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each bin, and the edges of the bins; the last one holds its right edge.

    `bins` is how many of equal width between the ends of `range` (x is read for them if it is None), or the edges.
    """
    values = floating(x).reshape(-1)
    if isinstance(bins, int | np.integer):
        if range is not None:
            low, high = range
        else:
            low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        if not -math.inf < low <= high < math.inf:
            raise OptionError(f"histogram: bins need a finite range in order, got {low} to {high}; say range=")
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = tensor(np.linspace(low, high, int(bins) + 1), values.dtype)
    else:
        edges = lift(bins).astype(values.dtype)
    count = edges.shape[0] - 1
    which = searchsorted(edges, values, side="right") - 1
    which = where(values == edges[-1], count - 1, which)
    found = bincount(where(isnan(values), -1, which), weights, length=count)
    if density:
        found = found.astype(values.dtype) / (found.sum().astype(values.dtype) * (edges[1:] - edges[:-1]))
    return found, edges
