"""What a function does while `vg.jit` records it: the tensors it reads, makes and changes, and what it relied on.

A recording is right as long as the tensors that the function looked at are still there and what it branched on is
unchanged. A `Trace` notes both. Tensors that the function makes are its own business; those from outside are put back
as they were when recording ends, whatever happened. This module must not know plans, devices or memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ref

from vkgrad import engine
from vkgrad.ir.node import Node

Owner = Callable[[], Any]  # finds a tensor again: a weak reference, or the way to it through another tensor's `.grad`


@dataclass(frozen=True)
class Assumption:
    """Something that the function looked at, as it was then; a recording holds only while it is the same."""

    text: str
    now: Callable[[], Any]
    then: Any

    def holds(self) -> bool:
        return self.now() == self.then

    def __str__(self) -> str:
        return f"{self.text} changed from {self.then!r} to {self.now()!r}"


class Attributes:
    """What the modules and optimisers that a function used held when recording ended, beside what is in tensors."""

    def __init__(self, used: Iterable[tuple[Any, Callable[[Any], dict[str, Any]]]]) -> None:
        self.then = [(ref(thing), read, {name: _held(v) for name, v in read(thing).items()}) for thing, read in used]
        self.seen = engine.renamings

    def _changed(self) -> Iterator[str]:
        for thing, read, then in self.then:
            found = thing()
            if found is None:  # the function made it itself, or what it held is missed elsewhere
                continue
            now = read(found)
            for name in then.keys() | now.keys():
                if name not in then or name not in now or not _is_still(then[name], now[name]):
                    yield f"{name} of a {type(found).__name__}"

    def holds(self) -> bool:
        renamings = engine.renamings
        if self.seen != renamings:
            if next(self._changed(), None) is not None:
                return False
            self.seen = renamings
        return True

    def __str__(self) -> str:
        return f"{next(self._changed(), 'nothing')} was set to something else"


def _held(value: Any) -> Any:
    """What is kept to see whether `value` is still there: the value itself if it cannot change."""
    if isinstance(value, list | tuple):
        return [_held(part) for part in value]
    if isinstance(value, dict):
        return {key: _held(part) for key, part in value.items()}
    if value is None or isinstance(value, _PLAIN):
        return value
    try:
        return ref(value)
    except TypeError:
        return value


def _is_still(held: Any, value: Any) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(held, list) and len(held) == len(value) and all(map(_is_still, held, value))
    if isinstance(value, dict):
        return (
            isinstance(held, dict) and held.keys() == value.keys() and all(_is_still(held[k], value[k]) for k in held)
        )
    if isinstance(held, ref):
        return held() is value
    return held is value or (isinstance(value, _PLAIN) and type(held) is type(value) and held == value)


_PLAIN = (bool, int, float, complex, str, bytes)


class Trace:
    """Watches the tensors of one thread while one function runs."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.readers: dict[Node, dict[int, Owner]] = {}  # node -> the outside tensors that had it when they were read
        self.assumptions: list[Assumption | Attributes] = []
        self._used: dict[tuple[int, Any], tuple[Any, Callable[[Any], dict[str, Any]]]] = {}
        self._made: dict[int, ref[Any]] = {}
        self._rebound: dict[int, tuple[Any, Node]] = {}  # outside tensors whose node was set, with the one before
        self._gradients: dict[int, tuple[Any, Any]] = {}  # tensors whose `.grad` was touched, with what it was before
        self._assumed: set[tuple[int, str]] = set()
        self._paths: dict[int, Owner] = {}  # how to find a tensor that was reached through another one's `.grad`

    # ---- told by tensors
    def made(self, handle: Any) -> None:
        self._made[id(handle)] = ref(handle)

    def is_own(self, handle: Any) -> bool:
        """Whether the function made `handle` itself. Tensors are compared by identity: `==` on them is element-wise."""
        found = self._made.get(id(handle))
        return found is not None and found() is handle

    def reads(self, handle: Any) -> None:
        if not self.is_own(handle) and id(handle) not in self._rebound:
            self.readers.setdefault(handle._node, {})[id(handle)] = self.owner_of(handle)

    def rebinds(self, handle: Any) -> None:
        if not self.is_own(handle):
            self._rebound.setdefault(id(handle), (handle, handle._node))

    def reads_gradient(self, handle: Any) -> None:
        if self.is_own(handle) or id(handle) in self._gradients:
            return
        held = handle._grad
        self._gradients[id(handle)] = (handle, held)
        owner = ref(handle)
        self.assumptions.append(
            Assumption("whether a tensor has a gradient", lambda: _gradient_of(owner) is not None, held is not None)
        )
        if held is not None:
            self._paths[id(held)] = lambda: _gradient_of(owner)

    def sets_gradient(self, handle: Any) -> None:
        if not self.is_own(handle):
            self._gradients.setdefault(id(handle), (handle, handle._grad))

    def assumes(self, text: str, thing: Any, attribute: str) -> None:
        """The function depends on `thing.attribute`, a Python value."""
        if (id(thing), attribute) in self._assumed or self.is_own(thing):
            return
        self._assumed.add((id(thing), attribute))
        held, value = ref(thing), getattr(thing, attribute)
        self.assumptions.append(Assumption(text, lambda: getattr(held(), attribute, None), value))

    def uses(self, thing: Any, read: Callable[[Any], dict[str, Any]]) -> None:
        """The function depends on what `read(thing)` gives: attributes by name."""
        self._used.setdefault((id(thing), read), (thing, read))

    # ---- asked by whoever records
    def owner_of(self, handle: Any) -> Owner:
        return self._paths.get(id(handle)) or ref(handle, _is_gone)

    def assigned(self) -> list[tuple[Any, Node, Node]]:
        """Each outside tensor that ends with another node, with its nodes before and after."""
        return [(handle, old, handle._node) for handle, old in self._rebound.values() if handle._node is not old]

    def gradients(self) -> list[tuple[ref[Any], Any]]:
        """Each outside tensor that ends with another `.grad`, and that gradient or None."""
        return [(ref(handle), handle._grad) for handle, old in self._gradients.values() if handle._grad is not old]

    @contextmanager
    def watching(self) -> Iterator[Trace]:
        """While inside, this thread's tensors report here; afterwards those from outside are as they were before."""
        engine.trace = self
        try:
            yield self
            if self._used:
                self.assumptions.append(Attributes(self._used.values()))
        finally:
            engine.trace = None
            self._used.clear()
            for handle, node in self._rebound.values():
                handle._node = node
            for handle, gradient in self._gradients.values():
                handle._grad = gradient


def _is_gone(owner: ref[Any]) -> None:
    engine.changes += 1  # a tensor that recorded steps rely on has gone; they look again


def _gradient_of(owner: Owner) -> Any:
    handle = owner()
    return None if handle is None else handle._grad
