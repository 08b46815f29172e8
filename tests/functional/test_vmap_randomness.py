"""Random numbers inside `vmap`: nobody gets the same ones for every example without having asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import nn
from vkgrad.errors import OptionError

F = nn.functional
X = vg.ones((5, 200))


def _drop(x: vg.Tensor) -> vg.Tensor:
    return F.dropout(x, 0.5)


def _rows_differ(rows: Any) -> bool:
    rows = np.asarray(rows)
    return len({row.tobytes() for row in rows}) == len(rows)


@pytest.fixture(params=["dropout layer", "dropout function", "next key", "slopes", "recurrent"])
def draws(request: pytest.FixtureRequest) -> Callable[[vg.Tensor], vg.Tensor]:
    vg.manual_seed(1)
    if request.param == "dropout layer":
        return nn.Sequential(nn.Dropout(0.5), nn.ReLU())
    if request.param == "dropout function":
        return _drop
    if request.param == "next key":
        return lambda x: x + vg.random.normal(vg.random.next_key(), x.shape)
    if request.param == "slopes":
        layer = nn.RReLU()
        return lambda x: layer(-x)
    lstm = nn.LSTM(4, 3, num_layers=2, dropout=0.5)
    return lambda x: lstm(x.reshape(-1, 4))[0]


def test_an_error_unless_said(draws: Callable[[vg.Tensor], vg.Tensor]) -> None:
    with pytest.raises(OptionError, match='say randomness="different"'):
        vg.vmap(draws)(X)


def test_different_for_each_example(draws: Callable[[vg.Tensor], vg.Tensor]) -> None:
    mapped = vg.vmap(draws, randomness="different")
    first, second = mapped(X), mapped(X)
    assert _rows_differ(first) and not np.array_equal(first, second)


def test_the_same_for_all(draws: Callable[[vg.Tensor], vg.Tensor]) -> None:
    rows = vg.vmap(draws, randomness="same")(X).numpy()
    assert (rows == rows[0]).all() and rows.std() > 0


def test_about_as_many_are_kept_as_should_be() -> None:
    vg.manual_seed(2)
    kept = vg.vmap(_drop, randomness="different")(vg.ones((40, 500))).numpy() > 0
    assert abs(kept.mean() - 0.5) < 0.02 and np.abs(kept.mean(1) - 0.5).max() < 0.1
    together = np.corrcoef(kept)
    assert np.abs(together - np.eye(40)).max() < 0.25  # no two examples go together


def test_nothing_is_raised_where_nothing_is_drawn() -> None:
    assert np.array_equal(vg.vmap(nn.Dropout(0.5).eval())(X), X)
    assert np.array_equal(vg.vmap(lambda x: F.dropout(x, training=False))(X), X)
    assert vg.vmap(lambda x: x * 2)(X).shape == X.shape


def test_keys_that_are_given_do_what_they_say() -> None:
    key = vg.random.key(3)
    keys = vg.random.split(key, 5)
    each = vg.vmap(lambda x, k: F.dropout(x, key=k))(X, keys)
    assert np.array_equal(each, vg.stack([F.dropout(x, key=k) for x, k in zip(X, keys, strict=True)]))
    shared = vg.vmap(lambda x: F.dropout(x, key=key))(X).numpy()
    assert (shared == shared[0]).all()


def test_in_a_recorded_step_and_in_gradients_of_each_example() -> None:
    vg.manual_seed(4)
    model = nn.Sequential(nn.Linear(200, 3), nn.Dropout(0.5))
    each = vg.vmap(vg.grad(lambda m, x: m(x).sum()), in_axes=(None, 0), randomness="different")
    step = vg.jit(lambda x: each(model, x)["0.bias"])
    first, second = step(X).numpy(), step(X).numpy()
    assert first.shape == (5, 3) and set(np.unique(first)) == {0.0, 2.0}
    assert len(np.unique(first, axis=0)) > 1 and not np.array_equal(first, second)
    vg.manual_seed(4)
    again = nn.Sequential(nn.Linear(200, 3), nn.Dropout(0.5))
    assert np.array_equal(each(again, X)["0.bias"], first)


def test_nested() -> None:
    x = vg.ones((3, 4, 100))
    rows = vg.vmap(vg.vmap(_drop, randomness="different"), randomness="different")(x).numpy().reshape(12, 100)
    assert _rows_differ(rows)
    inner = vg.vmap(vg.vmap(_drop, randomness="same"), randomness="different")(x).numpy()
    assert (inner == inner[:, :1]).all() and _rows_differ(inner[:, 0])
    with pytest.raises(OptionError, match="randomness"):
        vg.vmap(vg.vmap(_drop, randomness="different"))(x)


def test_mistakes() -> None:
    with pytest.raises(OptionError, match="randomness must be one of error, different, same, got 'other'"):
        vg.vmap(_drop, randomness="other")
    with pytest.raises(OptionError):
        vg.vmap(_drop)(X)
    _drop(X).numpy()  # what was refused has left nothing behind
