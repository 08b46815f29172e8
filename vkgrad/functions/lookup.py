"""Functions that pick elements by position, and those that send them there: `take`, `segment_sum` and their relatives.

Indices that come as NumPy arrays or lists are checked before they are uploaded. A kernel cannot raise: where an index
is already on the device and out of range, reading gives NaN (0 for integers), and what is sent there goes nowhere. This
module must not know how a lookup is computed.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_integers, counter
from vkgrad.functions.elementwise import minimum, where
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.ops.indexed import along, gather, scatter
from vkgrad.ops.scans import scan
from vkgrad.ops.sorting import searchsorted
from vkgrad.tensor import Operand, Tensor, derived, host_elements, lift, method, tensor

__all__ = [
    "index_add", "nonzero", "scatter_add", "segment_max", "segment_min", "segment_prod", "segment_sum", "take",
    "take_along_axis",
]  # fmt: skip


def as_index(name: str, index: Any, extent: int) -> Tensor:
    """`index` as an integer tensor that counts from 0; negative ones count from the end.

    Raises: `ShapeError` when one that is known on the host is out of range, `DTypeError` when it is not of integers.
    """
    if not isinstance(index, Tensor):
        array = np.asarray(index)
        if array.size == 0:
            array = array.astype(np.int32)
        as_integers(name, "an index", array.dtype)
        _in_range(name, array, extent)
        return tensor(np.where(array < 0, array + extent, array), int32)
    as_integers(name, "an index", index.dtype)
    if (known := host_elements(index)) is not None:
        _in_range(name, known, extent)
    if index.dtype.size_bytes < 4:  # `extent` may be more than it can hold
        index = index.astype(int32)
    return where(index < 0, index + extent, index) if index.dtype.kind == "i" else index


def _in_range(name: str, array: np.ndarray, extent: int) -> None:
    if array.size and not (array.min() >= -extent and array.max() < extent):
        outside = int(array[(array < -extent) | (array >= extent)].flat[0])
        known = f"{extent} places, 0 to {extent - 1}" if extent else "an axis without places"
        raise ShapeError(f"{name}: index {outside} is out of range for {known}")


@method
def take(x: Operand, indices: Any, axis: int | None = None) -> Tensor:
    """The slices of x at `indices` along `axis` (of the flattened tensor if None).

    Shapes: x (..., N, ...), indices (*I) -> (..., *I, ...).
    """
    source: Tensor = lift(x) if axis is not None else lift(x).reshape(-1)
    along = b.normalise_axes("take", axis or 0, source.ndim)[0]
    return derived(gather(source.node, as_index("take", indices, source.shape[along]).node, along), source)


def take_along_axis(x: Operand, indices: Any, axis: int = -1) -> Tensor:
    """One element of x for each index: `out[i, j] = x[i, indices[i, j]]` for the last of two axes.

    Shapes: x and indices have as many axes; all but `axis` broadcast.
    """
    x = lift(x)
    place = b.normalise_axes("take_along_axis", axis, x.ndim)[0]
    index = as_index("take_along_axis", indices, x.shape[place])
    if index.ndim != x.ndim:
        raise ShapeError(f"take_along_axis: indices of shape {index.shape} must have as many axes as x {x.shape}")
    wide, wanted = x.moveaxis(place, -1), index.moveaxis(place, -1)
    lead = b.broadcast_shapes("take_along_axis", wide.shape[:-1], wanted.shape[:-1])
    node = along(b.expand(wide.node, (*lead, wide.shape[-1])), b.expand(wanted.node, (*lead, wanted.shape[-1])))
    return derived(node, x).moveaxis(-1, place)


def nonzero(x: Operand, *, size: int | None = None) -> tuple[Tensor, ...]:
    """Where x is not zero, in row-major order: for each axis of x, the coordinates of these places (int32).

    Where `size` is given there are so many, the last repeated; else x is read to see how many there are.

    Example:
        >>> import vkgrad as vg
        >>> [axis.tolist() for axis in vg.nonzero(vg.tensor([[0, 1], [2, 3]]))]
        [[0, 1, 1], [1, 0, 1]]
    """
    given = lift(x)
    if given.ndim == 0:
        raise ShapeError("nonzero: takes a tensor with at least one axis; use .reshape(1) first")
    holds = (given if given.dtype.kind == "b" else given != 0).reshape(-1)
    if given.size == 0:
        return tuple(Tensor(b.constant(0, int32, (0,))) for _ in range(given.ndim))
    seen = Tensor(scan(holds.astype(int32).node, "sum"))  # how many of them there are up to each place
    count = seen[-1]
    some = int(count) if size is None else size
    wanted = minimum(counter(some) + 1, count)
    places = Tensor(searchsorted(seen.node, wanted.node))
    coordinates = []
    for extent in reversed(given.shape):
        coordinates.append(places % extent)
        places = places // extent
    return tuple(reversed(coordinates))


def _sent(name: str, ids: Operand, data: Operand, extent: int, join: str) -> Tensor:
    """The rows of data joined by the number in `ids`."""
    values, index = lift(data), lift(ids)
    index = index.astype(index.dtype.computed)
    as_integers(name, "an index", index.dtype)
    if values.shape[: index.ndim] != index.shape:
        raise ShapeError(f"{name}: ids of shape {index.shape} must number the first axes of data {values.shape}")
    tail = values.shape[index.ndim :]
    rows = b.reshape(values.node, (index.size, prod(tail)))
    node = scatter(rows, b.reshape(index.node, (index.size,)), extent, join)
    return derived(b.reshape(node, (extent, *tail)), values)


def segment_sum(data: Operand, segment_ids: Operand, num_segments: int) -> Tensor:
    """The sum of the rows of each segment, in one fixed order; ids out of range are left out.

    Shapes: data (*I, ...), segment_ids (*I) -> (num_segments, ...).
    """
    return _sent("segment_sum", segment_ids, data, num_segments, "sum")


def segment_prod(data: Operand, segment_ids: Operand, num_segments: int) -> Tensor:
    """The product of the rows of each segment; 1 for one that has none. Shapes as for `segment_sum`."""
    return _sent("segment_prod", segment_ids, data, num_segments, "prod")


def segment_max(data: Operand, segment_ids: Operand, num_segments: int) -> Tensor:
    """The largest of the rows of each segment; the least number there is for one that has none."""
    return _sent("segment_max", segment_ids, data, num_segments, "max")


def segment_min(data: Operand, segment_ids: Operand, num_segments: int) -> Tensor:
    """The smallest of the rows of each segment; the greatest number there is for one that has none."""
    return _sent("segment_min", segment_ids, data, num_segments, "min")


def index_add(x: Operand, axis: int, index: Any, source: Operand) -> Tensor:
    """x with the slices of `source` added at `index` along `axis`; those that go to one place add up."""
    x = lift(x)
    place = b.normalise_axes("index_add", axis, x.ndim)[0]
    where_to = as_index("index_add", index, x.shape[place])
    values = lift(source).astype(x.dtype).moveaxis(place, 0)
    return x + _sent("index_add", where_to, values, x.shape[place], "sum").moveaxis(0, place)


def scatter_add(x: Operand, axis: int, index: Any, source: Operand) -> Tensor:
    """x with `source[i, j]` added at `x[i, index[i, j]]`, for the last of two axes; the reverse of `take_along_axis`.

    Shapes: index and source are alike, and have the extents of x along all axes but `axis`.
    """
    x = lift(x)
    place = b.normalise_axes("scatter_add", axis, x.ndim)[0]
    where_to, values = as_index("scatter_add", index, x.shape[place]), lift(source).astype(x.dtype)
    others = [tuple(e for a, e in enumerate(y.shape) if a != place) for y in (x, where_to, values)]
    if where_to.shape != values.shape or others[0] != others[1]:
        raise ShapeError(
            f"scatter_add: index {where_to.shape} and source {values.shape} must be alike, and have the extents of x "
            f"{x.shape} along all axes but {axis}"
        )
    last = values.moveaxis(place, -1)
    node = scatter(last.expand_dims(-1).node, where_to.moveaxis(place, -1).node, x.shape[place])
    return x + derived(b.reshape(node, node.shape[:-1]), values).moveaxis(-1, place)
