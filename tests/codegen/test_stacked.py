"""Stacks on a device: one dispatch gives the bits that its members give alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, corrupted, limits_of, run_plan
from tests.models import LeNet5, batches, mlp, sgd_step
from tests.planned import plan_of
from tests.reference import evaluate, variable
from tests.schedule.test_fuzz import Graphs
from vkgrad import engine, optim
from vkgrad.codegen.beside import beside_for
from vkgrad.codegen.stacked import stacking_for
from vkgrad.codegen.tune import Tuner
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.runtime._native import Device
from vkgrad.runtime.measure import measure
from vkgrad.schedule.kernel import Group
from vkgrad.schedule.split import Width


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


def layers(rows: int, sizes: tuple[int, ...], values: dict[Node, np.ndarray]) -> Node:
    """Layers of whole numbers, each with a bias and a relu, and at the end what a row sums to."""
    generator = np.random.default_rng(rows)
    x = variable(generator.integers(-2, 3, (rows, sizes[0])).astype("f4"), values)
    for inner, outer in pairwise(sizes):
        weight = variable(generator.integers(-2, 3, (outer, inner)).astype("f4"), values)
        bias = variable(generator.integers(-2, 3, (outer,)).astype("f4"), values)
        product = contract(x, weight, (0, 2), (1, 2), (0, 1))
        x = b.apply("remainder", b.apply("relu", b.apply("add", product, b.expand(bias, product.shape))), 5.0)
    return b.apply("subtract", x, b.expand(b.build("sum", x, axes=(1,)), x.shape))


# Few places and many, so that invocations have several places or none; terms that lanes share evenly and not; a prime.
@pytest.mark.parametrize(("rows", "sizes"), [(5, (70, 13, 600)), (3, (1, 2, 1, 3)), (13, (257, 31, 9)), (300, (4, 3))])
def test_layers(device: Device, rows: int, sizes: tuple[int, ...]) -> None:
    values: dict[Node, np.ndarray] = {}
    output = layers(rows, sizes, values)
    limits = limits_of(device, GPU_LIKE)
    stacking = stacking_for(limits, lambda kernel: None)
    plan, leaves = plan_of([output], stacking=stacking)
    (stack,) = plan.kernels
    assert isinstance(stack, Group) and len(stack.kernels) >= len(sizes) - 1
    inputs = [values[leaf] for leaf in leaves]
    (found,) = run_plan(device, plan, inputs, limits)
    np.testing.assert_array_equal(found, evaluate([output], values)[0])
    if rows == 5:  # the null arm: with one term fewer the same comparison fails
        (wrong,) = run_plan(device, plan, inputs, limits, change=corrupted(1))
        assert not np.array_equal(wrong, found)


def test_random_graphs(device: Device) -> None:
    limits = limits_of(device, GPU_LIKE)
    stacking = stacking_for(limits, lambda kernel: None)
    assert stacking is not None
    stacked = 0
    for seed in range(200):
        graphs = Graphs(seed)
        outputs = graphs.grow(graphs.random.randint(6, 18))
        plan, leaves = plan_of(outputs, stacking=replace(stacking, level_us=1e9))
        if not any(isinstance(dispatch, Group) for dispatch in plan.kernels) or None in plan.outputs:
            continue
        stacked += 1
        found = run_plan(device, plan, [graphs.values[leaf] for leaf in leaves], limits)
        for node, want, have in zip(outputs, evaluate(outputs, graphs.values), found, strict=True):
            np.testing.assert_array_equal(have.reshape(node.shape), want, err_msg=f"seed {seed}, {node}")
        if stacked == 20:
            break
    assert stacked == 20


@pytest.mark.validation
@pytest.mark.parametrize("kind", ["mlp", "lenet"])
def test_training_has_the_same_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and weights of a device that takes itself for a GPU: with stacks and kernels side by side, and without."""
    import vkgrad as vg

    own = engine.device()
    if own.kind != "vulkan":
        pytest.skip("stacks are for Vulkan devices")
    limits = limits_of(Device(), GPU_LIKE)
    found = []
    for stacked in (True, False):
        tuner = Tuner("taken for a GPU", limits, partial(measure, own))
        changes = {
            "limits": limits,
            "tuner": tuner,
            "width": Width(1 << 16, 256, 16, 132),
            "stacking": stacking_for(limits, tuner.row) if stacked else None,
            "beside": beside_for(limits, tuner.row) if stacked else None,
        }
        for name, value in changes.items():
            monkeypatch.setattr(own, name, value)
        monkeypatch.setattr(engine, "_plans", type(engine._plans)())
        vg.manual_seed(0)
        model = LeNet5() if kind == "lenet" else mlp()
        step = vg.jit(sgd_step(model, optim.SGD(model, lr=0.05)))
        vg.flush()
        with vg.counting() as c:
            losses = [float(step(vg.tensor(x), vg.tensor(y))) for x, y in batches(3, 8, kind == "lenet")]
        found.append((losses, [p.numpy().tobytes() for p in model.parameters()], c.dispatches))
    assert found[0][:2] == found[1][:2]
    assert found[0][2] < found[1][2]
