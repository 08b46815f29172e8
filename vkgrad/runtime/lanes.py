"""A large kernel in shares of its places, one per core, each by a thread of its own.

NumPy lets go of the interpreter while it computes, so threads do run side by side. Who computes what is settled when a
kernel is prepared, and shares write different places: no value depends on who is faster. This module must not know how
a kernel is computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from queue import SimpleQueue
from threading import Lock, Thread

import numpy as np

from vkgrad.ir.layout import Layout
from vkgrad.runtime.access import Buffers, Region, parts, shape_of
from vkgrad.runtime.nest import relaid
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Kernel, Load

Run = Callable[[Buffers], None]

# Handing a share over and waiting for it costs 10 to 20 us, some of it with the interpreter held.
LEAST_SHARED = 1 << 19  # values over all instructions of a nest, about 100 us
LEAST_SHARED_PRODUCTS = 1 << 22  # multiplications of a contraction, likewise


class Lanes:
    """Threads that run shares, with scratch memory for each. The calling thread is the first of them."""

    def __init__(self, count: int = 1) -> None:
        self.scratches = tuple(Scratch() for _ in range(count))
        self.tasks: list[SimpleQueue[tuple[Run, Buffers] | None]] = []
        self.outcomes: SimpleQueue[BaseException | None] = SimpleQueue()
        self.lock = Lock()
        self.process = 0

    @property
    def count(self) -> int:
        return len(self.scratches)

    def together(self, shares: Sequence[Run]) -> Run:
        """Runs `shares[i]` in lane i, all at once, and returns when the last is over."""

        def run(buffers: Buffers) -> None:
            with self.lock:
                self._start()
                for tasks, share in zip(self.tasks, shares[1:], strict=False):
                    tasks.put((share, buffers))
                failures: list[BaseException] = []
                try:
                    shares[0](buffers)
                finally:
                    outcomes = [self.outcomes.get() for _ in shares[1:]]
                failures = [outcome for outcome in outcomes if outcome is not None]
            if failures:
                raise failures[0]

        return run

    def close(self) -> None:
        """End the threads; they start again when there is work."""
        for tasks in self.tasks:
            tasks.put(None)
        self.tasks = []

    def _start(self) -> None:
        if self.process != os.getpid():  # a fork copies no threads
            self.process, self.tasks, self.outcomes = os.getpid(), [], SimpleQueue()
        while len(self.tasks) < self.count - 1:
            tasks: SimpleQueue[tuple[Run, Buffers] | None] = SimpleQueue()
            Thread(target=_work, args=(tasks, self.outcomes), name="vkgrad lane", daemon=True).start()
            self.tasks.append(tasks)


def _work(tasks: SimpleQueue[tuple[Run, Buffers] | None], outcomes: SimpleQueue[BaseException | None]) -> None:
    with np.errstate(all="ignore"):  # as the run does that hands the shares over
        while (task := tasks.get()) is not None:
            share, buffers = task
            try:
                share(buffers)
                outcomes.put(None)
            except BaseException as failure:  # raised where the shares were handed over
                outcomes.put(failure)
            del share, buffers, task


def shares(kernel: Kernel, count: int) -> list[Kernel]:
    """`kernel` as up to `count` kernels that each store a part of its places; itself alone where that does not pay."""
    if count == 1 or not _is_large(kernel):
        return [kernel]
    # Along an axis of what is read most, so that no share reads (and rearranges) it as a whole.
    loads = [i.layout for i in kernel.code if isinstance(i, Load)]
    most = max((_touched(kernel, layout) for layout in loads), key=lambda found: found[0], default=(0, ()))
    stored = kernel.stores[0].layout.strides
    axes = [a for a in range(kernel.parallel) if kernel.extents[a] >= count and (not most[1] or a in most[1])]
    if not axes or (kernel.product is None and any(not any(s.layout.strides[a] for a in axes) for s in kernel.stores)):
        return [kernel]
    axis = max(axes, key=lambda a: abs(stored[a]))
    if any(not store.layout.strides[axis] for store in kernel.stores):
        return [kernel]
    return [_within(kernel, region) for region in parts(kernel.extents, [axis], count)]


def _within(kernel: Kernel, region: Region) -> Kernel:
    code, stores = relaid(kernel.code, region.of), relaid(kernel.stores, region.of)
    return replace(kernel, extents=region.counts, code=code, stores=stores)


def _touched(kernel: Kernel, layout: Layout) -> tuple[int, tuple[int, ...]]:
    """How many places a load has, and the axes it moves along."""
    shape = shape_of(layout)
    return prod(shape), tuple(a for a, extent in enumerate(shape) if extent > 1)


def _is_large(kernel: Kernel) -> bool:
    work = prod(kernel.extents)
    return work * len(kernel.code) >= LEAST_SHARED if kernel.product is None else work >= LEAST_SHARED_PRODUCTS
