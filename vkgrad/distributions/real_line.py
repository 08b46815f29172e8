"""Distributions over all real numbers: normal, Laplace, Cauchy, Student's t.

This module must not know how bits are made.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import random
from vkgrad.distributions.constraints import positive, real
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.parameters import HALF_LOG_2PI, log_beta, together
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor


class _LocationScale(Distribution):
    """loc + scale times a fixed distribution."""

    arg_constraints: ClassVar = {"loc": real, "scale": positive}
    loc: Any
    scale: Any
    support = real

    def __init__(self, loc: Operand = 0.0, scale: Operand = 1.0, validate_args: bool | None = None) -> None:
        super().__init__({"loc": loc, "scale": scale}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)
        return self._standard((x - loc) / scale) - f.log(scale)

    def _standard(self, z: Tensor) -> Tensor:
        raise NotImplementedError


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    Example:
        >>> import vkgrad as vg
        >>> round(vg.distributions.Normal(0.0, 2.0).log_prob(1.0).item(), 4)  # -1/8 - log(2) - log(2 pi) / 2
        -1.7371
    """

    def _standard(self, z: Tensor) -> Tensor:
        return -0.5 * (z * z) - HALF_LOG_2PI

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.normal(key, extents, self.loc, self.scale, kind)

    @property
    def mean(self) -> Tensor:
        return self._all()[0]

    @property
    def variance(self) -> Tensor:
        return f.square(self._all()[1])

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_2PI + f.log(self._all()[1])

    def cdf(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)
        return 0.5 * f.erfc((loc - x) / scale * math.sqrt(0.5))

    def icdf(self, value: Any) -> Tensor:
        p, loc, scale = together(value, *self._kept())
        return loc + scale * math.sqrt(2) * f.erfinv(2 * p - 1)


class Laplace(_LocationScale):
    """The density exp(-|x - loc| / scale) / (2 scale)."""

    def _standard(self, z: Tensor) -> Tensor:
        return -f.abs(z) - math.log(2)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.laplace(key, extents, self.loc, self.scale, kind)

    @property
    def mean(self) -> Tensor:
        return self._all()[0]

    @property
    def variance(self) -> Tensor:
        return 2 * f.square(self._all()[1])

    def entropy(self) -> Tensor:
        return 1 + f.log(2 * self._all()[1])

    def cdf(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)
        z = (x - loc) / scale
        return 0.5 - 0.5 * f.sign(z) * f.expm1(-f.abs(z))

    def icdf(self, value: Any) -> Tensor:
        p, loc, scale = together(value, *self._kept())
        side = 2 * p - 1
        return loc - scale * f.sign(side) * f.log1p(-f.abs(side))


class Cauchy(_LocationScale):
    """The density 1 / (pi scale (1 + ((x - loc) / scale)**2)); it has no mean."""

    def _standard(self, z: Tensor) -> Tensor:
        return -f.log1p(z * z) - math.log(math.pi)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.cauchy(key, extents, self.loc, self.scale, kind)

    @property
    def mean(self) -> Tensor:
        return f.full_like(self._all()[0], math.nan)

    @property
    def variance(self) -> Tensor:
        return f.full_like(self._all()[0], math.inf)

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + f.log(self._all()[1])

    def cdf(self, value: Any) -> Tensor:
        x, loc, scale = self._with(value)
        return f.atan((x - loc) / scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        p, loc, scale = together(value, *self._kept())
        return loc + scale * f.tan(math.pi * (p - 0.5))


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, scaled and moved."""

    arg_constraints: ClassVar = {"df": positive, "loc": real, "scale": positive}
    df: Any
    loc: Any
    scale: Any
    support = real

    def __init__(
        self, df: Operand, loc: Operand = 0.0, scale: Operand = 1.0, validate_args: bool | None = None
    ) -> None:
        super().__init__({"df": df, "loc": loc, "scale": scale}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, df, loc, scale = self._with(value)
        z = (x - loc) / scale
        size = f.lgamma(0.5 * (df + 1)) - f.lgamma(0.5 * df) - 0.5 * f.log(df * math.pi) - f.log(scale)
        return size - 0.5 * (df + 1) * f.log1p(z * z / df)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        found = random.t(key, self.df, extents, kind)
        return found * self.scale + self.loc

    @property
    def mean(self) -> Tensor:
        df, loc, _ = self._all()
        return f.where(df > 1, loc, math.nan)

    @property
    def variance(self) -> Tensor:
        df, _, scale = self._all()
        many = df > 2
        rest = f.where(many, df - 2, 1.0)
        return f.where(many, scale * scale * df / rest, f.where(df > 1, math.inf, math.nan))

    def entropy(self) -> Tensor:
        df, _, scale = self._all()
        half = 0.5 * df
        spread = 0.5 * (df + 1) * (f.digamma(half + 0.5) - f.digamma(half))
        return spread + 0.5 * f.log(df) + log_beta(half, f.full_like(half, 0.5)) + f.log(scale)
