"""Graphs apart from their leaves: what shares a key, and programs that build the same on other leaves."""

from __future__ import annotations

import numpy as np

import vkgrad.ops  # noqa: F401  fills OPS
from tests.reference import evaluate, variable
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, float64
from vkgrad.ir.node import Node, apart
from vkgrad.ir.program import recorded, structure
from vkgrad.ops.sources import LEAF, leaf
from vkgrad.ops.views import alias


def key_of(*targets: Node, through: str = "") -> tuple:
    return structure(targets, lambda node: node.signature.type if node.op is LEAF else None, through=through)[0]


def x(shape: tuple[int, ...] = (2, 3)) -> Node:
    return leaf(shape, float32)


def test_graphs_of_one_structure_share_a_key_whatever_was_made_first() -> None:
    def graph(swap: bool) -> Node:
        y, z = x(), x()
        parts = [b.apply("exp", y), b.apply("sin", z)] if swap else [b.apply("sin", z), b.apply("exp", y)][::-1]
        return parts[0] * parts[1] + y

    assert key_of(graph(False)) == key_of(graph(True))


def test_graphs_that_differ_do_not() -> None:
    y, z = x(), x()
    wide = leaf((2, 3), float64)
    graphs = [
        (y + z,), (y + y,), (y - z,), (y + 1,), (y + 2,), (y + 0.0,), (y + -0.0,), (x((3,)) + x((3,)),), (wide + wide,),
        (y,), (y, y), (y, z), (y + z, y), (y + z, z), (b.build("sum", y, axes=(0,)),), (b.build("sum", y, axes=(1,)),),
        ((y + z) * y,), ((y + z) * z,), ((y + z) * x(),), (alias(y) + z,),
    ]  # fmt: skip
    assert len({key_of(*graph) for graph in graphs}) == len(graphs)


def test_an_op_may_be_looked_through() -> None:
    y = x()
    assert key_of(alias(alias(y)) * y, through="alias") == key_of(y * y)
    assert key_of(alias(y), y, through="alias") == key_of(y, y)


def test_inputs_come_in_the_order_of_the_key() -> None:
    def inputs(y: Node, z: Node) -> list[Node]:
        return structure([z - y, y], lambda node: node.signature.type if node.op is LEAF else None)[2]

    y, z, v, w = (x() for _ in range(4))
    assert [{y: v, z: w}[node] for node in inputs(y, z)] == inputs(v, w)


def test_a_program_builds_the_same_on_other_nodes() -> None:
    values: dict[Node, np.ndarray] = {}
    y, z, v, w = (variable(np.arange(6, dtype="f4").reshape(2, 3) + k, values) for k in range(4))

    def outputs(y: Node, z: Node) -> list[Node | None]:
        product = y * z
        return [b.build("sum", product + y * z, axes=(0,)), None, y, product]

    with apart():
        made = outputs(y, z)
    program = recorded(made, [y, z])
    assert program is not None
    assert len(program.steps) == 3, "the product that was built twice is a step once"
    assert program.replay([v, w]) == outputs(v, w)
    np.testing.assert_array_equal(
        evaluate(program.replay([v, w])[:1], values)[0], evaluate(outputs(v, w)[:1], values)[0]
    )


def test_what_needs_another_leaf_is_no_program() -> None:
    y, stranger = x(), x()
    assert recorded([y + stranger], [y]) is None
    assert recorded([alias(y)], [y]) is None, "a node that equals no other cannot be built again"
