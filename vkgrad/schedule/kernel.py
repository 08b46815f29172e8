"""What one dispatch computes: a loop nest over parallel and reduced axes, as data.

A `Kernel` is a list of instructions in single-assignment form over an iteration space whose axes are first the
parallel ones (P), then the reduced ones (R). An instruction is *full* when its value differs along R; a `Reduce` turns
a full value into one per place of P. A plain element-wise kernel has no R; softmax over rows has two reductions one
after the other; a matrix product is a `Reduce` of a product, marked so that faster template rows can claim it.

A routine is no nest: its kernel ends in a `Call` on whole arrays, and its one axis P counts the elements of its result.

This module must not know GLSL, devices or buffers: buffers are slot numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from vkgrad.ir.dtypes import DType
from vkgrad.ir.layout import Layout
from vkgrad.ir.op import Op, Shape


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer; where a guard of the layout fails, `fill`."""

    slot: int
    layout: Layout
    fill: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Index:
    """The address that `layout` gives, as a value: how counters (`iota`) are computed."""

    layout: Layout
    dtype: DType


@dataclass(frozen=True, slots=True)
class Literal:
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Compute:
    """An element-wise op on earlier instructions."""

    op: Op
    operands: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Guarded:
    """`value` where the guards of `layout` hold, `fill` elsewhere: padding of something computed."""

    layout: Layout
    value: int
    fill: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Gather:
    """An element whose address along one axis is computed: layout's address + index * stride, if 0 <= index < bound."""

    slot: int
    layout: Layout
    index: int
    stride: int
    bound: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Reduce:
    """`value` joined over R by the reduction `op`."""

    op: Op
    value: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call:
    """A routine on whole arrays in row-major order: operand i is a `Load` of all elements of `shapes[i]`."""

    op: Op
    operands: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    shapes: tuple[Shape, ...]
    shape: Shape
    dtype: DType


Instruction = Load | Index | Literal | Compute | Guarded | Gather | Reduce | Call


def operands(instruction: Instruction) -> tuple[int, ...]:
    match instruction:
        case Compute() | Call():
            return instruction.operands
        case Guarded() | Reduce():
            return (instruction.value,)
        case Gather():
            return (instruction.index,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Store:
    """Write instruction `value` to a buffer."""

    slot: int
    layout: Layout
    value: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Product:
    """The operands of a contraction, and how many of the parallel axes are batch, M and N (in this order)."""

    left: int
    right: int
    batch: int
    m: int
    n: int


@dataclass(frozen=True)
class Kernel:
    """One dispatch.

    extents   extents of P, then of R
    parallel  how many axes are in P
    code      instructions, operands first
    stores    what is written
    slots     slot number -> buffer id of the plan
    product   set when the one reduction is a contraction
    labels    op names for people
    """

    extents: tuple[int, ...]
    parallel: int
    code: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    slots: tuple[int, ...]
    product: Product | None = None
    labels: tuple[str, ...] = field(default=(), compare=False)

    @property
    def places(self) -> int:
        """How many places P has."""
        return prod(self.extents[: self.parallel])

    @property
    def terms(self) -> int:
        """How many terms each reduction joins."""
        return prod(self.extents[self.parallel :])

    @property
    def routine(self) -> Call | None:
        """The routine that this kernel is, if it is one."""
        last = self.code[-1] if self.code else None
        return last if isinstance(last, Call) else None

    @property
    def written(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(store.slot for store in self.stores))

    def is_full(self) -> list[bool]:
        """For each instruction, whether its value differs along R."""
        full: list[bool] = []
        for instruction in self.code:
            own = False
            layout = getattr(instruction, "layout", None)
            if layout is not None:
                own = any(any(form[self.parallel :]) for form in layout._forms())
            if isinstance(instruction, Reduce):
                full.append(False)
            else:
                full.append(own or any(full[i] for i in operands(instruction)))
        return full

    def levels(self) -> list[int]:
        """For each instruction, how many loops over R must be finished before it can be computed."""
        levels: list[int] = []
        for instruction in self.code:
            level = max((levels[i] for i in operands(instruction)), default=0)
            levels.append(level + 1 if isinstance(instruction, Reduce) else level)
        return levels

    def stores_along(self, store: Store) -> bool:
        """Whether `store` writes at every place of P and R, not once per place of P."""
        return any(store.layout.strides[self.parallel :])

    def loops(self) -> int:
        """How many times the nest runs along R."""
        return max(self.levels(), default=0) + any(map(self.stores_along, self.stores))

    def reads(self) -> Iterator[tuple[int, Layout]]:
        for instruction in self.code:
            if isinstance(instruction, (Load, Gather)):
                yield instruction.slot, instruction.layout


@dataclass(frozen=True)
class Group:
    """Several kernels in one dispatch, with a slot per buffer of the plan that any of them touches.

    Side by side (`rows` is 0), each takes its own range of workgroups. In a stack, workgroup r computes row r of every
    kernel, one after the other: axis `axes[i]` of kernel i, of extent `rows`, counts the rows. What a member hands to a
    later one stays inside the workgroup: `staged` says how many elements a row of such a buffer has; only buffers that
    are not `hidden` are also stored. Whoever runs the kernels in order, one by one, gets the same values.
    """

    kernels: tuple[Kernel, ...]
    rows: int = 0
    axes: tuple[int, ...] = ()
    staged: tuple[tuple[int, int], ...] = ()
    hidden: frozenset[int] = frozenset()

    @property
    def slots(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(buffer for kernel in self.kernels for buffer in kernel.slots))

    @property
    def written(self) -> tuple[int, ...]:
        slots = self.slots
        return tuple(dict.fromkeys(slots.index(k.slots[slot]) for k in self.kernels for slot in k.written))

    def reads(self) -> Iterator[tuple[int, Layout]]:
        slots = self.slots
        for kernel in self.kernels:
            for slot, layout in kernel.reads():
                yield slots.index(kernel.slots[slot]), layout

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label for kernel in self.kernels for label in kernel.labels))

    @property
    def places(self) -> int:
        return max(kernel.places for kernel in self.kernels)

    @property
    def terms(self) -> int:
        return max(kernel.terms for kernel in self.kernels)

    @property
    def extents(self) -> tuple[int, ...]:
        return (self.rows or len(self.kernels),)

    parallel = 1
    product = None


Dispatch = Kernel | Group


def parts(dispatch: Dispatch) -> tuple[Kernel, ...]:
    """The kernels of a dispatch, in an order in which they can run."""
    return dispatch.kernels if isinstance(dispatch, Group) else (dispatch,)
