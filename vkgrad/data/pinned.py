"""Batches in page-locked memory, from which the device copies by itself, beside what it computes.

An array elsewhere has to be written to the device, or to such memory first, by the processor, which for large batches
takes longer than the step. What is handed out is read-only, because the copy happens some time after the call that
asked for it. Memory is used again when no array over it is left and no copy from it is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from vkgrad.runtime import _native

Array = np.ndarray[Any, np.dtype[Any]]
Device = Any  # of `vkgrad.runtime.device`

MOST_PIECES = 12  # of one shape in a pool: a consumer that keeps its batches does not lock all memory


class Ordinary(bytearray):
    """Memory from which nothing is copied but by the processor."""

    busy = False


class Piece:
    """Page-locked memory for one array, and the array that was handed out last."""

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.array = np.frombuffer(memory, dtype).reshape(shape)
        self._lent: Callable[[], Any] = lambda: None

    def is_free(self) -> bool:
        return self._lent() is None and not self.memory.busy

    def lend(self) -> Array:
        """The array as others may have it. Views, and views of views, keep the flat one alive, so its end is theirs."""
        flat = np.frombuffer(memoryview(self.memory).toreadonly(), self.array.dtype)
        self._lent = ref(flat)
        return flat.reshape(self.array.shape)


class Pool:
    """Pieces for the batches of one loader. One thread at a time may use it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._pieces: dict[tuple[tuple[int, ...], str], list[Piece]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Piece | None:
        """A free piece; None where too many are in use. Even where page-locked memory is no gain, memory that has been
        written before is: the first touch of each page costs more than gathering into it."""
        pieces = self._pieces.setdefault((shape, dtype.str), [])
        found = next((piece for piece in pieces if piece.is_free()), None)
        size = dtype.itemsize * int(np.prod(shape))
        if found is None and len(pieces) < MOST_PIECES and size and dtype.kind in "biuf":
            memory = self.device.page_locked(size)
            found = Piece(Ordinary(size) if memory is None else memory, shape, dtype)
            pieces.append(found)
        return found

    def gathered(self, array: Array, indices: Array) -> Array:
        """`array[indices]`, read-only."""
        piece = self.take((len(indices), *array.shape[1:]), array.dtype)
        if piece is None:
            return frozen(rows_of(array, indices))
        rows_of(array, indices, piece.array)
        return piece.lend()

    def copied(self, array: Array) -> Array:
        """A read-only copy of `array`."""
        piece = self.take(array.shape, array.dtype)
        if piece is None:
            return frozen(array.copy())
        np.copyto(piece.array, array)
        return piece.lend()


def rows_of(array: Array, indices: Array, out: Array | None = None) -> Array:
    """`array[indices]` for indices that are inside, in `out` if given."""
    if out is None:
        out = np.empty((len(indices), *array.shape[1:]), array.dtype)
    if array.flags.c_contiguous and array.dtype.kind in "biuf" and out.size:
        _native.gather(out, array, np.ascontiguousarray(indices, np.int64))
        return out
    # With the default mode NumPy would go through a buffer of its own.
    return np.take(array, indices, axis=0, out=out, mode="clip")


def frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def pin_memory(array: Any) -> Array:
    """A read-only copy of `array` in page-locked memory of the default device.

    A step under `vg.jit` that is given it, or a contiguous part of it, does not spend the processor's time on it: the
    device copies it while it still computes the step before. Where that is no gain (the `cpu` device, Vulkan in
    software, small arrays) it is an ordinary read-only copy.

    Example:
        >>> import numpy as np, vkgrad as vg
        >>> images = vg.data.pin_memory(np.ones((8, 4), "f4"))
        >>> vg.jit(lambda x: x.sum())(images[:2]).item()
        8.0
    """
    from vkgrad.engine import device  # here, so that reading data needs nothing of the rest of the package

    return Pool(device()).copied(np.asarray(array, order="C"))
