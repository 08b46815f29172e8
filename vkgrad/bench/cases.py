"""What is raced: the models, their weights and batches from one seed, and the file that hands them to every contender.

Needs nothing but NumPy: contenders of any framework read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

LEARNING_RATE = 0.1
CLASS_COUNT = 10
BATCH_COUNT = 8  # different batches that a contender is fed in turn

# Parameters in order, weight then bias of each layer, in the layout of PyTorch: (out, in) and (out, in, height, width).
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "mlp": ((128, 784), (128,), (10, 128), (10,)),
    "lenet": (
        (6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84), (10,),
    ),
}  # fmt: skip
INPUT_SHAPES = {"mlp": (784,), "lenet": (1, 28, 28)}
# Multiplications and additions of the products of one image's forward pass; each costs as many again for the gradient
# of the weights and of the input. What is not a product is left out.
FORWARD_FLOPS = {
    "mlp": 2 * (784 * 128 + 128 * 10),
    "lenet": 2 * (28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10),
}


@dataclass(frozen=True)
class Case:
    """One race: a model at a batch size."""

    model: str
    batch: int

    def __str__(self) -> str:
        return f"{self.model} {self.batch}"

    @property
    def flops(self) -> int:
        """Floating-point operations of the products of one training step."""
        first_input = {"mlp": 784 * 128, "lenet": 28 * 28 * 6 * 25}[self.model]  # nobody needs the images' gradient
        return self.batch * (3 * FORWARD_FLOPS[self.model] - 2 * first_input)


@dataclass(frozen=True)
class Data:
    """Weights to start from and the batches, float32 and int32.

    Shapes: images (BATCH_COUNT, B, *input), labels (BATCH_COUNT, B).
    """

    weights: tuple[Array, ...]
    images: Array
    labels: Array


def make(case: Case, seed: int = 0) -> Data:
    """The data of a case: weights of the usual size, images and labels without any meaning."""
    random = np.random.default_rng((seed, case.batch, len(case.model)))
    weights = []
    fan_in = 1
    for shape in SHAPES[case.model]:
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else fan_in  # a bias follows its weight
        weights.append(random.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan_in)))
    images = random.uniform(0, 1, (BATCH_COUNT, case.batch, *INPUT_SHAPES[case.model])).astype(np.float32)
    labels = random.integers(0, CLASS_COUNT, (BATCH_COUNT, case.batch)).astype(np.int32)
    return Data(tuple(weights), images, labels)


def save(path: Path, data: Data) -> None:
    arrays: dict[str, Any] = {f"weight{number:02}": weight for number, weight in enumerate(data.weights)}
    np.savez(path, images=data.images, labels=data.labels, **arrays)


def load(path: str | Path) -> Data:
    with np.load(path) as file:
        weights = tuple(file[name] for name in sorted(file.files) if name.startswith("weight"))
        return Data(weights, file["images"], file["labels"])
