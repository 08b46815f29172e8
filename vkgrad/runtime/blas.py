"""Contractions on the CPU: operands as matrices, with at most one copy each, then BLAS, then the rest of the kernel.

The window view of a convolution becomes a matrix by that one copy (im2col), a bounded part at a time. This module must
not know what a convolution is: everything follows from strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from vkgrad.ir.layout import Layout, merge_axes
from vkgrad.runtime.access import Buffers, Region, parts, shape_of, spans, windows
from vkgrad.runtime.blocks import finishing
from vkgrad.runtime.matrix import Matrix, is_copied
from vkgrad.runtime.nest import Space
from vkgrad.runtime.one_thread import multiply
from vkgrad.runtime.program import Program
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Kernel, Load, Reduce

LARGEST_COPY = 1 << 18  # elements of an operand that are rearranged at a time: half of a second-level cache
LARGEST_RESULT = 16 << 20  # elements of the product that wait for what follows it
LEAST_PRODUCT = 1 << 14  # multiplications in one call of BLAS below which calling it for each outer place is slower
LONGEST_SUM = 1 << 10  # terms of one call of BLAS above which a sum over several axes is worth cutting ...
LEAST_TERMS_PER_RESULT = 64  # ... if adding up the pieces is little beside making them
SHORT_RUN = 16  # neighbours (a cache line) below which a copy of windows walks another axis last ...
LEAST_INNERMOST = 8  # ... of at least so many places
MOST_KEPT = 64  # parts whose programs are kept between runs


class Contraction:
    """Runs a kernel that is marked as a product.

    Its axes are sorted into `lead` (one BLAS call each), `rows`, `columns` and `inner`, so that the result comes out in
    the order in which it is stored. The last of `lead` may be `summed` axes of R: a long sum for a small result is many
    products of pieces that fit a cache, added up.
    """

    def __init__(self, kernel: Kernel, scratch: Scratch, threads: int = 1):
        assert kernel.product is not None
        self.scratch, self.threads = scratch, threads
        self.space = space = Space.of(kernel)
        self.product = kernel.product
        self.reduce = next(i for i, instruction in enumerate(space.code) if isinstance(instruction, Reduce))
        self._arrange(kernel)
        self._plan_copies()
        regions = self._regions()
        keep = sum(len(inner) for _, inner in regions) <= MOST_KEPT
        self.pieces: list[Callable[[], Piece]] = []
        for region, inner in regions:
            if keep:
                piece = Piece(self, region, inner)
                self.pieces.append(lambda piece=piece: piece)  # type: ignore[misc]
            else:
                self.pieces.append(lambda region=region, inner=inner: Piece(self, region, inner))  # type: ignore[misc]

    def __call__(self, buffers: Buffers) -> None:
        for piece in self.pieces:
            piece()(buffers)

    # ---- decisions
    def _arrange(self, kernel: Kernel) -> None:
        product, extents = self.product, self.space.extents
        ends = (product.batch, product.batch + product.m, kernel.parallel, len(kernel.extents))
        batch, m, n, k = (list(range(s, e)) for s, e in zip((0, *ends[:-1]), ends, strict=True))
        stored = self.space.stores[0].layout.strides
        for group in (batch, m, n):
            group.sort(key=lambda axis: -abs(stored[axis]))
        # The group with the innermost axis of the result gives its columns; its axes outside the other group lead.
        swapped = bool(m) and (not n or abs(stored[m[-1]]) < abs(stored[n[-1]]))
        rows, columns = (n, m) if swapped else (m, n)
        outside = [a for a in columns if rows and abs(stored[a]) > abs(stored[rows[0]])]
        size = prod(extents[a] for a in (*rows, *columns, *k) if a not in outside)
        if size < LEAST_PRODUCT:
            outside = []
        self.lead = [*batch, *outside]
        self.rows, self.columns = rows, [a for a in columns if a not in outside]
        sides = (product.right, product.left) if swapped else (product.left, product.right)
        self.sides = ((sides[0], self.rows), (sides[1], self.columns))
        self.innermost = self._innermost()
        for side, own in self.sides:
            if self.innermost in (*self.lead, *own) and self._layout(side).strides[self.innermost]:
                self.lead = [a for a in self.lead if a != self.innermost]
                own[:] = [*(a for a in own if a != self.innermost), self.innermost]
        large = max(self.sides, key=lambda side: prod(extents[a] for a in side[1]))[0]
        strides = self._layout(large).strides
        self.inner = sorted(k, key=lambda axis: (axis == self.innermost, -abs(strides[axis])))
        result = prod(extents[a] for a in (*rows, *columns))
        terms = prod(extents[a] for a in k)
        self.summed: list[int] = []
        while len(self.inner) > 1 and terms > LONGEST_SUM and self.innermost not in self.inner:
            terms //= extents[self.inner[0]]
            if result * terms < LEAST_PRODUCT or result > terms * LEAST_TERMS_PER_RESULT:
                break
            self.summed.append(self.inner.pop(0))
        self.lead += self.summed

    def _innermost(self) -> int | None:
        """An axis to walk last because windows are short and do not move along it, such as a batch of images."""
        extents, reduced = self.space.extents, self.space.reduced
        for number, (side, own) in enumerate(self.sides):
            if is_copied(self.space.code[side]):
                continue  # by native rows, which are quick when short
            layout, other = self._layout(side), shape_of(self._layout(self.sides[1 - number][0]))
            found = (spans(layout) or ([], 0))[0] if layout.guards else windows(layout)
            moved = {a for span in found for a, c in enumerate(span.coefficients) if c}
            run = max((extents[a] for a in moved if abs(layout.strides[a]) == 1), default=SHORT_RUN)
            free = [a for a in (*self.lead, *own) if other[a] == 1] + list(reduced)
            free = [a for a in free if a not in moved and layout.strides[a] and extents[a] >= LEAST_INNERMOST]
            if run < SHORT_RUN and free:
                return max(free, key=lambda a: abs(layout.strides[a]))
        return None

    def _layout(self, side: int) -> Layout:
        """The layout of the largest load below an operand, which says how the operand lies in memory."""
        loads = [self.space.code[i] for i in self.space.needs([side])]
        layouts = [i.layout for i in loads if isinstance(i, Load)]
        blank = Layout(self.space.extents, (0,) * len(self.space.extents))
        return max(layouts, key=lambda layout: prod(shape_of(layout)), default=blank)

    def _plan_copies(self) -> None:
        """For each side, whether its own axes come last in its matrix, and how many elements a copy would have."""
        self.own_last: list[bool] = []
        self.copied: list[int] = []
        for side, own in self.sides:
            layout = self._layout(side)
            runs = [_run(layout, axes) for axes in (own, self.inner)]
            flat = not layout.guards and all(_merged(layout, axes) is not None for axes in (own, self.inner))
            innermost = self.innermost if self.innermost is not None and shape_of(layout)[self.innermost] > 1 else None
            self.own_last.append(runs[0] > runs[1] if innermost is None else innermost in own)
            moving = [a for a in (*self.lead, *own, *self.inner) if a not in self.lead or shape_of(layout)[a] > 1]
            self.copied.append(0 if flat and max(runs) > 1 else prod(self.space.extents[a] for a in moving))

    def _regions(self) -> list[tuple[Region, list[Region]]]:
        """Parts of P, and for each the parts of R whose products are added up."""
        extents = self.space.extents
        result = prod(extents[a] for a in (*self.lead, *self.rows, *self.columns) if a not in self.summed)
        side = max((0, 1), key=lambda s: self.copied[s])
        count = -(-self.copied[side] // LARGEST_COPY)
        first = [] if self.innermost is None else [self.innermost]  # long runs are cut before short ones
        own = list(dict.fromkeys([*(a for a in first if a in self.sides[side][1]), *self.sides[side][1]]))
        along = list(dict.fromkeys([*(a for a in first if a in self.inner), *self.summed, *self.inner]))
        width = prod(extents[a] for a in self.lead if a not in self.summed)
        outer = max(min(count, width), -(-result // LARGEST_RESULT))
        rest = -(-count // max(outer, 1))
        if prod(extents[a] for a in along) <= prod(extents[a] for a in own):
            outer, rest = outer * rest, 1
        regions = []
        for region in parts(extents, [*(a for a in self.lead if a not in self.summed), *own], outer):
            inner = parts(extents, along, rest)
            regions.append((region, [_joined(region, part, along) for part in inner]))
        return regions


def _joined(region: Region, other: Region, axes: Sequence[int]) -> Region:
    """`region`, along `axes` as `other`."""
    for axis in axes:
        region = region.along(axis, other.starts[axis], other.counts[axis], other.steps[axis])
    return region


def _run(layout: Layout, axes: Sequence[int]) -> int:
    """How many neighbours in memory a copy that walks `axes` last reads in one go."""
    run = 1
    for axis in reversed(axes):
        extent, stride = layout.extents[axis], abs(layout.strides[axis])
        if extent == 1:
            continue
        if stride != run:
            break
        run *= extent
    return run


def _merged(layout: Layout, axes: Sequence[int]) -> int | None:
    """The stride of `axes` as one axis, or None where they are more."""
    extents, (strides,) = merge_axes([layout.extents[a] for a in axes], [[layout.strides[a] for a in axes]])
    return None if len(extents) > 1 else strides[0] if strides else 1


class Piece:
    """One part of P: the products over the parts of R, then epilogue and stores."""

    def __init__(self, whole: Contraction, region: Region, inner: Sequence[Region]):
        space, scratch = whole.space.within(region), whole.scratch
        self.reduce, self.threads = whole.reduce, whole.threads
        # The summed axes are the last of `lead`, so they stand just before the matrix.
        self.summed = tuple(range(-2 - len(whole.summed), -2))
        self.shape = tuple(1 if a in space.reduced else e for a, e in enumerate(space.extents))
        dtype = space.code[whole.reduce].dtype.numpy
        sizes = [prod(space.extents[a] for a in axes) for axes in (whole.rows, whole.columns)]
        self.direct = self._direct(whole, space)
        # OpenBLAS takes half the time for rows by rows if there are more of them on the left.
        self.turned = self.direct is None and not any(whole.own_last) and sizes[0] < sizes[1]
        sides_of_result = [whole.rows, whole.columns]
        if self.turned:
            sizes.reverse()
            sides_of_result.reverse()
        order = [*(a for a in whole.lead if a not in whole.summed), *sides_of_result[0], *sides_of_result[1]]
        self.unpacked = tuple(space.extents[a] for a in order)
        self.back = tuple(order.index(a) for a in sorted(order))
        lent = []

        def borrow(lead: Sequence[int]) -> np.ndarray:
            lent.append(scratch.take((*(space.extents[a] for a in lead), *sizes), dtype))
            return lent[-1]

        free = [a for a in whole.lead if a not in whole.summed]
        self.total = None if self.direct else borrow(free)
        self.products: list[tuple[Matrix, Matrix, np.ndarray | None]] = []
        for number, part in enumerate(inner):
            extents = [part.counts[a] for a in whole.summed]
            space_of_part, axes = whole.space.within(part), (whole.lead, whole.inner)
            sides = [
                Matrix(
                    space_of_part,
                    scratch,
                    side,
                    (axes[0], own, axes[1]),
                    own_last,
                    not i,
                    whole.innermost,
                    whole.threads,
                )
                for i, ((side, own), own_last) in enumerate(zip(whole.sides, whole.own_last, strict=True))
            ]
            out = self.total
            if whole.summed or number:  # it does not go to its place at once, but is added up there
                out = scratch.take((*(space.extents[a] for a in free), *extents, *sizes), dtype)
                scratch.give(out)
            for side in sides:
                side.release()
            self.products.append((sides[0], sides[1], out))
        self.native = None if self.total is None else finishing(space, whole.reduce, self._result(), whole.threads)
        program = self.direct is None and self.native is None
        self.finish = Program(space, scratch, given={whole.reduce: self.shape}) if program else None
        for array in lent:
            scratch.give(array)

    def _direct(self, whole: Contraction, space: Space) -> Callable[[Buffers], np.ndarray] | None:
        """The result's place in memory as an array that BLAS can write to, if nothing follows the product."""
        if whole.summed or len(space.stores) != 1 or space.stores[0].value != whole.reduce:
            return None
        store = space.stores[0]
        layout, dtype = store.layout, store.dtype.numpy
        rows, columns = (prod(space.extents[a] for a in axes) for axes in (whole.rows, whole.columns))
        across, along = _merged(layout, whole.rows), _merged(layout, whole.columns)
        across = columns if rows == 1 else across
        if across is None or along != 1 or across < columns:
            return None
        shape = (*(space.extents[a] for a in whole.lead), rows, columns)
        strides = tuple(s * dtype.itemsize for s in (*(layout.strides[a] for a in whole.lead), across, along))
        slot, offset = store.slot, layout.offset * dtype.itemsize
        return lambda buffers: np.ndarray(shape, dtype, buffers[slot], offset, strides)

    def __call__(self, buffers: Buffers) -> None:
        if self.direct is not None:
            self._multiply(buffers, self.direct(buffers))
            return
        assert self.total is not None
        self._multiply(buffers, self.total)
        if self.native is not None:
            self.native(buffers)
        else:
            assert self.finish is not None
            self.finish.values(buffers, {self.reduce: self._result()})

    def _result(self) -> np.ndarray:
        """The products where they are, with an axis per axis of the space."""
        assert self.total is not None
        return self.total.reshape(self.unpacked).transpose(self.back).reshape(self.shape)

    def _multiply(self, buffers: Buffers, total: np.ndarray) -> None:
        for number, (left, right, out) in enumerate(self.products):
            into = total if out is None or out is self.total else out
            x, y = left(buffers), right(buffers)
            if self.turned:
                multiply(y.swapaxes(-1, -2), x.swapaxes(-1, -2), into, self.threads)
            else:
                multiply(x, y, into, self.threads)
            if into is total:
                continue
            if self.summed and not number:
                np.add.reduce(into, self.summed, out=total)
            else:
                np.add(total, np.add.reduce(into, self.summed) if self.summed else into, total)
