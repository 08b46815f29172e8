"""`vg.profile`: what a block of a program submits, kernel by kernel, as a table and as a trace for a viewer.

It watches the engine. Each submission is waited for, then its kernels run a second time with timestamps and what they
write is put back: values are those of a run without it, and the block takes a few times longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from vkgrad import engine
from vkgrad.profile.clock import KernelTime, each_alone
from vkgrad.schedule.plan import Plan

if TYPE_CHECKING:
    from vkgrad.profile.trace import Roofs


@dataclass(frozen=True)
class Flush:
    """One submission.

    device              the name of the device that ran it
    started_us          when the host began to work towards it, since the block began, watching left out
    submitted_us        when it was handed over, on the same clock
    kernels             its kernels in order, each timed alone
    bytes_uploaded      the bytes that it brings to the device
    bytes_downloaded    the bytes that it brings back
    """

    device: str
    started_us: float
    submitted_us: float
    kernels: tuple[KernelTime, ...]
    bytes_uploaded: int
    bytes_downloaded: int

    @property
    def device_us(self) -> float:
        return sum(kernel.time_us for kernel in self.kernels)


@dataclass
class Profile:
    """What ran inside a `vg.profile` block: `print` it for a table, `save` it for a viewer of traces."""

    flushes: list[Flush] = field(default_factory=list)

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        """Every kernel that ran, in order."""
        return tuple(kernel for flush in self.flushes for kernel in flush.kernels)

    @property
    def host_us(self) -> float:
        """Time of the host up to the last submission, waits and watching left out."""
        return self.flushes[-1].submitted_us if self.flushes else 0.0

    @property
    def device_us(self) -> float:
        """Time of all kernels, one after the other."""
        return sum(flush.device_us for flush in self.flushes)

    def table(self, roofs: Roofs | None = None) -> str:
        """The kernels with equal ones together, the most expensive first.

        FLOP/B is a kernel's place on the x axis of a roofline. With `roofs` (`vkgrad.bench.peaks.measured()`) there is
        also how near it comes to what the device can do, and which of the two bounds it.
        """
        from vkgrad.profile.trace import table

        return table(self, roofs)

    def __str__(self) -> str:
        return self.table()

    def trace(self) -> dict[str, Any]:
        """The events in the format of `chrome://tracing` and https://ui.perfetto.dev, ready for `json.dump`."""
        from vkgrad.profile.trace import trace

        return trace(self)

    def save(self, path: str | Path) -> None:
        """Write the trace to a file."""
        import json

        Path(path).write_text(json.dumps(self.trace()))


@contextmanager
def profile(path: str | Path | None = None) -> Iterator[Profile]:
    """Time every kernel that the block submits; with `path`, write a trace of them at its end.

    What was pending before the block is computed before it, what is pending at its end is computed in it. Times are the
    device's own; on the `cpu` device, the host's.

    Raises:
        UnsupportedError: the device has no timestamps.

    Example:
        >>> import vkgrad as vg
        >>> x = vg.ones((64, 64))
        >>> with vg.profile("trace.json") as p:
        ...     vg.eval(vg.sum(x @ x))
        >>> len(p.flushes), all(kernel.time_us > 0 for kernel in p.kernels)
        (1, True)
    """
    engine.flush()
    found = Profile()
    clock = _Clock()

    def watch(plan: Plan | None, recording: Any) -> None:
        now = clock.now_us()
        started = found.flushes[-1].submitted_us if found.flushes else 0.0
        with clock.stopped():
            recording.wait()
            kernels = each_alone(plan, recording) if plan is not None and plan.kernels else []
        job = recording.job
        uploaded, downloaded = (sum(size for _, size in pieces) for pieces in (job.uploads, job.downloads))
        found.flushes.append(Flush(recording.device.name, started, now, tuple(kernels), uploaded, downloaded))

    engine.on_flush.append(watch)
    try:
        yield found
        engine.flush()
    finally:
        engine.on_flush.remove(watch)
    if path is not None:
        found.save(path)


class _Clock:
    """The host's clock in µs since it was made, which stands still while the profiler itself works."""

    def __init__(self) -> None:
        self.start = perf_counter()

    def now_us(self) -> float:
        return (perf_counter() - self.start) * 1e6

    @contextmanager
    def stopped(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.start += perf_counter() - began
