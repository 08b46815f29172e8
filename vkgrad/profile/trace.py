"""A profile for people: the table of its kernels, and the trace that Chrome and Perfetto show.

The trace has a track for the host and one for each device. Both are shown at their own pace: a submission reaches the
device when it was handed over or when the device was done with the one before, whichever came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from vkgrad.profile.clock import KernelTime

if TYPE_CHECKING:
    from vkgrad.profile.watch import Profile

WIDEST_OPS = 40  # characters of a kernel's operations in the table
HOST = 1  # the host's process in the trace; devices follow


class Roofs(Protocol):
    """What a device can do at most, as `vkgrad.bench.peaks.measured()` finds it."""

    @property
    def copy_gb_s(self) -> float: ...
    @property
    def fma_gflop_s(self) -> float: ...


def table(profile: Profile, roofs: Roofs | None = None) -> str:
    same: dict[tuple[str, str, tuple[str, ...]], list[KernelTime]] = {}
    for kernel in profile.kernels:
        same.setdefault((kernel.name, kernel.space, kernel.kernel.ops), []).append(kernel)
    total = profile.device_us
    bound = f" {'of roof':>8} {'bound by':>10}" if roofs else ""
    lines = [
        f"{'total µs':>10} {'share':>6} {'count':>6} {'mean µs':>9} {'GB/s':>8} {'GFLOP/s':>9} {'FLOP/B':>7}"
        f"{bound}  kernel"
    ]
    for (name, space, ops), kernels in sorted(same.items(), key=lambda item: -sum(k.time_us for k in item[1])):
        time = sum(kernel.time_us for kernel in kernels)
        moved = sum(k.kernel.bytes_read + k.kernel.bytes_written for k in kernels)
        flops = sum(k.kernel.flops for k in kernels)
        words = " ".join(ops)
        gb_s, gflop_s = moved / time / 1e3, flops / time / 1e3
        if roofs:
            share, which = nearest_roof(gb_s, gflop_s, roofs)
            bound = f" {share:8.1%} {which:>10}"
        lines.append(
            f"{time:10.1f} {time / total:6.1%} {len(kernels):6} {time / len(kernels):9.2f} {gb_s:8.2f} "
            f"{gflop_s:9.2f} {flops / max(moved, 1):7.2f}{bound}  "
            f"{name} {space}: {words[:WIDEST_OPS]}{'…' * (len(words) > WIDEST_OPS)}"
        )
    lines.append(
        f"{len(profile.flushes)} submissions of {len(profile.kernels)} kernels: {total:.1f} µs on the device, "
        f"{profile.host_us:.1f} µs of the host"
    )
    if roofs:
        lines.append(f"roofs: {roofs}")
    return "\n".join(lines)


def nearest_roof(gb_s: float, gflop_s: float, roofs: Roofs) -> tuple[float, str]:
    """How near a kernel is to the nearer of the two roofs, and which that is: "memory" or "arithmetic".

    Above 1 where its bytes stay in a cache, which the bytes that the roof was measured with do not.
    """
    memory, arithmetic = gb_s / roofs.copy_gb_s, gflop_s / roofs.fma_gflop_s
    return (memory, "memory") if memory >= arithmetic else (arithmetic, "arithmetic")


def trace(profile: Profile) -> dict[str, Any]:
    events: list[dict[str, Any]] = [_name(HOST, "host", "until each submission")]
    processes: dict[str, int] = {}
    free_us: dict[str, float] = {}  # when each device is done with what it has
    for number, flush in enumerate(profile.flushes):
        events.append(
            _slice(
                f"submission {number}", "host", HOST, flush.started_us, flush.submitted_us - flush.started_us,
                kernels=len(flush.kernels), uploaded=flush.bytes_uploaded, downloaded=flush.bytes_downloaded,
            )
        )  # fmt: skip
        if flush.device not in processes:
            processes[flush.device] = HOST + 1 + len(processes)
            events.append(_name(processes[flush.device], flush.device, "kernels, one at a time"))
        at = max(flush.submitted_us, free_us.get(flush.device, 0.0))
        for kernel in flush.kernels:
            events.append(
                _slice(
                    kernel.name, kernel.kernel.kind, processes[flush.device], at, kernel.time_us,
                    submission=number, level=kernel.kernel.level, space=kernel.space, ops=" ".join(kernel.kernel.ops),
                    gb_s=round(kernel.gb_s, 3), gflop_s=round(kernel.gflop_s, 3),
                )
            )  # fmt: skip
            at += kernel.time_us
        free_us[flush.device] = at
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _name(process: int, name: str, thread: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 1, "args": {"name": f"{name}: {thread}"}}


def _slice(name: str, kind: str, process: int, start_us: float, time_us: float, **facts: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": kind, "pid": process, "tid": 1,
        "ts": round(start_us, 3), "dur": round(time_us, 3), "args": facts,
    }  # fmt: skip
