"""Plans and shaders as a GPU gets them, run on the test device.

A GPU's plans differ from a software driver's: layers are stacked in one workgroup, sums are split, kernels share a
dispatch, rows stage their operands in shared memory. Here a software device is told that it is one, so that whatever is
chosen for GPUs runs, and must give what NumPy and the CPU device give.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, sgd_step
from tests.programs import draw_program
from tests.test_fuzz_programs import LENGTH, arrays, assert_close, tensors
from vkgrad import engine, nn, optim
from vkgrad.codegen import stacked
from vkgrad.codegen.beside import beside_for
from vkgrad.codegen.stacked import stacking_for
from vkgrad.config import config
from vkgrad.schedule.kernel import Group
from vkgrad.schedule.plan import Plan
from vkgrad.schedule.split import Width

pytestmark = pytest.mark.device


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that are made from here on, for a device that takes itself for a GPU."""
    device: Any = engine.device()
    limits = replace(device.limits, software=False, broadcast=False)
    monkeypatch.setattr(device, "limits", limits)
    monkeypatch.setattr(device.tuner, "limits", limits)
    monkeypatch.setattr(device, "width", Width(1 << 16, 256, 16, 132))
    monkeypatch.setattr(device, "stacking", stacking_for(limits, device.tuner.row))
    monkeypatch.setattr(device, "beside", beside_for(limits, device.tuner.row))
    made: list[Plan] = []

    def watch(targets: Any, plan: Plan) -> None:
        made.append(plan)

    monkeypatch.setattr(engine, "_plans", OrderedDict())
    monkeypatch.setattr(engine, "on_plan", [*engine.on_plan, watch])
    return made


def stacks(plans: list[Plan]) -> int:
    return sum(isinstance(dispatch, Group) and bool(dispatch.rows) for plan in plans for dispatch in plan.kernels)


def test_random_programs(plans: list[Plan]) -> None:
    for seed in range(700, 706):
        program = draw_program(seed, LENGTH)
        with vg.counting() as census:
            found = arrays(program.run(tensors(program, "f4")))
        assert_close(found, program, program.run_numpy(program.inputs), 1e-4)
        assert not census.host_nodes and census.dispatches


def trained(model: nn.Module, x: np.ndarray, y: np.ndarray, steps: int = 2) -> list[float]:
    step = vg.jit(sgd_step(model, optim.SGD(model, lr=0.1)))
    return [float(step(vg.tensor(x), vg.tensor(y))) for _ in range(steps)]


def lenet() -> list[float]:
    vg.manual_seed(0)
    return trained(LeNet5(), *batches(1, 8, True)[0])


class Reader(nn.Module):
    """Classes of sequences, by attention and a recurrence."""

    def __init__(self) -> None:
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.recurrence = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return self.head(self.recurrence(self.attention(x))[0][:, -1])


def reader() -> list[float]:
    vg.manual_seed(0)
    draw = np.random.default_rng(0)
    return trained(Reader(), draw.normal(size=(4, 3, 8)).astype("f4"), np.arange(4, dtype="i4"))


@pytest.mark.parametrize("losses", [lenet, reader], ids=["lenet", "reader"])
def test_training(losses: Any, plans: list[Plan]) -> None:
    with vg.counting() as census:
        found = losses()
    assert not census.host_nodes and stacks(plans), "no kernel was stacked"
    with config.override(device="cpu"):
        np.testing.assert_allclose(found, losses(), rtol=2e-5)


def test_a_row_that_is_handed_on_wrongly_is_seen(
    plans: list[Plan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The null arm: what one member of a stack hands to the next is off by a hundredth."""
    right = stacked.RowExpressions.store

    def wrong(self: Any, number: int, out: Any, value: str, coordinates: Any) -> str:
        return right(self, number, out, f"{value} * 1.01" if out.slot in self.staged else value, coordinates)

    with config.override(device="cpu"):
        expected = lenet()
    monkeypatch.setattr(stacked.RowExpressions, "store", wrong)
    with config.override(cache_dir=tmp_path), pytest.raises(AssertionError):
        np.testing.assert_allclose(lenet(), expected, rtol=2e-5)
