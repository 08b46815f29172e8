"""A contender in NumPy that is what VKGRAD_FAKE says: right, wrong (a loss 2e-5 off), diverges, crashes or absent."""

from __future__ import annotations

import os

import numpy as np

from benchmarks.contenders.contender import Absent, serve
from vkgrad.bench import cases, reference
from vkgrad.bench.contender import Contender

MANNER = os.environ.get("VKGRAD_FAKE", "right")


class FakeContender(Contender):
    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        if MANNER == "absent":
            raise Absent("this machine has none")
        self.versions = {"numpy": np.__version__}
        self.device = "numpy"
        print("what libraries print must not reach the race")
        self.model, self.data = case.model, data
        self.weights = [weight.astype(np.float64) for weight in data.weights]
        self.last = 0.0
        self.taken = 0

    def feed(self, number: int) -> None:
        images, labels = self.data.images[number].astype(np.float64), self.data.labels[number]
        loss, gradients = reference.PASSES[self.model](self.weights, images, labels)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight -= cases.LEARNING_RATE / len(labels) * gradient
        self.last = loss / len(labels)
        self.taken += 1

    def step(self) -> None:
        self.feed(0)

    def loss(self) -> float:
        if MANNER == "crashes":
            os._exit(3)
        if MANNER == "diverges" and self.taken > 20:
            return float("nan")
        return self.last * (1 + 2e-5 * (MANNER == "wrong"))

    def wait(self) -> None:
        """It is over already."""


if __name__ == "__main__":
    serve(FakeContender)
