"""Distributions over whole numbers.

Counts with a small mean are found by going through their distribution function, others by rejection from a table
mountain. This module must not know how bits are made.

Sources: W. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993 (PTRS), and "The
generation of binomial random variates", 1993 (BTRS); C. Loader, "Fast and accurate computation of binomial
probabilities", 2000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from vkgrad import functions as f
from vkgrad.draws.keys import bits, fraction, positive_fraction, split
from vkgrad.draws.parameters import Sizes, drawn_shape, first_accepted
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape
from vkgrad.ir.dtypes import float32, int32
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["bernoulli", "binomial", "categorical", "geometric", "poisson", "rademacher", "randint"]

SMALL = 10.0  # means below are searched
TERMS = 40  # of a distribution with such a mean: what is beyond has a probability of 10**-12
CANDIDATES = 12  # of PTRS and BTRS, which accept 0.8 and more of them


def bernoulli(key: Tensor, p: Operand = 0.5, shape: Sizes = None) -> Tensor:
    """A mask that holds with probability `p`; shaped like `p` unless `shape` is given."""
    return fraction(key, lift(p).shape if shape is None else shape) < p


def rademacher(key: Tensor, shape: Sizes = (), dtype: Any = int32) -> Tensor:
    """-1 or 1, evenly likely."""
    return 1 - 2 * (bits(key, () if shape is None else shape) >> 31).astype(dtype)


def randint(key: Tensor, shape: int | Sequence[int], low: int, high: int, dtype: Any = int32) -> Tensor:
    """Integers from low up to but not including high.

    They are remainders of 32 random bits, so some are more likely than others by at most (high - low) / 2**32.

    Raises: `ShapeError` when there is no integer to choose.
    """
    span = high - low
    if not 0 < span <= 2**32:
        raise ShapeError(f"random.randint: needs 1 to 2**32 integers to choose from, got low={low} and high={high}")
    drawn = bits(key, shape)
    drawn = drawn if span == 2**32 else drawn % span
    return drawn.astype(dtype) + low


def categorical(key: Tensor, logits: Operand, axis: int = -1, shape: Sequence[int] | None = None) -> Tensor:
    """Indices along `axis`, with the probabilities softmax(logits). `shape` (of the result) may add leading axes."""
    weights = lift(logits)
    moved = weights.moveaxis(axis, -1)
    wanted = moved.shape[:-1] if shape is None else as_shape("random", shape)
    # The largest of the logits plus Gumbel noise falls on each index with its probability.
    part = positive_fraction(key, (*wanted, moved.shape[-1]))
    return f.argmax(moved - f.log(-f.log(part)), -1)


def geometric(key: Tensor, p: Operand, shape: Sizes = None, dtype: Any = int32) -> Tensor:
    """How many trials, each with probability p, it takes until one succeeds: 1 or more."""
    extents = drawn_shape("geometric", shape, p)
    chance = _single(p)
    trials = f.floor(f.log1p(-fraction(key, extents)) / f.log1p(-chance)) + 1
    return f.where(chance < 1, trials, 1).astype(dtype)


# ---- counts
def _single(x: Operand) -> Tensor:
    """A parameter in single precision; whole numbers have no derivatives."""
    return lift(x).astype(float32).detach()


def poisson(key: Tensor, lam: Operand, shape: Sizes = None, dtype: Any = int32) -> Tensor:
    """How many events there are where `lam` are expected."""
    extents = drawn_shape("poisson", shape, lam)
    mean = _single(lam).broadcast_to(extents)
    first, second = split(key)
    is_small = lam < SMALL if isinstance(lam, int | float) else mean < SMALL
    return _either(is_small, lambda: _few_events(first, mean), lambda: _many_events(second, mean)).astype(dtype)


def _few_events(key: Tensor, mean: Tensor) -> Tensor:
    small = f.minimum(mean, SMALL)
    return _searched(fraction(key, mean.shape), f.exp(-small), lambda k: small / k)


def _many_events(key: Tensor, mean: Tensor) -> Tensor:
    large = f.expand_dims(f.maximum(mean, SMALL), -1)
    b = 0.931 + 2.53 * f.sqrt(large)
    a = -0.059 + 0.02483 * b

    def log_ratio(k: Tensor, us: Tensor, v: Tensor) -> Tensor:
        hat = f.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
        return _log_poisson(k, large) - hat

    return _transformed(key, mean.shape, large + 0.43, a, b, 0.9277 - 3.6224 / (b - 2), math.inf, log_ratio)


def binomial(key: Tensor, n: Operand, p: Operand, shape: Sizes = None, dtype: Any = int32) -> Tensor:
    """How many of n trials succeed, each with probability p."""
    extents = drawn_shape("binomial", shape, n, p)
    trials, chance = (_single(x).broadcast_to(extents) for x in (n, p))
    first, second = split(key)
    rare = f.minimum(chance, 1 - chance)  # count the outcome that is rarer
    is_known = isinstance(n, int | float) and isinstance(p, int | float)
    is_small: Any = n * min(p, 1 - p) < SMALL if is_known else trials * rare < SMALL  # type: ignore[operator, type-var]
    found = _either(is_small, lambda: _few_hits(first, trials, rare), lambda: _many_hits(second, trials, rare))
    return f.where(chance > 0.5, trials - found, found).astype(dtype)


def _few_hits(key: Tensor, trials: Tensor, rare: Tensor) -> Tensor:
    small = f.minimum(rare, SMALL / f.maximum(trials, 1))
    odds = small / (1 - small)
    none = f.exp(trials * f.log1p(-small))
    return f.minimum(_searched(fraction(key, trials.shape), none, lambda k: (trials - (k - 1)) / k * odds), trials)


def _many_hits(key: Tensor, trials: Tensor, rare: Tensor) -> Tensor:
    count = f.expand_dims(f.maximum(trials, 2 * SMALL), -1)
    rate = f.maximum(f.expand_dims(rare, -1), SMALL / count)
    spread = f.sqrt(count * rate * (1 - rate))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * rate
    mode = f.floor((count + 1) * rate)

    def log_ratio(k: Tensor, us: Tensor, v: Tensor) -> Tensor:
        hat = f.log(v * ((2.83 + 5.1 / b) * spread) / (a / (us * us) + b))
        return _log_binomial(k, count, rate) - _log_binomial(mode, count, rate) - hat

    return _transformed(key, trials.shape, count * rate + 0.5, a, b, 0.92 - 4.2 / b, count, log_ratio)


def _either(condition: Tensor | bool, one: Callable[[], Tensor], other: Callable[[], Tensor]) -> Tensor:
    """Both and a choice, or only the one that a known condition asks for."""
    if isinstance(condition, Tensor):
        return f.where(condition, one(), other())
    return one() if condition else other()


def _searched(part: Tensor, first: Tensor, ratio: Any) -> Tensor:
    """The number where the distribution function passes `part`; its terms begin with `first`, ratio(k) is between."""
    term, upto, found = first, first, f.where(part >= first, 1.0, 0.0)
    for k in range(1, TERMS):
        term = term * ratio(k)
        upto = upto + term
        found = found + f.where(part >= upto, 1.0, 0.0)
    return found


def _transformed(
    key: Tensor, extents: tuple[int, ...], centre: Tensor, a: Tensor, b: Tensor, inside: Tensor, most: Any,
    log_ratio: Any,
) -> Tensor:  # fmt: skip
    """Transformed rejection: whole numbers under a table mountain; `log_ratio` is their log density over its."""
    evens, heights = split(key)
    u = fraction(evens, (*extents, CANDIDATES)) - 0.5
    v = positive_fraction(heights, (*extents, CANDIDATES))
    us = f.maximum(0.5 - f.abs(u), 2.0**-25)
    k = f.floor((2 * a / us + b) * u + centre)
    possible = f.logical_and(f.logical_and(k >= 0, k <= most), f.logical_or(us >= 0.013, v <= us))
    held = f.clip(k, 0, f.minimum(most, 2.0**30))
    plainly = f.logical_and(us >= 0.07, v <= inside)
    accepted = f.logical_and(possible, f.logical_or(plainly, log_ratio(held, us, v) >= 0))
    return first_accepted(held, accepted)


def _stirling_error(x: Tensor) -> Tensor:
    """log(x!) less Stirling's (x + 1/2) log(x) - x + log(2 pi) / 2, for whole x > 0.

    By its series from x + 3 on, and the differences that lead there: few operations, without a gamma function.
    """
    inverse = 1 / (x + 3)
    square = inverse * inverse
    found = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    for k in range(3):
        found = found + ((x + (k + 0.5)) * f.log1p(1 / (x + k)) - 1)
    return found


def _deviance(x: Tensor, mean: Tensor) -> Tensor:
    """x log(x / mean) + mean - x for x > 0, by a series where x is near the mean and that would be lost."""
    v = (x - mean) / (x + mean)
    square = v * v
    series = 1 / 3 + square * (1 / 5 + square * (1 / 7 + square * (1 / 9)))
    near = (x - mean) * v + 2 * x * v * square * series
    return f.where(f.abs(v) < 0.1, near, x * f.log(f.maximum(x, 1.0) / mean) + mean - x)


def _log_poisson(k: Tensor, mean: Tensor) -> Tensor:
    many = f.maximum(k, 1.0)
    found = -_stirling_error(many) - _deviance(many, mean) - 0.5 * f.log(2 * math.pi * many)
    return f.where(k > 0, found, -mean)


def _log_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    inside = f.clip(k, 1.0, n - 1)
    rest = n - inside
    found = _stirling_error(n) - _stirling_error(inside) - _stirling_error(rest)
    found = found - _deviance(inside, n * p) - _deviance(rest, n * (1 - p))
    found = found - 0.5 * f.log(2 * math.pi * inside * (rest / n))
    return f.where(k <= 0, n * f.log1p(-p), f.where(k >= n, n * f.log(p), found))
