"""How a product kernel's axes and operands lie: sizes of M, N and K, what is dense along what, what comes in fours.

This module must not know how any row computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vkgrad.codegen.expressions import closure
from vkgrad.codegen.rows.row import ceil
from vkgrad.ir.dtypes import DType, float32
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Compute, Kernel, Load


def mnk(kernel: Kernel) -> tuple[int, int, int, int]:
    """(batch, M, N, K) of a product kernel."""
    assert kernel.product is not None
    m_first, n_first = kernel.product.batch, kernel.product.batch + kernel.product.m
    ends = (m_first, n_first, kernel.parallel, len(kernel.extents))
    starts = (0, *ends[:-1])
    b, m, n, k = (prod(kernel.extents[s:e]) for s, e in zip(starts, ends, strict=True))
    return b, m, n, k


def product_dtype(kernel: Kernel) -> DType:
    assert kernel.product is not None
    return kernel.code[kernel.product.left].dtype


def even_part(extent: int, most: int) -> int:
    """A tile of at most `most` that divides `extent` as evenly as its number of tiles allows."""
    return ceil(extent, ceil(extent, most))


def dense_along(kernel: Kernel, side: str) -> str:
    """Along which of its axes an operand's elements lie side by side: "k" or "own" (M or N); the longer run wins."""
    assert kernel.product is not None
    groups = groups_of_axes(kernel)
    root, own = (kernel.product.left, groups["m"]) if side == "left" else (kernel.product.right, groups["n"])
    run = {"own": 0, "k": 0}
    for index in closure(kernel, [root]):
        instruction = kernel.code[index]
        if isinstance(instruction, Load):
            for name, axes in (("k", groups["k"]), ("own", own)):
                for axis in axes[-1:]:
                    if abs(instruction.layout.strides[axis]) == 1:
                        run[name] = max(run[name], kernel.extents[axis])
    return "k" if run["k"] >= run["own"] else "own"


def in_fours(kernel: Kernel, layout: Layout, axes: Sequence[int], count: int = 4) -> bool:
    """Whether elements along `axes` lie side by side in fours: each starts at a multiple of four, and none is cut.
    Or so for another `count`."""
    run, inside = 1, set()
    for axis in reversed(axes):
        if layout.strides[axis] != run:
            break
        run *= kernel.extents[axis]
        inside.add(axis)
    rest = [stride for axis, stride in enumerate(layout.strides) if axis not in inside]
    return run > 1 and all(number % count == 0 for number in (run, layout.offset, *rest)) and not layout.guards


def groups_of_axes(kernel: Kernel) -> dict[str, range]:
    assert kernel.product is not None
    m_first = kernel.product.batch
    n_first = m_first + kernel.product.m
    return {
        "m": range(m_first, n_first),
        "n": range(n_first, kernel.parallel),
        "k": range(kernel.parallel, len(kernel.extents)),
    }


def wide_load(kernel: Kernel, side: str) -> bool:
    """Whether an operand can be loaded four elements at a time, along what is dense."""
    assert kernel.product is not None
    load = kernel.code[kernel.product.left if side == "left" else kernel.product.right]
    own = "m" if side == "left" else "n"
    axes = groups_of_axes(kernel)["k" if dense_along(kernel, side) == "k" else own]
    return isinstance(load, Load) and in_fours(kernel, load.layout, axes)


def wide_store(kernel: Kernel) -> str:
    """Along which of "m" and "n" every result can be stored four elements at a time, if any."""
    for group in "nm":
        axes = groups_of_axes(kernel)[group]
        if all(in_fours(kernel, store.layout, axes) and store.dtype.size_bytes == 4 for store in kernel.stores):
            return group
    return ""


def halves_of(kernel: Kernel, side: str) -> tuple[DType | None, Load | None]:
    """The half-precision type of an operand that is widened to float32, and its load if it is one that was stored."""
    assert kernel.product is not None
    root = kernel.code[kernel.product.left if side == "left" else kernel.product.right]
    if not (isinstance(root, Compute) and root.op.name == "cast" and root.dtype is float32):
        return None, None
    source = kernel.code[root.operands[0]]
    dtype = source.dtype if source.dtype.kind == "f" and source.dtype.size_bytes == 2 else None
    return dtype, source if isinstance(source, Load) else None
