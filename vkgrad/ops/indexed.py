"""Lookups whose addresses depend on values: `gather`, and its gradient `scatter_add`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family, Op, Shape, register
from vkgrad.ops.samples import uniform


def _shape(shapes: Sequence[Shape], *, axis: int) -> Shape:
    x, index = shapes
    return (*x[:axis], *index, *x[axis + 1 :])


def _dtype(dtypes: Sequence[DType], *, axis: int) -> DType:
    if dtypes[1].kind not in "iu":
        raise DTypeError(f"gather: the index must be an integer tensor, got {dtypes[1].name}")
    return dtypes[0]


def gather(x: Node, index: Node, axis: int) -> Node:
    """x's slices at `index` along `axis`. Shape x[:axis] + index + x[axis+1:].

    Indices count from 0. One out of range reads NaN (0 for integers and masks): a kernel cannot raise.
    """
    return b.build("gather", x, index, axis=axis)


def _numpy(x: Any, index: Any, *, axis: int) -> Any:
    inside = (index >= 0) & (index < x.shape[axis])
    taken = np.take(x, np.where(inside, index, 0), axis=axis)
    fill = np.nan if x.dtype.kind == "f" else 0
    inside = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(inside, taken, np.asarray(fill, x.dtype))


def scatter_add(g: Node, index: Node, axis: int, extent: int) -> Node:
    """The gradient of `gather`: row j of the output is the sum of the rows of `g` whose index is j.

    A masked sum, so duplicates add up in one fixed order on every device; out-of-range rows go nowhere.
    """
    lead, tail = g.shape[:axis], g.shape[axis + index.ndim :]
    m = index.size
    rows = b.reshape(g, (*lead, m, 1, *tail))
    where_to = b.reshape(index, (*(1 for _ in lead), m, 1, *(1 for _ in tail)))
    target = b.reshape(
        b.cast(b.build("iota", extent=extent), index.dtype), (*(1 for _ in lead), 1, extent, *(1 for _ in tail))
    )
    chosen = b.apply("where", b.apply("equal", where_to, target), rows, 0)
    return b.reshape(b.build("sum", chosen, axes=(axis,)), (*lead, extent, *tail))


register(
    Op(
        name="gather", family=Family.INDEXED, arity=2, shape=_shape, dtype=_dtype, numpy=_numpy,
        grad=lambda g, out, x, index, *, axis: (scatter_add(g, index, axis, x.shape[axis]), None),
        samples=uniform(-2, 2), doc="slices at given positions",
    )
)  # fmt: skip
