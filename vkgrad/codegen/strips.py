"""What the templates of wide nests see of a kernel: strips of places, lanes that share terms, tiles that are turned.

Templates hold barriers and loops over workgroups; the lines between them come from here. This module must not know
which row is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from vkgrad.codegen.expressions import Expressions, closure
from vkgrad.codegen.wide import Wide
from vkgrad.schedule.kernel import Kernel, Load, Reduce

# Lines that use the values of a group of terms, given its tag, its turn, and the condition under which it is one.
Use = Callable[[str, int, str], list[str]]
JOINED_AT_ONCE = 32  # partial sums that every invocation joins, rather than wait for others


class Strips:
    """Element-wise kernels: groups of `width` neighbours along the last axis, several of them under way at once."""

    def __init__(self, text: Expressions, width: int):
        self.text, self.kernel, self.width = text, text.kernel, width
        self.last = max(len(self.kernel.extents) - 1, 0)
        self.wide = Wide(text, self.last, width if self.kernel.extents else 1)
        self.units = text.numbers.name(("units",), self.kernel.places // width)
        self.rest = self.kernel.places % width

    def place(self, tag: str, unit: str) -> list[str]:
        """Lines that work out where a group is."""
        lines, self.coordinates = self.text.decode(f"{unit} * {self.width}", self._axes, f"{tag}_c")
        return lines

    @property
    def _axes(self) -> list[int]:
        return list(range(len(self.kernel.extents)))

    def _at(self, tag: str) -> dict[int, str]:
        return {axis: f"{tag}_c{axis}" for axis in self._axes}

    def loads(self, tag: str) -> list[str]:
        return self.wide.loads(range(len(self.kernel.code)), tag, self._at(tag))

    def values(self, tag: str) -> list[str]:
        return self.wide.values(range(len(self.kernel.code)), tag, self._at(tag))

    def stores(self, tag: str) -> list[str]:
        return [line for n in range(len(self.kernel.stores)) for line in self.wide.store(n, tag, self._at(tag))]


class Lanes:
    """Kernels that reduce: `lanes` share the terms of a place, of which an invocation has `own`.

    along   "terms": an invocation takes four neighbours among the terms; "places": it takes four places; "": neither
    held    whether what was loaded stays in registers between one loop over R and the next

    The order of a sum is that of lanes which take every so-manieth term and are joined in halves. Lane number
    (j * share + t) * four + k is that of invocation t of `share`.
    """

    def __init__(self, text: Expressions, along: str, lanes: int, own: int, local: int, held: bool):
        self.text, kernel = text, text.kernel
        self.kernel, self.along, self.lanes, self.local, self.held = kernel, along, lanes, local, held
        self.four = 4 if along == "terms" else 1  # lanes side by side
        self.places = 4 if along == "places" else 1  # of an invocation
        self.turns = own // self.four
        self.share = lanes // own
        self.level, self.full = kernel.levels(), kernel.is_full()
        self.depth = max(self.level, default=0)
        self.place_axes = list(range(kernel.parallel))
        self.term_axes = list(range(kernel.parallel, len(kernel.extents)))
        axis = len(kernel.extents) - 1 if along == "terms" else kernel.parallel - 1
        self.width = self.four * self.places
        self.wide = Wide(text, axis, self.width)
        self.units = text.numbers.name(("units",), kernel.places // self.places)
        self.steps = -(-kernel.terms // lanes)
        self.is_cut = kernel.terms % lanes != 0
        self.by_term = along == "terms" or (along == "" and self._terms_are_dense())
        self._placed: set[str] = set()  # tags of groups whose coordinates are known
        self.partial = self.share * self.four  # sums of a place that are joined through shared memory

    def _terms_are_dense(self) -> bool:
        last = len(self.kernel.extents) - 1
        loads = [i.layout for i in self.kernel.code if isinstance(i, Load)]
        dense = sum(abs(layout.strides[last]) == 1 for layout in loads)
        others = sum(abs(layout.strides[self.kernel.parallel - 1]) == 1 for layout in loads if self.kernel.parallel)
        return dense >= others

    # ---- where
    def place(self, unit: str) -> list[str]:
        linear = f"{unit} * {self.places}" if self.places > 1 else unit
        return self.text.decode(linear, self.place_axes, "c")[0]

    def _place_at(self) -> dict[int, str]:
        return {axis: f"c{axis}" for axis in self.place_axes}

    def _term_at(self, tag: str) -> dict[int, str]:
        return {**self._place_at(), **{axis: f"{tag}_c{axis}" for axis in self.term_axes}}

    def _term(self, tag: str, base: str, turn: int, cut: bool) -> list[str]:
        """Lines that work out which terms a group has."""
        four = f" * {self.four}" if self.four > 1 else ""
        term = f"{base} + ({turn * self.share} + t){four}"
        terms = self.text.numbers.name(("terms",), self.kernel.terms)
        lines = [f"int {tag}_term = {term};"]
        if cut:
            lines.append(f"bool {tag}_in = {tag}_term < {terms};")
            lines.append(f"{tag}_term = min({tag}_term, {terms} - {self.four});")
        return lines + self.text.decode(f"{tag}_term", self.term_axes, f"{tag}_c")[0]

    # ---- what
    def sums(self, level: int) -> list[tuple[int, Reduce]]:
        return [
            (index, instruction)
            for index, instruction in enumerate(self.kernel.code)
            if isinstance(instruction, Reduce) and self.level[index] == level + 1
        ]

    @property
    def shared(self) -> list[tuple[str, str, int]]:
        """Type, name and elements of shared memory."""
        if self.share == 1:
            return []
        return [
            (reduce.dtype.glsl, f"s{index}", self.partial * self.local * self.places)
            for level in range(self.depth)
            for index, reduce in self.sums(level)
        ]

    def place_values(self, level: int) -> list[str]:
        """Definitions of what is known per place once `level` loops are done."""
        chosen = [
            index
            for index, instruction in enumerate(self.kernel.code)
            if not self.full[index] and self.level[index] == level and not isinstance(instruction, Reduce)
        ]
        return self.wide.values(chosen, "p", self._place_at())

    def _over_terms(self, roots: Sequence[int], name: str, use: Use) -> list[str]:
        """Lines that go through R for `roots`; `use(tag, turn, condition)` gives what is done with their values."""
        indices = closure(self.kernel, roots, self.full)
        if self.held:
            groups = [
                (f"s{step}_{turn}", step * self.lanes, turn, self.is_cut and step == self.steps - 1)
                for step in range(self.steps)
                for turn in range(self.turns)
            ]
            return self._groups(groups, indices, use)
        whole = self.kernel.terms // self.lanes * self.lanes
        lines: list[str] = []
        if whole:
            end = self.text.numbers.name(("whole",), whole)
            inner = self._groups([(f"{name}_{turn}", "base", turn, False) for turn in range(self.turns)], indices, use)
            lines = [f"for (int base = 0; base < {end}; base += {self.lanes}) {{", *inner, "}"]
        if self.is_cut:
            base = self.text.numbers.name(("whole",), whole) if whole else "0"
            inner = self._groups([(f"{name}e_{turn}", base, turn, True) for turn in range(self.turns)], indices, use)
            lines += ["{", *inner, "}"]
        return lines

    def _groups(self, groups: Iterable[tuple], indices: Sequence[int], use: Use) -> list[str]:
        lines: list[str] = []
        groups = list(groups)
        for tag, base, turn, cut in groups:
            if tag not in self._placed:
                self._placed.add(tag)
                lines += self._term(tag, str(base), turn, cut)
            lines += self.wide.loads(indices, tag, self._term_at(tag))
        for tag, _, turn, cut in groups:
            lines += self.wide.values(indices, tag, self._term_at(tag))
            lines += use(tag, turn, f"{tag}_in" if cut else "")
        return lines

    def sum_up(self, level: int) -> list[str]:
        """Lines that add up the terms of each lane, and join the lanes that one invocation has `share` apart."""
        sums = self.sums(level)
        lines = [
            self.text.define(f"a{index}_{turn}_{k}", reduce.dtype, self.text.identity(reduce))
            for index, reduce in sums
            for turn in range(self.turns)
            for k in range(self.width)
        ]

        def join(tag: str, turn: int, condition: str) -> list[str]:
            out = []
            for index, reduce in sums:
                for k in range(self.width):
                    name = f"a{index}_{turn}_{k}"
                    joined = self.text.combine(reduce, name, self.wide.name(reduce.value, tag, k))
                    out.append(f"{name} = {joined};")
            return [f"if ({condition}) {{", *out, "}"] if condition else out

        lines += self._over_terms([reduce.value for _, reduce in sums], f"l{level}", join)
        for index, reduce in sums:
            for k in range(self.width):
                made, total = self.text.in_halves(
                    f"a{index}_{k}", reduce, [f"a{index}_{turn}_{k}" for turn in range(self.turns)]
                )
                lines += [*made, self.text.define(f"t{index}_{k}", reduce.dtype, total)]
                if self.share > 1:
                    lines.append(f"s{index}[{self._shared_at(*self._own_partial(k))}] = t{index}_{k};")
            if self.share == 1:
                lines += self._finished(index, reduce, [f"t{index}_{k}" for k in range(self.width)])
        return lines

    def _own_partial(self, k: int) -> tuple[str, str]:
        """Number of a partial sum, and of its place in the workgroup."""
        if self.four > 1:
            return f"t * {self.four} + {k}", "own"
        return "t", f"own * {self.places} + {k}" if self.places > 1 else "own"

    def _shared_at(self, number: str, place: str) -> str:
        if self.by_term:
            return f"({place}) * {self.partial} + {number}"
        return f"({number}) * {self.local * self.places} + {place}"

    def _finished(self, index: int, reduce: Reduce, elements: list[str]) -> list[str]:
        """Lines that define the sum from `elements`: of one place, or one of each place."""
        if self.four > 1:
            made, total = self.text.in_halves(f"f{index}", reduce, elements)
            return [*made, self.text.define(self.wide.name(index, "p", 0), reduce.dtype, total)]
        names = [self.wide.name(index, "p", k) for k in range(self.places)]
        # A sum of what is the same for all four places is one sum.
        return [
            self.text.define(name, reduce.dtype, element)
            for name, element in dict(zip(names, elements, strict=True)).items()
        ]

    @property
    def joiners(self) -> int:
        """How many invocations of a place first join more partial sums than every invocation could; 0 for none."""
        return 0 if self.partial <= JOINED_AT_ONCE else min(JOINED_AT_ONCE, self.share)

    def join_many(self, level: int) -> list[str]:
        """Lines for the first `joiners` invocations of a place: partial sums are joined until as many are left."""
        lines = []
        for index, reduce in self.sums(level):
            for k in range(self.places):
                place = f"own * {self.places} + {k}" if self.places > 1 else "own"
                elements = [
                    f"s{index}[{self._shared_at(f't + {first}', place)}]"
                    for first in range(0, self.partial, self.joiners)
                ]
                made, total = self.text.in_halves(f"m{index}_{k}", reduce, elements)
                lines += [*made, f"s{index}[{self._shared_at('t', place)}] = {total};"]
        return lines

    def join_all(self, level: int) -> list[str]:
        """Lines that define the sums from what is left."""
        lines = []
        for index, reduce in self.sums(level):
            found = []
            for k in range(self.places):
                place = f"own * {self.places} + {k}" if self.places > 1 else "own"
                elements = [
                    f"s{index}[{self._shared_at(str(number), place)}]" for number in range(self.joiners or self.partial)
                ]
                made, total = self.text.in_halves(f"j{index}_{k}", reduce, elements)
                lines += made
                found.append(total)
            names = [self.wide.name(index, "p", k) for k in range(self.places)]
            lines += [
                self.text.define(name, reduce.dtype, total)
                for name, total in dict(zip(names, found, strict=True)).items()
            ]
        return lines

    # ---- stores
    def stores_per_term(self) -> list[str]:
        chosen = [(n, s) for n, s in enumerate(self.kernel.stores) if self.kernel.stores_along(s)]
        if not chosen:
            return []

        def store(tag: str, turn: int, condition: str) -> list[str]:
            out = [line for n, _ in chosen for line in self.wide.store(n, tag, self._term_at(tag))]
            return [f"if (inside{' && ' + condition if condition else ''}) {{", *out, "}"]

        return self._over_terms([s.value for _, s in chosen], "out", store)

    def stores_per_place(self) -> list[str]:
        out: list[str] = []
        for number, store in enumerate(self.kernel.stores):
            if not self.kernel.stores_along(store):
                out += (
                    self.wide.store(number, "p", self._place_at())
                    if self.places > 1
                    else [self.text.store(number, store, self.wide.name(store.value, "p", 0), self._place_at())]
                )
        return out


class Tiles:
    """Element-wise kernels whose loads lie along another axis than their stores: a tile is turned in shared memory.

    turned   the axis along which such loads are dense
    side     elements of a tile along this axis, and along the last one
    """

    def __init__(self, text: Expressions, turned: int, side: int, wide_in: bool, wide_out: bool):
        self.text, self.kernel, self.turned, self.side = text, text.kernel, turned, side
        self.last = len(self.kernel.extents) - 1
        self.into = 4 if wide_in else 1
        self.width = 4 if wide_out else 1
        self.loader = Wide(text, turned, self.into)
        self.wide = Wide(text, self.last, self.width)
        self.staged = turned_loads(self.kernel, turned)
        self.others = [axis for axis in range(len(self.kernel.extents)) if axis not in (turned, self.last)]
        numbers = text.numbers
        self.high = numbers.name(("extent", turned), self.kernel.extents[turned])
        self.across = numbers.name(("extent", self.last), self.kernel.extents[self.last])
        self.tiles_across = numbers.name(("tiles across",), -(-self.kernel.extents[self.last] // side))
        self.tiles_high = numbers.name(("tiles high",), -(-self.kernel.extents[turned] // side))
        self.batches = numbers.name(("batches",), prod(self.kernel.extents[axis] for axis in self.others))

    def place(self, batch: str) -> list[str]:
        return self.text.decode(batch, self.others, "c")[0]

    def _at(self, row: str, column: str) -> dict[int, str]:
        return {**{axis: f"c{axis}" for axis in self.others}, self.turned: row, self.last: column}

    def glsl(self, index: int) -> str:
        return self.kernel.code[index].dtype.glsl

    def fetch(self, tag: str) -> list[str]:
        """Lines that load what is turned, for a group that starts at coordinates `tag`_row and `tag`_column."""
        return self.loader.values(self.staged, tag, self._at(f"{tag}_row", f"{tag}_column"))

    def fetched(self, index: int, tag: str, number: int) -> str:
        return self.loader.name(index, tag, number)

    def values(self, tag: str) -> list[str]:
        """Lines for a group of neighbours along the last axis, whose turned elements begin at `tag`_at in the tile."""
        self._turn(tag)
        return self.wide.values(range(len(self.kernel.code)), tag, self._at(f"{tag}_row", f"{tag}_column"))

    def stores(self, tag: str) -> list[str]:
        self._turn(tag)
        at = self._at(f"{tag}_row", f"{tag}_column")
        return [line for n in range(len(self.kernel.stores)) for line in self.wide.store(n, tag, at)]

    def _turn(self, tag: str) -> None:
        self.wide.elsewhere = {
            (index, k): f"tile{index}[{tag}_at + {k}]" for index in self.staged for k in range(self.width)
        }


def turned_loads(kernel: Kernel, turned: int) -> list[int]:
    """The loads whose elements are dense along axis `turned`."""
    last = len(kernel.extents) - 1
    return [
        index
        for index, instruction in enumerate(kernel.code)
        if isinstance(instruction, Load)
        and abs(instruction.layout.strides[turned]) == 1
        and abs(instruction.layout.strides[last]) > 1
    ]


__all__ = ["Lanes", "Strips", "Tiles", "turned_loads"]
