"""Stacks: kernels that compute row after row of a batch, run one after the other by one workgroup a row.

The layers of a small network keep a large GPU waiting: each needs the one before, so between two of them stands a
barrier that all of the device waits for. But a layer's row needs only the same row of the layer before. In a stack a
workgroup takes one row through all of them, and waits for nobody but itself; what it hands on never leaves its memory.

What is stacked depends on layouts, and on what the device says (`Stacking`): which kernels it can add up in a stack in
the order in which it would add them up alone, and for how much work a row is worth it. No kernel's values change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import prod

from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Compute, Gather, Guarded, Index, Instruction, Kernel, Load, Reduce

# Members, and instructions of all of them, in one shader: more takes long to compile.
MOST_MEMBERS, MOST_CODE = 16, 600
LOOK_AHEAD = 64  # kernels that need a stack and cannot join it, one after the other, until nobody else is asked


@dataclass(frozen=True)
class Stacking:
    """What a device says of stacks.

    lanes        among how many lanes of a workgroup the terms of a kernel's row are shared, which gives it the bits
                 that it has alone; None where it cannot be a member
    at_once      how many workgroups have a processor of their own
    most_words   32-bit words of a row that may be handed on in all
    level_us     what a level costs beyond its work: a member must take less time than this
    words_per_us, steps_per_us   what one processor loads of cached memory, and how many instructions it does
    trip_us      how long an invocation waits in one trip of a loop over terms, be it alone
    at_a_time    places of an invocation that share such a trip, times the invocations of a workgroup
    """

    lanes: Callable[[Kernel], int | None]
    at_once: int = 132
    most_words: int = 6144
    level_us: float = 3.5
    words_per_us: float = 27_000
    steps_per_us: float = 218_000
    trip_us: float = 0.1
    at_a_time: int = 8 * 512


@dataclass
class Stack:
    """Positions of the kernels of a stack with their rows' axes, and how many elements a row of each buffer has."""

    rows: int
    members: dict[int, tuple[Kernel, int]]
    staged: dict[int, int]
    words: int = 0  # of shared memory for all that is staged


def find_stacks(
    kernels: Sequence[Kernel],
    after: Sequence[Set[int]],
    order: Sequence[int],
    barred: Set[int],
    stacking: Stacking,
    max_buffers: int,
) -> list[Stack]:
    """Stacks of two or more kernels, the longest first. `order` lists positions so that each comes after what it needs.

    Kernels in `barred` (those that write over what others read) stay alone.
    """
    search = _Search(kernels, after, order, stacking, max_buffers)
    search.free = {p for p in order if p not in barred and stacking.lanes(kernels[p]) is not None}
    waiting = [(-len(stack.members), place, 0) for place in range(len(order)) if (stack := search.grow(place))]
    heapify(waiting)
    while waiting:
        _, place, known = heappop(waiting)
        stack = search.grow(place)
        if stack is None:
            continue
        if known < len(search.stacks) and -len(stack.members) > (waiting[0][0] if waiting else 0):
            heappush(waiting, (-len(stack.members), place, len(search.stacks)))  # others took some of its members
        else:
            search.take(stack)
    return search.stacks


class _Search:
    """Stacks that were found so far, and those that could be next."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        after: Sequence[Set[int]],
        order: Sequence[int],
        stacking: Stacking,
        max_buffers: int,
    ):
        self.kernels, self.after, self.order = kernels, after, order
        self.stacking, self.max_buffers = stacking, max_buffers
        self.free: set[int] = set()  # positions that may still become members
        self.stacks: list[Stack] = []
        self.unit: dict[int, Stack] = {}
        self.sorted = list(order)
        self.place = {position: place for place, position in enumerate(order)}  # in `sorted`
        self.readers: dict[int, list[int]] = {}
        for position in order:
            for needed in after[position]:
                self.readers.setdefault(needed, []).append(position)

    def take(self, stack: Stack) -> None:
        self.stacks.append(stack)
        self.unit.update(dict.fromkeys(stack.members, stack))
        self.free -= stack.members.keys()
        self._gather(stack)

    def _gather(self, stack: Stack) -> None:
        """Bring the members side by side: what stands among them and needs one of them goes behind them.

        A stack is one dispatch, and stands in `sorted` as one; so nothing between its members can need some of them
        and be needed by others.
        """
        first, last = (pick(self.place[member] for member in stack.members) for pick in (min, max))
        before: list[int] = []
        late: dict[int, None] = {}
        for position in self.sorted[first : last + 1]:
            unit = self.unit.get(position)
            if unit is stack or position in late:
                continue
            together = (position,) if unit is None else unit.members
            needs = [self.after[member] for member in together]
            if all(own.isdisjoint(stack.members) and own.isdisjoint(late) for own in needs):
                before.append(position)
            else:
                late.update(dict.fromkeys(together))
        self.sorted[first : last + 1] = [*before, *stack.members, *late]
        self.place.update((self.sorted[place], place) for place in range(first, last + 1))

    def grow(self, place: int) -> Stack | None:
        """The stack that begins with the kernel at `place` of the order, if another one joins it."""
        start = self.order[place]
        stack = _begin(self.kernels[start], start, self.stacking) if start in self.free else None
        if stack is None:
            return None
        outside: set[int] = set()  # what needs the stack, and is not in it
        asked: set[int] = set()
        next_up: list[int] = []  # places of what needs the stack

        def ask_readers(of: Iterable[int]) -> None:
            for position in of:
                for reader in self.readers.get(position, ()):
                    if reader not in asked:
                        asked.add(reader)
                        heappush(next_up, self.place[reader])

        ask_readers((start,))
        since = 0
        while next_up and since <= LOOK_AHEAD:
            position = self.sorted[heappop(next_up)]
            if self.after[position].isdisjoint(outside) and position in self.free and self._join(stack, position):
                since = 0
                ask_readers((position,))
                continue
            unit = self.unit.get(position)
            together = (position,) if unit is None else tuple(unit.members)  # what needs a part of it needs it all
            outside.update(together)
            ask_readers(together)
            since += 1
        return stack if len(stack.members) > 1 else None

    def _join(self, stack: Stack, position: int) -> bool:
        return _join(stack, self.kernels[position], position, self.stacking, self.max_buffers)


def _begin(kernel: Kernel, position: int, stacking: Stacking) -> Stack | None:
    """A stack of this kernel alone: its rows are the places of the axis along which what it writes lies widest."""
    if not kernel.parallel:
        return None
    store = kernel.stores[0].layout
    axis = max(range(kernel.parallel), key=lambda a: abs(store.strides[a]))
    rows = kernel.extents[axis]
    if rows < 2 or not _is_worth_it(kernel, axis, stacking):
        return None
    stack = Stack(rows, {position: (kernel, axis)}, {})
    return stack if _stage(stack, kernel, axis, stacking) else None


def _stage(stack: Stack, kernel: Kernel, axis: int, stacking: Stacking) -> bool:
    """Whether the rows of all that `kernel` writes can be handed on; they are added to the stack then."""
    found: dict[int, int] = {}
    words = stack.words
    for store in kernel.stores:
        row = store.layout.strides[axis]
        low, high = _span(store.layout, axis)
        if row <= 0 or low < 0 or high >= row or store.layout.guards:
            return False
        found[kernel.slots[store.slot]] = row
        words += row * max(store.dtype.size_bytes // 4, 1)
    if words > stacking.most_words:
        return False
    stack.staged.update(found)
    stack.words = words
    return True


def _span(layout: Layout, axis: int, beyond: int = 0) -> tuple[int, int]:
    """The lowest and highest address in row 0, or beyond."""
    low = high = layout.offset
    moves = [s * (e - 1) for a, (s, e) in enumerate(zip(layout.strides, layout.extents, strict=True)) if a != axis]
    moves += [guard.stride * ((guard.bound - 1) // guard.step) for guard in layout.guards]
    for move in (*moves, beyond):
        low, high = low + min(move, 0), high + max(move, 0)
    return low, high


def _join(stack: Stack, kernel: Kernel, position: int, stacking: Stacking, max_buffers: int) -> bool:
    """Whether `kernel` can be the next member: it reads of what is staged only its own row. It is one then."""
    buffers = {buffer for member, _ in stack.members.values() for buffer in member.slots} | set(kernel.slots)
    code = len(kernel.code) + sum(len(member.code) for member, _ in stack.members.values())
    if len(buffers) > max_buffers or len(stack.members) >= MOST_MEMBERS or code > MOST_CODE:
        return False
    for axis in range(kernel.parallel):
        extent = kernel.extents[axis]
        if extent % stack.rows:
            continue
        cut = kernel if extent == stack.rows else split_axis(kernel, axis, stack.rows)
        if cut.product is not None and cut is not kernel:
            continue
        own = all(_reads_its_row(stack, cut, axis, instruction) for instruction in cut.code)
        if own and _is_worth_it(cut, axis, stacking) and _stage(stack, cut, axis, stacking):
            stack.members[position] = (cut, axis)
            return True
    return False


def _reads_its_row(stack: Stack, kernel: Kernel, axis: int, instruction: Instruction) -> bool:
    if not isinstance(instruction, (Load, Gather)) or kernel.slots[instruction.slot] not in stack.staged:
        return True
    layout, row = instruction.layout, stack.staged[kernel.slots[instruction.slot]]
    if any(guard.coefficients[axis] for guard in layout.guards):
        return False
    beyond = instruction.stride * (instruction.bound - 1) if isinstance(instruction, Gather) else 0
    low, high = _span(layout, axis, beyond)
    # Where guards fail nothing is read, so the span may only be too large.
    return layout.strides[axis] == row and low >= 0 and high < row


def split_axis(kernel: Kernel, axis: int, outer: int) -> Kernel:
    """The same kernel with one of its parallel axes as two, of which the first has extent `outer`."""
    inner = kernel.extents[axis] // outer

    def moved(layout: Layout) -> Layout:
        def form(f: Sequence[int]) -> tuple[int, ...]:
            return (*f[:axis], f[axis] * inner, f[axis], *f[axis + 1 :])

        guards = tuple(replace(g, coefficients=form(g.coefficients)) for g in layout.guards)
        return Layout((*layout.extents[:axis], outer, inner, *layout.extents[axis + 1 :]), form(layout.strides),
                      layout.offset, guards)  # fmt: skip

    code = tuple(
        replace(i, layout=moved(i.layout)) if isinstance(i, (Load, Index, Guarded, Gather)) else i for i in kernel.code
    )
    stores = tuple(replace(store, layout=moved(store.layout)) for store in kernel.stores)
    extents = (*kernel.extents[:axis], outer, inner, *kernel.extents[axis + 1 :])
    return replace(kernel, extents=extents, parallel=kernel.parallel + 1, code=code, stores=stores)


def time_us(kernel: Kernel, axis: int, stacking: Stacking) -> float:
    """About how long a device takes for all rows of a member: its loads, its instructions, or just waiting."""
    full, rows = kernel.is_full(), kernel.extents[axis]
    places, loops = kernel.places // rows, kernel.loops()
    loads = steps = 0
    for index, instruction in enumerate(kernel.code):
        times = places * (kernel.terms * loops if full[index] or isinstance(instruction, Reduce) else 1)
        if isinstance(instruction, (Load, Gather)):
            layout = instruction.layout
            # What is read again and again comes from the nearest cache, or from a register.
            loads += min(times, prod(e for a, e in enumerate(layout.extents) if layout.strides[a] and a != axis))
            steps += 3 * times
        elif isinstance(instruction, (Compute, Reduce)) or full[index]:
            steps += times
    lanes = stacking.lanes(kernel) or 1
    trips = -(-kernel.terms // lanes) * -(-places * lanes // stacking.at_a_time) * loops
    busy_us = max(loads / stacking.words_per_us, steps / stacking.steps_per_us)
    return max(max(rows / stacking.at_once, 1.0) * busy_us, trips * stacking.trip_us)


def _is_worth_it(kernel: Kernel, axis: int, stacking: Stacking) -> bool:
    """Whether the device is done with this kernel's rows sooner than with a level more."""
    return time_us(kernel, axis, stacking) < stacking.level_us
