"""Distributions, each built by one expression for PyTorch and for vkgrad, since names and arguments are the same.

`make_distributions.py` asks PyTorch's in float64 and freezes the answers; `tests/distributions` asks ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from tests.golden.patterns import Array

MOMENTS = ("mean", "variance", "entropy")


@dataclass(frozen=True)
class Case:
    """`build(D, *parameters)` is the distribution, of these float32 parameters, asked at `values`.

    differentiable  whether values have gradients too
    asked           properties and methods beside `log_prob`
    pair            parameters of another one, for the divergence
    """

    build: Callable[..., Any]
    parameters: tuple[Array, ...]
    values: Array
    differentiable: bool = True
    asked: tuple[str, ...] = MOMENTS
    pair: tuple[Array, ...] | None = None


CASES: dict[str, Case] = {}


def _draw(name: str, low: float, high: float, *shape: int) -> Array:
    return np.random.default_rng(crc32(name.encode())).uniform(low, high, shape).astype(np.float32)


def _case(
    name: str, build: Callable[..., Any], *ranges: tuple[float, float], values: tuple[float, float] = (-3.0, 3.0),
    asked: tuple[str, ...] = MOMENTS, event: tuple[int, ...] = (), kl: bool = True,
) -> None:  # fmt: skip
    """A case of parameters (3,) or (3, *event) and values (5, 3), drawn from ranges."""
    first, second = (
        tuple(_draw(f"{name}{which}{number}", *r, 3, *event) for number, r in enumerate(ranges)) for which in "pq"
    )
    CASES[name] = Case(build, first, _draw(f"{name}x", *values, 5, 3, *event), True, asked, second if kl else None)


def _counted(name: str, build: Callable[..., Any], *ranges: tuple[float, float], most: int, **options: Any) -> None:
    """A case whose values are whole numbers from 0 to `most`."""
    _case(name, build, *ranges, **options)
    case = CASES[name]
    values = np.random.default_rng(crc32(name.encode())).integers(0, most + 1, (5, 3)).astype(np.float32)
    CASES[name] = Case(case.build, case.parameters, values, False, case.asked, case.pair)


REAL, ABOVE = (-2.0, 2.0), (0.4, 3.0)
WITH_CDF = (*MOMENTS, "cdf")
_case("Normal", lambda D, loc, scale: D.Normal(loc, scale), REAL, ABOVE, asked=WITH_CDF)
_case("Laplace", lambda D, loc, scale: D.Laplace(loc, scale), REAL, ABOVE, asked=WITH_CDF)
_case("Cauchy", lambda D, loc, scale: D.Cauchy(loc, scale), REAL, ABOVE, asked=("entropy", "cdf"))
_case("StudentT", lambda D, df, loc, scale: D.StudentT(df, loc, scale), (2.5, 9.0), REAL, ABOVE, kl=False)
_case("Exponential", lambda D, rate: D.Exponential(rate), ABOVE, values=ABOVE, asked=WITH_CDF)
_case("Gamma", lambda D, a, rate: D.Gamma(a, rate), ABOVE, ABOVE, values=ABOVE)
_case("Weibull", lambda D, scale, k: D.Weibull(scale, k), ABOVE, ABOVE, values=ABOVE, asked=WITH_CDF, kl=False)
_case("LogNormal", lambda D, loc, scale: D.LogNormal(loc, scale), REAL, (0.4, 1.2), values=ABOVE, asked=WITH_CDF)
_case("HalfNormal", lambda D, scale: D.HalfNormal(scale), ABOVE, values=ABOVE, asked=WITH_CDF)
_case("HalfCauchy", lambda D, s: D.HalfCauchy(s), ABOVE, values=ABOVE, asked=("entropy", "cdf"), kl=False)
_case("Uniform", lambda D, a, b: D.Uniform(a, b), (-3.0, -1.5), (1.5, 3.0), values=(-1.0, 1.0), asked=WITH_CDF)
_case("Beta", lambda D, a, b: D.Beta(a, b), ABOVE, ABOVE, values=(0.05, 0.95))
_case("Dirichlet", lambda D, a: D.Dirichlet(a), ABOVE, values=(0.1, 1.0), event=(4,))
_counted("Bernoulli", lambda D, p: D.Bernoulli(p), (0.1, 0.9), most=1)
_counted("Bernoulli by logits", lambda D, p: D.Bernoulli(logits=p), REAL, most=1)
_counted("Binomial", lambda D, p: D.Binomial(9, p), (0.1, 0.9), most=9, asked=("mean", "variance"))
_counted("Binomial by logits", lambda D, p: D.Binomial(9, logits=p), REAL, most=9, asked=("mean", "variance"))
_counted("Poisson", lambda D, rate: D.Poisson(rate), ABOVE, most=8, asked=("mean", "variance"))
_counted("Categorical", lambda D, p: D.Categorical(p), (0.1, 1.0), most=3, asked=("entropy",), event=(4,))
_counted("Categorical by logits", lambda D, p: D.Categorical(logits=p), REAL, most=3, asked=("entropy",), event=(4,))
_case(
    "Independent", lambda D, loc, scale: D.Independent(D.Normal(loc, scale), 1), REAL, ABOVE, event=(4,),
)  # fmt: skip
_case(
    "MixtureSameFamily", lambda D, logits, loc, scale: D.MixtureSameFamily(D.Categorical(logits=logits),
    D.Normal(loc, scale)), REAL, REAL, ABOVE, event=(4,), kl=False, asked=("mean", "variance"),
)  # fmt: skip
_case(
    "TransformedDistribution", lambda D, loc, scale: D.TransformedDistribution(D.Laplace(loc, scale), [
    D.AffineTransform(1.0, 2.0), D.ExpTransform()]), REAL, ABOVE, values=ABOVE, kl=False, asked=(),
)  # fmt: skip


def _of_simplex(values: Array) -> Array:
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


def _replaced(name: str, **changes: Any) -> None:
    CASES[name] = Case(**{**CASES[name].__dict__, **changes})


_replaced("Dirichlet", values=_of_simplex(CASES["Dirichlet"].values))
_replaced("MixtureSameFamily", values=CASES["MixtureSameFamily"].values[..., 0])


def _factor(name: str) -> Array:
    """Cholesky factors (3, 4, 4), well away from singular."""
    lower = np.tril(_draw(name, -1.0, 1.0, 3, 4, 4), -1)
    return lower + np.eye(4, dtype=np.float32) * _draw(f"{name}d", 0.6, 1.8, 3, 4, 1)


def _vectors(name: str, build: Callable[..., Any], factored: bool) -> None:
    """A case of means (3, 4) and matrices (3, 4, 4)."""
    pairs = []
    for which in "pq":
        factor = _factor(f"{name}{which}")
        matrix = factor if factored else (factor @ factor.swapaxes(-1, -2)).astype(np.float32)
        pairs.append((_draw(f"{name}loc{which}", *REAL, 3, 4), matrix))
    CASES[name] = Case(build, pairs[0], _draw(f"{name}x", -3.0, 3.0, 5, 3, 4), True, MOMENTS, pairs[1])


_vectors("MultivariateNormal", lambda D, loc, m: D.MultivariateNormal(loc, scale_tril=m), True)
_vectors("MultivariateNormal by covariance", lambda D, loc, m: D.MultivariateNormal(loc, m), False)
_vectors("MultivariateNormal by precision", lambda D, loc, m: D.MultivariateNormal(loc, precision_matrix=m), False)


def weights(shape: tuple[int, ...]) -> Array:
    """What multiplies each element of a log density before they are summed for a gradient."""
    return np.random.default_rng(7).uniform(0.5, 1.5, shape)
