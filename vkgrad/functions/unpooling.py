"""Pooling reversed: numbers sent to where they came from, and windows taken apart and put together again.

This module must not know how a scatter or a window is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vkgrad.composites import composite
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.convolution import Sizes, sizes_of, windows
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import maximum, where
from vkgrad.functions.joining import padded
from vkgrad.functions.lookup import take_along_axis
from vkgrad.functions.shapes import broadcast_to, reshape
from vkgrad.ir import build as b
from vkgrad.ops.indexed import scatter
from vkgrad.ops.views import overlap_add, permute, slice_
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = ["fold", "max_unpool1d", "max_unpool2d", "max_unpool3d", "unfold"]


# ---- maxima back to their places
def _unpooled(
    name: str, x: Operand, indices: Operand, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
    output_size: Sequence[int] | None, dimensions: int,
) -> Tensor:  # fmt: skip
    x, places = lift(x), lift(indices)
    if x.ndim < dimensions + 1 or places.shape != x.shape:
        raise ShapeError(f"{name}: takes (..., C, {dimensions} spatial axes) and as many indices, got {places.shape}")
    if places.dtype.kind not in "iu":
        raise DTypeError(f"{name}: indices are integers, as {name.replace('un', '')} returns, not {places.dtype.name}")
    kernel = sizes_of(name, "kernel_size", kernel_size, dimensions, 1)
    strides = kernel if stride is None else sizes_of(name, "stride", stride, dimensions, 1)
    margin = sizes_of(name, "padding", padding, dimensions, 0)
    lead, space = x.shape[:-dimensions], x.shape[-dimensions:]
    usual = [
        (extent - 1) * step - 2 * m + size for extent, step, m, size in zip(space, strides, margin, kernel, strict=True)
    ]
    whole = usual if output_size is None else [*output_size][-dimensions:]
    if any(abs(extent - other) >= step for extent, other, step in zip(whole, usual, strides, strict=True)):
        raise ShapeError(f"{name}: output_size {tuple(whole)} must be less than a stride from {tuple(usual)}")
    rows, count, extent = math.prod(lead), math.prod(space), math.prod(whole)
    sent, index = reshape(x, (rows, count)), reshape(places, (rows, count))
    # Windows that overlap may share their largest element: the last one sent to a place stays, once.
    numbers = reshape(broadcast_to(counter(count), (rows, count)), (rows, count, 1))
    last = reshape(Tensor(scatter(numbers.node, index.node, extent, "max")), (rows, extent))
    found = where(last >= 0, take_along_axis(sent, maximum(last, 0), -1), 0)
    return reshape(found, (*lead, *whole))


@composite
def max_unpool1d(
    x: Operand, indices: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """As `max_unpool2d`, along the last axis."""
    return _unpooled("max_unpool1d", x, indices, kernel_size, stride, padding, output_size, 1)


@composite
def max_unpool2d(
    x: Operand, indices: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Each element at the place that its index names, and 0 elsewhere: `max_pool2d(..., return_indices=True)` undone.

    Shapes: x and indices (..., H', W') -> (..., H, W), H = (H' - 1) * stride - 2 * padding + K.

    Args:
        output_size: the extents instead, where pooling cut a rest off; a shape whose last two entries count.

    Raises:
        ShapeError: shapes that do not fit, or an output size that pooling would not have brought to H', W'.
        DTypeError: indices that are no integers.
    """
    return _unpooled("max_unpool2d", x, indices, kernel_size, stride, padding, output_size, 2)


@composite
def max_unpool3d(
    x: Operand, indices: Operand, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """As `max_unpool2d`, along the last three axes."""
    return _unpooled("max_unpool3d", x, indices, kernel_size, stride, padding, output_size, 3)


# ---- windows as columns
@composite
def unfold(x: Operand, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The windows of images as columns, so that a convolution is a matrix product.

    Shapes: (B, C, H, W) or (C, H, W) -> (B, C * KH * KW, L), L being the number of windows.

    Raises:
        ShapeError: another number of axes, or a window that does not fit.
    """
    x = lift(x)
    if x.ndim not in (3, 4):
        raise ShapeError(f"unfold: takes (B, C, H, W) or (C, H, W), got {x.shape}")
    kernel, spread, margin, step = _window_sizes("unfold", kernel_size, dilation, padding, stride)
    lead = x.ndim - 2
    around = (*(0,) * lead, *margin)
    node = windows("unfold", padded(x.node, around, around, 0), kernel, step, spread)
    node = permute(node, [*range(lead), lead + 2, lead + 3, lead, lead + 1])
    columns, count = x.shape[lead - 1] * math.prod(kernel), math.prod(node.shape[-2:])
    return derived(b.reshape(node, (*x.shape[: lead - 1], columns, count)), x)


@composite
def fold(
    x: Operand, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Columns put back to the windows that they are; where these overlap, they add up. The gradient of `unfold`.

    Shapes: (B, C * KH * KW, L) or without B -> (B, C, *output_size).

    Raises:
        ShapeError: as many columns do not come from an image of this size.
    """
    x = lift(x)
    kernel, spread, margin, step = _window_sizes("fold", kernel_size, dilation, padding, stride)
    size = sizes_of("fold", "output_size", output_size, 2, 1)
    wide = [extent + 2 * m for extent, m in zip(size, margin, strict=True)]
    counts = [(extent - (k - 1) * d - 1) // s + 1 for extent, k, d, s in zip(wide, kernel, spread, step, strict=True)]
    if x.ndim not in (2, 3) or x.shape[-2] % math.prod(kernel) or x.shape[-1] != math.prod(counts):
        raise ShapeError(
            f"fold: output_size {size} and windows {kernel} need (B, C * {math.prod(kernel)}, {math.prod(counts)}), "
            f"got {x.shape}"
        )
    lead = x.ndim - 1
    node = b.reshape(x.node, (*x.shape[:-2], x.shape[-2] // math.prod(kernel), *kernel, *counts))
    node = permute(node, [*range(lead), lead + 2, lead + 3, lead, lead + 1])
    node = overlap_add(node, lead + 1, wide[1], step[1], spread[1])
    node = overlap_add(node, lead, wide[0], step[0], spread[0])
    starts, extents = (*(0,) * lead, *margin), (*node.shape[:lead], *size)
    return derived(slice_(node, starts, extents, (1,) * node.ndim), x)


def _window_sizes(name: str, *given: Sizes) -> list[tuple[int, ...]]:
    return [
        sizes_of(name, what, value, 2, least)
        for what, value, least in zip(
            ("kernel_size", "dilation", "padding", "stride"), given, (1, 1, 0, 1), strict=True
        )
    ]
