"""VKGRAD_MATMUL_ACC=f64: single-precision products, added up in double precision."""

from __future__ import annotations

import numpy as np

import vkgrad as vg
from vkgrad.config import config


def test_large_terms_that_cancel() -> None:
    row = np.ones((1, 1002), "f4")
    row[0, 0], row[0, -1] = 1e9, -1e9
    x, y = vg.tensor(row), vg.tensor(np.ones((1002, 1), "f4"))
    narrow = (x @ y).item()
    assert narrow != 1000.0  # the null arm: single precision loses most of the ones
    with config.override(matmul_acc="f64"), vg.counting() as c:
        assert (x @ y).item() == 1000.0
    assert (c.dispatches, c.host_nodes) == (1, 0)
    assert (x @ y).item() == narrow


def test_gradients_are_widened_too() -> None:
    x = vg.tensor(np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4))
    with config.override(matmul_acc="f64"):
        gradient = vg.grad(lambda w: ((x @ w) ** 2).sum())(vg.ones((4, 2)))
        assert gradient.dtype is vg.float32
    a = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4).astype("f8")
    np.testing.assert_allclose(gradient.numpy(), 2 * a.T @ (a @ np.ones((4, 2))), rtol=1e-7)
