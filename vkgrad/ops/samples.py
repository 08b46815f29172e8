"""Where tests and benchmarks look: the inputs that an op's record names.

`uniform(-4, 4) + edges(0.0, inf, nan)` draws from the range and mixes the edges in. Values are drawn with NumPy at test
time; a record holds only the description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np

__all__ = ["Samples", "edges", "inf", "integers", "masks", "nan", "uniform"]


@dataclass(frozen=True)
class Samples:
    """`low..high` for every operand unless `per_operand` names ranges of its own; `edges` are special values."""

    low: float = -4.0
    high: float = 4.0
    edges: tuple[float, ...] = ()
    per_operand: tuple[tuple[float, float], ...] = ()

    def __add__(self, other: Samples) -> Samples:
        return replace(self, edges=self.edges + other.edges)

    def range_of(self, operand: int) -> tuple[float, float]:
        return self.per_operand[operand] if operand < len(self.per_operand) else (self.low, self.high)

    def draw(self, shape: Sequence[int], dtype: np.dtype, seed: int, operand: int = 0, *, special: bool = False):
        """An array of `shape` from the range; with `special`, about a third of its places hold edges."""
        generator = np.random.Generator(np.random.Philox([seed, operand]))
        low, high = self.range_of(operand)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            floor = 0 if dtype.kind == "u" else int(np.ceil(low))
            return generator.integers(floor, max(int(high), floor + 1) + 1, shape).astype(dtype)
        values = generator.uniform(low, high, shape).astype(dtype)
        if special and self.edges:
            picked = generator.random(shape) < 0.33
            with np.errstate(over="ignore"):  # an edge may be beyond the range of a narrow float
                special_values = np.array(self.edges).astype(dtype)
            values = np.where(picked, generator.choice(special_values, shape), values).astype(dtype)
        return values


def uniform(low: float, high: float, *more: tuple[float, float]) -> Samples:
    """Uniform on [low, high]; further pairs are the ranges of the second, third … operand."""
    return Samples(low, high, per_operand=((low, high), *more) if more else ())


def integers(low: int, high: int) -> Samples:
    return Samples(low, high)


def masks() -> Samples:
    return Samples(0, 1)


def edges(*values: float) -> Samples:
    return Samples(edges=values)
