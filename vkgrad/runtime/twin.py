"""The NumPy twin: runs the kernels of a plan on the CPU, by the same `Kernel` records as every other device.

`prepare` does all thinking about shapes once and returns a closure that runs quickly and often. It must not know nodes,
plans or tensors. Warnings about overflow and NaN are for the caller to turn off, once for all kernels of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from vkgrad.runtime.access import Buffers, parts
from vkgrad.runtime.blas import Contraction
from vkgrad.runtime.lanes import Lanes, shares
from vkgrad.runtime.nest import Space
from vkgrad.runtime.overlap import overlapping
from vkgrad.runtime.padding import passes
from vkgrad.runtime.program import Program
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Kernel

LARGEST_VALUE = 1 << 18  # elements of the largest array that a part of a nest computes: half of a second-level cache
MOST_KEPT = 64  # parts of a nest whose programs are kept; those of a longer list are made anew in each run
FEW_TERMS = 64  # up to here the reduced axes come first: arrays of many places are then joined, not many short rows


def prepare(kernel: Kernel, lanes: Lanes | None = None) -> Callable[[Buffers], None]:
    """A function that runs `kernel` on flat arrays, one per slot.

    Functions made with the same `lanes` must not run at the same time. A boolean array is `np.bool_`; every array has
    exactly the type that the kernel says. Stores may alias loads of the same places.
    """
    lanes = lanes or Lanes()
    runs = [alone(*share) for share in zip(shares(kernel, lanes.count), lanes.scratches, strict=False)]
    return runs[0] if len(runs) == 1 else lanes.together(runs)


def alone(kernel: Kernel, scratch: Scratch) -> Callable[[Buffers], None]:
    """The same in the thread that calls it."""
    if kernel.product is not None:
        return overlapping(kernel, scratch) or Contraction(kernel, scratch)
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
