"""`x[index]`: what NumPy's indexing means, taken apart into a slice, a reshape and a lookup.

Integers, slices, `...` and None are views. Integer arrays are one lookup, however many there are; so is a single bool,
which adds an axis of extent 1 or 0. The shape of what a
mask selects depends on how many places hold: a mask on the device is read to count them, which flushes. Writing
is in `vkgrad.updates`. This module must not know how views and lookups are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.lookup import as_index, nonzero
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import Shape
from vkgrad.ops.indexed import gather
from vkgrad.ops.views import permute, slice_
from vkgrad.tensor import Tensor, derived


@dataclass(frozen=True)
class Region:
    """The places that integers, slices, `...` and None select: a strided box, and its shape as the user sees it.

    `shape` is that of the box without the axes that an integer chose (`dropped`) and with the new ones (None).
    """

    starts: tuple[int, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class Lookup:
    """What integer arrays select once the region is cut out: `axes` of it are replaced by `index` at `place`.

    `index` counts along the axes as if they were one.
    """

    axes: tuple[int, ...]
    index: Tensor
    place: int


def parse(index: Any, shape: Shape) -> tuple[Region, Lookup | None]:
    """Take an index apart.

    Raises: `ShapeError` for an index out of range or too many of them, `DTypeError` for one of the wrong kind.
    """
    entries = _expanded(index, shape)
    starts: list[int] = []
    extents: list[int] = []
    steps: list[int] = []
    seen: list[int] = []  # the shape after slicing, integers and None
    arrays: list[tuple[int, int, Any]] = []  # place in the index, axis of `seen`, array
    integers: list[int] = []
    axis = 0
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            continue
        if entry is None:
            seen.append(1)
            continue
        if isinstance(entry, bool):  # a new axis, all of which is looked up, or none
            arrays.append((place, len(seen), np.zeros(int(entry), np.int32)))
            seen.append(1)
            continue
        extent = shape[axis]
        if isinstance(entry, slice):
            start, stop, step = entry.indices(extent)
            count = len(range(start, stop, step))
            box = (start if count else 0, count, step)
            seen.append(count)
        elif _is_integer(entry):
            if not -extent <= entry < extent:
                raise ShapeError(
                    f"index {int(entry)} is out of range for axis {axis} of shape {shape}"
                    + (f", {-extent} to {extent - 1}" if extent else "")
                )
            box = (int(entry) % extent, 1, 1)
            integers.append(place)
        else:
            box = (0, extent, 1)
            arrays.append((place, len(seen), entry))
            seen.append(extent)
        for whole, part in zip((starts, extents, steps), box, strict=True):
            whole.append(part)
        axis += 1
    region = Region(tuple(starts), tuple(extents), tuple(steps), tuple(seen))
    return region, _lookup(arrays, integers, region.shape) if arrays else None


def is_mask(entry: np.ndarray | Tensor) -> bool:
    return entry.dtype.kind == "b" and entry.ndim > 0


def _is_integer(entry: Any) -> bool:
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool | np.bool_)


def _read(entry: Any) -> Any:
    """One entry of an index: sequences as arrays, masks without axes as a bool."""
    if isinstance(entry, list | tuple | range):
        entry = np.asarray(entry, None if len(entry) else np.int32)
    is_array = isinstance(entry, np.ndarray | Tensor)
    if isinstance(entry, bool | np.bool_) or (is_array and entry.dtype.kind == "b" and not entry.ndim):
        return bool(entry)
    if is_array or entry is None or entry is Ellipsis or isinstance(entry, slice) or _is_integer(entry):
        return entry
    shown = f"the float {entry}; // gives a whole quotient" if isinstance(entry, float) else type(entry).__name__
    raise DTypeError(f"indices are integers, slices, '...', None or integer arrays, not {shown}")


def _axes_of(entry: Any) -> int:
    """How many axes of the tensor an entry stands for; `...` for those that are left."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    return entry.ndim if isinstance(entry, np.ndarray | Tensor) and is_mask(entry) else 1


def _expanded(index: Any, shape: Shape) -> list[Any]:
    """One entry per axis (and per None and bool), without masks, and without `...` unless it stands for no axis."""
    entries = [_read(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    named = sum(map(_axes_of, entries))
    dots = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("an index can have only one '...'")
    if named > len(shape):
        raise ShapeError(f"{named} indices are too many for shape {shape}, which has {len(shape)} axes")
    at = dots[0] if dots else len(entries)
    # NumPy: '...' stands between two arrays even where it stands for no axis.
    rest: list[Any] = [slice(None)] * (len(shape) - named)
    entries[at : at + 1] = rest or ([Ellipsis] if dots else [])
    expanded: list[Any] = []
    axis = 0
    for entry in entries:
        count = _axes_of(entry)
        if isinstance(entry, np.ndarray | Tensor) and is_mask(entry):
            if entry.shape != shape[axis : axis + count]:
                raise ShapeError(
                    f"a mask of shape {entry.shape} does not cover axes {axis} on of shape {shape}"
                    + _elsewhere(entry.shape, shape)
                )
            expanded.extend(nonzero(entry) if isinstance(entry, Tensor) else np.nonzero(entry))
        else:
            expanded.append(entry)
        axis += count
    return expanded


def _elsewhere(mask: Shape, shape: Shape) -> str:
    """Where a mask would fit, if behind other axes."""
    for first in range(1, len(shape) - len(mask) + 1):
        if shape[first : first + len(mask)] == mask:
            return f"; x[{':, ' * first}mask] covers those that it fits"
    return ""


def _lookup(arrays: Sequence[tuple[int, int, Any]], integers: Sequence[int], shape: Shape) -> Lookup:
    axes = tuple(axis for _, axis, _ in arrays)
    indices = [as_index("index", array, shape[axis]) for _, axis, array in arrays]
    b.broadcast_shapes("index", *(index.shape for index in indices))
    flat = indices[0]
    for axis, index in zip(axes[1:], indices[1:], strict=True):
        flat = flat * shape[axis] + index
    # NumPy: the new axes stand where the arrays stood, or first if a slice or None lies between arrays or integers.
    places = sorted([place for place, _, _ in arrays] + list(integers))
    together = places == list(range(places[0], places[-1] + 1))
    return Lookup(axes, flat, axes[0] if together else 0)


def cut(node: Node, region: Region) -> Node:
    """The elements of the region."""
    return b.reshape(slice_(node, region.starts, region.extents, region.steps), region.shape)


def merge(node: Node, lookup: Lookup) -> tuple[Node, list[int]]:
    """`node` with the axes of the lookup joined into one at its place, and the order that brought them there."""
    others = [a for a in range(node.ndim) if a not in lookup.axes]
    order = others[: lookup.place] + list(lookup.axes) + others[lookup.place :]
    moved = permute(node, order)
    joined = math.prod(node.shape[a] for a in lookup.axes)
    after = lookup.place + len(lookup.axes)
    return b.reshape(moved, (*moved.shape[: lookup.place], joined, *moved.shape[after:])), order


def getitem(x: Tensor, index: Any) -> Tensor:
    """`x[index]` by NumPy's rules. An index tensor that is out of range reads NaN (0 for integers)."""
    region, lookup = parse(index, x.shape)
    node = cut(x.node, region)
    if lookup is not None:
        node = gather(merge(node, lookup)[0], lookup.index.node, lookup.place)
    return derived(node, x)


Tensor.__getitem__ = getitem
