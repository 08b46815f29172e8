"""The one native call of a step's steady state: what it takes, which way bytes go, what they may be overwritten by."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine
from vkgrad.runtime._native import Buffer, Device, Plan, Replay
from vkgrad.runtime.vulkan import PAGE_LOCKED, STAGED, WRITTEN, VulkanDevice, Way
from vkgrad.step import RING

pytestmark = [pytest.mark.device, pytest.mark.validation]

N = 1000
FLOAT = np.dtype("f4")
EVERY_WAY = {way.name: replace(way, from_bytes=0) for way in (WRITTEN, PAGE_LOCKED, STAGED)}


@pytest.fixture
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


def made(device: Device, way: Way = WRITTEN) -> tuple[Replay, Plan, Buffer]:
    """A recording that copies its one argument to where the host reads it."""
    place, out = device.buffer(4 * N, "bar"), device.buffer(4 * N, "download")
    plan = device.plan(copies=1)
    plan.copy(out, place, 4 * N)
    plan.barrier("host")
    plan.finish()
    staging = device.buffer(4 * N, "download") if way.staged else None
    return device.replay(plan, [(place, 0, 4 * N, FLOAT.num, (N,), way.page_locked, staging)]), plan, out


def locked(device: Device, array: np.ndarray) -> tuple[Buffer, np.ndarray]:
    buffer = device.page_locked(array.nbytes)
    np.frombuffer(buffer, array.dtype)[:] = array.reshape(-1)
    return buffer, np.frombuffer(memoryview(buffer).toreadonly(), array.dtype).reshape(array.shape)


def test_what_is_not_as_it_was_said_to_be_is_left_alone(device: Device) -> None:
    replay, _, out = made(device)
    x = np.arange(N, dtype=FLOAT)
    device.wait(replay.run(None, x))

    class Subclass(np.ndarray):
        """May mean something else by its bytes."""

    others = {
        "another type": (x.astype("i4"),),
        "wider": (x.astype("f8"),),
        "the other byte order": (x.astype(x.dtype.newbyteorder()),),
        "another shape": (x.reshape(10, 100),),
        "shorter": (x[:-1],),
        "a stride": (np.arange(2 * N, dtype=FLOAT)[::2],),
        "reversed": (x[::-1],),
        "a subclass": (x.view(Subclass),),
        "masked": (np.ma.masked_array(x),),
        "a list": (x.tolist(),),
        "nothing": (None,),
        "none": (),
        "two": (x, x),
    }
    before = device.counters["submissions"]
    for name, arrays in others.items():
        assert replay.run(None, *arrays) == 0, name
    assert device.counters["submissions"] == before
    assert np.array_equal(np.frombuffer(out, FLOAT), x)


@pytest.mark.parametrize("way", EVERY_WAY.values(), ids=EVERY_WAY)
def test_values_by_every_way_many_times_over(device: Device, way: Way) -> None:
    """The recordings take turns, so that most runs are handed over while others are under way."""
    ring = [made(device, way) for _ in range(3)]
    arrays = [np.full(N, i, FLOAT) for i in range(5)]
    pinned = [locked(device, array + 100) for array in arrays]
    expected: list[tuple[int, float]] = []
    for turn in range(60):
        replay, _, out = ring[turn % 3]
        if turn >= 3:
            ticket, value = expected[turn - 3]
            device.wait(ticket)
            assert np.array_equal(np.frombuffer(out, FLOAT), np.full(N, value)), turn
        array = pinned[turn % 5][1] if turn % 2 else arrays[turn % 5]
        expected.append((replay.run(None, array), float(array[0])))


@pytest.mark.parametrize("way", EVERY_WAY.values(), ids=EVERY_WAY)
def test_an_array_may_change_after_the_call_unless_it_cannot(device: Device, way: Way) -> None:
    replay, _, out = made(device, way)
    x = np.ones(N, FLOAT)
    for i in range(20):
        x[:] = i
        ticket = replay.run(None, x)
        x[:] = -1
        device.wait(ticket)
        assert np.array_equal(np.frombuffer(out, FLOAT), np.full(N, i))


def test_writable_page_locked_memory_is_not_relied_on(device: Device) -> None:
    """Whoever can still write it may do so at once, as with any other array."""
    replay, _, out = made(device, EVERY_WAY["page-locked"])
    buffer, _ = locked(device, np.zeros(N, FLOAT))
    x = np.frombuffer(buffer, FLOAT)
    assert x.flags.writeable
    for i in range(20):
        x[:] = i
        ticket = replay.run(None, x)
        x[:] = -1
        device.wait(ticket)
        assert np.array_equal(np.frombuffer(out, FLOAT), np.full(N, i))


def test_page_locked_memory_stays_until_its_copy_is_over(device: Device) -> None:
    replay, _, out = made(device, EVERY_WAY["page-locked"])
    live = device.counters["buffers_live"]
    for i in range(100):  # each in memory of its own, which nobody holds after the call
        buffer, x = locked(device, np.full(N, i, FLOAT))
        ticket = replay.run(None, x)
        del buffer, x
        device.wait(ticket)
        assert np.array_equal(np.frombuffer(out, FLOAT), np.full(N, i))
    assert device.counters["buffers_live"] < live + 40


def test_parts_of_page_locked_memory_and_what_only_begins_in_it(device: Device) -> None:
    replay, _, out = made(device, EVERY_WAY["page-locked"])
    _, whole = locked(device, np.arange(3 * N, dtype=FLOAT))
    for start in (0, 1, N, 2 * N):
        device.wait(replay.run(None, whole[start : start + N]))
        assert np.array_equal(np.frombuffer(out, FLOAT), np.arange(start, start + N))


def test_a_submission_of_the_plan_by_itself_in_between(device: Device) -> None:
    replay, plan, out = made(device, EVERY_WAY["staged"])
    for i in range(10):
        replay.run(None, np.full(N, i, FLOAT))
        ticket = device.submit(plan)
        device.wait(ticket)
        assert np.array_equal(np.frombuffer(out, FLOAT), np.full(N, i))


def test_a_lost_or_closed_device_says_so(device: Device) -> None:
    from vkgrad.errors import DeviceClosedError, DeviceLostError

    replay, _, _ = made(device, EVERY_WAY["staged"])
    x = np.zeros(N, FLOAT)
    device.wait(replay.run(None, x))
    device._simulate_device_lost()
    for _ in range(2):
        with pytest.raises(DeviceLostError):
            replay.run(None, x)
    other = Device()
    replay, _, _ = made(other)
    other.close()
    with pytest.raises(DeviceClosedError):
        replay.run(None, x)


def test_mistakes_of_whoever_makes_one(device: Device) -> None:
    place = device.buffer(64, "bar")
    plan = device.plan(copies=1)
    with pytest.raises(ValueError, match="not finished"):
        device.replay(plan, [])
    plan.finish()
    with pytest.raises(IndexError, match="replay: argument"):
        device.replay(plan, [(place, 4, 64, FLOAT.num, (16,), False, None)])
    assert device.replay(plan, []).run(None) > 0


@pytest.mark.parametrize("mapped", [True, False], ids=["", "no mapped device memory"])
@pytest.mark.parametrize("way", EVERY_WAY.values(), ids=EVERY_WAY)
def test_steps_by_every_way(way: Way, mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own = engine.device()
    if not isinstance(own, VulkanDevice):
        pytest.skip("the cpu device has one way only")
    monkeypatch.setattr(own, "ways", (way,))
    if not mapped:
        monkeypatch.setitem(own.info, "memory_kinds", {"device": 0, "upload": 0, "download": 0})
    w = vg.tensor(np.zeros(N, "f4"))

    @vg.jit
    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        w.assign(w + x)
        return (w * y).sum()

    total, y = np.zeros(N), np.ones(N, "f4")
    for i in range(6 * RING):
        x = np.full(N, i, "f4")
        given = [x, vg.data.pin_memory(x), vg.tensor(x)][i // 2 % 3]
        total += x
        loss = step(given, vg.data.pin_memory(y) if i % 4 else y)
        x[:] = np.nan
        if i % 3 == 2:
            assert float(loss) == total.sum()
    np.testing.assert_array_equal(w.numpy(), total)


def test_several_steps_with_the_same_arrays_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    own = engine.device()
    if not isinstance(own, VulkanDevice):
        pytest.skip("the cpu device has one way only")
    monkeypatch.setattr(own, "ways", (EVERY_WAY["page-locked"],))
    w = vg.tensor(np.ones(N, "f4"))
    add = vg.jit(lambda x: w.assign(w + x))
    scale = vg.jit(lambda x: w.assign(w * x))
    two = vg.data.pin_memory(np.full(N, 2, "f4"))
    expected = 1.0
    for i in range(4 * RING):
        for step in (add, scale) if i % 3 else (scale, add):
            step(two)
            expected = expected + 2 if step is add else expected * 2
            expected %= 2**20
        w.assign(w % float(2**20))
    np.testing.assert_array_equal(w.numpy(), np.full(N, expected))


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("size", [1, 4095, 4097, 1 << 18, (1 << 21) + 3])
def test_bytes_written_by_several_threads(device: Device, size: int, threads: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    buffer = device.buffer(size + 8, "upload")
    around = np.frombuffer(buffer, np.uint8)
    around[:] = 7
    buffer.write(data, 3, threads)
    assert np.array_equal(around[3:-5], data) and (around[:3] == 7).all() and (around[-5:] == 7).all()


def test_several_threads_write_at_once(device: Device) -> None:
    """Only one of them gets the others' help."""
    count, size = 6, (1 << 21) + 5
    arrays = [np.full(size, i, np.uint8) for i in range(count)]
    buffers = [device.buffer(size, "upload") for _ in range(count)]

    def work(own: int) -> None:
        for _ in range(10):
            buffers[own].write(arrays[own], 0, 4)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))
    for buffer, array in zip(buffers, arrays, strict=True):
        assert buffer.read() == array.tobytes()
