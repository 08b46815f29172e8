"""Rows of products for GPUs: tiles staged in shared memory, cooperative matrices, and matrices times few vectors."""

from __future__ import annotations

import math
from typing import Any

from vkgrad.codegen.rows.estimates import DISPATCH_US, PROCESSORS, reading_us
from vkgrad.codegen.rows.products import (
    dense_along,
    even_part,
    groups_of_axes,
    halves_of,
    in_fours,
    mnk,
    product_dtype,
    wide_load,
    wide_store,
)
from vkgrad.codegen.rows.row import Limits, Row, ceil
from vkgrad.codegen.rows.tiled import _tile_groups
from vkgrad.ir.dtypes import float32
from vkgrad.schedule.kernel import Kernel

# Fewer words come from a cache, and take no longer one by one.
WORTH_READING_WELL = 1 << 20


def _orderly(kernel: Kernel) -> bool:
    """Whether `contract_shared` needs shared memory for its stages alone: no sums of addresses along K, and no elements
    that come one by one along K, whose columns would meet one bank."""
    dense = {side: dense_along(kernel, side) for side in ("left", "right")}
    several = len(groups_of_axes(kernel)["k"]) > 1 and "own" in dense.values()
    return not several and all(way == "own" or wide_load(kernel, side) for side, way in dense.items())


def shared_row(
    name: str, bm: int, bn: int, bk: int, tm: int, tn: int, slices: int, tflop_s: float, reason: str,
    stages: int = 2, padded: bool = True, in_turn: bool = False,
) -> Row:  # fmt: skip
    """A row of `contract_shared`, of which a GPU that is full of such tiles does `tflop_s`.

    Without `padded` its stages are as large as shared memory may be. It is then for sizes that come in fours, and where
    operands are not orderly all the same, it takes smaller stages, and adds up in the same order.
    """
    threads = (bm // tm) * (bn // tn) * slices
    usual = {
        "bm": 128, "bn": 128, "bk": 8, "tm": 8, "tn": 8, "slices": 1, "pieces": 1, "stages": 2, "padded": True,
        "in_turn": False,
    }  # fmt: skip
    staged_bytes = stages * bk * (bm + bn + (8 if padded else 0)) * 4
    joined_bytes = threads * tm * tn * 4 if slices > 1 else 0  # what slices hand over, in place of the stages
    pieces = 1
    while joined_bytes // pieces > max(staged_bytes, 16384) and pieces < tm:
        pieces *= 2
    own = {
        "bm": bm, "bn": bn, "bk": bk, "tm": tm, "tn": tn, "slices": slices, "pieces": pieces, "stages": stages,
        "padded": padded, "in_turn": in_turn,
    }  # fmt: skip
    # Sums of up to four addresses and guards a side.
    need_bytes = max(staged_bytes, joined_bytes // pieces) + (64 * bk if padded else 0)
    assert padded or slices == 1, "the usual tile is not sliced"

    def tiles(kernel: Kernel) -> int:
        b, m, n, _ = mnk(kernel)
        return b * ceil(m, bm) * ceil(n, bn)

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or product_dtype(kernel) is not float32:
            return False
        b, m, n, k = mnk(kernel)
        fits = limits.max_invocations >= threads and limits.shared_bytes >= need_bytes
        fours = padded or all(extent % 4 == 0 for extent in (m, n, k))
        return fits and fours and k >= bk and tiles(kernel) >= 32 and 2.5 * b * m * n >= tiles(kernel) * bm * bn

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        dense = {f"dense_{side}": dense_along(kernel, side) for side in ("left", "right")}
        wide = {f"wide_{side}": wide_load(kernel, side) for side in ("left", "right")}
        store = wide_store(kernel)
        deep = limits.shared_bytes >= 36 << 10
        tile = own if padded or _orderly(kernel) else usual | {"bk": 16 if deep else 8}
        return {**tile, **dense, **wide, "wide_store": store if slices == 1 or store == "n" else ""}

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        # Of one or two rounds of tiles, one that is not full takes as long as the other; eight warps keep a processor
        # busy.
        rounds = tiles(kernel) / PROCESSORS
        rounds = math.ceil(rounds) if rounds <= 2 else rounds + 0.25
        idle = 1.12 if rounds * threads < 256 else 1.0
        terms = bk * ceil(mnk(kernel)[3], bk) + min(bk, 16)
        return DISPATCH_US + idle * rounds * PROCESSORS * 2 * bm * bn * terms / (tflop_s * 1e6)

    def groups(kernel: Kernel, p: dict[str, Any]) -> int:
        b, m, n, _ = mnk(kernel)
        return b * ceil(m, p["bm"]) * ceil(n, p["bn"])

    return Row(name, "contract_shared.comp.j2", applies, parameters, groups, reason, estimate_us=estimate_us)


def cooperative_row(
    name: str, bm: int, bn: int, bk: int, wm: int, wn: int, stages: int, tflop_s: float, reason: str
) -> Row:
    """A row of `contract_cooperative`, of which a GPU that is full of its tiles does `tflop_s`: a workgroup has bm x bn
    outputs, a subgroup wm x wn."""
    warps = (bm // wm) * (bn // wn)

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        half = halves_of(kernel, "left")[0]
        assert half is not None
        found: dict[str, Any] = {"bm": bm, "bn": bn, "bk": bk, "wm": wm, "wn": wn, "stages": stages, "half": half.name}
        for side, own in (("left", "m"), ("right", "n")):
            dense, load = dense_along(kernel, side), halves_of(kernel, side)[1]
            axes = groups_of_axes(kernel)["k" if dense == "k" else own]
            wide = load is not None and len(groups_of_axes(kernel)["k"]) == 1 and in_fours(kernel, load.layout, axes, 8)
            found |= {f"dense_{side}": dense, f"wide_{side}": wide}
        return found

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software:
            return False
        left, right = (halves_of(kernel, side)[0] for side in ("left", "right"))
        if left is None or left is not right or left.name not in limits.matrices:
            return False
        p = parameters(kernel, limits)
        left_words = bm * (bk // 8 + 1) if p["dense_left"] == "k" else bk * (bm // 8 + 1)
        right_words = bn * (bk // 8 + 1) if p["dense_right"] == "k" else bk * (bn // 8 + 1)
        need_bytes = 16 * max(stages * (left_words + right_words), warps * 16 * (wn // 4 + 1))
        return 32 * warps <= limits.max_invocations and need_bytes <= limits.shared_bytes

    def groups(kernel: Kernel, p: dict[str, Any]) -> int:
        b, m, n, _ = mnk(kernel)
        return b * ceil(m, bm) * ceil(n, bn)

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        rounds = max(1.0, groups(kernel, {}) / PROCESSORS)
        terms = bk * (ceil(mnk(kernel)[3], bk) + 1)
        return DISPATCH_US + rounds * PROCESSORS * 2 * bm * bn * terms / (tflop_s * 1e6)

    return Row(name, "contract_cooperative.comp.j2", applies, parameters, groups, reason, estimate_us=estimate_us)


def vector_row(name: str, threads: int, lanes_k: int, rows: int, unroll: int, reason: str, few: int = 8) -> Row:
    """A row of `contract_vector`: workgroups of `threads`, of which `lanes_k` share the terms of the same outputs.

    The small side has at most `few` rows. `rows` are those of the large side that one invocation takes where they are
    dense along K; else it takes four.
    """

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or product_dtype(kernel) is not float32:
            return False
        if len(kernel.extents) - kernel.parallel != 1:  # windows are read again and again, not once as a matrix is
            return False
        b, m, n, k = mnk(kernel)
        if min(m, n) > few or max(m, n) < 64 or k < 4 * lanes_k or b * max(m, n) * k < WORTH_READING_WELL:
            return False
        need_bytes = 4 * threads * even_part(min(m, n), 8) * max(rows, 4)
        return threads <= limits.max_invocations and need_bytes <= limits.shared_bytes

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        _, m, n, _ = mnk(kernel)
        large = "left" if m > n else "right"
        counts = {side: even_part(min(m, n), 8) for side in ("left", "right")}
        modes = {}
        for side in ("left", "right"):
            modes[side] = dense_along(kernel, side) if wide_load(kernel, side) else ""
            if side == large:
                counts[side] = rows if dense_along(kernel, side) == "k" else 4
            if modes[side] == "own" and (counts[side] % 4 or len(kernel.extents) - kernel.parallel > 1):
                modes[side] = ""
        lanes = {side: threads // lanes_k if side == large else 1 for side in ("left", "right")}
        return {
            "tm": counts["left"], "tn": counts["right"], "lanes_m": lanes["left"], "lanes_n": lanes["right"],
            "lanes_k": lanes_k, "mode_left": modes["left"], "mode_right": modes["right"], "unroll": unroll,
            "k_fastest": dense_along(kernel, large) == "k",
        }  # fmt: skip

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        return DISPATCH_US + reading_us(kernel)

    return Row(name, "contract_vector.comp.j2", applies, parameters, _tile_groups, reason, estimate_us=estimate_us)
