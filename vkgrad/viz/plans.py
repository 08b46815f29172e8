"""A picture of a plan: its dispatches in levels with the buffers between them.

Looking computes nothing: the nodes stay pending.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from typing import Any

import networkx as nx

from vkgrad import execution
from vkgrad.schedule.explain import KernelReport
from vkgrad.schedule.plan import Plan, PlanBuffer
from vkgrad.viz.picture import Box, Picture
from vkgrad.viz.style import STYLES

WIDEST_CARD = 34  # characters in a line of a kernel's list of operations
MOST_LINES = 8


def plan(*values: Any) -> Picture:
    """A picture of the dispatches that compute these tensors, or everything pending: kernels, buffers, barriers.

    Each card is one dispatch: its kind and extents, the template row where the device chose one, the operations fused
    into it. Pills are buffers. The kernels of one level run side by side.
    """
    found = execution.plan(*values)
    kernels = found.kernels[
        len(found.kernels) - len(found.plan.kernels) :
    ]  # where the host takes part, of the last plan
    return drawn_plan(found.plan, kernels, found.text)


def drawn_plan(plan: Plan, kernels: Sequence[KernelReport], notes: str = "") -> Picture:
    """The picture of a plan with what is said of its kernels."""
    buffers = plan.buffers
    drawn: nx.DiGraph = nx.DiGraph()
    boxes: dict[Hashable, Box] = {}
    row: dict[Hashable, int] = {}
    for number, kernel in enumerate(kernels):
        card = ("kernel", number)
        boxes[card] = Box(_card(number, kernel), style_of(kernel), hover=" ".join(kernel.ops))
        row[card] = 3 * kernel.level + 1
        drawn.add_node(card)
        for at in kernel.writes:
            pill = ("written", at)
            boxes[pill] = _pill(at, buffers[at], plan.in_place.get(at))
            row[pill] = 3 * kernel.level + 2
            drawn.add_edge(card, pill)
        for at in kernel.reads:
            pill = ("written", at)
            if buffers[at].kind == "input":  # once per level that reads it: long edges from the top would tell nothing
                pill = (f"read at {kernel.level}", at)
                boxes[pill] = _pill(at, buffers[at])
                row[pill] = 3 * kernel.level
            if pill not in drawn or card not in drawn.pred or not drawn.has_edge(card, pill):
                drawn.add_edge(pill, card)
    boxes = {key: boxes[key] for key in drawn}
    bands = [(f"level {level}", range(3 * level, 3 * level + 3)) for level in range(plan.depth)]
    dispatches, barriers = len(kernels), max(plan.depth - 1, 0)
    title = (
        f"{plan.nodes} nodes in {dispatches} dispatch{'es' * (dispatches != 1)}, "
        f"{barriers} barrier{'s' * (barriers != 1)}"
    )
    return Picture(title, drawn, boxes, row, bands, notes=notes)


def _card(number: int, kernel: KernelReport) -> tuple[str, ...]:
    space = "×".join(map(str, kernel.parallel)) or "1"
    if kernel.reduced:
        space += f" over {'×'.join(map(str, kernel.reduced))}"
    ops = textwrap.wrap(" ".join(kernel.ops), WIDEST_CARD)
    if len(ops) > MOST_LINES:
        ops = [*ops[: MOST_LINES - 1], "…"]
    return (f"#{number} {kernel.row or kernel.kind}", space, *ops)


def style_of(kernel: KernelReport) -> str:
    return kernel.kind if kernel.kind in STYLES else "elementwise"


def _pill(number: int, buffer: PlanBuffer, in_place_of: int | None = None) -> Box:
    title = f"{buffer.kind} {number}" + (f", in place of {in_place_of}" if in_place_of is not None else "")
    return Box(
        (title, f"{buffer.dtype.name}{list(buffer.shape)}"), buffer.kind, hover=f"{title}: {buffer.size_bytes} bytes"
    )
