"""Fit a curve, the functional way: parameters in a dict, `value_and_grad` of a plain function.

    python examples/regression.py

Takes seconds, and ends in an assertion.
"""

from __future__ import annotations

import math

import vkgrad as vg

STEPS = 400

Params = dict[str, vg.Tensor]


def init(key: vg.Tensor, width: int) -> Params:
    first, second = vg.random.split(key)
    return {
        "w1": vg.random.normal(first, (1, width)),
        "b1": vg.zeros((width,)),
        "w2": vg.random.normal(second, (width, 1)) / math.sqrt(width),
        "b2": vg.zeros((1,)),
    }


def model(params: Params, x: vg.Tensor) -> vg.Tensor:
    return vg.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_of(params: Params, x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    return ((model(params, x) - y) ** 2).mean()


def main() -> None:
    x = vg.linspace(-2.0, 2.0, 64).reshape(-1, 1)
    y = vg.sin(2.0 * x) + 0.3 * x
    params = init(vg.random.key(1), width=32)
    optimiser = vg.optim.Adam(params, lr=0.02)

    @vg.jit
    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss, gradients = vg.value_and_grad(loss_of)(params, x, y)
        optimiser.update(params, gradients)
        return loss

    for number in range(STEPS):
        loss = step(x, y)
        if number % 100 == 0:
            print(f"step {number:3}: loss {float(loss):.5f}")
    final = float(loss_of(params, x, y))
    print(f"step {STEPS}: loss {final:.5f}")

    # The derivative of what was fitted comes from the same machinery.
    slope = vg.grad(lambda x: model(params, x).sum())(x)
    error = float(abs(slope - (2.0 * vg.cos(2.0 * x) + 0.3)).mean())
    print(f"mean error of the slope: {error:.3f}")
    assert final < 0.01, "the curve was not fitted"
    assert error < 0.3, "the slope was not fitted"


if __name__ == "__main__":
    main()
