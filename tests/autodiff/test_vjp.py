"""Reverse mode on graphs: paths, sums over paths, aliases, any depth; the results are graphs of primitives again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkgrad.ops  # noqa: F401  fills OPS
from tests.gradients import check
from tests.reference import evaluate, variable
from vkgrad.autodiff import vjp, zeros_like
from vkgrad.errors import DifferentiationError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DTYPES, float32, float64
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import alias


def scalar(value: float, values: dict[Node, np.ndarray]) -> Node:
    return variable(np.float64(value), values)


def derivative(y: Node, x: Node) -> Node:
    (g,) = vjp([y], [x], [b.constant(1, y.dtype, y.shape)])
    assert g is not None
    return g


def test_paths_add_up() -> None:
    values: dict[Node, np.ndarray] = {}
    x = scalar(3.0, values)
    y = x * x + x * 2 + x
    assert evaluate([derivative(y, x)], values) == [9.0]


def test_several_outputs_and_targets() -> None:
    values: dict[Node, np.ndarray] = {}
    x, y = scalar(3.0, values), scalar(5.0, values)
    outputs = [x * y, x + y]
    cotangents = [scalar(10.0, values), scalar(1.0, values)]
    found = vjp(outputs, [x, y], cotangents)
    assert evaluate([g for g in found if g is not None], values) == [51.0, 31.0]


def test_the_output_may_be_the_target_and_appear_twice() -> None:
    values: dict[Node, np.ndarray] = {}
    x = scalar(3.0, values)
    g = scalar(7.0, values)
    assert vjp([x], [x], [g]) == [g]
    (both,) = vjp([x, x], [x], [g, g])
    assert both is not None and evaluate([both], values) == [14.0]
    assert vjp([x], [x, x], [g]) == [g, g]


def test_none_where_no_path_leads() -> None:
    x, y, k = leaf((2,), float32), leaf((2,), float32), leaf((2,), DTYPES["int32"])
    one = b.constant(1, float32, (2,))
    assert vjp([x * 2], [y], [one]) == [None]
    assert vjp([b.apply("floor", x)], [x], [one]) == [None]
    assert vjp([b.cast(b.cast(x, DTYPES["int32"]), float32)], [x], [one]) == [None]
    assert vjp([b.cast(k, float32) * x], [k], [one])[0] is None
    assert vjp([b.apply("where", b.apply("greater", x, 0), y, 0)], [x], [one]) == [None]


def test_nothing_is_searched_below_a_target() -> None:
    values: dict[Node, np.ndarray] = {}
    x = scalar(3.0, values)
    middle = x * x
    found = vjp([middle * x], [middle, x], [scalar(1.0, values)])
    assert evaluate([g for g in found if g is not None], values) == [3.0, 9.0]  # x only as the second factor


def test_an_alias_is_told_apart_from_an_equal_expression() -> None:
    """d(x + 2u)/dx at x = 2u is 1; without a node of its own the closure's 2u would be differentiated too."""
    values: dict[Node, np.ndarray] = {}
    u = scalar(3.0, values)
    equal = u * 2

    def function(x: Node) -> Node:
        return x + u * 2

    fresh = alias(equal)
    assert evaluate([derivative(function(fresh), fresh)], values) == [1.0]
    assert evaluate([derivative(function(equal), equal)], values) == [2.0]  # what the alias is for


def test_an_op_without_derivative_is_named() -> None:
    op = replace(OPS["abs"], name="opaque", grad=NOT_DIFFERENTIABLE)
    x = leaf((), float32)
    y = b.build(op, x)
    with pytest.raises(DifferentiationError, match=r"^opaque: has no derivative"):
        vjp([y * 2], [x], [b.constant(1, float32)])
    assert vjp([y * 2 + x], [leaf((), float32)], [b.constant(1, float32)]) == [None]  # not on a path: no complaint


def test_deep_graphs_need_no_recursion() -> None:
    values: dict[Node, np.ndarray] = {}
    x = scalar(1.0, values)
    y = x
    for _ in range(4000):
        y = -y
    assert evaluate([derivative(y, x)], values) == [1.0]


def test_shared_subexpressions_are_differentiated_once() -> None:
    """32 doublings have 2**32 paths; the gradient graph has a few nodes for each of the 32."""
    values: dict[Node, np.ndarray] = {}
    x = scalar(1.0, values)
    y = x
    for _ in range(32):
        y = y + y
    g = derivative(y, x)
    assert evaluate([g], values) == [2.0**32]
    assert len(walk([g])) < 200


def test_gradients_have_the_type_and_shape_of_their_operand() -> None:
    x, y = leaf((3, 1), float32), leaf((4,), float64)
    found = vjp([x * y], [x, y], [b.constant(1, float64, (3, 4))])
    assert [(g.dtype, g.shape) for g in found if g is not None] == [(float32, (3, 1)), (float64, (4,))]


def test_zeros_like() -> None:
    node = zeros_like(leaf((2, 3), float64))
    np.testing.assert_array_equal(evaluate([node], {})[0], np.zeros((2, 3)))


def test_third_and_fourth_derivatives() -> None:
    values: dict[Node, np.ndarray] = {}
    x = scalar(0.7, values)
    y = b.apply("sin", x) * b.apply("exp", x)
    for _ in range(4):
        y = derivative(y, x)
    assert evaluate([y], values)[0] == pytest.approx(-4 * np.sin(0.7) * np.exp(0.7), rel=1e-13)


def test_a_layer_to_second_order() -> None:
    """What training is made of, together: x @ w + b, tanh, logsumexp over a broadcast maximum."""
    generator = np.random.default_rng(8)

    def loss(x: Node, w: Node, bias: Node) -> Node:
        h = b.apply("tanh", b.build("contract", x, w, left=(0, 1), right=(1, 2), out=(0, 2)) + b.expand(bias, (2, 3)))
        top = b.build("max", h, axes=(1,), ties="share")
        total = b.build("sum", b.apply("exp", h - b.expand(top, (2, 3))), axes=(1,))
        return b.build("sum", b.apply("log", total) + top, axes=(0,))

    check(loss, [generator.normal(size=s) for s in [(2, 2), (2, 3), (3,)]], order=2)


_UNARY = ("tanh", "sin", "exp", "square", "sigmoid", "softplus", "negative")
_BINARY = ("add", "multiply", "subtract", "atan2", "maximum")


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(_UNARY + _BINARY), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6
    ),
    st.integers(0, 99),
)
def test_random_graphs(steps: list[tuple[str, int, int]], seed: int) -> None:
    """Graphs with fan-out, of functions that stay small."""

    def function(*leaves: Node) -> Node:
        nodes = list(leaves)
        for name, i, j in steps:
            picked = [nodes[i % len(nodes)], nodes[j % len(nodes)]][: OPS[name].arity]
            nodes.append(b.apply("tanh", b.apply(name, *picked)))
        return nodes[-1] + nodes[-2]

    check(function, list(np.random.default_rng(seed).uniform(0.2, 1.0, (2, 2))), order=2)


def test_gradients_are_graphs_of_primitives() -> None:
    """So that they can be fused, placed and differentiated like anything else."""
    x = leaf((3, 4), float32)
    y = b.build("max", b.apply("tanh", x) * b.apply("log", x), axes=(1,), ties="first")
    g = derivative(derivative(y, x) * x, x)
    assert all(OPS[node.op.name] is node.op for node in walk([g]))
