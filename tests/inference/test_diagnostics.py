"""`r_hat` and `ess` against NumPy's loops over one number's chains, and on chains of which the answer is known."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import ShapeError
from vkgrad.inference import ess, r_hat

pytestmark = pytest.mark.usefixtures("on_cpu")


def chains(alike: float, count: int = 4, length: int = 400, seed: int = 0) -> np.ndarray:
    """Chains whose draws are alike by `alike` to the one before, of deviation 1."""
    noise = np.random.default_rng(seed).standard_normal((count, length))
    found = [noise[:, 0]]
    for step in noise.T[1:]:
        found.append(alike * found[-1] + np.sqrt(1 - alike**2) * step)
    return np.stack(found, 1)


def halves(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, : x.shape[1] // 2], x[:, -(x.shape[1] // 2) :]])


def plain_r_hat(x: np.ndarray) -> float:
    """Vehtari et al. (2021), equations 1 to 5 and 14, as they stand there."""
    found = []
    for values in (halves(x), np.abs(halves(x) - np.median(halves(x)))):
        ranks = values.reshape(-1).argsort().argsort().reshape(values.shape) + 1
        z = np.vectorize(NormalDist().inv_cdf)((ranks - 3 / 8) / (values.size + 1 / 4))
        n = z.shape[1]
        within, between = z.var(1, ddof=1).mean(), n * z.mean(1).var(ddof=1)
        found.append(np.sqrt(((n - 1) / n * within + between / n) / within))
    return max(found)


def plain_ess(x: np.ndarray) -> float:
    """The same, equations 10 to 13, with Geyer's positive and falling sums."""
    z = halves(x)
    m, n = z.shape
    within = z.var(1, ddof=1).mean()
    whole = (n - 1) / n * within + z.mean(1).var(ddof=1)
    centred = z - z.mean(1, keepdims=True)
    lags = [(centred[:, : n - t] * centred[:, t:]).sum(1).mean() / (n - 1) for t in range(n)]
    rho = [1.0, *(1 - (within - lag) / whole for lag in lags[1:])]
    total, least = 0.0, np.inf
    for t in range(0, n - 1, 2):
        pair = rho[t] + rho[t + 1]
        if pair <= 0:
            break
        least = min(least, pair)
        total += least
    return m * n / max(2 * total - 1, 1 / np.log10(m * n))


@pytest.mark.parametrize("alike", [-0.5, 0.0, 0.6, 0.95])
@pytest.mark.parametrize("length", [60, 401])
def test_against_loops(alike: float, length: int) -> None:
    x = np.stack([chains(alike, length=length, seed=seed) + 0.1 * seed for seed in range(3)], -1)
    x[:2, :, 2] += 0.5
    draws = vg.tensor(x)
    np.testing.assert_allclose(ess(draws).numpy(), [plain_ess(x[..., k]) for k in range(3)], rtol=1e-9)
    # The two draws beside the median are equally far from it but for rounding, so their ranks may change places.
    np.testing.assert_allclose(r_hat(draws).numpy(), [plain_r_hat(x[..., k]) for k in range(3)], rtol=1e-4)


def test_known_answers() -> None:
    for alike in (0.0, 0.5, 0.9):
        expected = 8 * 2000 * (1 - alike) / (1 + alike)
        assert ess(vg.tensor(chains(alike, 8, 2000))).item() == pytest.approx(expected, rel=0.25)
    fine = chains(0.0, 4, 1000)
    assert 0.999 < r_hat(vg.tensor(fine)).item() < 1.01
    for off in (fine + np.array([[0.0], [0.0], [0.0], [1.0]]), fine + np.linspace(0, 2, 1000)):
        assert r_hat(vg.tensor(off)).item() > 1.05  # chains that are apart, and chains that drift
        assert ess(vg.tensor(off)).item() < 400
    wide = fine * np.array([[1.0], [1.0], [1.0], [3.0]])  # of one mean, and of other tails
    assert r_hat(vg.tensor(wide)).item() > 1.05


def test_shapes() -> None:
    draws = vg.tensor(np.random.default_rng(0).standard_normal((2, 20, 3, 5)).astype(np.float32))
    assert r_hat(draws).shape == ess(draws).shape == (3, 5)
    assert ess(draws[..., 0, 0]).shape == ()
    with pytest.raises(ShapeError, match=r"takes draws of shape \(chains, draws, \.\.\.\), 4 or more, got \(5,\)"):
        r_hat(vg.zeros(5))
    with pytest.raises(ShapeError, match="ess: takes draws"):
        ess(vg.zeros((4, 3)))
