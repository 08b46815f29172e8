"""`Distribution`: what all families share — shapes, parameters and their checks, samples with and without derivatives.

This module must not know a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from vkgrad import functions as f
from vkgrad.distributions.constraints import Constraint
from vkgrad.distributions.parameters import common_type, parameter, together
from vkgrad.errors import OptionError, ShapeError, UnsupportedError
from vkgrad.functions.creation import as_shape
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.ir.op import Shape
from vkgrad.tensor import Tensor

Sizes = int | Sequence[int]


class Distribution:
    """A probability distribution, or a batch of them.

    Shapes: parameters broadcast to `batch_shape` (what follows it in a parameter is one element's); one sample has
    `event_shape`. `sample(key, shape)` is (*shape, *batch_shape, *event_shape), `log_prob(x)` has no event axes.

    Parameters that are Python numbers take the type of what they meet. Those that are numbers, lists or arrays are
    checked when the distribution is made. Tensors are not looked at, which would compute: with `validate_args=True`
    they are, and so is each value given to `log_prob` (which otherwise is -inf outside of the support); with False
    nothing is.
    """

    arg_constraints: ClassVar[dict[str, Constraint]]
    support: Constraint
    has_rsample = True

    def __init__(self, given: dict[str, Any], validate_args: bool | None = None) -> None:
        self.validate_args = validate_args
        self.event_shape: Shape = ()
        lead = []
        for name, value in given.items():
            kept = parameter(value)
            setattr(self, name, kept)
            constraint = self.arg_constraints[name]
            shape = kept.shape if isinstance(kept, Tensor) else ()
            if len(shape) < constraint.event_ndim:
                axes = "an axis" if constraint.event_ndim == 1 else f"{constraint.event_ndim} axes"
                raise ShapeError(f"{self._name}: {name} takes {axes} or more, got shape {shape}")
            lead.append(shape[: len(shape) - constraint.event_ndim])
            if validate_args or (validate_args is None and not isinstance(value, Tensor)):
                self._demand(name, value, constraint)
        self.batch_shape: Shape = b.broadcast_shapes(self._name, *lead)

    @property
    def _name(self) -> str:
        return f"distributions.{type(self).__name__}"

    def _demand(self, name: str, value: Any, constraint: Constraint) -> None:
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if not constraint.check(array).all():
            shown = f", got {array.item()}" if array.size == 1 else ""
            raise OptionError(f"{self._name}: {name} must be {constraint.words}{shown}")

    def _kept(self) -> list[Any]:
        return [getattr(self, name) for name in self.arg_constraints if getattr(self, name, None) is not None]

    def _type(self, dtype: Any = None) -> DType:
        return common_type(*self._kept()) if dtype is None else dtype_of(dtype)

    def _with(self, value: Any) -> list[Tensor]:
        """`value` and the parameters, in their common type."""
        if self.validate_args:
            self._demand("a value", value, self.support)
        x, *parameters = together(value, *self._kept())
        # Reported here, where it has the distribution's name, and not by the first operation of a density.
        b.broadcast_shapes(self._name, x.shape[: x.ndim - len(self.event_shape)], self.batch_shape)
        return [x, *parameters]

    def _all(self) -> list[Tensor]:
        """The parameters in their common type, each of the whole batch's shape."""
        return [
            f.broadcast_to(p, (*self.batch_shape, *p.shape[p.ndim - c.event_ndim :]))
            for p, c in zip(together(*self._kept()), self.arg_constraints.values(), strict=False)
        ]

    # ---- what a family says
    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density (or of the probability) at `value`; -inf outside of the support."""
        raise NotImplementedError

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        """Samples of shape (*extents, *event_shape); extents end in the batch's."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where there is none."""
        raise UnsupportedError(f"{self._name}: no closed form of its mean is known here")

    @property
    def variance(self) -> Tensor:
        """The variance; infinite or NaN where there is none."""
        raise UnsupportedError(f"{self._name}: no closed form of its variance is known here")

    def entropy(self) -> Tensor:
        """The entropy in nats: the mean of -log_prob."""
        raise UnsupportedError(f"{self._name}: no closed form of its entropy is known here")

    def cdf(self, value: Any) -> Tensor:
        """The probability of a sample that is not above `value`."""
        raise UnsupportedError(f"{self._name}: no closed form of its distribution function is known here")

    def icdf(self, value: Any) -> Tensor:
        """What a sample is not above with probability `value`: the inverse of `cdf`."""
        raise UnsupportedError(f"{self._name}: no closed form of its quantiles is known here")

    # ---- what follows
    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return f.sqrt(self.variance)

    def prob(self, value: Any) -> Tensor:
        """The density (or the probability) at `value`."""
        return f.exp(self.log_prob(value))

    def rsample(self, key: Tensor, shape: Sizes = (), dtype: Any = None) -> Tensor:
        """Samples that have derivatives by the parameters.

        Raises: `UnsupportedError` for a distribution over whole numbers, whose samples have none.
        """
        if not self.has_rsample:
            raise UnsupportedError(f"{self._name}: its samples have no derivatives; use .sample")
        extents = (*as_shape(self._name, shape), *self.batch_shape)
        return self._draw(key, extents, self._type(dtype))

    def sample(self, key: Tensor, shape: Sizes = (), dtype: Any = None) -> Tensor:
        """Samples without derivatives, the same at each call with a key."""
        extents = (*as_shape(self._name, shape), *self.batch_shape)
        return self._draw(key, extents, self._type(dtype)).detach()

    def __repr__(self) -> str:
        shown = [f"{name}: {getattr(kept, 'shape', kept)}" for name in self.arg_constraints
                 if (kept := getattr(self, name, None)) is not None]  # fmt: skip
        return f"{type(self).__name__}({', '.join(shown)})"
