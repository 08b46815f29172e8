"""How closely results are compared with frozen ones, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

# Largest error, in units of the largest element expected. The golden values are exact to double precision, so this is
# what single precision leaves: about one rounding (6e-8) for each of the operations between input and result.
RELATIVE = {
    "schedule": 1e-7,  # a rate rounded to single precision
    "loss": 1e-6,
    "layer": 3e-6,  # sums of up to a hundred products, and their gradients
    "network": 1e-5,  # a layer after the other, without gradients
    "sequence": 1e-5,  # several layers of them, one feeding the next
    "optimiser": 3e-6,  # twenty steps, each feeding the next
    "training": 1e-5,  # twenty steps of a network
    "gradient": 1e-4,  # of a whole network: rounding in a ReLU or a maximum may move one element's whole gradient
}


def golden(name: str) -> dict[str, np.ndarray]:
    """The arrays of a golden file, by name."""
    with np.load(Path(__file__).with_name(f"{name}.npz")) as file:
        return dict(file)


def assert_close(actual: Any, expected: Any, kind: str, what: str = "") -> None:
    """Fail where the largest error is above what `kind` allows, or shapes differ, or a value is not finite."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if expected.size:
        scale = np.abs(expected).max() or 1.0
        error = np.abs(actual - expected).max() / scale
        assert error <= RELATIVE[kind], f"{what}: error {error:.1e} of the largest, allowed {RELATIVE[kind]:.0e}"
