"""A kernel with its axes in the order of NumPy's arrays: what there is to compute, over which extents.

`within` cuts a part out of it, which is a space like any other. How it is computed is `program.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from vkgrad.ir.layout import Guard, Layout
from vkgrad.runtime.access import Region, shape_of
from vkgrad.schedule.kernel import Instruction, Kernel, Reduce, Store, operands


@dataclass(frozen=True)
class Space:
    """A loop nest: instructions and stores over `extents`, of which the axes `reduced` are R."""

    code: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    extents: tuple[int, ...]
    reduced: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Kernel, order: Sequence[int] | None = None) -> Space:
        """The space of a kernel, its axes permuted; one axis of extent 1 where the kernel has none.

        (Without it, values would be NumPy scalars, which NumPy 1 promotes by other rules than arrays.)
        """
        order = tuple(range(len(kernel.extents))) if order is None else tuple(order)

        def arranged(layout: Layout) -> Layout:
            return layout.permute(order) if order else Layout((1,), (0,), layout.offset, _widened(layout.guards))

        reduced = tuple(place for place, axis in enumerate(order) if axis >= kernel.parallel)
        extents = tuple(kernel.extents[axis] for axis in order) or (1,)
        return cls(relaid(kernel.code, arranged), relaid(kernel.stores, arranged), extents, reduced)

    def within(self, region: Region) -> Space:
        return Space(relaid(self.code, region.of), relaid(self.stores, region.of), region.counts, self.reduced)

    @property
    def terms(self) -> int:
        return prod(self.extents[axis] for axis in self.reduced)

    def needs(self, roots: Iterable[int], done: Iterable[int] = (), cut: Iterable[int] = ()) -> list[int]:
        """The instructions that `roots` are made from, in order; without those of `done`, and nothing below `cut`."""
        seen, cut = set(done), set(cut)
        out: list[int] = []
        stack = list(roots)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                out.append(index)
                if index not in cut:
                    stack.extend(operands(self.code[index]))
        return sorted(out)

    def shapes(self, given: Mapping[int, tuple[int, ...]] | None = None) -> list[tuple[int, ...]]:
        """The shape of each instruction's array."""
        shapes: list[tuple[int, ...]] = []
        for index, instruction in enumerate(self.code):
            layout = getattr(instruction, "layout", None)
            parts = [shapes[i] for i in operands(instruction)]
            parts.append(shape_of(layout) if layout is not None else (1,) * len(self.extents))
            shape = tuple(map(max, *parts)) if len(parts) > 1 else parts[0]
            if isinstance(instruction, Reduce):
                shape = tuple(1 if a in self.reduced else e for a, e in enumerate(shape))
            shapes.append((given or {}).get(index, shape))
        return shapes


def _widened(guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    return tuple(replace(g, coefficients=(0,)) for g in guards)


def relaid(items: Sequence[Any], move: Callable[[Layout], Layout]) -> tuple[Any, ...]:
    """Instructions or stores with each layout moved."""
    return tuple(replace(item, layout=move(item.layout)) if hasattr(item, "layout") else item for item in items)
