"""Densities, their gradients, moments, entropies and divergences against PyTorch's, frozen in double precision.

Each family runs in float64 on the `cpu` device, and in float32 on the default one. The null arm: the same test of a
density that is a hundredth off fails for each family.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.compare import golden
from tests.golden.distributions import CASES, weights
from vkgrad import distributions

FROZEN = golden("distributions")
RELATIVE = {"float32": 1e-5, "float64": 1e-9}  # of the largest element: a density has up to three gamma functions


def answers(name: str, dtype: str, moved: float = 0.0) -> dict[str, vg.Tensor]:
    """What `make_distributions.py` asks of PyTorch, asked here; `moved` changes the first parameter."""
    case = CASES[name]
    values = vg.tensor(case.values, dtype)
    parameters = [vg.tensor(p, dtype) for p in case.parameters]
    parameters[0] = parameters[0] * vg.tensor(1 + moved * np.arange(1, 1 + case.parameters[0].shape[-1]), dtype)

    def total(x: vg.Tensor, *parameters: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor]:
        log_prob = case.build(distributions, *parameters).log_prob(x)
        return (log_prob * vg.tensor(weights(log_prob.shape), dtype)).sum(), log_prob

    wanted = range(0 if case.differentiable else 1, 1 + len(parameters))
    gradients, log_prob = vg.grad(total, argnums=tuple(wanted), has_aux=True)(values, *parameters)
    results: dict[str, Any] = {"log_prob": log_prob}
    results |= {f"gradient {number}": gradient for number, gradient in enumerate(gradients)}
    found = case.build(distributions, *parameters)
    for what in case.asked:
        asked = getattr(found, what)
        results[what] = asked(values) if what == "cdf" else asked() if callable(asked) else asked
    if case.pair is not None:
        other = case.build(distributions, *[vg.tensor(p, dtype) for p in case.pair])
        results["kl"] = distributions.kl_divergence(found, other)
    return results


def check(name: str, dtype: str, moved: float = 0.0, only: str | None = None) -> None:
    with vg.counting() as c:
        results = answers(name, dtype, moved)
        vg.eval(*results.values())
    assert c.host_nodes == 0 and c.submissions == 1
    frozen = {key.partition("/")[2]: array for key, array in FROZEN.items() if key.partition("/")[0] == name}
    assert frozen.keys() == results.keys()
    for what, expected in frozen.items():
        if only not in (None, what):
            continue
        found = results[what].numpy()
        assert found.dtype == np.dtype(dtype), what
        assert found.shape == expected.shape, what
        finite = np.isfinite(expected)
        assert np.array_equal(found[~finite], expected[~finite]), what
        found, expected = found[finite], expected[finite]
        error = (np.abs(found - expected) / max(np.abs(expected).max(initial=0), 1.0)).max(initial=0)
        assert error <= RELATIVE[dtype], f"{name}: {what} is {error:.1e} off, allowed {RELATIVE[dtype]:.0e}"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("on_cpu")
def test_double_precision(name: str) -> None:
    check(name, "float64")


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_single_precision(name: str) -> None:
    check(name, "float32")


@pytest.mark.device
@pytest.mark.parametrize("name", list(CASES)[::6])
def test_double_precision_on_the_device(name: str) -> None:
    if not getattr(getattr(vg.default_device(), "limits", None), "float64", True):
        pytest.skip("this device has no double precision")
    check(name, "float64")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("on_cpu")
def test_another_density_is_noticed(name: str) -> None:
    with pytest.raises(AssertionError, match="log_prob"):
        check(name, "float64", moved=0.01, only="log_prob")


def test_every_family_is_here() -> None:
    families = {name for name in distributions.__all__ if isinstance(getattr(distributions, name), type)
                and issubclass(getattr(distributions, name), distributions.Distribution)}  # fmt: skip
    assert families - {"Distribution"} <= set(CASES)
