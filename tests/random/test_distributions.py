"""Distributions: Kolmogorov-Smirnov and chi-square tests at fixed keys, moments, gradients, and bits everywhere alike.

The thresholds are those that a right generator exceeds once in 1000 draws; keys are fixed, so none does by chance. Each
test has a null arm: the same numbers against a distribution that is a little off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close
from vkgrad import random
from vkgrad.config import config
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.ops.random_bits import threefry2x32

COUNT = 6_000
Distribution = Callable[[np.ndarray], np.ndarray]


def ks_distance(sample: np.ndarray, distribution: Distribution) -> float:
    """The largest distance between the sample's distribution function and the given one."""
    ordered = np.sort(sample.astype(np.float64).ravel())
    expected = distribution(ordered)
    steps = np.arange(ordered.size + 1) / ordered.size
    return float(max(np.abs(steps[1:] - expected).max(), np.abs(steps[:-1] - expected).max()))


def ks_limit(count: int) -> float:
    return 1.95 / math.sqrt(count)  # 1 in 1000 (Kolmogorov)


def chi_square(sample: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """The statistic for the numbers 0 ... n-1, and its limit of 1 in 1000 (Wilson and Hilferty).

    What is beyond counts as the last number; neighbours are joined until 10 are expected.
    """
    n = probabilities.size
    observed = np.bincount(np.minimum(sample.ravel(), n - 1), minlength=n).astype(float)
    expected = probabilities * sample.size
    groups, total = np.empty(n, int), 0.0
    group = 0
    for k in range(n):
        groups[k] = group
        total += expected[k]
        if total >= 10 and expected[k + 1 :].sum() >= 10:
            group, total = group + 1, 0.0
    observed, expected = np.bincount(groups, observed), np.bincount(groups, expected)
    freedom = len(expected) - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3
    return float(((observed - expected) ** 2 / expected).sum()), limit


def integrated(density: Distribution, low: float, high: float) -> Distribution:
    """The distribution function of a density that need not be scaled, by trapezoids between low and high."""
    places = np.linspace(low, high, 200_001)
    with np.errstate(all="ignore"):
        values = np.nan_to_num(density(places), posinf=0.0)
    upto = np.concatenate([[0], np.cumsum((values[1:] + values[:-1]) / 2)])
    return lambda x: np.interp(x, places, upto / upto[-1])


def normal_below(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(np.asarray(x) / math.sqrt(2)) / 2 + 0.5


def gamma_below(a: float) -> Distribution:
    if a < 1:  # x = y**(1/a) has a bounded density in y
        below = integrated(lambda y: np.exp(-(y ** (1 / a))), 0, (a + 30) ** a)
        return lambda x: below(np.asarray(x) ** a)
    wide = 8 * math.sqrt(a) + 20
    mode = a - 1 if a > 1 else 0.0
    height = mode - (a - 1) * math.log(mode) if mode else 0.0
    return integrated(
        lambda x: np.exp((a - 1) * np.log(x) - x + height) if mode else np.exp(-x), max(0, a - wide), a + wide
    )


def key() -> vg.Tensor:
    """Made where it is used, on the device of the day."""
    return random.key(20)


CONTINUOUS: dict[str, tuple[Callable[[], vg.Tensor], Distribution]] = {
    "uniform": (lambda: random.uniform(key(), COUNT, -1.0, 3.0), lambda x: (x + 1) / 4),
    "normal": (lambda: random.normal(key(), COUNT, 1.0, 2.0), lambda x: normal_below((x - 1) / 2)),
    "lognormal": (lambda: random.lognormal(key(), COUNT), lambda x: normal_below(np.log(x))),
    "exponential": (lambda: random.exponential(key(), COUNT, 2.0), lambda x: 1 - np.exp(-x / 2)),
    "laplace": (lambda: random.laplace(key(), COUNT), lambda x: 0.5 + np.sign(x) * (1 - np.exp(-np.abs(x))) / 2),
    "cauchy": (lambda: random.cauchy(key(), COUNT, 1.0, 2.0), lambda x: np.arctan((x - 1) / 2) / math.pi + 0.5),
    "gumbel": (lambda: random.gumbel(key(), COUNT), lambda x: np.exp(-np.exp(-x))),
    "logistic": (lambda: random.logistic(key(), COUNT), lambda x: 1 / (1 + np.exp(-x))),
    "rayleigh": (lambda: random.rayleigh(key(), 2.0, COUNT), lambda x: 1 - np.exp(-(x**2) / 8)),
    "weibull_min": (lambda: random.weibull_min(key(), 2.0, 1.5, COUNT), lambda x: 1 - np.exp(-((x / 2) ** 1.5))),
    "pareto": (lambda: random.pareto(key(), 3.0, COUNT), lambda x: 1 - x**-3),
    "triangular": (
        lambda: random.triangular(key(), 0.0, 1.0, 4.0, COUNT),
        lambda x: np.where(x < 1, x**2 / 4, 1 - (4 - x) ** 2 / 12),
    ),
    "truncated_normal": (
        lambda: random.truncated_normal(key(), -1.0, 2.0, COUNT),
        lambda x: (normal_below(x) - normal_below(-1)) / (normal_below(2) - normal_below(-1)),
    ),
    **{
        f"gamma-{a}": (lambda a=a: random.gamma(key(), a, COUNT), gamma_below(a)) for a in (0.3, 1.0, 2.5, 40.0)
    },
    "loggamma": (lambda: random.loggamma(key(), 0.3, COUNT), lambda x: gamma_below(0.3)(np.exp(x))),
    "beta": (lambda: random.beta(key(), 2.0, 3.0, COUNT), integrated(lambda x: x * (1 - x) ** 2, 0, 1)),
    "dirichlet": (  # each of them is a beta number
        lambda: random.dirichlet(key(), vg.tensor([2.0, 1.0, 2.0]), COUNT)[:, 0],
        integrated(lambda x: x * (1 - x) ** 2, 0, 1),
    ),
    "chisquare": (lambda: random.chisquare(key(), 5.0, COUNT), lambda x: gamma_below(2.5)(x / 2)),
    "t": (lambda: random.t(key(), 4.0, COUNT), integrated(lambda x: (1 + x * x / 4) ** -2.5, -200, 200)),
    "multivariate_normal": (
        lambda: random.multivariate_normal(key(), vg.tensor([1.0, 0.0]), vg.tensor([[4.0, 1.0], [1.0, 1.0]]), COUNT)
        @ vg.tensor([1.0, -1.0]),
        lambda x: normal_below((x - 1) / math.sqrt(3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.usefixtures("on_cpu")
def test_kolmogorov_smirnov(name: str) -> None:
    draw, distribution = CONTINUOUS[name]
    sample = draw().numpy()
    assert sample.shape == (COUNT,) and np.isfinite(sample).all()
    assert ks_distance(sample, distribution) < ks_limit(COUNT)
    spread = np.quantile(sample, 0.75) - np.quantile(sample, 0.25)
    assert ks_distance(sample + 0.1 * spread, distribution) > ks_limit(COUNT)  # the null arm


def poisson_terms(lam: float) -> np.ndarray:
    count = int(lam + 12 * math.sqrt(lam) + 20)
    return np.exp([k * math.log(lam) - lam - math.lgamma(k + 1) for k in range(count)])


def binomial_terms(n: int, p: float) -> np.ndarray:
    return np.exp([
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(n + 1)
    ])  # fmt: skip


DISCRETE: dict[str, tuple[Callable[[], vg.Tensor], np.ndarray]] = {
    **{f"poisson-{lam}": (lambda lam=lam: random.poisson(key(), lam, COUNT), poisson_terms(lam))
       for lam in (0.3, 4.0, 9.9, 10.0, 45.0, 2000.0)},
    **{f"binomial-{n}-{p}": (lambda n=n, p=p: random.binomial(key(), n, p, COUNT), binomial_terms(n, p))
       for n, p in ((1, 0.3), (12, 0.4), (40, 0.25), (40, 0.9), (300, 0.5), (5000, 0.01))},
    "geometric": (lambda: random.geometric(key(), 0.3, COUNT), np.array([0.0, *(0.3 * 0.7**k for k in range(60))])),
    "randint": (lambda: random.randint(key(), COUNT, 0, 7), np.full(7, 1 / 7)),
    "bernoulli": (lambda: random.bernoulli(key(), 0.3, COUNT).astype(vg.int32), np.array([0.7, 0.3])),
    "rademacher": (lambda: (random.rademacher(key(), COUNT) + 1) // 2, np.array([0.5, 0.5])),
    "categorical": (
        lambda: random.categorical(key(), vg.log(vg.tensor([0.5, 0.1, 0.4])), shape=(COUNT,)),
        np.array([0.5, 0.1, 0.4])),
    "choice": (lambda: random.choice(key(), 3, COUNT, p=[0.5, 0.1, 0.4]), np.array([0.5, 0.1, 0.4])),
    "choice even": (lambda: random.choice(key(), 5, COUNT), np.full(5, 0.2)),
    "permutation": (lambda: random.permutation(key(), COUNT)[: COUNT // 2] // 1000, np.full(6, 1 / 6)),
    "first of a choice without replacement": (
        lambda: vg.vmap(lambda k: random.choice(k, 3, 2, replace=False, p=[0.5, 0.1, 0.4]))(
            random.split(key(), 1000))[:, 0],
        np.array([0.5, 0.1, 0.4])),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.usefixtures("on_cpu")
def test_chi_square(name: str) -> None:
    draw, probabilities = DISCRETE[name]
    sample = draw().numpy()
    assert sample.dtype == np.int32 and sample.min() >= 0
    statistic, limit = chi_square(sample, probabilities)
    assert statistic < limit
    off = 0.85 * probabilities + 0.15 * np.roll(probabilities, 1 + probabilities.size // 8)
    if not np.allclose(off, probabilities):  # an even distribution rolled is itself
        assert chi_square(sample, off)[0] > limit  # the null arm
    elif sample.size == COUNT:
        assert chi_square(np.where(np.arange(COUNT) % 10 == 0, 0, sample), probabilities)[0] > limit


# ---- known answers
def test_threefry_known_answers() -> None:
    """The published vectors, in NumPy; tests/random/test_random.py has them on the device."""
    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        with np.errstate(over="ignore"):
            found = threefry2x32(*(tuple(map(np.uint32, pair)) for pair in (key, counter)))
        assert tuple(map(int, found)) == expected


# ---- the same bits everywhere
EXACT: dict[str, Callable[[], vg.Tensor]] = {
    "bits": lambda: random.bits(key(), (3, 40)),
    "uniform": lambda: random.uniform(key(), (3, 40)),
    "randint": lambda: random.randint(key(), (300,), -5, 17),
    "bernoulli": lambda: random.bernoulli(key(), 0.3, (300,)),
    "rademacher": lambda: random.rademacher(key(), (300,)),
    "permutation": lambda: random.permutation(key(), 300),
    "choice": lambda: random.choice(key(), 50, (20,), replace=False),
    "split": lambda: random.split(random.fold_in(key(), 3), 5),
}


@pytest.mark.device
@pytest.mark.parametrize("name", EXACT)
def test_bits_do_not_depend_on_where_and_how(name: str) -> None:
    with config.override(device="cpu"):
        expected = EXACT[name]().numpy()
    for options in ({}, {"batch_max": 0}, {"batch_max": 2}, {"fuse": False}):
        with config.override(**options):
            assert np.array_equal(EXACT[name]().numpy(), expected), options


RECORDED: dict[str, Callable[[vg.Tensor], vg.Tensor]] = {
    "uniform": lambda k: random.uniform(k, (3, 40)),
    "normal": lambda k: random.normal(k, (3, 40)),
    "randint": lambda k: random.randint(k, (300,), -5, 17),
    "permutation": lambda k: random.permutation(k, 300),
    "gamma": lambda k: random.gamma(k, 0.7, 50),
    "poisson": lambda k: random.poisson(k, vg.tensor([3.0, 30.0]), (20, 2)),
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.usefixtures("on_cpu")
def test_bits_do_not_depend_on_recording_and_mapping(name: str) -> None:
    draw = RECORDED[name]
    keys = random.split(key(), 3)
    expected = [draw(k).numpy() for k in keys]
    recorded = vg.jit(draw)
    for k, wanted in zip([*keys, keys[0]], [*expected, expected[0]], strict=True):
        assert np.array_equal(recorded(k).numpy(), wanted)
    assert np.array_equal(vg.vmap(draw)(keys).numpy(), np.stack(expected))


@pytest.mark.device
@pytest.mark.parametrize(
    "draw",
    [
        lambda: random.gamma(key(), 0.7, 200),
        lambda: random.poisson(key(), 3.0, 200),
        lambda: random.poisson(key(), 30.0, 200),
    ],
    ids=["gamma", "poisson", "poisson-large"],
)
def test_rejection_finds_the_same_candidate_on_devices(draw: Callable[[], vg.Tensor]) -> None:
    found = draw().numpy()
    with config.override(device="cpu"):
        expected = draw().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5)


# ---- shapes, types, gradients, mistakes
@pytest.mark.usefixtures("on_cpu")
def test_shapes_follow_parameters() -> None:
    a = vg.ones((2, 1)) * 2
    for draw in (random.gamma, random.poisson, random.t, random.chisquare, random.pareto):
        assert draw(key(), a).shape == (2, 1) and draw(key(), a, (3, 2, 5)).shape == (3, 2, 5)
        assert draw(key(), 2.0).shape == ()
    assert random.beta(key(), a, vg.ones(3)).shape == (2, 3)
    assert random.binomial(key(), vg.tensor([4, 9]), 0.5).shape == (2,)
    assert random.dirichlet(key(), vg.ones((4, 3))).shape == (4, 3)
    assert random.multivariate_normal(key(), vg.ones(3), vg.eye(3), (5, 2)).shape == (5, 2, 3)
    assert random.permutation(key(), vg.ones((2, 7)), axis=1).shape == (2, 7)
    assert random.choice(key(), vg.ones((2, 7)), (3, 4), axis=1).shape == (2, 3, 4)
    assert random.gamma(key(), 2.0, (0, 3)).shape == (0, 3)
    assert random.choice(key(), 5, (0,)).shape == (0,)
    for small in (vg.float16, vg.bfloat16, vg.float64):
        assert random.gamma(key(), 2.0, 3, small).dtype is random.laplace(key(), 3, dtype=small).dtype is small


@pytest.mark.usefixtures("on_cpu")
def test_numbers_do_not_depend_on_the_shape() -> None:
    for draw in (lambda s: random.gamma(key(), 0.5, s), lambda s: random.poisson(key(), 20.0, s)):
        flat = draw(12).numpy()
        assert np.array_equal(draw((3, 4)).numpy().ravel(), flat)
        assert np.array_equal(draw(5).numpy(), flat[:5])


@pytest.mark.usefixtures("on_cpu")
def test_counts_are_the_same_where_the_mean_is_a_tensor() -> None:
    means = vg.tensor([0.5, 9.0, 10.0, 200.0])
    found = random.poisson(key(), means, (30, 4)).numpy()
    for column, mean in enumerate(means.tolist()):
        assert np.array_equal(random.poisson(key(), mean, (30, 4)).numpy()[:, column], found[:, column])
    chances = vg.tensor([0.01, 0.3, 0.99])
    found = random.binomial(key(), 100, chances, (30, 3)).numpy()
    for column, chance in enumerate([0.01, 0.3, 0.99]):
        assert np.array_equal(random.binomial(key(), 100, chance, (30, 3)).numpy()[:, column], found[:, column])


@pytest.mark.usefixtures("on_cpu")
def test_edges() -> None:
    assert random.poisson(key(), 0.0, 50).numpy().max() == 0
    assert random.binomial(key(), 20, vg.tensor([0.0, 1.0])).tolist() == [0, 20]
    assert random.geometric(key(), 1.0, 3).tolist() == [1, 1, 1]
    assert random.loggamma(key(), 1e-3, 100).numpy().min() < -100
    assert np.isfinite(random.beta(key(), 1e-3, 1e-3, 100).numpy()).all()
    inside = random.truncated_normal(key(), 1.0, 1.5, 500).numpy()
    assert inside.min() >= 1 and inside.max() <= 1.5
    rows = random.dirichlet(key(), vg.full(4, 0.01), 50).numpy()
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-6)
    assert sorted(random.permutation(key(), vg.tensor([3, 5, 7])).tolist()) == [3, 5, 7]
    assert sorted(random.choice(key(), 6, 6, replace=False).tolist()) == list(range(6))
    never = random.choice(key(), 3, (500,), p=[0.5, 0.0, 0.5]).numpy()
    assert set(never.tolist()) == {0, 2}


@pytest.mark.usefixtures("on_cpu")
def test_samples_have_derivatives_by_their_parameters() -> None:
    z = random.normal(key(), 50)
    close(vg.grad(lambda std: random.normal(key(), 50, 1.0, std).sum())(vg.tensor(2.0)), z.numpy().sum(), 20)
    close(vg.grad(lambda low: random.uniform(key(), 50, low, 1.0).sum())(vg.tensor(0.0)),
          (1 - random.uniform(key(), 50)).numpy().sum(), 20)  # fmt: skip
    e = random.exponential(key(), 50).numpy()
    close(vg.grad(lambda scale: random.exponential(key(), 50, scale).sum())(vg.tensor(3.0)), e.sum(), 20)
    slope = vg.grad(lambda b: random.pareto(key(), b, 50).sum())(vg.tensor(3.0)).item()
    assert slope == pytest.approx(float((-e / 9 * np.exp(e / 3)).sum()), rel=1e-4)
    spread = vg.tensor([[2.0, 0.5], [0.5, 1.0]])
    assert np.isfinite(
        vg.grad(lambda c: random.multivariate_normal(key(), vg.zeros(2), c, 5).sum())(spread).numpy()
    ).all()


@pytest.mark.parametrize("a", [0.1, 0.7, 2.0, 30.0])
@pytest.mark.usefixtures("on_cpu")
def test_gamma_numbers_move_with_their_quantile(a: float) -> None:
    """The derivative of a sample is that of the quantile it is, by mpmath."""
    z = random.gamma(key(), a, 6, vg.float64).numpy()
    found = vg.jacobian(lambda a: random.gamma(key(), a, 6, vg.float64))(vg.tensor(a, dtype=vg.float64)).numpy()

    def below(a: Any, z: Any) -> Any:
        return mpmath.gammainc(a, 0, z, regularized=True)

    expected = [
        float(-mpmath.diff(lambda a, x=x: below(a, x), a) / mpmath.diff(lambda z: below(a, z), x)) for x in z.tolist()
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    logs = vg.jacobian(lambda a: random.loggamma(key(), a, 6, vg.float64))(vg.tensor(a, dtype=vg.float64)).numpy()
    np.testing.assert_allclose(logs, found / z, rtol=1e-6)


@pytest.mark.usefixtures("on_cpu")
def test_gamma_numbers_have_second_derivatives() -> None:
    def log_sample(a: Any) -> Any:
        return random.loggamma(key(), a, (), vg.float64)

    a, step = vg.tensor(2.5, dtype=vg.float64), 1e-4
    found = vg.grad(vg.grad(log_sample))(a).item()
    z = mpmath.exp(log_sample(a).item())

    def quantile(a: float) -> Any:  # of the part below z at 2.5
        part = mpmath.gammainc(2.5, 0, z, regularized=True)
        return mpmath.log(mpmath.findroot(lambda x: mpmath.gammainc(a, 0, x, regularized=True) - part, z))

    expected = (quantile(2.5 + step) - 2 * quantile(2.5) + quantile(2.5 - step)) / step**2
    assert found == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.usefixtures("on_cpu")
def test_means_move_with_their_parameters() -> None:
    """Averaged over samples it is that of the mean: a for gamma, a / (a + b) for beta, df for chi-square."""
    for draw, slope, spread in (
        (lambda a: random.gamma(key(), a, COUNT), 1.0, 1.0),
        (lambda a: random.beta(key(), a, 2.0, COUNT), 2 / 16, 0.2),
        (lambda a: random.chisquare(key(), a, COUNT), 1.0, 1.0),
        (lambda a: random.dirichlet(key(), vg.stack([a, a * 0 + 2.0]), COUNT)[:, 0], 2 / 16, 0.2),
    ):
        found = vg.grad(lambda a, draw=draw: draw(a).mean())(vg.tensor(2.0)).item()
        assert found == pytest.approx(slope, abs=4 * spread / math.sqrt(COUNT))
    assert np.isfinite(vg.grad(lambda a: random.gamma(key(), a, 500).sum())(vg.tensor(1e-3)).item())


def test_mistakes_are_named() -> None:
    for complaint, call in {
        "random.gamma: parameters of shape": lambda: random.gamma(key(), vg.ones(3), (1,)),
        "random.choice: cannot choose 4 of 3 without replacement": lambda: random.choice(key(), 3, 4, replace=False),
        "random.choice: p of shape": lambda: random.choice(key(), 3, 2, p=[0.5, 0.5]),
        "random.dirichlet: alpha has an axis": lambda: random.dirichlet(key(), 2.0),
        "random.multivariate_normal: mean": lambda: random.multivariate_normal(key(), vg.ones(2), vg.eye(3)),
    }.items():
        with pytest.raises(ShapeError, match=complaint):
            call()
    with pytest.raises(DTypeError, match=r"random\.gamma: makes float types"):
        random.gamma(key(), 2.0, dtype=vg.int32)


def test_the_statistics_on_numpys_numbers() -> None:
    generator = np.random.default_rng(0)
    assert ks_distance(generator.normal(size=COUNT), normal_below) < ks_limit(COUNT)
    assert ks_distance(generator.normal(size=COUNT) * 1.1, normal_below) > ks_limit(COUNT)
    assert ks_distance(generator.gamma(2.5, size=COUNT), gamma_below(2.5)) < ks_limit(COUNT)
    statistic, limit = chi_square(generator.poisson(4, COUNT), poisson_terms(4))
    assert statistic < limit
    assert chi_square(generator.poisson(4.3, COUNT), poisson_terms(4))[0] > limit
