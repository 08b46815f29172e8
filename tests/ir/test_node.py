"""Nodes: equal ones are one, leaves are not; walks without recursion; nothing kept alive."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

import vkgrad.ops  # noqa: F401  fills OPS
from vkgrad.ir import build as b
from vkgrad.ir import node as node_module
from vkgrad.ir.dtypes import float32, float64, int32
from vkgrad.ir.node import Node, consumers, edges, make, rebuilt, walk
from vkgrad.ir.op import OPS
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import alias

DEPTH = 50_000  # far beyond Python's recursion limit


def x(shape: tuple[int, ...] = (2, 3)) -> Node:
    return leaf(shape, float32)


def test_equal_nodes_are_one() -> None:
    a, c = x(), x()
    assert a + c is a + c
    assert a + c is not c + a
    assert b.build("sum", a, axes=(0,)) is b.build("sum", a, axes=(0,))
    assert b.build("sum", a, axes=(0,)) is not b.build("sum", a, axes=(1,))


def test_leaves_and_aliases_are_unique() -> None:
    assert x() is not x()
    a = x()
    assert alias(a) is not alias(a)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(0.0, -0.0, False), (math.nan, math.nan, True), (1.0, 1.0, True), (0.1, np.nextafter(0.1, 1), False)],
)
def test_float_attributes_are_told_apart_by_their_digits(one: float, other: float, same: bool) -> None:
    assert (b.constant(one, float64) is b.constant(other, float64)) == same


def test_constants_of_other_types_are_other_nodes() -> None:
    """1, 1.0 and True are equal in Python, and so are their hashes."""
    made = [b.constant(1, dtype) for dtype in (float32, float64, int32)]
    assert len({id(node) for node in made}) == 3
    assert [type(node.attributes["value"]) for node in made] == [float, float, int]


def test_no_interning_when_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "intern_nodes", lambda: False)
    a = x()
    assert a + a is not a + a


def test_a_node_without_readers_goes() -> None:
    a = x()
    gone = weakref.ref(a * a)
    gc.collect()
    assert gone() is None
    assert a * a is not None


def test_a_deep_graph_is_walked_and_freed_without_recursion() -> None:
    node = top = x(())
    for _ in range(DEPTH):
        node = make(OPS["negative"], (node,), {}, (), float32)
    order = walk([node])
    assert (len(order), order[0], order[-1]) == (DEPTH + 1, top, node)
    gone = weakref.ref(order[DEPTH // 2])
    del order, node
    gc.collect()
    assert gone() is None


def test_walk_gives_inputs_first_and_each_node_once() -> None:
    a = x()
    c = a * a
    d = c + a
    order = walk([d, c])
    assert order == [a, c, d]
    assert all(order.index(source) < order.index(reader) for source, reader in edges(order))


def test_walk_includes_where_it_stops_and_enters_no_further() -> None:
    a = x()
    c = -a
    d = -c
    assert walk([d], stop=lambda node: node is c) == [c, d]


def test_consumers_lists_each_reader_once() -> None:
    a = x()
    c = a * a
    d = c + a
    assert consumers([a, c, d]) == {a: [c, d], c: [d], d: []}


def test_rebuilt() -> None:
    a, c = x(), x()
    total = b.build("sum", a, axes=(1,))
    assert rebuilt(total, (a,)) is total
    assert rebuilt(total, (c,)) is b.build("sum", c, axes=(1,))


def test_what_a_node_says_of_itself() -> None:
    a = x()
    assert (a.size, a.ndim, a.is_op("leaf"), repr(a)) == (6, 2, True, "<leaf float32[2, 3]>")
    assert x(()).size == 1
    assert x((0, 3)).size == 0
