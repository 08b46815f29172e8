"""Scans: each element joined with all before it along an axis, which is the last but one here (see `_in_columns`).

`scan` joins by an associative op; `linear_scan` runs the recurrence h[i] = a[i] h[i-1] + b[i], which is what the
gradient of a running product is, and is its own gradient's shape too. A long scan takes two steps, which read the
operands once each: what every chunk came to, and a scan of each chunk from what those before it came to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import FLOATING, NUMERIC, DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, Shape
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.families import routine
from vkgrad.ops.indexed import scatter
from vkgrad.ops.samples import case, edges, nan, uniform
from vkgrad.ops.scattering import JOINS, identity, join_glsl
from vkgrad.ops.views import pad, permute, slice_

SERIAL = 32  # up to so many elements, one invocation does a chunk alone
# Where a workgroup shares a column: its lanes, and elements of a tile in shared memory. H200, 10^7 elements: 50.0 us,
# with twice the elements 54.3, with twice the lanes too 51.2. 10^6 pairs: 72.0 us, with twice the lanes 77.6.
LANES, TILE = 128, 1024
# Where it does several that lie side by side: the fewest, the most, lanes of each, and elements a lane does at once.
FEWEST_WIDE, WIDE, COLUMN_LANES, COLUMN_EACH = 8, 32, 4, 16
ALONE = 8192  # elements up to which one workgroup does a column whatever else there is
CHUNK = 2048  # the fewest elements of a chunk that are worth a workgroup
MOST_CHUNKS = 1024  # all that are before a chunk are joined by each, so they are few
ENOUGH = 512  # workgroups that keep a large GPU busy: then one does a whole column, tile after tile
LONGEST = 1 << 16  # but not of more elements than this
# Elements of a chunk on a software driver: chunks for all cores, and far fewer than an invocation may loop over.
SOFTWARE_CHUNKS, LEAST_CHUNK, MOST_CHUNK = 64, 256, 1 << 14


def scan(x: Node, join: str, reverse: bool = False, axis: int = -1) -> Node:
    """Running sum, prod, max or min along `axis`, from its end with `reverse`.

    Types that are only stored, such as float16, are rounded once, at the end.
    """
    wide = _in_columns(b.cast(x, x.dtype.computed), axis)
    return b.reshape(b.cast(b.build("scan", wide, join=join, reverse=reverse), x.dtype), x.shape)


def linear_scan(a: Node, b_: Node, reverse: bool = False, axis: int = -1) -> Node:
    """h[i] = a[i] h[i-1] + b[i] along `axis` from h = 0; h[i+1] in place of h[i-1] with `reverse`."""
    wide = (_in_columns(b.cast(x, x.dtype.computed), axis) for x in (a, b_))
    return b.reshape(b.cast(b.build("linear_scan", *wide, reverse=reverse), b_.dtype), b_.shape)


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


def _wide(x: Any) -> Any:
    return x.astype("f8") if x.dtype.kind == "f" else x


def _numpy_scan(x: Any, *, join: str, reverse: bool, chunk: int = 0) -> Any:
    """The scan; with `chunk`, anew at each of its multiples."""
    ufunc, out = getattr(np, JOINS[join]), np.empty_like(x, order="C")
    step = -1 if reverse else 1
    for first, end in _starts(x.shape[-2], chunk):
        done = ufunc.accumulate(_wide(x[..., first:end, :][..., ::step, :]), axis=-2)
        out[..., first:end, :] = done[..., ::step, :]
    return out


def _numpy_linear(a: Any, b_: Any, *, reverse: bool, chunk: int = 0) -> Any:
    """Chunks of about a square root of the length side by side, then one after the other, as devices do it too."""
    n = b_.shape[-2]
    if not chunk and n > 64:
        chunk = 1 << (n.bit_length() + 1) // 2
        return _numpy_linear_from(a, b_, _numpy_linear_totals(a, b_, reverse=reverse, chunk=chunk), reverse=reverse,
                                  chunk=chunk)  # fmt: skip
    *lead, n, c = b_.shape
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


def _last(x: Any, chunk: int, reverse: bool) -> Any:
    """Each chunk's element that comes last in the scan."""
    return np.stack([x[..., first if reverse else end - 1, :] for first, end in _starts(x.shape[-2], chunk)], -2)


def _numpy_totals(x: Any, *, join: str, reverse: bool, chunk: int) -> Any:
    return _last(_numpy_scan(x, join=join, reverse=reverse, chunk=chunk), chunk, reverse)


def _numpy_from(x: Any, totals: Any, *, join: str, reverse: bool, chunk: int) -> Any:
    ufunc, out = getattr(np, JOINS[join]), _numpy_scan(x, join=join, reverse=reverse, chunk=chunk)
    before = _wide(_numpy_scan(totals, join=join, reverse=reverse))
    for number, (first, end) in enumerate(_starts(x.shape[-2], chunk)):
        earlier = number + 1 if reverse else number - 1
        if 0 <= earlier < totals.shape[-2]:
            out[..., first:end, :] = ufunc(before[..., earlier : earlier + 1, :], out[..., first:end, :])
    return out


def _numpy_linear_totals(a: Any, b_: Any, *, reverse: bool, chunk: int) -> Any:
    terms = _numpy_linear(a, b_, reverse=reverse, chunk=chunk)
    return np.stack([_numpy_totals(a, join="prod", reverse=reverse, chunk=chunk), _last(terms, chunk, reverse)])


def _numpy_linear_from(a: Any, b_: Any, totals: Any, *, reverse: bool, chunk: int) -> Any:
    out = _numpy_linear(a, b_, reverse=reverse, chunk=chunk)
    factors = _numpy_scan(a, join="prod", reverse=reverse, chunk=chunk)
    carried = np.zeros_like(out[..., :1, :])
    parts = _starts(b_.shape[-2], chunk)
    for first, end in reversed(parts) if reverse else parts:
        out[..., first:end, :] += _product(factors[..., first:end, :], carried)
        carried = _last(out[..., first:end, :], 0, reverse)
    return out


def _product(factor: Any, state: Any) -> Any:
    """What is 0 stays so, whatever it is multiplied by: products of many factors overflow where no single one does."""
    return np.where(state == 0, 0, factor * state)


# ---- gradients
def _scan_grad(g: Node, out: Node, x: Node, *, join: str, reverse: bool) -> tuple:
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


def _linear_grad(g: Node, out: Node, a: Node, b_: Node, *, reverse: bool) -> tuple:
    by = -1 if reverse else 1
    sent = linear_scan(shifted(a, -by, 0), g, not reverse, -2)
    return b.apply("multiply_or_zero", sent, shifted(out, by, 0)), sent


# ---- how they run
def _geometry(mode: str, pair: bool) -> Callable[..., Geometry]:
    def geometry(
        shapes: Sequence[Shape],
        dtypes: Sequence[DType],
        limits: DeviceLimits,
        *,
        reverse: bool,
        chunk: int = 0,
        join: str = "",
    ) -> Geometry:
        *lead, n, c = shapes[0]
        chunk = min(chunk, n) or n
        chunks = -(-n // chunk)
        whole = prod(lead) * chunks
        numbers = {"n": n, "c": c, "chunk": chunk, "chunks": chunks, "all": whole * c}
        parameters = {
            "mode": mode,
            "pair": pair,
            "reverse": reverse,
            "join": join_glsl(join, dtypes[0]) if join else "",
            "identity": identity(join, dtypes[0]) if join else 0,
        }
        size_bytes = dtypes[0].size_bytes * (2 if pair else 1)
        tile = _tile(chunk, c, size_bytes, limits, whole if mode == "totals" and not pair else ENOUGH)
        if tile["way"] == "alone":
            numbers["parts"] = whole * c
            return Geometry(groups=-(-whole * c // tile["local"]), numbers=numbers, parameters=parameters | tile)
        numbers["blocks"] = -(-c // tile["wide"])
        numbers["parts"] = whole * numbers["blocks"]
        elements = tile["lanes"] * tile["each"] if tile["way"] == "row" else 0
        shared_bytes = (2 * tile["lanes"] * tile["wide"] + elements + elements // 32) * size_bytes
        return Geometry(
            groups=numbers["parts"], numbers=numbers, parameters=parameters | tile, shared_bytes=shared_bytes
        )

    return geometry


def _tile(chunk: int, c: int, size_bytes: int, limits: DeviceLimits, whole: int) -> dict[str, Any]:
    """How a chunk is shared out (see the template): where few are done, `whole` of c columns, each by more lanes."""
    if limits.software or chunk <= SERIAL:
        return {"way": "alone", "local": 8 if limits.software else 64}
    if c < FEWEST_WIDE:
        lanes, each = 32, 4
        while lanes * each < chunk and lanes < min(LANES, limits.max_invocations):
            lanes *= 2
        while lanes * each < min(chunk, TILE) and 2 * lanes * each * size_bytes <= limits.shared_bytes // 2:
            each *= 2
        return {"way": "row", "lanes": lanes, "each": each, "wide": 1}
    wide = min(WIDE, 1 << c.bit_length() - 1)
    while wide > FEWEST_WIDE and whole * -(-c // wide) < ENOUGH // 4:
        wide //= 2
    lanes = min(COLUMN_LANES * WIDE, limits.max_invocations) // wide
    return {
        "way": "columns",
        "lanes": lanes,
        "each": COLUMN_EACH if size_bytes == 4 else COLUMN_EACH // 2,
        "wide": wide,
    }


def _chunk(shape: Shape, width: Any) -> int:
    """How many elements of a column one workgroup, or one invocation, should do."""
    *lead, n, c = shape
    if width.lanes == 1:
        return min(max(LEAST_CHUNK, -(-n // SOFTWARE_CHUNKS)), MOST_CHUNK)
    if c < FEWEST_WIDE:
        columns, tile, least, alone = prod(lead) * c, TILE, CHUNK, ALONE
    else:
        tile = least = alone = COLUMN_LANES * COLUMN_EACH
        columns = prod(lead) * -(-c // WIDE)
    if n <= alone or (columns >= ENOUGH and n <= LONGEST):
        return n
    chunks = min(max(2 * ENOUGH // columns, 2), MOST_CHUNKS)
    return max(-(-n // (chunks * tile)) * tile, least)


def _steps(node: Node, width: Any) -> Node:
    """A long scan as what each chunk comes to, and each chunk from there."""
    x = node.inputs[-1]
    chunk = _chunk(x.shape, width)
    if x.shape[-2] <= chunk:
        return node
    totals = b.build(f"{node.op.name}_totals", *node.inputs, chunk=chunk, **node.attributes)
    return b.build(f"{node.op.name}_from", *node.inputs, totals, chunk=chunk, **node.attributes)


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


def _total_shape(shapes: Sequence[Shape], *, chunk: int, **_: Any) -> Shape:
    *lead, n, c = _same(shapes)
    return (*([2] if len(shapes) == 2 else []), *lead, -(-n // chunk), c)


def _from_shape(shapes: Sequence[Shape], *, chunk: int, **_: Any) -> Shape:
    assert shapes[-1] == _total_shape(shapes[:-1], chunk=chunk)
    return shapes[0]


def _belonging(totals: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Operands of a second step: the last is what the first one gives."""
    return lambda *arrays, **attributes: [*arrays[:-1], totals(*arrays[:-1], **attributes)]


_TERMS = uniform(-2, 2) + edges(0.0, nan)
routine(
    "scan", template="scan.comp.j2", geometry=_geometry("scan", False), shape=_same, dtype=_taking("scan", NUMERIC),
    numpy=_numpy_scan, grad=_scan_grad, passes=_steps, batched=True,
    samples=_TERMS.on(
        *(case((2, 5, 3), join=join, reverse=back) for join in JOINS for back in (False, True)),
        case((0, 4, 2), join="sum", reverse=False), case((2, 0, 3), join="sum", reverse=False),
    ),
    doc="Running sum, prod, max or min along the last axis but one. Of equal extremes the latest gets the gradient.",
)  # fmt: skip
routine(
    "linear_scan", template="scan.comp.j2", geometry=_geometry("scan", True), shape=_same, arity=2,
    dtype=_taking("linear_scan", FLOATING), numpy=_numpy_linear, grad=_linear_grad, passes=_steps, batched=True,
    samples=uniform(-1, 1).on(
        *(case((2, 5, 3), (2, 5, 3), reverse=back) for back in (False, True)),
        case((0, 4, 2), (0, 4, 2), reverse=False),
    ),
    doc="h[i] = a[i] h[i-1] + b[i] along the last axis but one.",
)  # fmt: skip
routine(
    "scan_totals", template="scan.comp.j2", geometry=_geometry("totals", False), shape=_total_shape,
    dtype=_taking("scan_totals", NUMERIC), numpy=_numpy_totals, grad=NOT_DIFFERENTIABLE,
    samples=_TERMS.on(
        *(case((2, 5, 3), join=join, reverse=back, chunk=2) for join in JOINS for back in (False, True)),
        case((0, 4, 2), join="sum", reverse=False, chunk=2),
    ),
    doc="What each chunk comes to: the first step of a long `scan`.",
)  # fmt: skip
routine(
    "scan_from", template="scan.comp.j2", geometry=_geometry("from", False), shape=_from_shape, arity=2,
    dtype=_taking("scan_from", NUMERIC), numpy=_numpy_from, grad=NOT_DIFFERENTIABLE,
    samples=_TERMS.making(_belonging(_numpy_totals)).on(
        *(case((2, 5, 3), (2, 3, 3), join=join, reverse=back, chunk=2) for join in JOINS for back in (False, True)),
        case((0, 4, 2), (0, 2, 2), join="sum", reverse=False, chunk=2),
    ),
    doc="Each chunk from what those before it came to: the second.",
)  # fmt: skip
routine(
    "linear_scan_totals", template="scan.comp.j2", geometry=_geometry("totals", True), shape=_total_shape, arity=2,
    dtype=_taking("linear_scan_totals", FLOATING), numpy=_numpy_linear_totals, grad=NOT_DIFFERENTIABLE,
    samples=uniform(-1, 1).on(
        *(case((2, 5, 3), (2, 5, 3), reverse=back, chunk=2) for back in (False, True)),
        case((0, 4, 2), (0, 4, 2), reverse=False, chunk=2),
    ),
    doc="The factor and the term of each chunk as one: the first step of a long `linear_scan`.",
)  # fmt: skip
routine(
    "linear_scan_from", template="scan.comp.j2", geometry=_geometry("from", True), shape=_from_shape, arity=3,
    dtype=_taking("linear_scan_from", FLOATING), numpy=_numpy_linear_from, grad=NOT_DIFFERENTIABLE,
    samples=uniform(-1, 1).making(_belonging(_numpy_linear_totals)).on(
        *(case((2, 5, 3), (2, 5, 3), (2, 2, 3, 3), reverse=back, chunk=2) for back in (False, True)),
        case((0, 4, 2), (0, 4, 2), (2, 0, 2, 2), reverse=False, chunk=2),
    ),
    doc="Each chunk from the maps before it: the second.",
)  # fmt: skip
