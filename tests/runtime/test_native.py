"""The native runtime: values, ordering, memory, counters, threads. Errors are in test_native_errors.py.

A software driver runs dispatches in order, so no value here can show a missing barrier: `script/validation` runs this
file under synchronization validation, once as it is and once without barriers, which must be noticed.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.native_shaders import spirv
from vkgrad.runtime._native import Buffer, Device, Plan

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]
validated = pytest.mark.validation

N = 10_000  # no multiple of the workgroup's 256
GROUPS = ((N + 255) // 256, 1, 1)


@pytest.fixture
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


def push(step: float, n: int = N) -> bytes:
    return struct.pack("If", n, step)


def finished(plan: Plan) -> Plan:
    plan.barrier("host")
    return plan.finish()


def upload(device: Device, values: np.ndarray) -> Buffer:
    stage, buffer = device.buffer(values.nbytes, "upload"), device.buffer(values.nbytes)
    stage.write(values)
    plan = device.plan()
    plan.copy(buffer, stage, values.nbytes)
    device.wait(device.submit(finished(plan)))
    return buffer


def download(device: Device, buffer: Buffer, dtype: str = "f4") -> np.ndarray:
    stage = device.buffer(buffer.nbytes, "download")
    plan = device.plan()
    plan.copy(stage, buffer, buffer.nbytes)
    device.wait(device.submit(finished(plan)))
    return np.frombuffer(memoryview(stage), dtype).copy()


def random(seed: int = 0, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).random(n, np.float32)


def reversals(device: Device, first: Buffer, count: int, *, copies: int = 3) -> tuple[Plan, Buffer]:
    """`count` dependent dispatches, back and forth between `first` and another buffer."""
    pipeline = device.pipeline(spirv("reverse_add"), 2)
    pair = [first, device.buffer(first.nbytes)]
    n = first.nbytes // 4
    plan = device.plan(copies)
    for i in range(count):
        plan.dispatch(pipeline, [pair[i % 2], pair[1 - i % 2]], ((n + 255) // 256, 1, 1), push(1.0, n))
        plan.barrier("compute")
    return finished(plan), pair[count % 2]


# values and order


@validated
def test_chain_of_dependent_dispatches(device: Device) -> None:
    x = random()
    plan, last = reversals(device, upload(device, x), 41)
    device.wait(device.submit(plan))
    expected = x
    for _ in range(41):
        expected = (expected + np.float32(1))[::-1]
    np.testing.assert_array_equal(download(device, last), expected)
    assert plan.counts == {"dispatches": 41, "barriers": 43, "copies": 0, "fills": 0}  # 41, the leading one, the host's


@validated
def test_diamond_with_one_barrier_per_level(device: Device) -> None:
    reverse, add = device.pipeline(spirv("reverse_add"), 2), device.pipeline(spirv("sum"), 3)
    x = random()
    a = upload(device, x)
    b, c, d = (device.buffer(a.nbytes) for _ in range(3))
    plan = device.plan()
    plan.dispatch(reverse, [a, b], GROUPS, push(2.0))
    plan.dispatch(reverse, [a, c], GROUPS, push(3.0))
    plan.barrier()
    plan.dispatch(add, [b, c, d], GROUPS)
    device.wait(device.submit(finished(plan)))
    np.testing.assert_array_equal(download(device, d), (x[::-1] + np.float32(2)) + (x[::-1] + np.float32(3)))


@validated
def test_many_submissions_of_one_plan_in_flight(device: Device) -> None:
    x = random()
    buffer = upload(device, x)
    plan, last = reversals(device, buffer, 2, copies=3)
    tickets = [device.submit(plan) for _ in range(30)]
    assert tickets == list(range(tickets[0], tickets[0] + 30))
    device.wait(tickets[-1])
    assert all(device.done(ticket) for ticket in tickets)
    expected = x.copy()
    for _ in range(60):
        expected = expected + np.float32(1)
    np.testing.assert_array_equal(download(device, last), expected)
    assert plan.copies_recorded <= 3


@validated
def test_plans_in_one_submission_run_in_order(device: Device) -> None:
    buffer = device.buffer(1024)
    first, second = device.plan(), device.plan()
    first.fill(buffer, 1)
    second.fill(buffer, 2, 256, 512)
    before = device.counters["submissions"]
    device.wait(device.submit([finished(first), finished(second)]))
    assert device.counters["submissions"] == before + 1
    assert download(device, buffer, "u4").tolist() == [1] * 64 + [2] * 128 + [1] * 64


@validated
def test_parts_of_a_buffer_are_bound(device: Device) -> None:
    alignment = device.info["limits"]["storage_buffer_alignment"]
    step = max(1024, alignment)
    values = random(n=4 * step // 4)
    whole = upload(device, values)
    plan = device.plan()
    parts = [(whole, 0, 1024), (whole, step, 1024), (whole, 2 * step, 1024)]
    plan.dispatch(device.pipeline(spirv("sum"), 3), parts, (4, 1, 1))
    device.wait(device.submit(finished(plan)))
    expected = values.copy()
    at = step // 4
    expected[2 * at : 2 * at + 256] = values[:256] + values[at : at + 256]
    np.testing.assert_array_equal(download(device, whole), expected)


@validated
def test_specialisation_constants(device: Device) -> None:
    x = random()
    buffer = upload(device, x)
    pipeline = device.pipeline(spirv("constants"), 1, {3: struct.pack("I", 3), 7: struct.pack("f", 0.5)})
    plan = device.plan()
    plan.dispatch(pipeline, [buffer], GROUPS)
    device.wait(device.submit(finished(plan)))
    np.testing.assert_allclose(download(device, buffer), x * np.float32(3) + np.float32(0.5), rtol=2e-7)


@validated
def test_float64_is_switched_on(device: Device) -> None:
    if not device.info["features"]["shaderFloat64"]:
        pytest.skip("this device has no f64")
    x = np.random.default_rng(1).random(N)
    source, target = upload(device, x), device.buffer(8 * N)
    plan = device.plan()
    plan.dispatch(device.pipeline(spirv("root64"), 2), [source, target], GROUPS)
    device.wait(device.submit(finished(plan)))
    np.testing.assert_allclose(download(device, target, "f8"), np.sqrt(x) + 1.0000000001, rtol=1e-15)


@validated
def test_timestamps_rise(device: Device) -> None:
    pipeline = device.pipeline(spirv("reverse_add"), 2)
    a, b = upload(device, random()), device.buffer(4 * N)
    plan = device.plan(timestamps=2)
    assert plan.timestamp() == 0
    plan.dispatch(pipeline, [a, b], GROUPS, push(1.0))
    assert plan.timestamp() == 1
    finished(plan)
    for _ in range(2):
        device.wait(device.submit(plan))
        start, end = plan.timestamps()
        assert start == 0 < end < 10e9


@validated
def test_mapped_buffers_share_memory_with_numpy(device: Device) -> None:
    for kind in ("upload", "download"):
        buffer = device.buffer(400, kind)
        array = np.frombuffer(memoryview(buffer), "f4")
        buffer.write(np.arange(100, dtype="f4"))
        assert array.tolist() == list(range(100))
        assert buffer.read(8, 4) == struct.pack("f", 2.0)
        assert len(buffer.read(8)) == 392
    flags = device.info["memory_types"][device.info["memory_kinds"]["download"]]["flags"]
    cached = any("host_cached" in kind["flags"] for kind in device.info["memory_types"])
    assert "host_cached" in flags or not cached


# tables, pools, memory


@validated
def test_pipelines_are_shared_and_made_side_by_side(device: Device) -> None:
    code = spirv("constants")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: device.pipeline(code, 1, {3: struct.pack("I", i)}), range(8)))
    assert device.counters["pipelines_created"] == 8
    assert [device.pipeline(code, 1, {3: struct.pack("I", i)}) for i in range(8)] == made
    keyed = device.pipeline(code, 1, key=b"constants")
    assert device.pipeline(b"not looked at", 1, key=b"constants") is keyed
    assert device.counters["pipelines_created"] == 9
    assert keyed.local_size == (256, 1, 1) and keyed.n_buffers == 1


@validated
def test_pipeline_cache_file(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "pipelines"
    assert device.load_cache(str(path)) == "absent"
    device.pipeline(spirv("sum"), 3)
    assert device.save_cache(str(path)) == path.stat().st_size
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipelines"]
    assert device.load_cache(str(path)).startswith("loaded ")
    good = path.read_bytes()
    damaged = {
        "truncated": good[:-1],
        "damaged": good[:-1] + bytes([good[-1] ^ 1]),
        "another device": good[:8] + b"\1\2\3\4" + good[12:],
        "another version of the driver": good[:16] + b"\1\2\3\4" + good[20:],
        "not a pipeline cache": b"x" * 100,
        "too short": b"",
    }
    for words, content in damaged.items():
        path.write_bytes(content)
        answer = device.load_cache(str(path))
        assert answer.startswith("ignored: ") and words in answer


@validated
def test_memory_is_reused_and_given_back() -> None:
    device = Device(block_bytes=1 << 20)
    small = [device.buffer(1000) for _ in range(100)]
    assert device.counters["blocks"] == 1 and device.counters["buffers_live"] == 100
    assert device.counters["bytes_allocated"] == 100 * 1024
    del small[::2]
    again = [device.buffer(1000) for _ in range(50)]
    assert device.counters["blocks"] == 1
    large = device.buffer(3 << 20)  # a block to itself
    assert device.counters["blocks"] == 2 and device.counters["bytes_reserved"] == 4 << 20
    many = [device.buffer(1 << 18) for _ in range(16)]
    assert device.counters["blocks"] > 4
    del small, again, large, many
    assert device.counters["buffers_live"] == device.counters["bytes_allocated"] == 0
    assert device.counters["blocks"] == 1
    assert device.buffer(1 << 19).nbytes == 1 << 19  # neighbours were merged: the whole block is one span again
    assert device.counters["blocks"] == 1


@validated
def test_neighbours_are_not_overwritten(device: Device) -> None:
    buffers = [device.buffer(4 * size) for size in (1, 63, 64, 65, 1000)]
    plan = device.plan()
    for word, buffer in enumerate(buffers):
        plan.fill(buffer, word)
    device.wait(device.submit(finished(plan)))
    for word, buffer in enumerate(buffers):
        assert set(download(device, buffer, "u4").tolist()) == {word}


@validated
def test_replay_allocates_and_records_nothing(device: Device) -> None:
    plan, _ = reversals(device, upload(device, random()), 10, copies=1)
    device.wait(device.submit(plan))
    before = device.counters
    for _ in range(20):
        device.wait(device.submit(plan))
    changed = {name: now - before[name] for name, now in device.counters.items() if now != before[name]}
    assert changed == {"submissions": 20, "dispatches": 200, "barriers": 240}


def test_nothing_leaks() -> None:
    def flushes(device: Device, count: int) -> None:
        keep = device.buffer(4 * N)
        for _ in range(count):
            plan, _ = reversals(device, device.buffer(4096), 3)
            device.wait(device.submit(plan))
        del keep

    def resident_kib() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    device = Device()
    flushes(device, 500)
    before, memory = device.counters, resident_kib()
    flushes(device, 1000)
    after = device.counters
    bounded = ["sequences", "descriptor_sets", "blocks", "blocks_allocated", "buffers_live", "bytes_allocated"]
    for name in bounded:
        assert after[name] == before[name], name
    assert resident_kib() - memory < 512
    del device
    for _ in range(3):
        Device().pipeline(spirv("sum"), 3)
    memory, files = resident_kib(), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        Device().buffer(100, "upload")
    assert resident_kib() - memory < 4096 and len(os.listdir("/proc/self/fd")) == files


# threads, interrupts, the end of the process


@validated
def test_threads_with_plans_of_their_own_and_a_shared_one(device: Device) -> None:
    shared, _ = reversals(device, upload(device, random()), 2)

    def work(seed: int) -> bool:
        x = random(seed)
        buffer = upload(device, x)
        for _ in range(20):
            plan, last = reversals(device, buffer, 2)
            device.submit(shared)
            device.wait(device.submit(plan))
            x = x + np.float32(1) + np.float32(1)
        return bool(np.array_equal(download(device, last), x))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def long_work(device: Device) -> Plan:
    """Some seconds on a software device, if it were waited for."""
    return reversals(device, device.buffer(32 << 20), 40)[0]


def test_waits_release_the_gil_time_out_and_are_interrupted(device: Device) -> None:
    if device.info["type"] != "cpu":
        pytest.skip("a GPU is done before it can be interrupted")
    ticket = device.submit(long_work(device))
    assert device.wait(ticket, timeout=0.0) is False
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    assert device.wait(ticket, timeout=0.2) is False
    assert 0.19 < time.perf_counter() - start < 1.0
    stop.set()
    thread.join()
    assert ticks > 20
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are deaf to it
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        device.wait(ticket)
    signal.signal(signal.SIGINT, heard)
    assert device.wait(ticket) is True


def run_child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    prelude = f"import sys; sys.path.insert(0, {root!r})\n"
    prelude += "from vkgrad.runtime import _native\nfrom tests.runtime.test_native import *\n"
    # Python 3.12 warns of forks in a process with threads, which drivers start.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", prelude + code]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kept", ["device, plan", "device", "plan", ""])
def test_exit_and_drop_with_work_in_flight(kept: str) -> None:
    """In any order, and at the end of the process."""
    child = run_child(
        f"""
device = Device()
plan, _ = reversals(device, device.buffer(1 << 20), 20)
device.submit(plan); device.submit(plan)
kept = [{kept}]
del device, plan
print("end", len(kept))
"""
    )
    assert (child.returncode, child.stdout.split()[:1], child.stderr) == (0, ["end"], "")


def test_barriers_can_be_dropped_to_see_the_alarm_ring() -> None:
    device = Device(_mutate_barriers=True)
    plan, _ = reversals(device, device.buffer(4 * N), 3)
    device.wait(device.submit(plan))
    assert plan.counts["barriers"] == device.counters["barriers_recorded"] == 0


def test_large_pieces_are_copied_whole(device):
    """Above a megabyte several threads copy; every byte must arrive, whatever the length and offset."""
    buffer = device.buffer(5 << 20, "upload")
    for length, offset in ((1 << 20, 0), ((3 << 20) + 4099, 12), ((5 << 20) - 7, 7), (2 << 20, 1)):
        data = np.random.Generator(np.random.Philox(length)).integers(0, 256, length, dtype="u1")
        buffer.write(data, offset)
        assert buffer.read(offset, length) == data.tobytes()
