"""Views: moves on a layout that never run. The gradient of a view is the view or the sum that undoes it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import ZERO, Family, Op, Shape, register
from vkgrad.ops.families import view
from vkgrad.ops.samples import Samples, alike, case


# ---- reshape
def _reshape_shape(shapes: Sequence[Shape], *, shape: Shape) -> Shape:
    if prod(shapes[0]) != prod(shape):
        raise ShapeError(
            f"reshape: {shapes[0]} has {prod(shapes[0])} elements, {shape} has {prod(shape)}; one extent may be -1, "
            "for what is left"
        )
    return shape


view(
    "reshape",
    shape=_reshape_shape,
    numpy=lambda x, *, shape: np.reshape(x, shape),
    layout=lambda layout, *, shape: layout.reshape(shape),
    grad=lambda g, out, x, *, shape: (b.reshape(g, x.shape),),
    cases=(case((2, 3), shape=(3, 2)), case((4,), shape=(2, 1, 2)), case((), shape=(1,)), case((0, 2), shape=(0,))),
)


# ---- permute
def _permute_shape(shapes: Sequence[Shape], *, axes: Sequence[int]) -> Shape:
    if sorted(axes) != list(range(len(shapes[0]))):
        raise ShapeError(
            f"permute: {tuple(axes)} must name each of the {len(shapes[0])} axes of shape {shapes[0]} once"
        )
    return tuple(shapes[0][axis] for axis in axes)


def permute(x: Node, axes: Sequence[int]) -> Node:
    return x if list(axes) == list(range(x.ndim)) else b.build("permute", x, axes=tuple(axes))


view(
    "permute",
    shape=_permute_shape,
    numpy=lambda x, *, axes: np.transpose(x, axes),
    layout=lambda layout, *, axes: layout.permute(axes),
    grad=lambda g, out, x, *, axes: (permute(g, [axes.index(a) for a in range(len(axes))]),),
    cases=(case((2, 3, 4), axes=(2, 0, 1)), case((), axes=()), case((0, 2), axes=(1, 0))),
)


# ---- expand
def _expand_shape(shapes: Sequence[Shape], *, shape: Shape) -> Shape:
    (old,) = shapes
    if len(old) != len(shape) or any(o not in (1, n) for o, n in zip(old, shape, strict=True)):
        raise ShapeError(f"expand: {old} does not repeat to {shape}; only axes of extent 1 repeat")
    return shape


view(
    "expand",
    shape=_expand_shape,
    numpy=lambda x, *, shape: np.broadcast_to(x, shape),
    layout=lambda layout, *, shape: layout.expand(shape),
    grad=lambda g, out, x, *, shape: (b.sum_to(g, x.shape),),
    cases=(case((1, 3), shape=(4, 3)), case((), shape=()), case((1,), shape=(0,))),
)


# ---- slice (a negative step flips)
def _slice_shape(
    shapes: Sequence[Shape], *, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]
) -> Shape:
    for axis, (extent, start, count, step) in enumerate(zip(shapes[0], starts, extents, steps, strict=True)):
        last = start + (count - 1) * step
        if count < 0 or step == 0 or (count and not (0 <= start < extent and 0 <= last < extent)):
            raise ShapeError(f"slice: {count} places from {start} by {step} leave axis {axis} of extent {extent}")
    return tuple(extents)


def slice_(x: Node, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Node:
    if tuple(extents) == x.shape and all(s == 1 or e == 1 for s, e in zip(steps, extents, strict=True)):
        return x
    return b.build("slice", x, starts=tuple(starts), extents=tuple(extents), steps=tuple(steps))


def flip(x: Node, axes: Sequence[int]) -> Node:
    flipped = [axis in axes and extent > 0 for axis, extent in enumerate(x.shape)]
    starts = [extent - 1 if f else 0 for f, extent in zip(flipped, x.shape, strict=True)]
    return slice_(x, starts, x.shape, [-1 if f else 1 for f in flipped])


def _slice_grad(
    g: Node, out: Node, x: Node, *, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]
) -> tuple:
    if 0 in extents:
        return (b.constant(0, x.dtype, x.shape),)
    g = flip(g, [axis for axis, step in enumerate(steps) if step < 0])
    first = [s + (n - 1) * t if t < 0 else s for s, n, t in zip(starts, extents, steps, strict=True)]
    last = [f + (n - 1) * abs(t) for f, n, t in zip(first, extents, steps, strict=True)]
    return (pad(g, first, [e - 1 - q for e, q in zip(x.shape, last, strict=True)], [abs(t) - 1 for t in steps]),)


def _numpy_slice(x: Any, *, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Any:
    stops = [s + n * t for s, n, t in zip(starts, extents, steps, strict=True)]
    return x[tuple(slice(s, e if e >= 0 else None, t) for s, e, t in zip(starts, stops, steps, strict=True))]


view(
    "slice",
    shape=_slice_shape,
    numpy=_numpy_slice,
    layout=lambda layout, *, starts, extents, steps: layout.slice(starts, extents, steps),
    grad=_slice_grad,
    cases=(
        case((5, 4), starts=(4, 0), extents=(3, 2), steps=(-2, 3)),
        case((3,), starts=(2,), extents=(3,), steps=(-1,)),
        case((), starts=(), extents=(), steps=()),
        case((5,), starts=(1,), extents=(0,), steps=(1,)),
    ),
)


# ---- pad (a masked load, fused into its reader)
def _pad_shape(
    shapes: Sequence[Shape], *, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: Any
) -> Shape:
    if min((*low, *high, *interior, 0)) < 0:
        raise ShapeError("pad: amounts must not be negative; cut with a slice first")
    return tuple(
        before + ((extent - 1) * (between + 1) + 1 if extent else 0) + after
        for extent, before, after, between in zip(shapes[0], low, high, interior, strict=True)
    )


def pad(
    x: Node, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None, value: float = 0
) -> Node:
    interior = interior or [0] * x.ndim
    if not any((*low, *high, *interior)):
        return x
    return b.build("pad", x, low=tuple(low), high=tuple(high), interior=tuple(interior), value=value)


def _numpy_pad(x: Any, *, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: Any) -> Any:
    out = np.full(_pad_shape([x.shape], low=low, high=high, interior=interior, value=value), value, x.dtype)
    out[tuple(
        slice(before, before + (extent - 1) * (between + 1) + 1 if extent else before, between + 1)
        for extent, before, between in zip(x.shape, low, interior, strict=True)
    )] = x  # fmt: skip
    return out


def _pad_grad(g: Node, out: Node, x: Node, *, low: Any, high: Any, interior: Any, value: Any) -> tuple:
    return (slice_(g, low, x.shape, [between + 1 for between in interior]),)


view(
    "pad",
    shape=_pad_shape,
    numpy=_numpy_pad,
    layout=lambda layout, *, low, high, interior, value: layout.pad(low, high, interior),
    grad=_pad_grad,
    cases=(
        case((2, 3), low=(1, 0), high=(0, 2), interior=(2, 0), value=1),
        case((), low=(), high=(), interior=(), value=1),
        case((0, 2), low=(1, 0), high=(1, 0), interior=(3, 1), value=1),
    ),
    doc="Puts `value` around each axis and between neighbours (interior).",
)


# ---- window and its gradient
def _window_shape(shapes: Sequence[Shape], *, axis: int, size: int, stride: int, dilation: int) -> Shape:
    (shape,) = shapes
    reach = (size - 1) * dilation + 1
    if min(size, stride, dilation) < 1 or reach > shape[axis]:
        raise ShapeError(f"window: {size} places {dilation} apart do not fit axis {axis} of extent {shape[axis]}")
    return (*shape[:axis], (shape[axis] - reach) // stride + 1, *shape[axis + 1 :], size)


def window(x: Node, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Node:
    """The windows along `axis`: that axis becomes the window's position, and a last axis its inside."""
    return b.build("window", x, axis=axis, size=size, stride=stride, dilation=dilation)


def overlap_add(y: Node, axis: int, extent: int, stride: int = 1, dilation: int = 1) -> Node:
    """The gradient of `window`: put every window back where it came from and add up where they overlap.

    Element h collects y[(h - k * dilation) / stride, k] over k, which is a diagonal of windows over the dilated and
    padded y: a view and a sum, no kernel of its own.
    """
    size = y.shape[-1]
    reach = (size - 1) * dilation
    spread = (y.shape[axis] - 1) * stride + 1
    low, high, interior = ([0] * y.ndim for _ in range(3))
    low[axis], interior[axis] = reach, stride - 1
    high[axis] = extent - spread  # so that exactly `extent` windows of reach `reach + 1` fit
    y = pad(flip(y, [y.ndim - 1]), low, high, interior)
    overlapping = diagonal(window(y, axis, size, 1, dilation), y.ndim - 1, y.ndim)
    total = b.build("sum", overlapping, axes=(y.ndim - 1,))
    return b.reshape(total, (*y.shape[:axis], extent, *y.shape[axis + 1 : -1]))


def _numpy_window(x: Any, *, axis: int, size: int, stride: int, dilation: int) -> Any:
    positions = np.arange((x.shape[axis] - (size - 1) * dilation - 1) // stride + 1) * stride
    taken = np.take(x, positions[:, None] + np.arange(size) * dilation, axis=axis)
    return np.moveaxis(taken, axis + 1, -1)


view(
    "window",
    shape=_window_shape,
    numpy=_numpy_window,
    layout=lambda layout, *, axis, size, stride, dilation: layout.window(axis, size, stride, dilation),
    grad=lambda g, out, x, *, axis, size, stride, dilation: (overlap_add(g, axis, x.shape[axis], stride, dilation),),
    cases=(
        case((7, 2), axis=0, size=3, stride=2, dilation=2),
        case((2, 5), axis=1, size=5, stride=1, dilation=1),
        case((0, 5), axis=1, size=2, stride=1, dilation=1),
    ),
)


# ---- diagonal
def _diagonal_shape(shapes: Sequence[Shape], *, axis: int, other: int) -> Shape:
    (shape,) = shapes
    if axis == other or shape[axis] != shape[other]:
        raise ShapeError(f"diagonal: axes {axis} and {other} of shape {shape} must be two axes of one extent")
    return tuple(extent for a, extent in enumerate(shape) if a != other)


def diagonal(x: Node, axis: int, other: int) -> Node:
    """The elements where the coordinates of two axes agree; `axis` stays, `other` goes."""
    return b.build("diagonal", x, axis=axis, other=other)


def _diagonal_grad(g: Node, out: Node, x: Node, *, axis: int, other: int) -> tuple:
    wide = b.reshape(g, (*g.shape[:other], 1, *g.shape[other:]))
    places = [b.reshape(b.build("iota", extent=x.shape[a]),
                        tuple(x.shape[a] if a == i else 1 for i in range(x.ndim))) for a in (axis, other)]  # fmt: skip
    return (b.apply("where", b.apply("equal", *places), b.expand(wide, x.shape), 0),)


def _numpy_diagonal(x: Any, *, axis: int, other: int) -> Any:
    return np.moveaxis(np.diagonal(x, 0, axis, other), -1, axis - (other < axis))


view(
    "diagonal",
    shape=_diagonal_shape,
    numpy=_numpy_diagonal,
    layout=lambda layout, *, axis, other: layout.diagonal(axis, other),
    grad=_diagonal_grad,
    cases=(case((3, 2, 3), axis=0, other=2), case((3, 3), axis=1, other=0), case((0, 0), axis=0, other=1)),
)


# ---- after
def after(x: Node, other: Node) -> Node:
    """The value of x, for readers that must not run before `other` is known.

    It is how what is computed twice is computed late: a recomputation reads its inputs after the gradient that it is
    for, and so takes no memory before. Nothing is read of `other`.
    """
    return b.build("after", x, other)


register(
    Op(
        name="after", family=Family.VIEW, arity=2,
        shape=lambda shapes: shapes[0], dtype=lambda dtypes: dtypes[0], numpy=lambda x, other: x,
        layout=lambda layout: layout, grad=lambda g, out, x, other: (g, None), samples=Samples().on(*alike(2)),
        doc="x, for readers that must not run before the second operand is known",
    )
)  # fmt: skip


# ---- alias
def alias(x: Node) -> Node:
    """A node of its own with the value of `x`.

    Equal expressions are one node, so differentiating x + 2*u with respect to x where x happens to be 2*u would find
    the closure's 2*u too. Transforms differentiate with respect to an alias, which nothing else can be equal to.
    """
    return b.build("alias", x)


view(
    "alias",
    shape=lambda shapes: shapes[0],
    numpy=lambda x: x,
    layout=lambda layout: layout,
    grad=lambda g, out, x: (g,),
    cases=alike(1),
)


view(
    "stop_gradient",
    shape=lambda shapes: shapes[0],
    numpy=lambda x: x,
    layout=lambda layout: layout,
    grad=ZERO,
    cases=alike(1),
    doc="The value of x, as if it were a constant to every derivative.",
)
