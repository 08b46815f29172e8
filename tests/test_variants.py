"""The comparison that tests of functions rely on notices wrong values, shapes, types and promises."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import ULPS, close, draw, layouts, subsets

X = draw(2, 3)


def test_layouts_hold_equal_elements() -> None:
    seen = [(name, array.copy(), tensor.numpy()) for name, array, tensor in layouts(X)]
    assert [name for name, *_ in seen] == ["plain", "permuted", "flipped", "strided", "broadcast"]
    assert all(np.array_equal(array, values) for _, array, values in seen)


@pytest.mark.parametrize(
    "wrong",
    [X * np.float32(1 + 3e-6), X[:1], X.T, np.where(X[0, 0] == X, np.nan, X), X.astype(np.int32), -X],
    ids=["value", "shape", "order", "nan", "type", "sign"],
)
def test_wrong_answers_are_noticed(wrong: np.ndarray) -> None:
    close(vg.tensor(X), X)
    with pytest.raises(AssertionError):
        close(vg.tensor(X), wrong)


def test_the_tolerance_is_a_few_units() -> None:
    one = vg.ones(1)
    close(one, np.array([1 + 0.5 * ULPS * 2**-23], np.float32))
    with pytest.raises(AssertionError):
        close(one, np.array([1 + 2 * ULPS * 2**-23], np.float32))
    with pytest.raises(AssertionError):
        close(vg.ones(1, vg.int32), np.array([2]))


def test_a_broken_promise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = vg.ones((2, 3))
    monkeypatch.setattr(vg.Tensor, "numpy", lambda self: np.ones((3, 2), np.float32))
    with pytest.raises(AssertionError, match="promised shape"):
        close(x, np.ones((3, 2), np.float32))


def test_subsets() -> None:
    assert subsets(2) == [None, (), (0,), (1,), (0, 1)]
