"""Pooling in one, two and three dimensions: windows of the padded input, reduced.

Windows are views, so overlap, strides and dilations cost nothing, and gradients follow. This module must not know how
a reduction is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vkgrad.composites import composite
from vkgrad.errors import ShapeError
from vkgrad.functions.convolution import Sizes, sizes_of, windows
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import where
from vkgrad.functions.joining import padded
from vkgrad.functions.reductions import as_terms
from vkgrad.functions.shapes import reshape
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, integer_range
from vkgrad.ir.node import Node
from vkgrad.ops.reductions import argextreme
from vkgrad.tensor import Operand, Scalar, Tensor, derived, lift

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d",
    "max_pool3d", "min_pool1d", "min_pool2d", "min_pool3d", "sum_pool1d", "sum_pool2d", "sum_pool3d",
]  # fmt: skip

Pooled = Tensor | tuple[Tensor, Tensor]  # the second with return_indices


def _pooled(
    name: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, dimensions: int,
    fill: Scalar, ceil_mode: bool,
) -> tuple[Tensor, Node, tuple[int, ...]]:  # fmt: skip
    """The tensor that is pooled, its windows, and their sizes."""
    image = lift(x)
    if image.ndim < dimensions + 1:
        raise ShapeError(f"{name}: takes an input (..., C, {dimensions} spatial axes), got shape {image.shape}")
    kernel = sizes_of(name, "kernel_size", kernel_size, dimensions, 1)
    strides = kernel if stride is None else sizes_of(name, "stride", stride, dimensions, 1)
    margin = sizes_of(name, "padding", padding, dimensions, 0)
    dilations = sizes_of(name, "dilation", dilation, dimensions, 1)
    if any(2 * m > k for m, k in zip(margin, kernel, strict=True)):
        raise ShapeError(f"{name}: padding {margin} must be at most half of the window {kernel}")
    lead = (0,) * (image.ndim - dimensions)
    extra = [0] * dimensions
    if ceil_mode:
        space = zip(image.shape[-dimensions:], kernel, strides, margin, dilations, strict=True)
        extra = [_beyond(*sizes) for sizes in space]
    high = [m + e for m, e in zip(margin, extra, strict=True)]
    node = padded(image.node, (*lead, *margin), (*lead, *high), fill)
    return image, windows(name, node, kernel, strides, dilations), kernel


def _beyond(extent: int, size: int, step: int, margin: int, spread: int) -> int:
    """By how much a last window reaches over the end, if one more begins before it (in the input or its padding)."""
    rest = (extent + 2 * margin - (size - 1) * spread - 1) % step
    count = (extent + 2 * margin - (size - 1) * spread - 1) // step + 1
    return step - rest if rest and count * step < extent + margin else 0


def reduced(op: str, node: Node, dimensions: int, **attributes: object) -> Node:
    axes = tuple(range(node.ndim - dimensions, node.ndim))
    return b.reshape(b.build(op, node, axes=axes, **attributes), node.shape[: axes[0]])


def never_wins(kind: str, dtype: DType) -> Scalar:
    """What no element loses to: the least of the type for "max", the greatest for "min"."""
    if dtype.kind == "f":
        return -math.inf if kind == "max" else math.inf
    return integer_range(dtype)[kind == "min"] if dtype.kind in "iu" else kind == "min"


def _extreme_pool(
    kind: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
    return_indices: bool, dimensions: int,
) -> Pooled:  # fmt: skip
    name, image = f"{kind}_pool{dimensions}d", lift(x)
    fill = never_wins(kind, image.dtype)
    _, node, kernel = _pooled(name, image, kernel_size, stride, padding, dilation, dimensions, fill, ceil_mode)
    found = derived(reduced(kind, node, dimensions, ties="first"), image)
    if not return_indices:
        return found
    strides = kernel if stride is None else sizes_of(name, "stride", stride, dimensions, 1)
    margin = sizes_of(name, "padding", padding, dimensions, 0)
    counts = node.shape[-2 * dimensions : -dimensions]
    begins = [counter(count) * step - m for count, step, m in zip(counts, strides, margin, strict=True)]
    spread = sizes_of(name, "dilation", dilation, dimensions, 1)
    return found, places_of(kind, node, begins, spread, image.shape[-dimensions:])


def places_of(
    kind: str, laid_out: Node, begins: Sequence[Tensor], spread: Sequence[int], space: Sequence[int]
) -> Tensor:
    """Where each window's extreme is in the flattened space (int32).

    Args:
        laid_out: (..., *positions, *sizes).
        begins: for each axis of space, where the windows begin, (positions,).
        spread: how far apart the elements of a window are.
    """
    dimensions = len(space)
    sizes = laid_out.shape[-dimensions:]
    axes = tuple(range(laid_out.ndim - dimensions, laid_out.ndim))
    inside = Tensor(b.reshape(argextreme(laid_out, kind, axes), laid_out.shape[:-dimensions]))
    place, scale = inside * 0, 1
    for k in reversed(range(dimensions)):
        begin = reshape(begins[k], (-1, *(1,) * (dimensions - 1 - k)))
        place = place + (begin + inside % sizes[k] * spread[k]) * scale
        inside, scale = inside // sizes[k], scale * space[k]
    return place


@composite
def max_pool1d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The largest element of each window along the last axis; as `max_pool2d`."""
    return _extreme_pool("max", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


@composite
def max_pool2d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The largest element of each window over the last two axes; padding never wins.

    The gradient goes to the first largest element of a window in row-major order.

    Shapes: x (..., H, W) -> (..., H', W'), H' = (H + 2 * padding - (K - 1) * dilation - 1) // stride + 1.

    Args:
        stride: the window's size if None, so that windows touch and do not overlap.
        ceil_mode: round H' up, not down: a last window may reach over the end.
        return_indices: give also where in H * W each of them is (int32), which `max_unpool2d` takes.

    Raises: `ShapeError` when a window does not fit, or padding is more than half of it.
    """
    return _extreme_pool("max", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


@composite
def max_pool3d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The largest element of each window over the last three axes; as `max_pool2d`."""
    return _extreme_pool("max", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


@composite
def min_pool1d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The smallest element of each window along the last axis; as `min_pool2d`."""
    return _extreme_pool("min", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


@composite
def min_pool2d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The smallest element of each window over the last two axes; in all else as `max_pool2d`."""
    return _extreme_pool("min", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


@composite
def min_pool3d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The smallest element of each window over the last three axes; as `min_pool2d`."""
    return _extreme_pool("min", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


# ---- sums
def _sum_pool(
    name: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
    dimensions: int,
) -> Tensor:  # fmt: skip
    image, node, _ = _pooled(name, as_terms(x), kernel_size, stride, padding, dilation, dimensions, 0, ceil_mode)
    return derived(reduced("sum", node, dimensions), image)


@composite
def sum_pool1d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of each window along the last axis; as `sum_pool2d`."""
    return _sum_pool("sum_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, 1)


@composite
def sum_pool2d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of each window over the last two axes, of masks how many hold; padding counts as 0.

    Shapes: x (..., H, W) -> (..., H', W'), H' = (H + 2 * padding - (K - 1) * dilation - 1) // stride + 1.

    Raises: `ShapeError` when a window does not fit, or padding is more than half of it.
    """
    return _sum_pool("sum_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, 2)


@composite
def sum_pool3d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of each window over the last three axes; as `sum_pool2d`."""
    return _sum_pool("sum_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, 3)


# ---- means
def _average_pool(
    name: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None, dimensions: int,
) -> Tensor:  # fmt: skip
    image, node, kernel = _pooled(name, x, kernel_size, stride, padding, 1, dimensions, 0, ceil_mode)
    total = derived(reduced("sum", node, dimensions), image)
    if divisor is not None:
        return total / divisor
    if not ceil_mode and (count_include_pad or padding == 0):
        return total / math.prod(kernel)
    ones = Tensor(b.constant(1, image.dtype, (1, *image.shape[-dimensions:])))
    if count_include_pad:  # the padding counts, and what a last window reaches beyond it does not
        margin = sizes_of(name, "padding", padding, dimensions, 0)
        ones, padding = Tensor(padded(ones.node, (0, *margin), (0, *margin), 1)), 0
    _, counted, _ = _pooled(name, ones, kernel_size, stride, padding, 1, dimensions, 0, ceil_mode)
    count = reduced("sum", counted, dimensions)
    return total / Tensor(b.reshape(count, count.shape[1:]))


@composite
def avg_pool1d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window along the last axis; as `avg_pool2d`."""
    return _average_pool("avg_pool1d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


@composite
def avg_pool2d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last two axes.

    Shapes: x (..., H, W) -> (..., H', W'), H' = (H + 2 * padding - K) // stride + 1.

    Args:
        ceil_mode: round H' up, not down: a last window may reach over the end, and what is beyond does not count.
        count_include_pad: divide by the size of the window; else by the number of elements in it that are not padding.
        divisor_override: divide by this instead.

    Raises: `ShapeError` when a window does not fit, or padding is more than half of it.
    """
    name = "avg_pool2d"
    return _average_pool(name, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


@composite
def avg_pool3d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over the last three axes; as `avg_pool2d`."""
    name = "avg_pool3d"
    return _average_pool(name, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


# ---- norms
def _norm_pool(
    name: str, x: Operand, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool, dimensions: int
) -> Tensor:  # fmt: skip
    x = lift(x)
    count = math.prod(sizes_of(name, "kernel_size", kernel_size, dimensions, 1))
    powers = _average_pool(name, x**norm_type, kernel_size, stride, 0, ceil_mode, True, None, dimensions)
    total = where(powers > 0, powers, 0.0) * count
    # The root has no derivative at 0, and where a window is all zeros none is wanted.
    return where(total > 0, where(total > 0, total, 1.0) ** (1.0 / norm_type), 0.0)


@composite
def lp_pool1d(
    x: Operand, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The root of the sum of the powers `norm_type` of each window; as `lp_pool2d`."""
    return _norm_pool("lp_pool1d", x, norm_type, kernel_size, stride, ceil_mode, 1)


@composite
def lp_pool2d(
    x: Operand, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x ** norm_type) ** (1 / norm_type) of each window over the last two axes; 0 where that sum is negative.

    A last window that reaches over the end (`ceil_mode`) counts as if it were full, as in PyTorch.

    Shapes: x (..., H, W) -> (..., H', W'), H' = (H - K) // stride + 1.
    """
    return _norm_pool("lp_pool2d", x, norm_type, kernel_size, stride, ceil_mode, 2)


@composite
def lp_pool3d(
    x: Operand, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The root of the sum of the powers `norm_type` of each window over the last three axes; as `lp_pool2d`."""
    return _norm_pool("lp_pool3d", x, norm_type, kernel_size, stride, ceil_mode, 3)
