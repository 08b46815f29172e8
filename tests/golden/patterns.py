"""Inputs and weights made from formulas, so that a golden file holds results only.

Used by the tests and by `make_golden.py`; needs nothing but NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# No two axes have the same step, so that swapped axes, wrong strides and transposed weights all show.
AXIS_STEPS = (0.917, 0.573, 0.331, 0.217)

LENET_BATCH = 6
LENET_SHAPES = {
    "0.weight": (6, 1, 5, 5),
    "0.bias": (6,),
    "3.weight": (16, 6, 5, 5),
    "3.bias": (16,),
    "7.weight": (120, 400),
    "7.bias": (120,),
    "9.weight": (84, 120),
    "9.bias": (84,),
    "11.weight": (10, 84),
    "11.bias": (10,),
}


def waves(shape: Sequence[int], amplitude: float, phase: float) -> Array:
    """`amplitude * sin(phase + step_0 * i_0 + step_1 * i_1 + ...)` as float32: smooth, like an image."""
    angle = np.full(tuple(shape), phase)
    for axis, (extent, step) in enumerate(zip(shape, AXIS_STEPS, strict=False)):
        angle += step * np.arange(extent).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return (amplitude * np.sin(angle)).astype(np.float32)


def chirp(shape: Sequence[int], amplitude: float, phase: float) -> Array:
    """`amplitude * sin(phase + 0.739 * k * k)` for row-major k, as float32: uncorrelated, like initial weights."""
    k = np.arange(int(np.prod(shape)), dtype=np.float64)
    return (amplitude * np.sin(phase + 0.739 * k * k)).astype(np.float32).reshape(tuple(shape))


def slopes(rows: int, columns: int, amplitude: float, shift: float = 0.0) -> Array:
    """`amplitude * tanh(0.017 * i - 0.023 * j + shift)` as float32."""
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    return (amplitude * np.tanh(0.017 * i - 0.023 * j + shift)).astype(np.float32)


def lenet_weights() -> dict[str, Array]:
    """LeNet-5's parameters, at about the size that the usual initialisation gives them."""
    weights = {}
    for number, (name, shape) in enumerate(LENET_SHAPES.items()):
        fan_in = int(np.prod(shape[1:])) or 1
        amplitude = 1.5 / np.sqrt(fan_in) if name.endswith("weight") else 0.1
        weights[name] = chirp(shape, float(amplitude), 0.3 + 0.7 * number)
    return weights


def lenet_batch() -> tuple[Array, Array]:
    """Images (B, 1, H, W) and labels (B,); the labels differ from one another."""
    images = waves((LENET_BATCH, 1, 28, 28), 1.0, 0.2)
    labels = np.array([3, 0, 9, 4, 7, 1], np.int32)
    return images, labels


def sampled(gradient: Array) -> Array:
    """A gradient as the golden file keeps it: whole if small, else every place of a coarse, uneven lattice."""
    return gradient if gradient.size <= 2400 else gradient[::7, ::3]
