"""Statements for several places or terms at once: four neighbours along one axis, which are loaded and stored together.

Templates call the neighbours of a group 0 to 3; what does not differ along the axis is worked out once for the group.
Each neighbour's statements are those that it has alone, so its bits are too. This module must not know how templates
divide the work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vkgrad.codegen.elements import encoded
from vkgrad.codegen.expressions import Expressions, literal
from vkgrad.ir.dtypes import DType
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Kernel, Load, Reduce, operands

SMALL = frozenset((1, 2))  # sizes in bytes of elements of which several are in a word
COMPONENTS = "xyzw"


def lies_in_fours(kernel: Kernel, layout: Layout, axis: int) -> bool:
    """Whether four neighbours along `axis`, of which the first has a multiple of four as coordinate, lie side by side,
    from a multiple of four on, and are guarded alike. Of a single axis the rest beyond the last four is disregarded."""
    if kernel.extents[axis] % 4 and len(kernel.extents) > 1:
        return False
    others = [stride for a, stride in enumerate(layout.strides) if a != axis]
    aligned = all(number % 4 == 0 for number in (layout.offset, *others))
    alike = all(not guard.coefficients[axis] and guard.stride % 4 == 0 for guard in layout.guards)
    return layout.strides[axis] == 1 and aligned and alike


def parts_of_word(dtype: DType, four: str, number: int) -> str:
    """The value of element `number` of four that were loaded together."""
    if dtype.size_bytes not in SMALL:
        value = f"{four}.{COMPONENTS[number]}"
        return f"({value} != 0u)" if dtype.kind == "b" else value
    bits = 8 * dtype.size_bytes
    each = 32 // bits
    word = f"{four}.{COMPONENTS[number // each]}" if dtype.size_bytes == 2 else four
    signed = f"int({word})" if dtype.kind == "i" else word
    value = f"bitfieldExtract({signed}, {number % each * bits}, {bits})"
    return f"from_{dtype.name}({value})" if dtype.kind == "f" else value


def four_of(dtype: DType, vector: str, values: Sequence[str]) -> str:
    """What is stored for four neighbours."""
    if dtype.size_bytes not in SMALL:
        return f"{vector}({', '.join(encoded(dtype, value) for value in values)})"
    bits = 8 * dtype.size_bytes
    each, ones = 32 // bits, hex((1 << bits) - 1)
    parts = [f"({encoded(dtype, value, SMALL)} & {ones}u)" for value in values]
    words = [
        " | ".join(part if not n else f"{part} << {n * bits}" for n, part in enumerate(parts[first : first + each]))
        for first in range(0, 4, each)
    ]
    return f"{vector}({', '.join(words)})" if len(words) > 1 else words[0]


class Wide:
    """Statements for groups of `width` neighbours along `axis`.

    A group has a tag, which makes its names its own; instructions that do not differ along R belong to the group "p".
    `elsewhere` gives the values of loads that a template has brought from elsewhere, by the neighbour's number.
    """

    def __init__(self, text: Expressions, axis: int, width: int):
        self.text, self.kernel, self.axis, self.width, self.packing = text, text.kernel, axis, width, text.packing
        self.full = self.kernel.is_full()
        self.elsewhere: dict[tuple[int, int], str] = {}
        self.varies: list[bool] = []
        for instruction in self.kernel.code:
            layout = getattr(instruction, "layout", None)
            own = layout is not None and any(form[axis] for form in layout._forms())
            inherited = any(self.varies[i] for i in operands(instruction))
            joined = isinstance(instruction, Reduce) and axis >= self.kernel.parallel
            self.varies.append(width > 1 and not joined and (own or inherited))
        self.defined: set[tuple[int, str]] = set()

    def group(self, index: int, tag: str) -> str:
        """The group that an instruction belongs to. Without R there is but one kind of them."""
        return tag if self.full[index] or self.kernel.parallel == len(self.kernel.extents) else "p"

    def name(self, index: int, tag: str, number: int) -> str:
        number = number if self.varies[index] else 0
        return self.elsewhere.get((index, number)) or f"v{index}_{self.group(index, tag)}_{number}"

    def neighbours(self, index: int) -> range:
        return range(self.width if self.varies[index] else 1)

    def at(self, coordinates: Mapping[int, str], number: int) -> dict[int, str]:
        """The coordinates of one neighbour."""
        if not number or self.axis not in coordinates:
            return dict(coordinates)
        return {**coordinates, self.axis: f"({coordinates[self.axis]} + {number})"}

    def fours(self, dtype: DType, layout: Layout) -> bool:
        return (
            self.width == 4
            and dtype.size_bytes <= 4
            and dtype.size_bytes not in self.packing
            and lies_in_fours(self.kernel, layout, self.axis)
        )

    def loads(self, indices: Collection[int], tag: str, coordinates: Mapping[int, str]) -> list[str]:
        """Lines that load all that needs nothing else, before anything is computed."""
        chosen = [index for index in indices if isinstance(self.kernel.code[index], Load)]
        return [line for index in chosen for line in self.define(index, tag, coordinates)]

    def values(self, indices: Collection[int], tag: str, coordinates: Mapping[int, str]) -> list[str]:
        """Lines that define instructions for a group, as far as they are not defined."""
        return [line for index in indices for line in self.define(index, tag, coordinates)]

    def define(self, index: int, tag: str, coordinates: Mapping[int, str]) -> list[str]:
        own = self.group(index, tag)
        if (index, own) in self.defined or (index, 0) in self.elsewhere:
            return []
        self.defined.add((index, own))
        instruction = self.kernel.code[index]
        if isinstance(instruction, Load) and self.varies[index] and self.fours(instruction.dtype, instruction.layout):
            return self._load_four(index, instruction, own, coordinates)
        lines: list[str] = []
        for number in self.neighbours(index):
            names = {i: self.name(i, tag, number) for i in operands(instruction)}
            where = self.at(coordinates, number)
            lines += self.text.statements(index, names, where, name=self.name(index, tag, number))
        return lines

    def _load_four(self, index: int, load: Load, tag: str, coordinates: Mapping[int, str]) -> list[str]:
        four = f"v{index}_{tag}_four"
        vector = VECTORS[load.dtype.storage]
        address, condition = self.text.guards(index, load.layout, self.text.parts(index, load.layout, coordinates))
        slot = f"b{load.slot}_four"
        if not condition:
            lines = [f"{vector} {four} = {slot}[uint({address}) >> 2];"]
            values = [parts_of_word(load.dtype, four, number) for number in range(4)]
        else:
            lines = [
                f"bool {four}_in = {condition};",
                f"{vector} {four} = {slot}[{four}_in ? uint({address}) >> 2 : 0u];",
            ]
            fill = literal(load.fill, load.dtype)
            values = [f"({four}_in ? {parts_of_word(load.dtype, four, number)} : {fill})" for number in range(4)]
        for number, value in enumerate(values):
            name = f"v{index}_{tag}_{number}"
            lines.append(self.text.define(name, load.dtype, value))
        return lines

    def store(self, number: int, tag: str, coordinates: Mapping[int, str]) -> list[str]:
        """Lines that store a group's values."""
        out = self.kernel.stores[number]
        values = [self.name(out.value, tag, k) for k in range(self.width)]
        moves = out.layout.strides[self.axis] != 0
        if moves and self.fours(out.dtype, out.layout):
            address, _ = self.text.stored(number, out, values[0], coordinates)
            stored = four_of(out.dtype, VECTORS[out.dtype.storage], values)
            return [f"b{out.slot}_four[uint({address}) >> 2] = {stored};"]
        count = self.width if moves else 1
        return [self.text.store(number, out, values[k], self.at(coordinates, k)) for k in range(count)]


# Four of a storage type.
VECTORS = {
    "float": "vec4", "int": "ivec4", "uint": "uvec4",
    "uint16_t": "uvec2", "int16_t": "uvec2", "uint8_t": "uint", "int8_t": "uint",
}  # fmt: skip
