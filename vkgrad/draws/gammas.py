"""Gamma numbers and what is made of them: beta, Dirichlet, chi-square, Student's t.

Source: G. Marsaglia, W. W. Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26, 2000. This module must
not know how bits are made.
"""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.draws.continuous import normal
from vkgrad.draws.keys import positive_fraction, split
from vkgrad.draws.parameters import Sizes, drawn_shape, first_accepted, float_type, undifferentiated
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape
from vkgrad.ir.dtypes import float32
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "loggamma", "t"]

CANDIDATES = 8  # one is accepted with probability 0.95 at least, so all fail once in 10**10 times


def _parts(name: str, key: Tensor, a: Operand, shape: Sizes, dtype: Any) -> tuple[Tensor, Tensor]:
    """A gamma number for a (that for a + 1 where a < 1), and the logarithm of what it is to be multiplied by."""
    kind = float_type(name, dtype).computed
    extents = drawn_shape(name, shape, a)
    concentration = undifferentiated(name, a, kind).broadcast_to(extents)
    normals, evens, boosts = split(key, 3)
    small = concentration < 1
    d = f.expand_dims(f.where(small, concentration + 1, concentration) - 1 / 3, -1)
    x = normal(normals, (*extents, CANDIDATES), dtype=kind)
    u = positive_fraction(evens, (*extents, CANDIDATES), kind)
    root = 1 + x * f.rsqrt(9 * d)
    cube = f.where(root > 0, root * root * root, 1)
    accepted = f.logical_and(root > 0, f.log(u) < 0.5 * x * x + d * (1 - cube + f.log(cube)))
    found = first_accepted(d * cube, accepted)
    boost = f.log(positive_fraction(boosts, extents, kind)) / f.where(small, concentration, 1)
    return found, f.where(small, boost, 0)


def gamma(key: Tensor, a: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Gamma numbers of concentration a and scale 1: the waiting time for a events.

    Multiply by a scale of your own; there is no derivative by a.
    """
    found, boost = _parts("gamma", key, a, shape, dtype)
    return (found * f.exp(boost)).astype(dtype)


def loggamma(key: Tensor, a: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Logarithms of gamma numbers, which for small a are themselves too small to be told from 0."""
    found, boost = _parts("loggamma", key, a, shape, dtype)
    return (f.log(found) + boost).astype(dtype)


def beta(key: Tensor, a: Operand, b: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Numbers between 0 and 1 with the density x**(a - 1) (1 - x)**(b - 1), but for its integral."""
    kind = float_type("beta", dtype)
    extents = drawn_shape("beta", shape, a, b)
    first, second = split(key)
    logs = [loggamma(k, lift(c), extents, kind.computed) for k, c in ((first, a), (second, b))]
    return f.sigmoid(logs[0] - logs[1]).astype(kind)


def dirichlet(key: Tensor, alpha: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Probabilities that sum to 1: gamma numbers over their sum.

    Shapes: alpha (..., N); `shape` is that of the batch -> (*shape, N).
    """
    kind = float_type("dirichlet", dtype)
    concentration = lift(alpha)
    if not concentration.ndim:
        raise ShapeError("random.dirichlet: alpha has an axis of concentrations, got one number")
    batch = concentration.shape[:-1] if shape is None else as_shape("random", shape)
    logs = loggamma(key, concentration, (*batch, concentration.shape[-1]), kind.computed)
    return f.softmax(logs, -1).astype(kind)


def chisquare(key: Tensor, df: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Sums of the squares of `df` normal numbers."""
    return gamma(key, lift(df) * 0.5, shape, dtype) * 2


def t(key: Tensor, df: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Student's t: a normal number over the root of a mean of `df` squares of others."""
    kind = float_type("t", dtype)
    extents = drawn_shape("t", shape, df)
    first, second = split(key)
    half = lift(df).astype(kind.computed) * 0.5
    scale = f.sqrt(half / gamma(second, half, extents, kind.computed))
    return (normal(first, extents, dtype=kind.computed) * scale).astype(kind)
