"""One flush as data: kernels in levels, the buffers between them, and what each node became.

A `Plan` depends only on the structure of the graph, so it is cached under `structure` and used again for every graph of
the same structure. It touches no device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from vkgrad.ir import program
from vkgrad.ir.dtypes import DType
from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node, Type, walk
from vkgrad.ir.op import Shape
from vkgrad.ir.program import Structure
from vkgrad.ops.sources import LEAF
from vkgrad.schedule.beside import longest_first, side_by_side
from vkgrad.schedule.depth import Depths
from vkgrad.schedule.fuse import Fuser
from vkgrad.schedule.kernel import Dispatch, Group, Kernel
from vkgrad.schedule.lower import Lowering
from vkgrad.schedule.memory import Lifetime, pack
from vkgrad.schedule.packing import packed
from vkgrad.schedule.passes import passes
from vkgrad.schedule.pieces import pieces_joined
from vkgrad.schedule.residues import dense, summed_over_gaps
from vkgrad.schedule.simplify import simplify
from vkgrad.schedule.split import Width, split
from vkgrad.schedule.stack import Stack, Stacking, find_stacks
from vkgrad.schedule.widen import widen
from vkgrad.schedule.windows import without_windows


@dataclass(frozen=True, slots=True)
class PlanBuffer:
    """A buffer of the plan.

    kind   "input" (its `index`th leaf), "output" (of its `index`th target) or "temporary" (at `index` bytes of the
           arena)
    """

    kind: str
    index: int
    shape: Shape
    dtype: DType

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.count * self.dtype.size_bytes


@dataclass(frozen=True)
class Plan:
    """Dispatches with their level, in order; buffers by id; `outputs[i]` is the buffer id of target i, None if empty.

    An output's buffer may be an input (the target equals a leaf) or another target's output. `in_place` maps output
    buffers to the input buffers whose memory they may take over.
    """

    kernels: tuple[Dispatch, ...]
    levels: tuple[int, ...]
    buffers: tuple[PlanBuffer, ...]
    outputs: tuple[int | None, ...]
    arena_bytes: int
    nodes: int
    in_place: dict[int, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many levels, each behind one barrier."""
        return max(self.levels, default=-1) + 1

    def at_level(self, level: int) -> list[Dispatch]:
        return [kernel for kernel, own in zip(self.kernels, self.levels, strict=True) if own == level]


def structure(targets: Sequence[Node], has_value: Callable[[Node], bool]) -> tuple[Structure, list[Node]]:
    """A key that two graphs share exactly if one plan serves both, and the leaves in the order of the plan's inputs."""

    def input_key(node: Node) -> Type | None:
        return node.signature.type if node.op is LEAF or has_value(node) else None

    key, _, leaves = program.structure(targets, input_key, through="alias")
    return key, leaves


def build_plan(
    targets: Sequence[Node],
    leaves: Sequence[Node],
    *,
    max_buffers: int,
    fuse: bool = True,
    replaces: dict[int, int] | None = None,
    width: Width | None = None,
    wide: bool = False,
    stacking: Stacking | None = None,
    beside: Callable[[Kernel], Hashable] | None = None,
) -> Plan:
    """The plan that computes `targets` from `leaves`, which are where their graphs end.

    `replaces` maps target numbers to leaf numbers: that target is the leaf's new value, and takes its memory where no
    kernel would read the old value too late. `width` is how much the device wants to do at once (None: no matter);
    `wide` asks for float32 contractions to be added up in float64; `stacking` is what the device says of stacks,
    and kernels of one level for which `beside` gives the same key share a dispatch (but none for which it gives None).
    """
    # Not the engine's: the passes make nodes that somebody else may have computed, such as an iota, and keep. Its value
    # is none of the inputs of this plan, which others with equal structure will use without it.
    has_value = frozenset(leaves).__contains__
    nodes = len(walk(targets, stop=has_value))
    simple = simplify(widen(targets, has_value) if wide else targets, has_value)
    simple = pieces_joined(simple, has_value)
    if width is not None:
        if width.tiles:
            simple = packed(simple, has_value)
        simple = split(passes(summed_over_gaps(simple, has_value), has_value, width), has_value, width)
    simple = [_stored(node, has_value) for node in simple]
    present = list(dict.fromkeys(node for node in simple if node.size))
    fusion = Fuser(present, has_value, max_buffers=max_buffers, fuse=fuse).run()
    leaf_number = {leaf: number for number, leaf in enumerate(leaves)}
    ids: dict[Node, int] = {}

    def buffer_of(node: Node) -> int:
        return ids.setdefault(node, len(ids))

    wanted = dict.fromkeys(node for node in present if node in fusion.home)
    lowered: list[tuple[Kernel, dict[Node, None], list[Node]]] = []
    for cluster in reversed(fusion.clusters):
        stored = [node for node in cluster.members if node in wanted]
        if not stored:
            continue
        lowering = Lowering(cluster, fusion, has_value, buffer_of)
        kernel = lowering.kernel(stored)
        if width is not None:  # NumPy walks short axes slowly, and skips padding itself
            kernel = without_windows(kernel)
        lowered.append((kernel, lowering.anchors, stored))
        wanted.update(dict.fromkeys(anchor for anchor in lowering.anchors if anchor in fusion.home))
    lowered.reverse()

    writer = {node: position for position, (_, _, stored) in enumerate(lowered) for node in stored}
    after = [{writer[anchor] for anchor in anchors if anchor in writer} for _, anchors, _ in lowered]
    readers: dict[Node, list[int]] = {}
    for position, (_, anchors, _) in enumerate(lowered):
        for anchor in anchors:
            readers.setdefault(anchor, []).append(position)
    takeover = _takeovers(simple, leaves, replaces or {}, lowered, readers, ids, writer, after)
    kernels = [kernel for kernel, _, _ in lowered]
    stacks: list[Stack] = []
    if stacking is not None and fuse:
        barred = {position for node, position in writer.items() if ids[node] in takeover}
        if width is not None:  # alone, these would be several kernels, that add up otherwise
            barred |= {position for position, kernel in enumerate(kernels) if len(dense(kernel)) > 1}
        stacks = find_stacks(kernels, after, _order(after), barred, stacking, max_buffers)
    units = _units(len(kernels), stacks)
    levels = _levels(units, after)

    for node in simple:
        if node in leaf_number:
            buffer_of(node)
    outputs = tuple(ids[node] if node.size else None for node in simple)
    first_target = {node: number for number, node in reversed(list(enumerate(simple)))}
    lives: dict[int, Lifetime] = {}
    for node, number in ids.items():
        if node in writer and node not in first_target:
            start = levels[writer[node]]
            last = max((levels[reader] for reader in readers.get(node, ())), default=start)
            lives[number] = Lifetime(node.size * node.dtype.size_bytes, start, last)
    offsets, arena = pack(list(lives.values()))
    place = dict(zip(lives, offsets, strict=True))
    buffers = []
    for node, number in ids.items():
        if node in leaf_number:
            buffers.append(PlanBuffer("input", leaf_number[node], node.shape, node.dtype))
        elif node in first_target:
            buffers.append(PlanBuffer("output", first_target[node], node.shape, node.dtype))
        else:
            buffers.append(PlanBuffer("temporary", place[number], node.shape, node.dtype))
    stack_of = {position: stack for stack in stacks for position in stack.members}
    hidden = _hidden(stack_of, lowered, lives.keys(), ids)
    dispatches: list[tuple[Dispatch, int]] = []
    for unit in sorted(units, key=lambda unit: (levels[unit[0]], unit[0])):
        stack = stack_of.get(unit[0])
        if stack is not None:
            parts: Sequence[Dispatch] = [_group(stack, unit, hidden)]
        else:
            parts = dense(kernels[unit[0]]) if width is not None else [kernels[unit[0]]]
        dispatches += [(part, levels[unit[0]]) for part in parts]
    if beside is not None and fuse:
        dispatches = side_by_side(dispatches, beside, max_buffers)
    if width is not None:
        dispatches = longest_first(dispatches)
    return Plan(
        kernels=tuple(dispatch for dispatch, _ in dispatches),
        levels=tuple(level for _, level in dispatches),
        buffers=tuple(buffers),
        outputs=outputs,
        arena_bytes=arena,
        nodes=nodes,
        in_place=takeover,
    )


def _units(count: int, stacks: Sequence[Stack]) -> list[tuple[int, ...]]:
    """Positions of kernels that make one dispatch, in an order in which they can run."""
    together = [tuple(stack.members) for stack in stacks]
    stacked = {position for unit in together for position in unit}
    return [*together, *((position,) for position in range(count) if position not in stacked)]


def _levels(units: Sequence[tuple[int, ...]], after: Sequence[set[int]]) -> list[int]:
    """For each kernel, the level of its dispatch."""
    number = {position: own for own, unit in enumerate(units) for position in unit}
    needs = [{number[p] for position in unit for p in after[position]} - {own} for own, unit in enumerate(units)]
    level = [0] * len(units)
    for own in _order(needs):
        level[own] = 1 + max((level[n] for n in needs[own]), default=-1)
    waits = all(level[n] < level[own] for own in range(len(units)) for n in needs[own])
    assert waits, "dispatches wait for each other"
    return [level[number[position]] for position in range(len(after))]


def _hidden(
    stack_of: dict[int, Stack],
    lowered: Sequence[tuple[Kernel, dict[Node, None], list[Node]]],
    temporaries: Iterable[int],
    ids: dict[Node, int],
) -> frozenset[int]:
    """Temporaries that nobody outside the stack which writes them reads."""
    found = set(temporaries)
    for position, (_, anchors, _) in enumerate(lowered):
        own = stack_of.get(position)
        # A leaf that is only waited for is in no buffer.
        read = [ids[anchor] for anchor in anchors if anchor in ids]
        found -= {number for number in read if own is None or number not in own.staged}
    return frozenset(found)


def _group(stack: Stack, unit: Sequence[int], hidden: frozenset[int]) -> Group:
    members = [stack.members[position] for position in unit]
    read = {kernel.slots[slot] for kernel, _ in members for slot, _ in kernel.reads()}
    staged = tuple((buffer, words) for buffer, words in stack.staged.items() if buffer in read)
    return Group(
        tuple(kernel for kernel, _ in members),
        stack.rows,
        tuple(axis for _, axis in members),
        staged,
        hidden & {buffer for buffer, _ in staged},
    )


def _stored(node: Node, has_value: Callable[[Node], bool]) -> Node:
    """The node whose memory holds `node`: a reshape of something in row-major order is the same bytes."""
    while node.is_op("reshape") and not has_value(node):
        node = node.inputs[0]
    return node


def _order(after: Sequence[set[int]]) -> list[int]:
    """Positions so that each comes after those in its set (which has no cycle)."""
    out: list[int] = []
    seen: set[int] = set()
    for start in range(len(after)):
        stack = [(start, False)]
        while stack:
            position, ready = stack.pop()
            if ready:
                out.append(position)
            elif position not in seen:
                seen.add(position)
                stack.append((position, True))
                stack.extend((p, False) for p in after[position])
    return out


def _takeovers(
    simple: Sequence[Node],
    leaves: Sequence[Node],
    replaces: dict[int, int],
    lowered: Sequence[tuple[Kernel, dict[Node, None], list[Node]]],
    readers: dict[Node, list[int]],
    ids: dict[Node, int],
    writer: dict[Node, int],
    after: list[set[int]],
) -> dict[int, int]:
    """Which outputs may be written over the leaf they replace.

    Every other kernel that reads the leaf must run before the writer (an edge is added to `after`), and the writer
    itself must read it only where it writes.
    """
    takeover: dict[int, int] = {}
    if not replaces:
        return takeover
    depths: Depths[int] = Depths()
    for position in _order(after):
        depths.add(position, after[position])
    times = Counter(simple)
    for target, leaf_index in replaces.items():
        node, old = simple[target], leaves[leaf_index]
        if node not in writer or ids[node] in takeover or times[node] > 1:
            continue
        if (node.shape, node.dtype) != (old.shape, old.dtype):
            continue
        if old in times:  # the old value is itself a result, which is copied after the kernels
            continue
        position = writer[node]
        kernel = lowered[position][0]
        if old in ids and not _reads_where_it_writes(kernel, ids[old], ids[node]):
            continue
        others = [reader for reader in readers.get(old, ()) if reader != position]
        if any(depths.reaches(reader, (position,)) for reader in others):
            continue
        after[position].update(others)
        depths.add(position, others)
        takeover[ids[node]] = ids.setdefault(old, len(ids))
    return takeover


def _reads_where_it_writes(kernel: Kernel, read: int, written: int) -> bool:
    if read not in kernel.slots:
        return True
    if kernel.routine is not None:  # nobody knows where it reads
        return False
    slot, out = kernel.slots.index(read), kernel.slots.index(written)
    (store,) = [store for store in kernel.stores if store.slot == out]
    places: list[Layout] = [layout for number, layout in kernel.reads() if number == slot]
    return all(layout == store.layout for layout in places) and not (
        # A slot value is written once, but a load below a loop over R would see it again.
        kernel.loops() and any(full for i, full in zip(kernel.code, kernel.is_full(), strict=True)
                               if full and getattr(i, "slot", None) == slot)
    )  # fmt: skip
