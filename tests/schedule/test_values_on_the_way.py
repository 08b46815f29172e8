"""Graphs some of whose nodes have been computed already: a plan begins there, and looks at nothing below."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import vkgrad as vg
from tests.planned import run
from tests.reference import evaluate
from tests.schedule.test_fuzz import Graphs
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import Family
from vkgrad.schedule import simplify
from vkgrad.schedule.plan import build_plan, structure
from vkgrad.schedule.split import Width

WAYS = ({"max_buffers": 16}, {"max_buffers": 32, "width": Width(1 << 16, 256, 16, 132)})


def check(seed: int) -> None:
    graphs, draw = Graphs(seed), random.Random(seed)
    outputs = graphs.grow(30)
    inner = [node for node in walk(outputs) if node.op.family is not Family.LEAF and node not in outputs and node.size]
    known = set(draw.sample(inner, min(len(inner), draw.randint(1, 12))))
    values = graphs.values | dict(zip(known, evaluate(list(known), graphs.values), strict=True))
    leaves = structure(outputs, known.__contains__)[1]
    want = evaluate(outputs, graphs.values)
    for options in WAYS:
        plan = build_plan(outputs, leaves, **options)  # type: ignore[arg-type]
        for node, w, h in zip(outputs, want, run(plan, leaves, values), strict=True):
            found = np.empty(node.shape, node.dtype.numpy) if h is None else h.reshape(node.shape)
            np.testing.assert_array_equal(found, w, err_msg=f"seed {seed}, {node}")


@pytest.mark.parametrize("block", range(4))
def test_random_graphs(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        check(seed)


def sum_of_a_reshape_that_was_read() -> vg.Tensor:
    a = vg.exp(vg.tensor(np.arange(12, dtype=np.float32)) * 0.3)
    y = a.reshape((3, 4))
    z = y.reshape((4, 3)).sum(0)
    vg.eval(y)
    return z


def test_a_reshape_that_was_read_is_where_others_begin(on_cpu: None) -> None:
    z = sum_of_a_reshape_that_was_read()
    with vg.counting() as census:
        found = z.numpy()
    np.testing.assert_allclose(found, np.exp(np.arange(12) * 0.3).reshape(4, 3).sum(0), rtol=1e-6)
    assert (census.dispatches, census.host_nodes) == (1, 0)


def test_looking_through_is_noticed(monkeypatch: pytest.MonkeyPatch, on_cpu: None) -> None:
    """The null arm: simplified as if nothing had a value."""
    right = simplify._simplified

    def blind(node: Node, has_value: Callable[[Node], bool]) -> Node:
        return right(node, lambda node: False)

    monkeypatch.setattr(simplify, "_simplified", blind)
    with pytest.raises((KeyError, AssertionError)):
        for seed in range(160):
            check(seed)
