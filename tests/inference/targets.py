"""Densities whose moments are known, and runs of chains that begin in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad.inference.adapting import Adaptation
from vkgrad.inference.chains import Chains
from vkgrad.inference.density import Density


def covariance(d: int) -> np.ndarray:
    """Of numbers that are alike by 0.8 to their neighbours, of deviations from 0.5 to 2."""
    places, scale = np.arange(d), np.linspace(0.5, 2, d)
    return 0.8 ** np.abs(places[:, None] - places) * scale * scale[:, None]


def correlated(d: int, dtype: Any = "float32") -> Callable[[vg.Tensor], vg.Tensor]:
    """The log density of normal vectors with that covariance, about 1, 2 … d, but for a constant."""
    precision = vg.tensor(np.linalg.inv(covariance(d)), dtype)
    mean = vg.tensor(np.arange(1, d + 1), dtype)
    return lambda x: -0.5 * ((x - mean) * (precision @ (x - mean))).sum()


def begin(d: int, chains: int, dtype: Any = "float32") -> vg.Tensor:
    """Positions drawn from that distribution."""
    generator = np.random.default_rng([d, chains])
    lower = np.linalg.cholesky(covariance(d))
    return vg.tensor(generator.standard_normal((chains, d)) @ lower.T + np.arange(1, d + 1), dtype)


def sampler(kernel: Any, density: Any, initial: Any, step_size: float, seed: int = 0) -> Any:
    """What `inference.sample` makes, without a warm-up."""
    known = Density(density, initial)
    chains, adaptation = Chains(known, known.rows(initial)), Adaptation(known.size, known.dtype, kernel.target)
    adaptation.start_at(step_size)
    return kernel.sampler(chains, adaptation, vg.random.key(seed))
