"""The row of register tiles without staging, which computes any product, on software drivers and on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from vkgrad.codegen.rows.estimates import DISPATCH_US, STARTS_PER_US, reading_us
from vkgrad.codegen.rows.products import dense_along, even_part, mnk, product_dtype
from vkgrad.codegen.rows.row import MOST_TRIPS, Limits, Row, ceil, power_of_two
from vkgrad.ir.dtypes import int64, uint64
from vkgrad.schedule.kernel import Kernel


def _tile(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """Parameters of `contract`: outputs per invocation (tm x tn), lanes of a workgroup along M, N and K, and more."""
    return _software_tile(kernel, limits) if limits.software else _gpu_tile(kernel, limits)


def _software_tile(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """The tile with the least estimated work. The lanes of a subgroup, which are the processor's vector, lie along M, N
    or K; along M or N the other side's operand is common to them.

    The unit of work is a multiply-add of a vector, measured on lavapipe: a load (common or not) or a broadcast costs
    three, a step along K ten, a workgroup 200, a row or column of a tile 20, an output 20, or 45 if lanes along K must
    be joined. A big tile saves loads and takes long to compile (8x8: 300 ms, 4x8: 120 ms, 4x4: 70 ms), so it must earn
    that: only products with enough work get it. One workgroup alone leaves cores idle.
    """
    b, m, n, k = mnk(kernel)
    # Broadcasting 64-bit integers takes a feature of its own, which few devices have.
    broadcast = limits.broadcast and product_dtype(kernel) not in (int64, uint64)
    lanes, unroll, least_k = limits.subgroup if broadcast else 8, min(k, 2), 1
    while ceil(k, least_k * unroll) > MOST_TRIPS - 1024:
        least_k *= 2
    work = b * m * n * k
    most = 64 if work >= 1 << 22 else 32 if work >= 1 << 19 else 16
    if least_k > 1:
        most = min(most, limits.shared_bytes // (lanes * least_k * product_dtype(kernel).size_bytes))

    def options() -> Iterator[tuple[float, str, int, int]]:
        for side, tm, tn in product("mnk", range(1, 9), range(1, 9)):
            own, common = (tn, tm) if side == "n" else (tm, tn)
            if tm * tn > most or (side != "k" and own not in (1, 2, 4, 8)):
                continue
            lanes_m, lanes_n = (lanes if side == "m" else 1), (lanes if side == "n" else 1)
            groups = b * ceil(m, tm * lanes_m) * ceil(n, tn * lanes_n)
            moved = tm + tn + (ceil(common, lanes) if broadcast and side != "k" else 0)
            steps = ceil(k, lanes) if side == "k" else k
            finish = 200 + 20 * (tm + tn) + (45 if side == "k" else 20) * tm * tn
            yield max(groups, 2) * (steps * (10 + 3 * moved + tm * tn) + finish), side, tm, tn

    _, side, tm, tn = min(options())
    return {
        "tm": tm, "tn": tn, "lanes_m": lanes if side == "m" else 1, "lanes_n": lanes if side == "n" else 1,
        "lanes_k": max(lanes, least_k) if side == "k" else least_k, "unroll": unroll,
        "broadcast": {"m": "right", "n": "left", "k": ""}[side] if broadcast else "", "k_fastest": False,
        "nested": False,
    }  # fmt: skip


def _gpu_tile(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """Small enough tiles for `busy` invocations, of which up to `widest` share one tile's K where M and N are too
    little. Larger tiles load less, and serve where there is work for all anyway."""
    b, m, n, k = mnk(kernel)
    size_bytes = product_dtype(kernel).size_bytes
    busy, widest = 1 << 15, 256

    def fill(most_m: int, most_n: int) -> int:
        return b * ceil(m, most_m) * ceil(n, most_n)

    most_m, most_n = 4, 8 if k >= 400 or fill(4, 8) * 4 >= busy else 4
    if n > 8 and fill(8, 8) >= busy:
        most_m = 8
    elif k >= 4096 and fill(8, 8) * 64 >= busy:
        most_m, most_n, widest = 8, 8, 64

    def most_lanes(tm: int, tn: int) -> int:
        room = limits.shared_bytes // (tm * tn * size_bytes)
        return power_of_two(min(widest, limits.max_invocations, room, k // 8))

    while True:
        tm, tn = even_part(m, most_m), even_part(n, most_n)
        tiles = b * ceil(m, tm) * ceil(n, tn)
        if tm * tn == 1 or tiles * most_lanes(tm, tn) >= busy:
            break
        if tm >= tn:
            most_m = tm // 2
        else:
            most_n = tn // 2
    lanes_k = 1
    while lanes_k < most_lanes(tm, tn) and tiles * lanes_k < busy:
        lanes_k *= 2
    lanes = max(1, 64 // lanes_k)
    while lanes > 1 and lanes_k > 1 and lanes * lanes_k * tm * tn * size_bytes > limits.shared_bytes:
        lanes //= 2
    lanes_n = 1
    while lanes_n < lanes and lanes_n * tn < n:
        lanes_n *= 2
    return {
        "tm": tm, "tn": tn, "lanes_m": lanes // lanes_n, "lanes_n": lanes_n, "lanes_k": lanes_k,
        "unroll": 2 if k >= lanes_k * 4 else 1, "broadcast": "",
        "k_fastest": lanes_k > 1 and "k" in (dense_along(kernel, "left"), dense_along(kernel, "right")),
        "nested": lanes_k == 1,
    }  # fmt: skip


def _tile_groups(kernel: Kernel, p: dict[str, Any]) -> int:
    b, m, n, _ = mnk(kernel)
    return b * ceil(m, p["tm"] * p["lanes_m"]) * ceil(n, p["tn"] * p["lanes_n"])


def _tile_us(kernel: Kernel, limits: Limits) -> float:
    """A GPU's time by `contract_tiled`: loads with their addresses cost ten instructions each, results twenty."""
    if limits.software or kernel.product is None:
        return 0.0
    p = _gpu_tile(kernel, limits)
    tm, tn, lanes = p["tm"], p["tn"], p["lanes_k"]
    steps = ceil(mnk(kernel)[3], lanes)
    step = tm * tn + 10 * (tm + tn) + (15 if p["nested"] else 60)
    finish = (20 + (20 if lanes > 1 else 0)) * tm * tn + 30 * (tm + tn)
    warps = _tile_groups(kernel, p) * p["lanes_m"] * p["lanes_n"] * lanes / 32
    reading = 2.5 * reading_us(kernel) if min(mnk(kernel)[1:3]) <= 8 else 0.0
    return DISPATCH_US + max(warps * (steps * step + finish) / STARTS_PER_US, steps * 0.15, reading)


def _tile_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    """The neighbours of the estimated tile: half and twice its outputs along M or N, or its lanes along K."""
    own = _tile(kernel, limits)
    _, m, n, k = mnk(kernel)
    size_bytes = product_dtype(kernel).size_bytes

    def fits(tile: dict[str, Any]) -> bool:
        threads = tile["lanes_m"] * tile["lanes_n"] * tile["lanes_k"]
        joined_bytes = threads * tile["tm"] * tile["tn"] * size_bytes if tile["lanes_k"] > 1 else 0
        return threads <= limits.max_invocations and joined_bytes <= limits.shared_bytes

    changes: list[dict[str, Any]] = []
    for name, extent in (("tm", m), ("tn", n)):
        for size in (own[name] // 2, own[name] * 2):
            if 1 <= size <= min(8, extent) and own["tm"] * own["tn"] // own[name] * size <= 32:
                changes.append({name: size})
    if not limits.software:  # there lanes along K are a side of the vector, or as many as its trips need
        for lanes_k in (own["lanes_k"] // 2, own["lanes_k"] * 2, own["lanes_k"] * 4):
            if 1 <= lanes_k <= k:
                changes.append({"lanes_k": lanes_k, "nested": lanes_k == 1, "unroll": 2 if k >= lanes_k * 4 else 1})
    yield from (change for change in changes if fits(own | change))


def tiled_row(name: str, reason: str) -> Row:
    """The row of `contract`, which applies to every product."""
    return Row(
        name, "contract.comp.j2", lambda kernel, limits: kernel.product is not None, _tile, _tile_groups, reason,
        _tile_variants, _tile_us,
    )  # fmt: skip
