"""What is sent to places, duplicates and all: sums, products and extremes by index, on both devices, by every way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.config import config
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.testing import check_grads

# (values, places, columns): few values; little work; few places, in chunks; many places, by sorting.
SIZES = {"few": (7, 5, 2), "small": (40, 9, 3), "chunks": (3000, 37, 2), "sorted": (4000, 9000, 2)}
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.fixture(params=["vulkan", "cpu"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.override(device="cpu" if request.param == "cpu" else ""):
        yield request.param


def expected(join: str, index: np.ndarray, values: np.ndarray, extent: int) -> np.ndarray:
    start = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[join]
    if values.dtype.kind != "f" and join in ("max", "min"):
        info = np.iinfo(values.dtype)
        start = info.min if join == "max" else info.max
    out = np.full((extent, *values.shape[1:]), start, "f8" if values.dtype.kind == "f" else values.dtype)
    inside = (index >= 0) & (index < extent)
    UFUNCS[join].at(out, index[inside], values[inside])
    return out.astype(values.dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("join", UFUNCS)
def test_segments(join: str, size: str) -> None:
    m, extent, c = SIZES[size]
    function = getattr(vg, f"segment_{join}")
    index = np.random.default_rng(1).integers(-1, extent + 1, m).astype("i4")
    for dtype in ("f4", "i4"):
        values = draw(m, c, dtype=dtype)
        if join == "prod":
            values = np.where(values > 0, 1, -1).astype(dtype)
        found = function(values, index, extent)
        close(found, expected(join, index, values, extent), cost=20)
        assert np.array_equal(function(values, index, extent).numpy(), found.numpy()), "two runs differ"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["i1", "i2", "u1", "u2", "f2", "?"])
def test_extremes_of_narrow_types_and_masks(dtype: str, size: str) -> None:
    """Places that nothing is sent to hold the least of the narrow type, not what is left of that of a wider one."""
    m, extent, _ = SIZES[size]
    generator = np.random.default_rng(2)
    index = generator.integers(0, extent, m).astype("i4")
    if dtype == "?":
        values, x = generator.random(m) < 0.5, generator.random(extent) < 0.5
    elif dtype == "f2":
        values, x = -generator.random(m).astype(dtype), -generator.random(extent).astype(dtype)
    else:
        info = np.iinfo(dtype)
        values, x = (generator.integers(info.min, info.max // 2, n, dtype=dtype, endpoint=True) for n in (m, extent))
    for join in ("max", "min", *(("sum", "prod") if dtype == "?" else ())):
        exact = x.copy()
        UFUNCS[join].at(exact, index, values)
        name = {"sum": "add", "prod": "multiply"}.get(join, join)
        with vg.counting() as c:
            found = getattr(vg.tensor(x).at[index], name)(values).numpy()
        assert c.host_nodes == 0 and found.dtype == dtype
        np.testing.assert_array_equal(found, exact)
        if dtype != "?" and join in ("max", "min"):
            found = getattr(vg, f"segment_{join}")(values, index, extent).numpy()
            np.testing.assert_array_equal(found, expected(join, index, values, extent))


def test_one_place_takes_all_and_others_none() -> None:
    values = draw(5000, 1)
    index = np.full(5000, 7000, "i4")
    found = vg.segment_sum(values, index, 9000).numpy()
    assert np.flatnonzero(found).tolist() == [7000]
    np.testing.assert_allclose(found[7000], values.sum(dtype="f8"), atol=1e-3)


def test_layouts_and_types() -> None:
    index = np.array([1, 0, 1, 3])
    for name, array, tensor in layouts(draw(4, 3)):
        close(vg.segment_sum(tensor, index, 5), expected("sum", index, array, 5), name=name)
    for dtype in ("f8", "f2", "u4", "i1"):
        values = draw(20, 2, dtype=dtype, low=0, high=3)
        spread = np.arange(20) % 3
        close(vg.segment_sum(vg.tensor(values), spread, 3), expected("sum", spread, values, 3), cost=4)
    pairs = np.array([[0, 1], [1, 1]])
    close(vg.segment_sum(draw(2, 2, 3), pairs, 2), expected("sum", pairs.ravel(), draw(2, 2, 3).reshape(4, 3), 2), 4)
    assert vg.segment_sum(vg.zeros((0, 3)), vg.zeros((0,), vg.int32), 2).tolist() == [[0] * 3] * 2


def test_indices_of_small_types_reach_places_beyond_their_range() -> None:
    for dtype, last in (("u1", 255), ("i1", 127), ("i2", 300), ("u4", 299)):
        index = np.array([0, last, last, 3] * 5, dtype)
        table = vg.tensor(draw(400, 2))
        close(vg.take(table, vg.tensor(index), 0), draw(400, 2)[index.astype(int)])
        gradient = vg.grad(lambda t, i=index: vg.take(t, vg.tensor(i), 0).sum())(table)
        close(gradient, expected("sum", index.astype(int), np.ones((20, 2), "f4"), 400))
        rows = vg.take_along_axis(table.T, vg.tensor(np.stack([index, index])), 1)
        close(rows, np.take_along_axis(draw(400, 2).T, np.stack([index, index]).astype(int), 1))
        close(
            vg.segment_sum(np.ones(4, "f4"), vg.tensor(index[:4]), 400),
            expected("sum", index[:4].astype(int), np.ones(4, "f4"), 400),
        )


def test_index_add_and_scatter_add() -> None:
    x, source = draw(3, 4), draw(3, 6, seed=1)
    wanted = x.copy()
    np.add.at(wanted, (slice(None), [0, 3, 3, 1, 0, -1]), source)
    close(vg.index_add(x, 1, [0, 3, 3, 1, 0, -1], source), wanted, 4)
    index = np.random.default_rng(2).integers(0, 4, (3, 6))
    wanted = x.copy()
    np.add.at(wanted, (np.arange(3)[:, None], index), source)
    close(vg.scatter_add(x, 1, index, source), wanted, 4)
    close(vg.scatter_add(x.T, 0, index.T, source.T), wanted.T, 4)
    with pytest.raises(ShapeError, match="must be alike"):
        vg.scatter_add(x, 1, index[:2], source)
    with pytest.raises(DTypeError, match="segment_sum: an index must be of integers"):
        vg.segment_sum(x, vg.ones(3), 2)
    with pytest.raises(ShapeError, match="must number the first axes"):
        vg.segment_sum(x, [0, 1], 2)


@pytest.mark.parametrize("size", SIZES)
def test_updates_with_many_duplicates(size: str) -> None:
    m, extent, c = SIZES[size]
    index, values, x = np.random.default_rng(1).integers(0, extent, m), draw(m, c), draw(extent, c, seed=2)
    for name, ufunc in (("add", np.add), ("max", np.maximum), ("min", np.minimum)):
        wanted = x.astype("f8")
        ufunc.at(wanted, index, values)
        close(getattr(vg.tensor(x).at[index], name)(values), wanted.astype("f4"), cost=20, name=name)
    wanted = x.copy()
    for place, value in zip(index, values, strict=True):
        wanted[place] = value
    close(vg.tensor(x).at[vg.tensor(index.astype("i4"))].set(values), wanted)


@pytest.mark.parametrize("size", ["small", "chunks", "sorted"])
def test_the_gradient_of_a_lookup_adds_up(size: str) -> None:
    m, extent, c = SIZES[size]
    index, weights = np.random.default_rng(1).integers(0, extent, m), draw(m, c, seed=4)
    for axis in (0, 1):
        table = vg.tensor(draw(extent, c) if axis == 0 else draw(c, extent))
        scale = vg.tensor(weights if axis == 0 else weights.T)
        found = vg.grad(lambda t, a=axis, s=scale: (vg.take(t, index, a) * s).sum())(table)
        wanted = expected("sum", index, weights, extent)
        close(found, wanted if axis == 0 else wanted.T, cost=20)


def test_no_place_looks_at_every_value(device: str) -> None:
    """Work grows with values plus places, not with their product."""
    index = vg.tensor(np.arange(5000, dtype="i4"))
    gradient = vg.grad(lambda t: vg.take(t, index, 0).sum())(vg.zeros((8000, 1)))
    report = vg.plan(gradient)
    assert sum(kernel.flops for kernel in report.kernels) < 100 * 13_000
    assert all(placement != "host" for _, placement in report.placement)


def test_gradients() -> None:
    index = np.array([2, 0, 2, 1, 0, 2, 2, 1, 0, 1, 2, 0])
    x = vg.tensor(np.random.default_rng(3).permutation(24).reshape(12, 2).astype("f4") / 4 + 1)
    for join in UFUNCS:
        check_grads(
            lambda x, j=join: vg.sin(getattr(vg, f"segment_{j}")(x, index, 3)),
            (x / 6 if join == "prod" else x,),
            order=2,
        )
    with_zeros = vg.tensor([[2.0], [0.0], [3.0], [0.0], [0.0], [5.0]])
    found = vg.grad(lambda x: vg.segment_prod(x, [0, 0, 0, 1, 1, 2], 3).sum())(with_zeros)
    assert found.tolist() == [[0], [6], [0], [0], [0], [1]]
    ties = vg.grad(lambda x: vg.segment_max(x, [0, 0, 0, 1], 2).sum())(vg.tensor([1.0, 3.0, 3.0, 2.0]))
    assert ties.tolist() == [0, 0.5, 0.5, 1]


def test_mapped_and_recorded() -> None:
    values, index = draw(4, 30), np.random.default_rng(1).integers(0, 5, (4, 30)).astype("i4")
    wanted = np.stack([expected("sum", i, v, 5) for i, v in zip(index, values, strict=True)])
    close(vg.vmap(lambda v, i: vg.segment_sum(v, i, 5))(vg.tensor(values), vg.tensor(index)), wanted, 4)
    step = vg.jit(lambda v, i: vg.segment_sum(v, i, 5))
    for row in range(4):
        close(step(vg.tensor(values[row]), vg.tensor(index[row])), wanted[row], 4)
