"""Where tests, the residency register and the documentation look: the calls of an op that its record names.

`uniform(-4, 4) + edges(0.0, inf, nan)` draws from the range and mixes the edges in; `.on(case((2, 3), axes=(1,)))` says
at which shapes and with which attributes. Values are drawn with NumPy at test time; a record holds only the
description, and whatever walks the records reads the same list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Any

import numpy as np

from vkgrad.ir.dtypes import DType, dtype_of

__all__ = ["Case", "Samples", "alike", "case", "edges", "inf", "integers", "masks", "nan", "uniform"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One call of an op: the shapes of its operands, and its attributes."""

    shapes: tuple[Shape, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """`low..high` for every operand unless `per_operand` names ranges of its own; `edges` are special values.

    cases   the calls; an op without one cannot be registered
    types   the element type of each operand; None for the type that is being looked at
    made    (*arrays, **attributes) -> arrays: what drawn operands are made into where not every array will do, as
            where an operand must be sorted
    """

    low: float = -4.0
    high: float = 4.0
    edges: tuple[float, ...] = ()
    per_operand: tuple[tuple[float, float], ...] = ()
    cases: tuple[Case, ...] = ()
    types: tuple[str | None, ...] = ()
    made: Callable[..., Sequence[Any]] | None = None

    def on(self, *cases: Case) -> Samples:
        """The same with these calls too."""
        return replace(self, cases=self.cases + cases)

    def typed(self, *types: str | None) -> Samples:
        return replace(self, types=types)

    def making(self, made: Callable[..., Sequence[Any]]) -> Samples:
        return replace(self, made=made)

    def __add__(self, other: Samples) -> Samples:
        return replace(self, edges=self.edges + other.edges)

    def range_of(self, operand: int) -> tuple[float, float]:
        return self.per_operand[operand] if operand < len(self.per_operand) else (self.low, self.high)

    def dtypes(self, arity: int, dtype: DType) -> list[DType]:
        """The element types of the operands, where `dtype` is being looked at."""
        given = [self.types[operand] if operand < len(self.types) else None for operand in range(arity)]
        return [dtype if name is None else dtype_of(name) for name in given]

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


def case(*shapes: Shape, **attributes: Any) -> Case:
    return Case(shapes, attributes)


def alike(arity: int, *attributes: Mapping[str, Any]) -> tuple[Case, ...]:
    """Calls whose operands have one shape, whatever it is: some axes, none, and no elements; with each attributes."""
    shapes: tuple[Shape, ...] = ((2, 3), (), (0, 3))
    return tuple(Case((shape,) * arity, given) for given in attributes or ({},) for shape in shapes)


def uniform(low: float, high: float, *more: tuple[float, float]) -> Samples:
    """Uniform on [low, high]; further pairs are the ranges of the second, third … operand."""
    return Samples(low, high, per_operand=((low, high), *more) if more else ())


def integers(low: int, high: int) -> Samples:
    return Samples(low, high)


def masks() -> Samples:
    return Samples(0, 1)


def edges(*values: float) -> Samples:
    return Samples(edges=values)
