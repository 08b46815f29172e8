"""Long sums in two steps: the same values, more at once, and never undone by fusion."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import vkgrad as vg
from tests.reference import evaluate
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, int32
from vkgrad.ir.node import Node, walk
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.schedule.plan import build_plan
from vkgrad.schedule.split import LONGEST, LONGEST_IN_TURN, Width, split

GPU = Width(1 << 16, 32, 16)


def sums(nodes: list[Node]) -> list[Node]:
    return [n for n in walk(nodes) if n.op.name in ("sum", "max", "contract", "prod")]


def test_a_long_sum_to_few_elements_is_cut() -> None:
    x = leaf((6, 64, 49), int32)
    value = np.arange(x.size, dtype="i4").reshape(x.shape) % 11
    total = b.build("sum", x, axes=(1, 2))
    (cut,) = split([total], lambda n: False, Width(1 << 10, 4, 4))
    first, second = sums([cut])
    assert first.size > second.size == 6 and second.attributes["partial"]
    np.testing.assert_array_equal(evaluate([cut], {x: value})[0], value.sum((1, 2), keepdims=True))


@pytest.mark.parametrize("name", ["sum", "max"])
def test_a_length_without_divisors_is_cut_with_a_masked_tail(name: str) -> None:
    prime = LONGEST + 7
    x = leaf((prime,), int32)
    attributes = {"ties": "share"} if name == "max" else {}
    (cut,) = split([b.build(name, x, axes=(0,), **attributes)], lambda n: False, Width(1, 1, LONGEST))
    assert len(sums([cut])) == 2
    value = -np.arange(prime, dtype="i4") - 5
    expected = value.max() if name == "max" else value.sum(dtype="i4")
    assert evaluate([cut], {x: value})[0].item() == expected


def test_many_floats_are_not_added_up_in_turn() -> None:
    """A software driver has few invocations; ten million times 0.1 rounds the same way each time."""
    terms = np.full(10**7, 0.1, np.float32)
    x = leaf(terms.shape, float32)
    software = Width(32, 1, 1024)
    (cut,) = split([b.build("sum", x, axes=(0,))], lambda n: False, software)
    steps = [x.size, *(step.size for step in sums([cut]))]
    assert steps[-1] == 1 and all(step.attributes["partial"] for step in sums([cut])[1:])
    assert all(before <= LONGEST_IN_TURN // 8 * after for before, after in pairwise(steps))
    assert x.size <= 128 * steps[1]
    whole = leaf(terms.shape, int32)
    (integers,) = split([b.build("sum", whole, axes=(0,))], lambda n: False, software)
    assert sums([integers])[0].size == 32, "integers do not round"


@pytest.mark.device
def test_a_long_sum_of_the_same_number_keeps_its_digits() -> None:
    x = vg.tensor(np.full(10**7, 0.1, np.float32))
    with vg.counting() as c:
        total, mean, spread = vg.sum(x).item(), vg.mean(x).item(), vg.var(x).item()
    assert c.host_nodes == 0
    exact = float(np.float32(0.1))
    assert abs(total / (1e7 * exact) - 1) < 4e-6 and abs(mean / exact - 1) < 4e-6 and spread < 1e-12


def test_a_contraction_with_a_small_output_is_cut() -> None:
    x, y = leaf((4096, 6), int32), leaf((4096, 5), int32)
    (cut,) = split([contract(x, y, (0, 1), (0, 2), (1, 2))], lambda n: False, GPU)
    product, total = sums([cut])
    assert product.shape[1:] == (6, 5) and product.shape[0] > 1 and total.attributes["partial"]
    a, c = np.arange(x.size).reshape(x.shape) % 7, np.arange(y.size).reshape(y.shape) % 5
    result = evaluate([cut], {x: a.astype("i4"), y: c.astype("i4")})[0]
    np.testing.assert_array_equal(result, a.T @ c)


def test_fusion_does_not_undo_it() -> None:
    x, y = leaf((4096, 6), float32), leaf((4096, 5), float32)
    product = contract(x, y, (0, 1), (0, 2), (1, 2))
    arguments = ([product], [x, y])
    assert len(build_plan(*arguments, max_buffers=16).kernels) == 1
    assert len(build_plan(*arguments, max_buffers=16, width=GPU).kernels) == 2


def test_enough_elements_are_left_alone() -> None:
    x = leaf((512, 512), float32)
    for node in (b.build("sum", x, axes=(1,)), contract(x, x, (0, 1), (1, 2), (0, 2))):
        assert split([node], lambda n: False, GPU) == [node]


def test_what_is_cut_depends_on_sizes_alone() -> None:
    """The null arm of bit-identity: a prologue and an epilogue change nothing about where a sum is cut."""
    x = leaf((6, 4096), float32)
    plain = b.build("sum", x, axes=(1,))
    fused = b.apply("exp", b.build("sum", b.apply("exp", x), axes=(1,)))
    parts = [sums(split([node], lambda n: False, GPU))[0].shape for node in (plain, fused)]
    assert parts[0] == parts[1] != plain.shape
