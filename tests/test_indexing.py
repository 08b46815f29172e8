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
    (Ellipsis, X[0, 0] > 0), (0, Ellipsis, X[0, 0] > 0), (Ellipsis, None, X[0] > 0), True, False, (slice(1), True),
    (True, I), (I, None, True), (0, True, slice(None, None, -1)), np.array(False), (slice(None), (0, 2)), range(3),
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
    far = vg.tensor([5, 1])
    vg.eval(far)
    assert x.at[far].set(1.0).tolist() == [0, 1, 0]  # out of range on the device goes nowhere


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


def some_index(generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """An index that fits: any kind for each axis, with new axes, masks over several axes, and `...` somewhere."""
    entries: list[Any] = []
    common = tuple(generator.integers(1, 4, generator.integers(0, 3)))  # what the integer arrays broadcast to
    axis = 0
    while axis < len(shape):
        extent = shape[axis]
        kind = generator.choice(["all", "integer", "slice", "slice", "array", "mask", "masks", "new", "bool", "stop"])
        if kind == "stop":
            break
        if kind in ("new", "bool"):
            entries.append(None if kind == "new" else True)
            continue
        if kind == "masks" and axis + 2 <= len(shape):
            mask = np.zeros(shape[axis : axis + 2], bool)
            if len(common) == 1 and mask.size >= common[0]:  # as many as the arrays have
                mask.reshape(-1)[generator.permutation(mask.size)[: common[0]]] = True
                entries.append(mask)
                axis += 2
                continue
        if kind == "mask" and len(common) == 1 and extent >= common[0]:
            mask = np.zeros(extent, bool)
            mask[generator.permutation(extent)[: common[0]]] = True
            entries.append(mask)
        elif kind == "integer" and extent:
            entries.append(int(generator.integers(-extent, extent)))
        elif kind == "slice":
            ends = [None if generator.random() < 0.3 else int(generator.integers(-7, 8)) for _ in range(2)]
            entries.append(slice(*ends, int(generator.choice([1, 1, 2, -1, -2, 3]))))
        elif kind == "array" and extent:
            own = tuple(1 if generator.random() < 0.2 else e for e in common[generator.integers(0, len(common) + 1) :])
            entries.append(generator.integers(-extent, extent, own))
        else:
            entries.append(slice(None))
        axis += 1
    if axis < len(shape) or generator.random() < 0.3:
        entries.append(Ellipsis)
        while axis < len(shape) and generator.random() < 0.4 and shape[-1]:  # one more behind it
            entries.append(int(generator.integers(0, shape[-1])) if generator.random() < 0.5 else slice(None, None, -1))
            break
    return tuple(entries)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("on_cpu")
def test_any_index_reads_and_writes_as_numpy_does(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(30):
        shape = tuple(
            int(e)
            for e in generator.choice([1, 2, 3, 4, 5, 0], generator.integers(1, 5), p=[0.1, 0.2, 0.3, 0.2, 0.17, 0.03])
        )
        index = some_index(generator, shape)
        array = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        try:
            expected = array[index]
        except IndexError:  # arrays of one element beside masks of more do broadcast, others do not
            with pytest.raises(VkgradError):
                vg.tensor(array)[index]
            continue
        told = f"{shape}[{index}]"
        close(vg.tensor(array)[index], expected, name=told)
        on_device = tuple(
            vg.tensor(e, dtype=vg.int32) if isinstance(e, np.ndarray) and e.dtype != bool else e for e in index
        )
        close(vg.tensor(array)[on_device], expected, name=told)
        values = generator.integers(1, 4, expected.shape).astype(np.float32)
        for name, ufunc in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("max", np.maximum)):
            written = array.copy()
            ufunc.at(written, index, values)
            close(getattr(vg.tensor(array).at[index], name)(values), written, cost=4, name=f"{told} {name}")
        if np.unique(expected).size == expected.size:  # no place twice
            written = array.copy()
            written[index] = values
            close(vg.tensor(array).at[index].set(values), written, name=f"{told} set")


def test_every_way_to_write() -> None:
    x = vg.tensor([1.0, 2.0, 4.0])
    places = x.at[[0, 2, 2]]
    assert places.subtract([1.0, 2.0, 3.0]).tolist() == [0, 2, -1]
    assert places.divide([2.0, 4.0, 2.0]).tolist() == [0.5, 2, 0.5]
    assert places.power([3.0, 2.0, 0.5]).tolist() == pytest.approx([1, 2, 4])
    assert places.get().tolist() == [1, 4, 4]
    assert x.at[1:].apply(lambda part: part * 10).tolist() == [1, 20, 40]
    mask = vg.tensor([True, False, True])
    assert x.at[mask].divide(2.0).tolist() == [0.5, 2, 2] and x.at[mask].subtract(1).tolist() == [0, 2, 3]
    assert x.at[mask].power(2).tolist() == [1, 2, 16] and x.at[mask].get().tolist() == [1, 4]
    close(vg.grad(lambda v: x.at[[0, 2, 2]].divide(v).sum())(vg.tensor([2.0, 4.0, 2.0])),
          np.array([-0.25, -0.125, -0.25], np.float32))  # fmt: skip
    with pytest.raises(DTypeError, match="at: int32 cannot hold quotients"):
        vg.tensor([1, 2]).at[0].divide(2)


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (4, ShapeError, r"index 4 is out of range for axis 0 of shape \(4, 3, 5\)"),
    ((0, -4), ShapeError, "index -4 is out of range for axis 1"),
    ((0, 0, 0, 0), ShapeError, "4 indices are too many"),
    ((Ellipsis, Ellipsis), ShapeError, "only one"),
    ([0, 4], ShapeError, "index 4 is out of range for 4 places"),
    (0.5, DTypeError, "indices are integers, slices"),
    ("a", DTypeError, "not str"),
    (np.array([0.5]), DTypeError, "an index must be of integers"),
    (np.array([True, False]), ShapeError, r"a mask of shape \(2,\) does not cover"),
    ((True, False, I), ShapeError, "do not broadcast"),
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
