"""Whole training steps against independent computations: an MLP by hand in NumPy, LeNet-5 by PyTorch, a regression.

The references share no code with the package, and the inputs come from formulas.
"""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import both, cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import Array, chirp, lenet_batch, lenet_weights, sampled, slopes, waves
from tests.networks import lenet

nn = vg.nn


# ---- MLP
def _mlp_by_hand(x: Array, labels: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> tuple[float, list[Array]]:
    """Loss and gradients of 784-128-10 with ReLU and cross entropy, in double precision."""
    x, w1, b1, w2, b2 = (a.astype(np.float64) for a in (x, w1, b1, w2, b2))
    before = x @ w1.T + b1
    hidden = np.maximum(before, 0)
    logits = hidden @ w2.T + b2
    shifted = logits - logits.max(1, keepdims=True)
    probabilities = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    rows = np.arange(len(x))
    loss = -np.log(probabilities[rows, labels]).mean()
    error = probabilities.copy()
    error[rows, labels] -= 1
    error /= len(x)
    back = error @ w2 * (before > 0)
    return loss, [back.T @ x, back.sum(0), error.T @ hidden, error.sum(0)]


def test_an_mlp_step_is_that_of_numpy_in_double_precision() -> None:
    x, labels = slopes(32, 784, 0.8, shift=3.0), np.arange(32, dtype=np.int32) * 7 % 10
    weights = [
        chirp((128, 784), 0.06, 0.2),
        chirp((128,), 0.03, 1.1),
        chirp((10, 128), 0.15, 2.3),
        chirp((10,), 0.1, 0.9),
    ]
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    model.load_state_dict(dict(zip(model.state_dict(), weights, strict=True)))
    loss, gradients = vg.value_and_grad(lambda model: nn.cross_entropy(model(x), labels))(model)
    expected_loss, expected = _mlp_by_hand(x, labels, *weights)
    assert abs(float(loss) / expected_loss - 1) <= 3e-7
    for (name, gradient), by_hand in zip(gradients.items(), expected, strict=True):
        assert np.abs(gradient.numpy() - by_hand).max() <= 1e-5 * np.abs(by_hand).max(), name


# ---- LeNet-5
def test_a_lenet_step_is_that_of_pytorch() -> None:
    frozen = golden("lenet_step")
    model = lenet()
    model.load_state_dict(lenet_weights())
    optimiser = vg.optim.SGD(model, lr=float(frozen["learning_rate"]))
    images, labels = lenet_batch()

    def loss_of(model: nn.Module) -> vg.Tensor:
        return nn.cross_entropy(model(images), labels)

    loss, gradients = vg.value_and_grad(loss_of)(model)
    assert_close(loss, frozen["loss"], "loss", "loss")
    for name, gradient in gradients.items():
        values = gradient.numpy()
        assert_close(sampled(values), frozen[f"gradient/{name}"], "gradient", name)
        assert_close(np.linalg.norm(values.astype(np.float64)), frozen[f"norm/{name}"], "gradient", name)
    optimiser.update(model, gradients)
    for name, parameter in model.named_parameters():
        values = parameter.numpy().astype(np.float64)
        assert_close(
            [values.sum(), (values * waves(values.shape, 1.0, 1.1)).sum()], frozen[f"updated/{name}"], "gradient"
        )
    assert_close(loss_of(model), frozen["loss_after"], "gradient", "loss after the step")


def test_a_recorded_lenet_step_is_the_same() -> None:
    frozen = golden("lenet_step")
    model = lenet()
    model.load_state_dict(lenet_weights())
    optimiser = vg.optim.SGD(model, lr=float(frozen["learning_rate"]))

    @vg.jit
    def step(images: vg.Tensor, labels: vg.Tensor) -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda model: nn.cross_entropy(model(images), labels))(model)
        optimiser.update(model, gradients)
        return loss

    losses = [float(step(*lenet_batch())) for _ in range(2)]
    assert_close(losses[0], frozen["loss"], "loss", "loss")
    assert_close(losses[1], frozen["loss_after"], "gradient", "loss after the step")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", both.TRAININGS)
def test_twenty_steps_of_a_whole_training_are_those_of_pytorch(name: str, compiled: bool) -> None:
    """Layers, loss, gradients, clipping, optimiser and schedule, in a text that PyTorch has run too."""
    frozen = golden("trainings")
    model, step, schedule = both.training(name, nn, vg.optim)
    for number, parameter in enumerate(model.parameters()):
        parameter.assign(chirp(parameter.shape, 0.5, 0.5 + number))
    step = vg.jit(step) if compiled else step
    losses = []
    for number in range(both.TRAINING_STEPS):
        losses.append(float(step(*map(vg.tensor, cases.batch(name, number)))))
        if number < both.TRAINING_STEPS - 1:
            schedule.step()
    assert_close(losses, frozen[f"{name}/losses"], "training", name)
    state = model.state_dict()
    keys = {key.removeprefix(f"{name}/") for key in frozen if key.startswith(f"{name}/")}
    assert {*state, "losses"} == keys
    for key, value in state.items():
        assert_close(value, frozen[f"{name}/{key}"], "training", f"{name} {key}")


# ---- a small regression, long enough for errors to add up
def _regression_by_hand(x: Array, y: Array, weights: list[Array], steps: int, rate: float) -> list[float]:
    """Losses of dense(4 -> 32, tanh) -> dense(1) under SGD, in single precision."""
    w1, b1, w2, b2 = (w.copy() for w in weights)
    losses = []
    for _ in range(steps):
        hidden = np.tanh(x @ w1.T + b1)
        difference = hidden @ w2.T + b2 - y
        losses.append(float((difference * difference).mean()))
        error = difference * np.float32(2 / difference.size)
        back = error @ w2 * (1 - hidden * hidden)
        for w, gradient in ((w1, back.T @ x), (b1, back.sum(0)), (w2, error.T @ hidden), (b2, error.sum(0))):
            w -= np.float32(rate) * gradient
    return losses


def test_a_hundred_steps_stay_with_numpy() -> None:
    x = waves((16, 4), 1.0, 0.3)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    weights = [chirp((32, 4), 0.5, 0.4), chirp((32,), 0.3, 1.3), chirp((1, 32), 0.25, 2.2), chirp((1,), 0.1, 0.8)]
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    model.load_state_dict(dict(zip(model.state_dict(), weights, strict=True)))
    optimiser = vg.optim.SGD(model, lr=0.01)

    @vg.jit
    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda model: nn.mse_loss(model(x), y))(model)
        optimiser.update(model, gradients)
        return loss

    losses = [float(step(x, y)) for _ in range(100)]
    expected = _regression_by_hand(x, y, weights, steps=100, rate=0.01)
    assert np.abs(np.subtract(losses, expected)).max() <= 2e-6
    assert losses[-1] < 0.5 * losses[0]
