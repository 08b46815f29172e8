"""What factorisations share: matrices of nodes (the last two axes), shapes that they take, and samples.

This module must not know any factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import DeviceLimits, Geometry, Shape
from vkgrad.ops.contraction import contract
from vkgrad.ops.indexed import gather
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.views import pad, permute, slice_

BLOCK = 32  # columns of a block: two of them fit the least shared memory that Vulkan promises

Dtypes = Sequence[DType]


# ---- matrices of nodes: the last two axes
def transposed(x: Node) -> Node:
    return permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def product(x: Node, y: Node) -> Node:
    """The matrix product; both have the same batch axes."""
    lead = tuple(range(x.ndim - 2))
    i, k, j = (x.ndim + n for n in range(3))
    return contract(x, y, (*lead, i, k), (*lead, k, j), (*lead, i, j))


def block(x: Node, rows: tuple[int, int], columns: tuple[int, int]) -> Node:
    """The part of each matrix from a first row and column up to, not including, a last."""
    lead = x.shape[:-2]
    starts = (*(0 for _ in lead), rows[0], columns[0])
    return slice_(x, starts, (*lead, rows[1] - rows[0], columns[1] - columns[0]), (1,) * x.ndim)


def joined(parts: Sequence[Node], axis: int) -> Node:
    """The parts beside each other along axis -1 or -2."""
    axis += parts[0].ndim
    whole = sum(part.shape[axis] for part in parts)
    total: Node | None = None
    before = 0
    for part in parts:
        low = [before if a == axis else 0 for a in range(part.ndim)]
        before += part.shape[axis]
        high = [whole - before if a == axis else 0 for a in range(part.ndim)]
        placed = pad(part, low, high)
        total = placed if total is None else total + placed
    assert total is not None
    return total


def masked(x: Node, comparison: str) -> Node:
    """x where `row comparison column` ("greater": below the diagonal), else 0."""
    rows = b.reshape(b.build("iota", extent=x.shape[-2]), (x.shape[-2], 1))
    columns = b.reshape(b.build("iota", extent=x.shape[-1]), (1, x.shape[-1]))
    return b.apply("where", b.apply(comparison, rows, columns), x, 0)


def identity(like: Node, n: int) -> Node:
    """The identity of n rows, for each matrix of the batch of `like`."""
    ones = masked(b.constant(1, like.dtype, (n, n)), "equal")
    return b.expand(ones, (*like.shape[:-2], n, n))


def diagonal_of(x: Node) -> Node:
    """The diagonal as a row: (..., n, n) -> (..., 1, n)."""
    return b.build("sum", masked(x, "equal"), axes=(x.ndim - 2,))


def rows_at(x: Node, index: Node) -> Node:
    """Rows of x (..., m, k) at `index` (..., n): (..., n, k), each matrix by its own index."""
    lead, (m, k) = x.shape[:-2], x.shape[-2:]
    count = prod(lead)
    first = b.reshape(b.build("iota", extent=count), (count, 1)) * m
    flat = b.apply("add", b.cast(b.reshape(index, (count, index.shape[-1])), first.dtype), first)
    return b.reshape(gather(b.reshape(x, (count * m, k)), flat, 0), (*lead, index.shape[-1], k))


# ---- shared by the records
def square(name: str) -> Callable[[Sequence[Shape]], Shape]:
    def rule(shapes: Sequence[Shape], **_: Any) -> Shape:
        shape = shapes[0]
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ShapeError(f"{name}: takes square matrices in its last two axes, got shape {shape}")
        return shape

    return rule


def tall(name: str) -> Callable[[Sequence[Shape]], Shape]:
    def rule(shapes: Sequence[Shape], **_: Any) -> Shape:
        shape = shapes[0]
        if len(shape) < 2 or shape[-2] < shape[-1]:
            raise ShapeError(f"{name}: takes matrices with at least as many rows as columns, got shape {shape}")
        return shape

    return rule


def lanes_for(limits: DeviceLimits, work: int, most: int = 256) -> int:
    """How many lanes share `work` steps of a loop. Where Vulkan is software, only as many as its loops' bound asks."""
    lanes = 1
    while lanes < min(most, limits.max_invocations) and (work > 12_000 * lanes or not limits.software):
        lanes *= 2
    return lanes


def panel_lanes(limits: DeviceLimits, m: int, n: int) -> tuple[int, int]:
    """How many lanes share a panel of m rows and n columns, and how many of them are beside each other in a row."""
    if limits.software:
        return max(lanes_for(limits, m * n * n), 8), 4
    most = 1 << (max(m * n // 4, BLOCK) - 1).bit_length()
    return min(most, 1024, limits.max_invocations), min(BLOCK, 1 << (n - 1).bit_length())


def each_matrix(meaning: Callable) -> Callable:
    """NumPy's function of one matrix, for a batch; where it finds no answer, NaN."""

    @wraps(meaning)
    def whole(x: np.ndarray, *more: np.ndarray, **attributes: Any) -> np.ndarray:
        found = []
        for place in np.ndindex(x.shape[:-2]):
            found.append(meaning(x[place], *(y[place] for y in more), **attributes))
        if not found:
            probe = meaning(
                np.eye(*x.shape[-2:], dtype=x.dtype), *(np.zeros(y.shape[-2:], y.dtype) for y in more), **attributes
            )
            return np.zeros((*x.shape[:-2], *probe.shape), x.dtype)
        return np.stack(found).reshape(*x.shape[:-2], *found[0].shape).astype(x.dtype)

    return whole


def _definite(a: np.ndarray) -> list[np.ndarray]:
    return [a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1], dtype=a.dtype)]


def _well_posed(a: np.ndarray, y: np.ndarray, **_: Any) -> list[np.ndarray]:
    return [a + 4 * np.eye(a.shape[-1], dtype=a.dtype), y]


DEFINITE = uniform(-2, 2).making(_definite).on(case((2, 3, 3)), case((4, 4)), case((0, 3, 3)))
TRIANGULAR = uniform(-1, 1).making(_well_posed).on(
    *(case((2, 3, 3), (2, 3, 2), lower=lower, unit=unit) for lower in (True, False) for unit in (True, False)),
    case((0, 3, 3), (0, 3, 2), lower=True, unit=False),
)  # fmt: skip
SQUARE = uniform(-2, 2).on(case((2, 3, 3)), case((4, 4)), case((0, 3, 3)))
TALL = SQUARE.on(case((4, 3)))


def halved(n: int) -> int:
    """The first of two parts of n columns, in whole blocks."""
    return -(-n // (2 * BLOCK)) * BLOCK


def composed(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits, **_: Any) -> Geometry:
    raise AssertionError("this routine is always in passes")
