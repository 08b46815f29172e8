"""Distributions over positive numbers: exponential, gamma, Weibull, log-normal, and halves of the real line's.

This module must not know how bits are made.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import random
from vkgrad.distributions.constraints import nonnegative, positive, real
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.parameters import HALF_LOG_2PI, times, together, within
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor

EULER = 0.5772156649015329


class Exponential(Distribution):
    """Waiting times of mean 1 / rate."""

    arg_constraints: ClassVar = {"rate": positive}
    rate: Any
    support = nonnegative

    def __init__(self, rate: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"rate": rate}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, rate = self._with(value)
        return within(x < 0, x, 1.0, lambda x: f.log(rate) - rate * x)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.exponential(key, extents, 1.0, kind) / self.rate

    @property
    def mean(self) -> Tensor:
        return 1 / self._all()[0]

    @property
    def variance(self) -> Tensor:
        return 1 / f.square(self._all()[0])

    def entropy(self) -> Tensor:
        return 1 - f.log(self._all()[0])

    def cdf(self, value: Any) -> Tensor:
        x, rate = self._with(value)
        return -f.expm1(-rate * f.maximum(x, 0.0))

    def icdf(self, value: Any) -> Tensor:
        p, rate = together(value, *self._kept())
        return -f.log1p(-p) / rate


class Gamma(Distribution):
    """Sums of `concentration` waiting times of mean 1 / rate."""

    arg_constraints: ClassVar = {"concentration": positive, "rate": positive}
    concentration: Any
    rate: Any
    support = nonnegative

    def __init__(self, concentration: Operand, rate: Operand = 1.0, validate_args: bool | None = None) -> None:
        super().__init__({"concentration": concentration, "rate": rate}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, a, rate = self._with(value)
        size = a * f.log(rate) - f.lgamma(a)
        return within(x < 0, x, 1.0, lambda x: size + times(a - 1, f.log(x)) - rate * x)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.gamma(key, self.concentration, extents, kind) / self.rate

    @property
    def mean(self) -> Tensor:
        a, rate = self._all()
        return a / rate

    @property
    def variance(self) -> Tensor:
        a, rate = self._all()
        return a / f.square(rate)

    def entropy(self) -> Tensor:
        a, rate = self._all()
        return a - f.log(rate) + f.lgamma(a) + (1 - a) * f.digamma(a)


class Weibull(Distribution):
    """scale times a waiting time of mean 1 to the power 1 / concentration."""

    arg_constraints: ClassVar = {"scale": positive, "concentration": positive}
    scale: Any
    concentration: Any
    support = nonnegative

    def __init__(self, scale: Operand, concentration: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"scale": scale, "concentration": concentration}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, scale, k = self._with(value)

        def density(x: Tensor) -> Tensor:
            log_z = f.log(x) - f.log(scale)
            return f.log(k) - f.log(scale) + times(k - 1, log_z) - f.exp(times(k, log_z))

        return within(x < 0, x, 1.0, density)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        waited = random.exponential(key, extents, 1.0, kind)
        return self.scale * waited ** (1 / self.concentration)

    @property
    def mean(self) -> Tensor:
        scale, k = self._all()
        return scale * f.exp(f.lgamma(1 + 1 / k))

    @property
    def variance(self) -> Tensor:
        scale, k = self._all()
        return f.square(scale) * (f.exp(f.lgamma(1 + 2 / k)) - f.exp(2 * f.lgamma(1 + 1 / k)))

    def entropy(self) -> Tensor:
        scale, k = self._all()
        return EULER * (1 - 1 / k) + f.log(scale / k) + 1

    def cdf(self, value: Any) -> Tensor:
        x, scale, k = self._with(value)
        positive = x > 0
        log_z = f.log(f.where(positive, x, 1.0) / scale)
        return f.where(positive, -f.expm1(-f.exp(k * log_z)), 0.0)

    def icdf(self, value: Any) -> Tensor:
        p, scale, k = together(value, *self._kept())
        return scale * (-f.log1p(-p)) ** (1 / k)


class LogNormal(Distribution):
    """Numbers whose logarithm is normal of mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar = {"loc": real, "scale": positive}
    loc: Any
    scale: Any
    support = positive

    def __init__(self, loc: Operand, scale: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"loc": loc, "scale": scale}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)

        def density(x: Tensor) -> Tensor:
            log_x = f.log(x)
            z = (log_x - loc) / scale
            return -0.5 * (z * z) - HALF_LOG_2PI - f.log(scale) - log_x

        return within(x <= 0, x, 1.0, density)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.lognormal(key, extents, self.loc, self.scale, kind)

    @property
    def mean(self) -> Tensor:
        loc, scale = self._all()
        return f.exp(loc + 0.5 * f.square(scale))

    @property
    def variance(self) -> Tensor:
        loc, scale = self._all()
        return f.expm1(f.square(scale)) * f.exp(2 * loc + f.square(scale))

    def entropy(self) -> Tensor:
        loc, scale = self._all()
        return 0.5 + HALF_LOG_2PI + f.log(scale) + loc

    def cdf(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)
        positive = x > 0
        log_x = f.log(f.where(positive, x, 1.0))
        return f.where(positive, 0.5 * f.erfc((loc - log_x) / scale * math.sqrt(0.5)), 0.0)

    def icdf(self, value: Any) -> Tensor:
        p, loc, scale = together(value, *self._kept())
        return f.exp(loc + scale * math.sqrt(2) * f.erfinv(2 * p - 1))


class _Half(Distribution):
    """The size of a number that is symmetric about 0."""

    arg_constraints: ClassVar = {"scale": positive}
    scale: Any
    support = nonnegative

    def __init__(self, scale: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"scale": scale}, validate_args)


class HalfNormal(_Half):
    """The size of a normal number of mean 0 and standard deviation `scale`."""

    def log_prob(self, value: Any) -> Tensor:
        x, scale = self._with(value)
        size = math.log(2) - HALF_LOG_2PI - f.log(scale)
        return within(x < 0, x, 1.0, lambda x: size - 0.5 * f.square(x / scale))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return f.abs(random.normal(key, extents, dtype=kind)) * self.scale

    @property
    def mean(self) -> Tensor:
        return self._all()[0] * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return f.square(self._all()[0]) * (1 - 2 / math.pi)

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_2PI - math.log(2) + f.log(self._all()[0])

    def cdf(self, value: Any) -> Tensor:
        x, scale = self._with(value)
        return f.erf(f.maximum(x, 0.0) / scale * math.sqrt(0.5))

    def icdf(self, value: Any) -> Tensor:
        p, scale = together(value, *self._kept())
        return scale * math.sqrt(2) * f.erfinv(p)


class HalfCauchy(_Half):
    """The size of a Cauchy number about 0; it has no mean."""

    def log_prob(self, value: Any) -> Tensor:
        x, scale = self._with(value)
        size = math.log(2 / math.pi) - f.log(scale)
        return within(x < 0, x, 1.0, lambda x: size - f.log1p(f.square(x / scale)))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return f.abs(random.cauchy(key, extents, dtype=kind)) * self.scale

    @property
    def mean(self) -> Tensor:
        return f.full_like(self._all()[0], math.inf)

    @property
    def variance(self) -> Tensor:
        return f.full_like(self._all()[0], math.inf)

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + f.log(self._all()[0])

    def cdf(self, value: Any) -> Tensor:
        x, scale = self._with(value)
        return 2 / math.pi * f.atan(f.maximum(x, 0.0) / scale)

    def icdf(self, value: Any) -> Tensor:
        p, scale = together(value, *self._kept())
        return scale * f.tan(math.pi / 2 * p)
