"""Convolutions and poolings against loops over their windows, with every option, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.errors import OptionError, ShapeError


def reference_convolution(
    x: np.ndarray, w: np.ndarray, stride: tuple, low: tuple, high: tuple, dilation: tuple, groups: int
) -> np.ndarray:
    """The definition: for every output place and channel, the sum over its window and its group's channels."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0), *zip(low, high, strict=True)])
    outputs, inputs, *sizes = w.shape
    extents = [(e - (k - 1) * d - 1) // s + 1 for e, k, d, s in zip(x.shape[2:], sizes, dilation, stride, strict=True)]
    out = np.zeros((x.shape[0], outputs, *extents))
    for channel in range(outputs):
        first = channel // (outputs // groups) * inputs
        for place in product(*map(range, extents)):
            window: tuple[Any, ...] = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(place, stride, sizes, dilation, strict=True)
            )
            seen = x[:, first : first + inputs][(slice(None), slice(None), *window)]
            spot: tuple[Any, ...] = (slice(None), channel, *place)
            out[spot] = np.sum(seen * w[channel], axis=tuple(range(1, w.ndim)))
    return out


# (input, weight, options, stride, low, high, dilation) of two dimensions
CASES: list[tuple[tuple, tuple, dict[str, Any], tuple, tuple, tuple, tuple]] = [
    ((2, 3, 5, 6), (4, 3, 3, 2), {}, (1, 1), (0, 0), (0, 0), (1, 1)),
    ((2, 3, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1}, (2, 2), (1, 1), (1, 1), (1, 1)),
    ((1, 2, 7, 6), (2, 2, 3, 2), {"stride": (2, 1), "padding": (0, 2)}, (2, 1), (0, 2), (0, 2), (1, 1)),
    ((1, 2, 7, 8), (3, 2, 2, 3), {"dilation": (3, 2)}, (1, 1), (0, 0), (0, 0), (3, 2)),
    ((1, 4, 4, 4), (6, 2, 3, 3), {"groups": 2, "padding": 1}, (1, 1), (1, 1), (1, 1), (1, 1)),
    ((1, 3, 4, 4), (6, 1, 3, 3), {"groups": 3, "stride": 2}, (2, 2), (0, 0), (0, 0), (1, 1)),
    ((1, 2, 5, 5), (2, 2, 4, 3), {"padding": "same"}, (1, 1), (1, 1), (2, 1), (1, 1)),
    ((1, 1, 3, 3), (1, 1, 3, 3), {"padding": "valid"}, (1, 1), (0, 0), (0, 0), (1, 1)),
    ((1, 2, 4, 5), (3, 2, 1, 1), {}, (1, 1), (0, 0), (0, 0), (1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_conv2d(case: tuple) -> None:
    shape, kernel, options, stride, low, high, dilation = case
    x, w, bias = draw(*shape), draw(*kernel, seed=1), draw(kernel[0], seed=2)
    expected = reference_convolution(x, w, stride, low, high, dilation, options.get("groups", 1))
    close(vg.conv2d(x, w, **options), expected.astype(np.float32), cost=8)
    expected += bias[:, None, None]
    close(vg.conv2d(x, w, bias, **options), expected.astype(np.float32), cost=8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_conv2d(case: tuple) -> None:
    shape, kernel, options, *_ = case
    x, w = draw(1, *shape[1:], dtype=np.float64), draw(*kernel, seed=1, dtype=np.float64)
    bias = draw(kernel[0], seed=2, dtype=np.float64)
    vg.testing.check_grads(lambda x, w, bias: vg.conv2d(x, w, bias, **options), (x, w, bias), order=1)


@pytest.mark.usefixtures("on_cpu")
def test_second_gradient_of_conv2d() -> None:
    x, w = draw(1, 2, 4, 4, dtype=np.float64), draw(2, 2, 2, 3, seed=1, dtype=np.float64)
    vg.testing.check_grads(lambda x, w: vg.conv2d(x, w, stride=(1, 2), padding=1), (x, w), order=2)


def test_conv2d_in_every_layout() -> None:
    w = draw(2, 3, 2, 2, seed=1)
    for (one, x, a), (two, v, c) in zip(layouts(draw(2, 3, 4, 4)), layouts(w), strict=True):
        expected = reference_convolution(x, v, (1, 1), (1, 1), (1, 1), (1, 1), 1).astype(np.float32)
        close(vg.conv2d(a, c, padding=1), expected, cost=8, name=f"{one} {two}")


def test_one_and_three_dimensions() -> None:
    x, w = draw(2, 2, 9), draw(3, 2, 3, seed=1)
    expected = reference_convolution(x, w, (2,), (1,), (1,), (2,), 1).astype(np.float32)
    close(vg.conv1d(x, w, stride=2, padding=1, dilation=2), expected, cost=8)
    x, w = draw(1, 2, 3, 4, 5), draw(2, 2, 2, 2, 3, seed=1)
    expected = reference_convolution(x, w, (1, 2, 1), (1, 0, 1), (1, 0, 1), (1, 1, 1), 1).astype(np.float32)
    close(vg.conv3d(x, w, stride=(1, 2, 1), padding=(1, 0, 1)), expected, cost=8)


TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"stride": (2, 3), "padding": (1, 2), "output_padding": (1, 0)},
    {"dilation": 2, "padding": 1},
    {"padding": 3},
    {"groups": 2, "stride": 2},
]


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
def test_conv_transpose2d_is_the_gradient_of_conv2d(options: dict[str, Any]) -> None:
    groups = options.get("groups", 1)
    x, w = draw(1, 4, 6, 5), draw(4, 6 // groups, 3, 3, seed=1)
    found = vg.conv_transpose2d(x, w, **options)
    forward = {key: value for key, value in options.items() if key != "output_padding"}
    _, pull = vg.vjp(lambda image: vg.conv2d(image, w, **forward), vg.zeros(found.shape))
    close(found, pull(vg.tensor(x))[0].numpy(), cost=8)
    bias = draw(6, seed=2)
    close(vg.conv_transpose2d(x, w, bias, **options), found.numpy() + bias[:, None, None], cost=8)


def test_conv_transpose2d_by_its_definition() -> None:
    x, w = draw(1, 1, 2, 2), draw(1, 1, 2, 2, seed=1)
    expected = np.zeros((1, 1, 4, 4))
    for i, j in product(range(2), range(2)):
        expected[0, 0, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += x[0, 0, i, j].astype(np.float64) * w[0, 0]
    close(vg.conv_transpose2d(x, w, stride=2), expected.astype(np.float32))


# ---- pooling
POOLS = [(2, None, 0, 1), (3, 1, 1, 1), ((2, 3), (1, 2), (1, 0), 1), (3, 2, 1, 1), (2, 1, 0, 2)]


def reference_pool(x: np.ndarray, kernel: Any, stride: Any, padding: Any, dilation: int, join: Callable, fill: float):
    def pair(value: Any) -> tuple:
        return (value, value) if isinstance(value, int) else value

    kernel, padding = pair(kernel), pair(padding)
    stride = kernel if stride is None else pair(stride)
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=fill)
    reach = [(k - 1) * dilation + 1 for k in kernel]
    extents = [(e - r) // s + 1 for e, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    out = np.zeros((*x.shape[:2], *extents), x.dtype)
    for i, j in product(*map(range, extents)):
        rows = slice(i * stride[0], i * stride[0] + reach[0], dilation)
        columns = slice(j * stride[1], j * stride[1] + reach[1], dilation)
        out[:, :, i, j] = join(x[:, :, rows, columns], axis=(2, 3))
    return out


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), POOLS)
def test_max_pool2d(kernel: Any, stride: Any, padding: Any, dilation: int) -> None:
    for layout, x, tensor in layouts(draw(2, 3, 6, 7)):
        expected = reference_pool(x, kernel, stride, padding, dilation, np.max, -np.inf)
        found = vg.max_pool2d(tensor, kernel, stride, padding, dilation)
        close(found, expected, name=layout)
        assert np.isin(found.numpy(), x).all()


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), POOLS[:4])
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg_pool2d(kernel: Any, stride: Any, padding: Any, dilation: int, count_include_pad: bool) -> None:
    x = draw(2, 3, 6, 7)
    total = reference_pool(x.astype(np.float64), kernel, stride, padding, 1, np.sum, 0)
    window = np.ones_like(x, np.float64)
    counted = reference_pool(window, kernel, stride, padding, 1, np.sum, 1.0 if count_include_pad else 0.0)
    close(
        vg.avg_pool2d(x, kernel, stride, padding, False, count_include_pad),
        (total / counted).astype(np.float32),
        cost=4,
    )


def test_pooling_in_one_dimension() -> None:
    x = np.array([[[1, 3, 2, 5, 4]]], np.float32)
    close(vg.max_pool1d(x, 2), np.array([[[3, 5]]], np.float32))
    close(vg.avg_pool1d(x, 3, 1), np.array([[[2, 10 / 3, 11 / 3]]], np.float32))


def test_max_pool2d_gives_ties_to_the_first() -> None:
    x = np.array([[[[1, 2, 2], [2, 2, 1], [0, 2, 2]]]], np.float32)
    slope = vg.grad(lambda x: vg.max_pool2d(x, 2, 1).sum())(vg.tensor(x))
    close(slope, np.array([[[[0, 2, 0], [1, 1, 0], [0, 0, 0]]]], np.float32))


def test_max_pool2d_of_integers() -> None:
    x = draw(1, 1, 4, 4, dtype=np.int32)
    close(vg.max_pool2d(x, 3, 2, 1), reference_pool(x, 3, 2, 1, 1, np.max, -(2**31)))


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), POOLS)
@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_pooling(kernel: Any, stride: Any, padding: Any, dilation: int) -> None:
    x = draw(1, 2, 5, 6, dtype=np.float64)
    vg.testing.check_grads(lambda x: vg.max_pool2d(x, kernel, stride, padding, dilation), (x,), order=1)
    vg.testing.check_grads(lambda x: vg.avg_pool2d(x, kernel, stride, padding, False, False), (x,), order=1)


def test_mistakes_are_named() -> None:
    x, w = vg.ones((1, 2, 4, 4)), vg.ones((3, 2, 3, 3))
    for message, mistake in [
        ("conv2d: weight .* takes 4 channels", lambda: vg.conv2d(x, w, groups=2)),
        ("conv2d: needs an input", lambda: vg.conv2d(vg.ones((2, 4, 4)), w)),
        ("conv2d: a window of 5 does not fit extent 4", lambda: vg.conv2d(x, w, dilation=2)),
        ("conv2d: stride must be an integer or 2 of them", lambda: vg.conv2d(x, w, stride=0)),
        ("conv2d: padding='same' keeps the extents", lambda: vg.conv2d(x, w, stride=2, padding="same")),
        ("conv2d: bias must have shape", lambda: vg.conv2d(x, w, vg.ones(2))),
        ("conv_transpose2d: weight", lambda: vg.conv_transpose2d(x, w)),
        ("max_pool2d: a window of 5", lambda: vg.max_pool2d(x, 5)),
        ("max_pool2d: padding .* at most half", lambda: vg.max_pool2d(x, 2, padding=2)),
        ("avg_pool2d: takes an input", lambda: vg.avg_pool2d(vg.ones((4, 4)), 2)),
    ]:
        with pytest.raises(ShapeError, match=message):
            mistake()
    with pytest.raises(OptionError, match="conv2d: padding must be numbers"):
        vg.conv2d(x, w, padding="full")


def test_resizing_by_areas_takes_means() -> None:
    x = vg.tensor(np.random.default_rng(3).normal(size=(2, 3, 5, 6)).astype(np.float32))
    for size in ((2, 3), (5, 4), (7, 1)):
        found = vg.interpolate(x, size=size, mode="area")
        np.testing.assert_array_equal(found.numpy(), vg.adaptive_avg_pool2d(x, size).numpy())


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 1}, {"stride": 2, "padding": 1}, {"dilation": 2, "stride": 1}, {"ceil_mode": True}]
)
def test_smallest_elements_and_sums_of_windows(dimensions: int, options: dict) -> None:
    """The smallest is minus the largest of the negative, and a sum is that many times the mean."""
    x = np.random.default_rng(4).permutation(2 * 7**dimensions).reshape(2, *(7,) * dimensions).astype(np.float32)
    smallest, largest = (getattr(vg, f"{kind}_pool{dimensions}d") for kind in ("min", "max"))

    def weighted(y: vg.Tensor) -> vg.Tensor:
        return (y * vg.arange(y.size, dtype=y.dtype).reshape(*y.shape)).sum()

    with vg.counting() as c:
        found, places = smallest(x, 3, return_indices=True, **options)
        gradient = vg.grad(lambda t: weighted(smallest(t, 3, **options)))(vg.tensor(x))
        vg.eval(found, places, gradient)
    assert c.host_nodes == 0
    expected, where = largest(-x, 3, return_indices=True, **options)
    np.testing.assert_array_equal(found.numpy(), -expected.numpy())
    np.testing.assert_array_equal(places.numpy(), where.numpy())
    opposite = vg.grad(lambda t: weighted(-largest(-t, 3, **options)))(vg.tensor(x))
    np.testing.assert_array_equal(gradient.numpy(), opposite.numpy())
    total = getattr(vg, f"sum_pool{dimensions}d")(x, 3, **options)
    if "dilation" not in options:
        mean = getattr(vg, f"avg_pool{dimensions}d")(vg.ones_like(vg.tensor(x)), 3, count_include_pad=False, **options)
        ones = getattr(vg, f"sum_pool{dimensions}d")(vg.ones_like(vg.tensor(x)), 3, **options)
        assert np.array_equal(mean.numpy() > 0, ones.numpy() > 0) and ones.numpy().max() == 3**dimensions
    windows = np.lib.stride_tricks.sliding_window_view(x, (3,) * dimensions, axis=tuple(range(1, dimensions + 1)))
    if options == {"stride": 1}:
        sums = windows.sum(tuple(range(-dimensions, 0)))
        np.testing.assert_array_equal(total.numpy(), sums)
        slope = vg.grad(lambda t: getattr(vg, f"sum_pool{dimensions}d")(t, 3, stride=1).sum())(vg.tensor(x)).numpy()
        assert slope.max() == 3**dimensions and slope.min() == 1, "overlapping windows add up"


def test_pooling_of_integers_and_ties() -> None:
    least = np.iinfo(np.int32).min
    x = np.array([[3, least, 3, 7]], np.int32)
    assert vg.min_pool1d(x, 2).tolist() == [[least, 3]]
    assert vg.sum_pool1d(np.array([[3, 1, 3, 7]], np.int32), 2).tolist() == [[4, 10]]
    assert vg.sum_pool1d(np.array([[True, True, False, True]]), 2).tolist() == [[2, 1]]
    tied = vg.grad(lambda t: vg.min_pool1d(t, 3, stride=1).sum())(vg.ones((1, 4)))
    assert tied.tolist() == [[1, 1, 0, 0]], "the first of equal ones"
    assert np.isnan(vg.min_pool1d(vg.tensor([[1.0, np.nan]]), 2).item())
