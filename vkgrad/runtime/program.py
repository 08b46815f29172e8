"""A nest as a list of NumPy calls over the whole iteration space at once, made once and run on any buffers.

Values that depend on no buffer are computed when it is made; the others get their memory then. This module must not
know products: those are `blas.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir.layout import Layout
from vkgrad.ops.narrow import decoded, encoded, meaning_of
from vkgrad.runtime import padding
from vkgrad.runtime.access import Buffers, Region, addresses, holds, reader, settle, shape_of, viewer
from vkgrad.runtime.calls import Call, elementwise_call, in_row_order, meaning, reduction_call, takes_memory
from vkgrad.runtime.nest import Space
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Compute, Gather, Guarded, Index, Literal, Load, Reduce, Store, operands

Registers = list[Any]  # the value of each instruction: an array with one axis per axis of the space
Step = Callable[[Registers, Buffers], None]


class Program:
    """The calls that compute `roots` (or everything that is stored) over a space.

    `given` are instructions whose arrays the caller supplies to `values`. The arrays of `roots` are lent until
    `release`; `innermost` is an axis that whoever reads them walks last. Memory comes from `scratch`: a value's is used
    again after its last use.
    """

    def __init__(
        self,
        space: Space,
        scratch: Scratch,
        roots: Sequence[int] | None = None,
        given: Mapping[int, tuple[int, ...]] | None = None,
        innermost: int | None = None,
    ):
        self.space, self.scratch, self.innermost = space, scratch, innermost
        self.static: dict[int, np.ndarray] = {}
        self.steps: list[Step] = []
        self.shapes = space.shapes(given)
        self.lent: dict[int, np.ndarray] = {}  # memory from scratch by the register whose value is in it
        wanted = [store.value for store in space.stores] if roots is None else list(roots)
        self.passes = {i: found for i in range(len(space.code)) if (found := padding.passes(space, i)) is not None}
        needed = space.needs(wanted, given or (), self.passes)
        self.last = {i: index for index in needed if index not in self.passes for i in operands(space.code[index])}
        self.last |= {root: len(space.code) for root in wanted}
        self.placed = self._placed(needed) if roots is None else None
        for index in needed:
            self._add(index)
        if roots is None:
            for store in space.stores if self.placed is None else ():
                self._store(store)
            self.release()

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

    def release(self) -> None:
        """What is prepared from now on may overwrite the values: whoever runs this has read them by then."""
        for array in self.lent.values():
            self.scratch.give(array)
        self.lent.clear()

    # ---- one instruction
    def _add(self, index: int) -> None:
        instruction = self.space.code[index]
        match instruction:
            case Literal():
                value = np.full((1,) * len(self.space.extents), instruction.value, instruction.dtype.computed.numpy)
                self.static[index] = value
            case Index():
                self.static[index] = addresses(instruction.layout).astype(instruction.dtype.numpy)
            case Load():
                self._load(index, instruction)
            case Gather():
                self._gather(index, instruction)
            case Guarded():
                outside, fill = ~holds(instruction.layout), instruction.dtype.computed.numpy.type(instruction.fill)
                pad = (lambda x: np.where(outside, fill, x)) if outside.any() else (lambda x: x)
                self._apply(index, pad, (instruction.value,))
            case Compute():
                self._compute(index, instruction)
            case Reduce():
                self._reduce(index, instruction)
        for i in set(operands(instruction)):
            if self.last.get(i) == index and i in self.lent:
                self.scratch.give(self.lent.pop(i))

    def _apply(self, index: int, function: Callable, sources: Sequence[int]) -> None:
        """`function` of earlier values, called now if they are known now. Its result may be a view of one of them."""
        if all(i in self.static for i in sources):
            with np.errstate(all="ignore"):
                self.static[index] = function(*(self.static[i] for i in sources))
            return
        for i in sources:
            self.last[i] = len(self.space.code)

        def step(registers: Registers, buffers: Buffers) -> None:
            registers[index] = function(*[registers[i] for i in sources])

        self.steps.append(step)

    def _call(self, index: int, call: Call, sources: Sequence[int], out: np.ndarray | None) -> None:
        """`call` of earlier values into `out`, or where it is stored."""
        if out is None:
            (store,) = self.space.stores
            view = viewer(store.slot, store.layout, store.dtype.numpy)

            def step(registers: Registers, buffers: Buffers) -> None:
                call(*[registers[i] for i in sources], out=view(buffers))

            self.steps.append(step)
            return
        match tuple(sources):
            case (x,):

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = call(registers[x], out=out)

            case (x, y):

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = call(registers[x], registers[y], out=out)

            case _:

                def step(registers: Registers, buffers: Buffers) -> None:
                    registers[index] = call(*[registers[i] for i in sources], out=out)

        self.steps.append(step)

    def _compute(self, index: int, instruction: Compute) -> None:
        op, attributes, sources = instruction.op, dict(instruction.attributes), instruction.operands
        shape, dtype = self.shapes[index], instruction.dtype.computed.numpy
        in_place = not instruction.dtype.narrow and takes_memory(op, shape, dtype)
        if attributes or all(i in self.static for i in sources) or not in_place:
            plain = meaning_of(op, instruction.dtype)
            self._apply(index, (lambda *x: plain(*x, **attributes)) if attributes else plain, sources)
            return
        spares = sources if op.name != "where" else sources[1:2] if sources[1] != sources[2] else ()
        out = None if index == self.placed else self._memory(index, spares)
        self._call(index, elementwise_call(op, shape, dtype, self.shapes[sources[0]], self.scratch), sources, out)

    def _memory(self, index: int, spares: Sequence[int] = ()) -> np.ndarray:
        """Memory for value `index`: that of one of `spares` if nobody needs it any more."""
        code, shape, dtype = self.space.code, self.shapes[index], self.space.code[index].dtype
        for i in spares:
            if i in self.lent and self.last[i] == index and code[i].dtype is dtype and self.shapes[i] == shape:
                self.lent[index] = self.lent.pop(i)
                break
        else:
            self.lent[index] = self.scratch.take(shape, dtype.computed.numpy)
        return self.lent[index]

    def _load(self, index: int, load: Load) -> None:
        dtype = load.dtype
        fill = encoded(load.fill, dtype).item() if dtype.narrow else load.fill
        read = reader(load.slot, load.layout, dtype.memory, fill, self.innermost)
        if dtype.narrow:
            for_memory = read
            read = lambda buffers: decoded(for_memory(buffers), dtype)  # noqa: E731
        if _runs_short(load.layout) and self.last[index] < len(self.space.code):
            copy, copyto = self._memory(index), np.copyto

            def step(registers: Registers, buffers: Buffers) -> None:
                copyto(copy, read(buffers))
                registers[index] = copy

        else:

            def step(registers: Registers, buffers: Buffers) -> None:
                registers[index] = read(buffers)

        self.steps.append(step)

    def _gather(self, index: int, gather: Gather) -> None:
        layout, slot, source = settle(gather.layout), gather.slot, gather.index
        base, inside = addresses(layout), holds(layout)
        stride, bound = gather.stride, gather.bound
        dtype = gather.dtype
        fill = dtype.computed.numpy.type(np.nan if dtype.kind == "f" else 0)

        def step(registers: Registers, buffers: Buffers) -> None:
            position = registers[source].astype(np.int64)
            found = (position >= 0) & (position < bound) & inside
            places = np.where(found, base + position * stride, 0)
            registers[index] = np.where(found, decoded(buffers[slot].take(places), dtype), fill)

        self.steps.append(step)

    def _reduce(self, index: int, reduce: Reduce) -> None:
        axes, value = self.space.reduced, reduce.value
        if index in self.passes:
            self._sum_by_term(index, *self.passes[index])
            return
        shape = self.shapes[value]
        full = tuple(self.space.extents[a] if a in axes else e for a, e in enumerate(shape))
        call = reduction_call(reduce.op, axes, reduce.dtype.numpy, self.space.terms)
        if value in self.static or call is None:
            join = meaning(reduce.op)
            self._apply(index, lambda x: join(np.broadcast_to(x, full), axes=axes), (value,))
        elif full == shape:
            total = self._memory(index)  # taken first: what `in_row_order` gives back must not become it
            ordered = in_row_order(call, shape, reduce.dtype.numpy, self.scratch) if _is_rounded(reduce) else call
            self._call(index, ordered, (value,), total)
        else:
            self._call(index, lambda x, out: call(np.broadcast_to(x, full), out), (value,), self._memory(index))

    def _sum_by_term(self, index: int, value: int, regions: Sequence[Region]) -> None:
        # A guard may have been all that gave the sum an axis, so the sum has every axis of P that its terms have.
        total = self._memory(index)
        parts = []
        for region in regions:
            program = Program(self.space.within(region), self.scratch, [value])
            program.release()  # each term is added before the next one is made
            parts.append((program.values, total[region.index(total.shape)]))
        add = np.add

        def step(registers: Registers, buffers: Buffers) -> None:
            total.fill(0)
            for values, place in parts:
                add(place, values(buffers)[value], place)
            registers[index] = total

        self.steps.append(step)

    # ---- results
    def _store(self, store: Store) -> None:
        dtype, value, copyto = store.dtype, store.value, np.copyto
        view = viewer(store.slot, store.layout, dtype.memory)
        if dtype.narrow:

            def convert(registers: Registers, buffers: Buffers) -> None:
                copyto(view(buffers), encoded(registers[value], dtype))

            self.steps.append(convert)
            return

        def step(registers: Registers, buffers: Buffers) -> None:
            copyto(view(buffers), registers[value])

        self.steps.append(step)

    def _placed(self, needed: Sequence[int]) -> int | None:
        """The instruction whose result needs no memory, because it comes last and can go where it is stored."""
        if len(self.space.stores) != 1 or not needed or needed[-1] != self.space.stores[0].value:
            return None
        if not any(i in self.passes or isinstance(self.space.code[i], Load | Gather) for i in needed):
            return None  # it is known when this is made
        (store,), index = self.space.stores, needed[-1]
        last, shape = self.space.code[index], self.shapes[index]
        if not isinstance(last, Compute) or last.attributes or shape != shape_of(store.layout):
            return None
        # A selection reads its third operand after it has written, which may be the value that is replaced.
        if last.op.name == "where" and not isinstance(self.space.code[last.operands[2]], Literal):
            return None
        return index if not last.dtype.narrow and takes_memory(last.op, shape, last.dtype.numpy) else None


def _is_rounded(reduce: Reduce) -> bool:
    """Whether the order of the terms shows in the result."""
    return reduce.dtype.kind == "f" and reduce.op.name in ("sum", "prod")


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
