"""Functions that say where elements are without moving one: the views. They cost nothing by themselves.

This module must not know how a layout is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from vkgrad.errors import ArgumentError, ShapeError
from vkgrad.functions.creation import as_shape
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.tensor import Operand, Tensor, derived, lift, method

__all__ = [
    "broadcast_arrays", "broadcast_to", "diagonal", "expand_dims", "flatten", "flip", "matrix_transpose",
    "moveaxis", "permute_dims", "ravel", "reshape", "squeeze", "swapaxes", "trace", "transpose",
]  # fmt: skip

Axes = int | Sequence[int]


def along_axis(name: str, axis: int, ndim: int) -> int:
    """One axis as a number from 0. Raises `ShapeError` when there is no such axis."""
    return b.normalise_axes(name, axis, ndim)[0]


def _view(x: Tensor, move: Callable[..., Node], *arguments: Any) -> Tensor:
    return derived(move(x.node, *arguments), x)


# ---- new extents
@method
def reshape(
    x: Operand, *extents: int | Sequence[int], shape: Sequence[int] | None = None, copy: bool | None = None
) -> Tensor:
    """The same elements in row-major order under another shape; one extent may be -1, which takes what is left.

    Raises: `ShapeError` when the numbers of elements differ.

    Example:
        >>> import vkgrad as vg
        >>> vg.zeros((2, 6)).reshape(3, -1).shape
        (3, 4)
    """
    del copy  # a view or a copy, nobody can tell: values do not change
    x = lift(x)
    given: Any = extents if shape is None else shape
    given = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    if fractions := [extent for extent in given if isinstance(extent, float | str)]:
        raise ShapeError(f"reshape: extents are whole numbers, not {fractions[0]!r}; // gives a whole quotient")
    wanted = [int(extent) for extent in given]
    if wanted.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent may be -1, for what is left; got {tuple(wanted)}")
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        if rest == 0 or x.size % rest:
            raise ShapeError(
                f"reshape: shape {x.shape} does not fit {tuple(wanted)}: {x.size} elements do not divide by {rest}"
            )
        wanted[wanted.index(-1)] = x.size // rest
    return _view(x, b.reshape, as_shape("reshape", wanted))


@method
def flatten(x: Operand, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the axes from `start_dim` to `end_dim` into one."""
    x = lift(x)
    if x.ndim == 0:
        return reshape(x, 1)
    first, last = along_axis("flatten", start_dim, x.ndim), along_axis("flatten", end_dim, x.ndim)
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} lies after end_dim {end_dim}")
    return _view(x, b.reshape, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def ravel(x: Operand) -> Tensor:
    """All elements in one axis."""
    return flatten(x)


@method
def expand_dims(x: Operand, axis: Axes = 0) -> Tensor:
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
        raise ShapeError(
            f"squeeze: axis {wide[0]} of shape {x.shape} has extent {x.shape[wide[0]]}; only extent 1 can go"
        )
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
def transpose(x: Operand, axes: Sequence[int] | None = None, *others: int) -> Tensor:
    """The axes in another order; reversed if none is given.

    Raises: `ArgumentError` for axes one by one, which are an order in NumPy and two to be swapped in PyTorch.
    """
    x = lift(x)
    if others or isinstance(axes, int):
        raise ArgumentError(
            f"transpose: takes the order of all axes as one sequence, transpose({(axes, *others)}); .swapaxes swaps two"
        )
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
    first, second = along_axis("swapaxes", axis1, x.ndim), along_axis("swapaxes", axis2, x.ndim)
    order[first], order[second] = second, first
    return _view(x, views.permute, tuple(order))


@method
def moveaxis(x: Operand, source: Axes, destination: Axes) -> Tensor:
    """The axes `source` moved to `destination`; the others keep their order."""
    x = lift(x)
    from_, to = (
        [along_axis("moveaxis", a, x.ndim) for a in ([axes] if isinstance(axes, int) else axes)]
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
    rows, columns = along_axis("diagonal", axis1, x.ndim), along_axis("diagonal", axis2, x.ndim)
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


def trace(x: Operand, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of the last two axes, as the array API standard has it."""
    return diagonal(x, offset, -2, -1).sum(-1, dtype=dtype)
