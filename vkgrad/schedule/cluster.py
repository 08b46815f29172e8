"""A cluster: the nodes that one kernel computes, and what it reads.

This module knows which values a loop nest holds where. What belongs together is decided in `vkgrad.schedule.fuse`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family, Shape


@dataclass(eq=False)
class Cluster:
    """Nodes of one kernel.

    full     extents of the whole iteration space in the root's own axis order; `reduced` are its R axes
    slot     the shape of values that are complete after reducing
    opened   sums and contractions below the root sum that run in the same nest, outermost first
    inside   with `opened`, the layouts of the loads below them over the root's input, with their leading axes
    """

    root: Node
    full: Shape
    reduced: tuple[int, ...]
    slot: Shape
    number: int
    members: dict[Node, None] = field(default_factory=dict)
    opened: tuple[Node, ...] = ()
    inside: tuple[tuple[Layout, int], ...] = ()
    reads: dict[Cluster, None] = field(default_factory=dict)
    leaves: dict[Node, None] = field(default_factory=dict)
    ops: int = 0

    @property
    def reducing(self) -> bool:
        return bool(self.reduced) or bool(self.opened) or self.root.op.family is Family.CONTRACTION

    @property
    def closed(self) -> bool:
        """Whether no other node can be computed along: a routine is a kernel by itself."""
        return self.root.op.family is Family.ROUTINE

    @property
    def row(self) -> int:
        """How many terms its reductions join."""
        return prod(self.full[axis] for axis in self.reduced)

    def is_full(self, shape: Shape) -> bool:
        """Whether a value of this shape lives at every place of the space, not once per slot."""
        return shape == self.full and (not self.reducing or shape != self.slot)

    def is_slot(self, shape: Shape) -> bool:
        return without_ones(shape) == without_ones(self.slot)

    def seen_at(self, member: Node, full: bool) -> Layout | None:
        """How a reader over the full space (or over the slots) would address a member's value in memory."""
        if member.shape == self.full and member.shape != self.slot:
            return Layout.contiguous(self.full) if full else None
        slots = Layout.contiguous(self.slot)
        return slots.expand(self.full) if full else slots


def without_ones(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent != 1)


def is_same_place(a: Layout, b: Layout) -> bool:
    """Whether two layouts over spaces that differ in axes of extent 1 alone find the same element everywhere."""
    found, wanted = a.reshape(without_ones(a.extents)), b.reshape(without_ones(b.extents))
    return found is not None and found == wanted and found.offset == 0 and not found.guards


def ordered(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Clusters so that each comes after those it reads."""
    out: list[Cluster] = []
    state: dict[Cluster, int] = {}
    for start in clusters:
        stack = [(start, False)]
        while stack:
            cluster, done = stack.pop()
            if done:
                out.append(cluster)
                state[cluster] = 2
                continue
            if cluster in state:
                assert state[cluster] == 2, "clusters depend on each other"
                continue
            state[cluster] = 1
            stack.append((cluster, True))
            stack.extend((source, False) for source in cluster.reads if state.get(source) != 2)
    return out
