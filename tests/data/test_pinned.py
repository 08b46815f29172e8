"""Page-locked batches: the same values, never overwritten while somebody has them, and memory that is used again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.data.pinned import MOST_PIECES, Piece, Pool, pin_memory, rows_of
from vkgrad.runtime import _native


class Memory(bytearray):
    """Stands for page-locked memory; `busy` as long as the test says."""

    busy = False


class Device:
    """Stands for a device that gives out page-locked memory."""

    def __init__(self, smallest: int = 0) -> None:
        self.smallest = smallest
        self.given: list[Memory] = []

    def page_locked(self, size_bytes: int) -> Memory | None:
        if size_bytes < self.smallest:
            return None
        self.given.append(Memory(size_bytes))
        return self.given[-1]


WAYS_TO_KEEP: dict[str, Callable[[np.ndarray], Any]] = {
    "the array": lambda a: a,
    "a view": lambda a: a[1:],
    "a view of a view": lambda a: a.reshape(-1)[2:][1:],
    "a transposed view": lambda a: a.T,
    "another type": lambda a: a.view("i4"),
    "a memoryview": memoryview,
    "an array over a memoryview": lambda a: np.asarray(memoryview(a)),
}


@pytest.mark.parametrize("keep", WAYS_TO_KEEP.values(), ids=WAYS_TO_KEEP)
def test_memory_is_not_used_again_while_anything_over_it_lives(keep: Callable[[np.ndarray], Any]) -> None:
    device = Device()
    pool = Pool(device)
    array = pool.copied(np.full((3, 4), 1, "f4"))
    kept = keep(array)
    before = bytes(memoryview(kept).tobytes())
    del array
    for i in range(3):
        pool.copied(np.full((3, 4), 2 + i, "f4"))
    assert memoryview(kept).tobytes() == before
    assert len(device.given) == 2
    del kept
    gc.collect()
    again = [pool.copied(np.full((3, 4), 9, "f4")) for _ in range(2)]
    assert len(device.given) == 2 and all((a == 9).all() for a in again)


def test_memory_that_a_copy_still_reads_is_not_used_again() -> None:
    pool = Pool(Device())
    pool.copied(np.zeros(4, "f4"))
    pool.device.given[0].busy = True
    pool.copied(np.ones(4, "f4"))
    assert len(pool.device.given) == 2 and not any(pool.device.given[0])
    pool.device.given[0].busy = False
    pool.copied(np.ones(4, "f4"))
    assert len(pool.device.given) == 2 and any(pool.device.given[0])


def test_what_is_handed_out_cannot_be_written() -> None:
    pool = Pool(Device())
    for array in (pool.copied(np.zeros(4, "f4")), pool.gathered(np.zeros((4, 2), "f4"), np.array([1, 2]))):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u4", "i8", "u1", "?"])
@pytest.mark.parametrize("shape", [(5,), (5, 2, 3), (5, 0)])
def test_gathered_is_what_numpy_gathers(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for source in (array, array[::-1], np.asfortranarray(array)):
        for indices in (np.array([4, 0, 2]), np.array([], int), np.array([3] * 7)):
            found = Pool(Device()).gathered(source, indices)
            np.testing.assert_array_equal(found, source[indices])
            assert found.dtype == source.dtype and not found.flags.writeable


def test_a_consumer_that_keeps_everything_gets_ordinary_arrays_in_the_end() -> None:
    pool = Pool(Device())
    kept = [pool.copied(np.full(4, i, "f4")) for i in range(3 * MOST_PIECES)]
    assert [a[0] for a in kept] == list(range(3 * MOST_PIECES))
    assert len(pool.device.given) == MOST_PIECES


def test_small_arrays_lie_in_ordinary_memory_which_is_used_again_too() -> None:
    pool = Pool(Device(smallest=1000))
    first = pool.copied(np.zeros(4, "f4"))
    assert not first.flags.writeable and not pool.device.given
    address = first.ctypes.data
    second = pool.copied(np.ones(4, "f4"))
    assert second.ctypes.data != address and first.tolist() == [0] * 4
    del first
    assert pool.copied(np.full(4, 2, "f4")).ctypes.data == address and second.tolist() == [1] * 4


def test_pinned_arrays_are_copies() -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    pinned = pin_memory(x.T)
    x[:] = 0
    assert pinned.tolist() == [[0, 3], [1, 4], [2, 5]] and not pinned.flags.writeable
    assert pin_memory([1.0, 2.0]).dtype == np.float64 and pin_memory(np.float32(3)).shape == ()


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"transform": lambda x, y: (x * 2, y)}, {"batch_size": 3}])
def test_a_loader_hands_out_the_same_tensors_pinned_or_not(options: dict[str, Any]) -> None:
    images, labels = np.random.default_rng(0).random((10, 3, 2), "f4"), np.arange(10, dtype="i4")

    def tensors(**more: Any) -> list[tuple[vg.Tensor, ...]]:
        loader = vg.data.DataLoader(images, labels, **{"batch_size": 4, "seed": 3, **options, **more})
        if more.get("pin_memory", True):
            loader._pool = Pool(Device())
        return [batch for _ in range(3) for batch in loader]  # kept, so that none may be overwritten

    found, expected = tensors(), tensors(pin_memory=False)
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_a_loader_uses_its_memory_again() -> None:
    images = np.random.default_rng(0).random((64, 3), "f4")
    loader = vg.data.DataLoader(images, batch_size=4)
    loader._pool = Pool(Device())
    for _ in range(4):
        for (x,) in loader:
            assert sys.getrefcount(x) == 2
    assert len(loader._pool.device.given) <= loader.prefetch + 3


def test_a_piece_knows_its_users() -> None:
    piece = Piece(Memory(16), (4,), np.dtype("f4"))
    assert piece.is_free()
    array = piece.lend()
    assert not piece.is_free()
    del array
    assert piece.is_free()


def test_large_gathers_by_several_threads() -> None:
    array = np.random.default_rng(0).random((3000, 257), "f4")
    for count in (1, 7, 2048, 5000):
        indices = np.random.default_rng(count).integers(0, 3000, count)
        np.testing.assert_array_equal(rows_of(array, indices), array[indices])
        np.testing.assert_array_equal(rows_of(array, indices[::-1]), array[indices[::-1]])


def test_rows_that_are_not_there() -> None:
    source, target = np.zeros((3, 2), "f4"), np.zeros((2, 2), "f4")
    for bad in (3, -1, 2**62):
        with pytest.raises(IndexError, match=f"row {bad} of 3"):
            _native.gather(target, source, np.array([0, bad]))
    with pytest.raises(ValueError, match="whole rows"):
        _native.gather(np.zeros(5, "u1"), source, np.array([0, 1]))
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        _native.gather(target[:, :1], source, np.array([0, 1]))
    target.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        _native.gather(target, source, np.array([0, 1]))
