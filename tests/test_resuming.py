"""A run that stops and goes on from its checkpoint has the bits of one that never stopped, at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad import nn, optim
from vkgrad.data import DataLoader
from vkgrad.errors import DataError, DataNotFoundError, ShapeError

EPOCHS, STEPS_PER_EPOCH = 2, 3
STEPS = EPOCHS * STEPS_PER_EPOCH
X, Y = chirp((11, 6), 1.0, 0.3), (np.arange(11) % 3).astype(np.int32)


@dataclass
class Run:
    """A small run with all that has a state: dropout, batch norm, Adam, a schedule of epochs, shuffling, draws."""

    seed: int
    step: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        vg.manual_seed(self.seed)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        self.optimizer = optim.Adam(self.model, lr=0.03)
        self.schedule = optim.ExponentialLR(self.optimizer, gamma=0.7)
        self.loader = DataLoader(X, Y, batch_size=4, seed=self.seed)
        self.step = self._step
        vg.flush()

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule, "loader": self.loader}

    def _step(self, x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        noise = 0.01 * vg.random.normal(vg.random.next_key(), x.shape)
        loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(x + noise), y))(self.model)
        self.optimizer.update(self.model, gradients)
        return loss

    def go_on(self, done: int, after_step: Callable[[int], None] = lambda step: None) -> list[str]:
        losses = []
        for _ in range(self.loader.epoch, EPOCHS):
            for x, y in self.loader:
                losses.append(float(self.step(x, y)).hex())
                done += 1
                after_step(done)
            self.schedule.step()
        return losses

    def bits(self) -> dict[str, bytes]:
        tensors = {**self.model.state_dict(), **self.optimizer.state_dict()}
        return {name: np.asarray(tensor).tobytes() for name, tensor in tensors.items()}


@pytest.fixture(params=["jit", "eager"])
def wrapped(request: pytest.FixtureRequest) -> Callable[[Run], Run]:
    def wrap(run: Run) -> Run:
        if request.param == "jit":
            run.step = vg.jit(run._step)
        return run

    return wrap


def test_every_step_can_be_gone_on_from(tmp_path: Path, wrapped: Callable[[Run], Run]) -> None:
    uninterrupted = wrapped(Run(5))
    expected = uninterrupted.go_on(0)
    assert len(expected) == STEPS and len(set(expected)) == STEPS

    saving = wrapped(Run(5))
    saved = saving.go_on(
        0, lambda step: vg.save_checkpoint(tmp_path / f"{step}.safetensors", step=step, **saving.parts())
    )
    assert saved == expected  # saving itself changes nothing
    for step in range(1, STEPS + 1):
        resumed = wrapped(Run(99))  # another seed: everything that matters has to come from the file
        resumed.loader._philox_key = saving.loader._philox_key  # its argument, as a script would give it again
        found = vg.load_checkpoint(tmp_path / f"{step}.safetensors", **resumed.parts())
        assert found == {"step": step}
        assert resumed.go_on(step) == expected[step:], step
        assert resumed.bits() == uninterrupted.bits(), step
        assert resumed.schedule.last_epoch == EPOCHS and resumed.optimizer.lr == uninterrupted.optimizer.lr


@pytest.mark.parametrize("left_out", ["model", "optimizer", "loader", "dropout", "generator"])
def test_leaving_a_state_out_is_noticed(tmp_path: Path, left_out: str) -> None:
    # The comparison above would be worth nothing if it held without the states.
    path = tmp_path / "run.safetensors"
    run = Run(5)
    expected = run.go_on(0, lambda step: vg.save_checkpoint(path, **run.parts()) if step == 2 else None)
    resumed = Run(5)
    parts = {name: part for name, part in resumed.parts().items() if name != left_out}
    if left_out == "generator":
        before = {name: np.asarray(value) for name, value in vg.random.generator_state().items()}
    vg.load_checkpoint(path, **parts)
    if left_out == "dropout":
        resumed.model[3]._count.assign(vg.tensor(np.array(0, np.uint32)))
    if left_out == "generator":
        vg.random.set_generator_state(before)
    assert resumed.go_on(2) != expected[2:]


def test_rates_of_groups_and_nested_numbers(tmp_path: Path) -> None:
    def made(rate: float) -> tuple[optim.Optimizer, optim.Schedule]:
        layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
        groups = [{"params": layers[0]}, {"params": layers[1], "lr": rate / 3}]
        optimizer = optim.SGD(groups, lr=rate, momentum=0.9)
        return optimizer, optim.StepLR(optimizer, step_size=1, gamma=0.3)

    optimizer, schedule = made(0.1)
    schedule.step()
    vg.save_checkpoint(tmp_path / "run.safetensors", optimizer=optimizer, schedule=schedule)
    other, its_schedule = made(0.7)
    vg.load_checkpoint(tmp_path / "run.safetensors", optimizer=other, schedule=its_schedule)
    for _ in range(2):
        assert its_schedule.get_last_lr() == schedule.get_last_lr()  # all digits of them
        schedule.step()
        its_schedule.step()


class Odd:
    def state_dict(self) -> dict[str, Any]:
        return {"place": (1, 2)}

    def load_state_dict(self, state: Any) -> None: ...


def test_a_finished_epoch_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    loader = DataLoader(X, Y, batch_size=4, seed=1, as_numpy=True)
    list(loader)
    vg.save_checkpoint(path, loader=loader)
    expected = [y.tolist() for _, y in loader]
    other = DataLoader(X, Y, batch_size=4, seed=1, as_numpy=True)
    vg.load_checkpoint(path, loader=other)
    assert [y.tolist() for _, y in other] == expected
    assert other.state_dict() == {"epoch": 2, "position": 0}
    with pytest.raises(DataError, match="no place in a DataLoader of 3 batches"):
        other.load_state_dict({"epoch": 0, "position": 4})


def test_a_broken_off_epoch_is_over(tmp_path: Path) -> None:
    loader = DataLoader(X, Y, batch_size=4, as_numpy=True)
    for _ in loader:
        break
    assert loader.state_dict() == {"epoch": 0, "position": 1}
    assert len(list(loader)) == 3 and loader.state_dict() == {"epoch": 2, "position": 0}


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    saved = nn.Linear(2, 3)
    vg.save_checkpoint(path, model=saved, best=0.1, note="début")
    model = nn.Linear(2, 3)
    before = model.weight.tolist()
    with pytest.raises(DataError, match="no part 'optimizer'"):
        vg.load_checkpoint(path, model=model, optimizer=optim.SGD(model, lr=0.1))
    with pytest.raises(ShapeError, match=r"weight has shape \(4, 3\), the checkpoint has \(3, 2\)"):
        vg.load_checkpoint(path, model=nn.Linear(3, 4))
    with pytest.raises(DataError, match="differ in bias"):
        vg.load_checkpoint(path, model=nn.Linear(2, 3, bias=False))
    assert model.weight.tolist() == before
    assert vg.load_checkpoint(path, model=model) == {"best": 0.1, "note": "début"}
    assert model.weight.tolist() == saved.weight.tolist()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(DataError, match="things is a list"):
        vg.save_checkpoint(path, things=[1, 2])
    with pytest.raises(DataError, match="odd has place, a tuple, in its state"):
        vg.save_checkpoint(path, odd=Odd())
    with pytest.raises(DataError, match="choose another keyword"):
        vg.save_checkpoint(path, random=3)
    assert not path.exists()
    with pytest.raises(DataNotFoundError):
        vg.load_checkpoint(path)
    vg.save({"a": vg.zeros((2,))}, path)
    with pytest.raises(DataError, match="not a checkpoint"):
        vg.load_checkpoint(path)
    vg.save_checkpoint(path, step=3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="cut off"):
        vg.load_checkpoint(path)
