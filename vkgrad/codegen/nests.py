"""How a GPU goes through large nests, where memory decides: which axis is taken in fours, by whom, how much at once.

Small kernels are won by few instructions and few workgroups, and have plainer rows. The lanes of a sum, which decide
its order, follow from sizes alone; layouts decide which invocation has which lanes. This module must not know rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkgrad.codegen.strips import turned_loads
from vkgrad.codegen.wide import lies_in_fours
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Kernel, Load, Reduce

LARGE = 1 << 20  # places and terms from which on a kernel is large
MOST_LANES = 1024
FEWEST_SHARED = 32  # terms; of fewer, a window of pooling say, one invocation takes all
HELD = 64  # elements that an invocation keeps in registers
MOST_STATEMENTS = 2048  # of one shader, about; more take long to compile
THREADS = 256
SIDES = (64, 32)  # of tiles that are turned
WORTH_TURNING = 16  # elements along either axis; shorter rows share their cache lines with their neighbours anyway


def is_large(kernel: Kernel) -> bool:
    return kernel.product is None and kernel.routine is None and kernel.places * kernel.terms >= LARGE


def lanes_of(kernel: Kernel, most: int) -> int:
    """Lanes that share the terms of a place of a large kernel."""
    if kernel.terms < 128:
        return 1 if kernel.terms < FEWEST_SHARED else 16
    lanes = 32
    while lanes * 2 <= min(MOST_LANES, most) and lanes * 4 <= kernel.terms:
        lanes *= 2
    return lanes


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _layouts(kernel: Kernel) -> list[Layout]:
    loads = [i.layout for i in kernel.code if isinstance(i, Load)]
    return loads + [store.layout for store in kernel.stores]


def _in_fours(kernel: Kernel, layouts: Sequence[Layout], axis: int) -> bool:
    return any(lies_in_fours(kernel, layout, axis) for layout in layouts)


# ---- element-wise
def strips(kernel: Kernel, most_invocations: int) -> dict[str, Any]:
    """Neighbours that an invocation takes together, and how many such groups."""
    last = kernel.parallel - 1
    whole = kernel.parallel == 1 or kernel.extents[last] % 4 == 0
    width = 4 if whole and _in_fours(kernel, _layouts(kernel), last) else 1
    loads = sum(isinstance(i, Load) for i in kernel.code)
    each = 8
    while each > 1 and (each * loads > 8 or each * width * len(kernel.code) > MOST_STATEMENTS // 2):
        each //= 2
    return {"width": width, "local": min(THREADS, most_invocations), "each": min(each, 4) if width == 4 else each}


def turned_axis(kernel: Kernel) -> int | None:
    """The axis along which loads are dense that are not so along the last one, as stores are; None for none."""
    last = kernel.parallel - 1
    if last < 1 or kernel.extents[last] < WORTH_TURNING:
        return None
    if any(abs(store.layout.strides[last]) != 1 for store in kernel.stores):
        return None
    found = [axis for axis in range(last) if kernel.extents[axis] >= WORTH_TURNING and turned_loads(kernel, axis)]
    return max(found, key=lambda axis: len(turned_loads(kernel, axis)), default=None)


def tiles(kernel: Kernel, most_invocations: int, shared_bytes: int) -> dict[str, Any] | None:
    """How tiles are turned; None where shared memory does not hold them, or there is nothing to turn."""
    turned = turned_axis(kernel)
    if turned is None:
        return None
    last = kernel.parallel - 1
    staged = turned_loads(kernel, turned)
    element_bytes = sum(max(kernel.code[index].dtype.size_bytes, 4) for index in staged)
    side = next((side for side in SIDES if side * (side + 1) * element_bytes <= shared_bytes), None)
    if side is None:
        return None
    sources = [kernel.code[index].layout for index in staged]  # type: ignore[union-attr]
    others = [i.layout for n, i in enumerate(kernel.code) if isinstance(i, Load) and n not in staged]
    wide_in = kernel.extents[turned] % 4 == 0 and all(lies_in_fours(kernel, layout, turned) for layout in sources)
    others += [store.layout for store in kernel.stores]
    wide_out = kernel.extents[last] % 4 == 0 and _in_fours(kernel, others, last)
    local = min(THREADS, most_invocations)
    return {"turned": turned, "side": side, "wide_in": wide_in, "wide_out": wide_out, "local": local}


def tile_count(kernel: Kernel, turned: int, side: int) -> int:
    high, across = kernel.extents[turned], kernel.extents[kernel.parallel - 1]
    return kernel.places // (high * across) * _ceil(high, side) * _ceil(across, side)


# ---- reductions
def _along(kernel: Kernel, lanes: int) -> tuple[str, bool]:
    """Along what an invocation takes fours, and whether elements are dense along the terms rather than the places."""
    full, term, place = kernel.is_full(), len(kernel.extents) - 1, kernel.parallel - 1
    layouts = [i.layout for n, i in enumerate(kernel.code) if isinstance(i, Load) and full[n]]
    layouts += [store.layout for store in kernel.stores if kernel.stores_along(store)]
    dense = {axis: sum(abs(layout.strides[axis]) == 1 for layout in layouts) for axis in {term, max(place, 0)}}
    if place < 0 or dense[term] >= dense[place]:
        fits = lanes >= 4 and kernel.extents[term] % 4 == 0 and _in_fours(kernel, layouts, term)
        return ("terms" if fits else ""), True
    fits = kernel.extents[place] % 4 == 0 and _in_fours(kernel, layouts, place)
    return ("places" if fits else ""), False


def lanes(kernel: Kernel, most_invocations: int, shared_bytes: int) -> dict[str, Any]:
    """How the lanes of a large reduction are shared out."""
    count = lanes_of(kernel, most_invocations)
    along, by_term = _along(kernel, count)
    places = 4 if along == "places" else 1
    steps = _ceil(kernel.terms, count)
    own = min(4, count)
    full = sum(kernel.is_full())
    held = steps * own * places <= HELD and steps * own * places * full <= MOST_STATEMENTS
    if by_term:
        if not held and count >= 256 and full * 16 <= MOST_STATEMENTS:
            own = 16  # with one load at a time, waiting is all that an invocation does
        share = count // own
        local = max(1, THREADS // share) if kernel.places >= 1 << 12 or count < 256 else 1
    else:
        side_by_side = 8 if along == "places" else 32  # a line of the cache
        while count // own * side_by_side > most_invocations and own < count:
            own *= 2
        share = count // own
        local = max(side_by_side, THREADS // share)
        if own > 4:
            held = held and steps * own * places <= HELD
    sums_bytes = sum(max(i.dtype.size_bytes, 4) for i in kernel.code if isinstance(i, Reduce))
    partial = share * (4 if along == "terms" else 1) * places * sums_bytes if share > 1 else 0
    while local > 1 and (local * share > most_invocations or local * partial > shared_bytes):
        local //= 2
    return {"lanes": count, "along": along, "own": own, "local": local, "held": held}


def lanes_fit(kernel: Kernel, most_invocations: int, shared_bytes: int) -> bool:
    p = lanes(kernel, most_invocations, shared_bytes)
    sums_bytes = sum(max(i.dtype.size_bytes, 4) for i in kernel.code if isinstance(i, Reduce))
    partial = p["lanes"] // p["own"] * (4 if p["along"] else 1) * sums_bytes
    return p["local"] * partial <= shared_bytes and p["local"] * p["lanes"] // p["own"] <= most_invocations
