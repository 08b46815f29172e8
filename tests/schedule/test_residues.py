"""Gradients of strided convolutions as dense products, class by class: the same values, and no term that is padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.planned import run
from tests.reference import evaluate
from vkgrad.autodiff import vjp
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import pad, window
from vkgrad.schedule import residues
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import Plan, build_plan
from vkgrad.schedule.split import Width

GPU = Width(1 << 16, 256, 16, 132)
CASES = {
    "3x3 by 2": ((2, 3, 8, 8), 5, 3, 2, 1, 1),
    "odd extents": ((1, 3, 9, 11), 4, 3, 2, 1, 1),
    "stride beyond the taps": ((2, 3, 8, 8), 5, 2, 3, 1, 0),
    "dilated, in one class": ((1, 2, 15, 15), 3, 3, 2, 2, 2),
    "dilated, in all": ((1, 2, 9, 9), 4, 3, 3, 2, 1),
    "stride and dilation of one divisor": ((1, 2, 17, 17), 2, 3, 4, 6, 3),
    "large taps": ((1, 3, 9, 9), 4, 7, 2, 1, 3),
    "no padding, a rest": ((1, 2, 10, 9), 3, 3, 2, 1, 0),
    "a single tap": ((2, 3, 8, 8), 5, 1, 2, 1, 0),
}


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "WORTH_SPLITTING", 0)


def gradient(
    shape: Sequence[int], outputs: int, taps: int, stride: int, dilation: int, padding: int, groups: int = 1
) -> tuple[Node, list[Node]]:
    """The gradient of a convolution's data, and its leaves: weights and the result's gradient."""
    batch, channels = shape[:2]
    x = leaf(tuple(shape), float32)
    w = leaf((groups, outputs, channels // groups, taps, taps), float32)
    margin = (0, 0, padding, padding)
    windows = window(window(pad(x, margin, margin), 2, taps, stride, dilation), 3, taps, stride, dilation)
    grouped = b.reshape(windows, (batch, groups, channels // groups, *windows.shape[2:]))
    y = contract(grouped, w, (0, 7, 1, 2, 3, 4, 5), (7, 6, 1, 4, 5), (0, 7, 6, 2, 3))
    g = leaf(y.shape, float32)
    return vjp([y], [x], [g])[0], [w, g]


def plan_of(target: Node, leaves: Sequence[Node]) -> Plan:
    return build_plan([target], leaves, max_buffers=16, width=GPU)


def values_of(leaves: Sequence[Node]) -> dict[Node, np.ndarray]:
    random = np.random.default_rng(0)
    return {node: random.integers(-3, 4, node.shape).astype("f4") for node in leaves}


def steps_of(kernel: Kernel) -> set[int]:
    return {guard.step for part in kernel.code if (layout := getattr(part, "layout", None)) for guard in layout.guards}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_classes_together_are_the_gradient(case: str, groups: int) -> None:
    shape, *rest = CASES[case]
    shape = (shape[0], shape[1] * groups, *shape[2:])
    target, leaves = gradient(shape, *rest, groups)
    values = values_of(leaves)
    (found,) = run(plan_of(target, leaves), leaves, values)
    assert found is not None
    np.testing.assert_array_equal(found.reshape(target.shape), evaluate([target], values)[0])


def test_a_class_that_is_left_out_is_missed() -> None:
    target, leaves = gradient(*CASES["3x3 by 2"])
    plan, values = plan_of(target, leaves), values_of(leaves)
    without = replace(plan, kernels=plan.kernels[1:], levels=plan.levels[1:])
    (found,) = run(without, leaves, values)
    assert found is not None and not np.array_equal(found.reshape(target.shape), evaluate([target], values)[0])


def test_no_term_is_padding_between_elements() -> None:
    target, leaves = gradient((2, 4, 16, 16), 8, 3, 2, 1, 1)
    plan = plan_of(target, leaves)
    assert len(plan.kernels) == 4 and plan.depth == 1
    assert all(steps_of(kernel) <= {1} for kernel in plan.kernels)
    # Of the 4 * 9 terms that each of four places had, nine are left, one a tap.
    assert sum(prod(kernel.extents) for kernel in plan.kernels) == 2 * 4 * 8 * 8 * 8 * 9


def test_what_is_fused_behind_goes_along() -> None:
    target, leaves = gradient(*CASES["stride beyond the taps"])
    mask = leaf(target.shape, float32)
    product = b.build("add", b.build("multiply", target, mask), mask)
    values = values_of([*leaves, mask])
    plan = plan_of(product, [*leaves, mask])
    assert plan.depth == 1
    (found,) = run(plan, [*leaves, mask], values)
    assert found is not None
    np.testing.assert_array_equal(found.reshape(product.shape), evaluate([product], values)[0])


def test_little_work_stays_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "WORTH_SPLITTING", 1 << 30)
    target, leaves = gradient(*CASES["3x3 by 2"])
    assert len(plan_of(target, leaves).kernels) == 1


def test_a_single_tap_computes_in_one_class_and_clears_the_others() -> None:
    target, leaves = gradient(*CASES["a single tap"])
    plan = plan_of(target, leaves)
    assert plan.depth == 1 and [kernel.product is not None for kernel in plan.kernels].count(True) == 1
    assert all(steps_of(kernel) <= {1} for kernel in plan.kernels)
