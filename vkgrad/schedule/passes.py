"""Routines in the steps that a device can do: nodes in, equal nodes out.

A sort of a million elements is no single dispatch. Its record says how it is one of many (`Op.passes`): blocks, then
merges, each a node of its own, so that what is element-wise in between fuses. How many steps there are depends on sizes
and on the device alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkgrad.ir.node import Node
from vkgrad.schedule.rewrite import rewrite
from vkgrad.schedule.split import Width


def passes(outputs: Sequence[Node], has_value: Callable[[Node], bool], width: Width) -> list[Node]:
    """`outputs` with every routine in as many steps as it needs, in the same order."""

    def stepped(node: Node) -> Node:
        return node.op.passes(node, width) if node.op.passes is not None and node.size else node

    now = list(outputs)
    while True:  # steps are routines too, and may need steps in their turn
        new = rewrite(now, has_value, stepped)
        if new == now:
            return now
        now = new
