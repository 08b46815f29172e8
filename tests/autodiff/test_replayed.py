"""A derivative is derived once for each structure; what is replayed on other nodes is what the rules would build."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vkgrad.ops  # noqa: F401  fills OPS
from tests.reference import evaluate, variable
from vkgrad import autodiff
from vkgrad.autodiff import vjp
from vkgrad.ir import build as b
from vkgrad.ir import node as node_module
from vkgrad.ir.node import Node
from vkgrad.ops.views import alias

Graph = Callable[[Node, Node], Node]


def gradients(graph: Graph, numbers: tuple[list[float], list[float]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The derivatives of the sum of `graph`'s elements as `vjp` gives them, and as the rules build them."""
    values: dict[Node, np.ndarray] = {}
    x, y = (variable(np.array(row, "f8"), values) for row in numbers)
    out = graph(x, y)
    weights = [b.constant(1, out.dtype, out.shape)]
    found, built = vjp([out], [x, y], weights), autodiff._derived([out], [x, y], weights)
    return tuple(evaluate([g for g in parts if g is not None], values) for parts in (found, built))  # type: ignore[return-value]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes whose rule `vjp` asks for."""
    seen: list[Node] = []
    honest = autodiff._pulled
    monkeypatch.setattr(autodiff, "_programs", {})
    monkeypatch.setattr(autodiff, "_pulled", lambda g, node: seen.append(node) or honest(g, node))
    return seen


NUMBERS = ([1.0, -2.0, 3.0], [0.5, 4.0, -1.0])
OTHERS = ([-1.0, 2.0, 0.0], [-2.0, 0.25, 3.0])


@pytest.mark.parametrize(
    "graph",
    [
        lambda x, y: x * y + b.apply("exp", x) / (y * y),
        lambda x, y: b.apply("relu", x) * b.apply("maximum", x, y),
        lambda x, y: b.build("sum", x * y, axes=(0,)) * x,
        lambda x, y: b.apply("where", x > 0, x * x, y),
        lambda x, y: x,
        lambda x, y: alias(x) * alias(x * y),
    ],
)
def test_the_rules_are_asked_once(graph: Graph, asked: list[Node]) -> None:
    for numbers in (NUMBERS, OTHERS):
        found, built = gradients(graph, numbers)
        np.testing.assert_equal(found, built)
        asked.clear()
        values: dict[Node, np.ndarray] = {}
        x, y = (variable(np.array(row, "f8"), values) for row in numbers)
        out = graph(x, y)
        vjp([out], [x, y], [b.constant(1, out.dtype, out.shape)])
        assert not asked


def test_other_graphs_are_asked_anew(asked: list[Node]) -> None:
    graphs: list[Graph] = [
        lambda x, y: x * y, lambda x, y: y * x, lambda x, y: x * x, lambda x, y: x / y, lambda x, y: x * y * 2,
    ]  # fmt: skip
    for number, graph in enumerate(graphs):
        found, built = gradients(graph, NUMBERS)
        np.testing.assert_equal(found, built)
        assert len(autodiff._programs) == number + 1


def test_a_node_that_equals_what_a_rule_builds_is_not_taken_for_it(asked: list[Node]) -> None:
    """relu's rule builds `out > 0`. Where the function has that mask as well, it is one node with it; the next function
    of this structure has another mask in this place, for which no derivative is asked and whose inputs do not count."""

    def chosen_by(mask_of: Callable[[Node, Node], Node]) -> Graph:
        def graph(x: Node, y: Node) -> Node:
            positive = b.apply("relu", x)
            return b.apply("where", mask_of(positive, y) > 0, positive, positive * 3)

        return graph

    for mask_of in (lambda positive, y: positive, lambda positive, y: y):
        found, built = gradients(chosen_by(mask_of), NUMBERS)
        np.testing.assert_equal(found, built)
    assert len(autodiff._programs) == 1, "the two share a program, else this shows nothing"


def test_the_same_trap_catches_a_program_recorded_with_sharing(
    asked: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(autodiff, "apart", nullcontext)
    with pytest.raises(AssertionError):
        test_a_node_that_equals_what_a_rule_builds_is_not_taken_for_it(asked)


def test_cotangents_may_be_part_of_the_graph(asked: list[Node]) -> None:
    values: dict[Node, np.ndarray] = {}
    for numbers in (NUMBERS, OTHERS):
        x, y = (variable(np.array(row, "f8"), values) for row in numbers)
        for weight in (x, y, x * y):
            (found,) = vjp([x - x * y], [x], [weight])
            assert found is weight + b.apply("multiply_no_nan", y, -weight), "equal nodes are one, replayed ones too"


def test_without_sharing_the_rules_are_asked_each_time(asked: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "intern_nodes", lambda: False)
    for _ in range(2):
        asked.clear()
        gradients(lambda x, y: x * y, NUMBERS)
        assert asked


def test_programs_are_bounded(asked: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autodiff, "MOST_PROGRAMS", 3)
    for count in range(1, 8):
        gradients(lambda x, y, count=count: b.build("sum", x * float(count), axes=(0,)), NUMBERS)  # type: ignore[misc]
    assert len(autodiff._programs) == 3
