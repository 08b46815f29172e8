"""The CPU device: the same plans, run by the NumPy twin with BLAS. Chosen explicitly, and counted like any device.

Memory is a NumPy array of bytes. A run is over when `submit` returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from vkgrad.counters import count
from vkgrad.errors import OutOfDeviceMemoryError
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ops.narrow import handed_out
from vkgrad.runtime.device import Job, Use
from vkgrad.runtime.lanes import Lanes
from vkgrad.runtime.one_thread import OneThread
from vkgrad.runtime.twin import prepare
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import Plan
from vkgrad.schedule.split import Width
from vkgrad.schedule.stack import Stacking

MOST_LANES = 8  # the interpreter is held between NumPy's calls, which keeps more of them from running side by side


def _processors() -> int:
    """How many this process may use: threads beyond that would only wait for each other."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CpuExecutable:
    """A plan with a closure per kernel."""

    def __init__(self, plan: Plan, lanes: Lanes) -> None:
        self.plan = plan
        self.kernels = [prepare(kernel, lanes) for kernel in plan.kernels]


class CpuDevice:
    kind = "cpu"
    name = "cpu"
    software = False
    max_buffers = 32
    largest_binding = 1 << 62
    width: Width | None = None
    stacking: Stacking | None = None
    beside: Callable[[Kernel], Hashable] | None = None

    def __init__(self) -> None:
        self.arena = np.empty(0, np.uint8)
        self.lanes = Lanes(min(_processors(), MOST_LANES))

    def __repr__(self) -> str:
        return "<cpu device: NumPy>"

    def refuses(self, node: Node) -> str | None:
        return None

    def lacks(self, dtype: DType) -> str | None:
        return None

    def allocate(self, size_bytes: int, use: Use = "device") -> np.ndarray:
        count(buffers_allocated=1, bytes_allocated=size_bytes)
        try:
            return np.empty(max(size_bytes, 1), np.uint8)
        except MemoryError:
            raise OutOfDeviceMemoryError(f"{size_bytes:,} bytes do not fit this machine's memory") from None

    def page_locked(self, size_bytes: int) -> None:
        return None

    def storage(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array)

    def from_storage(self, raw: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        return handed_out(raw[: size * dtype.memory.itemsize].view(dtype.memory).reshape(shape), dtype)

    def temporaries(self, size_bytes: int) -> np.ndarray:
        if self.arena.nbytes < size_bytes:
            self.arena = self.allocate(size_bytes)
        return self.arena

    def prepare(self, plan: Plan) -> CpuExecutable:
        return CpuExecutable(plan, self.lanes)

    def record(self, job: Job) -> CpuRecording:
        return CpuRecording(self, job)

    def close(self) -> None:
        self.lanes.close()


class CpuRecording:
    submissions = 1

    def __init__(self, device: CpuDevice, job: Job) -> None:
        self.device, self.job = device, job
        self.dispatches = self.barriers = 0
        self.runs: list[tuple[Any, list[np.ndarray]]] = []
        executable: CpuExecutable | None = job.executable
        if executable is None:
            return
        plan = executable.plan
        arena = device.temporaries(plan.arena_bytes)
        views = []
        for number, buffer in enumerate(plan.buffers):
            size = buffer.count * buffer.dtype.memory.itemsize
            start = buffer.index if buffer.kind == "temporary" else 0
            memory = arena if buffer.kind == "temporary" else job.memory[number]
            views.append(memory[start : start + size].view(buffer.dtype.memory))
        for kernel, run in zip(plan.kernels, executable.kernels, strict=True):
            self.runs.append((run, [views[slot] for slot in kernel.slots]))
        self.dispatches = len(self.runs)
        self.barriers = max(plan.depth - 1, 0)

    def write(self, number: int, array: np.ndarray) -> None:
        stored = np.ascontiguousarray(array)
        self.job.uploads[number][0][: stored.nbytes] = stored.reshape(-1).view(np.uint8)
        count(bytes_uploaded=stored.nbytes)

    def run(self, arrays: Sequence[np.ndarray], before: CpuRecording | None = None) -> bool:
        expected = self.job.arrays
        if len(arrays) != len(expected):
            return False
        for array, (dtype, shape) in zip(arrays, expected, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return False
        for (memory, _), array in zip(self.job.uploads, arrays, strict=True):  # a mask is smaller here than its upload
            memory[: array.nbytes].view(array.dtype)[:] = array.reshape(-1)
        self.submit(before)
        return True

    def submit(self, before: CpuRecording | None = None) -> None:
        if before is not None:
            before.submit()
        with np.errstate(all="ignore"), OneThread():
            for run, buffers in self.runs:
                run(buffers)
        for destination, source, size in self.job.copies:
            destination[:size] = source[:size]

    def is_done(self) -> bool:
        return True

    def wait(self) -> None:
        """It is over already."""

    def read(self, number: int) -> np.ndarray:
        memory, size = self.job.downloads[number]
        return memory[:size].copy()
