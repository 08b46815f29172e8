"""Invertible functions with the logarithm of their Jacobian's determinant, and the one that leads to each constraint.

`biject_to(support)` takes all real numbers to a support: what a sampler that knows no bounds moves in. This module must
not know a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from vkgrad import functions as f
from vkgrad.distributions.constraints import (
    Constraint,
    greater_than,
    independent,
    positive,
    simplex,
    unit_interval,
)
from vkgrad.errors import UnsupportedError
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor, asarray


class Transform:
    """y = transform(x), x = transform.inv(y), and log |dy/dx| = transform.log_abs_det_jacobian(x, y).

    `event_ndim` is how many trailing axes are taken together; the Jacobian's logarithm has none of them.
    """

    event_ndim = 0

    def __call__(self, x: Any) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        """log |dy/dx| at x, where y is transform(x)."""
        raise NotImplementedError

    def image(self, base: Constraint) -> Constraint:
        """Where y is, for x in `base`.

        Raises: `UnsupportedError` where that is not known here.
        """
        raise UnsupportedError(
            f"{type(self).__name__}: what it makes of numbers that are {base.words} is not known here"
        )

    def shape_of_y(self, shape: Shape) -> Shape:
        """The shape of y for an x of that shape."""
        return shape

    def shape_of_x(self, shape: Shape) -> Shape:
        """The shape of x for a y of that shape."""
        return shape

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)


class _Inverse(Transform):
    def __init__(self, base: Transform) -> None:
        self.base = base
        self.event_ndim = base.event_ndim

    def __call__(self, x: Any) -> Tensor:
        return self.base._inverse(asarray(x))

    def _inverse(self, y: Any) -> Tensor:
        return self.base(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return -self.base.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        return self.base

    def shape_of_y(self, shape: Shape) -> Shape:
        return self.base.shape_of_x(shape)

    def shape_of_x(self, shape: Shape) -> Shape:
        return self.base.shape_of_y(shape)


class ExpTransform(Transform):
    """y = exp(x)."""

    def __call__(self, x: Any) -> Tensor:
        return f.exp(x)

    def image(self, base: Constraint) -> Constraint:
        return independent(positive, base.event_ndim) if base.words == "real" else super().image(base)

    def _inverse(self, y: Any) -> Tensor:
        return f.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return asarray(x)


class AffineTransform(Transform):
    """y = loc + scale x."""

    def __init__(self, loc: Operand, scale: Operand) -> None:
        self.loc, self.scale = loc, scale

    def __call__(self, x: Any) -> Tensor:
        return asarray(x) * self.scale + self.loc

    def image(self, base: Constraint) -> Constraint:
        if base.words == "real":
            return base
        low, high = base.bounds
        if high is None and low is not None and isinstance(self.scale, int | float) and self.scale > 0:
            return independent(greater_than(low * self.scale + self.loc), base.event_ndim)
        return super().image(base)

    def _inverse(self, y: Any) -> Tensor:
        return (asarray(y) - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        # The logarithm of a number is one, which takes the type of x.
        size = math.log(abs(self.scale)) if isinstance(self.scale, int | float) else f.log(f.abs(self.scale))
        return f.zeros_like(asarray(x)) + size


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))."""

    def __call__(self, x: Any) -> Tensor:
        return f.sigmoid(x)

    def image(self, base: Constraint) -> Constraint:
        return independent(unit_interval, base.event_ndim) if base.words == "real" else super().image(base)

    def _inverse(self, y: Any) -> Tensor:
        return f.log(y) - f.log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return f.log_sigmoid(x) + f.log_sigmoid(-asarray(x))


class StickBreakingTransform(Transform):
    """Probabilities (..., K) from K - 1 real numbers: each says which part of what is left is broken off.

    Source: Stan reference manual, section on simplexes; equal parts come from zeros.
    """

    event_ndim = 1

    def _centred(self, x: Tensor) -> Tensor:
        left = f.arange(x.shape[-1], 0, -1).astype(x.dtype)
        return x - f.log(left)

    def __call__(self, x: Any) -> Tensor:
        z = self._centred(asarray(x))
        # Logarithms of what is left after each break: their sums lose no digits where products would.
        left = f.cumsum(f.log_sigmoid(-z), -1)
        lead = ((0, 0),) * (z.ndim - 1)
        return f.exp(f.pad(left, (*lead, (1, 0)), 0.0) + f.pad(f.log_sigmoid(z), (*lead, (0, 1)), 0.0))

    def image(self, base: Constraint) -> Constraint:
        return simplex if base.words == "real" else super().image(base)

    def _inverse(self, y: Any) -> Tensor:
        y = asarray(y)
        left = 1 - f.cumsum(y, -1, exclusive=True)[..., :-1]
        z = f.log(y[..., :-1]) - f.log(left - y[..., :-1])
        return z + f.log(f.arange(z.shape[-1], 0, -1).astype(z.dtype))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        z = self._centred(asarray(x))
        steps = f.log_sigmoid(-z)
        left = f.cumsum(steps, -1, exclusive=True)
        return (left + steps + f.log_sigmoid(z)).sum(-1)

    def shape_of_y(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def shape_of_x(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


class ComposeTransform(Transform):
    """The transforms one after the other, the first first."""

    def __init__(self, parts: Sequence[Transform]) -> None:
        self.parts = list(parts)
        self.event_ndim = max((part.event_ndim for part in parts), default=0)

    def __call__(self, x: Any) -> Tensor:
        return reduce(lambda value, part: part(value), self.parts, asarray(x))

    def image(self, base: Constraint) -> Constraint:
        return reduce(lambda found, part: part.image(found), self.parts, base)

    def _inverse(self, y: Any) -> Tensor:
        return reduce(lambda value, part: part.inv(value), reversed(self.parts), asarray(y))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        total: Any = None
        for part in self.parts:
            after = part(x)
            found = part.log_abs_det_jacobian(x, after)
            for _ in range(self.event_ndim - part.event_ndim):
                found = found.sum(-1)
            total, x = found if total is None else total + found, after
        return f.zeros_like(asarray(x)) if total is None else total

    def shape_of_y(self, shape: Shape) -> Shape:
        return reduce(lambda found, part: part.shape_of_y(found), self.parts, shape)

    def shape_of_x(self, shape: Shape) -> Shape:
        return reduce(lambda found, part: part.shape_of_x(found), reversed(self.parts), shape)


def biject_to(constraint: Constraint) -> Transform:
    """The transform from real numbers to what `constraint` (a distribution's `support`, say) allows.

    Raises: `UnsupportedError` for whole numbers, and for sets that no transform here leads to.

    Example:
        >>> import vkgrad as vg
        >>> from vkgrad.distributions import biject_to, constraints
        >>> [round(part, 4) for part in biject_to(constraints.simplex)(vg.zeros(2)).tolist()]
        [0.3333, 0.3333, 0.3333]
    """
    low, high = constraint.bounds
    if constraint.is_discrete:
        raise UnsupportedError(f"biject_to: nothing smooth leads to {constraint.words}; sum over it, or leave it out")
    if constraint is simplex:
        return StickBreakingTransform()
    if low is None and high is None:
        if constraint.words != "real":
            raise UnsupportedError(f"biject_to: knows no transform to what is {constraint.words}")
        return ComposeTransform(())
    if high is None:
        return ExpTransform() if _is(low, 0) else ComposeTransform((ExpTransform(), AffineTransform(low, 1.0)))
    if _is(low, 0) and _is(high, 1):
        return SigmoidTransform()
    return ComposeTransform((SigmoidTransform(), AffineTransform(low, high - low)))


def _is(bound: Any, number: float) -> bool:
    return not isinstance(bound, Tensor) and bound == number and math.isfinite(bound)
