"""Where temporaries live: offsets in one arena, reused as soon as nothing needs the old contents.

Deterministic: the same plan gets the same offsets. Lifetimes are in levels; kernels of one level run side by side, so a
buffer's place is free only from the level after its last reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT_BYTES = 256  # the largest minStorageBufferOffsetAlignment that Vulkan allows


@dataclass(frozen=True, slots=True)
class Lifetime:
    size_bytes: int
    first: int  # the level that writes it
    last: int  # the last level that reads it


def pack(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset in bytes for each lifetime so that none overlaps another while both live, and the arena's size.

    Greedy by size: the largest first, each at the lowest offset that is free during its whole life.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    arena = 0
    for index in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size_bytes, i)):
        life = lifetimes[index]
        size = -(-life.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        taken = sorted(
            (offsets[other], offsets[other] + -(-lifetimes[other].size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
            for other in placed
            if lifetimes[other].first <= life.last and life.first <= lifetimes[other].last
        )
        offset = 0
        for low, high in taken:
            if offset + size <= low:
                break
            offset = max(offset, high)
        offsets[index] = offset
        placed.append(index)
        arena = max(arena, offset + size)
    return offsets, arena
