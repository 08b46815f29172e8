"""Stacks on a device: which kernels can be members, and the shader of one.

A member must have the bits that its kernel has alone. So only rows whose order of summation is lanes that each take
every so-manieth term, joined in halves or one after the other, have a place in a stack; which they are is asked of
whoever chooses rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from vkgrad.codegen.expressions import Expressions, Numbers, closure
from vkgrad.codegen.render import Shader, View, environment, shader_of
from vkgrad.codegen.rows import Limits, Row, choose, dispatch_size
from vkgrad.ir.dtypes import float32
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Gather, Group, Kernel, Load, Reduce, Store
from vkgrad.schedule.stack import Stacking

RowOf = Callable[[Kernel], Row | None]  # None: as the table says

MOST_THREADS, LEAST_THREADS = 512, 256
MOST_OUTPUTS = 8  # sums of products that an invocation has under way at once
LOADS = 24  # of operands that an invocation has under way at once: with one after the other, waiting is all it does
JOINED_AT_ONCE = 32  # partial sums that one invocation joins rather than wait for others to do half of it
LEAST_ROW_BYTES = 1 << 12  # of shared memory for rows that are handed on


class Room(NamedTuple):
    """What a workgroup has: invocations, and bytes of shared memory for three uses."""

    threads: int
    joined_bytes: int  # sums of products that are joined
    sums_bytes: int  # other sums
    row_bytes: int  # rows that are handed on


def room_of(limits: Limits) -> Room:
    joined_bytes, sums_bytes = min(1 << 14, limits.shared_bytes // 3), min(1 << 13, limits.shared_bytes // 6)
    row_bytes = limits.shared_bytes - joined_bytes - sums_bytes
    return Room(min(MOST_THREADS, limits.max_invocations), joined_bytes, sums_bytes, row_bytes)


class Order(NamedTuple):
    """How a sum is added up: among how many lanes, which are joined in halves or one after the other."""

    lanes: int
    in_halves: bool = True


def order_of(kernel: Kernel, limits: Limits, row_of: RowOf) -> Order | None:
    """The order of the sums of `kernel` in a stack, and alone; None where it cannot be a member."""
    room = room_of(limits)
    if kernel.routine is not None or any(part.dtype.narrow for part in (*kernel.code, *kernel.stores)):
        return None
    if kernel.product is not None:
        fits = kernel.code[kernel.product.left].dtype is float32
    else:
        sums = [i.dtype.size_bytes for i in kernel.code if isinstance(i, Reduce)]
        fits = sum(sums) * room.threads <= room.sums_bytes
    if not fits:
        return None
    row = row_of(kernel) or choose(kernel, limits)
    parameters = row.parameters(kernel, limits)
    if row.template.startswith("nest"):
        order = Order(parameters.get("lanes", 1))
    elif row.template == "contract.comp.j2" and not parameters["broadcast"]:
        order = Order(parameters["lanes_k"])
    elif row.template == "contract_shared.comp.j2":
        order = Order(parameters["slices"], in_halves=False)
    else:
        return None
    return order if order.lanes <= min(LEAST_THREADS, room.threads) and order.lanes & (order.lanes - 1) == 0 else None


def stacking_for(limits: Limits, row_of: RowOf) -> Stacking | None:
    """What a device with these limits says of stacks; None where barriers inside a workgroup are dear."""
    room = room_of(limits)
    if limits.software or room.threads < LEAST_THREADS // 2 or room.row_bytes < LEAST_ROW_BYTES:
        return None

    def lanes(kernel: Kernel) -> int | None:
        order = order_of(kernel, limits, row_of)
        return order and order.lanes

    return Stacking(lanes, most_words=room.row_bytes // 4, at_a_time=MOST_OUTPUTS * room.threads)


def in_slots_of(group: Group, kernel: Kernel) -> Kernel:
    """`kernel` with the slots of its group."""
    slots = [group.slots.index(buffer) for buffer in kernel.slots]
    code = tuple(replace(i, slot=slots[i.slot]) if isinstance(i, (Load, Gather)) else i for i in kernel.code)
    stores = tuple(replace(store, slot=slots[store.slot]) for store in kernel.stores)
    return replace(kernel, code=code, stores=stores, slots=group.slots)


class MemberNumbers(Numbers):
    """Numbers of one member, kept among those of the whole shader."""

    def __init__(self, whole: Numbers, member: int):
        self.whole, self.member = whole, member

    def name(self, role: tuple, value: int) -> str:
        return self.whole.name((self.member, *role), value)


class RowExpressions(Expressions):
    """Statements for one row of a kernel: what is staged is addressed within the row, and lies in shared memory."""

    def __init__(self, kernel: Kernel, numbers: Numbers, axis: int, staged: Mapping[int, str], hidden: frozenset[int]):
        super().__init__(kernel)
        self.numbers, self.axis, self.staged, self.hidden = numbers, axis, staged, hidden

    def parts(self, index: int, layout: Layout, coordinates: Mapping[int, str], constants: bool = True) -> list[str]:
        part = self.kernel.code[index] if index >= 0 else self.kernel.stores[-1 - index]
        if isinstance(part, (Load, Gather)) and part.slot in self.staged:
            coordinates = {axis: name for axis, name in coordinates.items() if axis != self.axis}
        return super().parts(index, layout, coordinates, constants)

    def buffer(self, slot: int) -> str:
        return self.staged.get(slot, f"b{slot}")

    def store(self, number: int, out: Store, value: str, coordinates: Mapping[int, str]) -> str:
        lines = []
        if out.slot in self.staged:
            within = {axis: name for axis, name in coordinates.items() if axis != self.axis}
            address, stored = self.stored(number, out, value, within)
            lines.append(f"{self.staged[out.slot]}[{address}] = {stored};")
        if out.slot not in self.hidden:
            lines.append(super().store(number, out, value, coordinates))
        return " ".join(lines)


class Member(View):
    """What the template of stacks sees of one kernel."""

    def __init__(self, group: Group, number: int, order: Order, threads: int, numbers: Numbers, room: Room):
        kernel, axis = in_slots_of(group, group.kernels[number]), group.axes[number]
        super().__init__(kernel)
        self.staged = {group.slots.index(buffer): f"row{group.slots.index(buffer)}" for buffer, _ in group.staged}
        hidden = frozenset(group.slots.index(buffer) for buffer in group.hidden)
        self.text = RowExpressions(kernel, MemberNumbers(numbers, number), axis, self.staged, hidden)
        lanes = order.lanes
        self.axis, self.lanes, self.in_halves, self.threads = axis, lanes, order.in_halves, threads
        self.own_axes = [a for a in range(kernel.parallel) if a != axis]
        self.labels = " ".join(kernel.labels)
        self.is_product = kernel.product is not None
        self.place_count = kernel.places // group.rows
        self.places = self.number("places", self.place_count)
        self.terms = self.number("terms", kernel.terms)
        self.groups = threads // lanes
        if self.is_product:
            self._prepare_product(room)
        else:
            while lanes > 1 and self.groups >= 2 * self.place_count:
                self.groups //= 2
        self.repeats = self.place_count > self.groups * (self.outputs if self.is_product else 1)

    @property
    def view(self) -> View:
        return self

    def coordinates(self) -> dict[int, str]:
        return {**super().coordinates(), self.axis: "row"}

    def decode(self, linear: str, prefix: str) -> list[str]:
        return self.text.decode(linear, self.own_axes, prefix)[0]

    def reductions(self, level: int) -> list[dict[str, str]]:
        found = super().reductions(level)
        for r in found:
            own = r["shared"]
            r["shared"] = f"sums_{r['type']}{self.sums.index(own)}"
            r["join_shared"] = r["join_shared"].replace(own, r["shared"])
        return found

    @property
    def joined_at_once(self) -> int:
        """How many partial sums one invocation joins."""
        return min(self.lanes, JOINED_AT_ONCE)

    def join_sums(self, level: int, first: str) -> list[str]:
        """Lines that set each sum of this level to what its partial sums, from `first` on, come to."""
        lines: list[str] = []
        for r in self.reductions(level):
            instruction = self.kernel.code[int(r["name"][1:])]
            assert isinstance(instruction, Reduce)
            elements = [f"{r['shared']}[{first} + {lane}]" for lane in range(self.joined_at_once)]
            made, total = self.text.in_halves(r["name"], instruction, elements)
            lines += [*made, f"{r['name']} = {total};"]
        return lines

    def join_product(self, first: str) -> list[str]:
        """Lines that define the sum of a product from its partial sums, from `first` on."""
        reduce = self.kernel.code[self.reduce]
        assert isinstance(reduce, Reduce)
        count = self.joined_at_once if self.in_halves else self.lanes
        elements = [f"{self.partial}[{first} + {lane * self.lane_step}]" for lane in range(count)]
        if self.in_halves:
            lines, total = self.text.in_halves(self.result, reduce, elements)
        else:
            lines, total = [], elements[0]
            for number, element in enumerate(elements[1:]):
                name = f"{self.result}_{number}"
                lines.append(self.text.define(name, reduce.dtype, self.text.combine(reduce, total, element)))
                total = name
        return [*lines, self.text.define(self.result, reduce.dtype, total)]

    @property
    def sums(self) -> list[str]:
        """The reductions, by the names that they have in a shader of their own."""
        return [r["shared"] for level in range(self.depth) for r in super(Member, self).reductions(level)]

    @property
    def shared(self) -> list[tuple[str, str, int]]:
        """Shared memory that the member needs for a time: type, name, elements. Members take turns with it."""
        if self.lanes == 1:
            return []
        if self.is_product:
            return [(self.type, self.partial, self.outputs * self.threads)]
        found = [r for level in range(self.depth) for r in self.reductions(level)]
        return [(r["type"], r["shared"], self.groups * self.lanes) for r in found]

    # ---- products
    def _prepare_product(self, room: Room) -> None:
        kernel = self.kernel
        product = kernel.product
        assert product is not None
        self.roots = {"left": product.left, "right": product.right}
        self.reduce = next(i for i, instruction in enumerate(kernel.code) if isinstance(instruction, Reduce))
        dtype = kernel.code[self.reduce].dtype
        self.type, self.result = dtype.glsl, f"v{self.reduce}"
        self.precise = "precise " if dtype.kind == "f" else ""
        self.is_float = dtype.kind == "f"
        self.partial = "partial"
        most = (
            MOST_OUTPUTS
            if self.lanes == 1
            else min(MOST_OUTPUTS, room.joined_bytes // (self.threads * dtype.size_bytes))
        )
        self.outputs = max(1, min(most, -(-self.place_count // self.groups)))
        self.steps = max(1, min(8, LOADS // self.outputs, kernel.terms // self.lanes))
        if self._is_dense_along_k():
            self.lane_step, self.own_step = 1, self.lanes
            self.lane, self.own = f"thread % {self.lanes}", f"thread / {self.lanes}"
        else:
            self.lane_step, self.own_step = self.groups, 1
            self.lane, self.own = f"thread / {self.groups}", f"thread % {self.groups}"

    def _moves(self, side: str) -> bool:
        """Whether an operand differs between the places of a row."""
        return any(
            form[axis]
            for index in closure(self.kernel, [self.roots[side]])
            if (layout := getattr(self.kernel.code[index], "layout", None)) is not None
            for form in layout._forms()
            for axis in self.own_axes
        )

    def _is_dense_along_k(self) -> bool:
        """Whether what differs between places lies densest along the terms."""
        k, places = len(self.kernel.extents) - 1, self.own_axes[-1:]
        for side in ("right", "left"):
            for index in closure(self.kernel, [self.roots[side]]):
                load = self.kernel.code[index]
                if isinstance(load, Load) and load.slot not in self.staged and self._moves(side):
                    return load.layout.strides[k] == 1 and not any(load.layout.strides[a] == 1 for a in places)
        return False

    def operands(self) -> list[str]:
        """Lines that define both operands for each of the places under way."""
        lines: list[str] = []
        self.factors: dict[tuple[str, int], str] = {}
        for side, root in self.roots.items():
            moves = self._moves(side)
            for u in range(self.outputs if moves else 1):
                own = {axis: f"u{u}_c{axis}" for axis in self.own_axes}
                coordinates = {**self.coordinates(), **own}
                names: dict[int, str] = {}
                for index in closure(self.kernel, [root]):
                    names[index] = f"{side}{u}_{index}"
                    lines += self.text.statements(index, names, coordinates, name=names[index])
                for place in (u,) if moves else range(self.outputs):
                    self.factors[side, place] = names[root]
        return lines

    def multiply_add(self, u: int) -> str:
        left, right = self.factors["left", u], self.factors["right", u]
        return f"fma({left}, {right}, acc{u})" if self.is_float else f"acc{u} + {left} * {right}"

    def finish(self) -> list[str]:
        """The epilogue of a sum, and its stores."""
        skip = [index != self.reduce for index in range(len(self.kernel.code))]
        after = closure(self.kernel, [store.value for store in self.kernel.stores], skip)
        lines = []
        for index in after:
            if not self.full[index] and index != self.reduce:
                lines += self.text.statements(index, self.names(), self.coordinates())
        return lines + self.stores_per_place()


def _threads(group: Group, orders: Sequence[Order], most: int) -> int:
    """Invocations of a workgroup: what its largest member can use, and fewer where there are many rows anyway."""
    most = min(most, MOST_THREADS if group.rows <= 2 * Stacking.at_once else LEAST_THREADS)
    busy = max(k.places // group.rows * order.lanes for k, order in zip(group.kernels, orders, strict=True))
    return max(64, min(most, 1 << busy.bit_length() - 1), *(order.lanes for order in orders))


def render_stack(group: Group, limits: Limits, row_of: RowOf) -> Shader:
    """The shader of a stack."""
    numbers = Numbers()
    orders = [order_of(kernel, limits, row_of) or Order(1) for kernel in group.kernels]
    threads = _threads(group, orders, room_of(limits).threads)
    members = [Member(group, number, order, threads, numbers, room_of(limits)) for number, order in enumerate(orders)]
    types = {
        kernel.slots[part.slot]: part.dtype.storage
        for kernel in group.kernels
        for part in (*kernel.code, *kernel.stores)
        if isinstance(part, (Load, Gather, Store))
    }
    shared = [f"{types[buffer]} row{group.slots.index(buffer)}[{words}]" for buffer, words in group.staged]
    sums: dict[tuple[str, str], int] = {}
    for glsl, name, size in (one for member in members for one in member.shared):
        sums[glsl, name] = max(sums.get((glsl, name), 0), size)
    shared += [f"{glsl} {name}[{size}]" for (glsl, name), size in sums.items()]
    groups = dispatch_size(group.rows, limits)
    body = environment().get_template("stack.comp.j2").render(
        members=members, threads=threads, shared=shared, rows=numbers.name(("rows",), group.rows),
        grid_width=numbers.name(("grid width",), groups[0]),
    )  # fmt: skip
    hidden = {group.slots.index(buffer) for buffer in group.hidden}
    parameters = (("threads", threads), ("lanes", tuple(order.lanes for order in orders)))
    return shader_of(group, body, limits, numbers, groups, "stack", parameters, hidden)
