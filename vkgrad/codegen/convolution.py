"""What makes a product a convolution, as its layouts show: along which axes an image is moved over by filter taps.

Rows for convolutions ask here, never a name or an attribute. This module must not know templates or devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from vkgrad.codegen.expressions import closure
from vkgrad.ir.layout import Layout
from vkgrad.schedule.kernel import Kernel


@dataclass(frozen=True)
class Moving:
    """Pairs of axes (position, tap) of a product: a step of either leads to the same element of the left operand."""

    pairs: tuple[tuple[int, int], ...]

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple(tap for _, tap in self.pairs)


def layouts_of(kernel: Kernel, root: int) -> list[Layout]:
    """The layouts that the value of instruction `root` depends on."""
    instructions = (kernel.code[index] for index in closure(kernel, [root]))
    return [layout for instruction in instructions if (layout := getattr(instruction, "layout", None)) is not None]


def moving(kernel: Kernel) -> Moving:
    """The pairs of `kernel`: axes of M that the right operand does not depend on, and of K that it does."""
    product = kernel.product
    assert product is not None
    forms = [form for layout in layouts_of(kernel, product.left) for form in layout._forms()]
    m_axes = range(product.batch, product.batch + product.m)
    taps = range(kernel.parallel, len(kernel.extents))
    pairs = []
    for tap in taps:
        for position in m_axes:
            if any(form[tap] for form in forms) and all(form[tap] == form[position] for form in forms):
                pairs.append((position, tap))
                break
    return Moving(tuple(pairs))


def is_moved_over(kernel: Kernel) -> bool:
    """Whether filters move over the left operand, be it in steps of a few places by one tap: it has no dense side."""
    product = kernel.product
    if product is None or product.m < 2:
        return False
    last, taps = product.batch + product.m - 1, range(kernel.parallel, len(kernel.extents))
    strides = [layout.strides for layout in layouts_of(kernel, product.left)]
    return len(taps) > 1 or all(abs(s[last]) != 1 and abs(s[taps[-1]]) != 1 for s in strides)


def three_by_three(kernel: Kernel) -> dict[str, int] | None:
    """The axes y, x, ky and kx of a convolution of 3x3 taps that moves by the distance of its taps."""
    if kernel.product is None:
        return None
    pairs = moving(kernel).pairs
    if len(pairs) != 2 or len({position for position, _ in pairs}) != 2:
        return None
    (y, ky), (x, kx) = sorted(pairs)
    if (kernel.extents[ky], kernel.extents[kx]) != (3, 3):
        return None
    return {"y": y, "x": x, "ky": ky, "kx": kx}


def three_by_three_weights(kernel: Kernel) -> dict[str, int] | None:
    """The axes y, x of K and ky, kx of N of a product that is the gradient of 3x3 weights."""
    product = kernel.product
    if product is None:
        return None
    forms = [form for layout in layouts_of(kernel, product.right) for form in layout._forms()]
    left = [form for layout in layouts_of(kernel, product.left) for form in layout._forms()]
    pairs = []
    for tap in range(product.batch + product.m, kernel.parallel):
        for place in range(kernel.parallel, len(kernel.extents)):
            together = any(form[tap] for form in forms) and all(form[tap] == form[place] for form in forms)
            if together and any(form[place] for form in left):
                pairs.append((place, tap))
                break
    if len(pairs) != 2 or len({place for place, _ in pairs}) != 2:
        return None
    (y, ky), (x, kx) = sorted(pairs)
    if (kernel.extents[ky], kernel.extents[kx]) != (3, 3):
        return None
    return {"y": y, "x": x, "ky": ky, "kx": kx}


def tiles_of(kernel: Kernel, axes: dict[str, int], edge: int) -> int:
    """How many tiles of edge x edge positions cover M."""
    assert kernel.product is not None
    first = kernel.product.batch
    extents = {axis: kernel.extents[axis] for axis in range(first, first + kernel.product.m)}
    for name in ("y", "x"):
        extents[axes[name]] = -(-extents[axes[name]] // edge)
    return prod(extents.values())


def channel_axis(kernel: Kernel, chunk: int) -> int | None:
    """The axis of K, a multiple of `chunk` long, that no guard of an operand depends on: the longest one."""
    if kernel.product is None:
        return None
    layouts = [layout for side in (kernel.product.left, kernel.product.right) for layout in layouts_of(kernel, side)]
    guards = [guard.coefficients for layout in layouts for guard in layout.guards]
    axes = range(kernel.parallel, len(kernel.extents))
    free = [axis for axis in axes if kernel.extents[axis] % chunk == 0 and not any(form[axis] for form in guards)]
    return max(free, key=lambda axis: kernel.extents[axis], default=None)
