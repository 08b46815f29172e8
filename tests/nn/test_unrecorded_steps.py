"""Training steps without `vg.jit`: what a step that was taken before must not do again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import autodiff, engine
from vkgrad.ir import build
from vkgrad.ir import node as node_module
from vkgrad.ir.layout import Layout
from vkgrad.schedule import plan

nn = vg.nn


class Asked(AssertionError):
    """Something that was to be known already."""


def _refuse(*_: object, **__: object) -> None:
    raise Asked


def _by_update(model: nn.Module, optimiser: vg.optim.Optimizer, x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    loss, gradients = vg.value_and_grad(lambda model: nn.cross_entropy(model(x), y))(model)
    optimiser.update(model, gradients)
    return loss


def _by_backward(model: nn.Module, optimiser: vg.optim.Optimizer, x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    loss = nn.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss


def _training(step: Callable[..., vg.Tensor], kind: str, **options: float) -> Callable[[int], float]:
    vg.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 8), nn.Tanh(), nn.Linear(8, 3)
    )
    optimiser = getattr(vg.optim, kind)(model, **options)
    vg.flush()

    def run(rows: int) -> float:
        x = vg.tensor(np.linspace(0, 1, rows * 64, dtype=np.float32).reshape(rows, 1, 8, 8))
        y = vg.tensor(np.arange(rows, dtype=np.int32) % 3)
        return float(step(model, optimiser, x, y))

    return run


@pytest.mark.parametrize("step", [_by_update, _by_backward])
@pytest.mark.parametrize(("kind", "options"), [("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.01})])
def test_a_step_taken_before_asks_no_rule_and_schedules_nothing(
    step: Callable[..., vg.Tensor], kind: str, options: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _training(step, kind, **options)
    losses = [run(4) for _ in range(2)]
    for place, name in (
        (build, "signature_of"), (build, "_join"), (autodiff, "_derived"), (engine, "build_plan"), (plan, "simplify"),
        (Layout, "contiguous"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, _refuse)
    with vg.counting() as counts:
        losses += [run(4) for _ in range(3)]
    assert counts.plans_built == counts.shaders_compiled == counts.pipelines_created == 0
    assert counts.flushes == 3 and losses[-1] < losses[0]
    with pytest.raises(Asked):
        run(5)  # rows that were never seen


def test_the_tables_do_not_grow_with_steps_nor_with_numbers_that_change() -> None:
    run = _training(_by_update, "SGD", lr=0.1)
    for _ in range(3):
        run(4)
    tables = (build._ruled, build._joint, build._literals, autodiff._programs, engine._plans)
    before = [len(table) for table in tables]
    for _ in range(5):
        run(4)
    assert [len(table) for table in tables] == before
    x = vg.tensor([1.0])
    for number in range(2 * build.MOST_LITERALS):
        x + (number + 0.5)
    assert len(build._literals) <= build.MOST_LITERALS
    assert node_module.living() < 20 * build.MOST_LITERALS


def test_a_literal_with_a_value_is_not_kept() -> None:
    """As long as a node is kept, so is the memory of its value."""
    x = vg.zeros((64, 64)) + 0.0
    vg.eval(vg.full((32, 32), 0.375), x)
    before = len(engine.values)
    for _ in range(3):
        y = vg.full((32, 32), 0.375)
        z = vg.tensor(np.ones((32, 32), np.float32)) * 0.375
        vg.eval(y)
        assert float((z + y).sum()) == 768.0
        del y, z
    assert len(engine.values) == before


def test_a_loop_that_reads_nothing_has_few_plans_and_submissions(on_cpu: None) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = vg.optim.AdamW(model, lr=0.01)
    x = np.ones((3, 4), "f4")

    def step() -> None:
        optimizer.zero_grad()
        model(vg.tensor(x)).mean().backward()
        optimizer.step()

    for _ in range(40):
        step()
    with vg.counting() as c:
        for _ in range(80):
            step()
    assert c.plans_built == 0
    assert 0 < c.flushes < 40
