"""Sets that parameters and values lie in: `positive`, `simplex` and the like.

A constraint is asked with operators alone, so it takes tensors, whose answer is a tensor, and arrays alike. This module
must not know a distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

ON_SIMPLEX = 1e-4  # how far from 1 probabilities may sum, which are rounded


@dataclass(frozen=True)
class Constraint:
    """A set of numbers, or of vectors or matrices.

    words       what it is, for a sentence: "must be positive"
    outside     a mask of what is not in it; NaN is not outside, it stays NaN
    event_ndim  how many trailing axes one element has
    bounds      the ends of an interval, None where it has none
    """

    words: str
    outside: Callable[[Any], Any]
    event_ndim: int = 0
    bounds: tuple[Any, Any] = (None, None)
    is_discrete: bool = False

    def __repr__(self) -> str:
        return self.words

    def check(self, value: Any) -> Any:
        """A mask of what is in it: neither outside nor NaN."""
        return ~(self.outside(value) | _anywhere(value != value, self.event_ndim))


def _anywhere(mask: Any, ndim: int) -> Any:
    """Whether it holds anywhere in the last `ndim` axes."""
    for _ in range(ndim):
        mask = mask.any(-1)
    return mask


def _broken(x: Any) -> Any:
    return (x % 1 != 0) & (x == x)


def _shown(bound: Any) -> str:
    """A bound in words; one that is a tensor is not read for it."""
    return str(bound) if isinstance(bound, int | float) else "a bound"


def greater_than(low: Any) -> Constraint:
    """Numbers above `low`."""
    return Constraint(f"greater than {_shown(low)}", lambda x: x <= low, bounds=(low, None))


def interval(low: Any, high: Any) -> Constraint:
    """Numbers from `low` to `high`, both included."""
    return Constraint(f"from {_shown(low)} to {_shown(high)}", lambda x: (x < low) | (x > high), bounds=(low, high))


def integers(low: int, high: Any = None) -> Constraint:
    """Whole numbers from `low` to `high`, both included; without end if that is None."""
    if high is None:
        return Constraint(f"whole numbers from {low} on", lambda x: (x < low) | _broken(x), is_discrete=True)
    return Constraint(
        f"whole numbers from {low} to {_shown(high)}",
        lambda x: (x < low) | (x > high) | _broken(x),
        bounds=(low, high),
        is_discrete=True,
    )


def independent(base: Constraint, ndim: int) -> Constraint:
    """`base` for each number of the last `ndim` axes."""
    return Constraint(
        base.words, lambda x: _anywhere(base.outside(x), ndim), base.event_ndim + ndim, base.bounds, base.is_discrete
    )


real = Constraint("real", lambda x: (x != x) & (x == x))  # nothing is outside
real_vector = independent(real, 1)
positive = replace(greater_than(0), words="positive")
nonnegative = Constraint("not negative", lambda x: x < 0, bounds=(0, None))
unit_interval = interval(0, 1)
boolean = Constraint("0 or 1", lambda x: (x != 0) & (x != 1) & (x == x), is_discrete=True)
nonnegative_integer = integers(0)


def _off_simplex(x: Any) -> Any:
    total = x.sum(-1)
    return (x < 0).any(-1) | (total > 1 + ON_SIMPLEX) | (total < 1 - ON_SIMPLEX)


simplex = Constraint("not negative and sum to 1", _off_simplex, 1)


def _no_weights(x: Any) -> Any:
    return (x < 0).any(-1) | (x.sum(-1) <= 0)


weights = Constraint("not negative, and not all of them 0", _no_weights, 1)
