"""The table of ways to compute a kernel: each row names a template, when it applies, and its parameters.

Of the rows that apply, the one with the least estimated time is taken; of equals the first, so faster rows come first,
and the last row always applies. A row's choice, and every parameter that decides the order of a sum, depends only on
sizes and on the device, never on what else was fused in: the same sum has the same bits in whichever kernel it is
computed. (Layouts may decide which invocation loads what.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from vkgrad.codegen import nests
from vkgrad.codegen.convolution import (
    channel_axis,
    is_moved_over,
    three_by_three,
    three_by_three_weights,
    tiles_of,
)
from vkgrad.codegen.expressions import closure
from vkgrad.ir.dtypes import DType, float32, int64, uint64
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Compute, Kernel, Load, Reduce

# Some software drivers stop an invocation silently after 65,535 trips over all its loops; half of that is safe.
MOST_TRIPS = 32768
# Loops over R in one kernel that choices allow for; fusion makes four (softmax with its loss), more only in odd graphs.
USUAL_LOOPS = 8


@dataclass(frozen=True)
class Limits:
    """What rows must know of a device.

    broadcast  whether `subgroupBroadcast` is there and a workgroup of `subgroup` invocations is one subgroup
    matrices   the half-precision types of which subgroups of 32 multiply 16x16 matrices, with sums in single precision
    packing    sizes in bytes of elements that shaders cannot reach alone, and find packed in 32-bit words
    halves     whether GLSL's conversions of half precision are right to the last bit (see `vkgrad.runtime.halves`)
    """

    software: bool
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    max_invocations: int = 128
    shared_bytes: int = 16384
    subgroup: int = 32
    max_buffers: int = 16
    float64: bool = True
    broadcast: bool = False
    int64: bool = True
    packing: frozenset[int] = frozenset()
    matrices: frozenset[str] = frozenset()
    halves: bool = False


@dataclass(frozen=True)
class Row:
    """One way to compute a kernel.

    parameters(kernel, limits) gives the template's parameters; `groups(kernel, parameters)` the number of workgroups.
    variants(kernel, limits) gives changes of these parameters that are worth measuring too (see `vkgrad.codegen.tune`).
    `estimate_us` is about how long it takes, for rows between which sizes must decide.
    """

    name: str
    template: str
    applies: Callable[[Kernel, Limits], bool]
    parameters: Callable[[Kernel, Limits], dict[str, Any]]
    groups: Callable[[Kernel, dict[str, Any]], int]
    reason: str
    variants: Callable[[Kernel, Limits], Iterable[dict[str, Any]]] = lambda kernel, limits: ()
    estimate_us: Callable[[Kernel, Limits], float] = lambda kernel, limits: 0.0


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _power(most: int) -> int:
    """The largest power of two up to `most`, at least 1."""
    return 1 << max(most, 1).bit_length() - 1


# ---- the plain nest: one place of P per invocation, or its terms shared among lanes
def _trips(kernel: Kernel) -> int:
    """Terms that one lane may join on a software driver."""
    return MOST_TRIPS // max(USUAL_LOOPS, kernel.loops())


def _nest_serial(kernel: Kernel, limits: Limits) -> bool:
    if limits.software:
        return kernel.terms <= _trips(kernel)
    if nests.is_large(kernel):
        return nests.lanes_of(kernel, limits.max_invocations) == 1
    few, many = kernel.places * kernel.terms <= 1 << 14, kernel.places >= 1 << 16
    return kernel.terms < (8 if few else 128 if many else 32)


def _serial_nest(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """Invocations of a workgroup, and places that each of them does one after the other."""
    if limits.software:
        return {"lanes": 1, "local": 8 if kernel.places < 512 else 64, "each": 1}
    # A GPU starts about one workgroup a nanosecond: with few places in each, starting them is all that a copy does.
    many = kernel.places >= 1 << 18
    each = 4 if kernel.places >= 1 << 20 and kernel.terms <= 8 else 1
    return {"lanes": 1, "local": min(256, limits.max_invocations) if many else 64, "each": each}


def _shared_nest(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """Lanes that share one place's terms, and places of a workgroup."""
    if nests.is_large(kernel) and not limits.software:
        lanes = nests.lanes_of(kernel, limits.max_invocations)
        return {"lanes": lanes, "local": max(1, 128 // lanes), "each": 1}
    few = kernel.places < 128  # a large GPU has about as many processors: then one place should fill its own
    most = _power(min(1024 if few and not limits.software else 256, limits.max_invocations))
    lanes = 8 if limits.software else 32
    while lanes < most and (lanes * _trips(kernel) < kernel.terms if limits.software else lanes * 4 <= kernel.terms):
        lanes *= 2
    return {"lanes": lanes, "local": 1, "each": 1}


# ---- contractions
def mnk(kernel: Kernel) -> tuple[int, int, int, int]:
    """(batch, M, N, K) of a product kernel."""
    assert kernel.product is not None
    m_first, n_first = kernel.product.batch, kernel.product.batch + kernel.product.m
    ends = (m_first, n_first, kernel.parallel, len(kernel.extents))
    starts = (0, *ends[:-1])
    b, m, n, k = (prod(kernel.extents[s:e]) for s, e in zip(starts, ends, strict=True))
    return b, m, n, k


def _product_dtype(kernel: Kernel) -> DType:
    assert kernel.product is not None
    return kernel.code[kernel.product.left].dtype


def _even(extent: int, most: int) -> int:
    """A tile of at most `most` that divides `extent` as evenly as its number of tiles allows."""
    return _ceil(extent, _ceil(extent, most))


def _dense(kernel: Kernel, side: str) -> str:
    """Along which of its axes an operand's elements lie side by side: "k" or "own" (M or N); the longer run wins."""
    assert kernel.product is not None
    groups = _groups_of_axes(kernel)
    root, own = (kernel.product.left, groups["m"]) if side == "left" else (kernel.product.right, groups["n"])
    run = {"own": 0, "k": 0}
    for index in closure(kernel, [root]):
        instruction = kernel.code[index]
        if isinstance(instruction, Load):
            for name, axes in (("k", groups["k"]), ("own", own)):
                for axis in axes[-1:]:
                    if abs(instruction.layout.strides[axis]) == 1:
                        run[name] = max(run[name], kernel.extents[axis])
    return "k" if run["k"] >= run["own"] else "own"


def _fours(kernel: Kernel, layout: Layout, axes: Sequence[int], count: int = 4) -> bool:
    """Whether elements along `axes` lie side by side in fours: each starts at a multiple of four, and none is cut.
    Or so for another `count`."""
    run, inside = 1, set()
    for axis in reversed(axes):
        if layout.strides[axis] != run:
            break
        run *= kernel.extents[axis]
        inside.add(axis)
    rest = [stride for axis, stride in enumerate(layout.strides) if axis not in inside]
    return run > 1 and all(number % count == 0 for number in (run, layout.offset, *rest)) and not layout.guards


def _groups_of_axes(kernel: Kernel) -> dict[str, range]:
    assert kernel.product is not None
    m_first = kernel.product.batch
    n_first = m_first + kernel.product.m
    return {
        "m": range(m_first, n_first),
        "n": range(n_first, kernel.parallel),
        "k": range(kernel.parallel, len(kernel.extents)),
    }


def _wide_load(kernel: Kernel, side: str) -> bool:
    """Whether an operand can be loaded four elements at a time, along what is dense."""
    assert kernel.product is not None
    load = kernel.code[kernel.product.left if side == "left" else kernel.product.right]
    own = "m" if side == "left" else "n"
    axes = _groups_of_axes(kernel)["k" if _dense(kernel, side) == "k" else own]
    return isinstance(load, Load) and _fours(kernel, load.layout, axes)


def _wide_store(kernel: Kernel) -> str:
    """Along which of "m" and "n" every result can be stored four elements at a time, if any."""
    for group in "nm":
        axes = _groups_of_axes(kernel)[group]
        if all(_fours(kernel, store.layout, axes) and store.dtype.size_bytes == 4 for store in kernel.stores):
            return group
    return ""


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
    broadcast = limits.broadcast and _product_dtype(kernel) not in (int64, uint64)
    lanes, unroll, least_k = limits.subgroup if broadcast else 8, min(k, 2), 1
    while _ceil(k, least_k * unroll) > MOST_TRIPS - 1024:
        least_k *= 2
    work = b * m * n * k
    most = 64 if work >= 1 << 22 else 32 if work >= 1 << 19 else 16
    if least_k > 1:
        most = min(most, limits.shared_bytes // (lanes * least_k * _product_dtype(kernel).size_bytes))

    def options() -> Iterator[tuple[float, str, int, int]]:
        for side, tm, tn in product("mnk", range(1, 9), range(1, 9)):
            own, common = (tn, tm) if side == "n" else (tm, tn)
            if tm * tn > most or (side != "k" and own not in (1, 2, 4, 8)):
                continue
            lanes_m, lanes_n = (lanes if side == "m" else 1), (lanes if side == "n" else 1)
            groups = b * _ceil(m, tm * lanes_m) * _ceil(n, tn * lanes_n)
            moved = tm + tn + (_ceil(common, lanes) if broadcast and side != "k" else 0)
            steps = _ceil(k, lanes) if side == "k" else k
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
    size_bytes = _product_dtype(kernel).size_bytes
    busy, widest = 1 << 15, 256

    def fill(most_m: int, most_n: int) -> int:
        return b * _ceil(m, most_m) * _ceil(n, most_n)

    most_m, most_n = 4, 8 if k >= 400 or fill(4, 8) * 4 >= busy else 4
    if n > 8 and fill(8, 8) >= busy:
        most_m = 8
    elif k >= 4096 and fill(8, 8) * 64 >= busy:
        most_m, most_n, widest = 8, 8, 64

    def most_lanes(tm: int, tn: int) -> int:
        room = limits.shared_bytes // (tm * tn * size_bytes)
        return _power(min(widest, limits.max_invocations, room, k // 8))

    while True:
        tm, tn = _even(m, most_m), _even(n, most_n)
        tiles = b * _ceil(m, tm) * _ceil(n, tn)
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
        "k_fastest": lanes_k > 1 and "k" in (_dense(kernel, "left"), _dense(kernel, "right")),
        "nested": lanes_k == 1,
    }  # fmt: skip


def _tile_groups(kernel: Kernel, p: dict[str, Any]) -> int:
    b, m, n, _ = mnk(kernel)
    return b * _ceil(m, p["tm"] * p["lanes_m"]) * _ceil(n, p["tn"] * p["lanes_n"])


# What estimates assume of a large GPU, as fitted to an H200: its processors, what a dispatch costs in any case, and
# how many instructions of 32 lanes each they start in a microsecond.
PROCESSORS = 132
DISPATCH_US = 4.0
STARTS_PER_US = PROCESSORS * 4 * 1900
WORDS_PER_US = 1_050_000  # from memory


def _reading_us(kernel: Kernel) -> float:
    """How long the larger operand takes to be read once."""
    b, m, n, k = mnk(kernel)
    return b * max(m, n) * k / WORDS_PER_US


def _tile_us(kernel: Kernel, limits: Limits) -> float:
    """A GPU's time by `contract_tiled`: loads with their addresses cost ten instructions each, results twenty."""
    if limits.software or kernel.product is None:
        return 0.0
    p = _gpu_tile(kernel, limits)
    tm, tn, lanes = p["tm"], p["tn"], p["lanes_k"]
    steps = _ceil(mnk(kernel)[3], lanes)
    step = tm * tn + 10 * (tm + tn) + (15 if p["nested"] else 60)
    finish = (20 + (20 if lanes > 1 else 0)) * tm * tn + 30 * (tm + tn)
    warps = _tile_groups(kernel, p) * p["lanes_m"] * p["lanes_n"] * lanes / 32
    reading_us = 2.5 * _reading_us(kernel) if min(mnk(kernel)[1:3]) <= 8 else 0.0
    return DISPATCH_US + max(warps * (steps * step + finish) / STARTS_PER_US, steps * 0.15, reading_us)


def _orderly(kernel: Kernel) -> bool:
    """Whether `contract_shared` needs shared memory for its stages alone: no sums of addresses along K, and no elements
    that come one by one along K, whose columns would meet one bank."""
    dense = {side: _dense(kernel, side) for side in ("left", "right")}
    several = len(_groups_of_axes(kernel)["k"]) > 1 and "own" in dense.values()
    return not several and all(way == "own" or _wide_load(kernel, side) for side, way in dense.items())


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
        return b * _ceil(m, bm) * _ceil(n, bn)

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or _product_dtype(kernel) is not float32:
            return False
        b, m, n, k = mnk(kernel)
        fits = limits.max_invocations >= threads and limits.shared_bytes >= need_bytes
        fours = padded or all(extent % 4 == 0 for extent in (m, n, k))
        return fits and fours and k >= bk and tiles(kernel) >= 32 and 2.5 * b * m * n >= tiles(kernel) * bm * bn

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        dense = {f"dense_{side}": _dense(kernel, side) for side in ("left", "right")}
        wide = {f"wide_{side}": _wide_load(kernel, side) for side in ("left", "right")}
        store = _wide_store(kernel)
        deep = limits.shared_bytes >= 36 << 10
        tile = own if padded or _orderly(kernel) else usual | {"bk": 16 if deep else 8}
        return {**tile, **dense, **wide, "wide_store": store if slices == 1 or store == "n" else ""}

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        # Of one or two rounds of tiles, one that is not full takes as long as the other; eight warps keep a processor
        # busy.
        rounds = tiles(kernel) / PROCESSORS
        rounds = math.ceil(rounds) if rounds <= 2 else rounds + 0.25
        idle = 1.12 if rounds * threads < 256 else 1.0
        terms = bk * _ceil(mnk(kernel)[3], bk) + min(bk, 16)
        return DISPATCH_US + idle * rounds * PROCESSORS * 2 * bm * bn * terms / (tflop_s * 1e6)

    def groups(kernel: Kernel, p: dict[str, Any]) -> int:
        b, m, n, _ = mnk(kernel)
        return b * _ceil(m, p["bm"]) * _ceil(n, p["bn"])

    return Row(name, "contract_shared.comp.j2", applies, parameters, groups, reason, estimate_us=estimate_us)


def _halves(kernel: Kernel, side: str) -> tuple[DType | None, Load | None]:
    """The half-precision type of an operand that is widened to float32, and its load if it is one that was stored."""
    assert kernel.product is not None
    root = kernel.code[kernel.product.left if side == "left" else kernel.product.right]
    if not (isinstance(root, Compute) and root.op.name == "cast" and root.dtype is float32):
        return None, None
    source = kernel.code[root.operands[0]]
    dtype = source.dtype if source.dtype.kind == "f" and source.dtype.size_bytes == 2 else None
    return dtype, source if isinstance(source, Load) else None


def cooperative_row(
    name: str, bm: int, bn: int, bk: int, wm: int, wn: int, stages: int, tflop_s: float, reason: str
) -> Row:
    """A row of `contract_cooperative`, of which a GPU that is full of its tiles does `tflop_s`: a workgroup has bm x bn
    outputs, a subgroup wm x wn."""
    warps = (bm // wm) * (bn // wn)

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        half = _halves(kernel, "left")[0]
        assert half is not None
        found: dict[str, Any] = {"bm": bm, "bn": bn, "bk": bk, "wm": wm, "wn": wn, "stages": stages, "half": half.name}
        for side, own in (("left", "m"), ("right", "n")):
            dense, load = _dense(kernel, side), _halves(kernel, side)[1]
            axes = _groups_of_axes(kernel)["k" if dense == "k" else own]
            wide = load is not None and len(_groups_of_axes(kernel)["k"]) == 1 and _fours(kernel, load.layout, axes, 8)
            found |= {f"dense_{side}": dense, f"wide_{side}": wide}
        return found

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software:
            return False
        left, right = (_halves(kernel, side)[0] for side in ("left", "right"))
        if left is None or left is not right or left.name not in limits.matrices:
            return False
        p = parameters(kernel, limits)
        left_words = bm * (bk // 8 + 1) if p["dense_left"] == "k" else bk * (bm // 8 + 1)
        right_words = bn * (bk // 8 + 1) if p["dense_right"] == "k" else bk * (bn // 8 + 1)
        need_bytes = 16 * max(stages * (left_words + right_words), warps * 16 * (wn // 4 + 1))
        return 32 * warps <= limits.max_invocations and need_bytes <= limits.shared_bytes

    def groups(kernel: Kernel, p: dict[str, Any]) -> int:
        b, m, n, _ = mnk(kernel)
        return b * _ceil(m, bm) * _ceil(n, bn)

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        rounds = max(1.0, groups(kernel, {}) / PROCESSORS)
        terms = bk * (_ceil(mnk(kernel)[3], bk) + 1)
        return DISPATCH_US + rounds * PROCESSORS * 2 * bm * bn * terms / (tflop_s * 1e6)

    return Row(name, "contract_cooperative.comp.j2", applies, parameters, groups, reason, estimate_us=estimate_us)


# Fewer words come from a cache, and take no longer one by one.
WORTH_READING_WELL = 1 << 20


def vector_row(name: str, threads: int, lanes_k: int, rows: int, unroll: int, reason: str, few: int = 8) -> Row:
    """A row of `contract_vector`: workgroups of `threads`, of which `lanes_k` share the terms of the same outputs.

    The small side has at most `few` rows. `rows` are those of the large side that one invocation takes where they are
    dense along K; else it takes four.
    """

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or _product_dtype(kernel) is not float32:
            return False
        if len(kernel.extents) - kernel.parallel != 1:  # windows are read again and again, not once as a matrix is
            return False
        b, m, n, k = mnk(kernel)
        if min(m, n) > few or max(m, n) < 64 or k < 4 * lanes_k or b * max(m, n) * k < WORTH_READING_WELL:
            return False
        need_bytes = 4 * threads * _even(min(m, n), 8) * max(rows, 4)
        return threads <= limits.max_invocations and need_bytes <= limits.shared_bytes

    def parameters(kernel: Kernel, limits: Limits) -> dict[str, Any]:
        _, m, n, _ = mnk(kernel)
        large = "left" if m > n else "right"
        counts = {side: _even(min(m, n), 8) for side in ("left", "right")}
        modes = {}
        for side in ("left", "right"):
            modes[side] = _dense(kernel, side) if _wide_load(kernel, side) else ""
            if side == large:
                counts[side] = rows if _dense(kernel, side) == "k" else 4
            if modes[side] == "own" and (counts[side] % 4 or len(kernel.extents) - kernel.parallel > 1):
                modes[side] = ""
        lanes = {side: threads // lanes_k if side == large else 1 for side in ("left", "right")}
        return {
            "tm": counts["left"], "tn": counts["right"], "lanes_m": lanes["left"], "lanes_n": lanes["right"],
            "lanes_k": lanes_k, "mode_left": modes["left"], "mode_right": modes["right"], "unroll": unroll,
            "k_fastest": _dense(kernel, large) == "k",
        }  # fmt: skip

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        return DISPATCH_US + _reading_us(kernel)

    return Row(name, "contract_vector.comp.j2", applies, parameters, _tile_groups, reason, estimate_us=estimate_us)


# ---- convolutions
def taps_row(name: str, bm: int, bn: int, bk: int, tm: int, tn: int, tflop_s: float, reason: str) -> Row:
    """A row of `contract_taps`, of which a GPU that is full of such tiles does `tflop_s`."""
    base = shared_row(name, bm, bn, bk, tm, tn, 1, tflop_s, reason)

    def right_side(kernel: Kernel, channel: int) -> tuple[str, bool]:
        """Along what the right operand is dense, and whether it can be loaded four elements at a time there."""
        load = kernel.code[kernel.product.right] if kernel.product else None
        if not isinstance(load, Load):
            return "", False
        if load.layout.strides[channel] == 1:
            return "k", _fours(kernel, load.layout, [channel])
        own = _groups_of_axes(kernel)["n"]
        return "own" if load.layout.strides[own[-1]] == 1 else "", _fours(kernel, load.layout, own)

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
        return b * _ceil(tiles_of(kernel, axes, edge), bt) * _ceil(n, bn)

    def applies(kernel: Kernel, limits: Limits) -> bool:
        if kernel.product is None or limits.software or _product_dtype(kernel) is not float32:
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
        chunks = _ceil(mnk(kernel)[3], 9 * kc) + 4.3
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
        if kernel.product is None or limits.software or _product_dtype(kernel) is not float32:
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
        return b * _ceil(m, bm) * _ceil(n // 9, bc)

    def estimate_us(kernel: Kernel, limits: Limits) -> float:
        axes = three_by_three_weights(kernel)
        assert axes is not None
        rounds = blocks(kernel) / PROCESSORS
        rounds = math.ceil(rounds) if rounds <= 4 else rounds + 0.25
        extents = [_ceil(e, edge) if a in (axes["y"], axes["x"]) else e for a, e in enumerate(kernel.extents)]
        return DISPATCH_US + rounds * (_ceil(prod(extents[kernel.parallel :]), kc) + 1) * 1.6

    return Row(
        name, "contract_winograd_weights.comp.j2", applies, parameters, lambda kernel, p: blocks(kernel), reason,
        estimate_us=estimate_us,
    )  # fmt: skip


# ---- large nests
def _is_map(kernel: Kernel, limits: Limits) -> bool:
    """A large kernel without reductions: a sum over no axis is none of these, though it has no terms to walk."""
    joins = any(isinstance(instruction, Reduce) for instruction in kernel.code)
    return not (limits.software or joins) and nests.is_large(kernel) and 0 < kernel.parallel == len(kernel.extents)


def _tiles_or_none(kernel: Kernel, limits: Limits) -> dict[str, Any] | None:
    return nests.tiles(kernel, limits.max_invocations, limits.shared_bytes)


def _tiles(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    found = _tiles_or_none(kernel, limits)
    assert found is not None
    return found


def _lanes(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    return nests.lanes(kernel, limits.max_invocations, limits.shared_bytes)


def _has_lanes(kernel: Kernel, limits: Limits) -> bool:
    fits = not limits.software and nests.is_large(kernel) and kernel.terms >= nests.FEWEST_SHARED
    return fits and nests.lanes_fit(kernel, limits.max_invocations, limits.shared_bytes)


def _lanes_groups(kernel: Kernel, p: dict[str, Any]) -> int:
    return _ceil(kernel.places // (4 if p["along"] == "places" else 1), p["local"])


def _strips_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    own = nests.strips(kernel, limits.max_invocations)
    yield from ({"each": each} for each in (1, 2, 4, 8) if each != own["each"])
    if own["local"] != 128:
        yield {"local": 128}


def _lanes_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    own = _lanes(kernel, limits)
    for change in ({"held": not own["held"]}, {"own": own["own"] * 4}, {"local": own["local"] * 2},
                   {"local": own["local"] // 2}):  # fmt: skip
        p = own | change
        steps = _ceil(kernel.terms, p["lanes"]) if p["held"] else 1
        share = p["lanes"] // p["own"]
        fits = 0 < share * p["local"] <= limits.max_invocations and p["own"] * steps <= 2 * nests.HELD
        if fits and p["own"] <= p["lanes"] and share * p["local"] >= 32:
            yield change


# ---- variants: what the tuner measures beside a row's own parameters
# The parameters that decide the order of a sum; two ways of one template that agree in these have the same bits.
ORDERING = ("lanes", "lanes_k", "slices", "edge")  # of which `edge` says how products are transformed


def _serial_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    for local in (8, 64) if limits.software else (32, 128, 256):
        if local <= limits.max_invocations:
            yield {"local": local}


def _shared_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    p = _shared_nest(kernel, limits)
    own, local = p["lanes"], p["local"]
    for lanes in (own // 4, own // 2, own * 2, own * 4):
        fits = lanes >= 2 and lanes * local <= min(1024, limits.max_invocations)
        if fits and (not limits.software or lanes * _trips(kernel) >= kernel.terms):
            yield {"lanes": lanes}


def _tile_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    """The neighbours of the estimated tile: half and twice its outputs along M or N, or its lanes along K."""
    own = _tile(kernel, limits)
    _, m, n, k = mnk(kernel)
    size_bytes = _product_dtype(kernel).size_bytes

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


def _last_for_products(kernel: Kernel, limits: Limits) -> float:
    return math.inf if kernel.product else 0.0


ROWS: tuple[Row, ...] = (
    cooperative_row(
        *("contract_cooperative_128x128", 128, 128, 64, 64, 32, 1, 230.0),
        "products of half-precision numbers where subgroups multiply matrices. H200: 250 TFLOP/s at 8192 cubed, and 31 "
        "by tiles of single precision",
    ),
    cooperative_row(
        *("contract_cooperative_64x64", 64, 64, 64, 32, 32, 2, 120.0),
        "the same where larger tiles are few. H200, 1024 cubed: 25 us, and 29 by the row above",
    ),
    vector_row(
        *("contract_vector", 256, 64, 2, 4),
        "a matrix times one or two vectors: each element is read once. H200, 4096x4096 times one: 18.9 us, and 39 by "
        "register tiles; from the left 19.7, and 73",
        few=2,
    ),
    vector_row(
        *("contract_vectors", 256, 32, 4, 2),
        "a matrix times a few vectors. H200, 8x4096x4096: 24.4 us, and 55 by register tiles",
    ),
    shared_row(
        *("contract_shared_128x256", 128, 256, 16, 8, 8, 1, 46.5),
        "products that fill a GPU with such tiles: sixteen warps a processor, and fewer loads than 128x128. H200: 45.6 "
        "TFLOP/s at 4096 cubed",
        padded=False,
    ),
    shared_row(
        *("contract_shared_128x128x32", 128, 128, 32, 8, 8, 1, 45.2),
        "finer rounds; one deep stage takes 0.98 of the time that two shallow ones take. H200: 45.1 TFLOP/s at 4096 "
        "cubed",
        stages=1,
        padded=False,
    ),
    shared_row(
        *("contract_shared_128x128", 128, 128, 8, 8, 8, 1, 40.0),
        "short sums. H200, 4096x4096x32: 38 us, and 43 by the rows above",
    ),
    shared_row(
        *("contract_shared_256x64", 256, 64, 8, 8, 8, 1, 38.5),
        "convolutions of 64 channels. H200, 3x3 at 56x56: 288 us, its gradient of the data 343; 307 and 460 by 64x64",
    ),
    shared_row(
        *("contract_shared_128x64", 128, 64, 16, 8, 4, 1, 39.3),
        "between the rows around it. H200: 39.5 TFLOP/s at 4096 cubed",
    ),
    shared_row(
        *("contract_shared_64x64", 64, 64, 16, 8, 4, 1, 39.5),
        "products of a thousand rows and columns. H200, 1024 cubed: 57 us, 65.9 by 4x4 outputs an invocation, and 99 "
        "by 128x128",
    ),
    shared_row(
        *("contract_shared_64x64x32", 64, 64, 32, 8, 4, 2, 37.0),
        "tiles with so much to sum that a processor gets one or two. H200, 256x256x16384 in parts: 64 us, and 69 by "
        "the row above",
    ),
    shared_row(
        *("contract_shared_32x64", 32, 64, 32, 4, 4, 2, 31.4),
        "layers of a perceptron, of which 64x64 makes too few tiles. H200: 31.4 TFLOP/s at 2048 cubed",
    ),
    shared_row(
        *("contract_shared_32x32", 32, 32, 32, 4, 4, 4, 24.5),
        "the same for smaller batches. H200, 256x400x120: 5.2 us, and 8.3 by register tiles",
    ),
    shared_row(
        *("contract_shared_128x16", 128, 16, 16, 4, 4, 1, 15.0),
        "convolutions with few channels: an address in the image is worked out once for 16 channels. H200, the second "
        "of LeNet at batch 256: 14.1 us, and 23.6 by register tiles",
    ),
    shared_row(
        *("contract_shared_64x16", 64, 16, 32, 4, 4, 4, 18.5),
        "few columns. H200, 8192x16x1024: 22 us, and 41 by the row above",
    ),
    shared_row(
        *("contract_shared_16x64", 16, 64, 32, 4, 4, 4, 25.0),
        "few rows. H200, 16x8192x1024: 15.9 us, and 20.2 by 32x64",
    ),
    winograd_row(
        *("contract_winograd_32x32", 32, 32, 4),
        "convolutions of 3x3 taps in 16 products for 36, rounded otherwise (docs/numerics.md). H200, 3x3 from 128 "
        "channels to 128 at 28x28: 166 us, and 275 by 64x64; blocks of more channels or 4x4 results are slower",
    ),
    winograd_weights_row(
        *("contract_winograd_weights_32x16", 32, 16, 4),
        "their gradients of the weights, in 36 products for 144, rounded otherwise. H200, 512 channels at 7x7: 220 us, "
        "and 333 by 64x64; eight parts of 128 at 28x28: 213 us, and 414 by 128x128",
    ),
    taps_row(
        *("contract_taps_64x128", 64, 128, 8, 8, 8, 36.0),
        "other convolutions, a test for padding a tap. H200, 3x3 of stride 2 from 64 channels to 128 at 56x56: 112 us, "
        "and 150 by 128x128 of the rows above; 1x1: 18 us, and 27",
    ),
    taps_row(
        *("contract_taps_64x64", 64, 64, 16, 8, 4, 35.0),
        "the same where 64x128 makes too few tiles. H200, 3x3 of stride 2 from 256 channels to 512 at 14x14: 164 us, "
        "and 177 by 64x128",
    ),
    Row(
        "contract_tiled",
        "contract.comp.j2",
        lambda kernel, limits: kernel.product is not None,
        _tile,
        _tile_groups,
        "register tiles without staging. lavapipe, a LeNet step at batch 64: these tiles take 0.35 of the time that "
        "8x8 with lanes along M take, and 0.7 of the time to compile; two steps of K a trip are 1.2 to 1.7 times "
        "as fast as one, handing the common operand around 1.15, lanes along K for gradients of few weights 3 to "
        "10. H200: 32,768 invocations hide latency; one loop an axis instead of divisions takes half the time (LeNet's "
        "convolutions at batch 2048: 84 to 40 us, 133 to 63), tiles of 4x8 for 4x4 0.7 to 0.8",
        _tile_variants,
        _tile_us,
    ),
    Row(
        "nest_tiles",
        "nest_tiles.comp.j2",
        lambda kernel, limits: _is_map(kernel, limits) and _tiles_or_none(kernel, limits) is not None,
        _tiles,
        lambda kernel, p: nests.tile_count(kernel, p["turned"], p["side"]),
        "large element-wise kernels with a transposed operand, which is turned in shared memory",
        lambda kernel, limits: (
            {"side": side, "local": local}
            for side, local in ((32, 256), (64, 512), (32, 128))
            if local <= limits.max_invocations
        ),
        _last_for_products,
    ),
    Row(
        "nest_strips",
        "nest_strips.comp.j2",
        _is_map,
        lambda kernel, limits: nests.strips(kernel, limits.max_invocations),
        lambda kernel, p: max(1, _ceil(kernel.places // p["width"], p["local"] * p["each"])),
        "large element-wise kernels: elements come and go in fours, several of them under way at once",
        _strips_variants,
        _last_for_products,
    ),
    Row(
        "nest_lanes",
        "nest_lanes.comp.j2",
        _has_lanes,
        _lanes,
        _lanes_groups,
        "large reductions: fours, and what is reduced twice is read once",
        _lanes_variants,
        _last_for_products,
    ),
    Row(
        "nest_serial",
        "nest.comp.j2",
        _nest_serial,
        _serial_nest,
        lambda kernel, p: _ceil(kernel.places, p["local"] * p["each"]),
        "one invocation per place: element-wise kernels and short reductions. lavapipe: workgroups of 64 take 0.7 of "
        "the time that 16 take, if there are enough for all cores. GPUs (assumed): 32 terms are worth a subgroup",
        _serial_variants,
        _last_for_products,
    ),
    Row(
        "nest_shared",
        "nest.comp.j2",
        lambda kernel, limits: True,
        _shared_nest,
        lambda kernel, p: _ceil(kernel.places, p["local"]),
        "one workgroup per place, its lanes sharing the terms; always applies. GPUs (assumed): 32 to 256 lanes, of "
        "four terms each if there are so many, 1,024 where places are few",
        _shared_variants,
        _last_for_products,
    ),
)


def rows_for(kernel: Kernel, limits: Limits) -> list[Row]:
    """Every row that applies, in the order in which they are preferred."""
    return sorted((row for row in ROWS if row.applies(kernel, limits)), key=lambda row: row.estimate_us(kernel, limits))


def choose(kernel: Kernel, limits: Limits) -> Row:
    return rows_for(kernel, limits)[0]


def dispatch_size(groups: int, limits: Limits) -> tuple[int, int, int]:
    """A 2-D grid of at least `groups` workgroups within the device's limits."""
    width = min(groups, limits.max_groups[0])
    return width, _ceil(groups, width), 1
