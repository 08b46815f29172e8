"""Views and joins against NumPy, and that views are views: they add no dispatch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts, named
from vkgrad.errors import ShapeError

X = draw(2, 3, 4)

# (name, ours, NumPy's) on an array of shape (2, 3, 4)
VIEWS: list[tuple[str, Callable, Callable]] = [
    ("reshape", lambda x: vg.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    ("reshape by numbers", lambda x: x.reshape(6, -1), lambda x: x.reshape(6, -1)),
    ("reshape to one axis", lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    ("flatten", lambda x: vg.flatten(x), lambda x: x.ravel()),
    ("flatten from 1", lambda x: vg.flatten(x, 1), lambda x: x.reshape(2, 12)),
    ("ravel", lambda x: vg.ravel(x), np.ravel),
    ("expand_dims", lambda x: vg.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    ("squeeze", lambda x: vg.squeeze(x[:, :1, :1], 2), lambda x: np.squeeze(x[:, :1, :1], 2)),
    ("squeeze all", lambda x: vg.squeeze(x[:, :1, :1]), lambda x: np.squeeze(x[:, :1, :1])),
    ("transpose", lambda x: vg.transpose(x), np.transpose),
    ("T", lambda x: x.T, lambda x: x.T),
    ("mT", lambda x: x.mT, lambda x: np.swapaxes(x, -1, -2)),
    ("matrix_transpose", lambda x: vg.matrix_transpose(x), lambda x: np.swapaxes(x, -1, -2)),
    ("swapaxes", lambda x: vg.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1)),
    ("moveaxis", lambda x: vg.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    ("moveaxis of two", lambda x: vg.moveaxis(x, (0, 2), (2, 0)), lambda x: np.moveaxis(x, (0, 2), (2, 0))),
    ("permute", lambda x: x.permute(1, 2, 0), lambda x: x.transpose(1, 2, 0)),
    ("permute by a tuple", lambda x: x.permute((-1, 0, 1)), lambda x: x.transpose(-1, 0, 1)),
    ("flip", lambda x: vg.flip(x, (0, -1)), lambda x: np.flip(x, (0, -1))),
    ("broadcast_to", lambda x: vg.broadcast_to(x[:, :1], (5, 2, 3, 4)),
     lambda x: np.broadcast_to(x[:, :1], (5, 2, 3, 4))),
    ("diagonal", lambda x: vg.diagonal(x), lambda x: np.diagonal(x)),
    ("diagonal off", lambda x: vg.diagonal(x, 1, 2, 1), lambda x: np.diagonal(x, 1, 2, 1)),
    ("diagonal below", lambda x: vg.diagonal(x, -1, 1, 2), lambda x: np.diagonal(x, -1, 1, 2)),
    ("diagonal outside", lambda x: vg.diagonal(x, 9), lambda x: np.diagonal(x, 9)),
    ("pad", lambda x: vg.pad(x, 1, 7.5), lambda x: np.pad(x, 1, constant_values=7.5)),
    ("pad by pairs", lambda x: vg.pad(x, [(0, 0), (2, 0), (0, 1)]), lambda x: np.pad(x, [(0, 0), (2, 0), (0, 1)])),
    ("pad by a pair", lambda x: vg.pad(x, (1, 0)), lambda x: np.pad(x, (1, 0))),
    ("pad that cuts", lambda x: vg.pad(x, [(0, 0), (-1, 1), (2, -3)]),
     lambda x: np.pad(x[:, 1:, :1], [(0, 0), (0, 1), (2, 0)])),
]  # fmt: skip

JOINS: list[tuple[str, Callable, Callable]] = [
    ("concat", lambda x: vg.concat([x, x[:1] * 2]), lambda x: np.concatenate([x, x[:1] * 2])),
    ("concat along the last", lambda x: vg.concat([x, x, x[..., :1]], -1),
     lambda x: np.concatenate([x, x, x[..., :1]], -1)),
    ("concat flat", lambda x: vg.concat([x, x[0]], None), lambda x: np.concatenate([x, x[0]], None)),
    ("concat of one", lambda x: vg.concatenate([x]), lambda x: x),
    ("concat with nothing", lambda x: vg.concat([x[:0], x, x[:0]]), lambda x: x),
    ("stack", lambda x: vg.stack([x, x + 1], 1), lambda x: np.stack([x, x + 1], 1)),
    ("stack at the end", lambda x: vg.stack([x, x + 1], -1), lambda x: np.stack([x, x + 1], -1)),
    ("unstack", lambda x: vg.unstack(x, 1)[2], lambda x: x[:, 2]),
    ("split", lambda x: vg.split(x, 2, 2)[1], lambda x: np.split(x, 2, 2)[1]),
    ("split at", lambda x: vg.split(x, [1, -1, 9], 1)[1], lambda x: np.split(x, [1, -1, 9], 1)[1]),
    ("split beyond", lambda x: vg.split(x, [1, 9], 1)[2], lambda x: np.split(x, [1, 9], 1)[2]),
    ("tile", lambda x: vg.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    ("tile more axes", lambda x: vg.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    ("tile the last", lambda x: vg.tile(x, 2), lambda x: np.tile(x, 2)),
    ("repeat", lambda x: vg.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1)),
    ("repeat flat", lambda x: vg.repeat(x, 2), lambda x: np.repeat(x, 2)),
    ("roll", lambda x: vg.roll(x, 5, 1), lambda x: np.roll(x, 5, 1)),
    ("roll back two", lambda x: vg.roll(x, (-1, 1), (0, 2)), lambda x: np.roll(x, (-1, 1), (0, 2))),
    ("roll twice", lambda x: vg.roll(x, (1, 2), 2), lambda x: np.roll(x, (1, 2), 2)),
    ("roll flat twice", lambda x: vg.roll(x, (1, 2)), lambda x: np.roll(x, (1, 2))),
    ("roll two as one", lambda x: vg.roll(x, 1, (0, 2)), lambda x: np.roll(x, 1, (0, 2))),
    ("roll flat", lambda x: vg.roll(x, 5), lambda x: np.roll(x, 5)),
    ("trace", lambda x: vg.trace(x), lambda x: np.trace(x, axis1=-2, axis2=-1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "ours", "reference"), VIEWS + JOINS, ids=named(VIEWS + JOINS))
def test_against_numpy(name: str, ours: Callable, reference: Callable) -> None:
    results = [(layout, ours(tensor), reference(array)) for layout, array, tensor in layouts(X)]
    for layout, found, expected in results:
        close(found, expected, name=layout)
    whole = (X * 10).astype(np.int32)
    close(ours(vg.tensor(whole)), reference(whole), name="int32")


@pytest.mark.parametrize(("name", "ours", "reference"), VIEWS + JOINS, ids=named(VIEWS + JOINS))
@pytest.mark.usefixtures("on_cpu")
def test_gradients(name: str, ours: Callable, reference: Callable) -> None:
    vg.testing.check_grads(ours, (vg.tensor(X.astype(np.float64)),), order=1)


@pytest.mark.parametrize(("name", "ours", "reference"), VIEWS, ids=named(VIEWS))
def test_views_fold_into_their_reader(name: str, ours: Callable, reference: Callable) -> None:
    x = vg.tensor(X)
    vg.flush()
    with vg.counting() as counts:
        vg.eval(vg.exp(ours(x)))
    assert counts.dispatches == (1 if reference(X).size else 0)


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_each_order_of_four_axes(order: tuple[int, ...]) -> None:
    array = draw(2, 3, 1, 4)
    close(vg.permute_dims(vg.tensor(array), order) * 2, array.transpose(order) * 2)


def test_joining_keeps_bits() -> None:
    x = np.array([-0.0, np.nan, np.inf], np.float32)
    assert np.signbit(vg.concat([x, x]).numpy()).tolist() == np.signbit(np.concatenate([x, x])).tolist()


def test_joining_promotes() -> None:
    assert vg.concat([vg.ones(2, vg.int32), vg.ones(1)]).dtype is vg.float32
    close(vg.concat([np.array([True]), np.array([False])]), np.array([True, False]))


def test_grids() -> None:
    for indexing in ("xy", "ij"):
        lines = [draw(3), draw(2, seed=1), draw(4, seed=2)]
        for found, expected in zip(
            vg.meshgrid(*lines, indexing=indexing), np.meshgrid(*lines, indexing=indexing), strict=True
        ):
            close(found, expected)
    close(vg.meshgrid(lines[0])[0], lines[0])


def test_broadcast_arrays() -> None:
    found = vg.broadcast_arrays(np.ones((2, 1), np.float32), vg.ones((3,)), 2.0)
    assert [x.shape for x in found] == [(2, 3)] * 3


MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("reshape: .*24 elements do not divide by 5", lambda: vg.reshape(X, (5, -1))),
    ("reshape: .* has 24 elements", lambda: vg.reshape(X, (5, 5))),
    ("reshape: only one extent may be -1", lambda: vg.reshape(X, (-1, -1))),
    ("squeeze: axis 1 of shape .* has extent 3", lambda: vg.squeeze(X, 1)),
    ("permute: .* must name each of the 3 axes", lambda: vg.permute_dims(X, (0, 1))),
    ("permute: .* of shape .* once", lambda: vg.permute_dims(X, (0, 1, 3))),
    ("moveaxis: axis 3 is out of range", lambda: vg.moveaxis(X, 3, 0)),
    ("moveaxis: source", lambda: vg.moveaxis(X, (0, 1), (2, 2))),
    ("broadcast_to: shape", lambda: vg.broadcast_to(vg.ones((2, 3)), (3,))),
    ("diagonal: axis1 and axis2", lambda: vg.diagonal(X, 0, 1, 1)),
    ("diagonal: needs at least 2 axes", lambda: vg.diagonal(vg.ones(3))),
    ("pad: needs a number", lambda: vg.pad(X, [(1, 1), (0, 0)])),
    ("pad: widths .* cut more", lambda: vg.pad(X, [(-2, -1), (0, 0), (0, 0)])),
    ("concat: needs at least one", lambda: vg.concat([])),
    ("concat: shapes .* differ on other axes than axis 0", lambda: vg.concat([X, X[:, :2]])),
    ("stack: needs tensors of one shape", lambda: vg.stack([X, X[:1]])),
    ("split: extent 3 of axis 1", lambda: vg.split(X, 2, 1)),
    ("tile: nothing is repeated -1 times", lambda: vg.tile(X, (1, -1))),
    ("repeat: nothing is repeated -1 times", lambda: vg.repeat(X, -1)),
    ("roll: 2 shifts do not go with 3 axes", lambda: vg.roll(X, (1, 2), (0, 1, 2))),
    ("flatten: start_dim", lambda: vg.flatten(X, 2, 1)),
]


@pytest.mark.parametrize(("message", "mistake"), MISTAKES, ids=named(MISTAKES))
def test_mistakes_are_named(message: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(ShapeError, match=message):
        mistake()


@pytest.mark.parametrize("widths", [((1, 2), (0, 3)), ((-1, 2), (1, -2)), ((0, 0), (0, 0))])
@pytest.mark.parametrize("interior", [0, 1, (2, 0)])
def test_padding_between_neighbours_and_by_a_tensor(widths: Any, interior: Any) -> None:
    x = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
    between = (interior, interior) if isinstance(interior, int) else interior
    spread = np.full([e + (e - 1) * p for e, p in zip(x.shape, between, strict=True)], 7.0, np.float32)
    spread[:: between[0] + 1, :: between[1] + 1] = x
    wide = np.pad(spread, [(max(a, 0), max(c, 0)) for a, c in widths], constant_values=7.0)
    cut = tuple(slice(max(-a, 0), extent - max(-c, 0)) for (a, c), extent in zip(widths, wide.shape, strict=True))
    expected = wide[cut]
    np.testing.assert_array_equal(vg.pad(x, widths, 7.0, interior=interior).numpy(), expected)
    np.testing.assert_array_equal(vg.pad(x, widths, vg.tensor(7.0), interior=interior).numpy(), expected)
    slope = vg.grad(lambda t: vg.pad(x, widths, t, interior=interior).sum())(vg.tensor(7.0)).item()
    assert slope == (vg.pad(x, widths, 0.0, interior=interior).numpy() == 0).sum()


def test_ends_of_a_range_may_be_tensors() -> None:
    slopes = [vg.grad(lambda t: (vg.linspace(0.0, t, 4) ** 2).sum())(vg.tensor(1.5)).item()]
    slopes += [vg.grad(lambda t: (vg.linspace(t, 0.0, 4) ** 2).sum())(vg.tensor(1.5)).item()]
    assert slopes == pytest.approx([2 * 1.5 * (1 + 4 + 9) / 9] * 2, rel=1e-5)
    geometric = vg.grad(lambda t: (vg.geomspace(1.0, t, 3) ** 2).sum())(vg.tensor(1.5)).item()
    assert geometric == pytest.approx(1 + 2 * 1.5, rel=1e-5), "1 + t + t**2"
