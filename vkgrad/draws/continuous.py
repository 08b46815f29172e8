"""Distributions over the real line that are a function of one or two even fractions: normal and its kin, tails, waits.

Their samples have derivatives by their parameters. This module must not know how bits are made.
"""

from __future__ import annotations

import math
from typing import Any

from vkgrad import functions as f
from vkgrad.draws.keys import centred, fraction, positive_fraction
from vkgrad.draws.parameters import Sizes, drawn_shape, float_type
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape
from vkgrad.ir.dtypes import DType, float32
from vkgrad.linalg import cholesky
from vkgrad.tensor import Operand, Tensor, lift

__all__ = [
    "cauchy", "exponential", "gumbel", "laplace", "logistic", "lognormal", "multivariate_normal", "normal", "pareto",
    "rayleigh", "triangular", "truncated_normal", "uniform", "weibull_min",
]  # fmt: skip


def _computed(kind: DType) -> DType:
    """The type in which a sample is computed, whose digits its bits fill."""
    return float32 if kind.narrow else kind


def uniform(key: Tensor, shape: Sizes = (), low: Any = 0.0, high: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Numbers spread evenly over [low, high): as many random bits each as the type holds (24 in float32).

    Where low is not 0, rounding may give `high` itself.
    """
    return fraction(key, _given(shape), float_type("uniform", dtype)) * (high - low) + low


def _given(shape: Sizes) -> tuple[int, ...]:
    return as_shape("random", () if shape is None else shape)


def normal(key: Tensor, shape: Sizes = (), mean: Any = 0.0, std: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Normal numbers with that mean and standard deviation, by the inverse of the distribution function."""
    kind = float_type("normal", dtype)
    if kind.narrow:
        return normal(key, shape, mean, std).astype(kind)
    return f.erfinv(centred(key, _given(shape), kind)) * (std * math.sqrt(2)) + mean


def lognormal(key: Tensor, shape: Sizes = (), mean: Any = 0.0, std: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Numbers whose logarithm is normal with that mean and standard deviation."""
    return f.exp(normal(key, shape, mean, std, dtype))


def truncated_normal(key: Tensor, lower: Operand, upper: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Normal numbers (mean 0, deviation 1) given that they lie from `lower` to `upper`.

    Beyond 5 deviations float32 has no digits for the probability, and the ends themselves come out.
    """
    kind = float_type("truncated_normal", dtype)
    extents = drawn_shape("truncated_normal", shape, lower, upper)
    low, high = (lift(end).astype(_computed(kind)) for end in (lower, upper))
    first, last = f.erf(low * math.sqrt(0.5)), f.erf(high * math.sqrt(0.5))
    place = first + (last - first) * fraction(key, extents, _computed(kind))
    inside = f.erfinv(place) * math.sqrt(2)
    return f.clip(inside, low, high).astype(kind)


def multivariate_normal(key: Tensor, mean: Operand, cov: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Normal vectors with that mean and positive definite covariance, by its Cholesky factor.

    Shapes: mean (..., N), cov (..., N, N); `shape` is that of the batch -> (*shape, N).
    """
    kind = float_type("multivariate_normal", dtype)
    centre, spread = lift(mean).astype(_computed(kind)), lift(cov).astype(_computed(kind))
    if not centre.ndim or spread.shape[-2:] != (centre.shape[-1],) * 2:
        raise ShapeError(f"random.multivariate_normal: mean {centre.shape} and cov {spread.shape} do not fit")
    batch = drawn_shape("multivariate_normal", shape, centre[..., 0], spread[..., 0, 0])
    even = normal(key, (*batch, centre.shape[-1], 1), dtype=_computed(kind))
    return (centre + (cholesky(spread) @ even).squeeze(-1)).astype(kind)


# ---- by the inverse of the distribution function
def exponential(key: Tensor, shape: Sizes = (), scale: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Waiting times with the mean `scale`."""
    kind = float_type("exponential", dtype)
    return (-f.log1p(-fraction(key, _given(shape), _computed(kind))) * scale).astype(kind)


def laplace(key: Tensor, shape: Sizes = (), loc: Any = 0.0, scale: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Numbers whose distance from `loc`, to either side, is exponential with the mean `scale`."""
    kind = float_type("laplace", dtype)
    side = centred(key, _given(shape), _computed(kind))
    return (-f.sign(side) * f.log1p(-f.abs(side)) * scale + loc).astype(kind)


def cauchy(key: Tensor, shape: Sizes = (), loc: Any = 0.0, scale: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Where a line in an even direction, through a point `scale` beside `loc`, meets the axis."""
    kind = float_type("cauchy", dtype)
    turn = centred(key, _given(shape), _computed(kind)) * (math.pi / 2)
    return (f.tan(turn) * scale + loc).astype(kind)


def gumbel(key: Tensor, shape: Sizes = (), loc: Any = 0.0, scale: Any = 1.0, dtype: Any = float32) -> Tensor:
    """The limit of the largest of many: loc - scale log(-log(u))."""
    kind = float_type("gumbel", dtype)
    return (-f.log(-f.log(positive_fraction(key, _given(shape), _computed(kind)))) * scale + loc).astype(kind)


def logistic(key: Tensor, shape: Sizes = (), loc: Any = 0.0, scale: Any = 1.0, dtype: Any = float32) -> Tensor:
    """Numbers whose distribution function is a sigmoid: log(u / (1 - u))."""
    kind = float_type("logistic", dtype)
    part = positive_fraction(key, _given(shape), _computed(kind))
    return ((f.log(part) - f.log1p(-part)) * scale + loc).astype(kind)


def rayleigh(key: Tensor, scale: Operand = 1.0, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """The length of a normal vector in the plane, of deviation `scale` along each axis."""
    extents = drawn_shape("rayleigh", shape, scale)
    return f.sqrt(exponential(key, extents, 2.0, dtype)) * scale


def weibull_min(
    key: Tensor, scale: Operand, concentration: Operand, shape: Sizes = None, dtype: Any = float32
) -> Tensor:
    """scale times an exponential number to the power 1 / concentration."""
    extents = drawn_shape("weibull_min", shape, scale, concentration)
    return exponential(key, extents, 1.0, dtype) ** (1.0 / lift(concentration)) * scale


def pareto(key: Tensor, b: Operand, shape: Sizes = None, dtype: Any = float32) -> Tensor:
    """Numbers from 1 on, that are above x with probability x**-b."""
    extents = drawn_shape("pareto", shape, b)
    return f.exp(exponential(key, extents, 1.0, dtype) / b)


def triangular(
    key: Tensor, left: Operand, mode: Operand, right: Operand, shape: Sizes = None, dtype: Any = float32
) -> Tensor:
    """Numbers from `left` to `right` whose density rises evenly up to `mode` and falls evenly after it."""
    kind = float_type("triangular", dtype)
    extents = drawn_shape("triangular", shape, left, mode, right)
    low, top, high = (lift(part).astype(_computed(kind)) for part in (left, mode, right))
    part = fraction(key, extents, _computed(kind))
    width = high - low
    rising = low + f.sqrt(part * width * (top - low))
    falling = high - f.sqrt((1 - part) * width * (high - top))
    return f.where(part * width < top - low, rising, falling).astype(kind)
