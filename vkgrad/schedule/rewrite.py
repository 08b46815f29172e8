"""One walk for the passes that replace nodes one by one: nodes in, nodes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkgrad.ir.node import Node, rebuilt, walk
from vkgrad.ir.op import Family


def rewrite(outputs: Sequence[Node], has_value: Callable[[Node], bool], rule: Callable[[Node], Node]) -> list[Node]:
    """`outputs` with `rule` applied to every node whose inputs are rewritten already, in the same order.

    Leaves, and nodes that have a value, stay what they are.
    """
    new: dict[Node, Node] = {}
    for node in walk(outputs, stop=has_value):
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
        else:
            new[node] = rule(rebuilt(node, tuple(new[source] for source in node.inputs)))
    return [new[node] for node in outputs]
