"""Rows of convolutions for GPUs: tap by tap, and by Winograd's minimal filtering with its gradient of the weights."""

from __future__ import annotations

import math
from dataclasses import replace
from math import prod
from typing import Any

from vkgrad.codegen.convolution import channel_axis, is_moved_over, three_by_three, three_by_three_weights, tiles_of
from vkgrad.codegen.rows.estimates import DISPATCH_US, PROCESSORS
from vkgrad.codegen.rows.products import groups_of_axes, in_fours, mnk, product_dtype
from vkgrad.codegen.rows.row import Limits, Row, ceil
from vkgrad.codegen.rows.staged import shared_row
from vkgrad.ir.dtypes import float32
from vkgrad.schedule.kernel import Kernel, Load


def taps_row(name: str, bm: int, bn: int, bk: int, tm: int, tn: int, tflop_s: float, reason: str) -> Row:
    """A row of `contract_taps`, of which a GPU that is full of such tiles does `tflop_s`."""
    base = shared_row(name, bm, bn, bk, tm, tn, 1, tflop_s, reason)

    def right_side(kernel: Kernel, channel: int) -> tuple[str, bool]:
        """Along what the right operand is dense, and whether it can be loaded four elements at a time there."""
        load = kernel.code[kernel.product.right] if kernel.product else None
        if not isinstance(load, Load):
            return "", False
        if load.layout.strides[channel] == 1:
            return "k", in_fours(kernel, load.layout, [channel])
        own = groups_of_axes(kernel)["n"]
        return "own" if load.layout.strides[own[-1]] == 1 else "", in_fours(kernel, load.layout, own)

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        channel = channel_axis(kernel, bk)
        assert channel is not None
        dense, wide = right_side(kernel, channel)
        found = {"channel": channel, "dense_left": "own", "wide_left": False, "dense_right": dense, "wide_right": wide}
        return base.parameters(kernel, limits) | found

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if not base.applies(kernel, limits) or not is_moved_over(kernel):
            return False
        channel = channel_axis(kernel, bk)
        return channel is not None and right_side(kernel, channel)[0] != ""

    return replace(base, template="contract_taps.comp.j2", applies=applies, parameters=parameters)


def winograd_row(name: str, bt: int, bn: int, kc: int, reason: str) -> Row:
    """A row of `contract_winograd`: blocks of `bt` tiles of 2x2 results by `bn` of N, `kc` channels at a time."""
    edge, positions = 2, 16
    threads = positions * (bt // 8) * (bn // 8)
    need_bytes = 16 * max(kc * positions * (bt + bn) // 4, positions * bn)

    def blocks(kernel: Kernel) -> int:
        axes = three_by_three(kernel)
        assert axes is not None
        b, _, n, _ = mnk(kernel)
        return b * ceil(tiles_of(kernel, axes, edge), bt) * ceil(n, bn)

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or product_dtype(kernel) is not float32:
            return False
        fits = limits.max_invocations >= threads and limits.shared_bytes >= need_bytes
        return fits and three_by_three(kernel) is not None

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        axes = three_by_three(kernel)
        assert axes is not None
        overhang = {f"overhang_{name}": kernel.extents[axes[name]] % edge != 0 for name in "yx"}
        return {"edge": edge, "bt": bt, "bn": bn, "kc": kc, **axes, **overhang}

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        # What transforming results takes is as much as four chunks; a processor does 1.33 chunks in a µs.
        chunks = ceil(mnk(kernel)[3], 9 * kc) + 4.3
        return DISPATCH_US + max(blocks(kernel), 2 * PROCESSORS) * chunks / (1.33 * PROCESSORS)

    return Row(
        name, "contract_winograd.comp.j2", applies, parameters, lambda kernel, p: blocks(kernel), reason,
        estimate_us=estimate_us,
    )  # fmt: skip


def winograd_weights_row(name: str, bm: int, bc: int, kc: int, reason: str) -> Row:
    """A row of `contract_winograd_weights`: blocks of `bm` filters by `bc` channels, `kc` tiles of 4x4 at a time."""
    edge, positions = 4, 36
    threads = positions * (bm // 8) * (bc // 8)
    need_bytes = 16 * max(kc * (positions * (bm + bc) // 4 + 4), positions * bc)

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or product_dtype(kernel) is not float32:
            return False
        fits = limits.max_invocations >= threads and limits.shared_bytes >= need_bytes
        return fits and three_by_three_weights(kernel) is not None

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        axes = three_by_three_weights(kernel)
        assert axes is not None
        overhang = {f"overhang_{name}": kernel.extents[axes[name]] % edge != 0 for name in "yx"}
        return {"edge": edge, "bm": bm, "bc": bc, "kc": kc, **axes, **overhang}

    def blocks(kernel: Kernel) -> int:
        b, m, n, _ = mnk(kernel)
        return b * ceil(m, bm) * ceil(n // 9, bc)

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        axes = three_by_three_weights(kernel)
        assert axes is not None
        rounds = blocks(kernel) / PROCESSORS
        rounds = math.ceil(rounds) if rounds <= 4 else rounds + 0.25
        extents = [ceil(e, edge) if a in (axes["y"], axes["x"]) else e for a, e in enumerate(kernel.extents)]
        return DISPATCH_US + rounds * (ceil(prod(extents[kernel.parallel :]), kc) + 1) * 1.6

    return Row(
        name, "contract_winograd_weights.comp.j2", applies, parameters, lambda kernel, p: blocks(kernel), reason,
        estimate_us=estimate_us,
    )  # fmt: skip
