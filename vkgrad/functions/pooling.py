"""Pooling in one, two and three dimensions: windows of the padded input, reduced.

Windows are views, so overlap, strides and dilations cost nothing, and gradients follow. An adaptive pooling says how
many windows there are instead of how large they are; where they divide the input they are a reshape. This module must
not know how a reduction is computed.
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
from vkgrad.functions.lookup import take
from vkgrad.functions.reductions import mean
from vkgrad.functions.shapes import permute_dims, reshape, swapaxes
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, integer_range
from vkgrad.ir.node import Node
from vkgrad.ops.reductions import argextreme
from vkgrad.tensor import Operand, Scalar, Tensor, derived, lift

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d",
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


def _reduced(op: str, node: Node, dimensions: int, **attributes: object) -> Node:
    axes = tuple(range(node.ndim - dimensions, node.ndim))
    return b.reshape(b.build(op, node, axes=axes, **attributes), node.shape[: axes[0]])


def _lowest(dtype: DType) -> Scalar:
    return -math.inf if dtype.kind == "f" else integer_range(dtype)[0] if dtype.kind in "iu" else 0


def _max_pool(
    name: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
    return_indices: bool, dimensions: int,
) -> Pooled:  # fmt: skip
    image = lift(x)
    fill = _lowest(image.dtype)
    _, node, kernel = _pooled(name, image, kernel_size, stride, padding, dilation, dimensions, fill, ceil_mode)
    largest = derived(_reduced("max", node, dimensions, ties="first"), image)
    if not return_indices:
        return largest
    strides = kernel if stride is None else sizes_of(name, "stride", stride, dimensions, 1)
    margin = sizes_of(name, "padding", padding, dimensions, 0)
    counts = node.shape[-2 * dimensions : -dimensions]
    begins = [counter(count) * step - m for count, step, m in zip(counts, strides, margin, strict=True)]
    spread = sizes_of(name, "dilation", dilation, dimensions, 1)
    return largest, _places(node, begins, spread, image.shape[-dimensions:])


def _places(laid_out: Node, begins: Sequence[Tensor], spread: Sequence[int], space: Sequence[int]) -> Tensor:
    """Where each window's largest element is in the flattened space (int32).

    Args:
        laid_out: (..., *positions, *sizes).
        begins: for each axis of space, where the windows begin, (positions,).
        spread: how far apart the elements of a window are.
    """
    dimensions = len(space)
    sizes = laid_out.shape[-dimensions:]
    axes = tuple(range(laid_out.ndim - dimensions, laid_out.ndim))
    inside = Tensor(b.reshape(argextreme(laid_out, "max", axes), laid_out.shape[:-dimensions]))
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
    return _max_pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


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
    return _max_pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


@composite
def max_pool3d(
    x: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Pooled:  # fmt: skip
    """The largest element of each window over the last three axes; as `max_pool2d`."""
    return _max_pool("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


def _average_pool(
    name: str, x: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None, dimensions: int,
) -> Tensor:  # fmt: skip
    image, node, kernel = _pooled(name, x, kernel_size, stride, padding, 1, dimensions, 0, ceil_mode)
    total = derived(_reduced("sum", node, dimensions), image)
    if divisor is not None:
        return total / divisor
    if not ceil_mode and (count_include_pad or padding == 0):
        return total / math.prod(kernel)
    ones = Tensor(b.constant(1, image.dtype, (1, *image.shape[-dimensions:])))
    if count_include_pad:  # the padding counts, and what a last window reaches beyond it does not
        margin = sizes_of(name, "padding", padding, dimensions, 0)
        ones, padding = Tensor(padded(ones.node, (0, *margin), (0, *margin), 1)), 0
    _, counted, _ = _pooled(name, ones, kernel_size, stride, padding, 1, dimensions, 0, ceil_mode)
    count = _reduced("sum", counted, dimensions)
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


# ---- as many windows as asked for
def _adaptive_sizes(name: str, x: Tensor, output_size: int | Sequence[int | None] | None, dimensions: int) -> list[int]:
    if x.ndim < dimensions + 1:
        raise ShapeError(f"{name}: takes an input (..., C, {dimensions} spatial axes), got shape {x.shape}")
    given = [output_size] * dimensions if output_size is None or isinstance(output_size, int) else [*output_size]
    if len(given) != dimensions or any(size is not None and size < 1 for size in given):
        raise ShapeError(f"{name}: output_size must be {dimensions} positive integers or None, got {output_size}")
    return [extent if size is None else size for extent, size in zip(x.shape[-dimensions:], given, strict=True)]


def _divided(x: Tensor, counts: Sequence[int]) -> Tensor:
    """(..., *counts, *sizes): windows that touch and cover the input, whose extents the counts divide."""
    lead, space = x.shape[: x.ndim - len(counts)], x.shape[x.ndim - len(counts) :]
    pairs = [n for extent, count in zip(space, counts, strict=True) for n in (count, extent // count)]
    split = reshape(x, (*lead, *pairs))
    first = len(lead)
    places, inside = range(first, split.ndim, 2), range(first + 1, split.ndim, 2)
    return permute_dims(split, (*range(first), *places, *inside))


def _bounds(extent: int, count: int) -> tuple[Tensor, Tensor, int]:
    """Where each of `count` windows begins and ends, and the largest size: [i * n // c, ceil((i + 1) * n / c))."""
    i = counter(count)
    sizes = [-(-(k + 1) * extent // count) - k * extent // count for k in range(count)]
    return i * extent // count, ((i + 1) * extent + count - 1) // count, max(sizes)


def adaptive_average(name: str, x: Operand, output_size: int | Sequence[int | None] | None, dimensions: int) -> Tensor:
    x = lift(x)
    counts = _adaptive_sizes(name, x, output_size, dimensions)
    space = x.shape[-dimensions:]
    if all(extent % count == 0 for extent, count in zip(space, counts, strict=True)):
        return mean(_divided(x, counts), axis=tuple(range(-dimensions, 0)))
    for axis, count in zip(range(-dimensions, 0), counts, strict=True):  # a mean over each axis in turn is the mean
        begin, end, _ = _bounds(x.shape[axis], count)
        j = reshape(counter(x.shape[axis]), (-1, 1))
        share = where((j >= begin) & (j < end), 1.0 / (end - begin).astype(x.dtype), 0.0)
        x = swapaxes(swapaxes(x, axis, -1) @ share, axis, -1)
    return x


def _adaptive_max(
    name: str, x: Operand, output_size: int | Sequence[int | None] | None, return_indices: bool, dimensions: int
) -> Pooled:
    x = lift(x)
    counts = _adaptive_sizes(name, x, output_size, dimensions)
    space = x.shape[-dimensions:]
    bounds = [_bounds(extent, count) for extent, count in zip(space, counts, strict=True)]
    if all(extent % count == 0 for extent, count in zip(space, counts, strict=True)):
        laid_out = _divided(x, counts)
    else:
        for axis, (begin, end, size) in zip(range(-dimensions, 0), bounds, strict=True):
            places = reshape(begin, (-1, 1)) + counter(size)
            beyond = reshape(places >= reshape(end, (-1, 1)), (-1, *(1,) * (-axis - 1)))
            inside = where(places < reshape(end, (-1, 1)), places, reshape(begin, (-1, 1)))
            x = where(beyond, _lowest(x.dtype), take(x, reshape(inside, (-1,)), axis=axis))
        laid_out = _divided(x, counts)
    largest = derived(_reduced("max", laid_out.node, dimensions, ties="first"), laid_out)
    if not return_indices:
        return largest
    return largest, _places(laid_out.node, [begin for begin, _, _ in bounds], (1,) * dimensions, space)


@composite
def adaptive_avg_pool1d(x: Operand, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of `output_size` windows along the last axis; as `adaptive_avg_pool2d`."""
    return adaptive_average("adaptive_avg_pool1d", x, output_size, 1)


@composite
def adaptive_avg_pool2d(x: Operand, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of as many windows as asked for.

    Window i of n along an extent H begins at i * H // n and ends before ceil((i + 1) * H / n).

    Shapes: (..., H, W) -> (..., *output_size); None keeps an extent.

    Raises: `ShapeError` when `output_size` is not one positive number, or one per axis.
    """
    return adaptive_average("adaptive_avg_pool2d", x, output_size, 2)


@composite
def adaptive_avg_pool3d(x: Operand, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of each of as many windows as asked for, over the last three axes; as `adaptive_avg_pool2d`."""
    return adaptive_average("adaptive_avg_pool3d", x, output_size, 3)


@composite
def adaptive_max_pool1d(
    x: Operand, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Pooled:
    """The largest element of each of `output_size` windows along the last axis."""
    return _adaptive_max("adaptive_max_pool1d", x, output_size, return_indices, 1)


@composite
def adaptive_max_pool2d(
    x: Operand, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Pooled:
    """The largest element of each of as many windows as asked for; the windows are those of `adaptive_avg_pool2d`."""
    return _adaptive_max("adaptive_max_pool2d", x, output_size, return_indices, 2)


@composite
def adaptive_max_pool3d(
    x: Operand, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Pooled:
    """The largest element of each of as many windows as asked for, over the last three axes."""
    return _adaptive_max("adaptive_max_pool3d", x, output_size, return_indices, 3)
