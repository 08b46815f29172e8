"""Training steps under `vg.jit`: the same bits as without, state that moves on, and what a step costs."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import Array, chirp, waves
from tests.nn.test_training_steps import lenet

nn = vg.nn


def _network() -> nn.Module:
    """Layers with state that a step changes: running means, and dropout's counter."""
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def _batch(number: int) -> tuple[Array, Array]:
    return waves((10, 6), 1.0, 0.3 + number), np.arange(number, number + 10, dtype=np.int32) % 3


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


def _train(step, recorded: bool, kind: str, **options) -> tuple[list[float], dict[str, Array]]:
    vg.manual_seed(5)
    model = _network()
    optimiser = getattr(vg.optim, kind)(model, **options)
    schedule = vg.optim.StepLR(optimiser, step_size=3, gamma=0.5)
    run = vg.jit(step) if recorded else step
    vg.flush()  # else the first step would also compute the initial state, in other kernels than later steps
    losses = []
    for number in range(8):
        x, y = map(vg.tensor, _batch(number))
        losses.append(float(run(model, optimiser, x, y)))
        schedule.step()
    state = {name: value.numpy() for name, value in (*model.state_dict().items(), *optimiser.state_dict().items())}
    return losses, state


@pytest.mark.parametrize("step", [_by_update, _by_backward])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
        ("Adam", {"lr": 0.01}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ],
)
def test_recorded_or_not_gives_the_same_bits(step, kind: str, options: dict) -> None:
    losses, state = _train(step, False, kind, **options)
    recorded_losses, recorded_state = _train(step, True, kind, **options)
    assert recorded_losses == losses
    assert len(set(losses)) == len(losses)
    for name, value in state.items():
        assert np.array_equal(recorded_state[name], value), name
    assert int(state["1.num_batches_tracked"]) == 8


def test_a_new_learning_rate_records_nothing_anew() -> None:
    model = nn.Linear(6, 3)
    optimiser = vg.optim.SGD(model, lr=1.0)
    step = vg.jit(_by_update)
    x, y = _batch(0)
    for _ in range(4):
        step(model, optimiser, x, y)
    before = model.weight.numpy()
    optimiser.lr = 0.0
    with vg.counting() as counts:
        float(step(model, optimiser, x, y))
    assert np.array_equal(model.weight, before)
    assert counts.plans_built == counts.shaders_compiled == counts.pipelines_created == 0
    assert len(step.steps) == 1


@pytest.mark.parametrize(
    ("make", "shape", "dispatches_max"),
    [
        (lambda: nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (32, 784), 12),
        (lenet, (8, 1, 28, 28), 30),
    ],
)
def test_what_a_step_costs(make, shape: tuple[int, ...], dispatches_max: int) -> None:
    model = make()
    optimiser = vg.optim.SGD(model, lr=0.01)
    step = vg.jit(_by_update)
    x, y = chirp(shape, 1.0, 0.4), np.arange(shape[0], dtype=np.int32) % 10
    for _ in range(5):
        float(step(model, optimiser, x, y))
    with vg.counting() as counts:
        loss = float(step(model, optimiser, x, y))
    assert np.isfinite(loss)
    assert counts.submissions == 1 and counts.host_nodes == 0
    assert counts.plans_built == counts.shaders_compiled == counts.pipelines_created == counts.buffers_allocated == 0
    assert counts.bytes_uploaded == x.nbytes + y.nbytes and counts.bytes_downloaded == 4
    assert 0 < counts.dispatches <= dispatches_max
