"""The NumPy twin: runs the kernels of a plan on the CPU, by the same `Kernel` records as every other device.

`prepare` does all thinking about shapes once and returns a closure that runs quickly and often. It must not know nodes,
plans or tensors. Warnings about overflow and NaN are for the caller to turn off, once for all kernels of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from vkgrad.ops.narrow import decoded, encoded
from vkgrad.runtime.access import Buffers, parts
from vkgrad.runtime.blas import Contraction
from vkgrad.runtime.blocks import blockwise
from vkgrad.runtime.lanes import Lanes, shares
from vkgrad.runtime.nest import Space
from vkgrad.runtime.overlap import overlapping
from vkgrad.runtime.padding import passes
from vkgrad.runtime.program import Program
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Call, Dispatch, Group, Kernel, Load

LARGEST_VALUE = 1 << 18  # elements of the largest array that a part of a nest computes: half of a second-level cache
MOST_KEPT = 64  # parts of a nest whose programs are kept; those of a longer list are made anew in each run
FEW_TERMS = 64  # up to here the reduced axes come first: arrays of many places are then joined, not many short rows


def prepare(kernel: Dispatch, lanes: Lanes | None = None) -> Callable[[Buffers], None]:
    """A function that runs `kernel` on flat arrays, one per slot.

    Functions made with the same `lanes` must not run at the same time. A boolean array is `np.bool_`; every array has
    exactly the type that the kernel says. Stores may alias loads of the same places.
    """
    lanes = lanes or Lanes()
    if isinstance(kernel, Group):
        return _in_order(kernel, lanes)
    if kernel.routine is not None:
        return called(kernel, kernel.routine)
    if kernel.product is None and (blocks := blockwise(Space.of(kernel), lanes.count)):
        return blocks
    if kernel.product is not None:
        return alone(kernel, lanes.scratches[0], lanes.count)
    runs = [alone(*share) for share in zip(shares(kernel, lanes.count), lanes.scratches, strict=False)]
    return runs[0] if len(runs) == 1 else lanes.together(runs)


def called(kernel: Kernel, call: Call) -> Callable[[Buffers], None]:
    """A routine, by the NumPy meaning of its op."""
    meaning, attributes = getattr(call.op.numpy, "__wrapped__", call.op.numpy), dict(call.attributes)
    loads = [load for load in (kernel.code[index] for index in call.operands) if isinstance(load, Load)]
    (store,) = kernel.stores

    def run(buffers: Buffers) -> None:
        operands = [decoded(buffers[load.slot], load.dtype) for load in loads]
        shaped = [operand.reshape(shape) for operand, shape in zip(operands, call.shapes, strict=True)]
        buffers[store.slot][:] = np.reshape(encoded(meaning(*shaped, **attributes), store.dtype), -1)

    return run


def _in_order(group: Group, lanes: Lanes) -> Callable[[Buffers], None]:
    """The members of a group one by one: what they hand to each other is in memory here."""
    members = [(prepare(kernel, lanes), [group.slots.index(b) for b in kernel.slots]) for kernel in group.kernels]

    def run(buffers: Buffers) -> None:
        for member, slots in members:
            member([buffers[slot] for slot in slots])

    return run


def alone(kernel: Kernel, scratch: Scratch, threads: int = 1) -> Callable[[Buffers], None]:
    """The same without lanes; a product may have native threads at work."""
    if kernel.product is not None:
        return overlapping(kernel, scratch, threads) or Contraction(kernel, scratch, threads)
    order = list(range(len(kernel.extents)))
    if kernel.terms <= FEW_TERMS:
        order = [*order[kernel.parallel :], *order[: kernel.parallel]]
    return in_parts(Space.of(kernel, order), scratch)


def in_parts(space: Space, scratch: Scratch) -> Callable[[Buffers], None]:
    """Runs a space as a whole, or where its values are large, part after part."""
    shapes = space.shapes()
    by_term = [i for i in range(len(space.code)) if passes(space, i) is not None]  # these have no array for all terms
    computed = [shapes[i] for i in space.needs([store.value for store in space.stores], cut=by_term)]
    largest = [max(extents) for extents in zip(*computed, strict=True)]
    size = max(map(prod, computed))
    if size <= LARGEST_VALUE:
        return Program(space, scratch)
    parallel = [axis for axis in range(len(space.extents)) if axis not in space.reduced]
    regions = list(parts(space.extents, [a for a in parallel if largest[a] > 1], -(-size // LARGEST_VALUE)))
    if len(regions) <= MOST_KEPT:
        programs = [Program(space.within(region), scratch) for region in regions]

        def run(buffers: Buffers) -> None:
            for program in programs:
                program(buffers)
    else:

        def run(buffers: Buffers) -> None:
            for region in regions:
                Program(space.within(region), scratch)(buffers)

    return run
