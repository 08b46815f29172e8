"""Running sums, products and extremes against NumPy in every layout, on both devices; their gradients and kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.config import config
from vkgrad.errors import ShapeError
from vkgrad.testing import check_grads


@pytest.fixture(params=["vulkan", "cpu"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.override(device="cpu" if request.param == "cpu" else ""):
        yield request.param


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "cumsum": (vg.cumsum, np.add), "cumprod": (vg.cumprod, np.multiply), "cummax": (vg.cummax, np.maximum),
    "cummin": (vg.cummin, np.minimum),
}  # fmt: skip


def expected(ufunc: Any, x: np.ndarray, axis: int, reverse: bool = False) -> np.ndarray:
    along = np.flip(x, axis) if reverse else x
    out = ufunc.accumulate(along.astype("f8") if x.dtype.kind == "f" else along, axis=axis, dtype=None)
    return (np.flip(out, axis) if reverse else out).astype(x.dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_axis_layout_and_direction(name: str) -> None:
    function, ufunc = FUNCTIONS[name]
    for where, array, tensor in layouts(draw(3, 4, 5)):
        for axis in (0, 1, -1):
            for reverse in (False, True):
                close(function(tensor, axis, reverse=reverse), expected(ufunc, array, axis, reverse), 8, name=where)
    for dtype in ("f8", "i4", "u4", "f2", "i1"):
        x = draw(2, 7, dtype=dtype, low=0, high=3)
        if np.dtype(dtype).kind == "f":
            close(function(vg.tensor(x), 1), expected(ufunc, x, 1), 8)
        else:
            close(function(vg.tensor(x), 1), ufunc.accumulate(x, axis=1, dtype=x.dtype))


def test_shapes_at_the_edge() -> None:
    assert vg.cumsum(vg.zeros((0, 3)), 0).shape == (0, 3)
    assert vg.cumsum(vg.zeros((2, 0)), 1).shape == (2, 0)
    assert vg.cumsum(5.0).tolist() == [5.0]
    assert vg.cumsum(vg.tensor([[1, 2], [3, 4]])).tolist() == [1, 3, 6, 10]
    assert vg.tensor([True, False, True]).cumsum(0).tolist() == [1, 1, 2]
    with pytest.raises(ShapeError, match="cumsum: axis 1 is out of range"):
        vg.cumsum(vg.ones(3), 1)


def test_what_is_left_out_and_what_comes_first() -> None:
    x = vg.tensor([1.0, 2.0, 3.0])
    assert vg.cumsum(x, 0, exclusive=True).tolist() == [0, 1, 3]
    assert vg.cumsum(x, 0, exclusive=True, reverse=True).tolist() == [5, 3, 0]
    assert vg.cumprod(x, 0, exclusive=True).tolist() == [1, 1, 2]
    assert vg.cummax(x, 0, exclusive=True).tolist() == [-math.inf, 1, 2]
    assert vg.cumulative_sum(x, include_initial=True).tolist() == [0, 1, 3, 6]
    assert vg.cumulative_prod(x, include_initial=True).tolist() == [1, 1, 2, 6]
    assert vg.cumulative_sum(x, dtype=vg.int32).dtype is vg.int32
    with pytest.raises(ShapeError, match="say which axis"):
        vg.cumulative_sum(vg.ones((2, 2)))


def test_nan_stays() -> None:
    x = vg.tensor([1.0, math.nan, 3.0])
    for function in (vg.cumsum, vg.cumprod, vg.cummax, vg.cummin, vg.logcumsumexp):
        found = function(x, 0).numpy()
        assert not np.isnan(found[0]) and np.isnan(found[1:]).all()


@pytest.mark.parametrize("n", [255, 256, 257, 4099, 70_001])
def test_long_rows_in_chunks(n: int, device: str) -> None:
    x = draw(2, n)
    close(vg.cumsum(vg.tensor(x), 1), expected(np.add, x, 1), cost=20, largest=float(n) ** 0.5)
    close(vg.cummax(vg.tensor(x), 1, reverse=True), expected(np.maximum, x, 1, True))
    whole = draw(2, n, dtype="i4", high=3)
    close(vg.cumsum(vg.tensor(whole), 1), np.cumsum(whole, 1, dtype="i4"))
    kinds = [kernel.kind for kernel in vg.plan(vg.cumsum(vg.tensor(x), 1)).kernels]
    assert kinds == (["routine"] if device == "cpu" or n <= 256 else ["routine", "routine"])


def test_logcumsumexp() -> None:
    x = np.array([[-1000.0, 0.0, 1000.0, 999.0], [-np.inf, -np.inf, 3.0, -np.inf], [1.0, np.inf, 2.0, 0.0]], "f4")
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.accumulate(x.astype("f8"), axis=1)
    found = vg.logcumsumexp(vg.tensor(x), 1).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    y = draw(300)
    close(
        vg.logcumsumexp(vg.tensor(y), 0, reverse=True),
        np.logaddexp.accumulate(y[::-1].astype("f8"))[::-1].astype("f4"),
        8,
    )


def test_linear_scan() -> None:
    a, x = draw(2, 9), draw(2, 9, seed=1)
    state, wanted = np.zeros(2), []
    for i in range(9):
        state = a[:, i] * state + x[:, i]
        wanted.append(state)
    close(vg.linear_scan(a, x), np.stack(wanted, 1).astype("f4"), 20)
    close(vg.linear_scan(vg.tensor(a).T, x.T, 0), np.stack(wanted, 0).astype("f4"), 20)
    assert vg.linear_scan(2, vg.tensor([1.0, 0.0, 0.0, 0.0])).tolist() == [1, 2, 4, 8]
    assert vg.linear_scan(0.5, vg.tensor([1.0, math.inf, 0.0])).tolist() == [1, math.inf, math.inf]


# ---- gradients
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients(reverse: bool) -> None:
    x = vg.tensor(draw(2, 5))
    for function in (vg.cumsum, vg.cumprod, vg.logcumsumexp):
        check_grads(lambda x, f=function: vg.sin(f(x, 1, reverse=reverse)), (x,), order=2)
    spread = vg.tensor(np.array([[0.3, 1.2, 0.7, 2.0], [3.0, 0.1, 1.0, 2.0]], "f4"))
    for function in (vg.cummax, vg.cummin):
        check_grads(lambda x, f=function: vg.sin(f(x, 1, reverse=reverse)), (spread,), order=2)
    check_grads(lambda a, x: vg.linear_scan(a, x, reverse=reverse), (x, x + 1), order=2)


def test_long_products_of_factors_overflow_in_no_gradient_that_does_not() -> None:
    x = vg.tensor(np.full(2000, 3.0, "f4"))
    found = vg.grad(lambda x: vg.cumprod(x, 0)[:3].sum())(x).numpy()
    assert found[:3].tolist() == [13, 12, 9] and not found[3:].any()


def test_products_with_zeros() -> None:
    last = vg.grad(lambda x: vg.cumprod(x, 0)[-1])
    assert last(vg.tensor([2.0, 0.0, 3.0, 4.0])).tolist() == [0, 24, 0, 0]
    assert last(vg.tensor([2.0, 0.0, 0.0, 4.0])).tolist() == [0, 0, 0, 0]
    second = vg.hessian(lambda x: vg.cumprod(x, 0)[-1])(vg.tensor([2.0, 0.0, 0.0, 4.0])).numpy()
    assert second[1, 2] == second[2, 1] == 8 and np.count_nonzero(second) == 2
    all_of = vg.grad(lambda x: vg.cumprod(x, 0).sum())
    assert all_of(vg.tensor([2.0, 0.0, 3.0])).tolist() == [1, 8, 0]


def test_of_equal_extremes_the_latest_gets_the_gradient() -> None:
    gradient = vg.grad(lambda x: (vg.cummax(x, 0) * vg.tensor([1.0, 2.0, 4.0, 8.0])).sum())
    assert gradient(vg.tensor([1.0, 1.0, 0.0, 1.0])).tolist() == [1, 6, 0, 8]
    assert gradient(vg.tensor([1.0, math.nan, 0.0, 1.0])).tolist() == [1, 14, 0, 0]


def test_long_gradients() -> None:
    x = draw(9000)
    weights = draw(9000, seed=3)
    found = vg.grad(lambda x: (vg.cumsum(x, 0) * vg.tensor(weights)).sum())(vg.tensor(x))
    close(found, expected(np.add, weights, 0, True), cost=40, largest=100)


def test_resident_in_one_submission_and_mapped() -> None:
    x = vg.tensor(draw(3, 600))
    x.numpy()
    with vg.counting() as counts:
        vg.cumsum(x * 2, 1).numpy()
    assert (counts.submissions, counts.host_nodes) == (1, 0)
    close(vg.vmap(lambda row: vg.cumsum(row, 0))(x), expected(np.add, x.numpy(), 1), 20)
    close(vg.vmap(vg.grad(lambda row: vg.cumprod(row, 0).sum()))(x[:, :4]),
          np.stack([vg.grad(lambda row: vg.cumprod(row, 0).sum())(r).numpy() for r in x[:, :4]]), 8)  # fmt: skip
