"""How long each kernel of a step takes, by the device's own clock.

`profile` runs a function once and watches the engine for what it submits; then it records the same kernels again with a
timestamp after each. Everything here subscribes or reads; the core does not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

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
    def gb_s(self) -> float:
        """Bytes of the buffers it reads and writes, each counted once, over its time."""
        return (self.kernel.bytes_read + self.kernel.bytes_written) / self.time_us / 1e3

    @property
    def gflop_s(self) -> float:
        return self.kernel.flops / self.time_us / 1e3


@dataclass(frozen=True)
class Profile:
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


def profile(function: Callable[..., Any], *arguments: Any, runs: int = 30) -> Profile:
    """Time the kernels that `function(*arguments)` submits, as medians over `runs`.

    The kernels are run again for every timing, in place: a training step goes on training.

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
        raise UnsupportedError("profile: the function submitted no kernels; call it on values that are needed")
    parts = [_profile(plan, recording, runs) for plan, recording in seen]
    del kept
    return Profile(
        tuple(kernel for part in parts for kernel in part.kernels),
        tuple(time for part in parts for time in part.levels_us),
        sum(part.whole_us for part in parts),
    )


def _profile(plan: Plan, recording: Any, runs: int) -> Profile:
    device, job = recording.device, recording.job
    if getattr(device, "kind", "") != "vulkan":
        raise UnsupportedError(f"profile: {device.name} has no timestamps; choose a Vulkan device")
    numbers = range(len(plan.kernels))
    one_by_one = [[number] for number in numbers]
    levels = [[number for number in numbers if plan.levels[number] == level] for level in range(plan.depth)]
    rows = {id(kernel): shader.row for kernel, shader in zip(plan.kernels, job.executable.shaders, strict=True)}
    kernels = report(plan, lambda kernel: rows[id(kernel)])
    alone = _times(device, job, one_by_one, True, runs)
    return Profile(
        tuple(KernelTime(kernel, time) for kernel, time in zip(kernels, alone, strict=True)),
        tuple(_times(device, job, levels, True, runs)),
        _times(device, job, levels, False, runs)[0],
    )


def _times(device: Any, job: Any, groups: Sequence[Sequence[int]], apart: bool, runs: int) -> list[float]:
    """Median µs of each group of kernels (`apart`), or of all; a barrier stands before every group."""
    plan, executable = job.executable.plan, job.executable
    arena = device.temporaries(plan.arena_bytes)
    places = [
        (arena, buffer.index, -(-buffer.size_bytes // 4) * 4) if buffer.kind == "temporary" else job.memory[number]
        for number, buffer in enumerate(plan.buffers)
    ]
    timed = device.native.plan(copies=1, timestamps=len(groups) + 1 if apart else 2)
    timed.timestamp()
    for place, group in enumerate(groups):
        timed.barrier("compute")
        for number in group:
            kernel, shader = plan.kernels[number], executable.shaders[number]
            timed.dispatch(executable.pipelines[number], [places[slot] for slot in kernel.slots], shader.groups)
        if apart or place == len(groups) - 1:
            timed.timestamp()
    timed.finish()
    samples = []
    for run in range(runs + 1):
        device.native.wait(device.native.submit(timed))
        if run:  # the first warms up
            ticks = timed.timestamps()
            samples.append([(after - before) / 1e3 for before, after in pairwise(ticks)])
    return [median(group) for group in zip(*samples, strict=True)]
