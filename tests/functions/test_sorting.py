"""Sorts, selections, sets and histograms against NumPy, on both devices; where gradients go; how many kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.config import config
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.testing import check_grads


@pytest.fixture(params=["vulkan", "cpu"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.override(device="cpu" if request.param == "cpu" else ""):
        yield request.param


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Stable in both directions, NaN last in both: by Python's own sort."""
    moved = np.moveaxis(x, axis, -1)
    out = np.empty(moved.shape, np.int32)
    for place in np.ndindex(*moved.shape[:-1]):
        row = moved[place].tolist()
        sign = -1 if descending else 1
        out[place] = sorted(
            range(len(row)), key=lambda i: (math.isnan(row[i]), 0 if math.isnan(row[i]) else sign * row[i])
        )
    return np.moveaxis(out, -1, axis)


@pytest.mark.parametrize("descending", [False, True])
def test_every_axis_layout_and_type(descending: bool) -> None:
    for name, array, tensor in layouts(np.round(draw(3, 4, 5))):
        for axis in (0, 1, -1):
            wanted = order(array, axis, descending)
            close(vg.argsort(tensor, axis, descending=descending), wanted, name=name)
            close(vg.sort(tensor, axis, descending=descending), np.take_along_axis(array, wanted, axis), name=name)
    for dtype in ("f8", "i4", "u4", "f2", "i1", "u1", "?"):
        x = draw(2, 40, dtype=dtype, low=0, high=3)
        wanted = order(x, 1, descending)
        close(vg.argsort(vg.tensor(x), descending=descending), wanted)
        close(vg.sort(vg.tensor(x), descending=descending), np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("n", [1, 2, 31, 33, 255, 257, 5000])
@pytest.mark.parametrize("descending", [False, True])
def test_lengths_with_ties_nan_and_infinities(n: int, descending: bool) -> None:
    x = np.round(draw(2, n, high=9))
    x[:, ::7], x[:, 1::9], x[:, 2::11], x[:, 3::13] = np.nan, np.inf, -np.inf, -0.0
    wanted = order(x, 1, descending)
    close(vg.argsort(vg.tensor(x), descending=descending), wanted)
    close(vg.sort(vg.tensor(x), descending=descending), np.take_along_axis(x, wanted, 1))


def test_shapes_at_the_edge() -> None:
    assert vg.sort(vg.zeros((0, 3)), 0).shape == (0, 3)
    assert vg.argsort(vg.zeros((2, 0))).shape == (2, 0)
    assert vg.tensor([2, 1]).sort().tolist() == [1, 2] and vg.tensor([2, 1]).argsort().tolist() == [1, 0]
    with pytest.raises(ShapeError, match="sort: axis -1 is out of range for a tensor without axes"):
        vg.sort(1.0)


def test_a_long_sort_stays_on_the_device(device: str) -> None:
    x = vg.tensor(draw(300))
    x.numpy()
    with vg.counting() as counts:
        found = vg.sort(x * 2) + 1
        found.numpy()
    assert (counts.submissions, counts.host_nodes) == (1, 0)
    # The factor; blocks of 32 and four merges, or NumPy's sort; the gather with what follows.
    assert counts.dispatches == (3 if device == "cpu" else 7)
    close(found, np.sort(x.numpy() * 2) + 1)


# ---- gradients
def test_gradients_go_where_the_elements_came_from() -> None:
    weights = vg.tensor([1.0, 2.0, 4.0, 8.0])
    for descending, wanted in ((False, [4, 1, 8, 2]), (True, [2, 4, 1, 8])):
        gradient = vg.grad(lambda x, d=descending: (vg.sort(x, descending=d) * weights).sum())
        assert gradient(vg.tensor([0.5, 0.1, 0.9, 0.1])).tolist() == wanted
    gradient = vg.grad(lambda x: (vg.topk(x, 2).values * weights[:2]).sum())
    assert gradient(vg.tensor([1.0, 3.0, 3.0, 3.0])).tolist() == [0, 1, 2, 0]
    gradient = vg.grad(lambda x: (vg.topk(x, 2, largest=False).values * weights[:2]).sum())
    assert gradient(vg.tensor([1.0, 3.0, 3.0, 3.0])).tolist() == [1, 2, 0, 0]
    assert vg.grad(vg.median)(vg.tensor([3.0, 1.0, 2.0, 2.0])).tolist() == [0, 0, 0.5, 0.5]


def test_gradients_to_the_second_order() -> None:
    x = vg.tensor(np.array([[0.3, 1.2, 0.7, 2.0], [3.0, 0.1, 1.0, 2.1]], "f4"))
    for axis in (0, 1):
        check_grads(lambda x, a=axis: vg.sin(vg.sort(x, a)), (x,), order=2)
        check_grads(lambda x, a=axis: vg.sin(vg.topk(x, 2, a).values), (x,), order=2)
        check_grads(lambda x, a=axis: vg.quantile(x, [0.2, 0.7], a), (x,))
    check_grads(lambda x: vg.sin(vg.kthvalue(x, 3).values), (x,))
    long = vg.tensor(draw(700))
    found = vg.grad(lambda x: (vg.sort(x) * vg.arange(700)).sum())(long)
    close(found, np.argsort(np.argsort(long.numpy())).astype("f4"))


def test_mapped() -> None:
    x = vg.tensor(draw(3, 9))
    close(vg.vmap(vg.sort)(x), np.sort(x.numpy(), 1))
    close(vg.vmap(lambda row: vg.topk(row, 2).values)(x), -np.sort(-x.numpy(), 1)[:, :2])
    each = vg.vmap(vg.grad(lambda row: (vg.sort(row) * vg.arange(9)).sum()))(x)
    close(each, np.argsort(np.argsort(x.numpy(), 1), 1).astype("f4"))


# ---- selections
def test_topk_and_kthvalue() -> None:
    x = np.round(draw(3, 8, high=4))
    wanted = order(x, 1, True)[:, :3]
    found = vg.topk(vg.tensor(x), 3)
    close(found.indices, wanted)
    close(found.values, np.take_along_axis(x, wanted, 1))
    close(vg.topk(vg.tensor(x), 2, axis=0, largest=False).values, np.sort(x, 0)[:2])
    close(vg.kthvalue(vg.tensor(x), 3).values, np.sort(x, 1)[:, 2])
    assert vg.kthvalue(vg.tensor(x), 3, 0, keepdims=True).indices.shape == (1, 8)
    assert vg.topk(vg.tensor(x), 0).values.shape == (3, 0)
    with pytest.raises(ShapeError, match="topk: k = 9"):
        vg.topk(vg.tensor(x), 9)
    with pytest.raises(ShapeError, match="it counts from 1"):
        vg.kthvalue(vg.tensor(x), 0)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(method: Any) -> None:
    x = draw(3, 7)
    for q in (0, 0.25, 1.0, [0.1, 0.5], [[0.3], [0.9]]):
        for axis in (None, 0, 1):
            for keepdims in (False, True):
                wanted = np.quantile(x.astype("f8"), q, axis, method=method, keepdims=keepdims)
                close(
                    vg.quantile(vg.tensor(x), q, axis, keepdims, method),
                    np.asarray(wanted, "f4"),
                    2,
                    name=f"{q} {axis}",
                )


def test_median_and_what_it_refuses() -> None:
    for n in (1, 4, 5):
        close(vg.median(vg.tensor(draw(2, n)), 1), np.median(draw(2, n), 1), 2)
    assert math.isnan(vg.median(vg.tensor([1.0, math.nan, 2.0])).item())
    assert vg.median(vg.tensor([1.0, math.inf, math.inf])).item() == math.inf
    assert vg.median(vg.tensor([1, 2])).item() == 1.5
    with pytest.raises(OptionError, match="between 0 and 1"):
        vg.quantile(vg.ones(3), 1.5)
    with pytest.raises(OptionError, match="method must be one of"):
        vg.quantile(vg.ones(3), 0.5, method="other")
    with pytest.raises(ShapeError, match="no elements"):
        vg.median(vg.zeros(0))


def test_searchsorted() -> None:
    for dtype in ("f4", "i4", "u4"):
        x1, x2 = np.sort(draw(20, dtype=dtype, low=0, high=9)), draw(2, 15, dtype=dtype, low=0, high=10)
        for side in ("left", "right"):
            close(vg.searchsorted(vg.tensor(x1), vg.tensor(x2), side=side), np.searchsorted(x1, x2, side).astype("i4"))
    rows = np.sort(draw(3, 6), 1)
    wanted = np.stack([np.searchsorted(rows[i], draw(3, 2, seed=1)[i]) for i in range(3)]).astype("i4")
    close(vg.searchsorted(vg.tensor(rows), vg.tensor(draw(3, 2, seed=1))), wanted)
    x = draw(9)
    found = vg.searchsorted(x, 0.1, sorter=vg.argsort(x))
    assert found.shape == () and found.item() == np.searchsorted(np.sort(x), 0.1)
    assert vg.searchsorted(vg.zeros(0), vg.ones(2)).tolist() == [0, 0]
    with pytest.raises(OptionError, match="side must be"):
        vg.searchsorted(x, x, side="middle")
    with pytest.raises(ShapeError, match="must agree in all axes"):
        vg.searchsorted(vg.ones((2, 3)), vg.ones((3, 3)))


# ---- sets
@pytest.mark.parametrize("dtype", ["f4", "i4", "?"])
def test_unique(dtype: str) -> None:
    for shape in ((1,), (3, 5), (400,)):
        x = draw(*shape, dtype=dtype, high=6)
        x = np.round(x) if dtype == "f4" else x
        wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        found = vg.unique_all(vg.tensor(x))
        close(found.values, wanted[0])
        for have, want in zip(found[1:], wanted[1:], strict=True):
            close(have, want.reshape(have.shape).astype("i4"))
        close(vg.unique_inverse(vg.tensor(x))[1], wanted[2].reshape(shape).astype("i4"))
        close(vg.unique_counts(vg.tensor(x))[1], wanted[3].astype("i4"))
    assert vg.unique_values(vg.zeros(0)).shape == (0,)
    assert len(vg.unique(vg.tensor([1.0, math.nan, math.nan]))) == 3


def test_unique_of_a_known_size_reads_nothing() -> None:
    x = vg.tensor([3, 1, 3, 2])
    with vg.counting() as counts:
        found = vg.unique_all(x, size=5, fill_value=-1)
    assert counts.flushes == 0
    assert found.values.tolist() == [1, 2, 3, -1, -1]
    assert found.counts.tolist() == [1, 1, 2, 0, 0]
    assert vg.unique_values(x, size=4).tolist() == [1, 2, 3, 3]
    assert vg.unique_values(x, size=2).tolist() == [1, 2]
    assert vg.jit(lambda x: vg.unique_values(x, size=3))(x).tolist() == [1, 2, 3]


# ---- counting
def test_bincount() -> None:
    x = draw(500, dtype="i4", low=0, high=9)
    close(vg.bincount(vg.tensor(x)), np.bincount(x).astype("i4"))
    close(vg.bincount(vg.tensor(x), minlength=20), np.bincount(x, minlength=20).astype("i4"))
    close(vg.bincount(vg.tensor(x), draw(500), length=4), np.bincount(x, draw(500), 10)[:4].astype("f4"), 50)
    assert vg.bincount(vg.zeros(0, dtype=vg.int32)).shape == (0,)
    assert vg.bincount(vg.tensor([0, 2]), length=3).tolist() == [1, 0, 1]
    with pytest.raises(DTypeError, match="bincount: takes one axis of integers"):
        vg.bincount(vg.ones(3))


def test_histogram() -> None:
    x = draw(300)
    for bins in (10, [-2.0, -0.5, 0.1, 2.0]):
        counts, edges = vg.histogram(vg.tensor(x), bins)
        wanted, at = np.histogram(x, bins)
        close(counts, wanted.astype("i4"))
        close(edges, at.astype("f4"))
    close(vg.histogram(x, 4, (-1, 1), density=True)[0], np.histogram(x, 4, (-1, 1), density=True)[0].astype("f4"), 8)
    assert vg.histogram(vg.tensor([1.0, 2.0, 3.0, 9.0]), 2, (1, 3))[0].tolist() == [1, 2]
    weighted = vg.histogram(x, 5, (-2, 2), weights=draw(300, seed=1))[0]
    close(weighted, np.histogram(x, 5, (-2, 2), weights=draw(300, seed=1))[0].astype("f4"), 50)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles_by_a_tensor(method: str) -> None:
    """It is not read, and has a derivative: the distance of the neighbours, times how many there are."""
    x, q = (
        np.array([[3.0, 1.0, 4.0, 1.5, 9.0], [2.0, 6.0, 5.0, 3.5, 8.0]], np.float32),
        np.array([[0.1, 0.9], [0.6, 0.35]]),
    )
    found = vg.quantile(x, vg.tensor(q.astype(np.float32)), axis=1, method=method)
    np.testing.assert_allclose(found.numpy(), np.quantile(x, q, axis=1, method=method), rtol=1e-6)
    recorded = vg.jit(lambda part: vg.quantile(x, part, axis=1, method=method))
    np.testing.assert_array_equal(recorded(vg.tensor(q.astype(np.float32))).numpy(), found.numpy())
    for f in (vg.quantile, vg.nanquantile):
        if method == "linear":
            slope = vg.grad(lambda part, f=f: f(vg.tensor(x[0]), part))(vg.tensor(0.3)).item()
            assert slope == pytest.approx(4 * (3.0 - 1.5), rel=1e-5)
    assert np.isnan(vg.quantile(x[0], vg.tensor(1.5), method=method).item())
    assert vg.percentile(x[0], vg.tensor(50.0), method=method).item() == 3
