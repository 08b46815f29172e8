"""Sums over windows that do not overlap have one term: kernels in, equal kernels without the loop out.

The gradient of pooling puts each window's gradient back where it came from: it sums over the places in a window, and
all terms but one are padding, for `position + place` must be a multiple of the window's step. Where the step is the
window's size, there is exactly one such place for every position, and it is known: with the position's axis P split as
`step * outer + inner`, the place is `inner` (or `step - 1 - inner`). The loop goes, and what tested for a multiple
becomes a plain range test, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vkgrad.ir.layout import Guard, Layout
from vkgrad.schedule.chains import prune
from vkgrad.schedule.kernel import Compute, Gather, Guarded, Index, Instruction, Kernel, Literal, Load, Reduce, operands
from vkgrad.schedule.lower import canonical


@dataclass(frozen=True)
class Window:
    """Parallel axis `position` and reduced axis `place` of which only the places `sign * inner + first` count."""

    position: int
    place: int
    step: int
    sign: int
    first: int


def without_windows(kernel: Kernel) -> Kernel:
    """`kernel` with every sum over windows that do not overlap as its one term."""
    resolved = kernel
    while (window := _window(resolved)) is not None:
        resolved = _resolved(resolved, window)
    return kernel if resolved is kernel else canonical(resolved)


def _window(kernel: Kernel) -> Window | None:
    sums = [instruction for instruction in kernel.code if isinstance(instruction, Reduce)]
    if kernel.product is not None or not sums or any(total.op.name != "sum" for total in sums):
        return None
    if any(map(kernel.stores_along, kernel.stores)):
        return None
    for guard in _guards_of(kernel, sums[0].value):
        window = _from_guard(kernel, guard)
        if window is not None and all(_vanishes(kernel, total.value, guard) for total in sums):
            return window
    return None


def _guards_of(kernel: Kernel, index: int) -> Sequence[Guard]:
    """The guards that may keep the value from being nothing but `fill`."""
    found: list[Guard] = []
    while isinstance(instruction := kernel.code[index], Guarded):
        found += instruction.layout.guards
        index = instruction.value
    if isinstance(instruction, Load):
        found += instruction.layout.guards
    return found


def _from_guard(kernel: Kernel, guard: Guard) -> Window | None:
    """The window that `guard` speaks of, if exactly one place passes for each position, in line with it."""
    axes = [axis for axis, coefficient in enumerate(guard.coefficients) if coefficient]
    if guard.step == 1 or len(axes) != 2 or not axes[0] < kernel.parallel <= axes[1]:
        return None
    position, place = axes
    step, sign = guard.step, guard.coefficients[place]
    if guard.coefficients[position] != 1 or abs(sign) != 1:
        return None
    if kernel.extents[place] != step or kernel.extents[position] % step:
        return None
    first = step - 1 if sign == 1 else 0
    if (guard.constant + first) % step:  # the windows begin elsewhere
        return None
    return Window(position, place, step, -sign, first)


def _vanishes(kernel: Kernel, index: int, guard: Guard) -> bool:
    """Whether a value is zero wherever `guard` does not hold."""
    instruction = kernel.code[index]
    match instruction:
        case Guarded():
            own = instruction.fill == 0 and _condition(guard) in map(_condition, instruction.layout.guards)
            return own or (instruction.fill == 0 and _vanishes(kernel, instruction.value, guard))
        case Load():
            return instruction.fill == 0 and _condition(guard) in map(_condition, instruction.layout.guards)
        case Literal():
            return instruction.value == 0
        case Compute() if instruction.op.name == "where":
            return all(_vanishes(kernel, operand, guard) for operand in instruction.operands[1:])
        case _:
            return False


def _condition(guard: Guard) -> tuple:
    return guard.coefficients, guard.constant, guard.bound, guard.step


def _resolved(kernel: Kernel, window: Window) -> Kernel:
    """The kernel with the position's axis in two, and the place's axis gone."""
    step = window.step

    def extents_of(old: Sequence[int]) -> tuple[int, ...]:
        outer = (old[window.position] // step, step)
        return tuple(
            e
            for axis, extent in enumerate(old)
            for e in (outer if axis == window.position else () if axis == window.place else (extent,))
        )

    def form_of(old: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Coefficients on the new axes, and what is added to the constant."""
        position, place = old[window.position], old[window.place]
        split = (position * step, position + window.sign * place)
        new = tuple(
            c
            for axis, coefficient in enumerate(old)
            for c in (split if axis == window.position else () if axis == window.place else (coefficient,))
        )
        return new, place * window.first

    def moved(layout: Layout) -> Layout:
        strides, more = form_of(layout.strides)
        guards = []
        for guard in layout.guards:
            coefficients, shift = form_of(guard.coefficients)
            guards.append(replace(guard, coefficients=coefficients, constant=guard.constant + shift))
        return prune(linear(Layout(extents_of(layout.extents), strides, layout.offset + more, tuple(guards))))

    code: list[Instruction] = []
    new: dict[int, int] = {}  # old position -> new one
    joins_nothing = len(kernel.extents) - kernel.parallel == 1
    for old, instruction in enumerate(kernel.code):
        match instruction:
            case Reduce() if joins_nothing:
                new[old] = new[instruction.value]
                continue
            case Guarded():
                layout = moved(instruction.layout)
                if not layout.guards:
                    new[old] = new[instruction.value]
                    continue
                made: Instruction = replace(instruction, layout=layout, value=new[instruction.value])
            case Load() | Index():
                made = replace(instruction, layout=moved(instruction.layout))
            case Gather():
                made = replace(instruction, layout=moved(instruction.layout), index=new[instruction.index])
            case Compute():
                made = replace(instruction, operands=tuple(new[i] for i in instruction.operands))
            case Reduce():
                made = replace(instruction, value=new[instruction.value])
            case _:
                assert not operands(instruction)
                made = instruction
        new[old] = len(code)
        code.append(made)
    stores = tuple(replace(store, layout=moved(store.layout), value=new[store.value]) for store in kernel.stores)
    return replace(
        kernel, extents=extents_of(kernel.extents), parallel=kernel.parallel + 1, code=tuple(code), stores=stores
    )


def linear(layout: Layout) -> Layout:
    """Without steps in guards whose sum is always a multiple of its step: what they add to the address is linear."""
    strides, offset, guards = list(layout.strides), layout.offset, []
    for guard in layout.guards:
        if guard.step > 1 and all(c % guard.step == 0 for c in (*guard.coefficients, guard.constant)):
            coefficients = tuple(c // guard.step for c in guard.coefficients)
            constant = guard.constant // guard.step
            for axis, coefficient in enumerate(coefficients):
                strides[axis] += guard.stride * coefficient
            offset += guard.stride * constant
            guard = Guard(coefficients, constant, (guard.bound - 1) // guard.step + 1, vital=guard.vital)
        guards.append(guard)
    return Layout(layout.extents, tuple(strides), offset, tuple(guards))
