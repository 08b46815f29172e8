"""GLSL text for the instructions of a kernel.

The text depends only on a kernel's structure: which axes each address depends on, which ops are applied. Every extent,
stride, offset and bound becomes a specialisation constant, so kernels that differ only in numbers share their SPIR-V.

Temporaries are declared `precise`: a compiler may then not contract a multiply and an add, and the same expression has
the same bits in whichever kernel it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from vkgrad.codegen.elements import Packing, encoded, read, store
from vkgrad.ir.dtypes import DType
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Compute, Gather, Guarded, Index, Instruction, Kernel, Literal, Load, Reduce, Store

PLACEHOLDERS = "xyzw"


def literal(value: float | int | bool, dtype: DType) -> str:
    """A GLSL literal that has exactly this value in this type."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.name == "uint64":
        return f"{int(value)}ul"
    if dtype.name == "int64":
        return f"{int(value)}l" if value > -(2**63) else "int64_t(0x8000000000000000ul)"
    if dtype.kind == "u":
        return f"{int(value)}u"
    if dtype.kind == "i":
        return str(int(value)) if value > -(2**31) else "int(0x80000000u)"
    if dtype.name == "float64":
        if math.isfinite(value):
            text = repr(float(value))
            return f"{text}lf" if "." in text or "e" in text else f"{text}.0lf"
        low, high = np.array([value], "<f8").view("<u4")
        return f"packDouble2x32(uvec2({low}u, {high}u))"
    single = np.float32(value)
    text = str(single)
    if math.isfinite(value) and (single == 0 or abs(single) >= np.finfo(np.float32).tiny):
        return text if "." in text or "e" in text else f"{text}.0"
    return f"uintBitsToFloat({single.view(np.uint32)}u)"


class Numbers:
    """The specialisation constants of one shader, in order; a name for each."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.names: dict[tuple, str] = {}

    def name(self, role: tuple, value: int) -> str:
        """The constant for `role` (anything hashable that says what the number is for)."""
        if role not in self.names:
            self.names[role] = f"n{len(self.values)}"
            self.values.append(value)
        return self.names[role]

    def declarations(self) -> list[str]:
        return [f"layout(constant_id = {i}) const int n{i} = 1;" for i in range(len(self.values))]


# Ops whose literal zeros are kept from compilers. lavapipe takes x * 0, 0 / x and x + 0 for 0, 0 and x by whatever the
# operand is, `precise` or not: wrong for infinities, NaN and the sign of zero.
ARITHMETIC = frozenset(("add", "subtract", "multiply", "divide"))


def opaque_zero(value: float, dtype: DType) -> str:
    """0.0 or -0.0 in a way that no compiler sees through: no grid has 2**31 workgroups along an axis."""
    sign = "0x80000000u" if math.copysign(1.0, value) < 0 else "0u"
    bits = f"({sign} | gl_NumWorkGroups.x >> 31)"
    return f"packDouble2x32(uvec2(0u, {bits}))" if dtype.name == "float64" else f"uintBitsToFloat({bits})"


# Ops whose result is one of their operands, its negative or a whole number: nothing needs rounding.
UNROUNDED = frozenset(
    ("where", "negative", "abs", "relu", "maximum", "minimum", "sign", "floor", "ceil", "trunc", "round")
)  # fmt: skip


class Expressions:
    """Writes statements for the instructions of `kernel`; coordinates are given as GLSL names, one per axis.

    Values of types that are only stored, such as float16, are rounded after every operation, so that fusing changes no
    bit.
    """

    def __init__(self, kernel: Kernel, packing: Packing = frozenset()):
        self.kernel = kernel
        self.numbers = Numbers()
        self.packing = packing
        self.kept_zeros = {
            operand
            for instruction in kernel.code
            if isinstance(instruction, Compute) and instruction.op.name in ARITHMETIC
            for operand in instruction.operands
        }

    # ---- addresses
    def sum_of(self, role: tuple, form: Sequence[int], constant: int, coordinates: Mapping[int, str]) -> str:
        """constant + the terms of `form` along the axes in `coordinates`; zero coefficients leave no trace."""
        terms = [
            f"{coordinates[axis]} * {self.numbers.name((*role, axis), coefficient)}"
            for axis, coefficient in enumerate(form)
            if coefficient and axis in coordinates
        ]
        if constant:
            terms.append(self.numbers.name((*role, "constant"), constant))
        return " + ".join(terms) or "0"

    def parts(self, index: int, layout: Layout, coordinates: Mapping[int, str], constants: bool = True) -> list[str]:
        """The sums of one layout along the given axes: the address, then one per guard."""
        forms = [(layout.strides, layout.offset)] + [(g.coefficients, g.constant) for g in layout.guards]
        return [
            self.sum_of((index, number), form, constant if constants else 0, coordinates)
            for number, (form, constant) in enumerate(forms)
        ]

    def guards(self, index: int, layout: Layout, parts: Sequence[str]) -> tuple[str, str]:
        """(address, condition or "") from the sums of a layout's forms."""
        address, conditions = parts[0], []
        for number, guard in enumerate(layout.guards):
            u = f"({parts[number + 1]})"
            bound = self.numbers.name((index, number, "bound"), guard.bound)
            conditions.append(f"uint({u}) < uint({bound})")
            if guard.step > 1:
                step = self.numbers.name((index, number, "step"), guard.step)
                conditions.append(f"{u} % {step} == 0")
                if guard.stride:
                    stride = self.numbers.name((index, number, "stride"), guard.stride)
                    address = f"{address} + {u} / {step} * {stride}"
        return address, " && ".join(conditions)

    # ---- statements
    def define(self, name: str, dtype: DType, expression: str) -> str:
        precise = "precise " if dtype.kind == "f" else ""
        return f"{precise}{dtype.glsl} {name} = {expression};"

    def buffer(self, slot: int) -> str:
        return f"b{slot}"

    def element(self, slot: int, dtype: DType, address: str) -> str:
        """The value of one stored element."""
        return read(self.buffer(slot), dtype, address, self.packing)

    def statements(
        self,
        index: int,
        names: Mapping[int, str],
        coordinates: Mapping[int, str],
        parts: Sequence[str] | None = None,
        name: str | None = None,
    ) -> list[str]:
        """Lines that define instruction `index` as `name`. `names` says what earlier instructions are called.

        `parts` replaces the sums of the instruction's layout where a template has split them already.
        """
        instruction = self.kernel.code[index]
        name = name or f"v{index}"
        dtype = instruction.dtype
        layout: Layout | None = getattr(instruction, "layout", None)
        sums = parts if parts is not None else self.parts(index, layout, coordinates) if layout is not None else []
        match instruction:
            case Literal() if index in self.kept_zeros and dtype.kind == "f" and instruction.value == 0:
                return [self.define(name, dtype, opaque_zero(float(instruction.value), dtype))]
            case Literal():
                return [self.define(name, dtype, literal(instruction.value, dtype))]
            case Index():
                return [self.define(name, dtype, self.guards(index, instruction.layout, sums)[0])]
            case Load():
                address, condition = self.guards(index, instruction.layout, sums)
                if not condition:
                    return [self.define(name, dtype, self.element(instruction.slot, dtype, address))]
                # The address is made harmless first, so that a compiler may run the load ahead of the test.
                inside = self.element(instruction.slot, dtype, f"{name}_in ? {address} : 0")
                fill = literal(instruction.fill, dtype)
                return [f"bool {name}_in = {condition};", self.define(name, dtype, f"{name}_in ? {inside} : {fill}")]
            case Guarded():
                _, condition = self.guards(index, instruction.layout, sums)
                chosen = f"({condition}) ? {names[instruction.value]} : {literal(instruction.fill, dtype)}"
                return [self.define(name, dtype, chosen)]
            case Gather():
                return self._gather(index, instruction, names, sums, name)
            case Compute():
                return [self.define(name, dtype, self.operation(instruction, [names[i] for i in instruction.operands]))]
        raise AssertionError(f"{instruction} has no statement of its own")

    def _gather(
        self, index: int, instruction: Gather, names: Mapping[int, str], sums: Sequence[str], name: str
    ) -> list[str]:
        dtype, position = instruction.dtype, names[instruction.index]
        bound = self.numbers.name((index, "bound"), instruction.bound)
        stride = self.numbers.name((index, "stride"), instruction.stride)
        address, condition = self.guards(index, instruction.layout, sums)
        unsigned = self.kernel.code[instruction.index].dtype.glsl_fields["unsigned"]
        inside = " && ".join(filter(None, [f"{unsigned}({position}) < {unsigned}({bound})", condition]))
        element = self.element(instruction.slot, dtype, f"{name}_in ? {address} + int({position}) * {stride} : 0")
        fill = literal(math.nan if dtype.kind == "f" else 0, dtype)
        return [f"bool {name}_in = {inside};", self.define(name, dtype, f"{name}_in ? {element} : {fill}")]

    def operation(self, instruction: Compute, values: Sequence[str]) -> str:
        glsl = instruction.op.glsl
        assert glsl is not None
        if not isinstance(glsl, str):
            glsl = glsl[self.kernel.code[instruction.operands[-1]].dtype.kind]
        fields = dict(zip(PLACEHOLDERS, values, strict=False))
        text = glsl.format(**fields, **{**dict(instruction.attributes), **instruction.dtype.glsl_fields})
        if not instruction.dtype.narrow or (instruction.dtype.kind == "f" and instruction.op.name in UNROUNDED):
            return text
        return f"narrow_{instruction.dtype.name}({text})"

    def combine(self, instruction: Reduce, x: str, y: str) -> str:
        combine = instruction.op.combine
        assert combine is not None
        text = combine if isinstance(combine, str) else combine[instruction.dtype.kind]
        return text.format(x=x, y=y, type=instruction.dtype.glsl)

    def in_halves(self, name: str, reduce: Reduce, elements: Sequence[str]) -> tuple[list[str], str]:
        """Lines that join `elements`, the first half with the second and so on, and what they come to."""
        lines: list[str] = []
        while len(elements) > 1:
            half = len(elements) // 2
            names = [f"{name}_{half}_{number}" for number in range(half)]
            for made, x, y in zip(names, elements[:half], elements[half:], strict=True):
                lines.append(self.define(made, reduce.dtype, self.combine(reduce, x, y)))
            elements = names
        return lines, elements[0]

    def identity(self, instruction: Reduce) -> str:
        assert instruction.op.init is not None
        return literal(instruction.op.init(instruction.dtype), instruction.dtype)

    def stored(self, number: int, out: Store, value: str, coordinates: Mapping[int, str]) -> tuple[str, str]:
        """The address of a store, and what is stored there."""
        address, condition = self.guards(-1 - number, out.layout, self.parts(-1 - number, out.layout, coordinates))
        assert not condition
        return address, encoded(out.dtype, value, self.packing)

    def store(self, number: int, out: Store, value: str, coordinates: Mapping[int, str]) -> str:
        address, condition = self.guards(-1 - number, out.layout, self.parts(-1 - number, out.layout, coordinates))
        assert not condition
        return store(f"b{out.slot}", out.dtype, address, value, self.packing)

    def decode(self, linear: str, axes: Sequence[int], prefix: str) -> tuple[list[str], dict[int, str]]:
        """Lines that split a row-major number into one coordinate per axis, and the coordinates' names."""
        extents = self.kernel.extents
        lines: list[str] = []
        names = {axis: f"{prefix}{axis}" for axis in axes}
        rest = linear
        for axis in reversed(axes[1:]):
            extent = self.numbers.name(("extent", axis), extents[axis])
            lines.append(f"int {names[axis]} = ({rest}) % {extent};")
            rest = f"({rest}) / {extent}" if rest == linear else f"{rest} / {extent}"
        if axes:
            lines.append(f"int {names[axes[0]]} = {rest};")
        return lines, names


def closure(kernel: Kernel, roots: Sequence[int], within: Sequence[bool] | None = None) -> list[int]:
    """The instructions that `roots` need, in order; with `within`, only those where it holds."""
    from vkgrad.schedule.kernel import operands

    seen: set[int] = set()
    stack = list(roots)
    while stack:
        index = stack.pop()
        if index in seen or (within is not None and not within[index]):
            continue
        seen.add(index)
        stack.extend(operands(kernel.code[index]))
    return sorted(seen)


__all__ = ["Expressions", "Instruction", "Numbers", "closure", "literal"]
