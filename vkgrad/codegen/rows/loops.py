"""Rows of loop nests: one place or several an invocation, terms shared among lanes, and the nests that are large.

What large nests are made of is `vkgrad.codegen.nests`'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vkgrad.codegen import nests
from vkgrad.codegen.rows.estimates import last_for_products
from vkgrad.codegen.rows.row import Limits, Row, ceil, power_of_two, trips
from vkgrad.schedule.kernel import Kernel, Reduce


def _nest_serial(kernel: Kernel, limits: Limits) -> bool:
    if limits.software:
        return kernel.terms <= trips(kernel)
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
    most = power_of_two(min(1024 if few and not limits.software else 256, limits.max_invocations))
    lanes = 8 if limits.software else 32
    while lanes < most and (lanes * trips(kernel) < kernel.terms if limits.software else lanes * 4 <= kernel.terms):
        lanes *= 2
    return {"lanes": lanes, "local": 1, "each": 1}


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
    return ceil(kernel.places // (4 if p["along"] == "places" else 1), p["local"])


def _tiles_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    for side, local in ((32, 256), (64, 512), (32, 128)):
        if local <= limits.max_invocations:
            yield {"side": side, "local": local}


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
        steps = ceil(kernel.terms, p["lanes"]) if p["held"] else 1
        share = p["lanes"] // p["own"]
        fits = 0 < share * p["local"] <= limits.max_invocations and p["own"] * steps <= 2 * nests.HELD
        if fits and p["own"] <= p["lanes"] and share * p["local"] >= 32:
            yield change


def _serial_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    for local in (8, 64) if limits.software else (32, 128, 256):
        if local <= limits.max_invocations:
            yield {"local": local}


def _shared_variants(kernel: Kernel, limits: Limits) -> Iterator[dict[str, Any]]:
    p = _shared_nest(kernel, limits)
    own, local = p["lanes"], p["local"]
    for lanes in (own // 4, own // 2, own * 2, own * 4):
        fits = lanes >= 2 and lanes * local <= min(1024, limits.max_invocations)
        if fits and (not limits.software or lanes * trips(kernel) >= kernel.terms):
            yield {"lanes": lanes}


def tiles_row(name: str, reason: str) -> Row:
    """Maps whose operands lie across each other: squares of them are turned in shared memory."""
    return Row(
        name, "nest_tiles.comp.j2",
        lambda kernel, limits: _is_map(kernel, limits) and _tiles_or_none(kernel, limits) is not None,
        _tiles,
        lambda kernel, p: nests.tile_count(kernel, p["turned"], p["side"]),
        reason, _tiles_variants, last_for_products,
    )  # fmt: skip


def strips_row(name: str, reason: str) -> Row:
    """Large maps, in strips of several elements."""
    return Row(
        name, "nest_strips.comp.j2", _is_map,
        lambda kernel, limits: nests.strips(kernel, limits.max_invocations),
        lambda kernel, p: max(1, ceil(kernel.places // p["width"], p["local"] * p["each"])),
        reason, _strips_variants, last_for_products,
    )  # fmt: skip


def lanes_row(name: str, reason: str) -> Row:
    """Large reductions, whose terms lanes share and may hold."""
    return Row(
        name, "nest_lanes.comp.j2", _has_lanes, _lanes, _lanes_groups, reason, _lanes_variants, last_for_products
    )


def serial_row(name: str, reason: str) -> Row:
    """A place an invocation."""
    return Row(
        name, "nest.comp.j2", _nest_serial, _serial_nest,
        lambda kernel, p: ceil(kernel.places, p["local"] * p["each"]),
        reason, _serial_variants, last_for_products,
    )  # fmt: skip


def shared_nest_row(name: str, reason: str) -> Row:
    """Lanes that share the terms of a place; it always applies."""
    return Row(
        name, "nest.comp.j2", lambda kernel, limits: True, _shared_nest,
        lambda kernel, p: ceil(kernel.places, p["local"]),
        reason, _shared_variants, last_for_products,
    )  # fmt: skip
