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


def test_whole_channels_are_dropped_to_the_lowest_value() -> None:
    vg.manual_seed(3)
    y = vg.nn.FeatureAlphaDropout(0.5)(vg.ones((40, 10, 6))).numpy()
    assert (y == y[:, :, :1]).all() and len(np.unique(y)) == 2
    assert 0.4 < (y[:, :, 0] < 0).mean() < 0.6
    assert vg.nn.functional.alpha_dropout(vg.ones((3,))).tolist() == [1.0, 1.0, 1.0]  # PyTorch's default: no training


def test_random_slopes_lie_between_the_two_and_evaluation_takes_their_mean() -> None:
    vg.manual_seed(3)
    layer = vg.nn.RReLU(0.25, 0.75)
    x = vg.tensor(np.linspace(-3, 2, 1000, dtype=np.float32))
    first, second = layer(x).numpy(), layer(x).numpy()
    slopes = first[x.numpy() < 0] / x.numpy()[x.numpy() < 0]
    assert slopes.min() >= 0.25 and slopes.max() <= 0.75 and abs(slopes.mean() - 0.5) < 0.03
    assert not np.array_equal(first, second) and np.array_equal(first[x.numpy() > 0], x.numpy()[x.numpy() > 0])
    assert np.allclose(layer.eval()(x), np.where(x.numpy() > 0, x.numpy(), 0.5 * x.numpy()))
    with pytest.raises(vg.errors.OptionError, match="must not be above"):
        vg.nn.functional.rrelu(x, 0.5, 0.25)


@pytest.mark.parametrize("hard", [False, True])
def test_samples_of_classes_have_their_probabilities_and_a_derivative(hard: bool) -> None:
    logits = vg.tensor(np.log(np.tile(np.array([[0.5], [0.2], [0.3]], np.float32), (1, 4000))))
    draw = lambda x: vg.nn.functional.gumbel_softmax(x, 0.1, hard, dim=0, key=vg.random.key(4))  # noqa: E731
    sample = draw(logits).numpy()
    assert np.allclose(sample.sum(0), 1, atol=1e-5) and (not hard or set(np.unique(sample)) == {0.0, 1.0})
    assert np.abs(np.bincount(sample.argmax(0)) / 4000 - [0.5, 0.2, 0.3]).max() < 0.03
    weights = np.arange(3, dtype=np.float32)[:, None]
    assert np.abs(vg.grad(lambda x: (draw(x) * weights).sum())(logits).numpy()).max() > 0.1
