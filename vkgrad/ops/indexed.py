"""Lookups whose addresses depend on values: `gather`, and its gradient `scatter`.

A scatter joins what is sent to one place in an order that depends on positions alone, never on which invocation comes
first, so duplicates have the same bits in every run. Which way that is done depends on sizes:

* few values, or little work: every place looks at every value; no kernel of its own, so it fuses
* few places: chunks of the values each have places of their own, which then are joined (see `vkgrad.ops.scattering`)
* else: values are sorted by place, and every place joins its own run of them
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, int32
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, Family, Op, Shape, register
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.families import routine
from vkgrad.ops.radix import sorted_by_digits
from vkgrad.ops.reductions import is_extreme
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.scattering import (
    JOINS,
    chunk_in_shared,
    identity,
    scatter_geometry,
    scatter_meaning,
    scatter_shape,
    segments_geometry,
    segments_meaning,
)  # fmt: skip
from vkgrad.ops.sorting import LONG as LONG_SORT
from vkgrad.ops.sorting import argsort, inverse, searchsorted
from vkgrad.ops.views import pad, permute, slice_

FEW = 8  # values a row, up to which every place looks at all of them
SMALL = 1 << 16  # values times places, up to which it still does on a device that runs thousands of invocations
SOFTWARE_SMALL = 1 << 14
LONG = 128  # places, from which on parts are joined column by column
MOST_STEPS = 1 << 14  # what an invocation may loop over, half of what some software drivers allow


# ---- gather
def _shape(shapes: Sequence[Shape], *, axis: int, **_: Any) -> Shape:
    x, index = shapes
    return (*x[:axis], *index, *x[axis + 1 :])


def _dtype(dtypes: Sequence[DType], **_: Any) -> DType:
    if dtypes[1].kind not in "iu":
        raise DTypeError(f"gather: the index must be an integer tensor, got {dtypes[1].name}")
    return dtypes[0]


def _sent_dtype(dtypes: Sequence[DType], **_: Any) -> DType:
    if dtypes[0].narrow or dtypes[0].kind == "b":
        raise DTypeError(f"scatter: takes numbers of at least 32 bits, got {dtypes[0].name}")
    return _dtype(dtypes)


def gather(x: Node, index: Node, axis: int) -> Node:
    """x's slices at `index` along `axis`. Shape x[:axis] + index + x[axis+1:].

    Indices count from 0. One out of range reads NaN (0 for integers and masks): a kernel cannot raise.
    """
    return b.build("gather", x, index, axis=axis)


def along(x: Node, index: Node, permutes: bool = False) -> Node:
    """One element of x for each index, along the last axis: out[..., j] = x[..., index[..., j]].

    `permutes` says that each row of the index is a permutation, whose gradient is then a gather too.
    """
    lead, n = x.shape[:-1], x.shape[-1]
    rows, m = prod(lead), index.shape[-1]
    place = b.reshape(b.cast(index, index.dtype.computed), (rows, m))
    if rows > 1:
        inside = b.apply("logical_and", place >= 0, place < n)
        place = b.apply("where", inside, place + _firsts(rows, n, place.dtype), -1)
    flat = b.build(
        "gather", b.reshape(x, (rows * n,)), b.reshape(place, (rows * m,)), axis=0, rows=rows, permutes=permutes
    )
    return b.reshape(flat, (*lead, m))


def _firsts(rows: int, n: int, dtype: DType) -> Node:
    """The number of each row's first element, in a column."""
    return b.cast(b.reshape(b.build("iota", extent=rows), (rows, 1)), dtype) * n


def _numpy_gather(x: Any, index: Any, *, axis: int, **_: Any) -> Any:
    inside = (index >= 0) & (index < x.shape[axis])
    taken = np.take(x, np.where(inside, index, 0), axis=axis)
    fill = np.nan if x.dtype.kind == "f" else 0
    inside = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(inside, taken, np.asarray(fill, x.dtype))


def _gather_grad(
    g: Node, out: Node, x: Node, index: Node, *, axis: int, rows: int = 1, permutes: bool = False
) -> tuple:
    if permutes:
        undone = inverse(_within_rows(index, rows, x.size // rows))
        return b.reshape(along(b.reshape(g, undone.shape), undone, True), x.shape), None
    if rows > 1:  # each row's values go to that row
        n = x.size // rows
        sent = scatter(b.reshape(g, (rows, index.size // rows, 1)), _within_rows(index, rows, n), n)
        return b.reshape(sent, x.shape), None
    return scatter_add(g, index, axis, x.shape[axis]), None


def _within_rows(index: Node, rows: int, n: int) -> Node:
    """The flat index of `along`, row by row again; what is out of range stays so."""
    apart = b.reshape(index, (rows, index.size // rows))
    return b.apply("where", apart >= 0, apart - _firsts(rows, n, index.dtype), -1) if rows > 1 else apart


register(
    Op(
        name="gather", family=Family.INDEXED, arity=2, shape=_shape, dtype=_dtype, numpy=_numpy_gather,
        grad=_gather_grad, doc="slices at given positions",
        samples=uniform(-2, 2, (0, 2)).typed(None, "int32").on(
            case((4, 3), (5,), axis=0), case((2, 3, 2), (2, 2), axis=1), case((3,), (), axis=0),
            case((3, 0), (2,), axis=0), case((3, 2), (0,), axis=0),
        ),
    )
)  # fmt: skip


# ---- scatter
def scatter(values: Node, index: Node, extent: int, join: str = "sum") -> Node:
    """For each of `extent` places, the values sent there joined: out[..., index[..., i], :] of values[..., i, :].

    Shapes: values (..., M, C), index (..., M) -> (..., extent, C). Places that nothing is sent to hold the identity of
    `join`; what is sent out of range goes nowhere.
    """
    wide = b.cast(values, values.dtype.computed)  # types that are only stored are rounded once, at the end
    index = b.cast(index, index.dtype.computed)  # and may not be able to count the places
    if index.shape[-1] <= FEW:
        found = _by_looking(wide, index, extent, join)
    else:
        found = b.build("scatter", wide, index, extent=extent, join=join, chunk=0)
    if wide.dtype is not values.dtype and wide.dtype.kind != "f" and join in ("max", "min"):
        # Where nothing is sent there is the least of the wider type, which would wrap.
        found = b.apply("maximum" if join == "max" else "minimum", found, identity(join, values.dtype))
    return b.cast(found, values.dtype)


def scatter_add(g: Node, index: Node, axis: int, extent: int) -> Node:
    """The gradient of `gather`: row j of the output is the sum of the rows of `g` whose index is j."""
    lead, tail = g.shape[:axis], g.shape[axis + index.ndim :]
    front = [*range(axis, axis + index.ndim), *range(axis), *range(axis + index.ndim, g.ndim)]
    values = b.reshape(permute(g, front), (index.size, prod(lead) * prod(tail)))
    sent = scatter(values, b.reshape(index, (index.size,)), extent)
    back = [*range(1, 1 + axis), 0, *range(1 + axis, 1 + len(lead) + len(tail))]
    return permute(b.reshape(sent, (extent, *lead, *tail)), back)


def _by_looking(values: Node, index: Node, extent: int, join: str) -> Node:
    lead, m, c = index.shape[:-1], index.shape[-1], values.shape[-1]
    place = b.reshape(b.cast(b.build("iota", extent=extent), index.dtype), (*(1 for _ in lead), 1, extent, 1))
    goes = b.apply("equal", b.reshape(index, (*lead, m, 1, 1)), place)
    sent = b.apply("where", goes, b.reshape(values, (*lead, m, 1, c)), identity(join, values.dtype))
    axis = len(lead)
    if m != 1:
        ties = {"ties": "share"} if join in ("max", "min") else {}
        sent = b.build(join, sent, axes=(axis,), **ties)
    return b.reshape(sent, (*lead, extent, c))


def _scatter_grad(g: Node, out: Node, values: Node, index: Node, *, extent: int, join: str, chunk: int) -> tuple:
    assert not chunk, "chunks are made after differentiation"
    back = _taken(g, index)
    if join == "sum":
        return back, None
    if join == "prod":
        return guarded_product(back, _others(values, index, extent)), None
    here = b.cast(is_extreme(values, _taken(out, index)), values.dtype)
    count = _taken(scatter(here, index, extent), index)
    return here * back / b.apply("maximum", count, 1), None


def _others(values: Node, index: Node, extent: int) -> Node:
    """For each value, the product of the others that go to its place: those before it times those after it, in order.

    No division, so it is right with any number of zeros, at every order of derivative.
    """
    flat, place = _in_one_row(values, index, extent)
    order = argsort(place)
    inner, place = gather(flat, order, 0), gather(place, order, 0)

    def running(reverse: bool) -> Node:
        is_first = b.apply("not_equal", place, _next(place, reverse, -1))
        is_first = b.expand(b.reshape(is_first, (*place.shape, 1)), flat.shape)
        factors = b.apply("where", is_first, 0, _next(inner, reverse, 0))
        return b.build("linear_scan", factors, b.cast(is_first, flat.dtype), reverse=reverse)

    return b.reshape(gather(running(False) * running(True), inverse(order), 0), values.shape)


def _next(x: Node, reverse: bool, fill: int) -> Node:
    """The element before each along the first axis, or after it with `reverse`; `fill` where there is none."""
    kept, rest = (x.shape[0] - 1, *x.shape[1:]), [0] * (x.ndim - 1)
    part = slice_(x, [int(reverse), *rest], kept, [1] * x.ndim)
    return pad(part, [int(not reverse), *rest], [int(reverse), *rest], value=fill)


def _taken(x: Node, index: Node) -> Node:
    """x's rows at `index`, in each of the leading axes; 0 where the index is out of range."""
    lead, (extent, c), m = x.shape[:-2], x.shape[-2:], index.shape[-1]
    rows = prod(lead)
    place = b.reshape(index, (rows, m))
    inside = b.apply("logical_and", place >= 0, place < extent)
    place = b.apply("where", inside, place + _firsts(rows, extent, place.dtype), 0)
    found = gather(b.reshape(x, (rows * extent, c)), b.reshape(place, (rows * m,)), 0)
    inside = b.reshape(inside, (rows * m, 1))
    return b.reshape(b.apply("where", inside, found, 0), (*lead, m, c))


def _scatter_passes(node: Node, width: Any) -> Node:
    values, index = node.inputs
    extent, join = node.attributes["extent"], node.attributes["join"]
    lead, (m, c) = values.shape[:-2], values.shape[-2:]
    rows, software = prod(lead), width.lanes == 1
    if node.attributes["chunk"]:
        return node
    if not m:  # nothing is sent
        return b.constant(identity(join, node.dtype), node.dtype, node.shape)
    if m <= FEW or rows * m * extent * c <= (SOFTWARE_SMALL if software else SMALL):
        return _by_looking(values, index, extent, join)
    found = _software_chunk if software else partial(chunk_in_shared, size_bytes=values.dtype.size_bytes)
    chunk = found(rows, m, extent, c)
    if chunk >= m:  # one part, which is all
        return b.reshape(b.build("scatter", values, index, extent=extent, join=join, chunk=m), node.shape)
    if chunk:
        parts = b.build("scatter", values, index, extent=extent, join=join, chunk=chunk)
        return b.reshape(_all_parts(parts, len(lead), join, software), node.shape)
    wide, place = _in_one_row(values, index, extent)
    if software or rows * m < LONG_SORT:
        order = argsort(place)
    else:
        order = sorted_by_digits(place, bits=(rows * extent).bit_length())
    return b.reshape(_by_sorting(wide, place, order, rows * extent, join), node.shape)


def _all_parts(parts: Node, axis: int, join: str, software: bool) -> Node:
    """`parts` joined along `axis`. Many short columns are what scans read well, and a reduction does not."""
    lead, count, places = parts.shape[:axis], parts.shape[axis], prod(parts.shape[axis + 1 :])
    if places >= LONG and not software:
        wide = b.reshape(parts, (*lead, count, places))
        return b.build("scan_totals", wide, join=join, reverse=False, chunk=count)
    ties = {"ties": "share"} if join in ("max", "min") else {}
    return b.build(join, parts, axes=(axis,), **ties)


def _software_chunk(rows: int, m: int, extent: int, c: int) -> int:
    """Elements of a chunk whose places are in memory, one invocation a column; 0 where sorting is less work."""
    chunk = -(-m // max(32 // (rows * c), 1))
    while chunk > 1 and extent + chunk > MOST_STEPS:
        chunk //= 2
    return chunk if extent * -(-m // chunk) <= 4 * m and extent < MOST_STEPS else 0


def _in_one_row(values: Node, index: Node, extent: int) -> tuple[Node, Node]:
    lead, (m, c) = values.shape[:-2], values.shape[-2:]
    rows = prod(lead)
    place = b.cast(b.reshape(index, (rows, m)), int32)
    inside = b.apply("logical_and", place >= 0, place < extent)
    place = b.apply("where", inside, place + _firsts(rows, extent, int32), rows * extent)  # the rest comes last
    return b.reshape(values, (rows * m, c)), b.reshape(place, (rows * m,))


def _by_sorting(values: Node, place: Node, order: Node, extent: int, join: str) -> Node:
    """Each place joins its own run of the values sorted by place, whole blocks of it at once."""
    m, c = values.shape
    bounds = searchsorted(gather(place, order, 0), b.build("iota", extent=extent + 1))
    block = min(max(64, 1 << (m.bit_length() + 1) // 2), m)
    whole = slice_(order, [0], [m // block * block], [1])
    ties = {"ties": "share"} if join in ("max", "min") else {}
    blocks = b.build(join, b.reshape(gather(values, whole, 0), (m // block, block, c)), axes=(1,), **ties)
    return b.build("segments", values, order, bounds, b.reshape(blocks, (m // block, c)), join=join, block=block)


def _runs(values: Any, order: Any, bounds: Any, blocks: Any, *, join: str, block: int) -> list[Any]:
    """Operands of `segments` that belong together: any order, runs that cover it, and its whole blocks joined."""
    order = np.argsort(order, kind="stable").astype(np.int32)
    bounds = np.linspace(0, len(order), len(bounds)).astype(np.int32)
    whole = values[order][: len(blocks) * block].reshape(len(blocks), block, -1)
    return [values, order, bounds, getattr(np, JOINS[join]).reduce(whole, axis=1, dtype=values.dtype)]


routine(
    "scatter", template="scatter.comp.j2", geometry=scatter_geometry, shape=scatter_shape, arity=2,
    dtype=_sent_dtype, numpy=scatter_meaning, grad=_scatter_grad, passes=_scatter_passes, batched=True,
    samples=uniform(0.5, 1.5, (0, 3)).typed(None, "int32").on(
        *(case((12, 2), (12,), extent=4, join=join, chunk=0) for join in JOINS),
        *(case((2, 8, 1), (2, 8), extent=2, join=join, chunk=0) for join in ("sum", "max")),
        case((0, 2), (0,), extent=4, join="sum", chunk=0),
    ),
    doc="What is sent to each place, joined (sum, prod, max, min) in a fixed order. Equal extremes share the gradient, "
    "and that of products is right with any number of zeros, at every order.",
)  # fmt: skip
routine(
    "segments", template="segments.comp.j2", geometry=segments_geometry, arity=4, numpy=segments_meaning,
    shape=lambda shapes, **_: (shapes[2][0] - 1, shapes[0][1]), dtype=_sent_dtype,
    grad=NOT_DIFFERENTIABLE, samples=uniform(-2, 2).typed(None, "int32", "int32", None).making(_runs).on(
        *(case((9, 2), (9,), (5,), (4, 2), join=join, block=2) for join in JOINS)
    ),
    doc="A step of a long `scatter`: sorted values joined by runs.",
)  # fmt: skip
