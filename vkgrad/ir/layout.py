"""Where the elements of a view lie in memory, as integers only.

A `Layout` is the map from the coordinates of a view to an element address: a sum of strides plus an offset, with
guards where the view reads padding. Every view move (`permute expand slice pad window reshape`) is a method here and
costs nothing at run time; only when `reshape` or `pad` returns None does the scheduler insert a copy.

This module must not know NumPy, GLSL or nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod


@dataclass(frozen=True, slots=True)
class Guard:
    """A place holds an element only if `u = sum(coefficients * coordinates) + constant` passes.

    It passes when `0 <= u < bound` and `u % step == 0`. Where `step > 1` (interior padding) the axis that was dilated
    contributes `stride * (u // step)` to the address, since that is no longer linear in the coordinates.

    `vital` is False where the address does not depend on what is guarded (a broadcast operand): then a load may skip
    the check, and only the value must still be masked.
    """

    coefficients: tuple[int, ...]
    constant: int
    bound: int
    step: int = 1
    stride: int = 0
    vital: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """Extents, strides and offset in elements; broadcasting is stride 0, flipping a negative stride."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    guards: tuple[Guard, ...] = ()

    @classmethod
    def contiguous(cls, extents: Sequence[int]) -> Layout:
        strides, step = [], 1
        for extent in reversed(extents):
            strides.append(step)
            step *= extent
        return cls(tuple(extents), tuple(reversed(strides)))

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def size(self) -> int:
        return prod(self.extents)

    def _forms(self) -> list[tuple[int, ...]]:
        """Every vector of coefficients that a change of coordinates must carry along."""
        return [self.strides, *(guard.coefficients for guard in self.guards)]

    def _with_forms(self, extents: Sequence[int], forms: Sequence[Sequence[int]]) -> Layout:
        guards = tuple(replace(g, coefficients=tuple(f)) for g, f in zip(self.guards, forms[1:], strict=True))
        return Layout(tuple(extents), tuple(forms[0]), self.offset, guards)

    def permute(self, axes: Sequence[int]) -> Layout:
        return self._with_forms([self.extents[a] for a in axes], [[f[a] for a in axes] for f in self._forms()])

    def expand(self, extents: Sequence[int]) -> Layout:
        """Repeat axes of extent 1; `extents` has the same rank."""
        repeated = [old != new for old, new in zip(self.extents, extents, strict=True)]
        return self._with_forms(
            extents, [[0 if r else c for r, c in zip(repeated, f, strict=True)] for f in self._forms()]
        )

    def slice(self, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Layout:
        """The elements `start + step * i` of each axis; a negative step flips."""

        def shift(form: Sequence[int]) -> int:
            return sum(c * s for c, s in zip(form, starts, strict=True))

        guards = tuple(
            replace(
                g,
                coefficients=tuple(c * s for c, s in zip(g.coefficients, steps, strict=True)),
                constant=g.constant + shift(g.coefficients),
            )
            for g in self.guards
        )
        strides = tuple(c * s for c, s in zip(self.strides, steps, strict=True))
        return Layout(tuple(extents), strides, self.offset + shift(self.strides), guards)

    def pad(self, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Layout | None:
        """Surround each axis with `low` and `high` empty places, and put `interior` of them between neighbours.

        Returns None when an axis that a guard already depends on would be dilated: a copy is needed then.
        """
        layout = self
        for axis, (before, after, between) in enumerate(zip(low, high, interior, strict=True)):
            if before or after or between:
                padded = layout._pad_axis(axis, before, after, between)
                if padded is None:
                    return None
                layout = padded
        return layout

    def _pad_axis(self, axis: int, before: int, after: int, between: int) -> Layout | None:
        step = between + 1
        if step > 1 and any(g.coefficients[axis] for g in self.guards):
            return None
        reach = (self.extents[axis] - 1) * step + 1 if self.extents[axis] else 0
        extents = list(self.extents)
        extents[axis] = before + reach + after
        unit = tuple(int(a == axis) for a in range(self.rank))
        strides = list(self.strides)
        vital = strides[axis] != 0 or any(g.coefficients[axis] for g in self.guards)
        moved = tuple(replace(g, constant=g.constant - before * g.coefficients[axis]) for g in self.guards)
        if step > 1:
            guard = Guard(unit, -before, reach, step, strides[axis], vital)
            strides[axis] = 0
            return Layout(tuple(extents), tuple(strides), self.offset, (*moved, guard))
        return Layout(
            tuple(extents),
            self.strides,
            self.offset - before * strides[axis],
            (*moved, Guard(unit, -before, self.extents[axis], vital=vital)),
        )

    def window(self, axis: int, size: int, stride: int, dilation: int) -> Layout:
        """Slide a window along `axis`: that axis becomes the window's position, and a last axis its inside."""
        count = (self.extents[axis] - (size - 1) * dilation - 1) // stride + 1
        extents = (*self.extents[:axis], count, *self.extents[axis + 1 :], size)
        forms = [[*f[:axis], f[axis] * stride, *f[axis + 1 :], f[axis] * dilation] for f in self._forms()]
        return self._with_forms(extents, forms)

    def diagonal(self, axis: int, other: int) -> Layout:
        """The places where two axes of one extent agree; `axis` stays and `other` goes."""

        def joined(form: tuple[int, ...]) -> list[int]:
            return [c + (form[other] if a == axis else 0) for a, c in enumerate(form) if a != other]

        return self._with_forms(
            [e for a, e in enumerate(self.extents) if a != other], [joined(f) for f in self._forms()]
        )

    def reshape(self, extents: Sequence[int]) -> Layout | None:
        """The same elements in row-major order under new extents, or None when only a copy can do it."""
        if self.size == 0:
            return Layout.contiguous(extents)
        merged, forms = merge_axes(self.extents, self._forms())
        split: list[list[int]] = [[] for _ in forms]
        block = 0
        pending: list[int] = []  # new axes that together make up merged[block]
        for position, extent in enumerate(extents):
            pending.append(extent)
            product = prod(pending)
            rest_is_one = prod(extents[position + 1 :]) == 1
            if block == len(merged):
                if product != 1:
                    return None
                if rest_is_one:
                    for f in split:
                        f.extend([0] * len(pending))
                    pending = []
                continue
            if product < merged[block]:
                continue
            if product > merged[block]:
                return None
            for target, form in zip(split, forms, strict=True):
                tail = product
                for e in pending:
                    tail //= e
                    target.append(form[block] * tail if e != 1 else 0)
            pending = []
            block += 1
        for f in split:
            f.extend([0] * len(pending))
        return self._with_forms(extents, split)

    def is_contiguous(self) -> bool:
        """Whether row-major order is memory order, from the offset on, with no guard."""
        if self.guards:
            return False
        merged, forms = merge_axes(self.extents, [self.strides])
        return self.size <= 1 or (len(merged) == 1 and forms[0][0] == 1)

    def address(self, coordinates: Sequence[int]) -> int | None:
        """The element address of one place, or None where it reads padding. For tests and error texts."""
        total = self.offset + sum(c * s for c, s in zip(coordinates, self.strides, strict=True))
        for g in self.guards:
            u = g.constant + sum(c * k for c, k in zip(coordinates, g.coefficients, strict=True))
            if not 0 <= u < g.bound or u % g.step:
                return None
            total += g.stride * (u // g.step)
        return total


def merge_axes(extents: Sequence[int], forms: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Drop axes of extent 1 and merge neighbours wherever every form allows.

    A form is a vector of coefficients over the axes. Axis `a` merges with its right neighbour `b` when every form has
    `f[a] == f[b] * extents[b]`.
    """
    merged: list[int] = []
    out: list[list[int]] = [[] for _ in forms]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        if merged and all(o[-1] == f[axis] * extent for o, f in zip(out, forms, strict=True)):
            merged[-1] *= extent
            for o, f in zip(out, forms, strict=True):
                o[-1] = f[axis]
        else:
            merged.append(extent)
            for o, f in zip(out, forms, strict=True):
                o.append(f[axis])
    return merged, out


def collapse(layouts: Sequence[Layout], groups: Sequence[int]) -> tuple[list[Layout], list[int]]:
    """Bring layouts over one iteration space into canonical form together.

    `groups` are the numbers of leading axes in each group (parallel, reduced …); axes merge only inside a group.
    Returns the layouts over the merged axes and the number of merged axes in each group.
    """
    assert layouts and len({layout.extents for layout in layouts}) == 1
    extents = layouts[0].extents
    forms = [form for layout in layouts for form in layout._forms()]
    merged: list[int] = []
    joined: list[list[int]] = [[] for _ in forms]
    counts, start = [], 0
    for count in groups:
        part, part_forms = merge_axes(extents[start : start + count], [f[start : start + count] for f in forms])
        merged += part
        for whole, piece in zip(joined, part_forms, strict=True):
            whole += piece
        counts.append(len(part))
        start += count
    assert start == len(extents)
    out, at = [], 0
    for layout in layouts:
        n = len(layout._forms())
        out.append(layout._with_forms(merged, joined[at : at + n]))
        at += n
    return out, counts
