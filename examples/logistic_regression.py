"""Logistic regression by Newton's method: gradient and Hessian from `vg.grad` and `vg.hessian`, the step from `solve`.

    python examples/logistic_regression.py

Takes seconds, and ends in an assertion.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg

PENALTY = 1e-3


def loss_of(weights: vg.Tensor, x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    logits = x @ weights
    return vg.nn.binary_cross_entropy_with_logits(logits, y) + PENALTY * (weights**2).sum()


def main() -> None:
    x_key, y_key = vg.random.split(vg.random.key(0))
    truth = vg.tensor([2.0, -1.0, 0.5])
    x = vg.concat([vg.random.normal(x_key, (500, 2)), vg.ones((500, 1))], axis=1)
    y = vg.random.bernoulli(y_key, vg.sigmoid(x @ truth)).astype(vg.float32)

    @vg.jit
    def newton(weights: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor]:
        loss, gradient = vg.value_and_grad(loss_of)(weights, x, y)
        curvature = vg.hessian(loss_of)(weights, x, y)
        return weights - vg.linalg.solve(curvature, gradient), loss

    weights = vg.zeros((3,))
    for number in range(8):
        weights, loss = newton(weights)
        print(f"step {number}: loss {float(loss):.7f}")

    slope = vg.grad(loss_of)(weights, x, y)
    accuracy = float(((x @ weights > 0) == (y > 0.5)).astype(vg.float32).mean())
    print(f"weights {weights.numpy().round(3)}, accuracy {accuracy:.3f}, largest slope {float(abs(slope).max()):.1e}")
    assert float(abs(slope).max()) < 1e-6, "Newton's method did not converge"
    assert np.allclose(weights.numpy(), truth.numpy(), atol=0.5), "the weights are not those that made the labels"
    assert accuracy > 0.75


if __name__ == "__main__":
    main()
