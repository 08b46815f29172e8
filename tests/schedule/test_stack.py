"""Stacks: what is stacked gives, row by row, the bits of kernel by kernel; models are stacked where it pays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.models import LeNet5, batches, mlp, sgd_step
from tests.planned import plan_of, run
from tests.reference import evaluate
from tests.schedule.test_fuzz import Graphs
from vkgrad import engine, optim
from vkgrad.codegen.beside import beside_for
from vkgrad.codegen.rows import Limits
from vkgrad.codegen.stacked import stacking_for
from vkgrad.ir.node import Node
from vkgrad.runtime.nest import relaid
from vkgrad.schedule.kernel import Group, Kernel
from vkgrad.schedule.plan import Plan, build_plan
from vkgrad.schedule.split import Width
from vkgrad.schedule.stack import Stacking, _Search, split_axis, time_us

H200 = Limits(
    software=False, max_groups=(2**31 - 1, 65535, 65535), max_invocations=1024, shared_bytes=49152, max_buffers=32
)
WIDE = Width(1 << 16, 256, 16, 132)
EAGER = Stacking(lambda kernel: 1, level_us=1e9)  # stacks whatever can be


def row_of(kernel: Kernel, axis: int, row: int) -> Kernel:
    """`kernel` for one place of its axis."""
    starts = [row if a == axis else 0 for a in range(len(kernel.extents))]
    extents = tuple(1 if a == axis else extent for a, extent in enumerate(kernel.extents))

    def cut(layout):  # type: ignore[no-untyped-def]
        return layout.slice(starts, extents, [1] * len(starts))

    return replace(kernel, extents=extents, code=relaid(kernel.code, cut), stores=relaid(kernel.stores, cut))


def by_rows(plan: Plan, leaves: Sequence[Node], values: Mapping[Node, np.ndarray], backwards: bool) -> list:
    """The plan's targets where each stack runs row after row, as its workgroups do in whatever order."""
    kernels: list[Kernel] = []
    for dispatch in plan.kernels:
        if isinstance(dispatch, Group) and dispatch.rows:
            rows = range(dispatch.rows)
            for row in reversed(rows) if backwards else rows:
                kernels += [row_of(k, a, row) for k, a in zip(dispatch.kernels, dispatch.axes, strict=True)]
        else:
            kernels.append(dispatch)
    levels = (0,) * len(kernels)
    return run(replace(plan, kernels=tuple(kernels), levels=levels), leaves, values)


@pytest.mark.parametrize("block", range(5))
def test_random_graphs_row_by_row(block: int) -> None:
    stacked = 0
    for seed in range(block * 30, block * 30 + 30):
        graphs = Graphs(seed)
        outputs = graphs.grow(graphs.random.randint(6, 18))
        plan, leaves = plan_of(outputs, stacking=EAGER)
        groups = [dispatch for dispatch in plan.kernels if isinstance(dispatch, Group)]
        stacked += len(groups)
        want = evaluate(outputs, graphs.values)
        for have in (run(plan, leaves, graphs.values), by_rows(plan, leaves, graphs.values, seed % 2 == 0)):
            for node, w, h in zip(outputs, want, have, strict=True):
                found = np.empty(node.shape, node.dtype.numpy) if h is None else h.reshape(node.shape)
                np.testing.assert_array_equal(found, w, err_msg=f"seed {seed}, {node}")
    assert stacked >= 5


GPU = {
    "width": WIDE,
    "stacking": stacking_for(H200, lambda kernel: None),
    "beside": beside_for(H200, lambda kernel: None),
}


@pytest.mark.parametrize("block", range(3))
def test_larger_graphs_however_they_are_planned(block: int) -> None:
    """Where several stacks and what lies between them could come to wait for each other."""
    for seed in range(110 + block * 30, 140 + block * 30):
        graphs = Graphs(seed)
        outputs = graphs.grow(40)
        want = evaluate(outputs, graphs.values)
        for options in ({"stacking": EAGER}, {"stacking": EAGER, "width": WIDE}, GPU):
            plan, leaves = plan_of(outputs, **options)
            for node, w, h in zip(outputs, want, run(plan, leaves, graphs.values), strict=True):
                found = np.empty(node.shape, node.dtype.numpy) if h is None else h.reshape(node.shape)
                np.testing.assert_array_equal(found, w, err_msg=f"seed {seed}, {node}")


def test_stacks_that_wait_for_each_other_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arm: where members do not stand side by side, something among them can need one and be needed by one."""
    monkeypatch.setattr(_Search, "_gather", lambda self, stack: None)
    with pytest.raises(AssertionError, match="wait for each other"):
        test_larger_graphs_however_they_are_planned(0)


def test_a_stack_that_reads_a_neighbour_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arm: without the rule that a member reads its own row only, rows in the wrong order differ."""
    monkeypatch.setattr("vkgrad.schedule.stack._reads_its_row", lambda stack, kernel, axis, instruction: True)
    with pytest.raises(AssertionError):
        for block in range(5):
            test_random_graphs_row_by_row(block)


def test_an_axis_in_two_is_the_same_kernel() -> None:
    graphs = Graphs(3)
    outputs = graphs.grow(12)
    plan, leaves = plan_of(outputs)
    want = run(plan, leaves, graphs.values)

    def cut(kernel: Kernel) -> Kernel:
        even = [a for a in range(kernel.parallel) if kernel.extents[a] % 2 == 0]
        return replace(split_axis(kernel, even[0], 2), product=None) if even else kernel

    for w, h in zip(want, run(plan, leaves, graphs.values, cut), strict=True):
        np.testing.assert_array_equal(h, w)


def step_plan(kind: str, batch: int, stacking: Stacking | None) -> Plan:
    """The plan of a jitted training step for a GPU, which need not be here."""
    import vkgrad as vg

    plans: list[Plan] = []

    def recorded(*arguments, **options):  # type: ignore[no-untyped-def]
        beside = stacking and beside_for(H200, lambda kernel: None)
        options.update(width=WIDE, max_buffers=H200.max_buffers, stacking=stacking, beside=beside)
        plans.append(build_plan(*arguments, **options))
        return build_plan(*arguments, **{**options, "width": None, "stacking": None, "beside": None, "max_buffers": 16})

    model = LeNet5() if kind == "lenet" else mlp()
    step = vg.jit(sgd_step(model, optim.SGD(model, lr=0.1)))
    vg.flush()
    ((x, y),) = batches(1, batch, kind == "lenet")
    arguments = vg.tensor(x), vg.tensor(y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "build_plan", recorded)
        patch.setattr(engine, "_plans", OrderedDict())
        step(*arguments)
    return plans[-1]


@pytest.mark.parametrize(("kind", "dispatches", "levels"), [("mlp", 7, 5), ("lenet", 20, 13)])
def test_training_steps_on_a_gpu(kind: str, dispatches: int, levels: int) -> None:
    plan = step_plan(kind, 32, stacking_for(H200, lambda kernel: None))
    assert len(plan.kernels) <= dispatches and plan.depth <= levels  # goals; fewer is better
    alone = step_plan(kind, 32, None)
    assert len(alone.kernels) > len(plan.kernels) and alone.depth > plan.depth


def test_rows_that_take_long_stay_alone() -> None:
    """A member must be done sooner than a level more would be, so a large batch or layer is not stacked."""
    stacking = stacking_for(H200, lambda kernel: None)
    assert stacking is not None
    for dispatch in step_plan("lenet", 256, stacking).kernels:
        if isinstance(dispatch, Group) and dispatch.rows:
            assert all(
                time_us(*one, stacking) < stacking.level_us for one in zip(dispatch.kernels, dispatch.axes, strict=True)
            )
    impatient = replace(stacking, level_us=0.01)
    assert not any(
        isinstance(dispatch, Group) and dispatch.rows for dispatch in step_plan("mlp", 32, impatient).kernels
    )


def test_software_drivers_have_no_stacks() -> None:
    assert stacking_for(replace(H200, software=True), lambda kernel: None) is None
    assert stacking_for(replace(H200, shared_bytes=4096), lambda kernel: None) is None
