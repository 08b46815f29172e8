"""First values: the seed decides them, and their spread is the one named."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import ShapeError

init = vg.nn.init


def _layers() -> list[np.ndarray]:
    model = vg.nn.Sequential(vg.nn.Linear(3, 4), vg.nn.Conv2d(1, 2, 3), vg.nn.Embedding(5, 2))
    return [parameter.numpy() for parameter in model.parameters()]


def test_the_seed_decides_all_of_them() -> None:
    vg.manual_seed(7)
    first = _layers()
    second = _layers()
    vg.manual_seed(7)
    again = _layers()
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("make", "fan_in"),
    [
        (lambda: vg.nn.Linear(64, 200), 64),
        (lambda: vg.nn.Conv2d(4, 80, (3, 2)), 24),
        (lambda: vg.nn.Conv2d(4, 80, (3, 2), groups=2), 12),
        (lambda: vg.nn.Conv1d(4, 200, 5), 20),
        (lambda: vg.nn.ConvTranspose2d(4, 80, (3, 2)), 480),  # PyTorch counts its axis 1, the output channels
    ],
)
def test_layers_start_within_one_over_the_root_of_the_fan_in(make, fan_in: int) -> None:
    layer, bound = make(), 1 / np.sqrt(fan_in)
    for values in (layer.weight.numpy(), layer.bias.numpy()):
        assert np.abs(values).max() <= bound * 1.000001
        assert np.abs(values).max() > 0.9 * bound and values.min() < -0.8 * bound
        assert abs(values.mean()) < 0.2 * bound


@pytest.mark.parametrize(
    ("draw", "std"),
    [
        (lambda shape: init.normal(shape, 0.0, 0.5), 0.5),
        (lambda shape: init.uniform(shape, -1.0, 1.0), np.sqrt(1 / 3)),
        (lambda shape: init.kaiming_uniform(shape), np.sqrt(2 / 90)),
        (lambda shape: init.kaiming_normal(shape, a=2.0), np.sqrt(2 / 5 / 90)),
        (lambda shape: init.xavier_uniform(shape), np.sqrt(2 / (90 + 120))),
        (lambda shape: init.xavier_normal(shape, gain=2.0), 2 * np.sqrt(2 / (90 + 120))),
    ],
)
def test_spreads(draw, std: float) -> None:
    values = draw((40, 30, 3)).numpy()  # 3600 numbers: their spread is within 5 % of the true one
    assert abs(values.std() / std - 1) < 0.05
    assert abs(values.mean()) < 0.1 * std


def test_a_vector_has_no_fan() -> None:
    with pytest.raises(ShapeError, match="needs two axes"):
        init.kaiming_uniform((5,))
