"""The stopwatch: runs the kernels of a recording again, with a timestamp of the device after each.

What the kernels write is put back afterwards, so that a training step that was timed has still been taken once. On the
`cpu` device the host's clock serves. This module must not know what the times are for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from vkgrad import engine
from vkgrad.errors import UnsupportedError
from vkgrad.schedule.explain import KernelReport, report
from vkgrad.schedule.plan import Plan


@dataclass(frozen=True)
class KernelTime:
    """A kernel with its time in µs when it runs alone: barrier before it, start, work and end."""

    kernel: KernelReport
    time_us: float

    @property
    def name(self) -> str:
        """The template row, or on a device without rows what kind of kernel it is."""
        return self.kernel.row or self.kernel.kind

    @property
    def space(self) -> str:
        """The iteration space: parallel extents, then the reduced ones behind a bar."""
        parallel = "x".join(map(str, self.kernel.parallel)) or "1"
        return f"{parallel} | {'x'.join(map(str, self.kernel.reduced))}" if self.kernel.reduced else parallel

    @property
    def gb_s(self) -> float:
        """Bytes of the buffers it reads and writes, each counted once, over its time."""
        return (self.kernel.bytes_read + self.kernel.bytes_written) / self.time_us / 1e3

    @property
    def gflop_s(self) -> float:
        return self.kernel.flops / self.time_us / 1e3

    @property
    def intensity(self) -> float:
        """FLOPs for each of those bytes: its place on the x axis of a roofline."""
        return self.kernel.flops / max(self.kernel.bytes_read + self.kernel.bytes_written, 1)


@dataclass(frozen=True)
class StepTimes:
    """A step taken apart.

    kernels      each kernel alone
    levels_us    each dependency level, its kernels side by side
    whole_us     all of it with a timestamp at the start and the end only
    """

    kernels: tuple[KernelTime, ...]
    levels_us: tuple[float, ...]
    whole_us: float

    @property
    def alone_us(self) -> float:
        """The sum over kernels; what running side by side saves is the difference to the levels' sum."""
        return sum(kernel.time_us for kernel in self.kernels)


def time_kernels(function: Callable[..., Any], *arguments: Any, runs: int = 30) -> StepTimes:
    """Time the kernels that `function(*arguments)` submits, as medians over `runs`. It is called once.

    Raises:
        UnsupportedError: the device has no timestamps, or the function submitted no kernels.
    """
    seen: list[tuple[Plan, Any]] = []

    def watch(plan: Plan | None, recording: Any) -> None:
        if plan is not None and plan.kernels:
            seen.append((plan, recording))

    engine.on_flush.append(watch)
    try:
        kept = function(*arguments)  # results stay alive, so their memory is not used for something else meanwhile
        engine.synchronize()
    finally:
        engine.on_flush.remove(watch)
    if not seen:
        raise UnsupportedError("time_kernels: the function submitted no kernels; call it on values that are needed")
    parts = [take_apart(plan, recording, runs) for plan, recording in seen]
    del kept
    return StepTimes(
        tuple(kernel for part in parts for kernel in part.kernels),
        tuple(time for part in parts for time in part.levels_us),
        sum(part.whole_us for part in parts),
    )


def take_apart(plan: Plan, recording: Any, runs: int = 30) -> StepTimes:
    """Time one recording, as medians over `runs`, and put back what its kernels write."""
    numbers = range(len(plan.kernels))
    levels = [[number for number in numbers if plan.levels[number] == level] for level in range(plan.depth)]
    return StepTimes(
        tuple(each_alone(plan, recording, runs)),
        tuple(group_times(plan, recording, levels, runs)),
        group_times(plan, recording, levels, runs, apart=False)[0],
    )


def each_alone(plan: Plan, recording: Any, runs: int = 1) -> list[KernelTime]:
    """Every kernel of a recording with its time, the median of `runs`."""
    times = group_times(plan, recording, [[number] for number in range(len(plan.kernels))], runs)
    shaders = getattr(recording.job.executable, "shaders", None)
    rows = {id(kernel): shader.row for kernel, shader in zip(plan.kernels, shaders, strict=True)} if shaders else {}
    reports = report(plan, (lambda kernel: rows[id(kernel)]) if rows else None)
    return [KernelTime(kernel, time) for kernel, time in zip(reports, times, strict=True)]


def group_times(
    plan: Plan, recording: Any, groups: Sequence[Sequence[int]], runs: int = 1, apart: bool = True
) -> list[float]:
    """Median µs of each group of kernels, or with `apart=False` of all in a row; a barrier stands before every group.

    With `runs` above one there is a run before them that only warms up.

    Raises:
        UnsupportedError: the device has no timestamps.
    """
    measure = _by_device if recording.device.kind == "vulkan" else _by_host
    samples = measure(plan, recording, groups, runs + (runs > 1), apart)[-runs:]
    return [float(time) for time in np.median(samples, axis=0)]


def _written(plan: Plan) -> list[int]:
    """The plan's buffers, other than temporaries, that its kernels write."""
    numbers = dict.fromkeys(kernel.slots[slot] for kernel in plan.kernels for slot in kernel.written)
    return [number for number in numbers if plan.buffers[number].kind != "temporary"]


def _words(size_bytes: int) -> int:
    return -(-size_bytes // 4) * 4


def _by_device(
    plan: Plan, recording: Any, groups: Sequence[Sequence[int]], runs: int, apart: bool
) -> list[list[float]]:
    device, job, executable = recording.device, recording.job, recording.job.executable
    native = device.native
    if not device.info["timestamp_bits"]:
        raise UnsupportedError(f"{device.name} has no timestamps, so its kernels cannot be timed")
    arena = device.temporaries(plan.arena_bytes)
    places = [
        (arena, buffer.index, _words(buffer.size_bytes)) if buffer.kind == "temporary" else job.memory[number]
        for number, buffer in enumerate(plan.buffers)
    ]
    timed = native.plan(copies=1, timestamps=len(groups) + 1 if apart else 2)
    timed.timestamp()
    for place, group in enumerate(groups):
        timed.barrier("compute")
        for number in group:
            kernel, shader = plan.kernels[number], executable.shaders[number]
            timed.dispatch(executable.pipelines[number], [places[slot] for slot in kernel.slots], shader.groups)
        if apart or place == len(groups) - 1:
            timed.timestamp()
    timed.finish()

    save, restore = native.plan(copies=1), native.plan(copies=1)
    for memory, size in {
        id(job.memory[n]): (job.memory[n], plan.buffers[n].size_bytes) for n in _written(plan)
    }.values():
        aside = native.buffer(_words(size))
        save.copy(aside, memory, _words(size))
        restore.copy(memory, aside, _words(size))
    restore.barrier("host")  # small results are read by the host where they are
    samples = []
    native.wait(native.submit(save.finish()))
    try:
        for _ in range(runs):
            native.wait(native.submit(timed))
            # A clock that ticks in steps longer than a kernel would say 0, over which nothing can be divided.
            samples.append([max((after - before) / 1e3, 1e-3) for before, after in pairwise(timed.timestamps())])
    finally:
        native.wait(native.submit(restore.finish()))
    return samples


def _by_host(plan: Plan, recording: Any, groups: Sequence[Sequence[int]], runs: int, apart: bool) -> list[list[float]]:
    written = [
        buffers[slot]
        for kernel, (_, buffers) in zip(plan.kernels, recording.runs, strict=True)
        for slot in kernel.written
    ]
    saved = [array.copy() for array in written]
    samples = []
    try:
        with np.errstate(all="ignore"):
            for _ in range(runs):
                times = [perf_counter()]
                for group in groups:
                    for number in group:
                        run, buffers = recording.runs[number]
                        run(buffers)
                    times.append(perf_counter())
                ends = times if apart else (times[0], times[-1])
                samples.append([max((after - before) * 1e6, 1e-3) for before, after in pairwise(ends)])
    finally:
        for array, before in zip(written, saved, strict=True):
            array[...] = before
    return samples
