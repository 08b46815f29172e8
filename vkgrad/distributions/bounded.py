"""Distributions over an interval, and over probabilities that sum to 1.

This module must not know how bits are made.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import random
from vkgrad.distributions.constraints import Constraint, independent, interval, positive, real, simplex, unit_interval
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.parameters import log_beta, times, together
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor


class Uniform(Distribution):
    """Numbers spread evenly between `low` and `high`."""

    arg_constraints: ClassVar = {"low": real, "high": real}
    low: Any
    high: Any

    def __init__(self, low: Operand, high: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"low": low, "high": high}, validate_args)
        if isinstance(self.low, float) and isinstance(self.high, float) and not self.low < self.high:
            raise OptionError(f"{self._name}: low must be below high, got {low} and {high}")

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return interval(self.low, self.high)

    def log_prob(self, value: Any) -> Tensor:
        x, low, high = self._with(value)
        return f.where((x < low) | (x > high), -math.inf, -f.log(high - low) + 0 * x)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.uniform(key, extents, self.low, self.high, kind)

    @property
    def mean(self) -> Tensor:
        low, high = self._all()
        return 0.5 * (low + high)

    @property
    def variance(self) -> Tensor:
        low, high = self._all()
        return f.square(high - low) / 12

    def entropy(self) -> Tensor:
        low, high = self._all()
        return f.log(high - low)

    def cdf(self, value: Any) -> Tensor:
        x, low, high = self._with(value)
        return f.clip((x - low) / (high - low), 0.0, 1.0)

    def icdf(self, value: Any) -> Tensor:
        p, low, high = together(value, *self._kept())
        return low + (high - low) * p


class Beta(Distribution):
    """The density x**(concentration1 - 1) (1 - x)**(concentration0 - 1), over its integral."""

    arg_constraints: ClassVar = {"concentration1": positive, "concentration0": positive}
    support = unit_interval
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Operand, concentration0: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"concentration1": concentration1, "concentration0": concentration0}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, a, b = self._with(value)
        outside = (x < 0) | (x > 1)
        x = f.where(outside, 0.5, x)
        return f.where(outside, -math.inf, times(a - 1, f.log(x)) + times(b - 1, f.log1p(-x)) - log_beta(a, b))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.beta(key, self.concentration1, self.concentration0, extents, kind)

    @property
    def mean(self) -> Tensor:
        a, b = self._all()
        return a / (a + b)

    @property
    def variance(self) -> Tensor:
        a, b = self._all()
        return a * b / (f.square(a + b) * (a + b + 1))

    def entropy(self) -> Tensor:
        a, b = self._all()
        rest = (a - 1) * f.digamma(a) + (b - 1) * f.digamma(b)
        return log_beta(a, b) - rest + (a + b - 2) * f.digamma(a + b)


class Dirichlet(Distribution):
    """Probabilities that sum to 1, with the density prod(x**(concentration - 1)) over its integral.

    Shapes: concentration (..., K); a sample has the event shape (K,).
    """

    arg_constraints: ClassVar = {"concentration": independent(positive, 1)}
    support = simplex
    concentration: Any

    def __init__(self, concentration: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"concentration": concentration}, validate_args)
        self.event_shape = self.concentration.shape[-1:]

    def log_prob(self, value: Any) -> Tensor:
        x, a = self._with(value)
        outside = simplex.outside(x)
        x = f.where(outside.expand_dims(-1), 1.0 / self.event_shape[0], x)
        found = times(a - 1, f.log(x)).sum(-1) - _log_size(a)
        return f.where(outside, -math.inf, found)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.dirichlet(key, self.concentration, extents, kind)

    @property
    def mean(self) -> Tensor:
        (a,) = self._all()
        return a / a.sum(-1, keepdims=True)

    @property
    def variance(self) -> Tensor:
        (a,) = self._all()
        total = a.sum(-1, keepdims=True)
        part = a / total
        return part * (1 - part) / (total + 1)

    def entropy(self) -> Tensor:
        (a,) = self._all()
        total = a.sum(-1)
        rest = ((a - 1) * f.digamma(a)).sum(-1)
        return _log_size(a) + (total - self.event_shape[0]) * f.digamma(total) - rest


def _log_size(a: Tensor) -> Tensor:
    """The logarithm of the integral of prod(x**(a - 1))."""
    return f.lgamma(a).sum(-1) - f.lgamma(a.sum(-1))


def dirichlet_divergence(a: Tensor, b: Tensor) -> Tensor:
    """The divergence of two Dirichlet distributions by their concentrations."""
    a, b = together(a, b)
    apart = f.digamma(a) - f.digamma(a.sum(-1, keepdims=True))
    return _log_size(b) - _log_size(a) + ((a - b) * apart).sum(-1)
