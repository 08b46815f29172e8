"""Products over an image with gaps between its elements, as several products without: kernels in, kernels out.

The gradient of a convolution of stride s reads a dilated image: of s*s terms all but one are multiples of padding.
Which ones depends on where the result lies, modulo s. So the places are dealt out by their residues; each class is a
dense product with those taps that meet elements, and writes its own places of the same buffer. Nothing is copied, and
sums keep the order of the terms that are left. Any stride and dilation is served: what is solved are the guards
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import gcd, prod

from vkgrad.ir import build as b
from vkgrad.ir.layout import Guard, Layout
from vkgrad.ir.node import Node, consumers, rebuilt, walk
from vkgrad.ir.op import Family
from vkgrad.ops.contraction import extents_of
from vkgrad.schedule.kernel import Gather, Instruction, Kernel, Literal, Load, Reduce, Store
from vkgrad.schedule.lower import ADDRESSING, canonical, live

# Multiplications by padding that are worth a dispatch of each class: a large GPU does them in about a microsecond.
WORTH_SPLITTING = 1 << 22


def summed_over_gaps(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` where a contraction that is only spread out is summed over nothing once more: nodes in, nodes out.

    The gradient of a convolution of one tap ends so, in gaps around the elements of a product. Alone it would be a copy
    of its own; as a sum it takes the contraction in, and becomes classes of which one computes and the others clear.
    """
    order = walk(outputs, stop=has_value)
    readers, wanted = consumers(order), set(outputs)

    def spread_out(node: Node) -> bool:
        if node.op.family is not Family.VIEW or has_value(node):
            return False
        if node not in wanted and all(reader.op.family is Family.VIEW for reader in readers[node]):
            return False
        below, gaps = node, False
        while below.op.family is Family.VIEW and not has_value(below):
            gaps |= below.is_op("pad") and any(below.attributes["interior"])
            below = below.inputs[0]
            if below in wanted or len(readers[below]) != 1:
                return False
        if not gaps or not below.is_op("contract") or has_value(below):
            return False
        terms = prod(extents_of([source.shape for source in below.inputs], *sides(below)).values()) // below.size
        return node.size * terms >= WORTH_SPLITTING

    new: dict[Node, Node] = {}
    for node in order:
        kept = has_value(node) or node.op.family is Family.LEAF
        new[node] = node if kept else rebuilt(node, tuple(new[source] for source in node.inputs))
        if spread_out(node):
            once = b.reshape(new[node], (*node.shape, 1))
            new[node] = b.reshape(b.build("sum", once, axes=(node.ndim,)), node.shape)
    return [new[node] for node in outputs]


def sides(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return node.attributes["left"], node.attributes["right"]


def dense(kernel: Kernel) -> list[Kernel]:
    """`kernel`, or what does the same without multiplying by empty places; the parts may run beside each other."""
    if kernel.product is None or kernel.places * kernel.terms < WORTH_SPLITTING:
        return [kernel]
    return _dense(kernel)


def _dense(kernel: Kernel) -> list[Kernel]:
    found = _strided(kernel) if kernel.product else None
    if found is None:
        return [kernel]
    return [part for residue in _classes(kernel, *found) for part in _dense(residue)]


def _layouts(kernel: Kernel) -> Iterator[Layout]:
    yield from (instruction.layout for instruction in kernel.code if isinstance(instruction, ADDRESSING))


def _strided(kernel: Kernel) -> tuple[Guard, int, int | None] | None:
    """A guard with a step, the axis of P along which it is met in turn, and the axis of R along which taps are."""
    for layout in _layouts(kernel):
        for guard in layout.guards:
            axes = [axis for axis, c in enumerate(guard.coefficients) if c % guard.step]
            places = [axis for axis in axes if axis < kernel.parallel]
            taps = [axis for axis in axes if axis >= kernel.parallel]
            if guard.step > 1 and len(places) == 1 and len(taps) <= 1 and kernel.extents[places[0]] >= guard.step:
                return guard, places[0], taps[0] if taps else None
    return None


def _classes(kernel: Kernel, guard: Guard, place: int, tap: int | None) -> Iterator[Kernel]:
    """The kernel for every residue of `place` modulo the guard's step."""
    step = guard.step
    taps = range(kernel.extents[tap]) if tap is not None else range(1)
    turn = guard.coefficients[tap] if tap is not None else 0
    for residue in range(step):
        rest = guard.coefficients[place] * residue + guard.constant
        first = next((k for k in taps if (rest + turn * k) % step == 0), None)
        starts, extents, steps = [0] * len(kernel.extents), list(kernel.extents), [1] * len(kernel.extents)
        starts[place], steps[place] = residue, step
        extents[place] = -(-(kernel.extents[place] - residue) // step)
        if first is None:
            extents[kernel.parallel :] = [1] * (len(extents) - kernel.parallel)
            yield _without_terms(_cut(kernel, starts, extents, steps))
            continue
        if tap is not None:
            starts[tap], steps[tap] = first, step // gcd(turn, step)
            extents[tap] = -(-(kernel.extents[tap] - first) // steps[tap])
        yield canonical(_cut(kernel, starts, extents, steps))


def _cut(kernel: Kernel, starts: list[int], extents: list[int], steps: list[int]) -> Kernel:
    def cut(layout: Layout) -> Layout:
        return _plain(layout.slice(starts, extents, steps))

    code = tuple(
        replace(part, layout=cut(part.layout)) if isinstance(part, ADDRESSING) else part for part in kernel.code
    )
    stores = tuple(replace(store, layout=cut(store.layout)) for store in kernel.stores)
    return replace(kernel, extents=tuple(extents), code=code, stores=stores)


def _plain(layout: Layout) -> Layout:
    """The layout with guards whose steps are always met turned into plain ones."""
    strides, offset, guards = list(layout.strides), layout.offset, []
    for guard in layout.guards:
        step = guard.step
        if step > 1 and guard.constant % step == 0 and all(c % step == 0 for c in guard.coefficients):
            form, constant = tuple(c // step for c in guard.coefficients), guard.constant // step
            strides = [s + guard.stride * c for s, c in zip(strides, form, strict=True)]
            offset += guard.stride * constant
            bound = -(-guard.bound // step)
            guard = replace(guard, coefficients=form, constant=constant, bound=bound, step=1, stride=0)
        guards.append(guard)
    return Layout(layout.extents, tuple(strides), offset, tuple(guards))


def _without_terms(kernel: Kernel) -> Kernel:
    """A class that no tap meets: its sum is zero, and what follows the sum is still to be done."""
    code: list[Instruction] = [Literal(0, part.dtype) if isinstance(part, Reduce) else part for part in kernel.code]
    alive = live(replace(kernel, code=tuple(code)), None)
    parts = (*alive.code, *alive.stores)
    used = sorted({part.slot for part in parts if isinstance(part, (Load, Gather, Store))})
    moved = tuple(replace(p, slot=used.index(p.slot)) if isinstance(p, (Load, Gather)) else p for p in alive.code)
    stores = tuple(replace(store, slot=used.index(store.slot)) for store in alive.stores)
    slots = tuple(alive.slots[slot] for slot in used)
    return canonical(_in_memory_order(replace(alive, code=moved, stores=stores, slots=slots)))


def _in_memory_order(kernel: Kernel) -> Kernel:
    """The places in the order in which they lie in memory: a product's order lets neighbours write far apart."""
    strides = kernel.stores[0].layout.strides
    axes = sorted(range(kernel.parallel), key=lambda axis: -abs(strides[axis]))
    axes += range(kernel.parallel, len(kernel.extents))
    code = tuple(replace(p, layout=p.layout.permute(axes)) if isinstance(p, ADDRESSING) else p for p in kernel.code)
    stores = tuple(replace(store, layout=store.layout.permute(axes)) for store in kernel.stores)
    return replace(kernel, extents=tuple(kernel.extents[axis] for axis in axes), code=code, stores=stores)
