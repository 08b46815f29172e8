"""Indices of maxima, what undoes pooling, and windows as columns."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad import nn
from vkgrad.errors import DTypeError, ShapeError


def test_unpooling_brings_every_maximum_back() -> None:
    x = chirp((2, 3, 6, 9), 1.0, 0.4)
    largest, places = nn.MaxPool2d(3, return_indices=True)(x)
    again = nn.MaxUnpool2d(3)(largest, places).numpy()
    assert places.dtype is vg.int32 and again.shape == x.shape
    kept = again != 0
    assert np.array_equal(again[kept], x[kept]) and kept.sum() == largest.size
    assert np.array_equal(nn.MaxPool2d(3)(again * kept + -9.0 * ~kept), largest)


def test_a_maximum_of_two_windows_comes_back_once() -> None:
    x = vg.tensor([[[0.0, 1.0, 5.0, 2.0, 0.0]]])
    largest, places = vg.max_pool1d(x, 3, 1, return_indices=True)
    assert places.tolist() == [[[2, 2, 2]]]
    assert vg.max_unpool1d(largest, places, 3, 1).tolist() == [[[0.0, 0.0, 5.0, 0.0, 0.0]]]


def test_ties_and_nan_have_the_index_of_the_first() -> None:
    x = vg.tensor([[[1.0, 1.0, 0.0, np.nan, 2.0, np.nan]]])
    assert vg.max_pool1d(x, 3, return_indices=True)[1].tolist() == [[[0, 3]]]


def test_a_recorded_step_gives_the_same_indices() -> None:
    pool = nn.AdaptiveMaxPool2d((2, 3), return_indices=True)
    x = vg.tensor(chirp((1, 2, 5, 7), 1.0, 0.2))
    plain, recorded = pool(x), vg.jit(pool)(x)
    assert all(np.array_equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_folding_is_the_gradient_of_unfolding() -> None:
    options = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    x = vg.tensor(chirp((2, 2, 5, 7), 1.0, 0.3))
    columns, pull = vg.vjp(lambda x: nn.Unfold(**options)(x), x)
    g = vg.tensor(chirp(columns.shape, 1.0, 0.9))
    assert np.allclose(pull(g)[0], nn.Fold((5, 7), **options)(g), atol=1e-6)


def test_windows_are_views_and_folding_adds_in_one_kernel() -> None:
    x = vg.tensor(chirp((1, 2, 6, 6), 1.0, 0.3))
    assert len(vg.plan(nn.Unfold(3)(x)).kernels) == 1
    assert len(vg.plan(nn.LocalResponseNorm(3)(x)).kernels) <= 2


def test_a_root_of_nothing_has_no_slope() -> None:
    pool = nn.LPPool1d(2, 2)
    slope = vg.grad(lambda x: pool(x).sum())(vg.tensor([[[0.0, 0.0, 3.0, 4.0]]]))
    assert np.allclose(slope, [[[0.0, 0.0, 0.6, 0.8]]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vg.max_unpool1d(vg.zeros((1, 2)), vg.zeros((1, 2)), 2), DTypeError, "as max_pool1d returns"),
        (lambda: vg.max_unpool1d(vg.zeros((1, 2)), vg.tensor([[1]]), 2), ShapeError, "as many indices"),
        (
            lambda: vg.max_unpool1d(vg.zeros((1, 2)), vg.tensor([[1, 2]]), 2, output_size=(9,)),
            ShapeError,
            r"output_size \(9,\) must be less than a stride from \(4,\)",
        ),
        (lambda: nn.Unfold(2)(vg.zeros((4, 4))), ShapeError, "Unfold: takes"),
        (lambda: nn.Fold(4, 2)(vg.zeros((1, 4, 5))), ShapeError, r"need \(B, C \* 4, 9\), got \(1, 4, 5\)"),
        (lambda: nn.ChannelShuffle(2)(vg.zeros((1, 3, 4))), ShapeError, "divides into 2 groups"),
        (lambda: nn.functional.pdist(vg.zeros((3,))), ShapeError, r"takes rows \(N, D\)"),
    ],
)
def test_mistakes_are_refused(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
