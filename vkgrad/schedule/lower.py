"""From a cluster of nodes to a `Kernel`: one loop nest over canonical axes.

Every value is asked for at coordinates given by a chain of views; views only extend the chain, so what arrives at a
buffer is one layout. Afterwards all layouts of the kernel are brought into canonical form together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vkgrad.ir.dtypes import int32
from vkgrad.ir.layout import Layout, collapse
from vkgrad.ir.node import Node
from vkgrad.ir.op import OPS, Family
from vkgrad.ir.rounding import rounded
from vkgrad.ops.contraction import extents_of, summed_labels
from vkgrad.schedule.chains import Chain, Open, Step, prune, through
from vkgrad.schedule.cluster import Cluster, is_same_place
from vkgrad.schedule.fuse import Fusion, waited_for
from vkgrad.schedule.kernel import (
    Call,
    Compute,
    Gather,
    Guarded,
    Index,
    Instruction,
    Kernel,
    Literal,
    Load,
    Product,
    Reduce,
    Store,
    operands,
)

Key = tuple[Node, Chain | None]
ADDRESSING = (Load, Index, Guarded, Gather)  # the instructions that have a layout


class Lowering:
    """Builds the kernel of one cluster. `buffer_of` numbers the buffer of a node that lives in memory."""

    def __init__(
        self,
        cluster: Cluster,
        fusion: Fusion,
        has_value: Callable[[Node], bool],
        buffer_of: Callable[[Node], int],
    ):
        self.cluster, self.fusion, self.has_value, self.buffer_of = cluster, fusion, has_value, buffer_of
        self.code: dict[Instruction, int] = {}  # instruction -> position: equal ones are computed once
        self.listed: list[Instruction] = []
        self.slots: dict[int, int] = {}  # plan buffer -> local slot
        self.done: dict[Key, int] = {}
        self.steps: dict[tuple[Node, Chain | None], Chain] = {}
        self.right: dict[tuple[Node, Chain | None], Chain] = {}  # chains of the right operands of contractions
        self.anchors: dict[Node, None] = {}  # nodes that this kernel loads
        self.product: tuple[int, int] | None = None
        kept = [axis for axis in range(len(cluster.full)) if axis not in cluster.reduced]
        self.order = [*kept, *cluster.reduced]
        self.extra = tuple(extent for node in cluster.opened for extent in self._opened_extents(node))
        self.extents = (*(cluster.full[axis] for axis in self.order), *self.extra)
        self.parallel = len(kept)
        self.full_chain = Chain(Step("permute", {"axes": tuple(self.order)}), None)
        widen = Chain(Step("expand", {"shape": cluster.full}), self.full_chain)
        ones = (1,) * (len(cluster.full) - len(cluster.slot))
        self.slot_chain = Chain(Step("reshape", {"shape": (*cluster.slot, *ones)}), widen)

    @staticmethod
    def _opened_extents(node: Node) -> tuple[int, ...]:
        if node.op.family is Family.REDUCTION:
            return tuple(node.inputs[0].shape[axis] for axis in node.attributes["axes"])
        left, right, out = (node.attributes[name] for name in ("left", "right", "out"))
        extents = extents_of([source.shape for source in node.inputs], left, right)
        return tuple(extents[label] for label in summed_labels(left, right, out))

    # ---- chains
    def _under(self, view: Node, chain: Chain | None) -> Chain:
        key = (view, chain)
        if key not in self.steps:
            self.steps[key] = Chain(Step(view.op.name, view.attributes), chain)
        return self.steps[key]

    def root_chain(self, node: Node) -> Chain:
        cluster = self.cluster
        full = node.shape == cluster.full and (not cluster.reducing or node.shape != cluster.slot)
        return self.full_chain if full else self.slot_chain

    def _operand_chain(self, node: Node, labels: Sequence[int], outer: Chain | None) -> Chain:
        """From an operand's axes to the space (output axes, summed axes) of contraction `node`."""
        left, right, out = (node.attributes[name] for name in ("left", "right", "out"))
        extents = extents_of([source.shape for source in node.inputs], left, right)
        space = (*out, *summed_labels(left, right, out))
        order = sorted(range(len(labels)), key=lambda axis: space.index(labels[axis]))
        ones = tuple(extents[label] if label in labels else 1 for label in space)
        wide = Chain(Step("expand", {"shape": tuple(extents[label] for label in space)}), outer)
        return Chain(Step("permute", {"axes": tuple(order)}), Chain(Step("reshape", {"shape": ones}), wide))

    def layout(self, base: Layout, chain: Chain | None) -> Layout:
        """`base` over the kernel's axes."""
        moved = through(chain, base)
        assert moved is not None, "the fuser let a view through that needs a copy"
        layout, lead = moved
        layout = layout.permute([*range(lead, layout.rank), *range(lead)])
        missing = len(self.extents) - layout.rank
        widened = layout.reshape((*layout.extents, *(1 for _ in range(missing))))
        assert widened is not None
        return prune(widened.expand(self.extents))

    # ---- values
    def value(self, node: Node, chain: Chain | None) -> int:
        """The instruction for `node` at the coordinates that `chain` gives. No recursion: expressions can be deep."""
        stack = [(node, chain)]
        while stack:
            key = stack[-1]
            if key in self.done:
                stack.pop()
                continue
            needs = [(source, self._shortest(source, way)) for source, way in self._needs(*key)]
            missing = [need for need in needs if need not in self.done]
            if missing:
                stack.extend(missing)
                continue
            self.done[key] = self._emit(*key, [self.done[need] for need in needs])
            stack.pop()
        return self.done[node, chain]

    def _shortest(self, node: Node, chain: Chain | None) -> Chain | None:
        """The chain without detours: views above a member of this cluster that lead back to where it is computed.

        Such views (there and back through a reshape) cost nothing above memory, but what the member itself reads may
        not be able to take them.
        """
        if self.fusion.home.get(node) is not self.cluster or node in self.cluster.opened:
            return chain
        base, root = Layout.contiguous(node.shape), self.root_chain(node)
        seen, own = through(chain, base), through(root, base)
        assert own is not None
        return root if seen is not None and seen[1] == own[1] and is_same_place(seen[0], own[0]) else chain

    def _elsewhere(self, node: Node) -> bool:
        """Whether this kernel loads `node`.

        A node may have got a home after this cluster had decided to compute it anew: then its kernel may even come
        later, so what counts is what the cluster recorded.
        """
        if self.has_value(node) or node.op.family is Family.LEAF:
            return True
        return node in self.cluster.leaves and self.fusion.home.get(node) is not self.cluster

    def _needs(self, node: Node, chain: Chain | None) -> list[Key]:
        if self._elsewhere(node):
            return []
        match node.op.family:
            case Family.VIEW:
                if node.is_op("after"):
                    self.anchors.update(dict.fromkeys(waited_for(node, self.cluster.leaves.__contains__)))
                return [(node.inputs[0], self._under(node, chain))]
            case Family.REDUCTION:
                if node in self.cluster.opened:
                    key = (node, chain)
                    if key not in self.steps:
                        self.steps[key] = Chain(Open(tuple(node.attributes["axes"]), node.shape), chain)
                    return [(node.inputs[0], self.steps[key])]
                return [(node.inputs[0], self.full_chain)]
            case Family.CONTRACTION:
                return self._operands(node, chain)
            case Family.INDEXED:
                return [(node.inputs[1], self._index_chain(node, chain))]
            case _:
                return [(source, chain) for source in node.inputs]

    def _operands(self, node: Node, chain: Chain | None) -> list[Key]:
        sides = (node.attributes["left"], node.attributes["right"])
        key = (node, chain)
        if key not in self.steps:
            outer: Chain | None = self.full_chain
            if node in self.cluster.opened:
                rank = len(node.attributes["out"])
                summed = len(self._opened_extents(node))
                outer = Chain(Open(tuple(range(rank, rank + summed)), node.shape), chain)
            self.steps[key] = self._operand_chain(node, sides[0], outer)
            self.right[key] = self._operand_chain(node, sides[1], outer)
        return [(node.inputs[0], self.steps[key]), (node.inputs[1], self.right[key])]

    def _index_chain(self, node: Node, chain: Chain | None) -> Chain:
        key = (node, chain)
        if key not in self.steps:
            axis, index = node.attributes["axis"], node.inputs[1]
            ones = tuple(e if axis <= a < axis + index.ndim else 1 for a, e in enumerate(node.shape))
            self.steps[key] = Chain(
                Step("reshape", {"shape": ones}), Chain(Step("expand", {"shape": node.shape}), chain)
            )
        return self.steps[key]

    def _add(self, instruction: Instruction) -> int:
        position = self.code.setdefault(instruction, len(self.code))
        if position == len(self.listed):
            self.listed.append(instruction)
        return position

    def _slot(self, node: Node) -> int:
        return self.slots.setdefault(self.buffer_of(node), len(self.slots))

    def _emit(self, node: Node, chain: Chain | None, values: list[int]) -> int:
        if self._elsewhere(node):
            self.anchors[node] = None
            layout = self.layout(Layout.contiguous(node.shape), chain)
            layout = replace(layout, guards=tuple(g for g in layout.guards if g.vital))
            return self._add(Load(self._slot(node), layout, False if node.dtype.kind == "b" else 0, node.dtype))
        name = node.op.name
        match node.op.family:
            case Family.SOURCE:
                if name == "constant":
                    return self._add(Literal(node.attributes["value"], node.dtype))
                layout = self.layout(Layout.contiguous(node.shape), chain)
                return self._add(Index(replace(layout, guards=tuple(g for g in layout.guards if g.step > 1)), int32))
            case Family.VIEW:
                return self._emit_pad(node, chain, values[0]) if name == "pad" else values[0]
            case Family.REDUCTION:
                return values[0] if node in self.cluster.opened else self._add(Reduce(node.op, values[0], node.dtype))
            case Family.CONTRACTION:
                body = self._add(Compute(OPS["multiply"], tuple(values), (), node.dtype))
                self.product = (values[0], values[1])
                return body if node in self.cluster.opened else self._add(Reduce(OPS["sum"], body, node.dtype))
            case Family.INDEXED:
                return self._emit_gather(node, chain, values[0])
            case _:
                attributes = tuple(sorted(node.attributes.items()))
                return self._add(Compute(node.op, tuple(values), attributes, node.dtype))

    def _emit_pad(self, node: Node, chain: Chain | None, value: int) -> int:
        """Mask a value; where a load below has the very same guards, its own check does it."""
        fill: Any = node.attributes["value"]
        kind = node.dtype.kind
        fill = bool(fill) if kind == "b" else int(fill) if kind in "iu" else rounded(float(fill), node.dtype)
        base = Layout.contiguous(node.inputs[0].shape)
        mask = self.layout(base, self._under(node, chain))
        if not mask.guards:
            return value
        wanted = {_condition(g) for g in mask.guards}
        below = self.listed[value]
        if isinstance(below, Load) and {_condition(g) for g in below.layout.guards} == wanted:
            return self._add(replace(below, fill=fill))
        if isinstance(below, Compute) and below.op.name == "cast" and fill == 0:
            under = self.listed[below.operands[0]]
            if isinstance(under, Load) and under.fill == 0 and {_condition(g) for g in under.layout.guards} == wanted:
                return value
        if self.product and isinstance(below, Compute) and below.operands == self.product and fill == 0:
            for side in below.operands:
                operand = self.listed[side]
                if isinstance(operand, Load) and operand.fill == 0:
                    have = {_condition(g) for g in operand.layout.guards}
                    if wanted <= have:
                        return value
        if isinstance(below, Guarded) and below.fill == fill and wanted <= set(map(_condition, below.layout.guards)):
            return value  # it is masked already
        zero = Layout(mask.extents, (0,) * mask.rank, 0, tuple(replace(g, stride=0) for g in mask.guards))
        return self._add(Guarded(zero, value, fill, node.dtype))

    def _emit_gather(self, node: Node, chain: Chain | None, index: int) -> int:
        x, axis = node.inputs[0], node.attributes["axis"]
        views: list[Node] = []
        while x.op.family is Family.VIEW and not self._elsewhere(x):
            views.append(x)
            x = x.inputs[0]
        assert self._elsewhere(x)
        self.anchors[x] = None
        base = Layout.contiguous(x.shape)
        for view in reversed(views):
            assert view.op.layout is not None
            base = view.op.layout(base, **view.attributes)
        count = node.inputs[1].ndim
        rest = Layout(
            (*base.extents[:axis], *(1 for _ in range(count)), *base.extents[axis + 1 :]),
            (*base.strides[:axis], *(0 for _ in range(count)), *base.strides[axis + 1 :]),
            base.offset,
        ).expand(node.shape)
        return self._add(
            Gather(self._slot(x), self.layout(rest, chain), index, base.strides[axis], base.extents[axis], node.dtype)
        )

    # ---- the kernel
    def kernel(self, stored: Sequence[Node]) -> Kernel:
        """The kernel that writes the nodes of `stored`."""
        if self.cluster.closed:
            return self._routine(self.cluster.root)
        values = [self.value(node, self.root_chain(node)) for node in stored]
        stores = []
        for node, value in zip(stored, values, strict=True):
            layout = self.layout(Layout.contiguous(node.shape), self.root_chain(node))
            stores.append(Store(self._slot(node), layout, value, node.dtype))
        labels = tuple(dict.fromkeys(_label(i) for i in self.code if not isinstance(i, (Load, Literal, Index))))
        kernel = Kernel(
            self.extents, self.parallel, tuple(self.code), tuple(stores), tuple(self.slots), labels=labels or ("copy",)
        )
        return canonical(live(kernel, self.product))

    def _routine(self, node: Node) -> Kernel:
        loads = []
        for source in node.inputs:
            while not self._elsewhere(source):
                source = source.inputs[0]  # a reshape of something in row-major order is the same bytes
            self.anchors[source] = None
            whole = Layout.contiguous((source.size,))
            loads.append(
                self._add(Load(self._slot(source), whole, False if source.dtype.kind == "b" else 0, source.dtype))
            )
        shapes = tuple(source.shape for source in node.inputs)
        attributes = tuple(sorted(node.attributes.items()))
        value = self._add(Call(node.op, tuple(loads), attributes, shapes, node.shape, node.dtype))
        store = Store(self._slot(node), Layout.contiguous((node.size,)), value, node.dtype)
        return Kernel((node.size,), 1, tuple(self.code), (store,), tuple(self.slots), labels=(node.op.name,))


def _condition(guard: Any) -> tuple:
    return guard.coefficients, guard.constant, guard.bound, guard.step


def _label(instruction: Instruction) -> str:
    match instruction:
        case Compute() | Reduce():
            return instruction.op.name
        case Guarded():
            return "pad"
        case _:
            return "gather"


def live(kernel: Kernel, product: tuple[int, int] | None) -> Kernel:
    """Without instructions that nothing uses, and with the product marked if it still is the one reduction's body."""
    used: set[int] = set()
    stack = [store.value for store in kernel.stores]
    while stack:
        index = stack.pop()
        if index not in used:
            used.add(index)
            stack.extend(operands(kernel.code[index]))
    new = {old: position for position, old in enumerate(sorted(used))}
    code: list[Instruction] = []
    for old in sorted(used):
        match instruction := kernel.code[old]:
            case Compute():
                code.append(replace(instruction, operands=tuple(new[i] for i in instruction.operands)))
            case Guarded() | Reduce():
                code.append(replace(instruction, value=new[instruction.value]))
            case Gather():
                code.append(replace(instruction, index=new[instruction.index]))
            case _:
                code.append(instruction)
    stores = tuple(replace(store, value=new[store.value]) for store in kernel.stores)
    marked = None
    reduces = [i for i in code if isinstance(i, Reduce)]
    if product and product[0] in new and product[1] in new and len(reduces) == 1:
        body = code[reduces[0].value]
        if isinstance(body, Compute) and body.operands == (new[product[0]], new[product[1]]):
            marked = Product(*body.operands, 0, 0, 0)
    return replace(kernel, code=tuple(code), stores=stores, product=marked)


def _forms_of(kernel: Kernel, index: int) -> list[tuple[int, ...]]:
    """All coefficient vectors that instruction `index` depends on."""
    forms, stack = [], [index]
    while stack:
        instruction = kernel.code[stack.pop()]
        layout = getattr(instruction, "layout", None)
        if layout is not None:
            forms += layout._forms()
        stack.extend(operands(instruction))
    return forms


def canonical(kernel: Kernel) -> Kernel:
    """The same kernel with its axes merged wherever every layout allows; for a product, grouped as batch, M, N, K."""
    parallel = kernel.parallel
    order = list(range(len(kernel.extents)))
    groups = [parallel, len(order) - parallel]
    if kernel.product:
        left, right = (_forms_of(kernel, side) for side in (kernel.product.left, kernel.product.right))

        def role(axis: int) -> int:
            in_left, in_right = (any(form[axis] for form in forms) for forms in (left, right))
            return 0 if in_left and in_right else 2 if in_right else 1

        roles = [role(axis) for axis in range(parallel)]
        order = [*sorted(range(parallel), key=lambda axis: roles[axis]), *range(parallel, len(order))]
        groups = [roles.count(0), roles.count(1), roles.count(2), len(order) - parallel]
    layouts = [i.layout for i in kernel.code if isinstance(i, ADDRESSING)] + [s.layout for s in kernel.stores]
    merged, counts = collapse([layout.permute(order) for layout in layouts], groups)
    remaining = iter(merged)
    code = tuple(replace(i, layout=next(remaining)) if isinstance(i, ADDRESSING) else i for i in kernel.code)
    stores = tuple(replace(store, layout=next(remaining)) for store in kernel.stores)
    product = kernel.product and replace(kernel.product, batch=counts[0], m=counts[1], n=counts[2])
    return replace(
        kernel,
        extents=merged[0].extents,
        parallel=sum(counts[:-1]),
        code=code,
        stores=stores,
        product=product,
    )
