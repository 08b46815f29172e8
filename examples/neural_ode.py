"""A neural ordinary differential equation: learn the law of a motion from a few measured orbits.

    python examples/neural_ode.py

The solver is a plain loop of Runge-Kutta steps inside the recorded function, so gradients go through it.
`vg.checkpoint` keeps only the state between steps and computes the insides again for the gradient.
Takes seconds, and ends in an assertion. Source: Chen et al. (2018), arXiv:1806.07366.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import vkgrad as vg
from vkgrad import nn

STEPS, MEASURED, WITHIN, INTERVAL = 250, 6, 1, 0.3

Field = Callable[[vg.Tensor], vg.Tensor]


def runge_kutta(field: Field, state: vg.Tensor, dt: float) -> vg.Tensor:
    """One classical step of order four."""
    k1 = field(state)
    k2 = field(state + dt / 2 * k1)
    k3 = field(state + dt / 2 * k2)
    k4 = field(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def orbit(field: Field, state: vg.Tensor, count: int) -> vg.Tensor:
    """States (count, B, 2) at times INTERVAL, 2 INTERVAL, ... from state (B, 2)."""
    advance = vg.checkpoint(lambda state: runge_kutta(field, state, INTERVAL / WITHIN))
    states = []
    for _ in range(count):
        for _ in range(WITHIN):
            state = advance(state)
        states.append(state)
    return vg.stack(states)


def pendulum(state: vg.Tensor) -> vg.Tensor:
    """The true law: (angle, speed) changes by (speed, -sin angle - friction)."""
    angle, speed = state[:, 0], state[:, 1]
    return vg.stack([speed, -vg.sin(angle) - 0.1 * speed], axis=1)


def main() -> None:
    vg.manual_seed(0)
    generator = np.random.default_rng(0)
    starts = vg.tensor(generator.uniform(-1.5, 1.5, (64, 2)).astype(np.float32))
    measured = orbit(pendulum, starts, MEASURED)
    vg.eval(measured)

    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimiser = vg.optim.Adam(model, lr=2e-2)

    @vg.jit
    def step() -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda m: nn.mse_loss(orbit(m, starts, MEASURED), measured))(model)
        optimiser.update(model, gradients)
        return loss

    for number in range(STEPS):
        loss = step()
        if number % 50 == 0:
            print(f"step {number:3}: loss {float(loss):.6f}")

    new = vg.tensor([[1.0, 0.0], [-0.7, 0.7]])
    error = float(abs(orbit(model, new, 16) - orbit(pendulum, new, 16)).max())
    print(f"new orbits, and for longer than was measured: wrong by {error:.3f} at most")
    assert float(loss) < 3e-3, "the orbits were not learned"
    assert error < 0.3, "the law was not learned"


if __name__ == "__main__":
    main()
