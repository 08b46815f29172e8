"""Whether draws of several chains agree, and as how many independent draws they count; all on the device.

Source: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, "Rank-Normalization, Folding, and Localization:
An Improved R-hat for Assessing Convergence of MCMC", Bayesian Analysis 16, 2021; C. J. Geyer, "Practical Markov Chain
Monte Carlo", 1992 (sums of neighbours).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkgrad import fft, tree
from vkgrad import functions as f
from vkgrad.errors import ShapeError
from vkgrad.functions.elementwise import as_floats
from vkgrad.tensor import Tensor


def _halves(name: str, x: Any) -> Tensor:
    """Draws (C, N, *E) as halves of chains, last: (E, 2 C, N / 2). A chain that drifts disagrees with itself then."""
    draws = as_floats(x)
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise ShapeError(f"inference.{name}: takes draws of shape (chains, draws, ...), 4 or more, got {draws.shape}")
    count, length = draws.shape[0], draws.shape[1] // 2
    flat = draws.reshape((count, draws.shape[1], -1))
    return f.concat([flat[:, :length], flat[:, -length:]], axis=0).permute((2, 0, 1))


def _ranked(x: Tensor) -> Tensor:
    """Normal numbers in place of draws, by their ranks among all chains, so that no tail is too heavy."""
    count = x.shape[1] * x.shape[2]
    flat = x.reshape((x.shape[0], count))
    rank = f.argsort(f.argsort(flat, axis=-1), axis=-1).astype(x.dtype)
    part = (rank + (1 - 0.375)) / (count + 0.25)
    return (f.erfinv(2 * part - 1) * math.sqrt(2)).reshape(x.shape)


def _spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean variance within chains, and the estimate of the variance that also counts how far they are apart."""
    length = x.shape[2]
    within = f.var(x, axis=2, correction=1).mean(-1)
    between = f.var(x.mean(2), axis=1, correction=1)
    return within, within * ((length - 1) / length) + between


def r_hat(draws: Any) -> Tensor:
    """How much wider all chains are together than each half of one: 1 where they agree, and above 1.01 they do not.

    The larger one of the draws' ranks and of the ranks of their distances from the median, which sees tails.

    Shapes: (C, N, ...) -> (...).

    Raises: `ShapeError` where there are no such axes.

    Example:
        >>> import vkgrad as vg
        >>> draws = vg.random.normal(vg.random.key(0), (4, 200))
        >>> 0.99 < vg.inference.r_hat(draws).item() < 1.02
        True
    """
    x = _halves("r_hat", draws)
    folded = f.abs(x - f.median(x.reshape((x.shape[0], -1)), axis=-1).reshape((-1, 1, 1)))
    found = []
    for values in (x, folded):
        within, whole = _spread(_ranked(values))
        found.append(f.sqrt(whole / within))
    return f.maximum(*found).reshape(as_floats(draws).shape[2:])


def ess(draws: Any) -> Tensor:
    """As how many independent draws these count for the mean: fewer where neighbours in a chain are alike.

    Shapes: (C, N, ...) -> (...).

    Raises: `ShapeError` where there are no such axes.
    """
    x = _halves("ess", draws)
    size, chains, length = x.shape
    within, whole = _spread(x)
    centred = x - x.mean(2, keepdims=True)
    padded = f.pad(centred, ((0, 0), (0, 0), (0, length)), 0.0)  # else the end would be a neighbour of the beginning
    power = f.square(fft.rfft(padded)).sum(-1)
    covariance = fft.irfft(f.stack([power, f.zeros_like(power)], -1), 2 * length)[..., :length] / length
    scale = length / (length - 1)
    alike = 1 - (within.reshape((-1, 1)) - (covariance * scale).mean(1)) / whole.reshape((-1, 1))
    alike = f.concat([f.ones((size, 1), dtype=x.dtype), alike[:, 1:]], axis=1)
    # Sums of two neighbours are positive and fall in a reversible chain; where they do not, only noise is left.
    pairs = alike[:, : length // 2 * 2].reshape((size, -1, 2)).sum(-1)
    kept = f.cumprod((pairs > 0).astype(x.dtype), -1)
    falling = f.cummin(pairs, -1)
    time = 2 * (falling * kept).sum(-1) - 1
    total = chains * length
    return (total / f.maximum(time, 1 / math.log10(total))).reshape(as_floats(draws).shape[2:])


def summary(draws: Any) -> str:
    """A table of mean, deviation, effective number of draws and r_hat for each number of a nesting of draws."""
    lines = [f"{'':16}{'mean':>10}{'std':>10}{'ess':>8}{'r_hat':>8}"]
    for leaf in tree.leaves(draws):
        x = leaf.value
        columns = [x.mean((0, 1)), x.std((0, 1)), ess(x), r_hat(x)]
        numbers = [column.numpy().reshape(-1) for column in columns]
        for place, index in enumerate(np.ndindex(x.shape[2:])):
            name = leaf.path + (f"[{', '.join(map(str, index))}]" if index else "")
            mean, std, effective, agreement = (column[place] for column in numbers)
            lines.append(f"{name:16}{mean:10.4g}{std:10.4g}{effective:8.0f}{agreement:8.3f}")
    return "\n".join(lines)
