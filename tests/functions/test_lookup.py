"""`take` and `take_along_axis` against NumPy, with indices from the host and from the device."""

from __future__ import annotations

import math

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.errors import DTypeError, ShapeError


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_take(axis: int | None) -> None:
    for index in (np.array([0, 2, 2]), np.array([[1, -1], [0, 0]]), np.int64(1), np.array([], int), [1, 0]):
        expected = np.take(draw(3, 3, 4), np.asarray(index, int), axis)
        close(vg.take(draw(3, 3, 4), index, axis), expected)
        on_device = vg.tensor(np.asarray(index), dtype=vg.int32)
        close(vg.tensor(draw(3, 3, 4)).take(on_device, axis), expected)


def test_take_in_every_layout() -> None:
    for name, array, tensor in layouts(draw(3, 4)):
        close(vg.take(tensor, [3, 0], 1), np.take(array, [3, 0], 1), name=name)


def test_a_kernel_cannot_raise() -> None:
    x = vg.tensor([1.0, 2.0])
    far, index = vg.tensor([5]), vg.tensor([0, 5, -3])
    for given in (far, index):  # what the host still has is looked at
        with pytest.raises(ShapeError, match="take: index 5 is out of range for 2 places, 0 to 1"):
            vg.take(x, given, 0)
    vg.eval(far, index)
    found = vg.take(x, index, 0).tolist()
    assert found[0] == 1 and math.isnan(found[1]) and math.isnan(found[2])
    assert vg.take(vg.tensor([1, 2]), far, 0).tolist() == [0]
    assert math.isnan(vg.take_along_axis(x, far, 0).item())
    assert vg.take_along_axis(vg.tensor([1, 2]), far, 0).tolist() == [0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    x = draw(3, 4)
    index = np.argsort(x, axis)
    close(vg.take_along_axis(x, index, axis), np.take_along_axis(x, index, axis))
    part = np.take(index, [0, -1], axis) - 2 * (axis == 0)
    close(vg.take_along_axis(x, part, axis), np.take_along_axis(x, part, axis))
    close(vg.take_along_axis(x > 0, index, axis), np.take_along_axis(x > 0, index, axis))
    wide = vg.tensor(index[:, :1] if axis == 0 else index[:1], dtype=vg.int32)
    close(vg.take_along_axis(x, wide, axis), np.take_along_axis(x, wide.numpy(), axis))


def test_take_along_axis_passes_no_nan_along() -> None:
    x = np.array([[1, math.nan, math.inf]], np.float32)
    close(vg.take_along_axis(x, np.array([[0, 2]]), 1), np.array([[1, math.inf]], np.float32))


@pytest.mark.usefixtures("on_cpu")
def test_gradients() -> None:
    x, index = vg.tensor(draw(3, 4, dtype=np.float64)), np.array([[0, 2, 0, 1]])
    vg.testing.check_grads(lambda x: vg.take(x, [0, 2, 2], 1), (x,))
    vg.testing.check_grads(lambda x: vg.take(x, [[0, 2], [2, 1]], 0), (x,))
    vg.testing.check_grads(lambda x: vg.take_along_axis(x, index, 0), (x,))


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match="take: index 4 is out of range for 3 places"):
        vg.take(vg.ones(3), [0, 4], 0)
    with pytest.raises(ShapeError, match="take: index -4"):
        vg.take(vg.ones(3), -4, 0)
    with pytest.raises(DTypeError, match="take: an index must be of integers, got float64"):
        vg.take(vg.ones(3), [0.5], 0)
    with pytest.raises(DTypeError, match="take: an index must be of integers, got float32"):
        vg.take(vg.ones(3), vg.ones(1), 0)
    with pytest.raises(ShapeError, match="take_along_axis: indices of shape"):
        vg.take_along_axis(vg.ones((3, 2)), [0], 0)
