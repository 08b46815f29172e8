"""Reductions over every set of axes, in every layout, against NumPy; moments, norms and what is normalised by sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts, subsets
from vkgrad.errors import ShapeError

REDUCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "logsumexp": lambda x, **options: np.log(np.sum(np.exp(x), **options)),
    "norm": lambda x, **options: np.sqrt(np.sum(x * x, **options)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_set_of_axes(name: str) -> None:
    array = draw(2, 3, 4)
    tensor = vg.permute_dims(vg.tensor(np.ascontiguousarray(array.transpose(2, 0, 1))), (1, 2, 0))
    for axes in subsets(3):
        for keepdims in (False, True):
            expected = REDUCTIONS[name](array.astype(np.float64), axis=axes, keepdims=keepdims)
            found = getattr(vg, name)(tensor, axis=axes, keepdims=keepdims)
            close(found, expected.astype(np.float32), cost=4, name=f"{axes} {keepdims}")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_layout(name: str) -> None:
    for layout, array, tensor in layouts(draw(5, 7)):
        for axis in (0, -1):
            expected = REDUCTIONS[name](array.astype(np.float64), axis=axis)
            close(getattr(tensor, name)(axis=axis), expected.astype(np.float32), cost=4, name=f"{layout} {axis}")


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_integers_keep_their_type(name: str) -> None:
    for dtype in (np.int32, np.uint32):
        array = draw(3, 4, dtype=dtype, low=1, high=5)
        close(getattr(vg, name)(array, axis=1), getattr(np, name)(array, axis=1).astype(dtype))


def test_masks() -> None:
    mask = draw(3, 4, dtype=bool)
    close(vg.sum(mask, axis=0), mask.sum(0).astype(np.int32))
    close(vg.count_nonzero(mask), np.int32(np.count_nonzero(mask)))
    for name in ("all", "any", "max", "min"):
        close(getattr(vg, name)(mask, axis=1), getattr(np, name)(mask, axis=1))
    close(vg.any(np.array([0.0, math.nan], np.float32)), np.True_)
    close(vg.all(vg.zeros((0,))), np.True_)
    close(vg.mean(mask, axis=0), mask.mean(0).astype(np.float32))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argextremes_take_the_first(name: str) -> None:
    reference = getattr(np, name)
    array = np.array([[1, 3, 3, 0], [2, 2, 2, 2], [0, 5, 1, 5]], np.float32)
    for layout, values, tensor in layouts(array):
        for axis in (None, 0, 1, -1):
            close(getattr(vg, name)(tensor, axis), reference(values, axis).astype(np.int32), name=f"{layout} {axis}")
    close(getattr(vg, name)(array, 1, keepdims=True), reference(array, 1, keepdims=True).astype(np.int32))
    array[1, 2] = math.nan
    close(getattr(vg, name)(array, 1), reference(array, 1).astype(np.int32))
    close(getattr(vg, name)(vg.tensor([4, 1], dtype=vg.int32)), np.int32(reference([4, 1])))
    close(getattr(vg, name)(vg.tensor(3.0)), np.int32(0))


def test_nothing_to_reduce() -> None:
    empty = vg.zeros((0, 3))
    close(vg.sum(empty, axis=0), np.zeros(3, np.float32))
    close(vg.prod(empty), np.float32(1))
    close(vg.sum(empty, axis=1), np.zeros(0, np.float32))
    close(vg.max(empty, axis=1), np.zeros(0, np.float32))
    assert math.isnan(vg.mean(empty).item())
    assert vg.logsumexp(empty, axis=0).tolist() == [-math.inf] * 3
    close(vg.softmax(vg.zeros((3, 0))), np.zeros((3, 0), np.float32))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ShapeError, match=f"{name}: shape"):
            getattr(vg, name)(empty, axis=0)


def test_a_number_reduces_to_itself() -> None:
    for name in ("sum", "prod", "max", "min", "mean", "logsumexp"):
        close(getattr(vg, name)(vg.tensor(2.5)), np.float32(2.5))
    close(vg.var(2.5), np.float32(0))


def test_nan_wins() -> None:
    x = np.array([1, math.nan, math.inf], np.float32)
    for name in ("sum", "prod", "max", "min", "mean"):
        assert math.isnan(getattr(vg, name)(x).item()), name


def test_variance_survives_a_large_mean() -> None:
    small = (1e4 + np.arange(8)).astype(np.float32)
    close(vg.var(small), np.var(small.astype(np.float64)).astype(np.float32), cost=8)
    one_pass = float(np.mean(small * small) - np.mean(small) ** 2)
    assert abs(one_pass - 5.25) > 1  # the control: this is what cancellation does


@pytest.mark.usefixtures("on_cpu")
def test_variance_in_double_survives_a_larger_mean() -> None:
    x = 1e6 + 1e-3 * np.random.default_rng(0).standard_normal(256)
    assert vg.var(x).item() == pytest.approx(np.var(x), rel=1e-9)
    assert vg.std(x, correction=1).item() == pytest.approx(np.std(x, ddof=1), rel=1e-9)


def test_correction() -> None:
    x = draw(4)
    close(vg.var(x, correction=1), np.var(x, ddof=1))
    with np.errstate(all="ignore"):
        assert math.isnan(vg.var(x[:1], correction=1).item())


def test_softmax_overflows_nowhere() -> None:
    for layout, array, tensor in layouts(draw(3, 5)):
        wide = array.astype(np.float64)
        for axis in (0, -1, (0, 1)):
            expected = np.exp(wide) / np.exp(wide).sum(axis=axis, keepdims=True)
            close(vg.softmax(tensor, axis), expected.astype(np.float32), name=layout)
            close(vg.log_softmax(tensor, axis), np.log(expected).astype(np.float32), cost=2, name=layout)
    x = np.array([1e4, 0, -1e4, -math.inf], np.float32)
    close(vg.softmax(x), np.array([1, 0, 0, 0], np.float32))
    close(vg.log_softmax(x), np.array([0, -1e4, -2e4, -math.inf], np.float32))
    close(vg.logsumexp(x), np.float32(1e4))
    close(vg.logsumexp(np.array([-math.inf, -math.inf], np.float32)), np.float32(-math.inf))
    close(vg.logsumexp(np.array([math.inf, 1], np.float32)), np.float32(math.inf))


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, math.inf, -math.inf])
def test_norms(ord: float) -> None:
    x = draw(3, 4)
    x[0, 1] = 0
    expected = np.linalg.norm(x.astype(np.float64), ord, axis=1).astype(np.float32)
    close(vg.norm(x, ord, axis=1), expected, cost=4)


SMOOTH: dict[str, Any] = {
    "sum": vg.sum,
    "prod": vg.prod,
    "mean": vg.mean,
    "var": vg.var,
    "std": vg.std,
    "logsumexp": vg.logsumexp,
    "softmax": vg.softmax,
    "log_softmax": vg.log_softmax,
    "norm": lambda x, axis: vg.norm(x, axis=axis),
    "norm of order 3": lambda x, axis: vg.norm(x, 3, axis=axis),
    "max": vg.max,
    "min": vg.min,
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.usefixtures("on_cpu")
def test_gradients(name: str) -> None:
    x = vg.tensor(draw(2, 3, dtype=np.float64))
    for axis in (1, (0, 1)):
        vg.testing.check_grads(lambda x, axis=axis: SMOOTH[name](x, axis=axis), (x,))


@pytest.mark.usefixtures("on_cpu")
def test_gradient_of_a_product_with_zeros() -> None:
    for array in ([2.0, 0.0, 3.0], [0.0, 0.0, 3.0]):
        vg.testing.check_grads(vg.prod, (vg.tensor(np.array(array)),))


def test_gradients_where_there_is_none() -> None:
    close(vg.grad(vg.std)(vg.ones((3,))), np.zeros(3, np.float32))
    close(vg.grad(vg.norm)(vg.zeros((3,))), np.zeros(3, np.float32))
    close(vg.grad(vg.max)(vg.tensor([1.0, 3.0, 3.0])), np.array([0, 0.5, 0.5], np.float32))


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match="sum: axis 2 is out of range for 2 axes"):
        vg.sum(vg.ones((2, 3)), axis=2)
    with pytest.raises(ShapeError, match="names an axis twice"):
        vg.sum(vg.ones((2, 3)), axis=(0, -2))
