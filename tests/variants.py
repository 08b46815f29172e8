"""One array seen through many layouts, and the comparison of a tensor with an array.

Tolerances are units of rounding: `ULPS` of the largest element that took part, times what the caller says the operation
costs (the length of a sum, for example). Integers and masks must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import vkgrad as vg

# Element-wise functions are right to a few units on every device (tests/ops); sums add one unit a term at worst.
ULPS = 8.0


def draw(*shape: int, seed: int = 0, dtype: Any = np.float32, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers between low and high, the same at every call; integers include both ends."""
    generator = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return generator.integers(int(low), int(high) + 1, shape).astype(dtype)
    return generator.uniform(low, high, shape).astype(dtype)


def layouts(array: np.ndarray) -> Iterator[tuple[str, np.ndarray, vg.Tensor]]:
    """Yield (name, array, tensor): equal elements, where the tensor is a view that its reader must fold in."""
    yield "plain", array, vg.tensor(array)
    order = list(range(array.ndim))[::-1]
    yield "permuted", array, vg.permute_dims(vg.tensor(np.ascontiguousarray(array.transpose(order))), order)
    yield "flipped", array, vg.flip(vg.tensor(np.ascontiguousarray(np.flip(array))))
    if array.ndim:
        wide = np.repeat(array, 2, axis=-1)
        yield "strided", array, vg.tensor(wide)[..., ::2]
        first = array[:1]
        yield "broadcast", np.broadcast_to(first, array.shape), vg.broadcast_to(vg.tensor(first), array.shape)


def close(tensor: Any, expected: Any, cost: float = 1.0, largest: float | None = None, name: str = "") -> None:
    """Raise `AssertionError` unless type and shape are as expected and elements agree to `cost` times `ULPS`."""
    expected = np.asarray(expected)
    assert isinstance(tensor, vg.Tensor), f"{name}: got a {type(tensor).__name__}"
    found = tensor.numpy()
    assert found.shape == tensor.shape, f"{name}: promised shape {tensor.shape}, gave {found.shape}"
    assert found.shape == expected.shape, f"{name}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype == tensor.dtype.numpy, f"{name}: promised {tensor.dtype.name}, gave {found.dtype}"
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected), f"{name}: {found} is not {expected}"
        return
    assert expected.dtype.kind == "f", f"{name}: expected {expected.dtype}, got {found.dtype}"
    scale = largest if largest is not None else float(np.max(np.abs(expected), initial=0, where=np.isfinite(expected)))
    tolerance = cost * ULPS * np.finfo(found.dtype).eps * max(scale, 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, equal_nan=True, err_msg=name)


def subsets(ndim: int) -> list[Any]:
    """Every set of axes, None among them."""
    from itertools import combinations

    return [None, *(axes for count in range(ndim + 1) for axes in combinations(range(ndim), count))]


def named(cases: Sequence[tuple]) -> list[str]:
    return [str(case[0]) for case in cases]
