"""Which nodes share a kernel.

Every reduction and contraction, and every element-wise node whose value must exist in memory, gets a home: a `Cluster`,
which becomes one kernel. All other element-wise nodes float: they are computed inside each kernel that reads them. A
node joins an existing cluster when it can be computed in the same loop nest from what the nest holds at the same place,
and no cluster would come to depend on itself.

Everything is decided from the layouts of the loads that a node would do (`Loads`), never from the names of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node, consumers, walk
from vkgrad.ir.op import Family, Shape
from vkgrad.ops.contraction import extents_of, summed_labels
from vkgrad.schedule.chains import Open, Step, apply_step
from vkgrad.schedule.cluster import Cluster, is_same_place, ordered
from vkgrad.schedule.depth import Depths

Loads = dict[tuple[Node, Layout], None]  # an ordered set: the anchors a node reads, each through one layout

LARGEST_EXPRESSION = 200  # element-wise ops in one kernel; more makes slow compiles and spills, not speed
MOST_READ_AGAIN = 8  # arrays of its own size that a value with several readers is computed from in each of them
NOWHERE = -(1 << 60)  # an offset that no layout reaches
MOST_CANDIDATES = 64  # clusters that read the same and are asked whether they take a node in, the latest first
LONGEST_ROW = 16384  # a full value after a reduction runs the row again in one workgroup; longer rows want two kernels


@dataclass
class Fusion:
    """The result: clusters in an order in which they can be computed, and the home of each node that has one."""

    clusters: list[Cluster]
    home: dict[Node, Cluster]


def waited_for(node: Node, is_anchor: Callable[[Node], bool]) -> list[Node]:
    """The nodes in memory that must be there before what `node`, an `after`, gives may be read."""
    return [below for below in walk([node.inputs[1]], stop=is_anchor) if is_anchor(below)]


class Fuser:
    def __init__(
        self, targets: Sequence[Node], has_value: Callable[[Node], bool], *, max_buffers: int, fuse: bool = True
    ):
        self.has_value = has_value
        self.max_buffers = max_buffers
        self.fusing = fuse
        self.order = walk(targets, stop=has_value)
        self.targets = set(targets)
        self.readers = consumers(self.order)
        self.home: dict[Node, Cluster] = {}
        self.loads: dict[Node, Loads] = {}
        self.operands: dict[Node, list[Loads]] = {}  # of a contraction, the loads of each side over its own shape
        self.cost: dict[Node, int] = {}  # element-wise ops a floating node repeats wherever it is read
        self.count = 0
        self.depths: Depths[Cluster] = Depths()
        self.passes: dict[tuple[Shape, Node], dict[Cluster, None]] = {}  # element-wise ones, by a leaf that they read
        self.rows: dict[tuple[Shape, tuple[int, ...]], list[Cluster]] = {}  # of reductions, by what they reduce

    def run(self) -> Fusion:
        for node in self.order:
            self._visit(node)
        clusters = dict.fromkeys(self.home.values())
        return Fusion(ordered(clusters), self.home)

    # ---- one node
    def _in_memory(self, loads: Loads) -> dict[Node, None]:
        """The nodes of `loads` that are read from memory (counters and padding are not)."""
        return {anchor: None for anchor, _ in loads if self.is_anchor(anchor)}

    def is_anchor(self, node: Node) -> bool:
        return node in self.home or self.has_value(node) or node.op.family is Family.LEAF

    def reading(self, node: Node) -> Loads:
        """What a kernel that computes with `node` loads, over `node`'s own shape."""
        if self.is_anchor(node):
            return {(node, Layout.contiguous(node.shape)): None}
        return self.loads[node]

    def _visit(self, node: Node) -> None:
        if self.has_value(node) or node.op.family is Family.LEAF or node.size == 0:
            self.loads[node], self.cost[node] = {}, 0
            return
        family = node.op.family
        if family is Family.SOURCE:
            # A counter's address is its value, so the views above it must stay one layout: it counts as a load.
            self.loads[node] = {(node, Layout.contiguous(node.shape)): None} if node.is_op("iota") else {}
            self.cost[node] = 0
        elif family is Family.VIEW:
            self._visit_view(node)
        elif family is Family.REDUCTION:
            self.loads[node] = dict(self.reading(node.inputs[0]))
            self.cost[node] = 0
            self._house_reduction(node)
            return
        elif family is Family.CONTRACTION:
            self.loads[node] = self._merged(node.inputs)
            self.cost[node] = 0
            self._house_contraction(node)
            return
        elif family is Family.INDEXED:
            self._visit_gather(node)
        elif family is Family.ROUTINE:
            self._house_routine(node)
            return
        else:
            self._visit_elementwise(node)
        if node in self.targets or (not self.fusing and family in (Family.ELEMENTWISE, Family.INDEXED)):
            self.house(node)

    def _merged(self, inputs: Iterable[Node]) -> Loads:
        merged: Loads = {}
        for source in inputs:
            merged.update(self.reading(source))
        return merged

    def _visit_view(self, node: Node) -> None:
        source = node.inputs[0]
        step = Step(node.op.name, node.attributes)
        moved: Loads = {}
        if node.is_op("after"):
            # Where the other is made is waited for like something that is read, at places that nothing else is read at.
            for anchor in waited_for(node, self.is_anchor):
                moved[anchor, Layout((1,) * node.ndim, (0,) * node.ndim, NOWHERE).expand(node.shape)] = None
        for anchor, layout in self.reading(source):
            out, _ = apply_step(step, layout, 0)
            if out is None:
                self.house(source)  # a copy of the input makes the view free
                return self._visit_view(node)
            moved[anchor, out] = None
        if node.is_op("pad"):
            # So must the views above padding, even where no load is below it.
            mask, _ = apply_step(step, Layout.contiguous(source.shape), 0)
            if mask is None:
                self.house(source)
                return self._visit_view(node)
            moved[node, mask] = None
        self.loads[node], self.cost[node] = moved, 0 if self.is_anchor(source) else self.cost[source]

    def _visit_elementwise(self, node: Node) -> None:
        cost, merged = self._cost_of(node), self._merged(node.inputs)
        if self._is_too_much(cost, merged):
            floating = [x for x in dict.fromkeys(node.inputs) if not self.is_anchor(x) and self.cost[x] > 1]
            for size in sorted({self._below(source)[0].size for source in floating}):  # what is small is written first
                for source in floating:
                    if self._below(source)[0].size == size:
                        self._house_below(source)
                cost, merged = self._cost_of(node), self._merged(node.inputs)
                if not self._is_too_much(cost, merged):
                    break
        self.loads[node], self.cost[node] = merged, cost
        if self._wanted_in_memory(node, cost):
            self.house(node)
        elif self.fusing and node.is_op("cast") and node.dtype.narrow:
            # A sum of halves is rounded where it is made: whoever reads it from memory then reads half as much.
            (source,) = node.inputs
            cluster = self.home.get(source) if source.op.family in (Family.REDUCTION, Family.CONTRACTION) else None
            if cluster is not None and self._fits(node, merged, node.shape, cluster):
                self._join(node, cluster, merged)

    def _cost_of(self, node: Node) -> int:
        return 1 + sum(self.cost[source] for source in dict.fromkeys(node.inputs) if not self.is_anchor(source))

    def _is_too_much(self, cost: int, loads: Loads) -> bool:
        return cost > LARGEST_EXPRESSION or len(self._in_memory(loads)) > self.max_buffers - 4

    def _visit_gather(self, node: Node) -> None:
        x, index = node.inputs
        lookups = self.reading(x)
        if not self.is_anchor(x) and (
            len(lookups) != 1 or self.cost[x] or any(not self.is_anchor(a) or layout.guards for a, layout in lookups)
        ):
            self.house(x)
            lookups = self.reading(x)
        # The views above must suit the part of the address that is a layout. The rest is computed, so the offset is one
        # that no place has: then nothing is taken for reading where it writes.
        axis, ones = node.attributes["axis"], (1,) * index.ndim
        ((anchor, layout),) = lookups
        rest = Layout(
            (*layout.extents[:axis], *ones, *layout.extents[axis + 1 :]),
            (*layout.strides[:axis], *(0 for _ in ones), *layout.strides[axis + 1 :]),
            NOWHERE,
        ).expand(node.shape)
        self.loads[node] = {(anchor, rest): None}
        own = tuple(e if axis <= a < axis + index.ndim else 1 for a, e in enumerate(node.shape))
        for anchor, layout in self.reading(index):
            spread = layout.reshape(own)
            assert spread is not None, "axes of extent 1 never need a copy"
            self.loads[node][anchor, spread.expand(node.shape)] = None
        self.cost[node] = 1 + self.cost[index]

    # ---- what must exist in memory
    def _wanted_in_memory(self, node: Node, cost: int) -> bool:
        """Whether recomputing a floating node wherever it is read would cost more than writing it once."""
        contractions = others = 0
        stack = list(self.readers[node])
        seen: set[Node] = set()
        while stack:
            reader = stack.pop()
            if reader in seen:
                continue
            seen.add(reader)
            widens = reader.is_op("cast") and reader.inputs[0].dtype.narrow and not reader.dtype.narrow
            if (reader.op.family is Family.VIEW or widens) and reader not in self.targets:
                stack.extend(self.readers[reader])
            elif reader.op.family is Family.CONTRACTION:
                contractions += 1
            elif reader.op.family is Family.REDUCTION or reader.shape != node.shape:
                others += 1
        loads = self.loads[node]
        big = [anchor for anchor, _ in loads if self.is_anchor(anchor) and 2 * anchor.size > node.size]
        if contractions:
            # A contraction reads each element of its operand many times: only a trivial prologue is repeated there.
            in_memory = all(self.has_value(a) or a.op.family in (Family.LEAF, Family.ELEMENTWISE) for a in big)
            return not (cost <= 2 and len(big) <= 1 and len(loads) <= 1 and in_memory)
        # State that is carried from step to step would be computed from all steps before, again in each that reads it.
        carried = len(big) > MOST_READ_AGAIN and len(self.readers[node]) > 1
        return carried or (others > 1 and cost > 8)

    # ---- homes
    def _new_cluster(self, root: Node, full: Shape, reduced: tuple[int, ...], slot: Shape) -> Cluster:
        cluster = Cluster(root, full, reduced, slot, self.count)
        self.count += 1
        if root.op.family is Family.REDUCTION:
            self.rows.setdefault((full, reduced), []).append(cluster)
        return cluster

    def _join(self, node: Node, cluster: Cluster, loads: Loads) -> None:
        cluster.members[node] = None
        cluster.ops += self.cost.get(node, 0) + 1
        self.home[node] = cluster
        for anchor, _ in loads:
            if anchor in self.home:
                if self.home[anchor] is not cluster:
                    cluster.reads[self.home[anchor]] = None
                    cluster.leaves[anchor] = None
            elif self.is_anchor(anchor):
                cluster.leaves[anchor] = None
        self.depths.add(cluster, cluster.reads)
        if not cluster.reducing:
            for leaf in cluster.leaves:
                self.passes.setdefault((cluster.full, leaf), {})[cluster] = None

    def house(self, node: Node) -> None:
        """Give an element-wise node (or a view that must be copied) a place in memory."""
        if self.is_anchor(node):
            return
        loads = self.loads[node]
        cluster = self._host(node, loads, node.shape) if self.fusing and node.op.family is not Family.VIEW else None
        if cluster is None:
            cluster = self._new_cluster(node, node.shape, (), node.shape)
        self._join(node, cluster, loads)

    def _below(self, node: Node) -> tuple[Node, list[Node]]:
        """What `node` is computed from below the views that only repeat or pad it, and these views."""
        views: list[Node] = []
        while node.op.family is Family.VIEW and node.inputs[0].size <= node.size and not self.is_anchor(node.inputs[0]):
            views.append(node)
            node = node.inputs[0]
        return node, views

    def _house_below(self, node: Node) -> None:
        below, views = self._below(node)
        self.house(below)
        for view in reversed(views):
            self._visit_view(view)

    def _host(self, node: Node, loads: Loads, shape: Shape) -> Cluster | None:
        """The latest cluster whose loop nest can compute `node` from values it holds at the same place."""
        candidates = {self.home[anchor] for anchor, _ in loads if anchor in self.home}
        if not candidates:
            candidates = self._sharing(node, loads)
        for cluster in sorted(candidates, key=lambda c: -c.number)[:MOST_CANDIDATES]:
            if self._fits(node, loads, shape, cluster):
                return cluster
        return None

    def _sharing(self, node: Node, loads: Loads) -> set[Cluster]:
        """Element-wise clusters of the same shape that read some of the same leaves (one pass for several results)."""
        found: set[Cluster] = set()
        for leaf in self._in_memory(loads):
            known = self.passes.get((node.shape, leaf), {})
            found.update(islice(reversed(known), MOST_CANDIDATES))
        return found

    def _fits(self, node: Node, loads: Loads, shape: Shape, cluster: Cluster) -> bool:
        """Whether `cluster` can also compute `node` (or, of a reduction, its terms): a value of `shape`."""
        if cluster.closed:
            return False
        full = cluster.is_full(shape)
        if not full and not cluster.is_slot(shape):
            return False
        once = cluster.opened or cluster.root.op.family is Family.CONTRACTION or cluster.row > LONGEST_ROW
        if full and cluster.reducing and once:  # its nest cannot run along R again
            return False
        return self._has_room(node, loads, cluster) and self._is_at_hand(loads, cluster, full)

    def _has_room(self, node: Node, loads: Loads, cluster: Cluster) -> bool:
        buffers = set(cluster.leaves) | {a for a in self._in_memory(loads) if self.home.get(a) is not cluster}
        return (
            cluster.ops + self.cost.get(node, 0) <= LARGEST_EXPRESSION
            and len(buffers) + len(cluster.members) + 1 <= self.max_buffers
        )

    def _is_at_hand(self, loads: Loads, cluster: Cluster, full: bool) -> bool:
        """Whether what is loaded of the cluster's own values is what its nest holds at the same place, and nothing else
        that is loaded needs the cluster first."""
        for anchor, layout in loads:
            other = self.home.get(anchor)
            if other is cluster:
                have = cluster.seen_at(anchor, full)
                if have is None or not is_same_place(layout, have):
                    return False
            elif other is not None and self.depths.reaches(other, (cluster,)):
                return False
        return True

    def _house_reduction(self, node: Node) -> None:
        (source,) = node.inputs
        full, axes = source.shape, tuple(node.attributes["axes"])
        loads = self.loads[node]
        inner = self._openable(node) if node.is_op("sum") else None
        inside = self._seen_inside(node, inner) if inner is not None else None
        if inner is not None and inside is not None:
            below = self.home.pop(inner)
            cluster = self._new_cluster(node, full, axes, node.shape)
            cluster.opened, cluster.inside = (inner, *below.opened), inside
            cluster.reads, cluster.leaves = dict(below.reads), dict(below.leaves)
            cluster.members[node] = None
            self.home[node] = cluster
            self.depths.add(cluster, cluster.reads)
            return
        host = self._row_host(node, loads, full, axes) if self.fusing else None
        self._join(node, host or self._new_cluster(node, full, axes, node.shape), loads)

    def _row_host(self, node: Node, loads: Loads, full: Shape, axes: tuple[int, ...]) -> Cluster | None:
        """The latest cluster that reduces the same axes of the same space and reads some of the same values."""
        leaves = self._in_memory(loads)
        for cluster in islice(reversed(self.rows.get((full, axes), [])), MOST_CANDIDATES):
            taken_in = self.home.get(cluster.root) is not cluster
            if taken_in or cluster.opened or cluster.row > LONGEST_ROW:
                continue
            related = any(self.home.get(a) is cluster for a in leaves) or not cluster.leaves.keys().isdisjoint(leaves)
            if related and self._has_room(node, loads, cluster) and self._is_at_hand(loads, cluster, True):
                return cluster
        return None

    def _openable(self, node: Node) -> Node | None:
        """The sum or contraction that `node` (a sum) reads through views only, if nothing else reads it."""
        if node.attributes.get("partial"):
            return None
        inner = node.inputs[0]
        while inner.op.family is Family.VIEW and not self.is_anchor(inner):
            if len(self.readers[inner]) != 1:
                return None
            inner = inner.inputs[0]
        if not (inner.is_op("sum") or inner.is_op("contract")) or inner in self.targets or self.has_value(inner):
            return None
        cluster = self.home[inner]
        if len(self.readers[inner]) != 1 or len(cluster.members) != 1:
            return None
        # Each inner sum is done again for every place that reads it: fine while few read the same one.
        return inner if node.inputs[0].size <= 4 * inner.size else None

    def _seen_inside(self, node: Node, inner: Node) -> tuple[tuple[Layout, int], ...] | None:
        """What is loaded below `inner`, over the input of the sum `node`; None where only a copy could do that."""
        views: list[Step | Open] = []
        between = node.inputs[0]
        while between is not inner:
            views.append(Step(between.op.name, between.attributes))
            between = between.inputs[0]
        cluster = self.home[inner]
        if inner.op.family is Family.REDUCTION:
            views.append(Open(tuple(inner.attributes["axes"]), inner.shape))
            loads = cluster.inside if cluster.opened else [(layout, 0) for _, layout in self.loads[inner]]
        else:
            labels = [tuple(inner.attributes[name]) for name in ("left", "right", "out")]
            summed = len(summed_labels(*labels))
            views.append(Open(tuple(range(inner.ndim, inner.ndim + summed)), inner.shape))
            loads = [(layout, 0) for layout in self._spread(inner)]
        seen = []
        for layout, lead in loads:
            for step in reversed(views):
                moved, lead = apply_step(step, layout, lead)
                if moved is None:
                    return None
                layout = moved
            seen.append((layout, lead))
        return tuple(seen)

    def _spread(self, node: Node) -> Iterator[Layout]:
        """The loads of a contraction's operands over its output axes and the summed ones."""
        left, right, out = (tuple(node.attributes[name]) for name in ("left", "right", "out"))
        extents = extents_of([source.shape for source in node.inputs], left, right)
        space = (*out, *summed_labels(left, right, out))
        for labels, loads in zip((left, right), self.operands[node], strict=True):
            ones = tuple(extents[label] if label in labels else 1 for label in space)
            order = sorted(range(len(labels)), key=lambda axis: space.index(labels[axis]))
            for _, layout in loads:
                wide = layout.permute(order).reshape(ones)
                assert wide is not None, "axes of extent 1 never need a copy"
                yield wide.expand(tuple(extents[label] for label in space))

    def _house_routine(self, node: Node) -> None:
        """A routine reads whole arrays in row-major order, so its inputs are brought into memory that way."""
        self.loads[node], self.cost[node] = {}, 0
        for source in map(self.in_row_major_order, node.inputs):
            self.house(source)
            self.loads[node][source, Layout.contiguous(source.shape)] = None
        self._join(node, self._new_cluster(node, node.shape, (), node.shape), self.loads[node])

    def in_row_major_order(self, node: Node) -> Node:
        """The node whose memory holds `node`: a reshape of something in row-major order is the same bytes."""
        while node.is_op("reshape") and not self.is_anchor(node):
            node = node.inputs[0]
        return node

    def _house_contraction(self, node: Node) -> None:
        left, right, out = (tuple(node.attributes[name]) for name in ("left", "right", "out"))
        extents = extents_of([source.shape for source in node.inputs], left, right)
        full = (*node.shape, *(extents[label] for label in summed_labels(left, right, out)))
        reduced = tuple(range(len(node.shape), len(full)))
        for source in node.inputs:
            if not self.fusing and not self.is_anchor(source) and self.cost[source]:
                self.house(source)
        self.loads[node] = self._merged(node.inputs)
        self.operands[node] = [dict(self.reading(source)) for source in node.inputs]
        self._join(node, self._new_cluster(node, full, reduced, node.shape), self.loads[node])
