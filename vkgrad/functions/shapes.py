"""Functions that move elements without computing: the views, and what is put together from views.

reshape, permute, expand, slice, flip and pad cost nothing by themselves; joining tensors is one kernel. This module must
not know how a layout is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape, place
from vkgrad.functions.elementwise import where
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.tensor import Operand, Scalar, Tensor, derived, lift, method

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "concatenate", "diagonal", "expand_dims", "flatten", "flip", "matrix_transpose",
    "meshgrid", "moveaxis", "pad", "permute_dims", "ravel", "repeat", "reshape", "roll", "split", "squeeze",
    "stack", "swapaxes", "tile", "trace", "transpose", "unstack",
]  # fmt: skip

Axes = int | Sequence[int]


def _axis(name: str, axis: int, ndim: int) -> int:
    return b.normalise_axes(name, axis, ndim)[0]


def _view(x: Tensor, move: Callable[..., Node], *arguments: Any) -> Tensor:
    return derived(move(x.node, *arguments), x)


# ---- new extents
@method
def reshape(x: Operand, *shape: int | Sequence[int]) -> Tensor:
    """The same elements in row-major order under another shape; one extent may be -1, which takes what is left.

    Raises: `ShapeError` when the numbers of elements differ.

    Example:
        >>> import vkgrad as vg
        >>> vg.zeros((2, 6)).reshape(3, -1).shape
        (3, 4)
    """
    x = lift(x)
    wanted = [int(e) for e in (shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)]  # type: ignore[union-attr, arg-type]
    if wanted.count(-1) == 1:
        rest = math.prod(extent for extent in wanted if extent != -1)
        if rest == 0 or x.size % rest:
            raise ShapeError(f"reshape: {x.size} elements of shape {x.shape} do not divide into {tuple(wanted)}")
        wanted[wanted.index(-1)] = x.size // rest
    return _view(x, b.reshape, as_shape("reshape", wanted))


@method
def flatten(x: Operand, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the axes from `start_dim` to `end_dim` into one."""
    x = lift(x)
    if x.ndim == 0:
        return reshape(x, 1)
    first, last = _axis("flatten", start_dim, x.ndim), _axis("flatten", end_dim, x.ndim)
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} lies after end_dim {end_dim}")
    return _view(x, b.reshape, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def ravel(x: Operand) -> Tensor:
    """All elements in one axis."""
    return flatten(x)


@method
def expand_dims(x: Operand, axis: Axes) -> Tensor:
    """Insert axes of extent 1, so that they stand at `axis` of the result."""
    x = lift(x)
    ndim = x.ndim + (1 if isinstance(axis, int) else len(axis))
    inserted = b.normalise_axes("expand_dims", axis, ndim)
    rest = iter(x.shape)
    return _view(x, b.reshape, tuple(1 if a in inserted else next(rest) for a in range(ndim)))


@method
def squeeze(x: Operand, axis: Axes | None = None) -> Tensor:
    """Remove axes of extent 1: the named ones, or all of them.

    Raises: `ShapeError` when a named axis has another extent.
    """
    x = lift(x)
    if axis is None:
        return _view(x, b.reshape, tuple(extent for extent in x.shape if extent != 1))
    removed = b.normalise_axes("squeeze", axis, x.ndim)
    if wide := [a for a in removed if x.shape[a] != 1]:
        raise ShapeError(f"squeeze: axis {wide[0]} of shape {x.shape} has extent {x.shape[wide[0]]}, not 1")
    return _view(x, b.reshape, tuple(extent for a, extent in enumerate(x.shape) if a not in removed))


@method
def broadcast_to(x: Operand, shape: Sequence[int]) -> Tensor:
    """Repeat axes of extent 1, and add leading ones, until the shape is `shape`."""
    x, wanted = lift(x), as_shape("broadcast_to", shape)
    if b.broadcast_shapes("broadcast_to", x.shape, wanted) != wanted:
        raise ShapeError(f"broadcast_to: shape {x.shape} does not broadcast to {wanted}")
    return _view(x, b.expand, wanted)


def broadcast_arrays(*tensors: Operand) -> list[Tensor]:
    """All operands broadcast to their common shape."""
    lifted = [lift(x) for x in tensors]
    shape = b.broadcast_shapes("broadcast_arrays", *(x.shape for x in lifted))
    return [_view(x, b.expand, shape) for x in lifted]


# ---- order of axes and elements
@method
def transpose(x: Operand, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order; reversed if none is given."""
    x = lift(x)
    order = range(x.ndim)[::-1] if axes is None else [a % x.ndim if -x.ndim <= a < x.ndim else a for a in axes]
    return _view(x, views.permute, tuple(order))


@method
def permute(x: Operand, *axes: int | Sequence[int]) -> Tensor:
    """The axes in the order `axes`, given as numbers or as one sequence."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return transpose(x, order)  # type: ignore[arg-type]


def permute_dims(x: Operand, axes: Sequence[int]) -> Tensor:
    """The axes in the order `axes`."""
    return transpose(x, axes)


def matrix_transpose(x: Operand) -> Tensor:
    """The last two axes swapped."""
    return lift(x).mT


@method
def swapaxes(x: Operand, axis1: int, axis2: int) -> Tensor:
    """Two axes swapped."""
    x = lift(x)
    order = list(range(x.ndim))
    first, second = _axis("swapaxes", axis1, x.ndim), _axis("swapaxes", axis2, x.ndim)
    order[first], order[second] = second, first
    return _view(x, views.permute, tuple(order))


@method
def moveaxis(x: Operand, source: Axes, destination: Axes) -> Tensor:
    """The axes `source` moved to `destination`; the others keep their order."""
    x = lift(x)
    from_, to = (
        [_axis("moveaxis", a, x.ndim) for a in ([axes] if isinstance(axes, int) else axes)]
        for axes in (source, destination)
    )
    if len(from_) != len(to) or len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise ShapeError(f"moveaxis: source {source} and destination {destination} must be as many distinct axes")
    order = [a for a in range(x.ndim) if a not in from_]
    for position, axis in sorted(zip(to, from_, strict=True)):
        order.insert(position, axis)
    return _view(x, views.permute, tuple(order))


@method
def flip(x: Operand, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along `axis` (all axes if None)."""
    x = lift(x)
    return _view(x, views.flip, b.normalise_axes("flip", axis, x.ndim))


@method
def diagonal(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements where coordinate `axis2` is coordinate `axis1` plus `offset`; they become the last axis."""
    x = lift(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs at least 2 axes, got shape {x.shape}")
    rows, columns = _axis("diagonal", axis1, x.ndim), _axis("diagonal", axis2, x.ndim)
    if rows == columns:
        raise ShapeError(f"diagonal: axis1 and axis2 are both axis {rows}")
    starts, extents = [0] * x.ndim, list(x.shape)
    starts[rows], starts[columns] = max(-offset, 0), max(offset, 0)
    length = max(min(x.shape[rows] - starts[rows], x.shape[columns] - starts[columns]), 0)
    extents[rows] = extents[columns] = length
    if length == 0:
        starts = [0] * x.ndim
    node = views.diagonal(views.slice_(x.node, starts, extents, [1] * x.ndim), rows, columns)
    where_now = rows - (columns < rows)
    return derived(views.permute(node, [*(a for a in range(node.ndim) if a != where_now), where_now]), x)


def trace(x: Operand, offset: int = 0) -> Tensor:
    """The sum of a diagonal of the last two axes, as the array API standard has it."""
    return diagonal(x, offset, -2, -1).sum(-1)


# ---- padding and joining
def pad(x: Operand, pad_width: int | Sequence[Any], constant_values: Scalar = 0) -> Tensor:
    """Surround each axis with `constant_values`; a negative width cuts instead.

    `pad_width` is one number for all, one pair (before, after) for all axes, or a pair per axis.
    """
    x = lift(x)
    low, high = zip(*_pad_widths(pad_width, x.ndim), strict=True) if x.ndim else ((), ())
    if any(min(before, 0) + min(after, 0) + extent < 0 for before, after, extent in zip(low, high, x.shape, strict=True)):
        raise ShapeError(f"pad: widths {pad_width} cut more than there is of shape {x.shape}")
    return derived(padded(x.node, low, high, constant_values), x)


def _pad_widths(pad_width: int | Sequence[Any], ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, int):
        return [(pad_width, pad_width)] * ndim
    if len(pad_width) == 2 and all(isinstance(width, int) for width in pad_width):
        return [tuple(pad_width)] * ndim
    if len(pad_width) != ndim or any(isinstance(pair, int) or len(pair) != 2 for pair in pad_width):
        raise ShapeError(f"pad: needs a number, a pair, or one pair for each of {ndim} axes; got {pad_width}")
    return [tuple(pair) for pair in pad_width]


def padded(node: Node, low: Sequence[int], high: Sequence[int], value: Scalar = 0, interior: Sequence[int] = ()) -> Node:
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
    along = _axis("concat", axis or 0, pieces[0].ndim)
    for piece in pieces[1:]:
        if piece.ndim != pieces[0].ndim or any(
            mine != first for a, (mine, first) in enumerate(zip(piece.shape, pieces[0].shape, strict=True)) if a != along
        ):
            raise ShapeError(
                f"concat: shapes {', '.join(str(p.shape) for p in pieces)} differ on other axes than {along}"
            )
    dtype = promote(*(piece.dtype for piece in pieces))
    total = sum(piece.shape[along] for piece in pieces)
    shape = tuple(total if a == along else extent for a, extent in enumerate(pieces[0].shape))
    # Every piece is padded to the full extent, and the place along the axis chooses: one kernel, and bits stay as they
    # are (a sum of the padded pieces would turn -0.0 into 0.0).
    joined: Tensor | None = None
    end = total
    for piece in reversed(pieces):
        start = end - piece.shape[along]
        low, high = [0] * len(shape), [0] * len(shape)
        low[along], high[along] = start, total - end
        if piece.shape[along]:
            wide = derived(views.pad(b.cast(piece.node, dtype), low, high), piece)
            joined = wide if joined is None else where(place(shape, along) < end, wide, joined)
        end = start
    return joined if joined is not None else pieces[0].astype(dtype)


concatenate = concat  # NumPy's name


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    pieces = [lift(x) for x in tensors]
    if not pieces or any(piece.shape != pieces[0].shape for piece in pieces):
        raise ShapeError(f"stack: needs tensors of one shape, got {[piece.shape for piece in pieces]}")
    return concat([expand_dims(piece, axis) for piece in pieces], axis)


def unstack(x: Operand, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, without that axis."""
    x = lift(x)
    along = _axis("unstack", axis, x.ndim)
    return tuple(squeeze(piece, along) for piece in split(x, [*range(1, x.shape[along])], along))


@method
def split(x: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut along `axis` into that many equal parts, or before each of the given positions.

    Raises: `ShapeError` when the extent does not divide into equal parts.
    """
    x = lift(x)
    along = _axis("split", axis, x.ndim)
    extent = x.shape[along]
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1 or extent % parts:
            raise ShapeError(f"split: extent {extent} of axis {along} does not divide into {parts} equal parts")
        cuts = [extent // parts * part for part in range(parts + 1)]
    else:
        cuts = [0, *(min(c + extent if c < 0 else c, extent) for c in indices_or_sections), extent]
    return [_part(x, along, start, max(stop - start, 0)) for start, stop in zip(cuts[:-1], cuts[1:], strict=True)]


def _part(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    starts, extents = [0] * x.ndim, list(x.shape)
    starts[axis], extents[axis] = start if count else 0, count
    return _view(x, views.slice_, starts, extents, [1] * x.ndim)


def tile(x: Operand, repetitions: int | Sequence[int]) -> Tensor:
    """The whole tensor repeated along each axis, as often as `repetitions` says."""
    x = lift(x)
    times = [repetitions] if isinstance(repetitions, int) else list(repetitions)
    ndim = max(len(times), x.ndim)
    times = [1] * (ndim - len(times)) + times
    shape = (1,) * (ndim - x.ndim) + x.shape
    node = b.reshape(x.node, tuple(extent for e in shape for extent in (1, e)))
    node = b.expand(node, tuple(extent for t, e in zip(times, shape, strict=True) for extent in (t, e)))
    return derived(b.reshape(node, tuple(t * e for t, e in zip(times, shape, strict=True))), x)


@method
def repeat(x: Operand, repeats: int, axis: int | None = None) -> Tensor:
    """Each element (of the flattened tensor if `axis` is None) repeated in place."""
    x = flatten(x) if axis is None else lift(x)
    along = _axis("repeat", axis or 0, x.ndim)
    before, extent, after = x.shape[:along], x.shape[along], x.shape[along + 1 :]
    node = b.expand(b.reshape(x.node, (*before, extent, 1, *after)), (*before, extent, repeats, *after))
    return derived(b.reshape(node, (*before, extent * repeats, *after)), x)


def roll(x: Operand, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Elements moved on by `shift` along `axis` (the flattened tensor if None); what leaves at the end comes in again."""
    x = lift(x)
    if axis is None:
        return reshape(roll(flatten(x), shift, 0), x.shape)
    axes = [axis] if isinstance(axis, int) else axis
    shifts = [shift] * len(axes) if isinstance(shift, int) else shift
    for a, amount in zip(axes, shifts, strict=True):
        along = _axis("roll", a, x.ndim)
        if x.shape[along] and (amount := amount % x.shape[along]):
            x = concat(split(x, [x.shape[along] - amount], along)[::-1], along)
    return x


def meshgrid(*tensors: Operand, indexing: str = "xy") -> list[Tensor]:
    """Grids of coordinates from one-axis tensors; `indexing="xy"` swaps the first two axes, as NumPy does."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    lines = [flatten(x) for x in tensors]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = 1, 0
    spread = [
        reshape(line, tuple(line.size if a == position else 1 for a in range(len(lines))))
        for line, position in zip(lines, order, strict=True)
    ]
    return broadcast_arrays(*spread)
