"""Nests for the native runtime, which computes a block of places at a time without leaving the cache or taking the GIL.

What it can run, it runs to the bit as `program.py` does; the rest is left to that. Made here is only the description:
strides, one offset for each term, values known beforehand. This module must not know products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir.dtypes import DType
from vkgrad.ir.layout import Layout, merge_axes
from vkgrad.ops.narrow import meaning_of
from vkgrad.runtime import _native
from vkgrad.runtime.access import Buffers, Region, holds, settle
from vkgrad.runtime.nest import Space, relaid
from vkgrad.schedule.kernel import Compute, Guarded, Index, Instruction, Literal, Load, Reduce, Store, operands

MOST_TERMS = 64  # up to here NumPy adds term by term, too; longer sums it takes apart in another order
MOST_LATTICES = 16
LEAST_SHARED = 1 << 16  # values over all instructions below which one thread is done before another has begun

JOINS = {"sum": "add", "max": "maximum", "min": "minimum"}
Term = tuple[int, ...]  # coordinates along the axes of R


def blockwise(space: Space, threads: int) -> Callable[[Buffers], None] | None:
    """A function that runs a space by native blocks, or None where these do not have all that it takes."""
    if not all(map(_is_known, space.code)) or space.terms > MOST_TERMS or 0 in space.extents:
        return None
    if not all(_memory(store.dtype) for store in space.stores) or not all(_in_turn(space)):
        return None
    nests = []
    for lattice in _lattices(space):
        made = _nest(space, lattice)
        if made is None:
            return None
        nests.append(made)
    if prod(space.extents) * len(space.code) < LEAST_SHARED:
        threads = 1

    def run(buffers: Buffers) -> None:
        for nest in nests:
            nest.run(buffers, threads)

    return run


def finishing(space: Space, given: int, value: np.ndarray, threads: int) -> Callable[[Buffers], None] | None:
    """What follows instruction `given`, whose value is in `value` when this runs; None as above.

    `value` has one axis per axis of the space.
    """
    needed = set(space.needs([store.value for store in space.stores], [given]))
    dtype = space.code[given].dtype
    strides = tuple(0 if n == 1 else s // value.itemsize for n, s in zip(value.shape, value.strides, strict=True))
    used = [i.slot for i in (*space.code, *space.stores) if isinstance(i, Load | Store)]
    slot = 1 + max(used)
    load = Load(slot, Layout(space.extents, strides), 0, dtype)
    nothing = Literal(0, dtype)  # in place of what only the product needed
    code = tuple(load if i == given else item if i in needed else nothing for i, item in enumerate(space.code))
    if any(isinstance(item, Reduce | Guarded) for item in code):
        return None
    extents = tuple(1 if axis in space.reduced else extent for axis, extent in enumerate(space.extents))
    region = Region.whole(extents)
    found = blockwise(Space(relaid(code, region.of), relaid(space.stores, region.of), extents, space.reduced), threads)
    return found and (lambda buffers: found([*buffers[:slot], value]))


def copying(load: Load, axes: Sequence[int], extents: Sequence[int]) -> _native.Nest | None:
    """A nest that copies what a load reads, its axes in another order, from array 0 to the dense array 1."""
    layout = settle(load.layout)
    if load.dtype.name != "float32" or any(g.step != 1 for g in layout.guards) or 0 in extents:
        return None
    forms = [[layout.strides[a] for a in axes], *([g.coefficients[a] for a in axes] for g in layout.guards)]
    dense = [prod(extents[i + 1 :]) for i in range(len(extents))]
    merged, (strides, *limits, into) = merge_axes(extents, [*forms, dense])
    if not merged:
        return None
    guards = [(form, [g.constant], g.bound) for form, g in zip(limits, layout.guards, strict=True)]
    fill = _words(np.array(load.fill, np.float32))[0]
    return _native.Nest(
        merged, 1, [("load", 0, False, strides, [layout.offset], guards, fill)], [(1, False, into, 0, 0)]
    )  # fmt: skip


def _memory(dtype: DType) -> bool:
    return dtype.name in ("float32", "int32", "bool")


def _is_known(instruction: Instruction) -> bool:
    match instruction:
        case Compute():
            return not instruction.attributes and _memory(instruction.dtype)
        case Reduce():
            return instruction.op.name in JOINS and _memory(instruction.dtype) and instruction.dtype.kind != "b"
        case Load() | Index() | Literal() | Guarded():
            return _memory(instruction.dtype)
        case _:
            return False


def _in_turn(space: Space) -> Iterator[bool]:
    """For each reduction of floats, whether NumPy joins its terms in turn, too.

    It walks arrays in memory order. Where there is but one place, terms are neighbours, and it joins several at a time.
    """
    shapes = space.shapes()
    for item in space.code:
        if isinstance(item, Reduce) and item.dtype.kind == "f":
            shape = shapes[item.value]
            places = prod(extent for axis, extent in enumerate(shape) if axis not in space.reduced)
            yield places > 1 and all(shape[axis] == space.extents[axis] for axis in space.reduced)


def _lattices(space: Space) -> Iterator[Region]:
    """P in lattices on each of which a guard with a step holds everywhere or nowhere, as far as the step goes."""
    steps = [1] * len(space.extents)
    for instruction in space.code:
        for guard in getattr(getattr(instruction, "layout", None), "guards", ()):
            for axis, coefficient in enumerate(guard.coefficients):
                if coefficient and axis not in space.reduced and space.extents[axis] > 1:
                    steps[axis] = max(steps[axis], guard.step)
    if prod(steps) > MOST_LATTICES:
        steps = [1] * len(steps)
    whole = Region.whole(space.extents)
    for starts in product(*(range(min(step, e)) for step, e in zip(steps, space.extents, strict=True))):
        region = whole
        for axis, (start, step) in enumerate(zip(starts, steps, strict=True)):
            region = region.along(axis, start, len(range(start, space.extents[axis], step)), step)
        yield region


def _nest(space: Space, lattice: Region) -> _native.Nest | None:
    """One lattice as a native nest, or None. A sum leaves out the terms that its guards rule out."""
    terms = []
    for term in np.ndindex(*(space.extents[axis] for axis in space.reduced)):
        region = lattice
        for axis, at in zip(space.reduced, term, strict=True):
            region = region.along(axis, int(at), 1)
        verdicts = {_verdict(space, region, i) for i, item in enumerate(space.code) if isinstance(item, Guarded)}
        if None in verdicts:
            return None
        if False not in verdicts:
            terms.append(region)
    padded = any(isinstance(item, Guarded) for item in space.code)
    if not terms or (padded and not _only_sums(space)):
        return None
    return _Description(space, terms).nest()


def _verdict(space: Space, region: Region, index: int) -> bool | None:
    """Whether the guards of an instruction hold in a region; None if that is not the same everywhere."""
    mask = holds(region.of(space.code[index].layout))  # type: ignore[union-attr]
    return bool(mask.all()) if mask.all() or not mask.any() else None


def _only_sums(space: Space) -> bool:
    """Whether all that padding reaches is a sum that it adds nothing to."""
    reached: set[int] = set()
    for index, item in enumerate(space.code):
        if isinstance(item, Guarded):
            if item.fill != 0 or any(i in reached for i in operands(item)):
                return False
            reached.add(index)
        elif reached & set(operands(item)) and not (isinstance(item, Reduce) and item.op.name == "sum"):
            return False
    sums = [i for i in space.code if isinstance(i, Reduce)]
    return all(item.value in reached for item in sums) and not any(s.value in reached for s in space.stores)


class _Unfit(Exception):
    """The nest has something that native blocks do not have."""


class _Description:
    """A nest over `terms`, each the same places at other coordinates of R."""

    def __init__(self, space: Space, terms: Sequence[Region]) -> None:
        self.space, self.terms = space, terms
        self.parallel = [axis for axis in range(len(space.extents)) if axis not in space.reduced] or [0]
        first = space.stores[0].layout.strides
        self.parallel.sort(key=lambda axis: -abs(first[axis]))
        self.static: dict[int, np.ndarray] = {}  # values known beforehand, one for all terms or one for each

    def nest(self) -> _native.Nest | None:
        try:
            code = [self._instruction(index, item) for index, item in enumerate(self.space.code)]
            stores = [self._store(store) for store in self.space.stores]
        except _Unfit:
            return None
        extents, code, stores = self._merged(code, stores)
        return _native.Nest(extents, len(self.terms), code, stores)

    def _merged(self, code: list[Any], stores: list[Any]) -> tuple[list[int], list[Any], list[Any]]:
        """The same with neighbouring axes as one wherever all strides allow."""
        extents = [self.terms[0].counts[axis] for axis in self.parallel]
        forms = [item[3] for item in code if item[0] == "load"]
        forms += [form for item in code if item[0] == "load" for form, _, _ in item[5]]
        forms += [item[1] for item in code if item[0] == "count"] + [store[2] for store in stores]
        merged, found = merge_axes(extents, forms)
        if not merged:
            merged, found = [1], [[0] for _ in forms]
        left = iter(found)
        for item in code:
            if item[0] == "load":
                item[3] = next(left)
        for item in code:
            if item[0] == "load":
                item[5] = [(next(left), *rest) for _, *rest in item[5]]
        for item in code:
            if item[0] == "count":
                item[1] = next(left)
        for store in stores:
            store[2] = next(left)
        return merged, [tuple(item) for item in code], [tuple(store) for store in stores]

    def _of_terms(self, layout: Layout) -> tuple[list[int], list[int], list[Any]]:
        """Strides along P, the offset at each term, and limits."""
        layouts = [region.of(layout) for region in self.terms]
        strides = {tuple(found.strides[axis] for axis in self.parallel) for found in layouts}
        guards = {tuple((g.coefficients, g.bound, g.step, g.stride) for g in found.guards) for found in layouts}
        if len(strides) > 1 or len(guards) > 1 or any(step != 1 for _, _, step, _ in next(iter(guards))):
            raise _Unfit
        offsets = [found.offset for found in layouts]
        limits = [
            ([g.coefficients[axis] for axis in self.parallel], [found.guards[i].constant for found in layouts], g.bound)
            for i, g in enumerate(layouts[0].guards)
        ]
        if len(set(offsets)) == 1 and all(len(set(constants)) == 1 for _, constants, _ in limits):
            offsets, limits = offsets[:1], [(form, constants[:1], bound) for form, constants, bound in limits]
        return list(next(iter(strides))), offsets, limits

    def _instruction(self, index: int, item: Instruction) -> list[Any]:
        match item:
            case Load():
                strides, offsets, limits = self._of_terms(item.layout)
                fill = _words(np.array(item.fill, item.dtype.numpy))[0]
                return ["load", item.slot, item.dtype.name == "bool", strides, offsets, limits, fill]
            case Literal():
                return self._constant(index, np.full(1, item.value, item.dtype.numpy))
            case Index():
                layouts = [region.of(replace(item.layout, guards=())) for region in self.terms]
                strides = [layouts[0].strides[axis] for axis in self.parallel]
                offsets = [layout.offset for layout in layouts]
                if not any(strides):
                    return self._constant(index, np.array(offsets).astype(item.dtype.numpy))
                return ["count", strides, offsets if len(set(offsets)) > 1 else offsets[:1]]
            case Compute():
                if all(i in self.static for i in item.operands):
                    meaning = meaning_of(item.op, item.dtype)
                    with np.errstate(all="ignore"):
                        return self._constant(index, meaning(*(self.static[i] for i in item.operands)))
                return ["compute", self._loop(item.op.name, item.operands[0]), list(item.operands)]
            case Guarded():
                if self._kind(item.value) == "b":
                    raise _Unfit
                # It holds in all terms that there are, so it is what it guards.
                return ["compute", self._loop("copy", item.value), [item.value]]
            case Reduce():
                if item.value in self.static:
                    raise _Unfit
                return ["reduce", self._loop(JOINS[item.op.name], item.value), [item.value], item.op.name == "sum"]
        raise _Unfit

    def _constant(self, index: int, values: np.ndarray) -> list[Any]:
        self.static[index] = values
        return ["constant", _words(values)]

    def _kind(self, index: int) -> str:
        return self.space.code[index].dtype.kind

    def _loop(self, name: str, operand: int) -> str:
        found = f"{name}:{self._kind(operand)}"
        if not _native.has_loop(found):
            raise _Unfit
        return found

    def _store(self, store: Store) -> list[Any]:
        layout = self.terms[0].of(store.layout)
        if layout.guards or any(layout.strides[axis] for axis in self.space.reduced):
            raise _Unfit
        strides = [layout.strides[axis] for axis in self.parallel]
        return [store.slot, store.dtype.name == "bool", strides, layout.offset, store.value]


def _words(values: np.ndarray) -> list[int]:
    """As the native runtime holds them: a truth value is no bits or all."""
    values = np.atleast_1d(values)
    words = -values.astype(np.int32) if values.dtype == bool else values
    return np.ascontiguousarray(words).view(np.uint32).tolist()
