"""Who needs whom, among things that get more needs over time, in about as much work as there are needs.

Each item's depth is more than that of all it needs. So what lies as deep as an item or deeper is nothing that it needs,
and a search downwards stops there: in a plan of many steps, hardly anything is searched. This module must not know what
its items are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

MOST_SEARCHED = 4096  # items that a search looks at; from there on, what was not found counts as needed


class Depths(Generic[Item]):
    """Items with what they need. There is no cycle, and whoever adds a need must have asked that there will be none."""

    def __init__(self) -> None:
        self.needs: dict[Item, dict[Item, None]] = {}
        self.readers: dict[Item, list[Item]] = {}
        self.depth: dict[Item, int] = {}

    def add(self, item: Item, needed: Iterable[Item]) -> None:
        """`item` needs these too, and all that they need."""
        own = self.needs.setdefault(item, {})
        self.depth.setdefault(item, 0)
        for other in needed:
            if other in own or other is item:
                continue
            own[other] = None
            self.readers.setdefault(other, []).append(item)
            self._deepen(item, self.depth.setdefault(other, 0) + 1)

    def _deepen(self, item: Item, least: int) -> None:
        stack = [(item, least)]
        while stack:
            current, depth = stack.pop()
            if self.depth[current] < depth:
                self.depth[current] = depth
                stack.extend((reader, depth + 1) for reader in self.readers.get(current, ()))

    def reaches(self, item: Item, goals: Iterable[Item]) -> bool:
        """Whether `item` needs one of `goals`, directly or not, or is it; or might, where that takes long to know."""
        wanted = set(goals)
        if item in wanted:
            return True
        shallowest = min((self.depth.get(goal, 0) for goal in wanted), default=self.depth.get(item, 0))
        stack, seen = [item], {item}
        while stack:
            for needed in self.needs.get(stack.pop(), ()):
                if needed in wanted:
                    return True
                if needed not in seen and self.depth[needed] > shallowest:
                    seen.add(needed)
                    stack.append(needed)
            if len(seen) > MOST_SEARCHED:
                return True
        return False
