"""Functions that pad, cut, join and repeat tensors. Padding and cutting are views; joining is one kernel.

This module must not know how a layout is stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import where
from vkgrad.functions.lookup import take
from vkgrad.functions.shapes import along_axis, broadcast_arrays, expand_dims, flatten, reshape, squeeze
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, int32, promote
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.ops.joining import join
from vkgrad.ops.scans import scan
from vkgrad.ops.sorting import searchsorted
from vkgrad.tensor import Operand, Scalar, Tensor, derived, lift, method

__all__ = [
    "concat", "concatenate", "meshgrid", "pad", "repeat", "roll", "split", "stack", "tile", "unstack",
]  # fmt: skip

Axes = int | Sequence[int]


def pad(
    x: Operand, pad_width: int | Sequence[Any], constant_values: Operand = 0, *, interior: int | Sequence[int] = 0
) -> Tensor:
    """Surround each axis with `constant_values`; a negative width cuts instead.

    `pad_width` is one number for all, one pair (before, after) for all axes, or a pair per axis. `interior` is how many
    places are put between neighbours, one number for all axes or one for each.
    """
    x = lift(x)
    between = [interior] * x.ndim if isinstance(interior, int) else [*interior]
    if len(between) != x.ndim or any(places < 0 for places in between):
        raise ShapeError(f"pad: interior must be one number, not below 0, for each of {x.ndim} axes; got {interior}")
    shape = tuple(e + max(e - 1, 0) * places for e, places in zip(x.shape, between, strict=True))
    low, high = zip(*_pad_widths(pad_width, x.ndim), strict=True) if x.ndim else ((), ())
    if any(min(before, 0) + min(after, 0) + extent < 0 for before, after, extent in zip(low, high, shape, strict=True)):
        raise ShapeError(f"pad: widths {pad_width} cut more than there is of shape {x.shape}")
    if not isinstance(constant_values, int | float):  # of a tensor, which is not read
        inside = Tensor(padded(b.constant(True, bool_, x.shape), low, high, 0, between))
        return where(inside, derived(padded(x.node, low, high, 0, between), x), lift(constant_values).astype(x.dtype))
    return derived(padded(x.node, low, high, constant_values, between), x)


def _pad_widths(pad_width: int | Sequence[Any], ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, int):
        return [(pad_width, pad_width)] * ndim
    if len(pad_width) == 2 and all(isinstance(width, int) for width in pad_width):
        return [tuple(pad_width)] * ndim
    if len(pad_width) != ndim or any(isinstance(pair, int) or len(pair) != 2 for pair in pad_width):
        raise ShapeError(f"pad: needs a number, a pair, or one pair for each of {ndim} axes; got {pad_width}")
    return [tuple(pair) for pair in pad_width]


def padded(
    node: Node, low: Sequence[int], high: Sequence[int], value: Scalar = 0, interior: Sequence[int] = ()
) -> Node:
    """`node` with `value` around it and `interior` places between neighbours; negative amounts cut."""
    interior = tuple(interior) or (0,) * node.ndim
    # The gradients' own pads have a plain 0, and equal nodes are computed once.
    value = 0 if not value and math.copysign(1, value) > 0 else float(value) if node.dtype.kind == "f" else int(value)
    if any(interior):
        node = views.pad(node, (0,) * node.ndim, (0,) * node.ndim, interior, value)
    starts = [max(-before, 0) for before in low]
    extents = [e - s - max(-after, 0) for e, s, after in zip(node.shape, starts, high, strict=True)]
    node = views.slice_(node, [s if e else 0 for s, e in zip(starts, extents, strict=True)], extents, [1] * node.ndim)
    return views.pad(node, [max(w, 0) for w in low], [max(w, 0) for w in high], None, value)


def concat(tensors: Sequence[Operand], axis: int | None = 0) -> Tensor:
    """Join tensors along an axis (None: flatten them first). They take a common type.

    Raises: `ShapeError` when there are none or other extents differ.
    """
    pieces = [lift(x) if axis is not None else flatten(x) for x in tensors]
    if not pieces:
        raise ShapeError("concat: needs at least one tensor")
    along = along_axis("concat", axis or 0, pieces[0].ndim)
    for piece in pieces[1:]:
        if piece.ndim != pieces[0].ndim or any(
            mine != first
            for a, (mine, first) in enumerate(zip(piece.shape, pieces[0].shape, strict=True))
            if a != along
        ):
            raise ShapeError(
                f"concat: shapes {', '.join(str(p.shape) for p in pieces)} differ on other axes than axis {along}"
                f"{_other_axis(pieces)}"
            )
    dtype = promote(*(piece.dtype for piece in pieces))
    return derived(join([b.cast(piece.node, dtype) for piece in pieces], along), *pieces)


def _other_axis(pieces: Sequence[Tensor]) -> str:
    """The axis along which tensors can be joined, if they differ on one."""
    if any(piece.ndim != pieces[0].ndim for piece in pieces):
        return "; they need as many axes as one another"
    differing = [a for a, extents in enumerate(zip(*(p.shape for p in pieces), strict=True)) if len(set(extents)) > 1]
    return f"; axis={differing[0]} joins them" if len(differing) == 1 else ""


concatenate = concat  # NumPy's name


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    pieces = [lift(x) for x in tensors]
    if not pieces or any(piece.shape != pieces[0].shape for piece in pieces):
        raise ShapeError(
            f"stack: needs tensors of one shape, got {[piece.shape for piece in pieces]}; vg.concat joins along "
            "an axis that is there"
        )
    return concat([expand_dims(piece, axis) for piece in pieces], axis)


def unstack(x: Operand, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, without that axis."""
    x = lift(x)
    along = along_axis("unstack", axis, x.ndim)
    return tuple(squeeze(piece, along) for piece in split(x, [*range(1, x.shape[along])], along))


@method
def split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut along `axis` into that many equal parts, or before each of the given positions.

    Raises: `ShapeError` when the extent does not divide into equal parts.
    """
    x = lift(x)
    along = along_axis("split", axis, x.ndim)
    extent = x.shape[along]
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1 or extent % parts:
            raise ShapeError(
                f"split: extent {extent} of axis {along} does not divide into {parts} equal parts; a list says where "
                "to cut"
            )
        cuts = [extent // parts * part for part in range(parts + 1)]
    else:
        cuts = [0, *(min(c + extent if c < 0 else c, extent) for c in indices_or_sections), extent]
    return [_part(x, along, start, max(stop - start, 0)) for start, stop in pairwise(cuts)]


def _part(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    starts, extents = [0] * x.ndim, list(x.shape)
    starts[axis], extents[axis] = start if count else 0, count
    return derived(views.slice_(x.node, starts, extents, [1] * x.ndim), x)


def tile(x: Operand, repetitions: int | Sequence[int]) -> Tensor:
    """The whole tensor repeated along each axis, as often as `repetitions` says."""
    x = lift(x)
    times = [repetitions] if isinstance(repetitions, int) else list(repetitions)
    if any(t < 0 for t in times):
        raise ShapeError(f"tile: nothing is repeated {min(times)} times")
    ndim = max(len(times), x.ndim)
    times = [1] * (ndim - len(times)) + times
    shape = (1,) * (ndim - x.ndim) + x.shape
    node = b.reshape(x.node, tuple(extent for e in shape for extent in (1, e)))
    node = b.expand(node, tuple(extent for t, e in zip(times, shape, strict=True) for extent in (t, e)))
    return derived(b.reshape(node, tuple(t * e for t, e in zip(times, shape, strict=True))), x)


@method
def repeat(x: Operand, repeats: Any, axis: int | None = None, *, size: int | None = None) -> Tensor:
    """Each element (of the flattened tensor if `axis` is None) repeated in place.

    `repeats` is one number, or one for each place along `axis`. How many that makes in all is read from a tensor,
    unless `size` says it.
    """
    x = flatten(x) if axis is None else lift(x)
    along = along_axis("repeat", axis or 0, x.ndim)
    if isinstance(repeats, Tensor) or np.ndim(repeats):
        return _repeated(x, lift(repeats), along, size)
    repeats = int(repeats)
    if repeats < 0:
        raise ShapeError(f"repeat: nothing is repeated {repeats} times")
    before, extent, after = x.shape[:along], x.shape[along], x.shape[along + 1 :]
    node = b.expand(b.reshape(x.node, (*before, extent, 1, *after)), (*before, extent, repeats, *after))
    return derived(b.reshape(node, (*before, extent * repeats, *after)), x)


def _repeated(x: Tensor, repeats: Tensor, along: int, size: int | None) -> Tensor:
    """x with each place along an axis as often as `repeats` says: a lookup of the place that each result is from."""
    if repeats.shape not in ((), (1,), (x.shape[along],)) or repeats.dtype.kind not in "iu":
        raise ShapeError(
            f"repeat: needs one integer, or one for each of {x.shape[along]} places; got {repeats.dtype.name} of shape "
            f"{repeats.shape}"
        )
    times = b.expand(b.cast(repeats.node, int32), (x.shape[along],))
    ends = Tensor(scan(times, "sum"))
    count = (int(ends[-1]) if x.shape[along] else 0) if size is None else size
    if count == 0:
        return _part(x, along, 0, 0)
    return take(x, Tensor(searchsorted(ends.node, counter(count).node, right=True)), along)


def roll(x: Operand, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Elements moved on by `shift` along `axis` (the flattened tensor if None); the last ones come in at the front.

    There may be several axes, and a shift for each or one for all; several shifts along one axis add up.
    """
    x = lift(x)
    if axis is None:
        return reshape(roll(flatten(x), shift, 0), x.shape)
    axes = [axis] if isinstance(axis, int) else [*axis]
    shifts = [shift] * len(axes) if isinstance(shift, int) else [*shift]
    axes = axes * len(shifts) if len(axes) == 1 else axes
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(axes) != len(shifts):
        raise ShapeError(f"roll: {len(shifts)} shifts do not go with {len(axes)} axes; give one for each, or one")
    for a, amount in zip(axes, shifts, strict=True):
        along = along_axis("roll", a, x.ndim)
        if x.shape[along] and (amount := amount % x.shape[along]):
            x = concat(split(x, [x.shape[along] - amount], along)[::-1], along)
    return x


def meshgrid(*tensors: Operand, indexing: str = "xy") -> list[Tensor]:
    """Grids of coordinates from one-axis tensors; `indexing="xy"` swaps the first two axes, as NumPy does."""
    if indexing not in ("xy", "ij"):
        raise OptionError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    lines = [flatten(x) for x in tensors]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = 1, 0
    spread = [
        reshape(line, tuple(line.size if a == position else 1 for a in range(len(lines))))
        for line, position in zip(lines, order, strict=True)
    ]
    return broadcast_arrays(*spread)
