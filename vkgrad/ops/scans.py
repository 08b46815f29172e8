"""Scans: each element joined with all before it along an axis, which is the last but one here (see `_in_columns`).

`scan` joins by an associative op; `linear_scan` runs the recurrence h[i] = a[i] h[i-1] + b[i], which is what the
gradient of a running product is, and is its own gradient's shape too. With `chunk` they start anew at every multiple
of it; a long scan is made of these: chunks, a scan of what they came to, and an element-wise join that fuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import FLOATING, NUMERIC, DType, int32
from vkgrad.ir.node import Node
from vkgrad.ir.op import DeviceLimits, Geometry, Shape
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.families import routine
from vkgrad.ops.indexed import gather, scatter
from vkgrad.ops.samples import case, edges, nan, uniform
from vkgrad.ops.scattering import JOINS, identity, join_glsl
from vkgrad.ops.views import pad, permute, slice_

SERIAL = 32  # up to so many elements, one invocation does a chunk alone
WIDE = 32  # and so it does where so many columns lie side by side
# Where chunks are shared among lanes: elements of a chunk, lanes of a workgroup, and bytes of a tile in shared memory.
CHUNK, LANES, TILE_BYTES = 2048, 128, 8192
ENOUGH = 512  # chunks that keep a large GPU busy: then one workgroup does a whole column, tile after tile
LONGEST = 1 << 16  # but not of more elements than this
# Elements of a chunk on a software driver: chunks for all cores, and far fewer than an invocation may loop over.
SOFTWARE_CHUNKS, LEAST_CHUNK, MOST_CHUNK = 64, 256, 1 << 14


def scan(x: Node, join: str, reverse: bool = False, axis: int = -1) -> Node:
    """Running sum, prod, max or min along `axis`, from its end with `reverse`.

    Types that are only stored, such as float16, are rounded once, at the end.
    """
    wide = _in_columns(b.cast(x, x.dtype.computed), axis)
    return b.reshape(b.cast(b.build("scan", wide, join=join, reverse=reverse, chunk=0), x.dtype), x.shape)


def linear_scan(a: Node, b_: Node, reverse: bool = False, axis: int = -1) -> Node:
    """h[i] = a[i] h[i-1] + b[i] along `axis` from h = 0; h[i+1] in place of h[i-1] with `reverse`."""
    wide = (_in_columns(b.cast(x, x.dtype.computed), axis) for x in (a, b_))
    return b.reshape(b.cast(b.build("linear_scan", *wide, reverse=reverse, chunk=0), b_.dtype), b_.shape)


def _in_columns(x: Node, axis: int) -> Node:
    """x with the axes after `axis` as one: scans run along the last axis but one."""
    axis %= x.ndim
    return b.reshape(x, (*x.shape[: axis + 1], prod(x.shape[axis + 1 :])))


def shifted(x: Node, by: int, fill: float | int, axis: int = -2) -> Node:
    """x moved by `by` places along an axis; `fill` takes the places left behind."""
    axis %= x.ndim
    n = x.shape[axis]
    kept = max(n - abs(by), 0)

    def along(value: int, other: Sequence[int]) -> list[int]:
        return [value if a == axis else other[a] for a in range(x.ndim)]

    zeros, ones = [0] * x.ndim, [1] * x.ndim
    part = slice_(x, along(max(-by, 0) if kept else 0, zeros), along(kept, x.shape), ones)
    room = n - kept
    return pad(part, along(room if by > 0 else 0, zeros), along(0 if by > 0 else room, zeros), value=fill)


# ---- meanings
def _starts(n: int, chunk: int) -> list[tuple[int, int]]:
    chunk = chunk or max(n, 1)
    return [(first, min(first + chunk, n)) for first in range(0, n, chunk)]


def _numpy_scan(x: Any, *, join: str, reverse: bool, chunk: int) -> Any:
    ufunc, out = getattr(np, JOINS[join]), np.empty_like(x, order="C")
    wide = np.dtype("f8") if x.dtype.kind == "f" else x.dtype
    step = -1 if reverse else 1
    for first, end in _starts(x.shape[-2], chunk):
        done = ufunc.accumulate(x[..., first:end, :][..., ::step, :], axis=-2, dtype=wide)
        out[..., first:end, :] = done[..., ::step, :]
    return out


def _numpy_linear(a: Any, b_: Any, *, reverse: bool, chunk: int) -> Any:
    """Chunks of about a square root of the length side by side, then one after the other, as devices do it too."""
    *lead, n, c = b_.shape
    if not chunk and n > 64:
        chunk = 1 << (n.bit_length() + 1) // 2
        local = _numpy_linear(a, b_, reverse=reverse, chunk=chunk)
        factors = _numpy_scan(a, join="prod", reverse=reverse, chunk=chunk)
        carried = np.zeros((*lead, 1, c), local.dtype)
        parts = _starts(n, chunk)
        for first, end in reversed(parts) if reverse else parts:
            local[..., first:end, :] += _product(factors[..., first:end, :], carried)
            last = first if reverse else end - 1
            carried = local[..., last : last + 1, :]
        return local
    size = chunk or max(n, 1)
    count = -(-n // size)
    wide = [np.zeros((*lead, count * size, c), "f8") for _ in range(2)]
    for padded, x in zip(wide, (a, b_), strict=True):
        padded[..., :n, :] = x
    factors, terms = (x.reshape(*lead, count, size, c) for x in wide)
    state = np.zeros((*lead, count, c))
    out = np.empty_like(terms)
    for i in range(size - 1, -1, -1) if reverse else range(size):
        state = _product(factors[..., i, :], state) + terms[..., i, :]
        out[..., i, :] = state
    return out.reshape(*lead, count * size, c)[..., :n, :].astype(b_.dtype)


def _product(factor: Any, state: Any) -> Any:
    """What is 0 stays so, whatever it is multiplied by: products of many factors overflow where no single one does."""
    return np.where(state == 0, 0, factor * state)


# ---- gradients
def _scan_grad(g: Node, out: Node, x: Node, *, join: str, reverse: bool, chunk: int) -> tuple:
    if join == "sum":
        return (scan(g, "sum", not reverse, -2),)
    if join == "prod":
        # What comes before times what the later ones make of it; no division, so zeros need no case.
        by = -1 if reverse else 1
        return (guarded_product(linear_scan(shifted(x, -by, 0), g, not reverse, -2), shifted(out, by, 1)),)
    # All of it goes to the element that is shown: the latest of equal ones.
    swapped = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    rows = permute(g, swapped)
    sent = scatter(b.reshape(rows, (*rows.shape, 1)), permute(_shown(x, out, reverse), swapped), x.shape[-2])
    return (permute(b.reshape(sent, rows.shape), swapped),)


def _shown(x: Node, out: Node, reverse: bool) -> Node:
    """Where the element of a running extreme is (int32): of equal ones the latest so far."""
    n = x.shape[-2]
    here = b.apply("equal", x, out)
    if x.dtype.kind == "f":
        here = b.apply("logical_or", here, b.apply("isnan", x))
    places = b.expand(b.reshape(b.build("iota", extent=n), (n, 1)), x.shape)
    return scan(b.apply("where", here, places, n if reverse else -1), "min" if reverse else "max", reverse, -2)


def _linear_grad(g: Node, out: Node, a: Node, b_: Node, *, reverse: bool, chunk: int) -> tuple:
    by = -1 if reverse else 1
    sent = linear_scan(shifted(a, -by, 0), g, not reverse, -2)
    return sent * shifted(out, by, 0), sent


# ---- how they run
def _geometry(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, reverse: bool, chunk: int, join: str = ""
) -> Geometry:
    *lead, n, c = shapes[-1]
    chunk = min(chunk, n) or n
    chunks = -(-n // chunk)
    parts = prod(lead) * chunks * c
    parameters: dict[str, Any] = {
        "reverse": reverse,
        "join": join_glsl(join, dtypes[0]) if join else "",
        "identity": identity(join, dtypes[0]) if join else 0,
    }
    numbers = {"n": n, "c": c, "chunk": chunk, "chunks": chunks, "parts": parts}
    if limits.software or chunk <= SERIAL or c >= WIDE:
        local = 8 if limits.software else 64
        parameters |= {"local": local, "lanes": 1}
        return Geometry(groups=-(-parts // local), numbers=numbers, parameters=parameters)
    size_bytes = dtypes[0].size_bytes * (1 if join else 2)
    lanes, each = 32, 4
    while lanes * each < chunk and lanes < min(LANES, limits.max_invocations):
        lanes *= 2
    while lanes * each < chunk and 2 * lanes * each * size_bytes <= min(TILE_BYTES, limits.shared_bytes // 2):
        each *= 2
    parameters |= {"local": 1, "lanes": lanes, "each": each}
    shared_bytes = (2 * lanes + lanes * each + lanes * each // 32) * size_bytes
    return Geometry(groups=parts, numbers=numbers, parameters=parameters, shared_bytes=shared_bytes)


def _chunk(shape: Shape, width: Any) -> int:
    """How many elements of a column one workgroup, or one invocation, should do."""
    *lead, n, c = shape
    if width.lanes == 1:
        return min(max(LEAST_CHUNK, -(-n // SOFTWARE_CHUNKS)), MOST_CHUNK)
    columns = prod(lead) * c
    if c < WIDE:
        alone = n <= 4 * CHUNK or (columns >= ENOUGH and n <= LONGEST)
        return n if alone else CHUNK
    return min(max(SERIAL, -(-n * columns // (4 * width.invocations))), MOST_CHUNK)


def _ends(x: Node, chunk: int, reverse: bool) -> Node:
    """What each chunk but the last to be scanned came to, where x is the scan of each."""
    *lead, n, c = x.shape
    ones, zeros = [1] * len(lead), [0] * len(lead)
    first = chunk if reverse else chunk - 1
    return slice_(x, [*zeros, first, 0], [*lead, -(-n // chunk) - 1, c], [*ones, chunk, 1])


def _carried(totals: Node, chunk: int, n: int, reverse: bool, start: float | int) -> Node:
    """For each of n places, what the chunks before its own came to, from the scan of `_ends`."""
    which = b.apply("floor_divide", b.build("iota", extent=n), b.constant(chunk, int32, (n,)))
    begun = which < totals.shape[-2] if reverse else which > 0
    found = gather(totals, b.apply("where", begun, which if reverse else which - 1, 0), totals.ndim - 2)
    return b.apply("where", b.reshape(begun, (n, 1)), found, start)


def _scan_passes(node: Node, width: Any) -> Node:
    x, (join, reverse, own) = node.inputs[0], (node.attributes[name] for name in ("join", "reverse", "chunk"))
    n, chunk = x.shape[-2], _chunk(x.shape, width)
    if own or n <= chunk:
        return node
    local = b.build("scan", x, join=join, reverse=reverse, chunk=chunk)
    totals = scan(_ends(local, chunk, reverse), join, reverse, -2)
    return b.apply(JOINS[join], _carried(totals, chunk, n, reverse, identity(join, x.dtype)), local)


def _linear_passes(node: Node, width: Any) -> Node:
    (a, b_), (reverse, own) = node.inputs, (node.attributes[name] for name in ("reverse", "chunk"))
    n, chunk = b_.shape[-2], _chunk(b_.shape, width)
    if own or n <= chunk:
        return node
    factors = b.build("scan", a, join="prod", reverse=reverse, chunk=chunk)
    local = b.build("linear_scan", a, b_, reverse=reverse, chunk=chunk)
    totals = linear_scan(_ends(factors, chunk, reverse), _ends(local, chunk, reverse), reverse, -2)
    return local + guarded_product(_carried(totals, chunk, n, reverse, 0), factors)


def _taking(name: str, allowed: Sequence[DType]) -> Any:
    def rule(dtypes: Sequence[DType], **_: Any) -> DType:
        if any(d is not dtypes[0] for d in dtypes) or dtypes[0] not in allowed or dtypes[0].narrow:
            raise DTypeError(
                f"{name}: takes one of {', '.join(d.name for d in allowed if not d.narrow)}, got {dtypes[0].name}"
            )
        return dtypes[0]

    return rule


def _same(shapes: Sequence[Shape], **_: Any) -> Shape:
    assert all(shape == shapes[0] and len(shape) > 1 for shape in shapes)
    return shapes[0]


routine(
    "scan", template="scan.comp.j2", geometry=_geometry, shape=_same, dtype=_taking("scan", NUMERIC),
    numpy=_numpy_scan, grad=_scan_grad, passes=_scan_passes, batched=True,
    samples=(uniform(-2, 2) + edges(0.0, nan)).on(
        *(case((2, 5, 3), join=join, reverse=back, chunk=0) for join in JOINS for back in (False, True)),
        case((0, 4, 2), join="sum", reverse=False, chunk=0), case((2, 0, 3), join="sum", reverse=False, chunk=0),
    ),
    doc="Running sum, prod, max or min along the last axis but one. Of equal extremes the latest gets the gradient.",
)  # fmt: skip
routine(
    "linear_scan", template="scan.comp.j2", geometry=_geometry, shape=_same, dtype=_taking("linear_scan", FLOATING),
    numpy=_numpy_linear, grad=_linear_grad, passes=_linear_passes, batched=True, arity=2,
    samples=uniform(-1, 1).on(
        *(case((2, 5, 3), (2, 5, 3), reverse=back, chunk=0) for back in (False, True)),
        case((0, 4, 2), (0, 4, 2), reverse=False, chunk=0),
    ),
    doc="h[i] = a[i] h[i-1] + b[i] along the last axis but one.",
)  # fmt: skip
