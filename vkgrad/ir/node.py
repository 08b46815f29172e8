"""Nodes of the expression graph.

A `Node` is immutable: op, inputs, attributes, shape, element type. Equal nodes are one node (so shared subexpressions
are found for nothing); leaves are unique. A node holds no data, no gradient and no device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Family, Op, Shape

_interned: WeakValueDictionary[tuple, Node] = WeakValueDictionary()
_serial = itertools.count()
intern_nodes: Callable[[], bool] = lambda: True  # noqa: E731  replaced by the engine's VKGRAD_CSE switch


class Node:
    __slots__ = ("__weakref__", "attributes", "dtype", "inputs", "op", "serial", "shape")

    op: Op
    inputs: tuple[Node, ...]
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


def _frozen(value: Any) -> Any:
    # Floats by their digits: 0.0 and -0.0 are equal in Python and different numbers here; NaN is not equal to itself.
    return value.hex() if isinstance(value, float) else value


def make(op: Op, inputs: Iterable[Node], attributes: Mapping[str, Any], shape: Shape, dtype: DType) -> Node:
    """The node with these fields; an equal one that still lives is returned instead of a new one."""
    inputs = tuple(inputs)
    unique = op.family is Family.LEAF or op.name == "alias" or not intern_nodes()
    key: tuple = ()
    if not unique:
        frozen = tuple([(name, type(v), _frozen(v)) for name, v in attributes.items()]) if attributes else ()
        key = (op.name, *map(id, inputs), frozen, shape, dtype.name)
        found = _interned.get(key)
        if found is not None:
            return found
    node = Node()
    node.op = op
    node.inputs = inputs
    node.attributes = dict(attributes)
    node.shape = shape
    node.dtype = dtype
    node.serial = next(_serial)
    if not unique:
        _interned[key] = node
    return node


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
    return make(node.op, inputs, node.attributes, node.shape, node.dtype)


def edges(nodes: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
    for node in nodes:
        for source in node.inputs:
            yield source, node
