"""Double precision on a Vulkan device, differentiated twice: the same as the CPU device's NumPy, to a few more ulps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from benchmarks import ulps
from vkgrad.config import config
from vkgrad.ir.op import OPS
from vkgrad.tensor import apply

pytestmark = pytest.mark.device


def derivatives(name: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The values, and the first and second derivatives with respect to each operand."""

    def summed(*operands: vg.Tensor) -> vg.Tensor:
        return apply(name, *operands, **ulps.ATTRIBUTES.get(name, {})).sum()

    def slope(*operands: vg.Tensor) -> vg.Tensor:
        first = vg.grad(summed, argnums=tuple(range(len(arrays))))(*operands)
        return sum((g.sum() for g in first[1:]), first[0].sum())

    tensors = [vg.tensor(x) for x in arrays]
    every = tuple(range(len(arrays)))
    found: list[Any] = [apply(name, *tensors, **ulps.ATTRIBUTES.get(name, {}))]
    found += [*vg.grad(summed, argnums=every)(*tensors), *vg.grad(slope, argnums=every)(*tensors)]
    assert all(t.dtype is vg.float64 for t in found)
    return [t.numpy() for t in found]


@pytest.mark.parametrize("name", ulps.FUNCTIONS)
def test_derivatives_in_double_precision(name: str) -> None:
    if np.dtype("float64") not in ulps.types():
        pytest.skip("this device has no double precision")
    op = OPS[name]
    arrays = [op.samples.draw((40,), np.dtype("float64"), 3, i) for i in range(op.arity)]
    with vg.counting() as counts:
        found = derivatives(name, arrays)
    assert counts.host_nodes == 0
    with config.override(device="cpu"):
        expected = derivatives(name, arrays)
    for values, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, wanted, rtol=3e-14, atol=3e-15)


def test_single_precision_would_be_noticed() -> None:
    """The null arm: one step through float32."""
    x = np.linspace(0.1, 0.9, 9)
    rounded = vg.exp(vg.tensor(x).astype("float32")).astype("float64").numpy()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(rounded, np.exp(x), rtol=3e-14, atol=3e-15)
