"""A weak map by identity: what `WeakKeyDictionary` promises, for keys that never compare."""

from __future__ import annotations

import gc

import pytest

from vkgrad.ir.weak import WeakMap


class Key:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("keys are compared by identity")

    __hash__ = None  # type: ignore[assignment]


def test_it_maps_by_identity() -> None:
    one, other = Key(), Key()
    found: WeakMap[Key, int] = WeakMap()
    found[one], found[other] = 1, 2
    found[one] = 3
    assert (found[one], found.get(other), found.get(Key(), 7), len(found)) == (3, 2, 7, 2)
    assert one in found and Key() not in found and id(one) in found.entries
    assert sorted(found.values()) == [2, 3] and sum(1 for _ in found) == 2
    del found[one]
    assert one not in found
    for missing in (lambda: found[one], lambda: found.__delitem__(one)):
        with pytest.raises(KeyError):
            missing()
    assert found.pop(other) == 2 and not found


def test_it_keeps_no_key_alive_and_forgets_what_is_gone() -> None:
    found: WeakMap[Key, int] = WeakMap()
    kept = Key()
    found[kept] = 0
    gc.disable()
    try:
        for number in range(1000):  # ids are given out again
            found[Key()] = number
        assert len(found) == 1 and found[kept] == 0
    finally:
        gc.enable()


def test_what_iterates_may_change_it() -> None:
    keys = [Key() for _ in range(3)]
    found: WeakMap[Key, int] = WeakMap()
    for key in keys:
        found[key] = 0
    for key in found:
        del found[key]
    assert not found
