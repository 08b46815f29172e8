"""Edges of supports, where densities are -inf and gradients 0; checks of arguments; transforms to supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import distributions as D
from vkgrad.distributions import constraints
from vkgrad.errors import OptionError, ShapeError, UnsupportedError, VkgradError

pytestmark = pytest.mark.usefixtures("on_cpu")

# The distribution by two positive parameters, what is outside of its support, and what is inside.
EDGES: dict[str, tuple[Callable[..., D.Distribution], list[float], list[float]]] = {
    "Exponential": (lambda a, b: D.Exponential(a), [-1.0, -np.inf], [0.0, 2.0]),
    "Gamma": (D.Gamma, [-1.0, -np.inf], [0.5, 2.0]),
    "Weibull": (D.Weibull, [-1.0, -1e-3], [0.5, 2.0]),
    "LogNormal": (D.LogNormal, [-1.0, 0.0], [0.5, 2.0]),
    "HalfNormal": (lambda a, b: D.HalfNormal(a), [-1.0, -1e-3], [0.0, 2.0]),
    "HalfCauchy": (lambda a, b: D.HalfCauchy(a), [-1.0, -1e-3], [0.0, 2.0]),
    "Uniform": (lambda a, b: D.Uniform(-a, b), [-7.0, 8.0], [0.0, 0.5]),
    "Beta": (D.Beta, [-0.5, 1.5], [0.1, 0.9]),
    "Bernoulli": (lambda a, b: D.Bernoulli(logits=a), [-1.0, 0.5, 2.0], [0.0, 1.0]),
    "Binomial": (lambda a, b: D.Binomial(3, logits=a), [-1.0, 0.5, 4.0], [0.0, 3.0]),
    "Poisson": (lambda a, b: D.Poisson(a), [-1.0, 0.5], [0.0, 3.0]),
    "Categorical": (lambda a, b: D.Categorical(logits=vg.stack([a, b, a])), [-1.0, 3.0, 1.5], [0.0, 2.0]),
    "MixtureSameFamily": (
        lambda a, b: D.MixtureSameFamily(D.Categorical(logits=vg.stack([a, b])), D.Exponential(vg.stack([a, b]))),
        [-1.0, -2.0],
        [0.0, 1.0],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_outside_the_support(name: str) -> None:
    build, outside, inside = EDGES[name]

    def total(x: vg.Tensor, a: vg.Tensor, b: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor]:
        log_prob = build(a, b).log_prob(x)
        return vg.where(vg.isfinite(log_prob), log_prob, 0.0).sum(), log_prob

    gradient = vg.grad(total, argnums=(0, 1, 2), has_aux=True)
    a, b = vg.tensor(1.5, "float64"), vg.tensor(1.2, "float64")
    slopes, values = gradient(vg.tensor(outside, "float64"), a, b)
    assert (values.numpy() == -np.inf).all()
    assert all((slope.numpy() == 0).all() for slope in slopes)
    slopes, values = gradient(vg.tensor([*inside, outside[0]], "float64"), a, b)
    within, _ = gradient(vg.tensor(inside, "float64"), a, b)
    assert np.isfinite(values.numpy()[:-1]).all() and values.numpy()[-1] == -np.inf
    assert np.isfinite(np.concatenate([slope.numpy().reshape(-1) for slope in slopes])).all()
    for slope, other in zip(slopes[1:], within[1:], strict=True):  # one that is outside changes no gradient
        np.testing.assert_allclose(slope.numpy(), other.numpy(), rtol=1e-12)
    assert np.isnan(build(a, b).log_prob(vg.tensor(np.nan, "float64")).item()) or name == "Categorical"
    with pytest.raises(OptionError, match="a value must be"):
        checked = build(a, b)
        checked.validate_args = True
        checked.log_prob(np.array(outside))


@pytest.mark.parametrize(
    ("density", "at", "expected"),
    [
        (lambda: D.Gamma(1.0, 2.0), 0.0, np.log(2.0)),
        (lambda: D.Gamma(2.0, 2.0), 0.0, -np.inf),
        (lambda: D.Gamma(0.5, 2.0), 0.0, np.inf),
        (lambda: D.Weibull(2.0, 1.0), 0.0, np.log(0.5)),
        (lambda: D.Weibull(2.0, 2.0), 0.0, -np.inf),
        (lambda: D.Beta(1.0, 3.0), 0.0, np.log(3.0)),
        (lambda: D.Beta(3.0, 1.0), 1.0, np.log(3.0)),
        (lambda: D.Beta(2.0, 3.0), 1.0, -np.inf),
        (lambda: D.Dirichlet([1.0, 1.0, 2.0]), [0.0, 0.5, 0.5], np.log(3.0)),
        (lambda: D.Bernoulli(1.0), 1.0, 0.0),
        (lambda: D.Bernoulli(0.0), 1.0, -np.inf),
        (lambda: D.Binomial(3, 0.0), 0.0, 0.0),
        (lambda: D.Binomial(3, 1.0), 3.0, 0.0),
        (lambda: D.Poisson(0.0), 0.0, 0.0),
        (lambda: D.Poisson(0.0), 1.0, -np.inf),
        (lambda: D.Categorical([0.0, 1.0]), 0, -np.inf),
        (lambda: D.Dirichlet([1.0, 1.0]), [0.5, 0.7], -np.inf),
    ],
)
def test_edges(density: Callable[[], D.Distribution], at: Any, expected: float) -> None:
    x = vg.tensor(at) if density().event_shape or isinstance(at, int) else vg.tensor(at, "float64")
    assert density().log_prob(x).item() == pytest.approx(expected, rel=1e-6)
    if not isinstance(at, int):
        assert not np.isnan(vg.grad(lambda x: density().log_prob(x).sum())(x).numpy()).any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: D.Normal(0.0, -1.0), "Normal: scale must be positive, got -1.0"),
        (lambda: D.Normal(0.0, [1.0, 0.0]), "Normal: scale must be positive"),
        (lambda: D.Normal(np.nan, 1.0), "Normal: loc must be real, got nan"),
        (lambda: D.Gamma(np.array([1.0, -2.0]), 1.0), "Gamma: concentration must be positive"),
        (lambda: D.Uniform(2.0, 1.0), "Uniform: low must be below high, got 2.0 and 1.0"),
        (lambda: D.Bernoulli(1.5), "Bernoulli: probs must be from 0 to 1, got 1.5"),
        (lambda: D.Bernoulli(0.5, 0.5), "Bernoulli: takes probs or logits, one of them"),
        (lambda: D.Binomial(2.5, 0.5), r"Binomial: total_count must be whole numbers from 0 on, got 2\.5"),
        (lambda: D.Categorical([0.0, 0.0]), "Categorical: probs must be not negative, and not all of them 0"),
        (lambda: D.Dirichlet(1.0), "Dirichlet: concentration takes an axis or more, got shape"),
        (lambda: D.Dirichlet([1.0, -1.0]), "Dirichlet: concentration must be positive"),
        (lambda: D.MultivariateNormal([0.0, 0.0], [[1.0, 2.0], [0.0, 1.0]]), "covariance_matrix must be symmetric"),
        (lambda: D.MultivariateNormal([0.0, 0.0]), "takes one of covariance_matrix, precision_matrix and scale_tril"),
        (lambda: D.MultivariateNormal([0.0], np.eye(2)), r"loc \(1,\) and a matrix \(2, 2\) do not fit"),
        (lambda: D.Normal(vg.zeros(2), vg.ones(3)), r"distributions.Normal: shapes \(2,\) and \(3,\)"),
        (lambda: D.Normal(vg.zeros(2), 1.0).log_prob(vg.ones(3)), r"distributions.Normal: shapes \(3,\) and \(2,\)"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), r"the batch \(\) has no 1 axes to take"),
        (lambda: D.MixtureSameFamily(D.Categorical([1.0, 1.0]), D.Normal(vg.zeros(3), 1.0)), "a mixture of 2 takes"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(vg.zeros(3), 1.0)), "are mixed by a Categorical"),
        (lambda: D.Normal(vg.tensor(0.0), vg.tensor(-1.0), validate_args=True), "scale must be positive, got -1.0"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), "wrap the base in"),
        (lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Exponential(1.0)), "none is known of Normal and Exponential"),
        (lambda: D.kl_divergence(D.Categorical([1.0]), D.Categorical([1.0, 1.0])), "has 1 indices, the other 2"),
        (lambda: D.Binomial(3, 0.5).entropy(), "no closed form of its entropy is known here"),
        (lambda: D.biject_to(D.Poisson(1.0).support), "nothing smooth leads to whole numbers from 0 on"),
    ],
)  # fmt: skip
def test_one_sentence(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(VkgradError, match=words) as error:
        make()
    assert isinstance(error.value, OptionError | ShapeError | UnsupportedError)


def test_tensors_are_not_looked_at() -> None:
    with vg.counting() as c:
        D.Normal(vg.tensor(0.0), vg.tensor(-1.0))
        D.Normal(0.0, -1.0, validate_args=False)
        counts, ends = vg.tensor([3.0, 4.0]), vg.tensor([0.0, 1.0])
        binomial, uniform = D.Binomial(counts, 0.5), D.Uniform(ends, ends + 1)
        binomial.log_prob(vg.tensor([1.0, 5.0])), uniform.log_prob(ends), repr((binomial, uniform, uniform.support))
        D.biject_to(uniform.support)(vg.zeros(2))
    assert c.flushes == 0
    assert vg.jit(lambda n: D.Binomial(n, 0.5).log_prob(5.0))(counts).tolist() == [-np.inf, -np.inf]


# ---- transforms
SUPPORTS = {
    "real": (constraints.real, lambda: D.Normal(0.3, 1.2)),
    "positive": (constraints.positive, lambda: D.LogNormal(0.3, 0.7)),
    "above": (constraints.greater_than(2.0), None),
    "between": (D.Uniform(-1.0, 4.0).support, lambda: D.Uniform(-1.0, 4.0)),
    "unit": (constraints.unit_interval, lambda: D.Beta(2.0, 3.0)),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_transforms_and_their_jacobians(name: str) -> None:
    support, build = SUPPORTS[name]
    transform = D.biject_to(support)
    x = vg.linspace(-3, 3, 7, dtype="float64")
    y = transform(x)
    assert support.check(y.numpy()).all()
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), atol=1e-10)
    slope = vg.log(vg.grad(lambda x: transform(x).sum())(x)).numpy()
    np.testing.assert_allclose(transform.log_abs_det_jacobian(x, y).numpy(), slope, atol=1e-10)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).numpy(), -slope, atol=1e-10)
    if build is not None:  # a density brought to the real line still sums to 1
        wide = vg.linspace(-30, 30, 20_001, dtype="float64")
        there = transform(wide)
        logs = build().log_prob(there) + transform.log_abs_det_jacobian(wide, there)
        assert abs(vg.exp(logs).sum().item() * 60 / 20_000 - 1) < 1e-6


def test_where_transforms_lead() -> None:
    made = D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform())
    assert made.support.check(np.array([-1.0, 0.0, 2.0])).tolist() == [False, False, True]
    above = D.TransformedDistribution(D.Exponential(1.0), D.AffineTransform(2.0, 3.0))
    assert above.support.check(np.array([1.9, 2.1])).tolist() == [False, True]
    vectors = D.Independent(D.Normal(vg.zeros(2), 1.0), 1)
    assert D.TransformedDistribution(vectors, D.StickBreakingTransform()).support is constraints.simplex
    both = D.TransformedDistribution(vectors, [D.AffineTransform(0.0, 2.0), D.SigmoidTransform()])
    assert both.support.check(np.array([[0.2, 0.3], [0.2, 1.3]])).tolist() == [True, False]
    with pytest.raises(UnsupportedError, match="ExpTransform: what it makes of numbers that are from 0 to 1 is not"):
        _ = D.TransformedDistribution(D.Beta(1.0, 1.0), D.ExpTransform()).support


def test_stick_breaking() -> None:
    transform = D.biject_to(constraints.simplex)
    x = vg.tensor([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]], "float64")
    y = transform(x)
    np.testing.assert_allclose(y.numpy().sum(-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(y.numpy()[1], 0.25, rtol=1e-14)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), atol=1e-12)
    jacobian = vg.vmap(vg.jacobian(lambda x: transform(x)[:-1]))(x).numpy()
    expected = np.log(np.abs(np.linalg.det(jacobian)))
    np.testing.assert_allclose(transform.log_abs_det_jacobian(x, y).numpy(), expected, atol=1e-12)


def test_weibull_divergence_is_the_integral() -> None:
    p, q = D.Weibull(1.5, 2.0), D.Weibull(2.0, 1.3)
    x = vg.linspace(1e-6, 12.0, 100_001, dtype="float64")
    logs = p.log_prob(x)
    integral = (vg.exp(logs) * (logs - q.log_prob(x))).sum().item() * 12 / 100_000
    assert D.kl_divergence(p, q).item() == pytest.approx(integral, rel=1e-5)


def test_pairs_of_ones_own() -> None:
    class Point(D.Normal):
        pass

    with pytest.raises(UnsupportedError):
        D.kl_divergence(Point(0.0, 1.0), Point(0.0, 1.0))
    D.register_kl(Point, Point)(lambda p, q: vg.tensor(7.0))
    assert D.kl_divergence(Point(0.0, 1.0), Point(0.0, 1.0)).item() == 7.0
