"""Stacks: kernels that compute row after row of a batch, run one after the other by one workgroup a row.

The layers of a small network keep a large GPU waiting: each needs the one before, so between two of them stands a
barrier that all of the device waits for. But a layer's row needs only the same row of the layer before. In a stack a
workgroup takes one row through all of them, and waits for nobody but itself; what it hands on never leaves its memory.

What is stacked depends on layouts, and on what the device says (`Stacking`): which kernels it can add up in a stack in
the order in which it would add them up alone, and for how much work a row is worth it. No kernel's values change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Compute, Gather, Guarded, Index, Instruction, Kernel, Load, Reduce


@dataclass(frozen=True)
class Stacking:
    """What a device says of stacks.

    can          whether a kernel's row can be computed by one workgroup, with the same bits
    at_once      how many workgroups have a processor of their own
    most_words   elements of a row that may be handed on in all
    level_us     what a level costs beyond its work: a member must take less time than this
    words_per_us, steps_per_us   what one processor loads of cached memory, and how many instructions it does
    """

    can: Callable[[Kernel], bool]
    at_once: int = 132
    most_words: int = 6144
    level_us: float = 5.0
    words_per_us: float = 27_000
    steps_per_us: float = 218_000


@dataclass
class Stack:
    """Positions of the kernels of a stack with their rows' axes, and how many elements a row of each buffer has."""

    rows: int
    members: dict[int, tuple[Kernel, int]]
    staged: dict[int, int]

    def words(self) -> int:
        return sum(self.staged.values())


def find_stacks(
    kernels: Sequence[Kernel], after: Sequence[Set[int]], order: Sequence[int], barred: Set[int],
    stacking: Stacking, max_buffers: int,
) -> list[Stack]:  # fmt: skip
    """Stacks of two or more kernels. `order` lists positions so that each comes after those it needs.

    Kernels in `barred` (those that write over what others read) stay alone.
    """
    stacks: list[Stack] = []
    unit: dict[int, int] = {}  # position -> number of its stack
    for start in order:
        if start in unit or start in barred or not stacking.can(kernels[start]):
            continue
        stack = _begin(kernels[start], start, stacking)
        if stack is None:
            continue
        outside: set[int] = set()  # what needs the stack, and is not in it
        for position in _order_of_units(order, after, unit):
            needs = after[position]
            if position in stack.members or not (needs & stack.members.keys() or needs & outside):
                continue
            joined = not needs & outside and position not in unit and position not in barred
            if not (joined and stacking.can(kernels[position])
                    and _join(stack, kernels[position], position, kernels, stacking, max_buffers)):  # fmt: skip
                outside.add(position)
                if position in unit:  # a stack is one dispatch: what needs a part of it needs it all
                    outside.update(stacks[unit[position]].members)
        if len(stack.members) > 1:
            for position in stack.members:
                unit[position] = len(stacks)
            stacks.append(stack)
    return stacks


def _order_of_units(order: Sequence[int], after: Sequence[Set[int]], unit: Mapping[int, int]) -> list[int]:
    """`order` with the members of each stack where the first of them could not come earlier."""
    if not unit:
        return list(order)
    together: dict[int, set[int]] = {}
    for position, number in unit.items():
        together.setdefault(number, set()).add(position)
    needs = [
        set().union(*(after[p] for p in together[unit[position]])) - together[unit[position]]
        if position in unit else set(after[position])
        for position in range(len(after))
    ]  # fmt: skip
    out: list[int] = []
    seen: set[int] = set()
    for start in order:
        stack = [(start, False)]
        while stack:
            position, ready = stack.pop()
            if ready:
                out.append(position)
            elif position not in seen:
                seen.add(position)
                stack.append((position, True))
                stack.extend((p, False) for p in sorted(needs[position]))
    return out


def _begin(kernel: Kernel, position: int, stacking: Stacking) -> Stack | None:
    """A stack of this kernel alone: its rows are the places of the axis along which what it writes lies widest."""
    if not kernel.parallel:
        return None
    store = kernel.stores[0].layout
    axis = max(range(kernel.parallel), key=lambda a: abs(store.strides[a]))
    rows = kernel.extents[axis]
    if rows < 2 or not _is_worth_it(kernel, rows, stacking):
        return None
    stack = Stack(rows, {position: (kernel, axis)}, {})
    return stack if _stage(stack, kernel, axis, stacking) else None


def _stage(stack: Stack, kernel: Kernel, axis: int, stacking: Stacking) -> bool:
    """Whether the rows of all that `kernel` writes can be handed on; they are added to the stack then."""
    found: dict[int, int] = {}
    for store in kernel.stores:
        row = store.layout.strides[axis]
        low, high = _span(store.layout, axis)
        if row <= 0 or low < 0 or high >= row or store.layout.guards:
            return False
        found[kernel.slots[store.slot]] = row
    if stack.words() + sum(found.values()) > stacking.most_words:
        return False
    stack.staged.update(found)
    return True


def _span(layout: Layout, axis: int, beyond: int = 0) -> tuple[int, int]:
    """The lowest and highest address in row 0, or beyond."""
    low = high = layout.offset
    moves = [s * (e - 1) for a, (s, e) in enumerate(zip(layout.strides, layout.extents, strict=True)) if a != axis]
    moves += [guard.stride * ((guard.bound - 1) // guard.step) for guard in layout.guards]
    for move in (*moves, beyond):
        low, high = low + min(move, 0), high + max(move, 0)
    return low, high


def _join(
    stack: Stack, kernel: Kernel, position: int, kernels: Sequence[Kernel], stacking: Stacking, max_buffers: int
) -> bool:
    """Whether `kernel` can be the next member: it reads of what is staged only its own row. It is one then."""
    buffers = {buffer for member, _ in stack.members.values() for buffer in member.slots} | set(kernel.slots)
    if len(buffers) > max_buffers or not _is_worth_it(kernel, stack.rows, stacking):
        return False
    for axis in range(kernel.parallel):
        extent = kernel.extents[axis]
        if extent % stack.rows:
            continue
        cut = kernel if extent == stack.rows else split_axis(kernel, axis, stack.rows)
        if cut.product is not None and cut is not kernel:
            continue
        if all(_reads_its_row(stack, cut, axis, i) for i in cut.code) and _stage(stack, cut, axis, stacking):
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


def row_time_us(kernel: Kernel, rows: int, stacking: Stacking) -> float:
    """About how long one processor takes for one row: its loads, and its instructions with their addresses."""
    full = kernel.is_full()
    places, loops = kernel.places // rows, max(kernel.loops(), 1)
    loads = steps = 0.0
    for index, instruction in enumerate(kernel.code):
        times = places * (kernel.terms * loops if full[index] or isinstance(instruction, Reduce) else 1)
        if isinstance(instruction, (Load, Gather)):
            layout = instruction.layout
            # What is read again and again comes from the nearest cache, or from a register.
            different = prod(e for e, s in zip(layout.extents, layout.strides, strict=True) if s)
            loads += min(times, different)
            steps += 3 * times
        elif isinstance(instruction, (Compute, Reduce)):
            steps += times
        else:
            steps += times if full[index] else 0
    return max(loads / stacking.words_per_us, steps / stacking.steps_per_us)


def _is_worth_it(kernel: Kernel, rows: int, stacking: Stacking) -> bool:
    """Whether the device as a whole is done with this kernel's rows sooner than a level more would be."""
    return max(rows / stacking.at_once, 1.0) * row_time_us(kernel, rows, stacking) < stacking.level_us
