"""Nodes of the expression graph.

A `Node` is immutable: a signature (op, attributes, shape, element type) and inputs. Equal nodes are one node (so shared
subexpressions are found for nothing); leaves are unique. A node holds no data, no gradient and no device.

Equal signatures are one object, too. They are what a graph is made of apart from who reads whom, so tables that
remember something of a graph have them in their keys and compare by identity.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import numpy as np

from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Family, Op, Shape

_serial = itertools.count()
intern_nodes: Callable[[], bool] = lambda: True  # noqa: E731  replaced by the engine's VKGRAD_CSE switch


class Type:
    """Shape and element type of a value. Equal ones are one object."""

    __slots__ = ("__weakref__", "dtype", "shape")

    shape: Shape
    dtype: DType

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Signature:
    """All of a node but its inputs. Equal ones are one object; the attributes are for reading only."""

    __slots__ = ("__weakref__", "attributes", "is_unique", "op", "type")

    op: Op
    attributes: dict[str, Any]
    type: Type
    is_unique: bool  # no node with it equals another one

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.type}>"


_types: WeakValueDictionary[tuple, Type] = WeakValueDictionary()
_signatures: WeakValueDictionary[tuple, Signature] = WeakValueDictionary()


def frozen(attributes: Mapping[str, Any]) -> tuple:
    """Attributes as a key that equal ones share, and no others."""
    # Floats by their digits: 0.0 and -0.0 are equal in Python and different numbers here; NaN is not equal to itself.
    return tuple([(n, type(v), v.hex() if isinstance(v, float) else v) for n, v in attributes.items()])


def type_of(shape: Shape, dtype: DType) -> Type:
    key = (shape, dtype.name)
    found = _types.get(key)
    if found is None:
        found = _types[key] = Type()
        found.shape, found.dtype = shape, dtype
    return found


def signature_of(op: Op, attributes: Mapping[str, Any], shape: Shape, dtype: DType) -> Signature:
    key = (op, frozen(attributes), shape, dtype.name)
    found = _signatures.get(key)
    if found is None:
        found = _signatures[key] = Signature()
        found.op, found.attributes, found.type = op, dict(attributes), type_of(shape, dtype)
        found.is_unique = op.family is Family.LEAF or op.name == "alias"
    return found


class Node:
    __slots__ = ("__weakref__", "attributes", "dtype", "inputs", "op", "serial", "shape", "signature")

    signature: Signature
    inputs: tuple[Node, ...]
    op: Op  # this and the next three are the signature's, here because they are asked for so often
    attributes: dict[str, Any]
    shape: Shape
    dtype: DType
    serial: int  # creation order: inputs always have smaller serials, so sorting by it is a topological order

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    if TYPE_CHECKING:  # vkgrad.ir.build gives nodes these operators, for gradient rules

        def __add__(self, other: Operand) -> Node: ...
        def __radd__(self, other: Operand) -> Node: ...
        def __sub__(self, other: Operand) -> Node: ...
        def __rsub__(self, other: Operand) -> Node: ...
        def __mul__(self, other: Operand) -> Node: ...
        def __rmul__(self, other: Operand) -> Node: ...
        def __truediv__(self, other: Operand) -> Node: ...
        def __rtruediv__(self, other: Operand) -> Node: ...
        def __neg__(self) -> Node: ...
        def __gt__(self, other: Operand) -> Node: ...
        def __lt__(self, other: Operand) -> Node: ...
        def __ge__(self, other: Operand) -> Node: ...
        def __le__(self, other: Operand) -> Node: ...

    def is_op(self, name: str) -> bool:
        return self.op.name == name

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype.name}{list(self.shape)}>"


Operand = Node | bool | int | float | np.generic  # what stands for a node in `apply` and beside an operator


# Living nodes by signature and inputs. The references have no callback, since most nodes live for one step and a
# callback costs more than the node: the dead ones are thrown out together, whenever they may be half of all.
_interned: dict[tuple, ref[Node]] = {}
_most_interned = 4096
_apart: list[int] = []  # threads in `apart`


def living() -> int:
    """How many nodes can be found again."""
    global _most_interned
    for key, weak in list(_interned.items()):
        if weak() is None:
            _interned.pop(key, None)
    _most_interned = max(4096, 2 * len(_interned))
    return len(_interned)


@contextmanager
def apart() -> Iterator[None]:
    """Inside, every node that is built is a new one, whatever it equals."""
    thread = get_ident()
    _apart.append(thread)
    try:
        yield
    finally:
        _apart.remove(thread)


def is_sharing() -> bool:
    """Whether equal nodes are one node, here and now."""
    return not (_apart and get_ident() in _apart) and intern_nodes()


def node_of(signature: Signature, inputs: tuple[Node, ...]) -> Node:
    """The node with these fields; an equal one that still lives is returned instead of a new one."""
    key: tuple | None = None
    if not (signature.is_unique or (_apart and get_ident() in _apart)) and intern_nodes():
        key = (signature, *map(id, inputs))
        weak = _interned.get(key)
        if weak is not None:
            found = weak()
            if found is not None:  # it holds its inputs, so these ids are still theirs
                return found
    node = Node()
    node.signature = signature
    node.inputs = inputs
    node.op = signature.op
    node.attributes = signature.attributes
    node.shape = signature.type.shape
    node.dtype = signature.type.dtype
    node.serial = next(_serial)
    if key is not None:
        _interned[key] = ref(node)
        if len(_interned) > _most_interned:
            living()
    return node


def make(op: Op, inputs: Iterable[Node], attributes: Mapping[str, Any], shape: Shape, dtype: DType) -> Node:
    """`node_of` for whoever has no signature yet."""
    return node_of(signature_of(op, attributes, shape, dtype), tuple(inputs))


def serial_now() -> int:
    """A number between those of the nodes that were made before and those that will be."""
    return next(_serial)


def walk(
    outputs: Iterable[Node],
    stop: Callable[[Node], bool] = lambda node: False,
    sources: Callable[[Node], Iterable[Node]] = lambda node: node.inputs,
) -> list[Node]:
    """All nodes that `outputs` need, inputs first. Nodes where `stop` holds are included but not entered.

    `sources` says what a node needs. No recursion: graphs are deeper than Python's stack.
    """
    seen: set[Node] = set()
    order: list[Node] = []
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        if not stop(node):
            stack.extend(sources(node))
    order.sort(key=lambda node: node.serial)
    return order


def consumers(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node, the nodes that read it, once each, in order."""
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        readers.setdefault(node, [])
        for source in dict.fromkeys(node.inputs):
            readers.setdefault(source, []).append(node)
    return readers


def rebuilt(node: Node, inputs: tuple[Node, ...]) -> Node:
    """`node` with other inputs of the same shapes and types."""
    if inputs == node.inputs:
        return node
    return node_of(node.signature, inputs)


def edges(nodes: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
    for node in nodes:
        for source in node.inputs:
            yield source, node
