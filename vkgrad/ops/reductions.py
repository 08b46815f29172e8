"""Reductions: many elements along some axes become one; the axes stay, with extent 1.

`init` is the identity, so masked tails and empty reductions need no case of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, dtype_of, integer_range
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.families import mask, numeric, reduction
from vkgrad.ops.samples import edges, masks, nan, uniform
from vkgrad.ops.views import permute


def _lowest(dtype: DType) -> float | int:
    return -inf if dtype.kind == "f" else integer_range(dtype)[0]


def _highest(dtype: DType) -> float | int:
    return inf if dtype.kind == "f" else integer_range(dtype)[1]


def position(shape: Sequence[int], axes: Sequence[int]) -> Node:
    """For each place of `shape`, its row-major number among the places along `axes` (int32)."""
    total = b.constant(0, dtype_of("int32"), tuple(shape))
    step = 1
    for axis in reversed(axes):
        place = b.reshape(
            b.build("iota", extent=shape[axis]), tuple(e if a == axis else 1 for a, e in enumerate(shape))
        )
        total = total + b.expand(place, tuple(shape)) * step
        step *= shape[axis]
    return total


def is_extreme(x: Node, out: Node) -> Node:
    """Where x is the extreme `out`, or a NaN, which is one."""
    is_out = b.apply("equal", x, out)
    return b.apply("logical_or", is_out, b.apply("isnan", x)) if x.dtype.kind == "f" else is_out


def _first(x: Node, out: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """The row-major number of the first place along `axes` whose element is `out` (NaN equals NaN), and all numbers."""
    numbers = position(x.shape, axes)
    return b.build(
        "min", b.apply("where", is_extreme(x, out), numbers, 2**31 - 1), axes=tuple(axes), ties="share"
    ), numbers


def argextreme(x: Node, kind: str, axes: Sequence[int]) -> Node:
    """The row-major number (int32) of the first extreme (`kind` is "max" or "min") along `axes`; a NaN is one."""
    return _first(x, b.build(kind, x, axes=tuple(axes), ties="share"), axes)[0]


def _extreme_grad(g: Node, out: Node, x: Node, *, axes: Sequence[int], ties: str) -> tuple:
    if ties == "first":
        first, numbers = _first(x, out, axes)
        return (b.apply("where", b.apply("equal", numbers, first), g, 0),)
    chosen = b.cast(is_extreme(x, out), x.dtype)
    return (g * chosen / b.build("sum", chosen, axes=tuple(axes)),)


def _prod_grad(g: Node, out: Node, x: Node, *, axes: Sequence[int]) -> tuple:
    # The product of the others, literally: right with any number of zeros and at every order of derivative. A division
    # by x would be neither. It costs n*n multiplies for n factors, in one kernel and with no memory.
    kept = [a for a in range(x.ndim) if a not in axes]
    order = [*kept, *axes]
    n = 1
    for a in axes:
        n *= x.shape[a]
    lead = tuple(x.shape[a] for a in kept)
    flat = b.reshape(permute(x, order), (*lead, 1, n))
    row, column = (b.reshape(b.build("iota", extent=n), (n, 1) if own else (1, n)) for own in (True, False))
    others = b.apply("where", b.apply("equal", row, column), 1, b.expand(flat, (*lead, n, n)))
    product = b.build("prod", others, axes=(len(lead) + 1,))
    back = permute(b.reshape(product, tuple(x.shape[a] for a in order)), [order.index(a) for a in range(x.ndim)])
    return (guarded_product(g, back),)


_TIES = ({"ties": "share"}, {"ties": "first"})

reduction(
    "sum", dtype=numeric, numpy=lambda x, axis, keepdims: np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    init=lambda dtype: 0, combine="{x} + {y}", samples=uniform(-2, 2) + edges(0.0, nan, inf),
    grad=lambda g, out, x, *, axes: (b.expand(g, x.shape),),
)  # fmt: skip
reduction(
    "prod", dtype=numeric, numpy=lambda x, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    init=lambda dtype: 1, combine="{x} * {y}", samples=uniform(0.5, 1.5) + edges(0.0, nan), grad=_prod_grad,
    doc="The gradient is right with any number of zeros, to any order.",
)  # fmt: skip
reduction(
    "max", dtype=numeric,
    numpy=lambda x, axis, keepdims: np.max(x, axis=axis, keepdims=keepdims, initial=_lowest(dtype_of(x.dtype))),
    init=_lowest, combine={"f": "nan_max({x}, {y})", "i": "max({x}, {y})", "u": "max({x}, {y})"},
    samples=uniform(-4, 4) + edges(0.0, nan, inf, -inf), grad=_extreme_grad, attributes=_TIES,
    doc="The largest element; NaN if there is one. `ties` says who gets the gradient: all (share) or the first.",
)  # fmt: skip
reduction(
    "min", dtype=numeric,
    numpy=lambda x, axis, keepdims: np.min(x, axis=axis, keepdims=keepdims, initial=_highest(dtype_of(x.dtype))),
    init=_highest, combine={"f": "nan_min({x}, {y})", "i": "min({x}, {y})", "u": "min({x}, {y})"},
    samples=uniform(-4, 4) + edges(0.0, nan, inf, -inf), grad=_extreme_grad, attributes=_TIES,
    doc="The smallest element; NaN if there is one. `ties` says who gets the gradient: all (share) or the first.",
)  # fmt: skip
reduction(
    "any", dtype=mask, numpy=np.any, init=lambda dtype: False, combine="{x} || {y}", samples=masks(),
    grad=NOT_DIFFERENTIABLE,
)  # fmt: skip
reduction(
    "all", dtype=mask, numpy=np.all, init=lambda dtype: True, combine="{x} && {y}", samples=masks(),
    grad=NOT_DIFFERENTIABLE,
)  # fmt: skip
