"""A plan in words, frozen for five graphs: what `plan.explain()` returns and `VKGRAD_DEBUG=plan` prints.

A change of the schedule changes these files on purpose, or is a mistake: `python -m tests.test_explained_plans` writes
them anew, and the difference is there to read in the commit. They are those of the CPU device, which has no driver.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, mlp
from vkgrad import nn, optim
from vkgrad.config import config

FOLDER = Path(__file__).with_name("golden") / "plans"


def standing(*shape: int) -> vg.Tensor:
    """A tensor whose values are there, so that no plan holds how they were made."""
    return vg.tensor(np.zeros(shape, np.float32))


def drawn(model: nn.Module) -> nn.Module:
    vg.eval([parameter for _, parameter in model.named_parameters()])
    return model


def chain() -> list[vg.Tensor]:
    """Element-wise operations, one of them read twice: a single kernel."""
    x = vg.tanh(standing(64, 32)) * 2
    return [x + vg.exp(-x)]


def normalised() -> list[vg.Tensor]:
    """Reductions with what is before and after them."""
    return [vg.softmax(standing(16, 100) * 0.5, axis=1), standing(8, 64).mean(axis=0)]


def training_step() -> list[vg.Tensor]:
    """Loss, gradients and new weights of the MLP."""
    return stepped(drawn(mlp()), *batches(1, 32, False)[0])


def convolutions() -> list[vg.Tensor]:
    """The same of LeNet-5."""
    return stepped(drawn(LeNet5()), *batches(1, 8, True)[0])


def routines() -> list[vg.Tensor]:
    """What is no loop nest: a scan, a sort, a factorisation."""
    x = standing(4, 1000)
    return [vg.cumsum(x, axis=1), vg.sort(x), vg.linalg.cholesky(standing(3, 8, 8))]


def stepped(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> list[vg.Tensor]:
    optimiser = optim.SGD(model, lr=0.1)
    loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(vg.tensor(images)), vg.tensor(labels)))(model)
    optimiser.update(model, gradients)
    return [loss, *(parameter for _, parameter in model.named_parameters())]


GRAPHS = (chain, normalised, training_step, convolutions, routines)


def explained(graph: Callable[[], list[vg.Tensor]]) -> str:
    vg.manual_seed(0)
    return vg.plan(graph()).explain() + "\n"


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_the_plan_in_words(graph: Callable[[], list[vg.Tensor]], on_cpu: None) -> None:
    assert explained(graph) == (FOLDER / f"{graph.__name__}.txt").read_text(encoding="utf-8")


def test_another_schedule_reads_otherwise(on_cpu: None) -> None:
    with config.override(fuse=False):
        assert explained(chain) != (FOLDER / "chain.txt").read_text(encoding="utf-8")


def test_debugging_prints_the_same_words(on_cpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(debug="plan"):
        vg.eval(routines())
    assert capsys.readouterr().err == (FOLDER / "routines.txt").read_text(encoding="utf-8")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with config.override(device="cpu"):
        for graph in GRAPHS:
            (FOLDER / f"{graph.__name__}.txt").write_text(explained(graph), encoding="utf-8")


if __name__ == "__main__":
    main()
