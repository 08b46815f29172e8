"""The one table of tolerances, in units in the last place (ulps), by op and element type. No test sets its own.

`meaning` bounds the NumPy meaning against 40-digit references, `shader` the GLSL against the meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Ulps:
    """Bounds in ulps of the expected value, or of `scale` where that is larger."""

    meaning32: float
    meaning64: float
    shader32: float
    shader64: float = 0.0
    scale: float = 0.0

    def meaning(self, dtype: np.dtype) -> float:
        return self.meaning32 if dtype.itemsize == 4 else self.meaning64

    def shader(self, dtype: np.dtype) -> float:
        return self.shader32 if dtype.itemsize == 4 else self.shader64


EXACT = Ulps(0, 0, 0)
# IEEE 754 rounds these correctly. Vulkan promises 2.5 ulp for a division and 3 for a square root of float32; drivers
# that divide by a reciprocal make use of it.
ROUNDED = Ulps(0.5, 0.5, 0.5, 0.5)
DIVIDED = Ulps(0.5, 0.5, 3, 3)
TWICE_ROUNDED = Ulps(1.5, 1.5, 5, 5)
# NumPy's own functions promise 4 ulp at most, as do ours in GLSL (tests/ops/test_ulps.py): between them 5 in practice.
FUNCTION = Ulps(4, 4, 5, 5)
# The magnified error of x in exp(x) and its kin in double precision.
STEEP = Ulps(4, 6, 5, 7)
# Powers by repeated multiplication: each rounds.
POWERS = Ulps(4, 6, 12, 12)
# Near their roots left of 0 these have absolute accuracy only: they are differences of larger numbers there.
NEAR_ROOTS = Ulps(1, 8, 8, 8, scale=1.0)

# One unit from its operand, which the reference is; every device finds the same one.
NEIGHBOUR = Ulps(1, 1, 0)

_TABLE: dict[Ulps, tuple[str, ...]] = {
    NEIGHBOUR: ("nextafter",),
    ROUNDED: ("add", "subtract", "multiply", "multiply_no_nan", "multiply_or_zero", "square"),
    DIVIDED: ("divide", "reciprocal", "sqrt"),
    TWICE_ROUNDED: ("rsqrt",),
    FUNCTION: (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
        "asinh", "acosh", "atanh", "tanh", "cbrt", "erf", "erfinv", "sigmoid", "softplus",
    ),
    STEEP: ("pow", "sinh", "cosh", "erfc"),
    POWERS: ("polygamma",),
    NEAR_ROOTS: ("lgamma", "digamma"),
}  # fmt: skip
_BY_OP = {name: ulps for ulps, names in _TABLE.items() for name in names}


def ulps_of(op: str) -> Ulps:
    """The bounds for one op; what is not in the table must be exact (comparisons, integers, rounding, choices)."""
    return _BY_OP.get(op, EXACT)


def distance(found: np.ndarray, expected: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """How many ulps of `expected` (float64, rounded to the type of `found` for its ulp) lie between the two.

    0 where both are NaN or the same infinity; inf where only one is NaN or infinite.
    """
    with np.errstate(all="ignore"):
        rounded = expected.astype(found.dtype)
        one_ulp = np.spacing(np.maximum(np.abs(rounded), found.dtype.type(scale))).astype(np.float64)
        off = np.abs(found.astype(np.float64) - expected) / one_ulp
    same = (found == rounded) & ~np.isfinite(rounded) | np.isnan(found) & np.isnan(expected)
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))


# Graphs of several ops, whose roundings add up: relative to the largest number of a result.
GRAPHS = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}


def differs(found: np.ndarray, expected: np.ndarray, dtype: Any) -> str:
    """Where two results of a graph differ by more than their type allows, in words; else nothing.

    Integers and masks must be equal; NaN and infinities must be in the same places.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{found.shape} is not {expected.dtype}{expected.shape}"
    if dtype.kind != "f":
        wrong = found != expected
    else:
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        scale = GRAPHS[dtype.name] * max(float(finite.max(initial=0.0)), 1.0)
        with np.errstate(invalid="ignore"):
            wrong = ~((found == expected) | (np.abs(found.astype(np.float64) - expected) <= scale))
        wrong &= ~(np.isnan(found) & np.isnan(expected))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{found[at]} is not {expected[at]} at {at}, and {int(wrong.sum())} differ"
