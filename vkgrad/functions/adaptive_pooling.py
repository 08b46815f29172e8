"""Adaptive pooling: as many windows as asked for, whatever their sizes; where they divide the input they are a reshape.

This module must not know how a reduction is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkgrad.composites import composite
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import where
from vkgrad.functions.lookup import take
from vkgrad.functions.pooling import Pooled, never_wins, places_of, reduced
from vkgrad.functions.reductions import mean
from vkgrad.functions.shapes import permute_dims, reshape, swapaxes
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]  # fmt: skip


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
            x = where(beyond, never_wins("max", x.dtype), take(x, reshape(inside, (-1,)), axis=axis))
        laid_out = _divided(x, counts)
    largest = derived(reduced("max", laid_out.node, dimensions, ties="first"), laid_out)
    if not return_indices:
        return largest
    return largest, places_of("max", laid_out.node, [begin for begin, _, _ in bounds], (1,) * dimensions, space)


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
