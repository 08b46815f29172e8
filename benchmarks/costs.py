"""What every step is made of, on the native runtime alone: recording, submitting, waiting, replaying, making pipelines,
moving bytes.

    python -m benchmarks.costs
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import guards, results
from benchmarks.results import Spread, digits
from vkgrad.codegen import cache
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


Line = tuple[str, str, Spread, float | None]  # what, of which size, time, GB/s


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

    size = f"{length} dispatches"
    return [
        ("record", size, spread(record, min(runs, 20)), None),
        ("submit", size, Spread.of(submitting[1:]), None),
        ("wait", size, Spread.of(waiting[1:]), None),
        ("replay, back to back", size, replaying, None),
        ("on the device, dependent", size, on_device(True), None),
        ("on the device, independent", size, on_device(False), None),
    ]


def pipelines(index: int) -> list[Line]:
    """New pipelines, and the same ones on a second device that has loaded the first one's cache file."""
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
        ("GLSL to SPIR-V", "1 small shader", Spread.of(compiling), None),
        ("pipeline, cold", "1 small shader", Spread.of(cold), None),
        ("pipeline, from the cache file", "1 small shader", Spread.of(warm), None),
        ("pipeline, made before", "1 small shader", again, None),
    ]


def transfers(device: _native.Device, sizes: Sequence[int], runs: int) -> list[Line]:
    """Bytes to the device and back through the host, and on the device (read and written bytes both count)."""
    lines: list[Line] = []
    for nbytes in sizes:
        data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
        here, there = device.buffer(nbytes, "upload"), device.buffer(nbytes)
        other, back = device.buffer(nbytes), device.buffer(nbytes, "download")
        up = device.plan()
        up.copy(there, here, nbytes)
        up.finish()
        down = device.plan()
        down.copy(back, other, nbytes)
        down.barrier("host")
        down.finish()
        across = device.plan(copies=1, timestamps=2)
        across.timestamp()
        across.copy(other, there, nbytes)
        across.timestamp()
        across.finish()
        size = f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"

        def upload(data: np.ndarray = data, here: _native.Buffer = here, up: _native.Plan = up) -> None:
            here.write(data)
            device.wait(device.submit(up))

        def download(back: _native.Buffer = back, down: _native.Plan = down) -> bytes:
            device.wait(device.submit(down))
            return back.read()

        writing = spread(lambda here=here, data=data: here.write(data), runs)  # type: ignore[misc]
        uploading = spread(upload, runs)
        ticks = []
        for _ in range(runs + 1):
            device.wait(device.submit(across))
            ticks.append(max(across.timestamps()[1] / 1e3, 1e-3))
        downloading = spread(download, runs)
        if download() != data.tobytes():
            raise guards.Refused(f"{size} came back changed")
        copying = Spread.of(ticks[1:])
        for what, moved, time_us in (
            ("write to mapped memory", nbytes, writing),
            ("upload, write and copy", nbytes, uploading),
            ("copy on the device", 2 * nbytes, copying),
            ("download, copy and read", nbytes, downloading),
        ):
            lines.append((what, size, time_us, moved / time_us.median_us / 1e3))
    return lines


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--index", type=int, default=None, help="which Vulkan device; by default the best")
    parser.add_argument("--device", default="", help="what its name must contain")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--mebibytes", type=float, nargs="*", default=None, help="sizes to move")
    parser.add_argument("--out", type=Path, default=results.ROOT / "bench_results")
    chosen = parser.parse_args(given)
    try:
        guards.no_layers_asked()
        device = _native.Device(chosen.index)
        info = device.info
        guards.no_layers_loaded(guards.loaded_layers())
        guards.right_device(info["name"], chosen.device)
        # Beyond every cache on a GPU; a software device has the cache of its CPU and little time.
        sizes = chosen.mebibytes or ([0.004, 1, 16] if info["type"] == "cpu" else [0.004, 0.098, 1, 64, 512])
        lines = [
            *(line for length in chosen.lengths.split(",") for line in chains(device, int(length), chosen.runs)),
            *pipelines(info["index"]),
            *transfers(device, [max(int(size * (1 << 20)) // 4 * 4, 4) for size in sizes], max(chosen.runs // 5, 3)),
        ]
        device.close()
    except guards.Refused as refusal:
        print(f"costs: refused: {refusal}", file=sys.stderr)
        return 1
    commit = results.commit()
    results.append(
        chosen.out,
        info["name"],
        (
            {
                "commit": commit, "device": info["name"], "driver": f"{info['driver_name']} {info['driver_info']}",
                "op": what, "shape": size, "dtype": "bytes", **time_us.fields(), "gb_s": gb_s and round(gb_s, 3),
            }
            for what, size, time_us, gb_s in lines
        ),
    )  # fmt: skip
    print(f"{info['name']}, driver {info['driver_name']} {info['driver_info']}")
    print(chain_table([line for line in lines if "dispatches" in line[1]]))
    rows = [
        [what, size, str(time_us), digits(gb_s) if gb_s else ""]
        for what, size, time_us, gb_s in lines
        if "dispatches" not in size
    ]
    print("\n" + results.table(["cost, µs: median [p10-p90]", "of", "µs", "GB/s"], rows))
    return 0


def chain_table(lines: Sequence[Line]) -> str:
    """Chains with their lengths side by side."""
    sizes = list(dict.fromkeys(size for _, size, _, _ in lines))
    times = {(what, size): time_us for what, size, time_us, _ in lines}
    names = dict.fromkeys(what for what, _, _, _ in lines)
    return results.table(["µs for", *sizes], ([what, *(str(times[what, size]) for size in sizes)] for what in names))


if __name__ == "__main__":
    sys.exit(main())
