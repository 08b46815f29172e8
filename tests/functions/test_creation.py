"""Tensors made from nothing: as NumPy makes them, and without an upload."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.errors import OptionError, ShapeError


def test_constant_tensors() -> None:
    close(vg.zeros((2, 3)), np.zeros((2, 3), np.float32))
    close(vg.ones(4, dtype=vg.int32), np.ones(4, np.int32))
    close(vg.full((2, 2), 7), np.full((2, 2), 7, np.int32))
    close(vg.full((), 2.5), np.float32(2.5))
    close(vg.full((0, 3), True), np.ones((0, 3), bool))
    assert vg.empty((2, 3)).shape == (2, 3)
    x = vg.ones((2, 3), vg.int32)
    close(vg.zeros_like(x), np.zeros((2, 3), np.int32))
    close(vg.ones_like(x, dtype=vg.float32), np.ones((2, 3), np.float32))
    close(vg.full_like(x, 5), np.full((2, 3), 5))
    assert vg.empty_like(x).dtype is vg.int32


RANGES: list[tuple] = [
    (5,),
    (0,),
    (2, 7),
    (7, 2),
    (7, 2, -2),
    (0, 10, 3),
    (0.0, 1.0, 0.25),
    (1, 2, 0.3),
    (3, 3),
    (-1.5, 1.5),
]


@pytest.mark.parametrize("arguments", RANGES, ids=str)
def test_arange(arguments: Any) -> None:
    expected = np.arange(*arguments)
    close(vg.arange(*arguments), expected.astype(np.int32 if expected.dtype.kind == "i" else np.float32))
    start, stop, step = (*(arguments if len(arguments) > 1 else (0, *arguments)), 1)[:3]
    close(vg.arange(start, stop, step, dtype=vg.float32), expected.astype(np.float32))


def test_linspace_meets_both_ends() -> None:
    for start, stop, count in ((0, 1, 7), (-3.3, 9.1, 100), (5, 5, 3), (2, 1, 1), (0, 1, 0)):
        found = vg.linspace(start, stop, count)
        close(found, np.linspace(start, stop, count, dtype=np.float32))
        if count > 1:
            assert found.numpy()[[0, -1]].tolist() == np.array([start, stop], np.float32).tolist()
    close(vg.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False, dtype=np.float32))


@pytest.mark.parametrize("k", [-5, -1, 0, 2, 5])
def test_triangles_and_diagonals(k: int) -> None:
    close(vg.eye(3, 4, k), np.eye(3, 4, k, np.float32))
    close(vg.tri(3, 4, k), np.tri(3, 4, k, np.float32))
    for name, array, tensor in layouts(draw(2, 3, 4)):
        close(vg.tril(tensor, k), np.tril(array, k), name=name)
        close(vg.triu(tensor, k), np.triu(array, k), name=name)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_triangles_keep_their_type(dtype: str) -> None:
    close(vg.triu(vg.tensor(np.ones((3, 3), dtype)), 1), np.triu(np.ones((3, 3), dtype), 1))
    close(vg.tril(vg.tensor(np.ones((3, 3), dtype))), np.tril(np.ones((3, 3), dtype)))


def test_one_hot() -> None:
    index = np.array([[0, 2], [3, -1]], np.int32)
    expected = (index[..., None] == np.arange(3)).astype(np.float32)
    close(vg.one_hot(index, 3), expected)
    close(vg.one_hot(vg.tensor(index), 3, dtype=vg.int32), expected.astype(np.int32))


def test_nothing_is_uploaded() -> None:
    vg.flush()
    with vg.counting() as counts:
        vg.eval(
            vg.zeros((3, 4)) + 1, vg.arange(5), vg.linspace(0, 1, 5), vg.eye(3), vg.tri(3), vg.one_hot(vg.arange(3), 4)
        )
    assert counts.bytes_uploaded == 0
    assert counts.dispatches > 0
    with vg.counting() as control:
        vg.eval(vg.tensor([1.0, 2.0]) + 1)
    assert control.bytes_uploaded == 8


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match="shape: extents must not be negative"):
        vg.zeros((2, -1))
    with pytest.raises(OptionError, match="arange: step must not be 0"):
        vg.arange(0, 1, 0)
    with pytest.raises(ShapeError, match="tril: a matrix has at least 2 axes"):
        vg.tril(vg.ones(3))
