"""Samples against the densities of the same distributions: Kolmogorov and Smirnov, chi-square, moments, at a fixed key.

`test_golden.py` holds the densities themselves to PyTorch's. Each test has a null arm: the samples of a distribution
that is a little off. A right sampler exceeds a limit once in 1000 draws; keys are fixed, so none does by chance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vkgrad as vg
from tests.random.test_distributions import chi_square, integrated, ks_distance, ks_limit
from vkgrad import distributions as D
from vkgrad.errors import UnsupportedError

COUNT = 6_000
pytestmark = pytest.mark.usefixtures("on_cpu")


def _mixture() -> D.Distribution:
    return D.MixtureSameFamily(D.Categorical([0.3, 0.7]), D.Normal([-2.0, 1.0], [0.5, 1.0]))


# The distribution, and the ends of an interval beyond which nothing counts (None where it has a distribution function).
CONTINUOUS: dict[str, tuple[Callable[[], D.Distribution], tuple[float, float] | None]] = {
    "Normal": (lambda: D.Normal(1.0, 2.0), None),
    "Laplace": (lambda: D.Laplace(1.0, 2.0), None),
    "Cauchy": (lambda: D.Cauchy(1.0, 2.0), None),
    "StudentT": (lambda: D.StudentT(4.0, 1.0, 2.0), (-500, 500)),
    "Exponential": (lambda: D.Exponential(0.5), None),
    "Gamma": (lambda: D.Gamma(2.5, 0.5), (0, 80)),
    "Weibull": (lambda: D.Weibull(2.0, 1.5), None),
    "LogNormal": (lambda: D.LogNormal(0.3, 0.6), None),
    "HalfNormal": (lambda: D.HalfNormal(2.0), None),
    "HalfCauchy": (lambda: D.HalfCauchy(2.0), None),
    "Uniform": (lambda: D.Uniform(-1.0, 3.0), None),
    "Beta": (lambda: D.Beta(2.0, 3.0), (0, 1)),
    "MixtureSameFamily": (_mixture, (-8, 8)),
    "TransformedDistribution": (
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [D.AffineTransform(0.5, 1.5), D.SigmoidTransform()]),
        (1e-6, 1 - 1e-6),
    ),
}


def below(made: D.Distribution, ends: tuple[float, float] | None) -> Callable[[np.ndarray], np.ndarray]:
    if ends is None:
        return lambda x: made.cdf(vg.tensor(x, "float64")).numpy()
    return integrated(lambda x: np.exp(made.log_prob(vg.tensor(x, "float64")).numpy()), *ends)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_kolmogorov_smirnov(name: str) -> None:
    build, ends = CONTINUOUS[name]
    made = build()
    sample = made.sample(vg.random.key(5), COUNT).numpy()
    assert sample.shape == (COUNT,) and np.isfinite(sample).all()
    assert ks_distance(sample, below(made, ends)) < ks_limit(COUNT)
    spread = np.quantile(sample, 0.75) - np.quantile(sample, 0.25)
    assert ks_distance(sample + 0.1 * spread, below(made, ends)) > ks_limit(COUNT)  # the null arm


@pytest.mark.parametrize("name", [name for name, (_, ends) in CONTINUOUS.items() if ends is None])
def test_a_distribution_function_is_the_integral_of_the_density(name: str) -> None:
    made = CONTINUOUS[name][0]()
    places = made.sample(vg.random.key(1), 50, dtype="float64")
    slope = vg.grad(lambda x: made.cdf(x).sum())(places)
    np.testing.assert_allclose(slope.numpy(), made.prob(places).numpy(), rtol=1e-9, atol=1e-12)
    parts = vg.linspace(0.02, 0.98, 13, dtype="float64")
    np.testing.assert_allclose(made.cdf(made.icdf(parts)).numpy(), parts.numpy(), rtol=1e-11)
    nowhere = vg.tensor([-1e30, 1e30], "float64")
    np.testing.assert_allclose(made.cdf(nowhere).numpy(), [0, 1], atol=1e-12)


DISCRETE: dict[str, tuple[Callable[[], D.Distribution], int, Callable[[], D.Distribution]]] = {
    "Bernoulli": (lambda: D.Bernoulli(0.3), 2, lambda: D.Bernoulli(0.35)),
    "Bernoulli by logits": (lambda: D.Bernoulli(logits=-0.5), 2, lambda: D.Bernoulli(logits=-0.7)),
    "Binomial": (lambda: D.Binomial(12, 0.4), 13, lambda: D.Binomial(12, 0.42)),
    "Categorical": (lambda: D.Categorical([5.0, 1.0, 4.0]), 3, lambda: D.Categorical([0.46, 0.1, 0.44])),
    "Poisson": (lambda: D.Poisson(4.0), 40, lambda: D.Poisson(4.2)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_chi_square(name: str) -> None:
    build, count, other = DISCRETE[name]
    made = build()
    sample = made.sample(vg.random.key(8), COUNT).numpy()
    assert (sample == np.round(sample)).all()
    for distribution, fits in ((made, True), (other(), False)):
        expected = np.exp(distribution.log_prob(vg.arange(count).astype("float64")).numpy())
        assert abs(expected.sum() - 1) < 1e-6
        statistic, limit = chi_square(sample.astype(np.int64), expected)
        assert (statistic < limit) == fits


def test_vectors() -> None:
    """Each coordinate of whitened normal vectors is normal; each part of Dirichlet ones is a beta number."""
    factor = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-1.0, 0.3, 0.5]], np.float32)
    vectors = D.MultivariateNormal(vg.tensor([1.0, 2.0, 3.0]), scale_tril=factor)
    sample = vectors.sample(vg.random.key(2), COUNT).numpy()
    plain = np.linalg.solve(factor.astype(float), (sample - [1, 2, 3]).T)
    normal = below(D.Normal(0.0, 1.0), None)
    assert all(ks_distance(row, normal) < ks_limit(COUNT) for row in plain)
    assert np.abs(np.cov(plain) - np.eye(3)).max() < 0.06
    wrong = np.linalg.solve(np.diag(np.diag(factor)).astype(float), (sample - [1, 2, 3]).T)
    assert np.abs(np.cov(wrong) - np.eye(3)).max() > 0.06  # the null arm
    concentration = np.array([1.5, 2.0, 2.5])
    parts = D.Dirichlet(concentration.astype(np.float32)).sample(vg.random.key(3), COUNT).numpy()
    for part, a in zip(parts.T, concentration, strict=True):
        assert ks_distance(part, below(D.Beta(a, 6.0 - a), (0, 1))) < ks_limit(COUNT)
        assert ks_distance(part, below(D.Beta(a + 0.3, 6.0 - a), (0, 1))) > ks_limit(COUNT)


BATCHES = {
    "Normal": lambda: D.Normal(vg.tensor([0.0, 1.0]), 2.0),
    "Gamma": lambda: D.Gamma(vg.tensor([2.0, 3.0]), vg.tensor([[1.0], [2.0], [3.0]])),
    "Binomial": lambda: D.Binomial(vg.tensor([4.0, 30.0]), 0.4),
    "Categorical": lambda: D.Categorical(logits=vg.zeros((2, 3))),
    "Dirichlet": lambda: D.Dirichlet(vg.ones((2, 3))),
    "MultivariateNormal": lambda: D.MultivariateNormal(vg.zeros((2, 3)), vg.eye(3)),
    "batched matrices": lambda: D.MultivariateNormal(vg.zeros(3), vg.broadcast_to(vg.eye(3), (2, 3, 3))),
    "Independent": lambda: D.Independent(D.Laplace(vg.zeros((2, 3)), 1.0), 1),
    "mixture of vectors": lambda: D.MixtureSameFamily(
        D.Categorical(vg.ones(4)), D.Independent(D.Normal(vg.zeros((2, 4, 3)), 1.0), 1)
    ),
    "stick": lambda: D.TransformedDistribution(
        D.Independent(D.Normal(vg.zeros((2, 3)), 1.0), 1), D.StickBreakingTransform()
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_shapes(name: str) -> None:
    made = BATCHES[name]()
    for shape in ((), (5,), (5, 2)):
        sample = made.sample(vg.random.key(0), shape)
        assert sample.shape == (*shape, *made.batch_shape, *made.event_shape)
        log_prob = made.log_prob(sample)
        assert log_prob.shape == (*shape, *made.batch_shape)
        assert np.isfinite(log_prob.numpy()).all()
    if name not in ("stick", "Categorical"):
        assert made.mean.shape == made.variance.shape == (*made.batch_shape, *made.event_shape)
    assert repr(made).startswith(type(made).__name__)


MOMENTS = {
    "Normal": (lambda a, b: D.Normal(a, b)), "Laplace": (lambda a, b: D.Laplace(a, b)),
    "StudentT": (lambda a, b: D.StudentT(8.0, a, b)), "Exponential": (lambda a, b: D.Exponential(a)),
    "Gamma": (lambda a, b: D.Gamma(a, b)), "Weibull": (lambda a, b: D.Weibull(a, b)),
    "LogNormal": (lambda a, b: D.LogNormal(a, 0.3 * b)), "HalfNormal": (lambda a, b: D.HalfNormal(a)),
    "Uniform": (lambda a, b: D.Uniform(a, a + b)), "Beta": (lambda a, b: D.Beta(a, b)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_and_derivatives_of_samples(name: str) -> None:
    """The mean of samples and its derivatives are near those of the mean; samples without history have none."""
    build = MOMENTS[name]
    a, b = vg.tensor(1.5), vg.tensor(1.2)

    def mean_of(draw: Callable[[D.Distribution], vg.Tensor]) -> tuple[np.ndarray, np.ndarray]:
        value, gradients = vg.value_and_grad(lambda a, b: draw(build(a, b)).mean(), argnums=(0, 1))(a, b)
        return value.numpy(), np.array([g.numpy() for g in gradients])

    key = vg.random.key(4)
    value, slopes = mean_of(lambda d: d.rsample(key, COUNT))
    expected, expected_slopes = mean_of(lambda d: d.mean)
    spread = build(a, b).stddev.item()
    assert abs(value - expected) < 4 * spread / np.sqrt(COUNT)
    np.testing.assert_allclose(slopes, expected_slopes, atol=0.06 * max(1.0, np.abs(expected_slopes).max()))
    sampled, no_slopes = mean_of(lambda d: d.sample(key, COUNT))
    assert sampled == value and not no_slopes.any()
    assert abs(build(a, b).sample(key, COUNT).var().item() / spread**2 - 1) < 0.15


def test_samples_of_whole_numbers_have_no_derivatives() -> None:
    with pytest.raises(UnsupportedError, match=r"Poisson: its samples have no derivatives; use \.sample"):
        D.Poisson(2.0).rsample(vg.random.key(0))


def test_types_of_samples() -> None:
    key = vg.random.key(0)
    assert D.Normal(0.0, 1.0).sample(key, 2).dtype is vg.float32
    assert D.Normal(vg.zeros(2, "float64"), 1.0).sample(key).dtype is vg.float64
    assert D.Poisson(1.0).sample(key, 2, dtype="float64").dtype is vg.float64
    assert D.Categorical([1.0, 1.0]).sample(key, 2).dtype is vg.int32
