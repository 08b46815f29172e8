"""The models that tests train: an MLP and LeNet-5, with their data and one step of SGD, the same in every process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import vkgrad as vg
from tests.networks import LeNet5
from vkgrad import nn, optim

__all__ = ["LeNet5", "batches", "losses", "mlp", "sgd_step"]


def mlp(hidden: int = 128) -> nn.Module:
    return nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def batches(count: int, size: int, image: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.Generator(np.random.Philox(7))
    shape = (size, 1, 28, 28) if image else (size, 784)
    return [
        (generator.normal(size=shape).astype("f4"), generator.integers(0, 10, size).astype("i4")) for _ in range(count)
    ]


def sgd_step(model: nn.Module, optimizer: optim.Optimizer) -> Callable[[vg.Tensor, vg.Tensor], vg.Tensor]:
    def step(x: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
        loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(x), y))(model)
        optimizer.update(model, gradients)
        return loss

    return step


def losses(kind: str, steps: int, *, batch: int = 8, jit: bool = False, optimizer: str = "SGD") -> list[float]:
    """The losses of `steps` training steps from seed 0."""
    vg.manual_seed(0)
    model = LeNet5() if kind == "lenet" else mlp()
    step = sgd_step(model, getattr(optim, optimizer)(model, lr=0.05))
    vg.flush()  # else the first step would also compute the initial state, in other kernels than later steps
    if jit:
        step = vg.jit(step)
    return [float(step(vg.tensor(x), vg.tensor(y))) for x, y in batches(steps, batch, kind == "lenet")]


if __name__ == "__main__":  # so that a second process can be asked for the same bits
    import sys

    print(" ".join(value.hex() for value in losses(sys.argv[1], int(sys.argv[2]), jit=sys.argv[3] == "jit")))
