"""What it means to send values to places, on arrays, and how the two kernels that do it are dispatched.

`scatter` joins chunk by chunk, each with places of its own; `segments` joins runs of sorted values. Both join in an
order that depends on the index alone. This module must not know nodes: `vkgrad.ops.indexed` says which is used when.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.ir.op import OPS, DeviceLimits, Geometry, Shape

# join -> the element-wise op that does it, which is also the ufunc's name. Its identity is the reduction's.
JOINS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}

COPIES = 32  # the fewest lanes with places of their own in shared memory; where there is no room, lanes take turns
MOST_COPIES = 64
LANES = 128
STAGED = 512  # values that a workgroup brings into shared memory at once
# Lanes that take turns, and values that each of them has at once. H200, 10^6 values to 1000 places: 84.4 us where they
# are drawn and 410 where all go to one; with 8 values 95.6 and 286, with 256 lanes of 4 82.0 and 1010.
TURNS_LANES, TURNS_EACH = 512, 4
GROUPS, TURNS_GROUPS = 528, 264  # workgroups that keep a large GPU busy: those of many lanes are fewer
TURNS_LEAST = 4096  # fewest values for which lanes should take turns: places of every part are joined afterwards
SEGMENTS_LANES = 256
SHARED_BYTES = 48 << 10  # what a large GPU has for a workgroup


def identity(join: str, dtype: DType) -> Any:
    init = OPS[join].init
    assert init is not None
    return init(dtype)


def join_glsl(join: str, dtype: DType) -> str:
    """The GLSL that joins {x} and {y}."""
    glsl = OPS[JOINS[join]].glsl
    assert glsl is not None
    return glsl if isinstance(glsl, str) else glsl[dtype.kind]


# ---- scatter
def scatter_shape(shapes: Sequence[Shape], *, extent: int, chunk: int, **_: Any) -> Shape:
    values, index = shapes
    assert values[:-1] == index
    parts = () if not chunk else (-(-index[-1] // chunk),)
    return (*index[:-1], *parts, extent, values[-1])


def scatter_meaning(values: Any, index: Any, *, extent: int, join: str, chunk: int) -> Any:
    m, c = values.shape[-2:]
    parts = -(-m // chunk) if chunk else 1
    rows = prod(index.shape[:-1])
    start = identity(join, dtype_of(values.dtype))
    wide = "f8" if values.dtype.kind == "f" and join in ("sum", "prod") else values.dtype
    out = np.full((rows * parts * extent, c), start, wide)
    flat = index.reshape(rows, m).astype(np.int64)
    part = np.arange(m) // (chunk or max(m, 1))
    inside = (flat >= 0) & (flat < extent)
    place = ((np.arange(rows)[:, None] * parts + part) * extent + flat)[inside]
    sent = values.reshape(rows, m, c)[inside]
    if place.size and join == "sum" and c == 1 and wide == "f8":
        out[:, 0] = np.bincount(place, sent[:, 0], len(out))
    elif place.size:
        order = np.argsort(place, kind="stable")
        place = place[order]
        first = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
        out[place[first]] = getattr(np, JOINS[join]).reduceat(sent[order], first, axis=0, dtype=wide)
    return out.astype(values.dtype).reshape(scatter_shape((values.shape, index.shape), extent=extent, chunk=chunk))


def scatter_geometry(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, extent: int, join: str, chunk: int
) -> Geometry:
    (*lead, m, c), size_bytes = shapes[0], dtypes[0].size_bytes
    chunk = chunk or m
    parts = -(-m // chunk)
    numbers = {"m": m, "c": c, "extent": extent, "chunk": chunk, "parts": parts, "all": prod(lead) * parts}
    parameters: dict[str, Any] = {
        "join": join_glsl(join, dtypes[0]),
        "identity": identity(join, dtypes[0]),
        "single": c == 1,
    }
    copies = copies_that_fit(extent * c, c, size_bytes, limits.shared_bytes)
    turns_bytes = _turns_bytes(extent, c, size_bytes)
    if limits.software or (copies < COPIES and turns_bytes > limits.shared_bytes):
        local = 8 if limits.software else 64
        groups = -(-numbers["all"] * c // local)
        return Geometry(groups=groups, numbers=numbers, parameters={**parameters, "local": local, "way": "memory"})
    numbers["bins"] = extent * c
    if copies >= COPIES:
        return Geometry(
            groups=numbers["all"], numbers=numbers | {"copies": copies, "staged": max(STAGED // c, 1)},
            parameters={**parameters, "local": min(LANES, limits.max_invocations), "way": "copies"},
            shared_bytes=extent * c * copies * size_bytes + _staged_bytes(c, size_bytes),
        )  # fmt: skip
    local = 32
    while local < min(TURNS_LANES, limits.max_invocations) and local * TURNS_EACH < chunk:
        local *= 2
    assert chunk * local < 1 << 32, "offers are numbered"
    sides = 2 if turns_bytes + 4 * extent <= limits.shared_bytes else 1
    parameters |= {"local": local, "way": "turns", "each": TURNS_EACH, "sides": sides}
    return Geometry(
        groups=numbers["all"], numbers=numbers, parameters=parameters,
        shared_bytes=turns_bytes + (4 * extent if sides == 2 else 0),
    )  # fmt: skip


def chunk_in_shared(rows: int, m: int, extent: int, c: int, size_bytes: int) -> int:
    """Elements of a chunk whose places fit into the shared memory of a large GPU; 0 where they do not."""
    if copies_that_fit(extent * c, c, size_bytes, SHARED_BYTES) >= COPIES:
        return max(-(-m // max(GROUPS // rows, 1)), STAGED, extent // 2)
    if _turns_bytes(extent, c, size_bytes) > SHARED_BYTES:
        return 0
    return min(max(-(-m // max(TURNS_GROUPS // rows, 1)), TURNS_LEAST, 2 * extent), 1 << 22)


def _turns_bytes(extent: int, c: int, size_bytes: int) -> int:
    return extent * (c * size_bytes + 4) + 16


def copies_that_fit(bins: int, c: int, size_bytes: int, shared_bytes: int) -> int:
    """How many lanes of a workgroup can have places of their own in shared memory."""
    return min((shared_bytes - _staged_bytes(c, size_bytes)) // (bins * size_bytes), MOST_COPIES)


def _staged_bytes(c: int, size_bytes: int) -> int:
    return max(STAGED // c, 1) * (c * size_bytes + 4)


# ---- segments
def segments_meaning(values: Any, order: Any, bounds: Any, blocks: Any, *, join: str, block: int) -> Any:
    ufunc, start = getattr(np, JOINS[join]), identity(join, dtype_of(values.dtype))
    out = np.full((len(bounds) - 1, values.shape[1]), start, values.dtype)
    for place, (first, end) in enumerate(pairwise(bounds)):
        if end > first:
            out[place] = ufunc.reduce(values[order[first:end]], axis=0)
    return out


def segments_geometry(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, join: str, block: int
) -> Geometry:
    (_, c), extent = shapes[0], shapes[2][0] - 1
    local = 8 if limits.software else min(SEGMENTS_LANES, limits.max_invocations)
    return Geometry(
        groups=-(-extent * c // local),
        numbers={"c": c, "count": extent * c, "block": block},
        parameters={"local": local, "join": join_glsl(join, dtypes[0]), "identity": identity(join, dtypes[0])},
    )
