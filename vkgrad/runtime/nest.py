"""A kernel's instructions as NumPy calls over a whole iteration space at once.

`Space` is a kernel with its axes in the order of the arrays; `within` cuts a part out of it; `Program` is the list of
calls for one space, made once and run on any buffers. Values that depend on no buffer are computed when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir.layout import Guard, Layout
from vkgrad.ir.op import Op
from vkgrad.runtime.access import Buffers, Region, addresses, holds, reader, settle, shape_of, viewer
from vkgrad.schedule.kernel import (
    Compute,
    Gather,
    Guarded,
    Index,
    Instruction,
    Kernel,
    Literal,
    Load,
    Reduce,
    Store,
    operands,
)

Registers = list[Any]  # the value of each instruction: an array with one axis per axis of the space
Step = Callable[[Registers, Buffers], None]

# A guarded sum of few terms over many places is added up term by term, each only where it is not padding.
MOST_PASSES = 128
LEAST_BY_TERM = 1 << 12


@dataclass(frozen=True)
class Space:
    """A loop nest: instructions and stores over `extents`, of which the axes `reduced` are R."""

    code: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    extents: tuple[int, ...]
    reduced: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Kernel, order: Sequence[int] | None = None) -> Space:
        """The space of a kernel, its axes permuted; one axis of extent 1 where the kernel has none.

        (Without it, values would be NumPy scalars, which NumPy 1 promotes by other rules than arrays.)
        """
        order = tuple(range(len(kernel.extents))) if order is None else tuple(order)

        def arranged(layout: Layout) -> Layout:
            return layout.permute(order) if order else Layout((1,), (0,), layout.offset, _widened(layout.guards))

        reduced = tuple(place for place, axis in enumerate(order) if axis >= kernel.parallel)
        extents = tuple(kernel.extents[axis] for axis in order) or (1,)
        return cls(_relaid(kernel.code, arranged), _relaid(kernel.stores, arranged), extents, reduced)

    def within(self, region: Region) -> Space:
        return Space(_relaid(self.code, region.of), _relaid(self.stores, region.of), region.counts, self.reduced)

    @property
    def terms(self) -> int:
        return prod(self.extents[axis] for axis in self.reduced)

    def needs(self, roots: Iterable[int], done: Iterable[int] = (), cut: Iterable[int] = ()) -> list[int]:
        """The instructions that `roots` are made from, in order; without those of `done`, and nothing below `cut`."""
        seen, cut = set(done), set(cut)
        out: list[int] = []
        stack = list(roots)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                out.append(index)
                if index not in cut:
                    stack.extend(operands(self.code[index]))
        return sorted(out)

    def shapes(self, given: Mapping[int, tuple[int, ...]] | None = None) -> list[tuple[int, ...]]:
        """The shape of each instruction's array."""
        shapes: list[tuple[int, ...]] = []
        for index, instruction in enumerate(self.code):
            layout = getattr(instruction, "layout", None)
            parts = [shapes[i] for i in operands(instruction)]
            parts.append(shape_of(layout) if layout is not None else (1,) * len(self.extents))
            shape = tuple(map(max, *parts)) if len(parts) > 1 else parts[0]
            if isinstance(instruction, Reduce):
                shape = tuple(1 if a in self.reduced else e for a, e in enumerate(shape))
            shapes.append((given or {}).get(index, shape))
        return shapes


def _widened(guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    return tuple(replace(g, coefficients=(0,)) for g in guards)


def _relaid(items: Sequence[Any], move: Callable[[Layout], Layout]) -> tuple[Any, ...]:
    return tuple(replace(item, layout=move(item.layout)) if hasattr(item, "layout") else item for item in items)


def meaning(op: Op) -> Callable:
    """What an op does to arrays, without the guard against warnings (a run has one for all its kernels)."""
    return getattr(op.numpy, "__wrapped__", op.numpy)


class Program:
    """The calls that compute `roots` (or everything that is stored) over a space.

    `given` are instructions whose arrays the caller supplies to `values`. Arrays are freed after their last use, and
    ufuncs write into an operand that nothing needs any more.
    """

    def __init__(
        self, space: Space, roots: Sequence[int] | None = None, given: Mapping[int, tuple[int, ...]] | None = None
    ):
        self.space = space
        self.static: dict[int, np.ndarray] = {}
        self.steps: list[Step] = []
        self.shapes = space.shapes(given)
        self.owned: set[int] = set()  # registers whose memory nobody else sees
        wanted = [store.value for store in space.stores] if roots is None else list(roots)
        self.passes = {i: found for i in range(len(space.code)) if (found := self._passes(i)) is not None}
        needed = space.needs(wanted, given or (), self.passes)
        self.last = {i: index for index in needed if index not in self.passes for i in operands(space.code[index])}
        self.last |= {root: len(space.code) for root in wanted}
        for index in needed:
            self._add(index)
        if roots is None:
            for number, store in enumerate(space.stores):
                self._store(store, number)

    def values(self, buffers: Buffers, given: Mapping[int, np.ndarray] | None = None) -> Registers:
        registers: Registers = [None] * len(self.space.code)
        for index, array in self.static.items():
            registers[index] = array
        if given:
            for index, array in given.items():
                registers[index] = array
        for step in self.steps:
            step(registers, buffers)
        return registers

    def __call__(self, buffers: Buffers) -> None:
        self.values(buffers)

    # ---- one instruction
    def _add(self, index: int) -> None:
        instruction = self.space.code[index]
        match instruction:
            case Literal():
                value = np.full((1,) * len(self.space.extents), instruction.value, instruction.dtype.numpy)
                self.static[index] = value
            case Index():
                self.static[index] = addresses(instruction.layout).astype(instruction.dtype.numpy)
            case Load():
                self._load(index, instruction)
            case Gather():
                self._gather(index, instruction)
            case Guarded():
                outside, fill = ~holds(instruction.layout), instruction.dtype.numpy.type(instruction.fill)
                pad = (lambda x: np.where(outside, fill, x)) if outside.any() else (lambda x: x)
                self._apply(index, pad, (instruction.value,))
            case Compute():
                self._compute(index, instruction)
            case Reduce():
                self._reduce(index, instruction)
        for i in set(operands(instruction)):
            if self.last.get(i) == index and i not in self.static and prod(self.shapes[i]) > 1 << 12:
                self.steps.append(lambda registers, buffers, i=i: registers.__setitem__(i, None))  # type: ignore[misc]

    def _apply(self, index: int, function: Callable, sources: Sequence[int]) -> None:
        """`function` of earlier values, called now if they are known now."""
        if all(i in self.static for i in sources):
            with np.errstate(all="ignore"):
                self.static[index] = function(*(self.static[i] for i in sources))
            return
        self.owned.add(index)
        match tuple(sources):
            case (x,):

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = function(registers[x])

            case (x, y):

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = function(registers[x], registers[y])

            case _:

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = function(*[registers[i] for i in sources])

        self.steps.append(step)

    def _compute(self, index: int, instruction: Compute) -> None:
        function, attributes, sources = meaning(instruction.op), dict(instruction.attributes), instruction.operands
        if not isinstance(function, np.ufunc):
            plain = function
            self._apply(index, (lambda *x: plain(*x, **attributes)) if attributes else plain, sources)
            return
        if all(i in self.static for i in sources):
            self._apply(index, function, sources)
            return
        spare = next((i for i in sources if self._is_spare(i, index)), None)
        if spare is None:
            self._apply(index, function, sources)
            return
        self.owned.add(index)

        def step(registers: Registers, buffers: Buffers) -> None:
            registers[index] = function(*[registers[i] for i in sources], out=registers[spare])

        self.steps.append(step)

    def _is_spare(self, i: int, index: int) -> bool:
        """Whether instruction `index` may write its result over value `i`."""
        code = self.space.code
        if i not in self.owned or self.last[i] != index or code[i].dtype is not code[index].dtype:
            return False
        made_by = code[i]
        fresh = isinstance(made_by, Reduce) or (isinstance(made_by, Compute) and _makes_new(made_by.op))
        return fresh and self.shapes[i] == self.shapes[index]

    def _load(self, index: int, load: Load) -> None:
        read = reader(load.slot, load.layout, load.dtype.numpy, load.fill)
        if _runs_short(load.layout):
            plain = read
            read = lambda buffers: np.ascontiguousarray(plain(buffers))  # noqa: E731

        def step(registers: Registers, buffers: Buffers) -> None:
            registers[index] = read(buffers)

        self.steps.append(step)

    def _gather(self, index: int, gather: Gather) -> None:
        layout, slot, source = settle(gather.layout), gather.slot, gather.index
        base, inside = addresses(layout), holds(layout)
        stride, bound = gather.stride, gather.bound
        fill = gather.dtype.numpy.type(np.nan if gather.dtype.kind == "f" else 0)

        def step(registers: Registers, buffers: Buffers) -> None:
            position = registers[source].astype(np.int64)
            found = (position >= 0) & (position < bound) & inside
            places = np.where(found, base + position * stride, 0)
            registers[index] = np.where(found, buffers[slot].take(places), fill)

        self.steps.append(step)

    def _reduce(self, index: int, reduce: Reduce) -> None:
        axes, value = self.space.reduced, reduce.value
        if index in self.passes:
            self.steps.append(self._sum_by_term(index, reduce, *self.passes[index]))
            return
        shape, join = self.shapes[value], meaning(reduce.op)
        full = tuple(self.space.extents[a] if a in axes else e for a, e in enumerate(shape))
        if full == shape:
            self._apply(index, lambda x: join(x, axes=axes), (value,))
        else:
            self._apply(index, lambda x: join(np.broadcast_to(x, full), axes=axes), (value,))

    # ---- sums of which most is padding (the gradient of a window)
    def _passes(self, index: int) -> tuple[int, list[Region]] | None:
        """The value to add up, and per term of R the region of P where it is not padding."""
        reduce = self.space.code[index]
        if not isinstance(reduce, Reduce) or reduce.op.name != "sum":
            return None
        if self.space.terms > MOST_PASSES or prod(self.space.extents) < LEAST_BY_TERM:
            return None
        value, guards = reduce.value, list[Guard]()
        while isinstance(guarded := self.space.code[value], Guarded) and guarded.fill == 0:
            guards += guarded.layout.guards
            value = guarded.value
        if isinstance(guarded, Load) and guarded.fill == 0:
            guards += guarded.layout.guards
        if not guards or any(isinstance(self.space.code[i], Reduce) for i in self.space.needs([value])):
            return None
        regions = []
        for term in np.ndindex(*(self.space.extents[a] for a in self.space.reduced)):
            region = _where_it_holds(self.space, guards, term)
            if region is None:
                return None
            if region.counts and 0 not in region.counts:
                regions.append(region)
        return value, regions

    def _sum_by_term(self, index: int, reduce: Reduce, value: int, regions: Sequence[Region]) -> Step:
        shape, dtype = self.shapes[index], reduce.dtype.numpy
        # A guard may have been all that gave the sum an axis, so the sum has every axis of P that its terms have.
        parts = []
        for region in regions:
            program = Program(self.space.within(region), [value])
            parts.append((program.values, region.index(shape)))
        self.owned.add(index)

        def step(registers: Registers, buffers: Buffers) -> None:
            total = np.zeros(shape, dtype)
            for values, place in parts:
                total[place] += values(buffers)[value]
            registers[index] = total

        return step

    # ---- results
    def _store(self, store: Store, number: int) -> None:
        view, value = viewer(store.slot, store.layout, store.dtype.numpy), store.value
        copyto = np.copyto

        def step(registers: Registers, buffers: Buffers) -> None:
            copyto(view(buffers), registers[value])

        self.steps.append(step)


def _makes_new(op: Op) -> bool:
    """Whether the op's result is memory of its own for certain."""
    return isinstance(meaning(op), np.ufunc) or meaning(op) is np.where


def _runs_short(layout: Layout) -> bool:
    """Whether NumPy, which walks arrays in memory order, would walk this view in very short runs.

    A copy in the order of the space's axes then pays for itself with the first operation.
    """
    shape = shape_of(layout)
    moving = [(abs(s), e, a) for a, (s, e) in enumerate(zip(layout.strides, shape, strict=True)) if e > 1]
    if len(moving) < 2 or layout.guards or prod(shape) < 1 << 12:
        return False
    _, extent, axis = min(moving)
    return extent < 8 and axis != moving[-1][2] and moving[-1][1] > extent


def _where_it_holds(space: Space, guards: Sequence[Guard], term: Sequence[int]) -> Region | None:
    """The places of P where the guards hold for one term of R; None where that is not a lattice."""
    region = Region.whole(space.extents)
    for axis, at in zip(space.reduced, term, strict=True):
        region = region.along(axis, int(at), 1)
    allowed: dict[int, np.ndarray] = {}
    for g in guards:
        constant = g.constant + sum(g.coefficients[a] * int(at) for a, at in zip(space.reduced, term, strict=True))
        moving = [a for a, c in enumerate(g.coefficients) if c and a not in space.reduced and space.extents[a] > 1]
        if len(moving) > 1:
            return None
        axis = moving[0] if moving else 0
        u = constant + np.arange(space.extents[axis]) * (g.coefficients[axis] if moving else 0)
        passes = (u >= 0) & (u < g.bound) & (u % g.step == 0)
        allowed[axis] = allowed.get(axis, np.ones(space.extents[axis], bool)) & passes
    for axis, passes in allowed.items():
        places = np.flatnonzero(passes)
        step = int(places[1] - places[0]) if len(places) > 1 else 1
        if len(places) > 2 and np.any(np.diff(places) != step):
            return None
        start = int(places[0]) if len(places) else 0
        if axis in space.reduced:
            region = region if len(places) else region.along(axis, 0, 0)
        else:
            region = region.along(axis, start, len(places), step)
    return region
