"""Where temporaries live: offsets in one arena, reused as soon as nothing needs the old contents.

Deterministic: the same plan gets the same offsets. Lifetimes are in levels; kernels of one level run side by side, so a
buffer's place is free only from the level after its last reader.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

ALIGNMENT_BYTES = 256  # the largest minStorageBufferOffsetAlignment that Vulkan allows


@dataclass(frozen=True, slots=True)
class Lifetime:
    size_bytes: int
    first: int  # the level that writes it
    last: int  # the last level that reads it


MOST_BY_SIZE = 1024  # lifetimes of which each is compared with all others


def pack(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset in bytes for each lifetime so that none overlaps another while both live, and the arena's size."""
    sizes = [-(-life.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for life in lifetimes]
    return (_by_size if len(sizes) <= MOST_BY_SIZE else _in_turn)(lifetimes, sizes)


def _by_size(lifetimes: Sequence[Lifetime], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Greedy: the largest first, each at the lowest offset that is free during its whole life."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    arena = 0
    for index in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size_bytes, i)):
        life, size = lifetimes[index], sizes[index]
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
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


def _in_turn(lifetimes: Sequence[Lifetime], sizes: Sequence[int]) -> tuple[list[int], int]:
    """As levels go by, each at the smallest gap that holds it: a little more memory, and no pairs are compared."""
    offsets = [0] * len(lifetimes)
    gaps = _Gaps()
    living: list[tuple[int, int]] = []  # (last level, number)
    for index in sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, -sizes[i], i)):
        while living and living[0][0] < lifetimes[index].first:
            done = heappop(living)[1]
            gaps.give(offsets[done], sizes[done])
        offsets[index] = gaps.take(sizes[index])
        heappush(living, (lifetimes[index].last, index))
    return offsets, gaps.end


class _Gaps:
    """Free ranges below `end`, no two of which touch."""

    def __init__(self) -> None:
        self.end = 0
        self.by_size: list[tuple[int, int]] = []  # (size, start)
        self.size_at: dict[int, int] = {}  # by start
        self.start_before: dict[int, int] = {}  # by where they end

    def take(self, size: int) -> int:
        place = bisect_left(self.by_size, (size, 0))
        if place < len(self.by_size):
            found, start = self.by_size[place]
        else:  # the last gap may grow
            start = self.start_before.get(self.end, self.end)
            found = self.end - start
            self.end = start + size
        if found:
            self._forget(start, found)
        if found > size:
            self._add(start + size, found - size)
        return start

    def give(self, start: int, size: int) -> None:
        if size == 0:
            return
        after = self.size_at.get(start + size)
        if after is not None:
            self._forget(start + size, after)
            size += after
        before = self.start_before.get(start)
        if before is not None:
            self._forget(before, start - before)
            size += start - before
            start = before
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self.by_size, (size, start))
        self.size_at[start], self.start_before[start + size] = size, start

    def _forget(self, start: int, size: int) -> None:
        del self.by_size[bisect_left(self.by_size, (size, start))]
        del self.size_at[start], self.start_before[start + size]
