"""`x[...]` and `x.at[...]` against NumPy: every kind of index and mixtures of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.errors import DTypeError, ShapeError, VkgradError

X = draw(4, 3, 5)
I = np.array([0, 2, -1])  # noqa: E741
J = np.array([[1], [0]])

BASIC: list[Any] = [
    1, -1, (1, 2), (1, 2, 3), (slice(None), -1), slice(1, 3), slice(None, None, 2), slice(None, None, -1),
    slice(3, 0, -2), slice(-1, None, -3), slice(2, 2), slice(5, 1), slice(-100, 100), (Ellipsis, 0), (0, Ellipsis),
    (Ellipsis, slice(1, None)), Ellipsis, None, (None, 1, None), (slice(None), None, slice(None, None, -1)),
    (1, Ellipsis, None, slice(4, None, -2)), (), (slice(1), slice(2), slice(3)), np.int64(2),
]  # fmt: skip

ARRAYS: list[Any] = [
    I, (I,), (slice(None), I[:2]), (Ellipsis, I), (I, I[:3]), (I, 1), (1, I[:2]), (1, slice(None), I),
    (I, slice(None), I),
    (slice(None), I[:2], J), (J, I[:2]), (J, slice(None), I), (slice(1, 3), I[:1], slice(None, None, 2)), (None, I),
    (I, None, I), (slice(None), None, I[:2], 0), [0, 3, 3], (slice(None), [2, 0]), np.zeros((0,), int),
    X[:, 0, 0] > 0, X[..., 0] > 0, X > 0, (slice(None), np.array([True, False, True])),
    (I[:2], X[0] > np.sort(X[0].ravel())[-3]),
]  # fmt: skip


@pytest.mark.parametrize("index", BASIC + ARRAYS, ids=lambda index: repr(index).replace("\n", ""))
def test_reading(index: Any) -> None:
    results = [(name, tensor[index], array[index]) for name, array, tensor in layouts(X)]
    for name, found, expected in results:
        close(found, expected, name=name)


@pytest.mark.parametrize("index", [I, (slice(None), I[:2], J), (1, slice(None), I)], ids=str)
def test_reading_by_tensors(index: Any) -> None:
    parts = index if isinstance(index, tuple) else (index,)
    tensors = tuple(vg.tensor(part, dtype=vg.int32) if isinstance(part, np.ndarray) else part for part in parts)
    close(vg.tensor(X)[tensors], X[index])


def test_views_are_not_copied() -> None:
    x = vg.tensor(X)
    vg.flush()
    with vg.counting() as counts:
        vg.eval(vg.exp(x[::2, ::-1, None, 1]))
    assert counts.dispatches == 1


def test_iterating_gives_the_first_axis() -> None:
    x = vg.tensor(X)
    assert len(x) == 4
    for found, expected in zip(x, X, strict=True):
        close(found, expected)
    with pytest.raises(TypeError, match="no length"):
        len(vg.tensor(1.0))


@pytest.mark.parametrize("index", BASIC + ARRAYS, ids=lambda index: repr(index).replace("\n", ""))
def test_writing(index: Any) -> None:
    tensor = vg.permute_dims(vg.tensor(np.ascontiguousarray(X.transpose(2, 0, 1))), (1, 2, 0))
    values = draw(*X[index].shape, seed=3)
    expected: dict[str, np.ndarray] = {name: X.copy() for name in ("set", "add", "multiply", "max", "min", "one")}
    expected["set"][index] = values
    expected["one"][index] = 1
    for name, ufunc in (("add", np.add), ("multiply", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        ufunc.at(expected[name], index, values)
    found = {name: getattr(tensor.at[index], name)(values) for name in ("add", "multiply", "max", "min")}
    found["one"] = tensor.at[index].set(1)
    # NumPy keeps any of the values sent to one place; here it is the last, so where places repeat only `add` decides.
    repeated = X.size and np.unique(np.arange(X.size).reshape(X.shape)[index]).size < X[index].size
    if not repeated:
        found["set"] = tensor.at[index].set(values)
    vg.eval(found)
    for name, result in found.items():
        close(result, expected[name], cost=4, name=name)


def test_duplicates() -> None:
    x = vg.zeros((3,))
    index = [0, 0, 2]
    assert x.at[index].set([1.0, 2.0, 3.0]).tolist() == [2, 0, 3]
    assert x.at[index].add([1.0, 2.0, 3.0]).tolist() == [3, 0, 3]
    assert (x + 1).at[index].multiply([2.0, 3.0, 4.0]).tolist() == [6, 1, 4]
    assert x.at[index].max([1.0, 2.0, -3.0]).tolist() == [2, 0, 0]
    assert x.at[vg.tensor(index)].add(1.0).tolist() == [2, 0, 1]
    assert x.at[vg.tensor([5, 1])].set(1.0).tolist() == [0, 1, 0]  # out of range goes nowhere


def test_writing_by_a_mask() -> None:
    x = draw(2, 3)
    mask = vg.tensor(x) > 0
    close(vg.tensor(x).at[mask].set(0), np.where(x > 0, 0, x))
    close(vg.tensor(x).at[mask[0]].add(1), np.where(x[0] > 0, x + 1, x))
    with pytest.raises(ShapeError, match=r"at: .*\(4,\)"):
        vg.tensor(x).at[vg.ones((4,), vg.bool_)].set(0)


def test_writing_takes_the_type_of_the_tensor() -> None:
    found = vg.zeros((2,), vg.int32).at[0].set(2.7)
    close(found, np.array([2, 0]))
    close(vg.zeros((2,), vg.bool_).at[1].set(True), np.array([False, True]))


@pytest.mark.parametrize("index", [(1, slice(None, None, -2)), (I, slice(None), [0, 1, 0]), [0, 0, 1]], ids=str)
@pytest.mark.usefixtures("on_cpu")
def test_gradients(index: Any) -> None:
    x = vg.tensor(X.astype(np.float64))
    values = vg.tensor(draw(*X[index].shape, seed=3, dtype=np.float64))
    vg.testing.check_grads(lambda x: x[index], (x,), order=1)
    for name in ("set", "add", "multiply", "max"):
        vg.testing.check_grads(lambda x, v, name=name: getattr(x.at[index], name)(v), (x, values), order=1)


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (4, ShapeError, r"index 4 is out of range for axis 0 of shape \(4, 3, 5\)"),
    ((0, -4), ShapeError, "index -4 is out of range for axis 1"),
    ((0, 0, 0, 0), ShapeError, "4 indices are too many"),
    ((Ellipsis, Ellipsis), ShapeError, "only one"),
    ([0, 4], ShapeError, "index 4 is out of range for extent 4"),
    (0.5, DTypeError, "indices are integers, slices"),
    ("a", DTypeError, "not str"),
    (np.array([0.5]), DTypeError, "an index must be of integers"),
    (np.array([True, False]), ShapeError, r"a mask of shape \(2,\) does not cover"),
    (True, ShapeError, "vg.where"),
    ((I, I[:2]), ShapeError, "do not broadcast"),
]


@pytest.mark.parametrize(("index", "kind", "message"), MISTAKES, ids=str)
def test_mistakes_are_named(index: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        vg.tensor(X)[index]


def test_a_mask_on_the_device_is_counted_and_then_a_lookup() -> None:
    x = vg.tensor(X)
    for mask in (X > 0, X > 99, X[..., 0] > 0, np.ones(X.shape, bool)):
        close(x[vg.tensor(mask)], X[mask])
    close(x[:, vg.tensor(X[0] > 0)], X[:, X[0] > 0])
    close(x[vg.tensor(X[:, :, 0] > 0), 1], X[X[:, :, 0] > 0, 1])
    found = vg.grad(lambda x: (x[x > 0] ** 2).sum())(x)
    close(found, np.where(X > 0, 2 * X, 0))
    with pytest.raises(ShapeError, match=r"a mask of shape \(2,\) does not cover"):
        x[vg.tensor([True, False])]
    with pytest.raises(VkgradError):
        vg.jit(lambda x: x[x > 0])(x)


def test_nonzero() -> None:
    for array in (X > 0, np.where(X > 0, X, 0), np.zeros((3, 2)), np.ones(5), np.zeros((0, 2))):
        for found, wanted in zip(vg.nonzero(vg.tensor(array)), np.nonzero(array), strict=True):
            close(found, wanted.astype("i4"))
    with vg.counting() as counts:
        (found,) = vg.nonzero(vg.tensor([0, 3, 0, 4]), size=3)
    assert counts.flushes == 0 and found.tolist() == [1, 3, 3]
    with pytest.raises(ShapeError, match="at least one axis"):
        vg.nonzero(1.0)


def test_tensors_do_not_change_in_place() -> None:
    with pytest.raises(TypeError, match=r"x = x\.at\[index\]\.set\(value\)"):
        vg.tensor(X)[0] = 1.0
    with pytest.raises(ShapeError, match=r"at: .*\(7,\)"):
        vg.tensor(X).at[0].set(np.ones(7, np.float32))
