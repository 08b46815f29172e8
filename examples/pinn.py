"""A physics-informed network: solve u'' = -π² sin(πx) with u(-1) = u(1) = 0, from the equation alone.

    python examples/pinn.py

No value of the solution is ever shown to the network. The loss holds its second derivative by x, and training
differentiates that by the parameters. Takes seconds, and ends in an assertion.
Source: Raissi, Perdikaris and Karniadakis (2019), doi:10.1016/j.jcp.2018.10.045.
"""

from __future__ import annotations

import math

import vkgrad as vg
from vkgrad import nn

STEPS = 600


def solution(model: nn.Module, x: vg.Tensor) -> vg.Tensor:
    """u at points x (N,); the factor makes it 0 at both ends, whatever the network says."""
    return (1 - x**2) * model(x[:, None])[:, 0]


def second_derivative(model: nn.Module, x: vg.Tensor) -> vg.Tensor:
    """u'' at points x (N,): each u depends on its own x alone, so the gradient of the sum holds every derivative."""

    def first(x: vg.Tensor) -> vg.Tensor:
        return vg.grad(lambda x: solution(model, x).sum())(x)

    return vg.grad(lambda x: first(x).sum())(x)


def residual(model: nn.Module, x: vg.Tensor) -> vg.Tensor:
    return second_derivative(model, x) + math.pi**2 * vg.sin(math.pi * x)


def main() -> None:
    vg.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    optimiser = vg.optim.Adam(model, lr=5e-3)
    x = vg.linspace(-1.0, 1.0, 48)

    @vg.jit
    def step() -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda m: (residual(m, x) ** 2).mean())(model)
        optimiser.update(model, gradients)
        return loss

    for number in range(STEPS):
        loss = step()
        if number % 100 == 0:
            print(f"step {number:3}: mean square of the residual {float(loss):.5f}")

    between = vg.linspace(-0.99, 0.99, 101)
    error = float(abs(solution(model, between) - vg.sin(math.pi * between)).max())
    print(f"largest error, also between the points: {error:.5f}")
    assert error < 0.02, "the equation was not solved"


if __name__ == "__main__":
    main()
