"""From a kernel and a row to a `Shader`: text through a Jinja template, numbers as specialisation constants."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkgrad.codegen.elements import Packing, stored_type
from vkgrad.codegen.expressions import Expressions, Numbers, closure, literal
from vkgrad.codegen.routine import geometry, variables
from vkgrad.codegen.rows import Limits, Row, choose, dispatch_size
from vkgrad.codegen.rows.products import mnk
from vkgrad.codegen.strips import Lanes, Strips, Tiles
from vkgrad.codegen.wide import VECTORS
from vkgrad.ir.dtypes import DType
from vkgrad.schedule.kernel import Call, Compute, Dispatch, Gather, Kernel, Literal, Load, Reduce, Store, parts

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True)
class Shader:
    """Source, its specialisation constants, how many buffers it binds, its grid, and the row that made it.

    Two kernels with equal `source` share one SPIR-V; with equal `numbers` too, one pipeline.
    """

    source: str
    numbers: tuple[int, ...]
    buffers: int
    groups: tuple[int, int, int]
    row: str
    parameters: tuple[tuple[str, Any], ...]


def template_folder() -> Path:
    """Where the templates are: inside an installed package, or beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    return next(path for path in (package / "templates", package.parent / "templates") if path.is_dir())


@cache
def environment() -> jinja2.Environment:
    import jinja2  # a process whose shaders were all rendered before does without

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def template(source: str) -> jinja2.Template:
    """The template of a file in the folder, or one whose text is given (it has more than one line)."""
    return environment().from_string(source) if "\n" in source else environment().get_template(source)


_HEADER = re.compile(r"^// @function (\S+)(?: needs (.*))?$", re.M)


@cache
def functions() -> dict[str, tuple[str, tuple[str, ...]]]:
    """name -> (text, names it needs) of every block in the library of functions."""
    blocks: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path in sorted((template_folder() / "library").glob("*.glsl")):
        text = path.read_text()
        heads = list(_HEADER.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            body = text[head.end() : following.start() if following else len(text)].strip()
            assert head[1] not in blocks, f"{path.name}: {head[1]} is in the library twice"
            blocks[head[1]] = (body, tuple((head[2] or "").split()))
    return blocks


def used_functions(text: str, overloads: Collection[str] = (), native: bool = False) -> list[str]:
    """The blocks of the library that `text` calls, each after those it needs; with these `overloads` of them.

    Blocks marked `@native` take the place of those without where `native` says so.
    """
    blocks, out = functions(), []

    def take(name: str) -> None:
        base = f"{name}@native" if native and f"{name}@native" in blocks else name
        for block in (base, *(f"{name}@{overload}" for overload in overloads)):
            if block in blocks and block not in taken:
                taken.add(block)
                for need in blocks[block][1]:
                    take(need.partition("@")[0])
                out.append(blocks[block][0])

    taken: set[str] = set()
    called = set(re.findall(r"\b([a-z_][A-Za-z0-9_]*)\s*\(", text))
    for name in blocks:
        if name.partition("@")[0] in called:
            take(name.partition("@")[0])
    return out


def overloads(dtypes: Iterable[DType]) -> list[str]:
    """Which overloads of the blocks of the library values of these types need."""
    wide = {dtype.kind for dtype in dtypes if dtype.size_bytes == 8}
    return [name for name, kinds in (("double", "f"), ("int64", "iu")) if wide.intersection(kinds)]


# What the text of a shader must ask for before it may name a type or a function.
EXTENSIONS = {
    r"\bsubgroupBroadcast\(": "GL_KHR_shader_subgroup_ballot : require",
    r"\bcoopmat<": "GL_KHR_cooperative_matrix : require",
    r"\bgl_ScopeSubgroup\b": "GL_KHR_memory_scope_semantics : require",
    r"\bgl_Subgroup\w+": "GL_KHR_shader_subgroup_basic : require",
    r"\b(float16_t|f16vec2)\b": "GL_EXT_shader_explicit_arithmetic_types_float16 : require",
    r"\[\[unroll\]\]": "GL_EXT_control_flow_attributes : enable",
    r"\bu?int8_t\b": "GL_EXT_shader_8bit_storage : require",
    r"\bu?int16_t\b": "GL_EXT_shader_16bit_storage : require",
    r"\bu?int64_t\b": "GL_EXT_shader_explicit_arithmetic_types_int64 : require",
}


def extensions(text: str) -> list[str]:
    return [f"#extension {name}" for pattern, name in EXTENSIONS.items() if re.search(pattern, text)]


def buffer_declarations(
    dispatch: Dispatch, body: str, packing: Packing = frozenset(), hidden: Set[int] = frozenset()
) -> list[str]:
    """A block per slot, and more over the same memory where `body` takes four elements, or eight halves, at a time.

    Slots in `hidden` have none.
    """
    written = set(dispatch.written)
    types: dict[int, str] = {}
    for kernel in parts(dispatch):
        own = [dispatch.slots.index(buffer) for buffer in kernel.slots]
        for part in (*kernel.code, *kernel.stores):
            if isinstance(part, (Load, Gather, Store)):
                types[own[part.slot]] = stored_type(part.dtype, packing)
    access = ["" if slot in written else "readonly " for slot in range(len(dispatch.slots))]
    shown = [slot for slot in range(len(dispatch.slots)) if slot not in hidden]
    return (
        [f"layout(binding = {slot}) {access[slot]}buffer B{slot} {{ {types[slot]} b{slot}[]; }};" for slot in shown]
        + [
            f"layout(binding = {slot}) {access[slot]}buffer B{slot}_four {{ {VECTORS[types[slot]]} b{slot}_four[]; }};"
            for slot in shown
            if f"b{slot}_four[" in body
        ]
        + [
            f"layout(binding = {slot}) {access[slot]}buffer B{slot}_eight {{ uvec4 b{slot}_eight[]; }};"
            for slot in shown
            if f"b{slot}_eight[" in body
        ]
    )


class View:
    """What a template sees of a kernel: lists of lines, already in the right order. Templates hold the loops."""

    def __init__(self, kernel: Kernel, packing: Packing = frozenset()):
        self.kernel = kernel
        self.text = Expressions(kernel, packing)
        self.full = kernel.is_full()
        self.level = kernel.levels()
        self.parallel_axes = range(kernel.parallel)
        self.reduced_axes = range(kernel.parallel, len(kernel.extents))

    def number(self, role: str, value: int) -> str:
        return self.text.numbers.name((role,), value)

    def names(self) -> dict[int, str]:
        return {i: f"v{i}" for i in range(len(self.kernel.code))}

    def coordinates(self) -> dict[int, str]:
        return {axis: f"c{axis}" for axis in range(len(self.kernel.extents))}

    # ---- the plain nest
    def place(self, linear: str) -> list[str]:
        return self.text.decode(linear, list(self.parallel_axes), "c")[0]

    def term(self, linear: str) -> list[str]:
        return self.text.decode(linear, list(self.reduced_axes), "c")[0]

    def slot_values(self, level: int) -> list[str]:
        """Definitions of what is known per place once `level` loops are done."""
        lines = []
        for index, instruction in enumerate(self.kernel.code):
            if not self.full[index] and self.level[index] == level and not isinstance(instruction, Reduce):
                lines += self.text.statements(index, self.names(), self.coordinates())
        return lines

    def reductions(self, level: int) -> list[dict[str, str]]:
        out = []
        for index, instruction in enumerate(self.kernel.code):
            if isinstance(instruction, Reduce) and self.level[index] == level + 1:
                out.append(
                    {
                        "name": f"v{index}",
                        "type": instruction.dtype.glsl,
                        "precise": "precise " if instruction.dtype.kind == "f" else "",
                        "identity": self.text.identity(instruction),
                        "join": self.text.combine(instruction, f"v{index}", f"v{instruction.value}"),
                        "join_shared": self.text.combine(instruction, f"s{index}[thread]", f"s{index}[thread + width]"),
                        "shared": f"s{index}",
                    }
                )
        return out

    def term_values(self, level: int) -> list[str]:
        """Definitions, for one term, of what the reductions of `level` join."""
        roots = [
            instruction.value
            for index, instruction in enumerate(self.kernel.code)
            if isinstance(instruction, Reduce) and self.level[index] == level + 1
        ]
        return self._full_lines(roots)

    def _full_lines(self, roots: list[int]) -> list[str]:
        lines: list[str] = []
        for index in closure(self.kernel, roots, self.full):
            lines += self.text.statements(index, self.names(), self.coordinates())
        return lines

    @property
    def depth(self) -> int:
        return max(self.level, default=0)

    def stores_per_term(self) -> list[str]:
        chosen = [(n, s) for n, s in enumerate(self.kernel.stores) if self.kernel.stores_along(s)]
        lines = self._full_lines([store.value for _, store in chosen])
        return lines + [self.text.store(n, s, f"v{s.value}", self.coordinates()) for n, s in chosen]

    def stores_per_place(self) -> list[str]:
        return [
            self.text.store(n, s, f"v{s.value}", self.coordinates())
            for n, s in enumerate(self.kernel.stores)
            if not self.kernel.stores_along(s)
        ]

    # ---- several places or terms at once
    def in_strips(self, width: int) -> Strips:
        return Strips(self.text, width)

    def in_lanes(self, along: str, lanes: int, own: int, local: int, held: bool) -> Lanes:
        return Lanes(self.text, along, lanes, own, local, held)

    def in_tiles(self, turned: int, side: int, wide_in: bool, wide_out: bool) -> Tiles:
        return Tiles(self.text, turned, side, wide_in, wide_out)

    # ---- contractions
    def product(self) -> ProductView:
        return ProductView(self)


@dataclass
class Fetch:
    """A load whose value is needed later: `name` is what it is called then, if `condition` held, and else `fill`."""

    name: str
    type: str
    condition: str
    element: str  # with a place for `inside`, which must hold for the address to be taken
    fill: str
    at_rest: str  # the array of what of its address is fixed while K runs ...
    stride: str  # ... and by how much a step along K moves it, where K is one axis; "" for not at all
    plain: str  # element number `at`; four or eight of them, where `at` counts so many
    four: str
    eight: str


@dataclass
class Operand:
    """One side of a product, for tiled templates: sums that are constant along K are worked out before the loop."""

    name: str
    type: str
    fixed: list[tuple[str, str]]  # (array name, expression over the operand's own coordinates)
    along_k: list[tuple[str, str]]  # (name, expression over the coordinates of K)
    value: list[str]  # lines that define `name`_value from `fixed`[t] and `along_k`
    fetches: list[Fetch]  # the same in two steps: what is loaded first ...
    finish: list[str]  # ... and the lines that make `name`_value of it, if they can do without addresses
    in_two_steps: bool


@dataclass
class Staged:
    """How the invocations of a workgroup bring bk steps of one operand into shared memory.

    They load units of `unit_rows` x `unit_k` elements: a pass takes lanes_rows x lanes_k units, and there are
    row_passes x k_passes of them; `active` invocations take part. `pitch` is the length of a step's row there, in words
    of four: one more than needed, which spreads a column over the banks. `table`: sums along K come from shared memory.
    """

    side: Operand
    group: str
    first: str
    bound: str
    dense: str
    wide: bool
    pitch: int
    unit_rows: int
    unit_k: int
    lanes_rows: int
    lanes_k: int
    row_passes: int
    k_passes: int
    table: bool
    wide_element: str  # four elements in row t of the fixed sums
    rows: int
    linear: bool  # addresses are a sum that K moves evenly, and nothing is tested
    moves: int  # by how many words of four a row is moved for every fourth step, instead of a longer pitch

    @property
    def name(self) -> str:
        return self.side.name

    @property
    def active(self) -> int:
        return self.lanes_rows * self.lanes_k


def largest_divisor(count: int, most: int) -> int:
    return next(d for d in range(min(count, most), 0, -1) if count % d == 0)


@dataclass
class StoredValue:
    """One store of a product kernel in pieces, for templates that store four elements at once."""

    slot: int
    address: str
    value: str
    vector: str


class ProductView:
    """A contraction as templates see it: batch, M, N, K groups, two operands and what follows the sum."""

    def __init__(self, view: View):
        self.view, kernel = view, view.kernel
        product = kernel.product
        assert product is not None
        ends = [product.batch, product.batch + product.m, kernel.parallel, len(kernel.extents)]
        self.batch_axes, self.m_axes, self.n_axes, self.k_axes = (
            list(range(start, end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)
        )
        self.reduce = next(i for i, instruction in enumerate(kernel.code) if isinstance(instruction, Reduce))
        self.type = kernel.code[self.reduce].dtype.glsl
        self.is_float = kernel.code[self.reduce].dtype.kind == "f"
        self.batches, self.m, self.n, self.k = (
            view.number(role, size) for role, size in zip(("batches", "M", "N", "K"), mnk(kernel), strict=True)
        )
        self.left = self._operand("left", product.left, [*self.batch_axes, *self.m_axes])
        self.right = self._operand("right", product.right, [*self.batch_axes, *self.n_axes])

    def decode(self, group: str, linear: str) -> list[str]:
        axes = {"batch": self.batch_axes, "m": self.m_axes, "n": self.n_axes, "k": self.k_axes}[group]
        return self.view.text.decode(linear, axes, "c")[0]

    def extent(self, axis: int) -> str:
        return self.view.text.numbers.name(("extent", axis), self.view.kernel.extents[axis])

    def staged(
        self,
        name: str,
        rows: int,
        bk: int,
        threads: int,
        dense: str,
        wide: bool,
        padded: bool = True,
        unit: int = 0,
    ) -> Staged:
        """The work of `threads` invocations that stage bk steps of `rows` rows of one side, along what is dense."""
        side, group, bound = (self.left, "m", self.m) if name == "left" else (self.right, "n", self.n)
        unit = unit or (4 if wide else 1)
        unit_rows, unit_k = (1, unit) if dense == "k" else (unit, 1)
        row_units, k_units = rows // unit_rows, bk // unit_k
        if dense == "k":
            lanes_k = largest_divisor(k_units, threads)
            lanes_rows = largest_divisor(row_units, threads // lanes_k)
        else:
            lanes_rows = largest_divisor(row_units, threads)
            lanes_k = largest_divisor(k_units, threads // lanes_rows)
        element, pitch = "", rows // 4 + int(padded)
        if unit == 8:
            pitch = (bk if dense == "k" else rows) // 8 + 1
        elif wide:
            product = self.view.kernel.product
            assert product is not None
            index = product.left if name == "left" else product.right
            load = self.view.kernel.code[index]
            assert isinstance(load, Load)
            along = "".join(f" + {sum_name}" for sum_name, _ in side.along_k)
            element = f"b{load.slot}_four[k_inside ? uint({side.fixed[0][0]}[t]{along}) >> 2 : 0u]"
        linear = len(self.k_axes) == 1 and side.in_two_steps and not any(fetch.condition for fetch in side.fetches)
        moves = 8 // lanes_k if not padded and wide and dense == "k" and lanes_k <= 8 and rows >= 32 else 0
        return Staged(
            side, group, f"{group}_first", bound, dense, wide, pitch, unit_rows, unit_k, lanes_rows, lanes_k,
            row_units // lanes_rows, k_units // lanes_k,
            table=dense == "own" and len(self.k_axes) > 1 and 0 < len(side.along_k) <= 4, wide_element=element,
            rows=rows, linear=linear, moves=moves,
        )  # fmt: skip

    def _operand(self, name: str, root: int, own: list[int]) -> Operand:
        """`own` are the axes that are fixed while K runs."""
        text, kernel = self.view.text, self.view.kernel
        coordinates = self.view.coordinates()
        fixed: list[tuple[str, str]] = []
        along: list[tuple[str, str]] = []
        lines: list[str] = []
        fetches: list[Fetch] = []
        finish: list[str] = []
        in_two_steps = True
        names: dict[int, str] = {}
        for index in closure(kernel, [root]):
            instruction = kernel.code[index]
            names[index] = f"{name}_value" if index == root else f"{name}_{index}"
            layout = getattr(instruction, "layout", None)
            sums = None
            if layout is not None:
                at_rest = text.parts(index, layout, {a: coordinates[a] for a in own})
                moving = text.parts(index, layout, {a: coordinates[a] for a in self.k_axes}, constants=False)
                sums = []
                for number, (rest, move) in enumerate(zip(at_rest, moving, strict=True)):
                    base = f"{name}_{index}_{number}"
                    fixed.append((base, rest))
                    if move == "0":
                        sums.append(f"{base}[t]")
                    else:
                        along.append((f"{base}_k", move))
                        sums.append(f"{base}[t] + {base}_k")
            defined = text.statements(index, names, coordinates, parts=sums, name=names[index])
            lines += defined
            if isinstance(instruction, Load):
                assert sums is not None
                address, condition = text.guards(index, instruction.layout, sums)
                dtype = instruction.dtype
                element = text.element(instruction.slot, dtype, f"{{inside}} ? {address} : 0")
                fill = literal(instruction.fill, dtype)
                last = len(kernel.extents) - 1
                step = instruction.layout.strides[last] if self.k_axes else 0
                stride = text.numbers.name((index, 0, last), step) if step else ""
                plain, four = text.element(instruction.slot, dtype, "at"), f"b{instruction.slot}_four[at]"
                own_sum = f"{name}_{index}_0"
                eight = f"b{instruction.slot}_eight[at]"
                fetches.append(
                    Fetch(names[index], dtype.glsl, condition, element, fill, own_sum, stride, plain, four, eight)
                )
            else:
                finish += defined
                in_two_steps &= isinstance(instruction, (Literal, Compute))
        return Operand(name, kernel.code[root].dtype.glsl, fixed, along, lines, fetches, finish, in_two_steps)

    def finish(self) -> list[str]:
        """Lines after the sum for one output element, which is called v{reduce}: epilogue and stores."""
        return self.after() + self.view.stores_per_place()

    def after(self) -> list[str]:
        """The epilogue without its stores."""
        view = self.view
        lines = []
        for index, instruction in enumerate(view.kernel.code):
            if not view.full[index] and not isinstance(instruction, Reduce) and index in self._after():
                lines += view.text.statements(index, view.names(), view.coordinates())
        return lines

    @property
    def stores(self) -> list[StoredValue]:
        """What `finish` stores, in pieces."""
        view, out = self.view, []
        for number, store in enumerate(view.kernel.stores):
            address, value = view.text.stored(number, store, f"v{store.value}", view.coordinates())
            out.append(StoredValue(store.slot, address, value, VECTORS[store.dtype.storage]))
        return out

    def _after(self) -> set[int]:
        kernel = self.view.kernel
        skip = [index != self.reduce for index in range(len(kernel.code))]
        return set(closure(kernel, [store.value for store in kernel.stores], skip))

    @property
    def result(self) -> str:
        return f"v{self.reduce}"


def render(kernel: Kernel, limits: Limits, row: Row | None = None) -> Shader:
    """The shader for `kernel` by the given row, or by the first that applies; a routine has a template of its own."""
    if kernel.routine is not None:
        return _render_routine(kernel, kernel.routine, limits)
    row = row or choose(kernel, limits)
    parameters = row.parameters(kernel, limits)
    view = View(kernel, limits.packing)
    groups = dispatch_size(row.groups(kernel, parameters), limits)
    view.number("grid width", groups[0])
    body = environment().get_template(row.template).render(view=view, kernel=kernel, **parameters)
    return shader_of(kernel, body, limits, view.text.numbers, groups, row.name, tuple(parameters.items()))


def _render_routine(kernel: Kernel, call: Call, limits: Limits) -> Shader:
    found = geometry(kernel, call, limits)
    groups, numbers = dispatch_size(found.groups, limits), Numbers()
    assert call.op.template is not None
    body = template(call.op.template).render(variables(kernel, call, found, numbers, groups[0], limits.packing))
    return shader_of(kernel, body, limits, numbers, groups, call.op.name, tuple(found.parameters.items()))


def shader_of(
    dispatch: Dispatch,
    body: str,
    limits: Limits,
    numbers: Numbers,
    groups: tuple[int, int, int],
    row: str,
    parameters: tuple[tuple[str, Any], ...],
    hidden: Set[int] = frozenset(),
) -> Shader:
    """`body` with everything that it needs before it."""
    needed = overloads(part.dtype for kernel in parts(dispatch) for part in kernel.code)
    lines = [
        *numbers.declarations(),
        *buffer_declarations(dispatch, body, limits.packing, hidden),
        *used_functions(body, needed, limits.halves),
        body,
    ]
    lines = ["#version 450", *extensions("\n".join(lines)), *lines]
    return Shader("\n".join(lines), tuple(numbers.values), len(dispatch.slots), groups, row, parameters)
