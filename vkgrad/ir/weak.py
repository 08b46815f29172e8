"""A mapping from objects, by identity, that keeps none of them alive.

`weakref.WeakKeyDictionary` does the same for keys that compare by value, at several times the cost of a look-up; and
look-ups by node are most of what building a graph asks for. This module must not know what it maps.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")


class _Key(ref):
    __slots__ = ("id",)
    id: int


class WeakMap(MutableMapping[K, V]):
    """Entries go when their key does. What iterates sees the entries as they were when it began.

    `entries` are by the keys' ids: `id(key) in entries` is `key in map`, for the innermost loops.
    """

    def __init__(self) -> None:
        self.entries: dict[int, tuple[_Key, V]] = {}
        entries = self.entries

        def forget(key: Any) -> None:
            found = entries.get(key.id)
            if found is not None and found[0] is key:
                del entries[key.id]

        self._forget = forget

    def __contains__(self, key: object) -> bool:
        return id(key) in self.entries

    def get(self, key: K, default: Any = None) -> Any:
        found = self.entries.get(id(key))
        return default if found is None else found[1]

    def __getitem__(self, key: K) -> V:
        found = self.entries.get(id(key))
        if found is None:
            raise KeyError(key)
        return found[1]

    def __setitem__(self, key: K, value: V) -> None:
        weak = _Key(key, self._forget)
        weak.id = id(key)
        self.entries[weak.id] = (weak, value)

    def __delitem__(self, key: K) -> None:
        if self.entries.pop(id(key), None) is None:
            raise KeyError(key)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[K]:
        for weak, _ in list(self.entries.values()):
            key = weak()
            if key is not None:
                yield key
