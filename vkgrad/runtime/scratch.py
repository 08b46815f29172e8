"""Memory for values that live within one kernel, lent again and again so that it stays in the cache.

A fresh array costs a page fault per 4 KiB, as much as the arithmetic on it. So memory is handed out while programs are
made, by the order in which they will run: what one gives back, the next one takes. It must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

LEAST_LENT = 1 << 12  # bytes below which an array is simply made: they come from memory at hand anyway


class Scratch:
    """Arrays on loan. Only kernels that run one after the other may share one."""

    def __init__(self) -> None:
        self.free: dict[int, list[np.ndarray]] = {}  # by the power of two that their size in bytes is

    def take(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """A dense array of unknown elements; whoever takes it gives this very object back."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST_LENT:
            return np.empty(shape, dtype)
        size_class = (size - 1).bit_length()
        blocks = self.free.get(size_class)
        block = blocks.pop() if blocks else np.empty(1 << size_class, np.uint8)
        return np.ndarray(shape, dtype, block)

    def give(self, array: np.ndarray) -> None:
        """Back from now on: what is prepared next may overwrite it."""
        if array.nbytes >= LEAST_LENT:
            block = array.base
            assert isinstance(block, np.ndarray)
            self.free.setdefault((block.nbytes - 1).bit_length(), []).append(block)
