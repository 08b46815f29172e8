"""Layouts as NumPy arrays: strided views, padding without a branch, masks and index arrays.

Every array here has one axis per axis of the iteration space; axes that it does not depend on have extent 1. All that
can be known before there is data is worked out once and kept in a closure. This module must not know kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vkgrad.ir.layout import Guard, Layout
from vkgrad.schedule.chains import prune

Buffers = Sequence[np.ndarray]  # flat arrays, one per slot
Read = Callable[[Buffers], np.ndarray]


@dataclass(frozen=True)
class Region:
    """A lattice of places: `counts` of them along each axis, `steps` apart, from `starts` on."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def whole(cls, extents: Sequence[int]) -> Region:
        return cls((0,) * len(extents), tuple(extents), (1,) * len(extents))

    def along(self, axis: int, start: int, count: int, step: int = 1) -> Region:
        def put(values: tuple[int, ...], value: int) -> tuple[int, ...]:
            return (*values[:axis], value, *values[axis + 1 :])

        return Region(put(self.starts, start), put(self.counts, count), put(self.steps, step))

    def of(self, layout: Layout) -> Layout:
        """`layout` over this region alone, with every guard that now always holds worked into its strides."""
        return settle(layout.slice(self.starts, self.counts, self.steps))

    def index(self, shape: Sequence[int]) -> tuple[slice, ...]:
        """What selects this region of an array whose axes of extent 1 are repeated."""
        parts = zip(self.starts, self.counts, self.steps, shape, strict=True)
        return tuple(slice(None) if e == 1 else slice(s, s + (n - 1) * t + 1, t) for s, n, t, e in parts)


def parts(extents: Sequence[int], axes: Sequence[int], count: int) -> Iterator[Region]:
    """The space cut along `axes`, the first of them first, into about `count` regions of equal size."""
    yield from _cut(Region.whole(extents), axes, count)


def _cut(region: Region, axes: Sequence[int], count: int) -> Iterator[Region]:
    if count <= 1 or not axes:
        yield region
        return
    axis, rest = axes[0], axes[1:]
    extent = region.counts[axis]
    length = -(-extent // min(count, extent))
    for start in range(0, extent, length):
        piece = region.along(axis, region.starts[axis] + start, min(length, extent - start))
        yield from _cut(piece, rest, -(-count // extent))


def settle(layout: Layout) -> Layout:
    """Without guards that hold everywhere. A dilation that only existing elements are read of becomes a stride."""
    strides, offset, guards = list(layout.strides), layout.offset, []
    for g in layout.guards:
        moving = [(a, c) for a, c in enumerate(g.coefficients) if c and layout.extents[a] > 1]
        if g.step > 1 and g.constant % g.step == 0 and all(c % g.step == 0 for _, c in moving):
            for axis, c in moving:
                strides[axis] += g.stride * (c // g.step)
            offset += g.stride * (g.constant // g.step)
            coefficients = [0] * layout.rank
            for axis, c in moving:
                coefficients[axis] = c // g.step
            g = replace(
                g, coefficients=tuple(coefficients), constant=g.constant // g.step, bound=-(-g.bound // g.step), step=1,
                stride=0,
            )  # fmt: skip
        guards.append(g)
    return prune(Layout(layout.extents, tuple(strides), offset, tuple(guards)))


def shape_of(layout: Layout) -> tuple[int, ...]:
    """The extents, with 1 for every axis that neither the address nor a guard depends on."""
    forms = layout._forms()
    return tuple(e if any(form[a] for form in forms) else 1 for a, e in enumerate(layout.extents))


def _grid(layout: Layout, coefficients: Sequence[int], constant: int) -> np.ndarray:
    """constant + sum(coefficients * coordinates), with extent 1 along axes that do not matter."""
    total = np.full((1,) * layout.rank, constant, np.int64)
    for axis, c in enumerate(coefficients):
        if c and layout.extents[axis] > 1:
            shape = [1] * layout.rank
            shape[axis] = layout.extents[axis]
            total = total + (np.arange(layout.extents[axis], dtype=np.int64) * c).reshape(shape)
    return total


def holds(layout: Layout) -> np.ndarray:
    """Where all guards pass."""
    passes = np.ones((1,) * layout.rank, bool)
    for g in layout.guards:
        u = _grid(layout, g.coefficients, g.constant)
        here = (u >= 0) & (u < g.bound)
        passes = passes & (here & (u % g.step == 0) if g.step > 1 else here)
    return passes


def addresses(layout: Layout) -> np.ndarray:
    """The element address of each place, meaningless where a guard fails."""
    total = _grid(layout, layout.strides, layout.offset)
    for g in layout.guards:
        if g.step > 1 and g.stride:
            total = total + _grid(layout, g.coefficients, g.constant) // g.step * g.stride
    return total


def viewer(slot: int, layout: Layout, dtype: np.dtype) -> Read:
    """The strided view of a buffer that a layout without guards describes."""
    assert not layout.guards
    shape, size = shape_of(layout), dtype.itemsize
    # The constructor checks bounds, and costs a quarter of as_strided.
    offset, strides = layout.offset * size, tuple(s * size for s in layout.strides)
    ndarray = np.ndarray
    return lambda buffers: ndarray(shape, dtype, buffers[slot], offset, strides)


def reader(slot: int, layout: Layout, dtype: np.dtype, fill: float | int | bool, innermost: int | None = None) -> Read:
    """The elements that a layout reads, with `fill` where a guard fails.

    If an axis is to be `innermost`, windows are read from a copy in which its elements are neighbours.
    """
    layout = settle(layout)
    if innermost is not None and (found := _padded(slot, layout, dtype, fill, innermost)):
        return found
    if not layout.guards:
        return viewer(slot, layout, dtype)
    if any(g.bound == 0 for g in layout.guards):  # padding around no elements: there is nothing to look at
        nothing = np.full(shape_of(layout), fill, dtype)
        return lambda buffers: nothing
    return _padded(slot, layout, dtype, fill) or _looked_up(slot, layout, dtype, fill)


def _looked_up(slot: int, layout: Layout, dtype: np.dtype, fill: float | int | bool) -> Read:
    inside = np.broadcast_to(holds(layout), shape_of(layout))
    places = np.where(inside, addresses(layout), 0).astype(np.intp)
    outside = ~inside

    def read(buffers: Buffers) -> np.ndarray:
        values = buffers[slot].take(places)
        np.copyto(values, dtype.type(fill), where=outside)
        return values

    return read


@dataclass(frozen=True)
class Span:
    """A combination of axes, `u = sum(coefficients * coordinates)`, that guards allow from `first` to `last`.

    low, high   the values that u takes at all
    step        only every `step`th u holds an element
    stride      elements between memory places whose u differs by `step`
    """

    coefficients: tuple[int, ...]
    low: int
    high: int
    first: int
    last: int
    step: int
    stride: int

    @property
    def count(self) -> int:
        return max(0, (self.last - self.first) // self.step + 1)


def spans(layout: Layout) -> tuple[list[Span], int] | None:
    """The guards of a layout as independent spans, and the address where every span is at its `first`.

    None where guards share axes in different combinations, or the address does not follow the guards.
    """
    groups: dict[tuple[int, ...], list[tuple[Guard, int]]] = {}
    for g in layout.guards:
        own = tuple(c if e > 1 else 0 for c, e in zip(g.coefficients, layout.extents, strict=True))
        sign = next((1 if c > 0 else -1 for c in own if c), 1)
        groups.setdefault(tuple(sign * c for c in own), []).append((g, sign))
    taken: set[int] = set()
    found, address = [], layout.offset
    for coefficients, guards in groups.items():
        support = {a for a, c in enumerate(coefficients) if c}
        if support & taken or sum(g.step > 1 for g, _ in guards) > 1:
            return None
        taken |= support
        rates = {divmod(layout.strides[a], coefficients[a]) for a in support} or {(0, 0)}
        if len(rates) > 1 or (rate := next(iter(rates)))[1]:
            return None
        low = sum(min(0, c * (e - 1)) for c, e in zip(coefficients, layout.extents, strict=True))
        high = sum(max(0, c * (e - 1)) for c, e in zip(coefficients, layout.extents, strict=True))
        first, last, step, stride = low, high, 1, rate[0]
        for g, sign in guards:  # 0 <= sign * u + constant < bound
            ends = sorted((-sign * g.constant, sign * (g.bound - 1 - g.constant)))
            first, last = max(first, ends[0]), min(last, ends[1])
        for g, sign in guards:
            if g.step > 1:
                first += -(first + sign * g.constant) % g.step
                step, stride = g.step, rate[0] * g.step + sign * g.stride
                address += g.stride * ((sign * first + g.constant) // g.step)
        address += rate[0] * first
        found.append(Span(coefficients, low, high, first, last, step, stride))
    return found, address


def windows(layout: Layout) -> list[Span]:
    """The axes of a layout without guards that move over the same elements, as spans: overlapping windows."""
    moving = [a for a, (s, e) in enumerate(zip(layout.strides, layout.extents, strict=True)) if s > 0 and e > 1]
    moving.sort(key=lambda a: layout.strides[a])
    found: list[Span] = []
    while moving:
        base, *moving = moving
        stride, reach = layout.strides[base], layout.extents[base]
        coefficients = [0] * layout.rank
        coefficients[base] = 1
        for a in list(moving):
            times, rest = divmod(layout.strides[a], stride)
            if not rest and times < reach:
                coefficients[a] = times
                reach += times * (layout.extents[a] - 1)
                moving.remove(a)
        if sum(c > 0 for c in coefficients) > 1:
            found.append(Span(tuple(coefficients), 0, reach - 1, 0, reach - 1, 1, stride))
    return found


def _padded(
    slot: int, layout: Layout, dtype: np.dtype, fill: float | int | bool, innermost: int | None = None
) -> Read | None:
    """A copy of the source surrounded by its padding, kept between runs, of which windows are then plain views.

    Only the part that holds elements is written again in each run. None where that does not work or wastes memory.
    """
    shape = shape_of(layout)
    described = spans(layout) if layout.guards else (windows(layout), layout.offset)
    if described is None:
        return None
    groups, address = described
    grouped = {a for span in groups for a, c in enumerate(span.coefficients) if c}
    free = [a for a in range(layout.rank) if shape[a] > 1 and a not in grouped]
    # One axis per span and per free axis, in memory order of the source, so that the copy runs along both.
    axes: list[tuple[int, Span | int]] = [(abs(span.stride), span) for span in groups]
    axes += [(abs(layout.strides[a]), a) for a in free]
    axes.sort(key=lambda axis: (axis[1] == innermost, -axis[0]))
    extents = [layout.extents[a] if isinstance(a, int) else a.high - a.low + 1 for _, a in axes]
    if prod(extents) > 4 * prod(shape):
        return None
    padded = np.full(extents, fill, dtype)
    elements = [(0, n, 1) if isinstance(a, int) else (a.first - a.low, a.last - a.low + 1, a.step)
                for (_, a), n in zip(axes, extents, strict=True)]  # fmt: skip
    inside = padded[tuple(slice(*bounds) for bounds in elements)]
    strides, offset = [0] * layout.rank, 0
    for (_, axis), stride in zip(axes, padded.strides, strict=True):
        if isinstance(axis, int):
            strides[axis] = stride
        else:
            offset -= axis.low * stride
            for a, c in enumerate(axis.coefficients):
                strides[a] += c * stride
    view = np.ndarray(shape, dtype, padded, offset, tuple(strides))
    if any(span.count == 0 for span in groups):
        return lambda buffers: view
    size = dtype.itemsize
    source_strides = tuple((layout.strides[a] if isinstance(a, int) else a.stride) * size for _, a in axes)
    address *= size
    counts, ndarray, copyto = inside.shape, np.ndarray, np.copyto

    def read(buffers: Buffers) -> np.ndarray:
        copyto(inside, ndarray(counts, dtype, buffers[slot], address, source_strides))
        return view

    return read
