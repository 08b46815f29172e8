"""Images at another size: resizing by interpolation, padding with what is there already, and pixels from channels.

Interpolation is a linear map along each axis, whose matrix is made on the device from two counters (a function of the
distance between where an output reads and each input), so a resize is one product per axis and its gradient another.
Nearest neighbours are views where the sizes divide. This module must not know how a product is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.adaptive_pooling import adaptive_average
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import abs as absolute
from vkgrad.functions.elementwise import clip, floating, floor, where
from vkgrad.functions.joining import concat, repeat
from vkgrad.functions.lookup import take
from vkgrad.functions.shapes import flip, permute_dims, reshape, swapaxes
from vkgrad.ir.dtypes import DType
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["channel_shuffle", "interpolate", "pad_edges", "pixel_shuffle", "pixel_unshuffle"]

Sizes = int | Sequence[int]
_DIMENSIONS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
MODES = ("nearest", "nearest-exact", "area", *_DIMENSIONS)


@composite
def interpolate(
    x: Operand, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:  # fmt: skip
    """Resize the spatial axes.

    Shapes: x (B, C, spatial axes) -> the same with the spatial axes of extents `size`, or floor(extent * scale_factor).

    Args:
        size: the new extents; or give `scale_factor`, how many times larger they shall be.
        mode: "nearest" (output i reads floor(i * in / out)), "nearest-exact" (floor((i + 1/2) * in / out)), "linear",
            "bilinear", "trilinear" (a hat of width 1 around (i + 1/2) * in / out - 1/2), "bicubic" or "area" (the mean
            of the window that `adaptive_avg_pool2d` has).
        align_corners: the corners of input and output are the same points: output i reads i * (in - 1) / (out - 1).
        recompute_scale_factor: take in / out, not 1 / scale_factor, for the distance between the points that are read.

    Source: Keys (1981), Cubic convolution interpolation, equation 4, with a = -3/4 as PyTorch has it.

    Raises: `OptionError` for a mode that there is not; `ShapeError` when sizes do not fit the axes.
    """
    x = lift(floating(x))
    dimensions = x.ndim - 2
    if mode not in MODES:
        raise OptionError(f"interpolate: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if dimensions < 1 or dimensions != _DIMENSIONS.get(mode, dimensions):
        raise ShapeError(f"interpolate: mode={mode!r} does not fit an input of shape {x.shape}; it needs (B, C, space)")
    if (size is None) == (scale_factor is None):
        raise OptionError("interpolate: give size or scale_factor, one of the two")
    sizes, scales = _sizes(x.shape[2:], size, scale_factor)
    if mode == "area":
        return adaptive_average("interpolate", x, sizes, dimensions)
    for axis, extent, factor in zip(range(2, x.ndim), sizes, scales, strict=True):
        ratio = x.shape[axis] / extent if factor is None or recompute_scale_factor else 1 / factor
        if mode in ("nearest", "nearest-exact"):
            x = _nearest(x, axis, extent, ratio, mode == "nearest-exact")
        elif extent != x.shape[axis] or ratio != 1:
            reach = _cubic if mode == "bicubic" else _hat
            x = _along(x, axis, extent, ratio, bool(align_corners), reach)
    return x


def _sizes(
    space: Sequence[int], size: Sizes | None, scale_factor: float | Sequence[float] | None
) -> tuple[list[int], list[float | None]]:
    if size is not None:
        sizes = [size] * len(space) if isinstance(size, int) else [*size]
        scales: list[float | None] = [None] * len(space)
    else:
        given = [scale_factor] * len(space) if isinstance(scale_factor, int | float) else [*(scale_factor or ())]
        scales = [float(factor) for factor in given]
        sizes = [math.floor(extent * (factor or 0)) for extent, factor in zip(space, scales, strict=False)]
    if len(sizes) != len(space) or any(extent < 1 for extent in sizes):
        raise ShapeError(
            f"interpolate: needs a positive size for each of {len(space)} axes, got {size or scale_factor}"
        )
    return sizes, scales


def _nearest(x: Tensor, axis: int, extent: int, ratio: float, exact: bool) -> Tensor:
    old = x.shape[axis]
    if extent % old == 0 and ratio == old / extent:
        return repeat(x, extent // old, axis=axis)
    i = counter(extent)
    if ratio == old / extent:  # in whole numbers, where no rounding can cross a border
        places = (2 * i + 1) * old // (2 * extent) if exact else i * old // extent
    else:
        places = floor((i.astype("float32") + (0.5 if exact else 0.0)) * ratio).astype("int32")
    return take(x, clip(places, 0, old - 1), axis=axis)


def _along(
    x: Tensor, axis: int, extent: int, ratio: float, align_corners: bool, reach: Callable[[Tensor, int, DType], Tensor]
) -> Tensor:
    """x resized along one axis: a product with the weights of the points that each output reads."""
    old, dtype = x.shape[axis], x.dtype.computed
    i = counter(extent).astype(dtype)
    step = (old - 1) / (extent - 1) if extent > 1 else 0.0
    source = i * step if align_corners else (i + 0.5) * ratio - 0.5
    weights = reach(source, old, dtype).astype(x.dtype)
    return swapaxes(swapaxes(x, axis, -1) @ weights, axis, -1)


def _hat(source: Tensor, old: int, dtype: DType) -> Tensor:
    """(old, new): how much each point counts, falling linearly to 0 at the next."""
    j = reshape(counter(old).astype(dtype), (-1, 1))
    distance = absolute(clip(source, 0, old - 1) - j)
    return where(distance < 1, 1 - distance, 0.0)


def _cubic(source: Tensor, old: int, dtype: DType) -> Tensor:
    """(old, new): the same by a cubic that reaches two points far. Points beyond the border count for its last one."""
    a = -0.75
    first = floor(source)
    j = reshape(counter(old).astype(dtype), (-1, 1))
    total = None
    for offset in (-1, 0, 1, 2):
        point = first + offset
        d = absolute(source - point)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        counted = where(clip(point, 0, old - 1) == j, where(d <= 1, near, far), 0.0)
        total = counted if total is None else total + counted
    assert total is not None
    return total


@composite
def pad_edges(x: Operand, pad: Sequence[int], mode: str) -> Tensor:
    """Surround the last axes with what is in the tensor already.

    Shapes: `pad` holds (before, after) for the last axis, then for the one before it, ...

    Args:
        mode: "reflect" (mirrored at the outermost element, which is not repeated), "replicate" (it is repeated) or
            "circular" (what is on the other side).

    Raises: `ShapeError` when an axis is too short for what is asked.
    """
    x = lift(x)
    if mode not in _EDGES:
        raise OptionError(f"pad: mode must be 'constant', {', '.join(map(repr, _EDGES))}, got {mode!r}")
    if len(pad) % 2 or len(pad) > 2 * x.ndim or any(width < 0 for width in pad):
        raise ShapeError(f"pad: needs pairs of widths from the last axis on, none negative, got {tuple(pad)}")
    for number in range(len(pad) // 2):
        axis, low, high = x.ndim - 1 - number, pad[2 * number], pad[2 * number + 1]
        most = x.shape[axis] - (mode == "reflect") if mode != "replicate" else max(low, high)
        if max(low, high) > most:
            raise ShapeError(f"pad: {mode} of axis {axis} of {x.shape} cannot be wider than {most}, got {(low, high)}")
        before, after = _EDGES[mode](x, axis, low, high)
        x = concat([part for part, width in ((before, low), (x, 1), (after, high)) if width], axis=axis)
    return x


def _span(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return x[(*(slice(None),) * axis, slice(start, stop))]


def _reflected(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    return flip(_span(x, axis, 1, low + 1), axis), flip(_span(x, axis, n - 1 - high, n - 1), axis)


def _replicated(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    return repeat(_span(x, axis, 0, 1), low, axis=axis), repeat(_span(x, axis, n - 1, n), high, axis=axis)


def _wrapped(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    return _span(x, axis, n - low, n), _span(x, axis, 0, high)


_EDGES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


def pixel_shuffle(x: Operand, upscale_factor: int) -> Tensor:
    """Spread channels over space.

    Shapes: (..., C * r * r, H, W) -> (..., C, H * r, W * r).

    Source: Shi et al. (2016), arXiv:1609.05158, equation 4.

    Raises: `ShapeError` when the channels do not divide.
    """
    x, r = lift(x), upscale_factor
    if x.ndim < 3 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: {x.shape} has no axis -3 of a multiple of {r} * {r} channels")
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = reshape(x, (*lead, channels // (r * r), r, r, height, width))
    mixed = permute_dims(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(mixed, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Operand, downscale_factor: int) -> Tensor:
    """Gather space into channels: the reverse of `pixel_shuffle`. Shapes: (..., C, H r, W r) -> (..., C r r, H, W)."""
    x, r = lift(x), downscale_factor
    if x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: the last two extents of {x.shape} are no multiples of {r}")
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = reshape(x, (*lead, channels, height // r, r, width // r, r))
    mixed = permute_dims(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(mixed, (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(x: Operand, groups: int) -> Tensor:
    """Deal the channels of `groups` groups out in turn, the first of each, then the second of each, ...

    Shapes: (B, C, ...) -> the same.

    Source: Zhang et al. (2018), arXiv:1707.01083, section 3.1.

    Raises: `ShapeError` when the channels do not divide.
    """
    x = lift(x)
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {x.shape} has no axis 1 that divides into {groups} groups")
    batch, channels, *space = x.shape
    dealt = swapaxes(reshape(x, (batch, groups, channels // groups, *space)), 1, 2)
    return reshape(dealt, x.shape)
