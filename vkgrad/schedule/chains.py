"""Chains of views between a value in memory and the kernel that reads it, applied to layouts.

A step is a view op with its attributes, or `Open`: entering a sum from below, which turns the axes it sums into leading
axes that ride along under every further view. Chains are linked from the inside out and shared, so equal paths are one
object and can be memoised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vkgrad.ir.layout import Layout
from vkgrad.ir.op import OPS


@dataclass(frozen=True, eq=False)
class Step:
    """One view: the name of its op and its attributes."""

    op: str
    attributes: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Open:
    """Axes `axes` of the layout move to the very front; `shape` is what remains for the views outside."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """`step` is applied first, then everything in `outer`."""

    step: Step | Open
    outer: Chain | None


def _lifted(op: str, attributes: dict[str, Any], lead: tuple[int, ...]) -> dict[str, Any]:
    """The attributes of a view that leaves `lead` leading axes alone."""
    k = len(lead)
    if not k:
        return attributes
    match op:
        case "reshape" | "expand":
            return {"shape": (*lead, *attributes["shape"])}
        case "permute":
            return {"axes": (*range(k), *(axis + k for axis in attributes["axes"]))}
        case "slice":
            return {
                "starts": (*(0 for _ in lead), *attributes["starts"]),
                "extents": (*lead, *attributes["extents"]),
                "steps": (*(1 for _ in lead), *attributes["steps"]),
            }
        case "pad":
            zeros = (0,) * k
            return {n: (*zeros, *v) if n != "value" else v for n, v in attributes.items()}
        case "window":
            return {**attributes, "axis": attributes["axis"] + k}
        case "diagonal":
            return {"axis": attributes["axis"] + k, "other": attributes["other"] + k}
        case _:
            return attributes


def apply_step(step: Step | Open, layout: Layout, lead: int) -> tuple[Layout | None, int]:
    """The layout after one step, with the number of leading axes; None where only a copy can do it."""
    if isinstance(step, Open):
        moved = [axis + lead for axis in step.axes]
        rest = [axis for axis in range(layout.rank) if axis not in moved and axis >= lead]
        layout = layout.permute([*moved, *range(lead), *rest])
        lead += len(moved)
        return layout.reshape((*layout.extents[:lead], *step.shape)), lead
    attributes = _lifted(step.op, step.attributes, layout.extents[:lead])
    record = OPS[step.op]
    assert record.layout is not None
    return record.layout(layout, **attributes), lead


def through(chain: Chain | None, layout: Layout) -> tuple[Layout, int] | None:
    """`layout` seen through a whole chain, with the number of leading axes; None where only a copy can do it."""
    lead = 0
    while chain is not None:
        moved, lead = apply_step(chain.step, layout, lead)
        if moved is None:
            return None
        layout, chain = moved, chain.outer
    return layout, lead


def prune(layout: Layout) -> Layout:
    """Without the guards that hold everywhere, e.g. because padding was cut away again."""

    def always(coefficients: tuple[int, ...], constant: int, bound: int, step: int) -> bool:
        reach = [c * (e - 1) for c, e in zip(coefficients, layout.extents, strict=True)]
        least, most = constant + sum(min(r, 0) for r in reach), constant + sum(max(r, 0) for r in reach)
        return step == 1 and least >= 0 and most < bound

    kept = tuple(g for g in layout.guards if not always(g.coefficients, g.constant, g.bound, g.step))
    return layout if len(kept) == len(layout.guards) else replace(layout, guards=kept)
