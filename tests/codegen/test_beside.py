"""Kernels side by side in one dispatch: the bits that they have alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE, corrupted, limits_of, run_plan
from tests.planned import plan_of
from tests.reference import evaluate, variable
from tests.schedule.test_fuzz import Graphs
from vkgrad.codegen.beside import beside_for
from vkgrad.codegen.rows import Limits
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.runtime._native import Device
from vkgrad.schedule.beside import side_by_side
from vkgrad.schedule.kernel import Group, Kernel


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


def sums_and_products(values: dict[Node, np.ndarray]) -> list[Node]:
    """What a layer's gradients are: products, long and short sums of what they are made of, and something else."""
    generator = np.random.default_rng(0)

    def whole(*shape: int) -> Node:
        return variable(generator.integers(-3, 4, shape).astype("f4"), values)

    x, dy, other = whole(70, 13), whole(70, 9), whole(3, 300)
    return [
        contract(dy, x, (0, 1), (0, 2), (1, 2)),
        b.build("sum", dy, axes=(0,)),
        b.build("sum", b.apply("multiply", other, other), axes=(1,)),
        b.build("max", other, axes=(0,), ties="share"),
        b.apply("exp", b.apply("minimum", whole(17), 0.0)),
    ]


@pytest.mark.parametrize("own", [SOFTWARE, GPU_LIKE], ids=["software", "gpu"])
def test_gradients_of_a_layer(device: Device, own: Limits) -> None:
    values: dict[Node, np.ndarray] = {}
    outputs = sums_and_products(values)
    limits = limits_of(device, own)
    plan, leaves = plan_of(outputs, beside=beside_for(limits, lambda kernel: None))
    alone, _ = plan_of(outputs)
    assert len(plan.kernels) < len(alone.kernels) and plan.depth == alone.depth
    assert any(isinstance(dispatch, Group) for dispatch in plan.kernels)
    inputs = [values[leaf] for leaf in leaves]
    found = run_plan(device, plan, inputs, limits)
    for have, want in zip(found, run_plan(device, alone, inputs, limits), strict=True):
        assert have.tobytes() == want.tobytes()
    if own is GPU_LIKE:  # the null arm: one workgroup fewer, or a wrong number of terms, is seen
        wrong = run_plan(device, plan, inputs, limits, change=corrupted(1))
        assert any(not np.array_equal(w, f) for w, f in zip(wrong, found, strict=True))


def test_random_graphs(device: Device) -> None:
    limits = limits_of(device, GPU_LIKE)
    beside = beside_for(limits, lambda kernel: None)
    grouped = 0
    for seed in range(200):
        graphs = Graphs(seed)
        outputs = graphs.grow(graphs.random.randint(6, 18))
        plan, leaves = plan_of(outputs, beside=beside)
        if not any(isinstance(dispatch, Group) for dispatch in plan.kernels) or None in plan.outputs:
            continue
        grouped += 1
        found = run_plan(device, plan, [graphs.values[leaf] for leaf in leaves], limits)
        for node, want, have in zip(outputs, evaluate(outputs, graphs.values), found, strict=True):
            np.testing.assert_array_equal(have.reshape(node.shape), want, err_msg=f"seed {seed}, {node}")
        if grouped == 15:
            break
    assert grouped == 15


def test_levels_and_buffers_are_kept() -> None:
    """Kernels of two levels stay two dispatches, and no dispatch has more buffers than the device can bind."""
    values: dict[Node, np.ndarray] = {}
    plan, _ = plan_of(sums_and_products(values))
    kernels = [kernel for kernel in plan.kernels if isinstance(kernel, Kernel)]
    pairs = [(kernel, number % 2) for number, kernel in enumerate(kernels)]
    pairs.sort(key=lambda pair: pair[1])
    assert {level for _, level in side_by_side(pairs, lambda kernel: 1, 16)} == {0, 1}
    for most in (2, 3, 5):
        for dispatch, _ in side_by_side([(kernel, 0) for kernel in kernels], lambda kernel: 1, most):
            assert len(dispatch.slots) <= max(most, *(len(kernel.slots) for kernel in kernels))
    assert side_by_side(pairs, lambda kernel: None, 16) == pairs
