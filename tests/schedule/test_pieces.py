"""Gradients of many slices are joined: the same values, and each place adds up what there is, not all pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.planned import plan_of, planned
from tests.reference import evaluate, variable
from vkgrad.ir import build as b
from vkgrad.ir.node import Node, walk
from vkgrad.ops.views import pad
from vkgrad.schedule.kernel import parts
from vkgrad.schedule.pieces import pieces_joined
from vkgrad.schedule.plan import Plan

Values = dict[Node, np.ndarray]


def piece(values: Values, start: int, extent: int, total: int, axis: int = 0) -> Node:
    """A node of `total` places along an axis, of which `extent` from `start` on are not padding."""
    shape = [3, 3]
    shape[axis] = extent
    leaf = variable(np.random.default_rng(start + 1).standard_normal(shape).astype("f4"), values)
    low, high = [0, 0], [0, 0]
    low[axis], high[axis] = start, total - start - extent
    return pad(b.apply("exp", leaf), low, high)


def added(nodes: list[Node]) -> Node:
    total = nodes[0]
    for node in nodes[1:]:
        total = b.apply("add", total, node)
    return total


def slices(values: Values) -> list[Node]:
    return [piece(values, 2 * k, 2, 80) for k in range(40)]


def mixed(values: Values) -> list[Node]:
    """Gaps, overlaps, another axis, something without padding, and one piece twice."""
    found = [piece(values, 3 * k + 1, 2, 80) for k in range(25)]
    found.insert(5, piece(values, 4, 6, 80))
    found.insert(7, variable(np.ones((80, 3), np.float32), values))
    return [*found, found[0]]


def along_rows(values: Values) -> list[Node]:
    return [piece(values, k, 1, 40, axis=1) for k in reversed(range(40))]


@pytest.mark.parametrize("make", [slices, mixed, along_rows])
@pytest.mark.parametrize("order", [list, reversed])
def test_values_stay(make: Callable[[Values], list[Node]], order: Callable) -> None:
    values: Values = {}
    target = added(list(order(make(values))))
    joined = pieces_joined([target, b.apply("sin", target)], lambda node: False)
    assert joined[0] is not target
    for one, other in zip(evaluate(joined, values), evaluate([target, b.apply("sin", target)], values), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    (found,), (wanted,) = planned([target], values), evaluate([target], values)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_part_that_is_wanted_itself_stays() -> None:
    values: Values = {}
    pieces = slices(values)
    half = added(pieces[:20])
    whole = added([half, *pieces[20:]])
    found = pieces_joined([half, whole], lambda node: False)
    for one, other in zip(evaluate(found, values), evaluate([half, whole], values), strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_pieces_are_added() -> None:
    values: Values = {}
    target = added(slices(values)[:16])
    assert pieces_joined([target], lambda node: False) == [target]
    windows = added([piece(values, k, 30, 80) for k in range(40)])  # these overlap
    (found,) = pieces_joined([windows], lambda node: False)
    assert sum(node.is_op("where") for node in walk([found])) == 0


def reads(plan: Plan) -> int:
    """How many elements are looked at, those outside a piece too."""
    return sum(
        kernel.places * sum(1 for _ in kernel.reads()) for dispatch in plan.kernels for kernel in parts(dispatch)
    )


def test_a_place_asks_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads_of_a_place(count: int) -> float:
        values: Values = {}
        plan, _ = plan_of([added([piece(values, k, 1, count) for k in range(count)])], max_buffers=32)
        return reads(plan) / (3 * count)

    assert reads_of_a_place(400) < 80  # 16, and up to 28 of what these were joined to, twice
    monkeypatch.setattr("vkgrad.schedule.plan.pieces_joined", lambda nodes, has_value: nodes)  # the null arm
    assert reads_of_a_place(400) >= 400
