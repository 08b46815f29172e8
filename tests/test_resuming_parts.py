"""Interrupted anywhere, a run goes on with the same bits, whatever parts it is made of: averages, schedules of
schedules, momenta that cycle, loss scales, early stopping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad import nn, optim
from vkgrad.data import DataLoader
from vkgrad.optim import swa_utils

EPOCHS, STEPS_PER_EPOCH = 2, 3
X, Y = chirp((11, 6), 1.0, 0.3), chirp((11, 2), 0.5, 0.8)
INTERRUPTED_AT = (1, 2, 3, 4, 5)  # in the middle of an epoch, at its end, at the beginning of the next


class Run:
    """A model with dropout and batch norm, a shuffling loader, and the parts that `build` adds; one number a step."""

    step: Callable[[vg.Tensor, vg.Tensor], vg.Tensor]

    def __init__(self, build: Callable[[Run], dict[str, Any]], seed: int) -> None:
        vg.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 2))
        self.loader = DataLoader(X, Y, batch_size=4, seed=7)
        self.after_epoch: Callable[[float], object] = lambda value: None
        self.parts = {"model": self.model, "loader": self.loader, **build(self)}
        vg.flush()

    def gradients(self, x: vg.Tensor, y: vg.Tensor) -> tuple[vg.Tensor, Any]:
        return vg.value_and_grad(lambda m: nn.mse_loss(m(x), y))(self.model)

    def go_on(self, path: Path | None = None, stop_after: int | None = None) -> list[str]:
        losses: list[str] = []
        for _ in range(self.loader.epoch, EPOCHS):
            for x, y in self.loader:
                losses.append(float(self.step(x, y)).hex())
                if path is not None and len(losses) == stop_after:
                    vg.save_checkpoint(path, **self.parts)
                    return losses
            self.after_epoch(float(nn.mse_loss(self.model.eval()(X), Y)))
            self.model.train()
        return losses

    def bits(self, folder: Path) -> bytes:
        """All that a checkpoint would hold."""
        vg.save_checkpoint(folder / "bits.safetensors", **self.parts)
        return (folder / "bits.safetensors").read_bytes()


def scaled_with_ema(run: Run) -> dict[str, Any]:
    optimizer = optim.AdamW(run.model, lr=0.03, amsgrad=True)
    scaler = optim.GradScaler(init_scale=64.0, growth_interval=2)
    ema = swa_utils.AveragedModel(run.model, swa_utils.get_ema_avg_fn(0.7), use_buffers=True)
    schedule = optim.SequentialLR(
        optimizer,
        [optim.LinearLR(optimizer, 0.25, total_iters=2), optim.CosineAnnealingWarmRestarts(optimizer, 2)],
        milestones=[2],
    )

    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        scaler.scale(nn.mse_loss(run.model(x), y)).backward()
        scaler.unscale_(optimizer)
        optim.clip_grad_norm_(run.model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        ema.update_parameters(run.model)
        schedule.step()
        return nn.mse_loss(ema(x), y)

    run.step = step
    return {"optimizer": optimizer, "scaler": scaler, "ema": ema, "schedule": schedule}


def cycling_with_swa(run: Run) -> dict[str, Any]:
    layers = list(run.model[0].parameters()), [*run.model[1].parameters(), *run.model[4].parameters()]
    optimizer = optim.SGD([{"params": layers[0]}, {"params": layers[1], "lr": 0.02}], lr=0.05, momentum=0.9)
    schedule = optim.OneCycleLR(optimizer, max_lr=[0.1, 0.05], total_steps=EPOCHS * STEPS_PER_EPOCH)
    swa = swa_utils.AveragedModel(run.model)

    @vg.jit
    def jitted(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss, gradients = run.gradients(x, y)
        optimizer.update(run.model, gradients)
        swa.update_parameters(run.model)
        return loss + nn.mse_loss(swa(x), y)

    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        value = jitted(x, y)
        schedule.step()
        return value

    run.step = step
    return {"optimizer": optimizer, "schedule": schedule, "swa": swa}


def watched(run: Run) -> dict[str, Any]:
    optimizer = optim.RMSprop(run.model, lr=0.02, momentum=0.5, centered=True)
    plateau = optim.ReduceLROnPlateau(optimizer, patience=0, factor=0.3, threshold=0.5)
    chained = optim.ChainedScheduler([optim.ConstantLR(optimizer, 0.5, 3), optim.ExponentialLR(optimizer, 0.9)])
    stopping = vg.EarlyStopping("loss", patience=2, min_delta=10.0)

    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss, gradients = run.gradients(x, y)
        optimizer.update(run.model, gradients)
        chained.step()
        stopping({"loss": float(loss)}, run.model)  # restores the first model at the second step without a gain
        return loss

    run.step, run.after_epoch = step, plateau.step
    return {"optimizer": optimizer, "chained": chained, "plateau": plateau, "stopping": stopping}


def newton(run: Run) -> dict[str, Any]:
    optimizer = optim.LBFGS(run.model, lr=0.5, max_iter=2, history_size=3, line_search_fn="strong_wolfe")
    schedule = optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=4)

    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss = optimizer.step(lambda: run.gradients(x, y))
        schedule.step()
        return loss

    run.step = step
    return {"optimizer": optimizer, "schedule": schedule}


BUILDS = {build.__name__: build for build in (scaled_with_ema, cycling_with_swa, watched, newton)}


@pytest.mark.parametrize("name", BUILDS)
def test_interrupted_anywhere_it_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    build, path = BUILDS[name], tmp_path / "run.safetensors"
    whole = Run(build, 5)
    expected, bits = whole.go_on(), whole.bits(tmp_path)
    assert len(set(expected)) == EPOCHS * STEPS_PER_EPOCH
    for step in INTERRUPTED_AT:
        assert Run(build, 5).go_on(path, step) == expected[:step]
        resumed = Run(build, 99)  # another seed: everything that matters has to come from the file
        vg.load_checkpoint(path, **resumed.parts)
        assert resumed.go_on() == expected[step:], step
        assert resumed.bits(tmp_path) == bits, step


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("scaled_with_ema", "ema"),
        ("scaled_with_ema", "scaler"),
        ("scaled_with_ema", "schedule"),
        ("cycling_with_swa", "swa"),
        ("cycling_with_swa", "schedule"),
        ("newton", "optimizer"),
        ("watched", "stopping"),
        ("watched", "chained"),
        ("watched", "plateau"),
        ("watched", "loader"),
    ],
)
def test_each_part_is_needed(name: str, left_out: str, tmp_path: Path) -> None:
    # The comparison above would be worth nothing if it held without a part.
    build, path = BUILDS[name], tmp_path / "run.safetensors"
    whole = Run(build, 5)
    whole.go_on()
    Run(build, 5).go_on(path, 4)
    resumed = Run(build, 99)
    vg.load_checkpoint(path, **{part: value for part, value in resumed.parts.items() if part != left_out})
    resumed.go_on()
    assert resumed.bits(tmp_path) != whole.bits(tmp_path)


def test_early_stopping_of_fit_goes_on_waiting(tmp_path: Path) -> None:
    def made() -> tuple[dict[str, Any], vg.EarlyStopping]:
        vg.manual_seed(1)
        model = nn.Linear(6, 2)
        stopping = vg.EarlyStopping("loss", patience=3, min_delta=100.0)
        loader = DataLoader(X, Y, batch_size=4, seed=3)
        parts = {"model": model, "optimizer": optim.SGD(model, lr=0.1), "loader": loader}
        return parts, stopping

    path = tmp_path / "run.safetensors"
    parts, stopping = made()
    whole = vg.fit(**parts, loss=nn.mse_loss, epochs=9, listeners=[stopping])
    assert len(whole) == 4 and stopping.waited == 3
    first, waiting = made()
    vg.fit(**first, loss=nn.mse_loss, epochs=3, listeners=[waiting], checkpoint=path)
    again, new = made()
    vg.load_checkpoint(path, **again, listener0=new)
    assert new.waited == 2 and new.best == waiting.best
    assert len(vg.fit(**again, loss=nn.mse_loss, epochs=9, listeners=[new])) == 1
    assert np.array_equal(again["model"].weight, parts["model"].weight)
