"""What of a kernel its row may be chosen by: its class, and the bare kernel that stands for the class in measurements.

A class says how much is summed where, never what is fused in before or after: then fused and unfused kernels are of one
class, get one order of summation, and agree bit for bit. The bare kernel has the layouts of the operands and computes
nothing but the sum. This module must not know devices, times or files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from vkgrad.codegen.expressions import closure
from vkgrad.codegen.rows.products import mnk
from vkgrad.ir.dtypes import DType, uint32
from vkgrad.ir.layout import Layout
from vkgrad.ir.op import OPS
from vkgrad.schedule.kernel import Compute, Kernel, Load, Product, Reduce, Store
from vkgrad.schedule.lower import canonical


@dataclass(frozen=True)
class KernelClass:
    """The class of a kernel.

    name      what decides the order of its sums: family and sizes
    layouts   how the bare kernel's operands lie in memory. It may decide which way is taken among those of one order
    bare      the kernel that is measured
    ordered   whether there is a sum at all
    """

    name: str
    layouts: str
    bare: Kernel
    ordered: bool = True


def class_of(kernel: Kernel) -> KernelClass | None:
    """The class of `kernel`; None where there is nothing to choose: for routines, and for what reads no memory."""
    if kernel.routine is not None:
        return None
    if kernel.product is not None:
        b, m, n, k = mnk(kernel)
        bare = _bare_product(kernel)
        return KernelClass(f"product {b}x{m}x{n}x{k} {bare.code[0].dtype.name}", _text(bare), bare)
    if any(isinstance(instruction, Reduce) for instruction in kernel.code):
        # No element type here: sums of two types can share a kernel, and each must keep the order that it has alone.
        bare = _bare_reduction(kernel)
        return KernelClass(f"reduction {kernel.places} of {kernel.terms}", _text(bare), bare)
    load = _primary(kernel, range(len(kernel.code)))
    if load is None:
        return None
    bare = _bare(kernel, (replace(load, slot=0, fill=_zero(load.dtype)),), _at_origin(kernel.stores[0].layout))
    return KernelClass(f"map {kernel.places} {load.dtype.name}", _text(bare), bare, ordered=False)


def slot_sizes(kernel: Kernel) -> list[tuple[DType, int]]:
    """Element type and number of elements of a buffer for each slot, so large that no address lies outside."""
    sizes: dict[int, tuple[DType, int]] = {}
    for part in (*kernel.code, *kernel.stores):
        if isinstance(part, (Load, Store)):
            least = sizes.get(part.slot, (part.dtype, 1))[1]
            sizes[part.slot] = part.dtype, max(least, _span(part.layout)[1] + 1)
    return [sizes[slot] for slot in range(len(kernel.slots))]


def _bare_product(kernel: Kernel) -> Kernel:
    assert kernel.product is not None
    sides = (kernel.product.left, kernel.product.right)
    dtype = kernel.code[sides[0]].dtype
    m_end = kernel.product.batch + kernel.product.m
    loads = []
    for slot, side in enumerate(sides):
        load = _primary(kernel, closure(kernel, [side]))
        others = range(m_end, kernel.parallel) if slot == 0 else range(kernel.product.batch, m_end)
        layout = load.layout if load else _dense(kernel.extents, others)
        loads.append(Load(slot, _at_origin(layout), _zero(dtype), dtype))
    code = (*loads, Compute(OPS["multiply"], (0, 1), (), dtype), Reduce(OPS["sum"], 2, dtype))
    return _bare(kernel, code, product=replace(kernel.product, left=0, right=1))


def _bare_reduction(kernel: Kernel) -> Kernel:
    full = kernel.is_full()
    load = _primary(kernel, (index for index in range(len(kernel.code)) if full[index]))
    if load is None:
        dtype = next(i.dtype for i in kernel.code if isinstance(i, Reduce))
        load = Load(0, _dense(kernel.extents, ()), _zero(dtype), dtype)
    dtype = uint32 if load.dtype.kind == "b" else load.dtype  # stored alike, and a count says more than any or all
    load = Load(0, _at_origin(load.layout), 0, dtype)
    return _bare(kernel, (load, Reduce(OPS["sum"], 0, dtype.computed)))


def _bare(kernel: Kernel, code: tuple, store: Layout | None = None, product: Product | None = None) -> Kernel:
    """A kernel of `code` over the space of `kernel` that stores its last value, in row-major order if not told else."""
    slot, last = sum(isinstance(part, Load) for part in code), len(code) - 1
    if store is None:
        store = _dense(kernel.extents, range(kernel.parallel, len(kernel.extents)))
    stores = (Store(slot, store, last, code[last].dtype),)
    slots = tuple(range(slot + 1))
    labels = ("tuning",)
    return canonical(Kernel(kernel.extents, kernel.parallel, code, stores, slots, product, labels))


def _primary(kernel: Kernel, indices: Iterable[int]) -> Load | None:
    """The load among `indices` that reads the most: the others are mostly broadcast, such as a bias or a mask."""

    def reads(load: Load) -> int:
        layout = load.layout
        return prod(e for e, *form in zip(layout.extents, *layout._forms(), strict=True) if any(form))

    loads = [part for index in indices if isinstance(part := kernel.code[index], Load)]
    return max(loads, key=reads, default=None)


def _dense(extents: tuple[int, ...], broadcast: Iterable[int]) -> Layout:
    """Row-major order over `extents`, the same for all places along the axes in `broadcast`."""
    skipped = set(broadcast)
    inner = Layout.contiguous([1 if axis in skipped else extent for axis, extent in enumerate(extents)])
    return inner.expand(extents)


def _span(layout: Layout) -> tuple[int, int]:
    """The lowest and highest address, or beyond: places where guards fail are counted too."""
    low = high = layout.offset
    moves = [stride * (extent - 1) for stride, extent in zip(layout.strides, layout.extents, strict=True)]
    moves += [guard.stride * ((guard.bound - 1) // guard.step) for guard in layout.guards]
    for move in moves:
        low, high = low + min(move, 0), high + max(move, 0)
    return low, high


def _at_origin(layout: Layout) -> Layout:
    """The layout near the start of its buffer; whether addresses are multiples of four stays as it was."""
    return replace(layout, offset=layout.offset - max(_span(layout)[0], 0) // 4 * 4)


def _zero(dtype: DType) -> int | bool:
    return False if dtype.kind == "b" else 0


def _text(bare: Kernel) -> str:
    """Sizes, and each operand's type and layout, as a key that people can read."""
    parts = ["x".join(map(str, bare.extents))]
    for part in (*bare.code, *bare.stores):
        if isinstance(part, (Load, Store)):
            layout = part.layout
            guards = [(*g.coefficients, g.constant, g.bound, g.step, g.stride) for g in layout.guards]
            parts.append(f"{part.dtype.name} {layout.offset}+{list(layout.strides)}" + "".join(f" {g}" for g in guards))
    return "; ".join(parts)
