"""Pictures of what a tensor is made of (`graph`) and of how it will be computed (`plan`), and the graph in networkx.

Looking computes nothing: the nodes stay pending.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable
from typing import Any

import networkx as nx

from vkgrad import engine, execution, tree
from vkgrad.errors import ConfigError
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import Family
from vkgrad.schedule.explain import KernelReport
from vkgrad.schedule.plan import PlanBuffer
from vkgrad.tensor import Tensor
from vkgrad.viz.picture import Box, Picture

__all__ = ["Picture", "graph", "plan", "to_networkx"]

WIDEST_CARD = 34  # characters in a line of a kernel's list of operations
MOST_LINES = 8
MOST_BOXES = 1000  # more take long to place, and nobody can look at them


def to_networkx(*values: Any) -> nx.DiGraph:
    """The expression graph of tensors (or nestings of them) as networkx sees it, back to what has a value.

    A node has `op`, `family`, `shape`, `dtype` and `attributes`; an edge runs from an operand to its reader, and its
    `positions` say which operands it is.

    Example:
        >>> import vkgrad as vg
        >>> x = vg.tensor([1.0, 2.0])
        >>> g = to_networkx(x * x)
        >>> [data["op"] for _, data in g.nodes(data=True)], [data["positions"] for *_, data in g.edges(data=True)]
        (['leaf', 'multiply'], [(0, 1)])
    """
    view: nx.DiGraph = nx.DiGraph()
    for node in walk(_nodes(values), stop=engine.has_value):
        is_leaf = engine.has_value(node) or node.op.family is Family.LEAF
        view.add_node(
            node,
            op="leaf" if is_leaf else node.op.name,
            family=(Family.LEAF if is_leaf else node.op.family).value,
            shape=node.shape,
            dtype=node.dtype.name,
            attributes=dict(node.attributes),
        )
        for source in () if is_leaf else dict.fromkeys(node.inputs):
            positions = tuple(at for at, other in enumerate(node.inputs) if other is source)
            view.add_edge(source, node, positions=positions)
    return view


def _nodes(values: tuple[Any, ...]) -> list[Node]:
    return [leaf.value.node for leaf in tree.leaves(values) if isinstance(leaf.value, Tensor)]


# ---- the expression graph
def graph(*values: Any) -> Picture:
    """A picture of the nodes that these tensors are made of. Literals are written into their readers.

    Raises: `ConfigError` for a graph that is too large to look at.
    """
    view = to_networkx(*values)
    targets = set(_nodes(values))
    literals = {node: node.attributes["value"] for node in view if view.nodes[node]["op"] == "constant"}
    for node in nx.topological_sort(view):
        if view.nodes[node]["op"] in ("expand", "reshape") and node.inputs[0] in literals:
            literals[node] = literals[node.inputs[0]]
    drawn = view.subgraph([node for node in view if node not in literals or node in targets]).copy()
    merged = _merge_views(drawn)
    if len(drawn) > MOST_BOXES:
        raise ConfigError(
            f"graph: {len(drawn)} boxes are too many to draw (at most {MOST_BOXES}); "
            "evaluate what it is made of first, draw vg.viz.plan, or take vg.to_networkx"
        )
    boxes: dict[Hashable, Box] = {}
    for node, data in drawn.nodes(data=True):
        names = " ".join([_called(node, data, literals) for node, data in (*merged.get(node, ()), (node, data))])
        lines = (*textwrap.wrap(names, WIDEST_CARD), f"{data['dtype']}{list(node.shape)}")
        boxes[node] = Box(lines, data["family"], hover=f"{node!r} {data['attributes'] or ''}".rstrip())
    for source, target, data in drawn.edges(data=True):
        if len(set(target.inputs) - set(literals)) > 1:
            drawn.edges[source, target]["label"] = ",".join(str(at + 1) for at in data["positions"])
    hidden = len(literals.keys() - targets)
    title = f"{len(view)} nodes" + (f", {hidden} of them literals written into their readers" if hidden else "")
    return Picture(title, drawn, boxes)


def _merge_views(drawn: nx.DiGraph) -> dict[Node, list[tuple[Node, dict[str, Any]]]]:
    """Join a view that only another view reads with its reader: for the last view of each run, those before it."""
    merged: dict[Node, list[tuple[Node, dict[str, Any]]]] = {}
    for node in list(nx.topological_sort(drawn)):
        readers = list(drawn.successors(node))
        if len(readers) != 1 or any(drawn.nodes[each]["family"] != "view" for each in (node, readers[0])):
            continue
        merged[readers[0]] = [*merged.pop(node, []), (node, drawn.nodes[node])]
        for source in list(drawn.predecessors(node)):
            drawn.add_edge(source, readers[0], **drawn.edges[source, node])
        drawn.remove_node(node)
    return merged


def _called(node: Node, data: dict[str, Any], literals: dict[Node, Any]) -> str:
    """An op with its literal operands and its attributes: `multiply(·, 0.5)`, `sum axes=(1,)`."""
    name = str(data["op"])
    if name == "leaf":
        return "value"
    if any(source in literals for source in node.inputs):
        name += "(" + ", ".join(_literal(literals[s]) if s in literals else "·" for s in node.inputs) + ")"
    shown = {"axes", "axis", "size", "stride", "type", "ties"} & set(data["attributes"])
    return " ".join([name, *[f"{key}={_short(data['attributes'][key])}" for key in sorted(shown)]])


def _literal(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(value: Any) -> str:
    return str(value).replace(" ", "")


# ---- the plan
def plan(*values: Any) -> Picture:
    """A picture of the dispatches that compute these tensors, or everything pending: kernels, buffers, barriers.

    Each card is one dispatch: its kind and extents, the template row where the device chose one, the operations fused
    into it. Pills are buffers. The kernels of one level run side by side.
    """
    found = execution.plan(*values)
    buffers = found.plan.buffers
    drawn: nx.DiGraph = nx.DiGraph()
    boxes: dict[Hashable, Box] = {}
    row: dict[Hashable, int] = {}
    for number, kernel in enumerate(found.kernels):
        card = ("kernel", number)
        boxes[card] = Box(_card(number, kernel), _style(kernel), hover=" ".join(kernel.ops))
        row[card] = 3 * kernel.level + 1
        drawn.add_node(card)
        for at in kernel.writes:
            pill = ("written", at)
            boxes[pill] = _pill(at, buffers[at], found.plan.in_place.get(at))
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
    bands = [(f"level {level}", range(3 * level, 3 * level + 3)) for level in range(found.plan.depth)]
    dispatches, barriers = len(found.kernels), max(found.plan.depth - 1, 0)
    title = (
        f"{found.plan.nodes} nodes in {dispatches} dispatch{'es' * (dispatches != 1)}, "
        f"{barriers} barrier{'s' * (barriers != 1)}"
    )
    return Picture(title, drawn, boxes, row, bands, notes=found.text)


def _card(number: int, kernel: KernelReport) -> tuple[str, ...]:
    space = "×".join(map(str, kernel.parallel)) or "1"
    if kernel.reduced:
        space += f" over {'×'.join(map(str, kernel.reduced))}"
    ops = textwrap.wrap(" ".join(kernel.ops), WIDEST_CARD)
    if len(ops) > MOST_LINES:
        ops = [*ops[: MOST_LINES - 1], "…"]
    return (f"#{number} {kernel.row or kernel.kind}", space, *ops)


def _style(kernel: KernelReport) -> str:
    return "elementwise" if kernel.kind == "map" else kernel.kind


def _pill(number: int, buffer: PlanBuffer, in_place_of: int | None = None) -> Box:
    title = f"{buffer.kind} {number}" + (f", in place of {in_place_of}" if in_place_of is not None else "")
    return Box(
        (title, f"{buffer.dtype.name}{list(buffer.shape)}"), buffer.kind, hover=f"{title}: {buffer.size_bytes} bytes"
    )
