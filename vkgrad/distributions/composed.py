"""Distributions made of others: axes taken as one event, mixtures, and values sent through transforms.

This module must not know a family but the categorical one, which mixes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import random
from vkgrad.distributions.constraints import Constraint, independent
from vkgrad.distributions.discrete import Categorical
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.transforms import ComposeTransform, Transform
from vkgrad.errors import OptionError, ShapeError
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Tensor, asarray


class _Composed(Distribution):
    """A distribution whose parameters are other distributions."""

    arg_constraints: ClassVar = {}

    def __init__(self, base: Distribution, validate_args: bool | None = None) -> None:
        super().__init__({}, validate_args)
        self.base_dist = base
        self.has_rsample = base.has_rsample

    def _type(self, dtype: Any = None) -> DType:
        return self.base_dist._type(dtype)

    def _looked_at(self, value: Any) -> Any:
        if self.validate_args:
            self._demand("a value", value, self.support)
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist})"


class Independent(_Composed):
    """The last `reinterpreted_batch_ndims` axes of a batch, taken as axes of one event."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        super().__init__(base_distribution, validate_args)
        taken = reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        if not 0 <= taken <= len(shape):
            raise ShapeError(f"{self._name}: the batch {shape} has no {taken} axes to take")
        self.reinterpreted_batch_ndims = taken
        self.batch_shape = shape[: len(shape) - taken]
        self.event_shape = (*shape[len(shape) - taken :], *base_distribution.event_shape)

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def _summed(self, x: Tensor) -> Tensor:
        taken = self.reinterpreted_batch_ndims
        return x.sum(tuple(range(-taken, 0))) if taken else x

    def log_prob(self, value: Any) -> Tensor:
        return self._summed(self.base_dist.log_prob(self._looked_at(value)))

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        taken = self.event_shape[: self.reinterpreted_batch_ndims]
        return self.base_dist._draw(key, (*extents, *taken), kind)

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def entropy(self) -> Tensor:
        return self._summed(self.base_dist.entropy())


class MixtureSameFamily(_Composed):
    """A component, drawn from `mixture_distribution`, says which of the component distributions a value comes from.

    Shapes: the mixture's batch is (...), the components' (..., K).
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(component_distribution, validate_args)
        self.has_rsample = False
        lead = component_distribution.batch_shape
        if not isinstance(mixture_distribution, Categorical):
            raise OptionError(f"{self._name}: components are mixed by a Categorical, got {mixture_distribution!r}")
        if lead[-1:] != (mixture_distribution.count,):
            raise ShapeError(
                f"{self._name}: a mixture of {mixture_distribution.count} takes components of a batch that ends in "
                f"{mixture_distribution.count}, got {lead}"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        self.batch_shape = lead[:-1]
        self.event_shape = component_distribution.event_shape

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return self.component_distribution.support

    def _along(self, x: Tensor) -> Tensor:
        """`x` with an axis for the components, before those of an event."""
        return x.expand_dims(-1 - len(self.event_shape))

    def log_prob(self, value: Any) -> Tensor:
        each = self.component_distribution.log_prob(self._along(asarray(self._looked_at(value))))
        joint = each + self.mixture_distribution.log_probabilities
        # Where no component reaches, the logarithm of a sum of zeros would leave NaN in the gradient.
        nowhere = f.max(joint, -1) == -math.inf
        found = f.logsumexp(f.where(nowhere.expand_dims(-1), 0.0, joint), -1)
        return f.where(nowhere, -math.inf, found)

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        which, what = random.split(key)
        count = self.mixture_distribution.count
        chosen = self.mixture_distribution._draw(which, extents, kind)
        every = self.component_distribution._draw(what, (*extents, count), kind)
        place = chosen.reshape((*extents, 1, *(1 for _ in self.event_shape)))
        axis = -1 - len(self.event_shape)
        place = f.broadcast_to(place, (*extents, 1, *self.event_shape))
        return f.take_along_axis(every, place, axis).squeeze(axis)

    def _mixed(self, x: Tensor) -> Tensor:
        weights = f.exp(self.mixture_distribution.log_probabilities)
        weights = weights.reshape((*weights.shape, *(1 for _ in self.event_shape)))
        return (weights * x).sum(-1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        apart = self.component_distribution.mean - self._along(self.mean)
        return self._mixed(self.component_distribution.variance + f.square(apart))


class TransformedDistribution(_Composed):
    """The values of `base_distribution`, sent through `transforms`, the first first.

    Example:
        >>> from vkgrad.distributions import ExpTransform, LogNormal, Normal, TransformedDistribution
        >>> made = TransformedDistribution(Normal(0.0, 0.5), ExpTransform())
        >>> abs(made.log_prob(2.0) - LogNormal(0.0, 0.5).log_prob(2.0)).item() < 1e-6
        True
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(base_distribution, validate_args)
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self._whole = ComposeTransform(self.transforms)
        if self._whole.event_ndim > len(base_distribution.event_shape):
            raise ShapeError(
                f"{self._name}: a transform takes {self._whole.event_ndim} axes together, which must be axes of the "
                "base's event; wrap the base in Independent"
            )
        self.batch_shape = base_distribution.batch_shape
        self.event_shape = self._whole.shape_of_y(base_distribution.event_shape)

    @property
    def support(self) -> Constraint:  # type: ignore[override]
        return self._whole.image(self.base_dist.support)

    def log_prob(self, value: Any) -> Tensor:
        y = asarray(self._looked_at(value))
        x = self._whole.inv(y)
        slope = self._whole.log_abs_det_jacobian(x, y)
        for _ in range(len(self.event_shape) - self._whole.event_ndim):
            slope = slope.sum(-1)
        return self.base_dist.log_prob(x) - slope

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        return self._whole(self.base_dist._draw(key, extents, kind))
