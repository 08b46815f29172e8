"""What a submission is made of, on the native runtime alone: recording, handing over, waiting, replaying, pipelines."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vkgrad.bench import guards, results
from vkgrad.bench.results import Spread
from vkgrad.codegen import cache
from vkgrad.errors import UnsupportedError

if TYPE_CHECKING:
    from vkgrad.runtime import _native

LENGTHS = (1, 10, 20, 40, 100)  # dispatches in one submission
ELEMENTS = 1024  # of a dispatch whose own work is next to nothing
PIPELINES = 8

# Adds one to the other end of the array, so that two of them in a row depend on each other across invocations.
STEP = """#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[y.length() - 1 - i] = x[i] + {ADDEND};
}
"""


def shader(addend: str = "1.0") -> bytes:
    return cache.spirv(STEP.replace("{ADDEND}", addend), "costs")


def spread(action: Callable[[], object], runs: int) -> Spread:
    """Time `action`; the first run only warms up."""
    samples = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        action()
        samples.append((time.perf_counter() - start) * 1e6)
    return Spread.of(samples[1:])


Line = tuple[str, int, Spread]  # what, of how many dispatches, time


def chains(device: _native.Device, length: int, runs: int) -> list[Line]:
    """A chain of dependent dispatches: its recording, its submission, the wait, and its replay back to back.

    The last value is checked: a chain of n adds n to a zero.
    """
    pipeline = device.pipeline(shader(), 2)
    buffers = [device.buffer(4 * ELEMENTS) for _ in range(2)]
    landing = device.buffer(4 * ELEMENTS, "download")
    groups = (ELEMENTS // 256, 1, 1)

    def record(timestamps: int = 0, dependent: bool = True) -> _native.Plan:
        plan = device.plan(copies=1 if timestamps else 3, timestamps=timestamps)
        plan.fill(buffers[0], 0)
        plan.barrier("full")
        if timestamps:
            plan.timestamp()
        for number in range(length):
            if number and dependent:
                plan.barrier("compute")
            plan.dispatch(pipeline, [buffers[number % 2], buffers[1 - number % 2]], groups)
        if timestamps:
            plan.timestamp()
        plan.barrier("full")
        plan.copy(landing, buffers[length % 2], 4 * ELEMENTS)
        plan.barrier("host")
        return plan.finish()

    plan = record()
    submitting, waiting = [], []
    for _ in range(runs + 1):
        start = time.perf_counter()
        ticket = device.submit(plan)
        handed_over = time.perf_counter()
        device.wait(ticket)
        submitting.append((handed_over - start) * 1e6)
        waiting.append((time.perf_counter() - handed_over) * 1e6)
    values = np.frombuffer(landing.read(), np.float32)
    if not (values == length).all():
        raise guards.Refused(f"a chain of {length} dispatches gave {values[0]}")

    def replay() -> None:
        for _ in range(10):
            ticket = device.submit(plan)
        device.wait(ticket)

    replaying = spread(replay, runs).over(10)

    def on_device(dependent: bool) -> Spread:
        timed = record(timestamps=2, dependent=dependent)
        samples = []
        for _ in range(runs):
            device.wait(device.submit(timed))
            samples.append(timed.timestamps()[1] / 1e3)
        return Spread.of(samples)

    size = length
    return [
        ("record", size, spread(record, min(runs, 20))),
        ("submit", size, Spread.of(submitting[1:])),
        ("wait", size, Spread.of(waiting[1:])),
        ("replay, back to back", size, replaying),
        ("on the device, dependent", size, on_device(True)),
        ("on the device, independent", size, on_device(False)),
    ]


def pipelines(index: int) -> list[Line]:
    """New pipelines, and the same ones on a second device that has loaded the first one's cache file."""
    from vkgrad.runtime import _native

    compiling = []
    modules = []
    for number in range(PIPELINES):  # a constant that no process has used before, or a driver's own cache answers
        start = time.perf_counter()
        modules.append(shader(f"{number}.{uuid.uuid4().int % 10**7:07}"))
        compiling.append((time.perf_counter() - start) * 1e6)
    cold_device, warm_device = _native.Device(index), _native.Device(index)
    cold = [cold_device.pipeline(module, 2).create_us for module in modules]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "pipelines.bin")
        cold_device.save_cache(path)
        warm_device.load_cache(path)
    warm = [warm_device.pipeline(module, 2).create_us for module in modules]
    again = spread(lambda: cold_device.pipeline(modules[0], 2), 50)
    cold_device.close()
    warm_device.close()
    return [
        ("GLSL to SPIR-V", 1, Spread.of(compiling)),
        ("pipeline, cold", 1, Spread.of(cold)),
        ("pipeline, from the cache file", 1, Spread.of(warm)),
        ("pipeline, made before", 1, again),
    ]


def measured(device: Any, lengths: Sequence[int] = LENGTHS, runs: int = 50) -> tuple[list[Line], list[Line]]:
    """The costs of chains of dispatches, and those of pipelines.

    Raises:
        UnsupportedError: the device submits nothing.
        Refused: a chain came to a wrong value.
    """
    if device.kind != "vulkan":
        raise UnsupportedError(f"{device.name} submits nothing, so it has no costs; choose a Vulkan device")
    return [line for n in lengths for line in chains(device.native, n, runs)], pipelines(device.info["index"])


def tables(chain_lines: Sequence[Line], pipeline_lines: Sequence[Line]) -> str:
    """Chains with their lengths side by side and what each further dispatch takes; then pipelines."""
    lengths = list(dict.fromkeys(length for _, length, _ in chain_lines))
    times = {(what, length): spent for what, length, spent in chain_lines}
    header = ["µs: median [p10-p90], dispatches", *map(str, lengths)]
    first, last = lengths[0], lengths[-1]
    if last > first:
        header.append("each more")
    rows = []
    for what in dict.fromkeys(what for what, _, _ in chain_lines):
        row = [what, *(str(times[what, length]) for length in lengths)]
        if last > first:
            row.append(f"{(times[what, last].median_us - times[what, first].median_us) / (last - first):.2f}")
        rows.append(row)
    made = results.table(["one small shader", "µs"], ([what, str(spent)] for what, _, spent in pipeline_lines))
    return results.table(header, rows) + "\n\n" + made


def as_lines(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    for what, length, spent in lines:
        yield {"op": what, "shape": [length], "dtype": "float32", **spent.fields()}
