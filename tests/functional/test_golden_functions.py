"""Values, gradients and second derivatives of over a hundred functions against PyTorch's, frozen in double precision.

Each function runs in float32 on the default device and in float64 on the `cpu` device, and on the default one where
that has doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.compare import golden
from tests.golden.functions import FUNCTIONS, draw, weights
from vkgrad import engine

RELATIVE = {"float32": 1e-5, "float64": 1e-10}
# PyTorch's polygamma of order 1 is good to 5e-10 only; ours is held to the definition in tests/ops.
RELATIVE_TO_POLYGAMMA = {"lgamma": 1e-9, "digamma": 1e-9}
FROZEN = golden("functions")


def derivatives(name: str, dtype: str) -> tuple[np.ndarray, ...]:
    """Value, gradients and second derivatives, flat and one after the other, as the golden file has them."""
    function = FUNCTIONS[name]
    inputs = tuple(vg.tensor(x, dtype) for x in draw(name))

    def total(*xs: Any) -> tuple[vg.Tensor, vg.Tensor]:
        value = function.vkgrad(vg, *xs)
        return (value * vg.tensor(weights(value.shape, 0), dtype)).sum(), value

    argnums = tuple(range(len(inputs)))
    with vg.counting() as c:
        gradients, value = vg.grad(total, argnums=argnums, has_aux=True)(*inputs)

        def weighted(*xs: Any) -> vg.Tensor:
            found = vg.grad(total, argnums=argnums, has_aux=True)(*xs)[0]
            return sum(
                ((g * vg.tensor(weights(g.shape, 1 + i), dtype)).sum() for i, g in enumerate(found)),
                vg.tensor(0.0, dtype),
            )

        second = vg.grad(weighted, argnums=argnums)(*inputs)
        parts = [value, *gradients, *second]
        vg.eval(*parts)
    assert c.host_nodes == 0
    assert c.submissions == 1
    assert all(engine.values[part.node].device is engine.device() for part in parts)
    assert all(str(part.dtype) == dtype or part.dtype.name == dtype for part in parts)
    return tuple(part.numpy().reshape(-1) for part in parts)


def check(name: str, dtype: str) -> None:
    """Raise `AssertionError` where a part is off by more than `RELATIVE` of its largest element."""
    start = 0
    for number, part in enumerate(derivatives(name, dtype)):
        expected = FROZEN[name][start : start + part.size]
        start += part.size
        error = np.abs(part - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1.0)
        allowed = max(RELATIVE[dtype], RELATIVE_TO_POLYGAMMA.get(name, 0.0))
        assert error <= allowed, f"{name}, part {number}: {error:.1e} of the largest"
    assert start == FROZEN[name].size


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_single_precision(name: str) -> None:
    check(name, "float32")


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_double_precision(name: str, on_cpu: None) -> None:
    check(name, "float64")


@pytest.mark.device
@pytest.mark.parametrize("name", list(FUNCTIONS)[::5])
def test_double_precision_on_the_device(name: str) -> None:
    if not getattr(getattr(vg.default_device(), "limits", None), "float64", True):
        pytest.skip("this device has no double precision")
    check(name, "float64")


def test_there_are_more_than_a_hundred() -> None:
    assert len(FUNCTIONS) >= 100
    assert set(FUNCTIONS) == set(FROZEN), "run tests.golden.make_golden again"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_error_is_seen(dtype: str, on_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "sin"
    wrong = FROZEN[name] * (1 + 10 * RELATIVE[dtype])
    monkeypatch.setitem(FROZEN, name, wrong)
    with pytest.raises(AssertionError, match="sin, part"):
        check(name, dtype)
