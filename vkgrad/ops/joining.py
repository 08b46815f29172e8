"""Nodes side by side along an axis, made of views and choices: one kernel for a few, more where there are many.

This module must not know tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.views import pad

MOST_JOINED = 16  # nodes that one kernel joins


def join(nodes: Sequence[Node], axis: int) -> Node:
    """`nodes`, of one type and of extents that differ along `axis` alone, one after the other."""
    axis %= nodes[0].ndim
    level = [node for node in nodes if node.shape[axis]] or [nodes[0]]
    # Whoever reads a place asks each node whether it is its own: of many, a few at a time are joined first.
    while len(level) > MOST_JOINED:
        level = [_join(level[first : first + MOST_JOINED], axis) for first in range(0, len(level), MOST_JOINED)]
    return _join(level, axis)


def _join(nodes: Sequence[Node], axis: int) -> Node:
    """Every node is padded to the full extent, and the place along the axis chooses: one kernel, and bits stay as they
    are (a sum of what is padded would turn -0.0 into 0.0)."""
    end = total = sum(node.shape[axis] for node in nodes)
    rank = nodes[0].ndim
    place = b.reshape(b.build("iota", extent=total), tuple(total if a == axis else 1 for a in range(rank)))
    joined: Node | None = None
    for node in reversed(nodes):
        start = end - node.shape[axis]
        low, high = [0] * rank, [0] * rank
        low[axis], high[axis] = start, total - end
        wide = pad(node, low, high)
        joined = wide if joined is None else b.apply("where", b.apply("less", place, end), wide, joined)
        end = start
    assert joined is not None
    return joined


def stacked(nodes: Sequence[Node], axis: int) -> Node:
    """`nodes` of one shape along a new axis, which counts from the end where it is negative."""
    rank = nodes[0].ndim + 1
    axis %= rank
    return join([b.reshape(node, (*node.shape[:axis], 1, *node.shape[axis:])) for node in nodes], axis)
