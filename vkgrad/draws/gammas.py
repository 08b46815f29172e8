"""Gamma numbers and what is made of them: beta, Dirichlet, chi-square, Student's t.

They have derivatives by their parameters, as all that is made of them: by implicit differentiation of the distribution
function. This module must not know how bits are made.

Sources: G. Marsaglia, W. W. Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26, 2000; M. Figurnov, S.
Mohamed, A. Mnih, "Implicit Reparameterization Gradients", 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.custom_rules import custom_vjp
from vkgrad.draws.continuous import normal
from vkgrad.draws.keys import positive_fraction, split
from vkgrad.draws.parameters import Sizes, drawn_shape, first_accepted, float_type
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape
from vkgrad.ir.dtypes import float32
from vkgrad.tensor import Operand, Tensor, lift, tensor

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "loggamma", "t"]

CANDIDATES = 8  # one is accepted with probability 0.95 at least, so all fail once in 10**10 times


def _parts(key: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """A gamma number for each a (that for a + 1 where a < 1), and the logarithm of what it is to be multiplied by."""
    kind = a.dtype
    normals, evens, boosts = split(key, 3)
    small = a < 1
    d = f.expand_dims(f.where(small, a + 1, a) - 1 / 3, -1)
    x = normal(normals, (*a.shape, CANDIDATES), dtype=kind)
    u = positive_fraction(evens, (*a.shape, CANDIDATES), kind)
    root = 1 + x * f.rsqrt(9 * d)
    cube = f.where(root > 0, root * root * root, 1)
    accepted = f.logical_and(root > 0, f.log(u) < 0.5 * x * x + d * (1 - cube + f.log(cube)))
    found = first_accepted(d * cube, accepted)
    boost = f.log(positive_fraction(boosts, a.shape, kind)) / f.where(small, a, 1)
    return found, f.where(small, boost, 0)


# ---- derivatives by the concentration
def _half_line(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of Gauss and Legendre between -1 and 1, brought to 0 … infinity."""
    x, weights = np.polynomial.legendre.leggauss(count)
    return (1 + x) / (1 - x), 2 * weights / (1 - x) ** 2


_PLACES, _WEIGHTS = _half_line(32)


def _log_slope(a: Tensor, log_z: Tensor) -> Tensor:
    """The derivative by a of log(z), where z is the gamma number below which a fixed part of all lies.

    That is the integral of log(t) - digamma(a) over the density beyond z, or what is missing of it below z, over the
    density at z. With t = z exp(w) the integrand falls from w = 0 on, over a width that is known, and 32 places of
    Gauss and Legendre are right to 10**-6 for every a from 0.05 on.
    """
    z = f.exp(log_z)
    side = f.where(z > a, 1.0, -1.0)
    apart = f.abs(a - z)
    width = (2 / (apart + f.sqrt(apart * apart + 2 * z))).detach()
    w = f.expand_dims(width, -1) * tensor(_PLACES, a.dtype)
    a, z, side, log_z = (f.expand_dims(x, -1) for x in (a, z, side, log_z))
    grown = f.expm1(f.minimum(side * w, 80.0))  # where nothing is left of the integrand, it must not overflow first
    integrand = (side * (log_z - f.digamma(a)) + w) * f.exp(side * a * w - z * grown)
    return width * (integrand * tensor(_WEIGHTS, width.dtype)).sum(-1)


def _slope(a: Tensor, z: Tensor) -> Tensor:
    positive = z > 0
    return f.where(positive, z * _log_slope(a, f.log(f.where(positive, z, 1.0))), 0)


def _sampled(
    name: str, a: Operand, shape: Sizes, dtype: Any, draw: Callable[[Tensor], Tensor], slope: Callable[..., Tensor]
) -> Tensor:
    """`draw(a)`, with the derivative `slope(a, sample)` instead of that of the candidate which happened to be taken."""
    kind = float_type(name, dtype)
    concentration = lift(a).astype(kind.computed).broadcast_to(drawn_shape(name, shape, a))
    sample = custom_vjp(draw)
    # The sample in its own derivative is the differentiable one, so that the second derivative is right too.
    sample.defvjp(lambda a: (draw(a.detach()), a), lambda a, g: (g * slope(a, sample(a)),))
    return sample(concentration).astype(kind)


def gamma(key: Tensor, a: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Gamma numbers of concentration a and scale 1, the waiting time for a events; multiply by a scale of your own.

    Example:
        >>> import vkgrad as vg
        >>> slopes = vg.grad(lambda a: vg.random.gamma(vg.random.key(0), a, 2000).mean())(2.0)  # the mean is a
        >>> 0.95 < slopes.item() < 1.05
        True
    """

    def draw(a: Tensor) -> Tensor:
        found, boost = _parts(key, a)
        return found * f.exp(boost)

    return _sampled("gamma", a, shape, dtype, draw, _slope)


def loggamma(key: Tensor, a: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Logarithms of gamma numbers, which for small a are themselves too small to be told from 0."""

    def draw(a: Tensor) -> Tensor:
        found, boost = _parts(key, a)
        return f.log(found) + boost

    return _sampled("loggamma", a, shape, dtype, draw, _log_slope)


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
