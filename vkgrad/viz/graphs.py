"""Pictures of expression graphs: what tensors are made of, before and after differentiation, and the graph in networkx.

Looking computes nothing: the nodes stay pending.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import networkx as nx

from vkgrad import engine, functional, tree
from vkgrad.errors import ConfigError
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import Family
from vkgrad.tensor import Tensor
from vkgrad.viz.album import Album
from vkgrad.viz.picture import Box, Picture

WIDEST_CARD = 34  # characters in a line of a kernel's list of operations
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
    return graph_of(nodes_of(values))


def graph_of(nodes: Sequence[Node]) -> nx.DiGraph:
    """`to_networkx` of nodes."""
    view: nx.DiGraph = nx.DiGraph()
    for node in walk(nodes, stop=engine.has_value):
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


def nodes_of(values: tuple[Any, ...]) -> list[Node]:
    """The nodes of all tensors in nestings."""
    return [leaf.value.node for leaf in tree.leaves(values) if isinstance(leaf.value, Tensor)]


# ---- the expression graph
def graph(*values: Any) -> Picture:
    """A picture of the nodes that these tensors are made of. Literals are written into their readers.

    Raises: `ConfigError` for a graph that is too large to look at.
    """
    return drawn(nodes_of(values))


def drawn(nodes: Sequence[Node], before: Collection[Node] = ()) -> Picture:
    """The picture of what these nodes are made of; boxes of nodes in `before` are hollow."""
    view, targets = graph_of(nodes), set(nodes)
    literals = {node: node.attributes["value"] for node in view if view.nodes[node]["op"] == "constant"}
    for node in nx.topological_sort(view):
        if view.nodes[node]["op"] in ("expand", "reshape") and node.inputs[0] in literals:
            literals[node] = literals[node.inputs[0]]
    shown = view.subgraph([node for node in view if node not in literals or node in targets]).copy()
    merged = _merge_views(shown)
    if len(shown) > MOST_BOXES:
        raise ConfigError(
            f"graph: {len(shown)} boxes are too many to draw (at most {MOST_BOXES}); "
            "evaluate what it is made of first, draw vg.viz.plan, or take vg.to_networkx"
        )
    boxes: dict[Hashable, Box] = {}
    for node, data in shown.nodes(data=True):
        names = " ".join([_called(node, data, literals) for node, data in (*merged.get(node, ()), (node, data))])
        lines = (*textwrap.wrap(names, WIDEST_CARD), f"{data['dtype']}{list(node.shape)}")
        hover = f"{node!r} {data['attributes'] or ''}".rstrip()
        boxes[node] = Box(lines, data["family"], hover, hollow=node in before)
    for source, target, data in shown.edges(data=True):
        if len(set(target.inputs) - set(literals)) > 1:
            shown.edges[source, target]["label"] = ",".join(str(at + 1) for at in data["positions"])
    hidden = len(literals.keys() - targets)
    added = f", {len(view) - sum(node in before for node in view)} of them added (filled)" if before else ""
    title = f"{len(view)} nodes{added}" + (f", {hidden} of them literals written into their readers" if hidden else "")
    # Numbers instead of nodes: a picture that is kept must not keep values on the device. Neither must these
    # graphs, which point to themselves and stay until they are collected.
    number = {node: at for at, node in enumerate(shown)}
    picture = Picture(title, nx.relabel_nodes(shown, number), {number[node]: box for node, box in boxes.items()})
    view.clear()
    shown.clear()
    return picture


def _merge_views(shown: nx.DiGraph) -> dict[Node, list[tuple[Node, dict[str, Any]]]]:
    """Join a view that only another view reads with its reader: for the last view of each run, those before it."""
    merged: dict[Node, list[tuple[Node, dict[str, Any]]]] = {}
    for node in list(nx.topological_sort(shown)):
        readers = list(shown.successors(node))
        if len(readers) != 1 or any(shown.nodes[each]["family"] != "view" for each in (node, readers[0])):
            continue
        merged[readers[0]] = [*merged.pop(node, []), (node, shown.nodes[node])]
        for source in list(shown.predecessors(node)):
            shown.add_edge(source, readers[0], **shown.edges[source, node])
        shown.remove_node(node)
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


# ---- differentiation
def autodiff(function: Callable[..., Any], *arguments: Any) -> Album:
    """What differentiation makes of a function: the graph of its value, and with that of its gradients added.

    `function` gives a scalar; the gradients are those with respect to its first argument, a tensor, a module or a
    nesting of them. In the second picture what was there before is hollow.

    Example:
        >>> import vkgrad as vg
        >>> before, after = autodiff(lambda x: vg.sum(vg.sin(x)), vg.tensor([1.0, 2.0]))
        >>> len(before.boxes) < len(after.boxes)
        True
    """
    value, gradients = functional.value_and_grad(function)(*arguments)
    before, after = nodes_of((value,)), nodes_of((value, gradients))
    forward = set(walk(before, stop=engine.has_value))
    return Album({"before differentiation": drawn(before), "after differentiation": drawn(after, forward)})
