"""Values that recorded steps write again and again: who else has them, and how they get out of the way.

Reference counts say whether anybody has a leaf or a value besides those who must. What they are without anybody is
measured when this module is imported, since it depends on the interpreter. This module must not know recordings.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ref

from vkgrad import engine
from vkgrad.ir.dtypes import dtype_of
from vkgrad.ir.node import Node
from vkgrad.ops.sources import leaf
from vkgrad.runtime.device import Job
from vkgrad.tracing import Owner


class _Probe:
    """Has a node that nobody else holds."""

    _node = None

    def __init__(self) -> None:
        self._node = leaf((), dtype_of("float32"))


def holders(handle: Any) -> int:
    return sys.getrefcount(handle._node)


ALONE = holders(_Probe())  # what `holders` says of a tensor whose leaf nobody else holds


class Given(NamedTuple):
    """A result's leaf and value, kept by the recording that writes its memory: they stand for the next result once
    nobody else has them, which makes handing one out a matter of a microsecond."""

    node: Node
    value: engine.Value


def users(given: Given) -> int:
    return sys.getrefcount(given.node) + sys.getrefcount(given.value)


def _users_of_nothing() -> int:
    given = Given(leaf((), dtype_of("float32")), engine.Value(None, None, 0))  # type: ignore[arg-type]
    engine.values[given.node] = given.value
    return users(given)


UNUSED = _users_of_nothing()  # what `users` says of a result that nobody else has


@dataclass(eq=False)
class State:
    """A tensor outside the function that it reads, and perhaps assigns to.

    owners     the tensors that had this leaf when the function read it: as a rule one; none for a constant
    node       their leaf, as of the last run; weakly, so that a step never holds one
    private    the memory is a copy that no tensor has
    """

    owners: tuple[Owner, ...]
    node: ref[Node]
    value: engine.Value
    assigned: bool
    private: bool = False

    def fits(self) -> bool:
        """Whether the tensors are still there, and still agree."""
        handles = [owner() for owner in self.owners]
        return all(handle is not None and handle._node is handles[0]._node for handle in handles)

    def is_behind(self, handle: Any) -> bool:
        """Whether its tensor has another value than the memory that the recordings use."""
        node: Node = handle._node
        # A step recorded meanwhile may have made the tensor's memory its own, which it writes without a new leaf.
        found = engine.values.get(node)
        return node is not self.node() or (self.private and found is not None and found.fixed)

    def is_gone(self) -> bool:
        return any(isinstance(owner, ref) and owner() is None for owner in self.owners)


def upload(value: engine.Value) -> None:
    """Bring a value that is still on the host to its device."""
    if value.source is not None:
        recording = value.device.record(Job(None, uploads=[engine.upload_of(value)]))
        recording.write(0, value.source)
        value.source = None
        engine.submit(None, recording)


def transfer(source: engine.Value, destination: engine.Value) -> None:
    upload(source)
    copy = (destination.memory, source.memory, source.size_bytes)
    engine.submit(None, source.device.record(Job(None, copies=[copy])))


def copied(value: engine.Value) -> engine.Value:
    """A value of its own memory with the same elements."""
    upload(value)
    copy = engine.Value(value.device, None, value.size_bytes)
    if value.size_bytes:
        copy.memory = value.device.allocate(value.size_bytes)
        transfer(value, copy)
    return copy
