"""Scans along the last axis: each element joined with all before it.

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
from vkgrad.ir.op import OPS, DeviceLimits, Geometry, Shape
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.families import routine
from vkgrad.ops.indexed import JOINS, gather, identity, scatter
from vkgrad.ops.samples import edges, nan, uniform
from vkgrad.ops.views import pad, slice_

SERIAL = 32  # up to so many elements, one invocation does a row alone
EACH, LANES = 8, 512  # elements of an invocation, and invocations of a workgroup, where rows are shared among lanes
# Elements of a chunk on a software driver: chunks for all cores, and far fewer than an invocation may loop over.
SOFTWARE_CHUNKS, LEAST_CHUNK, MOST_CHUNK = 64, 256, 1 << 14


def scan(x: Node, join: str, reverse: bool = False) -> Node:
    """Running sum, prod, max or min along the last axis, from its end with `reverse`.

    Types that are only stored, such as float16, are rounded once, at the end.
    """
    wide = b.cast(x, x.dtype.computed)
    return b.cast(b.build("scan", wide, join=join, reverse=reverse, chunk=0), x.dtype)


def linear_scan(a: Node, b_: Node, reverse: bool = False) -> Node:
    """h[i] = a[i] h[i-1] + b[i] along the last axis from h = 0; h[i+1] in place of h[i-1] with `reverse`."""
    wide = (b.cast(x, x.dtype.computed) for x in (a, b_))
    return b.cast(b.build("linear_scan", *wide, reverse=reverse, chunk=0), b_.dtype)


def shifted(x: Node, by: int, fill: float | int) -> Node:
    """x moved by `by` places along its last axis; `fill` takes the places left behind."""
    n, still = x.shape[-1], [0] * (x.ndim - 1)
    kept = max(n - abs(by), 0)
    part = slice_(x, [*still, max(-by, 0) if kept else 0], [*x.shape[:-1], kept], [1] * x.ndim)
    room = n - kept
    return pad(part, [*still, room if by > 0 else 0], [*still, 0 if by > 0 else room], value=fill)


# ---- meanings
def _starts(n: int, chunk: int) -> list[tuple[int, int]]:
    chunk = chunk or max(n, 1)
    return [(first, min(first + chunk, n)) for first in range(0, n, chunk)]


def _wider(x: Any) -> np.dtype:
    return np.dtype("f8") if x.dtype.kind == "f" else x.dtype


def _numpy_scan(x: Any, *, join: str, reverse: bool, chunk: int) -> Any:
    ufunc, out = getattr(np, JOINS[join]), np.empty_like(x, order="C")
    for first, end in _starts(x.shape[-1], chunk):
        part = x[..., first:end]
        part = part[..., ::-1] if reverse else part
        done = ufunc.accumulate(part, axis=-1, dtype=_wider(x)).astype(x.dtype)
        out[..., first:end] = done[..., ::-1] if reverse else done
    return out


def _numpy_linear(a: Any, b_: Any, *, reverse: bool, chunk: int) -> Any:
    """Chunks of about a square root of the length side by side, then one after the other, as devices do it too."""
    n = b_.shape[-1]
    if not chunk and n > 64:
        chunk = 1 << (n.bit_length() + 1) // 2
        local = _numpy_linear(a, b_, reverse=reverse, chunk=chunk)
        factors = _numpy_scan(a, join="prod", reverse=reverse, chunk=chunk)
        carried = np.zeros(b_.shape[:-1], local.dtype)
        parts = _starts(n, chunk)
        for first, end in reversed(parts) if reverse else parts:
            local[..., first:end] += _product(factors[..., first:end], carried[..., None])
            carried = local[..., first if reverse else end - 1]
        return local
    size = chunk or max(n, 1)
    count = -(-n // size)
    wide = [np.zeros((*b_.shape[:-1], count * size), "f8") for _ in range(2)]
    for padded, x in zip(wide, (a, b_), strict=True):
        padded[..., :n] = x
    factors, terms = (x.reshape(*b_.shape[:-1], count, size) for x in wide)
    state = np.zeros((*b_.shape[:-1], count))
    out = np.empty_like(terms)
    for i in range(size - 1, -1, -1) if reverse else range(size):
        state = _product(factors[..., i], state) + terms[..., i]
        out[..., i] = state
    return out.reshape(*b_.shape[:-1], count * size)[..., :n].astype(b_.dtype)


def _product(factor: Any, state: Any) -> Any:
    """What is 0 stays so, whatever it is multiplied by: products of many factors overflow where no single one does."""
    return np.where(state == 0, 0, factor * state)


# ---- gradients
def _scan_grad(g: Node, out: Node, x: Node, *, join: str, reverse: bool, chunk: int) -> tuple:
    if join == "sum":
        return (scan(g, "sum", not reverse),)
    if join == "prod":
        # What comes before times what the later ones make of it; no division, so zeros need no case.
        by = -1 if reverse else 1
        return (guarded_product(linear_scan(shifted(x, -by, 0), g, not reverse), shifted(out, by, 1)),)
    # All of it goes to the element that is shown: the latest of equal ones.
    sent = scatter(b.reshape(g, (*g.shape, 1)), shown(x, out, reverse), x.shape[-1])
    return (b.reshape(sent, x.shape),)


def shown(x: Node, out: Node, reverse: bool) -> Node:
    """Where along the last axis the element of a running extreme is (int32): of equal ones the latest so far."""
    n = x.shape[-1]
    here = b.apply("equal", x, out)
    if x.dtype.kind == "f":
        here = b.apply("logical_or", here, b.apply("isnan", x))
    places = b.expand(b.build("iota", extent=n), x.shape)
    return scan(b.apply("where", here, places, n if reverse else -1), "min" if reverse else "max", reverse)


def _linear_grad(g: Node, out: Node, a: Node, b_: Node, *, reverse: bool, chunk: int) -> tuple:
    by = -1 if reverse else 1
    sent = linear_scan(shifted(a, -by, 0), g, not reverse)
    return sent * shifted(out, by, 0), sent


# ---- how they run
def _geometry(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, reverse: bool, chunk: int, join: str = ""
) -> Geometry:
    *lead, n = shapes[-1]
    chunk = min(chunk, n) or n
    chunks = -(-n // chunk)
    parts = prod(lead) * chunks
    glsl = OPS[JOINS[join]].glsl if join else ""
    parameters: dict[str, Any] = {
        "reverse": reverse,
        "join": glsl if isinstance(glsl, str) else glsl[dtypes[0].kind] if glsl else "",
        "identity": identity(join, dtypes[0]) if join else 0,
    }
    numbers = {"n": n, "chunk": chunk, "chunks": chunks, "parts": parts}
    if limits.software or chunk <= SERIAL:
        local = 8 if limits.software else 64
        return Geometry(
            groups=-(-parts // local), numbers=numbers, parameters={**parameters, "local": local, "lanes": 1}
        )
    lanes = 32
    while lanes * EACH < chunk and lanes < min(LANES, limits.max_invocations):
        lanes *= 2
    each = -(-chunk // lanes)
    size = dtypes[0].size_bytes * (1 if join else 2)
    return Geometry(
        groups=parts, numbers=numbers, parameters={**parameters, "local": 1, "lanes": lanes, "each": each},
        shared_bytes=lanes * size,
    )  # fmt: skip


def chunk_of(n: int, lanes: int) -> int:
    """How many elements of a row one workgroup (on a software driver, one invocation) should do."""
    return EACH * LANES if lanes > 1 else min(max(LEAST_CHUNK, -(-n // SOFTWARE_CHUNKS)), MOST_CHUNK)


def _ends(x: Node, chunk: int, reverse: bool) -> Node:
    """What each chunk but the last to be scanned came to, where x is the scan of each."""
    n, still = x.shape[-1], [0] * (x.ndim - 1)
    chunks = -(-n // chunk)
    first = chunk if reverse else chunk - 1
    return slice_(x, [*still, first], [*x.shape[:-1], chunks - 1], [*(1 for _ in still), chunk])


def _carried(totals: Node, chunk: int, n: int, reverse: bool, start: float | int) -> Node:
    """For each of n places, what the chunks before its own came to, from the scan of `_ends`."""
    which = b.apply("floor_divide", b.build("iota", extent=n), b.constant(chunk, int32, (n,)))
    begun = which < totals.shape[-1] if reverse else which > 0
    found = gather(totals, b.apply("where", begun, which if reverse else which - 1, 0), totals.ndim - 1)
    return b.apply("where", begun, found, start)


def _scan_passes(node: Node, width: Any) -> Node:
    x, (join, reverse, own) = node.inputs[0], (node.attributes[name] for name in ("join", "reverse", "chunk"))
    n = x.shape[-1]
    chunk = chunk_of(n, width.lanes)
    if own or n <= chunk:
        return node
    local = b.build("scan", x, join=join, reverse=reverse, chunk=chunk)
    totals = scan(_ends(local, chunk, reverse), join, reverse)
    return b.apply(JOINS[join], _carried(totals, chunk, n, reverse, identity(join, x.dtype)), local)


def _linear_passes(node: Node, width: Any) -> Node:
    (a, b_), (reverse, own) = node.inputs, (node.attributes[name] for name in ("reverse", "chunk"))
    n = b_.shape[-1]
    chunk = chunk_of(n, width.lanes)
    if own or n <= chunk:
        return node
    factors = b.build("scan", a, join="prod", reverse=reverse, chunk=chunk)
    local = b.build("linear_scan", a, b_, reverse=reverse, chunk=chunk)
    totals = linear_scan(_ends(factors, chunk, reverse), _ends(local, chunk, reverse), reverse)
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
    assert all(shape == shapes[0] and shape for shape in shapes)
    return shapes[0]


routine(
    "scan", template="scan.comp.j2", geometry=_geometry, shape=_same, dtype=_taking("scan", NUMERIC),
    numpy=_numpy_scan, grad=_scan_grad, passes=_scan_passes, batched=True, samples=uniform(-2, 2) + edges(0.0, nan),
    doc="Running sum, prod, max or min along the last axis. Of equal extremes the latest gets the gradient.",
)  # fmt: skip
routine(
    "linear_scan", template="scan.comp.j2", geometry=_geometry, shape=_same, dtype=_taking("linear_scan", FLOATING),
    numpy=_numpy_linear, grad=_linear_grad, passes=_linear_passes, batched=True, arity=2, samples=uniform(-1, 1),
    doc="h[i] = a[i] h[i-1] + b[i] along the last axis.",
)  # fmt: skip
