"""Distributions over whole numbers: Bernoulli, binomial, categorical, Poisson.

Samples are floats of the parameters' type, but those of `Categorical`, which are indices. This module must not know how
bits are made.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import random
from vkgrad.distributions.constraints import (
    Constraint,
    boolean,
    integers,
    nonnegative,
    nonnegative_integer,
    real,
    real_vector,
    unit_interval,
    weights,
)
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.parameters import times, within
from vkgrad.errors import OptionError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor, asarray, lift


def _either(name: str, probs: Any, logits: Any) -> dict[str, Any]:
    """The one of the two parameters that is given."""
    if (probs is None) == (logits is None):
        raise OptionError(f"distributions.{name}: takes probs or logits, one of them")
    return {"logits": logits} if probs is None else {"probs": probs}


class _Trials(Distribution):
    """A distribution by the probability of success, or by its logit log(p / (1 - p))."""

    has_rsample = False
    probs: Any = None
    logits: Any = None

    def _logs(self, chance: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithms of the probabilities of success and of failure."""
        if self.probs is None:
            return f.log_sigmoid(chance), f.log_sigmoid(-chance)
        return f.log(chance), f.log1p(-chance)

    def _chance(self, kept: Tensor) -> Tensor:
        return kept if self.probs is not None else f.sigmoid(kept)


class Bernoulli(_Trials):
    """1 with probability `probs`, else 0; `logits` instead are log(probs / (1 - probs))."""

    arg_constraints: ClassVar = {"probs": unit_interval, "logits": real}
    support = boolean

    def __init__(
        self, probs: Operand | None = None, logits: Operand | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(_either("Bernoulli", probs, logits), validate_args)

    def log_prob(self, value: Any) -> Tensor:
        x, kept = self._with(value)
        yes, no = self._logs(kept)
        return within(boolean.outside(x), x, 0.0, lambda x: times(x, yes) + times(1 - x, no))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        chance = self._chance(lift(self._kept()[0]))
        return random.bernoulli(key, f.broadcast_to(chance, extents)).astype(kind)

    @property
    def mean(self) -> Tensor:
        return self._chance(self._all()[0])

    @property
    def variance(self) -> Tensor:
        return self.mean * (1 - self.mean)

    def entropy(self) -> Tensor:
        yes, no = self._logs(self._all()[0])
        return -times(self.mean, yes) - times(1 - self.mean, no)


class Binomial(_Trials):
    """How many of `total_count` trials succeed, each with probability `probs`."""

    arg_constraints: ClassVar = {"total_count": nonnegative_integer, "probs": unit_interval, "logits": real}
    total_count: Any

    def __init__(
        self,
        total_count: Operand = 1,
        probs: Operand | None = None,
        logits: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__({"total_count": total_count, **_either("Binomial", probs, logits)}, validate_args)

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return integers(0, self.total_count)

    def log_prob(self, value: Any) -> Tensor:
        k, n, kept = self._with(value)
        yes, no = self._logs(kept)
        outside = self.support.outside(k)
        k = f.where(outside, 0.0, k)
        ways = f.lgamma(n + 1) - f.lgamma(k + 1) - f.lgamma(n - k + 1)
        return f.where(outside, -math.inf, ways + times(k, yes) + times(n - k, no))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        count, kept = self._kept()
        chance = kept if isinstance(kept, float) and self.probs is not None else self._chance(lift(kept))
        return random.binomial(key, count, chance, extents, kind)

    @property
    def mean(self) -> Tensor:
        n, kept = self._all()
        return n * self._chance(kept)

    @property
    def variance(self) -> Tensor:
        n, kept = self._all()
        chance = self._chance(kept)
        return n * chance * (1 - chance)


class Categorical(Distribution):
    """An index along the last axis of `probs` (which need not sum to 1), or of `logits`, their logarithms.

    Shapes: probs, logits (..., K); a sample is one index, of type int32.
    """

    arg_constraints: ClassVar = {"probs": weights, "logits": real_vector}
    has_rsample = False
    probs: Any = None
    logits: Any = None

    def __init__(
        self, probs: Operand | None = None, logits: Operand | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(_either("Categorical", probs, logits), validate_args)
        self.count = self._kept()[0].shape[-1]

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return integers(0, self.count - 1)

    @property
    def log_probabilities(self) -> Tensor:
        """The logarithm of each index's probability (..., K)."""
        if self.probs is None:
            return f.log_softmax(self.logits, -1)
        return f.log(self.probs / self.probs.sum(-1, keepdims=True))

    def log_prob(self, value: Any) -> Tensor:
        if self.validate_args:
            self._demand("a value", value, self.support)
        index = asarray(value)
        outside = self.support.outside(index)
        logs = self.log_probabilities
        shape = b.broadcast_shapes(self._name, index.shape, logs.shape[:-1])
        place = f.broadcast_to(f.where(outside, 0, index).astype("int32"), shape).expand_dims(-1)
        found = f.take_along_axis(f.broadcast_to(logs, (*shape, self.count)), place, -1).squeeze(-1)
        return f.where(outside, -math.inf, found)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.categorical(key, self.log_probabilities, shape=extents)

    @property
    def mean(self) -> Tensor:
        """NaN: indices are names, not numbers."""
        return f.full(self.batch_shape, math.nan, self._type())

    @property
    def variance(self) -> Tensor:
        """NaN, as the mean."""
        return self.mean

    def entropy(self) -> Tensor:
        logs = self.log_probabilities
        return -times(f.exp(logs), logs).sum(-1)


class Poisson(Distribution):
    """How many events there are where `rate` are expected."""

    arg_constraints: ClassVar = {"rate": nonnegative}
    support = nonnegative_integer
    has_rsample = False
    rate: Any

    def __init__(self, rate: Operand, validate_args: bool | None = None) -> None:
        super().__init__({"rate": rate}, validate_args)

    def log_prob(self, value: Any) -> Tensor:
        k, rate = self._with(value)
        log_rate = f.log(rate)
        return within(nonnegative_integer.outside(k), k, 0.0, lambda k: times(k, log_rate) - rate - f.lgamma(k + 1))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return random.poisson(key, self.rate, extents, kind)

    @property
    def mean(self) -> Tensor:
        return self._all()[0]

    @property
    def variance(self) -> Tensor:
        return self._all()[0]
