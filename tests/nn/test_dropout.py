"""Dropout: what it keeps, how much, and that its mask moves on by itself and comes back with the seed."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg


def _layer(p: float, seed: int = 3) -> vg.nn.Dropout:
    vg.manual_seed(seed)
    return vg.nn.Dropout(p)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_the_right_part_is_dropped_and_the_mean_stays(p: float) -> None:
    y = _layer(p)(vg.ones((50, 80))).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / (1 - p))}
    assert abs((y == 0).mean() - p) < 0.03


def test_every_call_draws_another_mask_and_the_seed_repeats_them() -> None:
    x = vg.ones((40, 10))
    layer = _layer(0.5)
    first, second = layer(x).numpy(), layer(x).numpy()
    assert not np.array_equal(first, second)
    layer = _layer(0.5)
    assert np.array_equal(layer(x), first) and np.array_equal(layer(x), second)
    assert not np.array_equal(_layer(0.5, seed=4)(x), first)


def test_two_layers_draw_different_masks() -> None:
    vg.manual_seed(3)
    x = vg.ones((40, 10))
    assert not np.array_equal(vg.nn.Dropout(0.5)(x), vg.nn.Dropout(0.5)(x))


def test_the_gradient_passes_where_the_value_does() -> None:
    x = vg.tensor(np.linspace(1, 2, 60, dtype=np.float32).reshape(6, 10), requires_grad=True)
    y = _layer(0.5)(x)
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), np.where(y.numpy() == 0, 0.0, 2.0))


def test_evaluation_and_the_two_extremes() -> None:
    x = vg.tensor([1.0, 2.0])
    assert _layer(0.5).eval()(x) is x
    assert _layer(0.0)(x).tolist() == [1.0, 2.0]
    assert _layer(1.0)(x).tolist() == [0.0, 0.0]


def test_its_state_is_private() -> None:
    layer = _layer(0.5)
    assert not layer.state_dict() and not list(layer.parameters())
    assert [name for name, _ in layer.named_buffers()] == ["_key", "_count"]
    layer(vg.ones((2,)))
    assert int(layer._count) == 1
