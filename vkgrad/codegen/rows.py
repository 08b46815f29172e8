"""The table of ways to compute a kernel: each row names a template, when it applies, and its parameters.

The first row that applies is taken, so faster rows come first and the last row always applies. A row's choice depends
only on sizes and on the device, never on what else was fused in, because the order of a sum must not change with fusion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from vkgrad.schedule.kernel import Kernel

# Some software drivers stop an invocation silently after 65,535 trips over all its loops; half of that is safe.
MOST_TRIPS = 32768


@dataclass(frozen=True)
class Limits:
    """What rows must know of a device."""

    software: bool
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    max_invocations: int = 128
    shared_bytes: int = 16384
    subgroup: int = 32
    max_buffers: int = 16
    float64: bool = True


@dataclass(frozen=True)
class Row:
    """One way to compute a kernel.

    parameters(kernel, limits) gives the template's parameters; `groups(kernel, parameters)` the number of workgroups.
    """

    name: str
    template: str
    applies: Callable[[Kernel, Limits], bool]
    parameters: Callable[[Kernel, Limits], dict[str, Any]]
    groups: Callable[[Kernel, dict[str, Any]], int]
    reason: str


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


# ---- the plain nest: one invocation, or one workgroup, per place of P
def _lanes(kernel: Kernel, limits: Limits) -> int:
    """Invocations that share one place's terms."""
    most = min(256, limits.max_invocations)
    if limits.software:
        needed = _ceil(kernel.terms * max(kernel.loops(), 1), MOST_TRIPS)
        lanes = 1
        while lanes < needed:
            lanes *= 2
        return min(max(lanes, 8 if kernel.terms * kernel.loops() > MOST_TRIPS else 1), most)
    lanes = 1
    while lanes < most and lanes * 4 <= kernel.terms:
        lanes *= 2
    return lanes


def _nest_serial(kernel: Kernel, limits: Limits) -> bool:
    if kernel.terms * kernel.loops() > MOST_TRIPS:
        return False
    return limits.software or kernel.terms < 32 or (kernel.terms < 128 and kernel.places >= 1 << 16)


# ---- contractions: register tiles
def mnk(kernel: Kernel) -> tuple[int, int, int, int]:
    """(batch, M, N, K) of a product kernel."""
    product = kernel.product
    assert product is not None
    ends = (product.batch, product.batch + product.m, kernel.parallel, len(kernel.extents))
    starts = (0, *ends[:-1])
    b, m, n, k = (prod(kernel.extents[s:e]) for s, e in zip(starts, ends, strict=True))
    return b, m, n, k


def _tile(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """Tile and lanes of `contract`: registers per invocation (tm x tn), invocations along N, M and K of a workgroup."""
    b, m, n, k = mnk(kernel)

    def size(extent: int, most: int) -> int:
        tile = 1
        while tile < most and tile < extent:
            tile *= 2
        return tile

    tm, tn = size(m, 8 if limits.software else 4), size(n, 8 if limits.software else 4)
    tiles = b * _ceil(m, tm) * _ceil(n, tn)
    if limits.software:
        lanes_k = 1
        while _ceil(k, lanes_k) > MOST_TRIPS // 2 or (tiles * lanes_k < 32 and lanes_k < 32 and k >= lanes_k * 64):
            lanes_k *= 2
        lanes = 8 if lanes_k == 1 else 1
        return {"tm": tm, "tn": tn, "lanes_n": 1, "lanes_m": lanes, "lanes_k": lanes_k}
    # Enough invocations to fill the device; K is split inside the workgroup when M and N alone are too few.
    lanes_k = 1
    while (tiles * lanes_k < 1 << 15 or _ceil(k, lanes_k) > MOST_TRIPS) and lanes_k < 128 and lanes_k * 8 <= k:
        lanes_k *= 2
    while lanes_k * tm * tn * 4 > limits.shared_bytes // 2:
        lanes_k //= 2
    lanes = max(1, 32 // lanes_k)
    lanes_n = min(lanes, size(_ceil(n, tn), lanes))
    return {"tm": tm, "tn": tn, "lanes_n": lanes_n, "lanes_m": lanes // lanes_n, "lanes_k": lanes_k}


def _tile_groups(kernel: Kernel, p: dict[str, Any]) -> int:
    b, m, n, _ = mnk(kernel)
    return b * _ceil(m, p["tm"] * p["lanes_m"]) * _ceil(n, p["tn"] * p["lanes_n"])


def _shared(kernel: Kernel, limits: Limits) -> bool:
    if kernel.product is None or limits.software or kernel.code[kernel.product.left].dtype.name != "float32":
        return False
    b, m, n, k = mnk(kernel)
    return limits.max_invocations >= 256 and limits.shared_bytes >= 16384 and b * _ceil(m, 64) * _ceil(n, 64) >= 48 and k >= 16


ROWS: tuple[Row, ...] = (
    Row(
        "contract_shared",
        "contract_shared.comp.j2",
        _shared,
        lambda kernel, limits: {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4},
        lambda kernel, p: mnk(kernel)[0] * _ceil(mnk(kernel)[1], p["bm"]) * _ceil(mnk(kernel)[2], p["bn"]),
        "enough 64x64 tiles to fill a GPU: operands staged through shared memory, each loaded once per tile",
    ),
    Row(
        "contract_tiled",
        "contract.comp.j2",
        lambda kernel, limits: kernel.product is not None,
        _tile,
        _tile_groups,
        "register tiles without staging; K is shared among lanes where M and N alone are too little work",
    ),
    Row(
        "nest_serial",
        "nest.comp.j2",
        _nest_serial,
        lambda kernel, limits: {"lanes": 1, "local": 64 if not limits.software else 16},
        lambda kernel, p: _ceil(kernel.places, p["local"]),
        "one invocation per place: element-wise kernels and short reductions",
    ),
    Row(
        "nest_shared",
        "nest.comp.j2",
        lambda kernel, limits: True,
        lambda kernel, limits: {"lanes": max(2, _lanes(kernel, limits)), "local": 1},
        lambda kernel, p: kernel.places,
        "one workgroup per place, its lanes sharing the terms; always applies",
    ),
)


def choose(kernel: Kernel, limits: Limits) -> Row:
    return next(row for row in ROWS if row.applies(kernel, limits))


def dispatch_size(groups: int, limits: Limits) -> tuple[int, int, int]:
    """A 2-D grid of at least `groups` workgroups within the device's limits."""
    width = min(groups, limits.max_groups[0])
    return width, _ceil(groups, width), 1
