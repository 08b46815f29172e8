"""Sorting along the last axis, as positions: `argsort`, looking a value up in what is sorted, and undoing an order.

Sorted values are a gather by these positions, so a sort's gradient is a gather's. A long axis is sorted in blocks,
which are then merged pair by pair, each merge one dispatch in which every invocation finds its own part of the result;
a longer one by digits (see `vkgrad.ops.radix`), except on software drivers.
Equal elements keep their order, NaN comes last in both directions. Nothing depends on which invocation runs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, int32
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, Shape
from vkgrad.ops.families import integral, routine
from vkgrad.ops.radix import sorted_by_digits
from vkgrad.ops.samples import Case, case, edges, inf, integers, nan, uniform

# A block is sorted by one invocation on a software driver, by a workgroup in shared memory elsewhere: every device has
# so many bytes of that, for keys and their positions.
SOFTWARE_BLOCK, BLOCK_BYTES = 32, 16384
FEW = 16  # up to so many elements, one invocation sorts a row alone on every device
SORTING = 256  # lanes of a block: with several pairs each they wait less for each other
LONG = 1 << 14  # elements from which on types of at most 32 bits are sorted by digits
MERGED, LANES = 8, 128  # elements that an invocation merges (a software driver's does a block), and how many together


def argsort(x: Node, descending: bool = False) -> Node:
    """Where each element of sorted x is in x, along the last axis."""
    return b.build("argsort", x, descending=descending)


def searchsorted(ordered: Node, values: Node, right: bool = False) -> Node:
    """How many elements of `ordered` (along the last axis) come before each value; with `right`, those equal too."""
    return b.build("searchsorted", ordered, values, right=right)


def inverse(order: Node) -> Node:
    """The order that undoes a permutation of the last axis."""
    return b.build("inverse", order)


# ---- meanings
def order_of(x: Any, descending: bool = False) -> Any:
    """np.argsort that is stable in both directions, with NaN last in both."""
    if not descending:
        return np.argsort(x, axis=-1, kind="stable").astype(np.int32)
    if x.dtype.kind == "f":
        return np.argsort(-x, axis=-1, kind="stable").astype(np.int32)
    n = x.shape[-1]
    return (n - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]).astype(np.int32)


def _by_block(x: Any, order: Any, size: int, descending: bool) -> Any:
    """`order` with every block of `size` in the order of x; positions decide among equals."""
    out = np.empty(x.shape, np.int32)
    for first in range(0, x.shape[-1], size):
        positions = np.sort(order[..., first : first + size], axis=-1)
        keys = np.take_along_axis(x, positions, -1)
        out[..., first : first + size] = np.take_along_axis(positions, order_of(keys, descending), -1)
    return out


def _numpy_blocks(x: Any, *, size: int, descending: bool) -> Any:
    return _by_block(x, np.broadcast_to(np.arange(x.shape[-1]), x.shape), size, descending)


def _numpy_merge(x: Any, order: Any, *, run: int, descending: bool) -> Any:
    return _by_block(x, order, 2 * run, descending)


def _numpy_search(ordered: Any, values: Any, *, right: bool) -> Any:
    lead, (n, m) = ordered.shape[:-1], (ordered.shape[-1], values.shape[-1])
    rows = zip(ordered.reshape(prod(lead), n), values.reshape(prod(lead), m), strict=True)
    found = [np.searchsorted(row, wanted, "right" if right else "left") for row, wanted in rows]
    return np.array(found, np.int32).reshape(*lead, m)


def _numpy_inverse(order: Any) -> Any:
    out = np.empty_like(order)
    np.put_along_axis(out, order, np.broadcast_to(np.arange(order.shape[-1], dtype=order.dtype), order.shape), -1)
    return out


# ---- how they run
def _block(dtype: DType) -> int:
    """Elements of a block in shared memory, a power of two."""
    return 1 << (BLOCK_BYTES // (dtype.computed.size_bytes + 4)).bit_length() - 1


def _sort_blocks(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, size: int = 0, descending: bool
) -> Geometry:
    *lead, n = shapes[0]
    size = min(size or n, n)
    blocks = -(-n // size)
    numbers = {"n": n, "size": size, "blocks": blocks, "parts": prod(lead) * blocks}
    parameters = {"descending": descending, "capacity": 1 << max(size - 1, 1).bit_length()}
    if limits.software or size <= FEW:
        return Geometry(groups=-(-numbers["parts"] // 8), numbers=numbers, parameters={**parameters, "lanes": 1})
    lanes = min(parameters["capacity"] // 2, SORTING, limits.max_invocations)
    return Geometry(
        groups=numbers["parts"], numbers=numbers, parameters={**parameters, "lanes": lanes},
        shared_bytes=parameters["capacity"] * (dtypes[0].size_bytes + 4),
    )  # fmt: skip


def _merge(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, run: int, descending: bool
) -> Geometry:
    *lead, n = shapes[0]
    shared = not limits.software and run % (MERGED * LANES) == 0
    each, local = (MERGED, LANES) if shared else (SOFTWARE_BLOCK, 8)
    parts = -(-n // (each * local if shared else each))
    numbers = {"n": n, "run": run, "parts": parts, "all": prod(lead) * parts}
    parameters = {"descending": descending, "each": each, "local": local, "shared": shared}
    return Geometry(
        groups=numbers["all"] if shared else -(-numbers["all"] // local), numbers=numbers, parameters=parameters,
        shared_bytes=each * local * (dtypes[0].size_bytes + 4) + 8 if shared else 0,
    )  # fmt: skip


def _one_each(shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, **attributes: Any) -> Geometry:
    """An invocation for each element of the last operand."""
    local = 8 if limits.software else 64
    count = prod(shapes[-1])
    numbers = {"n": shapes[0][-1], "m": shapes[-1][-1], "count": count}
    return Geometry(groups=-(-count // local), numbers=numbers, parameters={**attributes, "local": local})


def _sort_passes(node: Node, width: Any) -> Node:
    x, descending = node.inputs[0], node.attributes["descending"]
    n, size = x.shape[-1], SOFTWARE_BLOCK if width.lanes == 1 else _block(x.dtype)
    if n <= size:
        return node
    if n >= LONG and width.lanes > 1 and x.dtype.size_bytes <= 4:
        return sorted_by_digits(x, descending)
    order = b.build("sort_blocks", x, size=size, descending=descending)
    while size < n:
        order = b.build("sort_merge", x, order, run=size, descending=descending)
        size *= 2
    return order


# ---- records
def _positions(shapes: Sequence[Shape], **_: Any) -> Shape:
    assert shapes[0] and all(shape == shapes[0] for shape in shapes)
    return shapes[0]


def _as_int32(dtypes: Sequence[DType], **_: Any) -> DType:
    return int32


def _alike(dtypes: Sequence[DType], **_: Any) -> DType:
    if dtypes[0] is not dtypes[1]:
        raise DTypeError(f"searchsorted: operands must have one type, got {dtypes[0].name} and {dtypes[1].name}")
    return int32


_ANY = uniform(-2, 2) + edges(0.0, nan, inf, -inf)


def _some(**attributes: Any) -> list[Case]:
    return [case(at, descending=down, **attributes) for down in (False, True) for at in ((2, 9), (7,), (0, 3), (2, 0))]


def _in_runs(x: Any, order: Any, *, run: int, descending: bool) -> list[Any]:
    return [x, _numpy_blocks(x, size=run, descending=descending)]


def _an_order(x: Any) -> list[Any]:
    return [np.argsort(x, axis=-1, kind="stable").astype(x.dtype)]


def _ascending(ordered: Any, values: Any, **_: Any) -> list[Any]:
    return [np.sort(ordered, axis=-1), values]


routine(
    "argsort", template="sort_blocks.comp.j2", geometry=_sort_blocks, shape=_positions, dtype=_as_int32,
    numpy=lambda x, *, descending: order_of(x, descending), passes=_sort_passes, grad=NOT_DIFFERENTIABLE,
    samples=_ANY.on(*_some()),
    batched=True, doc="Where each element of the sorted last axis is. Stable; NaN comes last.",
)  # fmt: skip
routine(
    "sort_blocks", template="sort_blocks.comp.j2", geometry=_sort_blocks, shape=_positions, dtype=_as_int32,
    numpy=_numpy_blocks, grad=NOT_DIFFERENTIABLE, samples=_ANY.on(*_some(size=4)), batched=True,
    doc="The same for every block of `size` elements: the first step of a long `argsort`.",
)  # fmt: skip
routine(
    "sort_merge", template="sort_merge.comp.j2", geometry=_merge, shape=_positions, dtype=_as_int32, arity=2,
    numpy=_numpy_merge, grad=NOT_DIFFERENTIABLE, batched=True,
    samples=_ANY.typed(None, "int32").making(_in_runs).on(
        *(case((2, 70), (2, 70), run=SOFTWARE_BLOCK, descending=down) for down in (False, True)),
        case((0, 40), (0, 40), run=SOFTWARE_BLOCK, descending=False),
    ),
    doc="Every two neighbouring sorted runs, of whole blocks, made one: the other steps.",
)  # fmt: skip
routine(
    "searchsorted", template="searchsorted.comp.j2", geometry=_one_each, dtype=_alike, arity=2,
    shape=lambda shapes, **_: shapes[1], numpy=_numpy_search, grad=NOT_DIFFERENTIABLE, batched=True,
    samples=_ANY.making(_ascending).on(
        *(case((2, 5), (2, 4), right=right) for right in (False, True)), case((0, 5), (0, 4), right=False),
    ),
    doc="How many elements of a sorted last axis come before each value.",
)  # fmt: skip
routine(
    "inverse", template="inverse.comp.j2", geometry=_one_each, shape=_positions, dtype=integral("inverse"),
    numpy=_numpy_inverse, grad=NOT_DIFFERENTIABLE, batched=True,
    samples=integers(0, 9).making(_an_order).on(case((2, 5)), case((4,)), case((0, 3))),
    doc="The permutation that undoes one.",
)  # fmt: skip
