"""Images read at points of one's choice, and the points of an affine map; PyTorch's names and coordinates.

Coordinates go from -1 to 1 over the image, and x, along the last axis, comes first. This module must not know how a
lookup is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import abs as absolute
from vkgrad.functions.elementwise import clip, floor, where
from vkgrad.functions.elementwise import round as rounded
from vkgrad.functions.joining import stack
from vkgrad.functions.lookup import take_along_axis
from vkgrad.functions.shapes import broadcast_to, reshape
from vkgrad.ir.dtypes import int32
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["affine_grid", "grid_sample"]


@composite
def grid_sample(
    x: Operand, grid: Operand, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The image at the points of a grid.

    Shapes: x (B, C, H, W), grid (B, H', W', 2) of (x, y) -> (B, C, H', W'); with a depth x (B, C, D, H, W), grid
    (B, D', H', W', 3) of (x, y, z) -> (B, C, D', H', W').

    Args:
        mode: "bilinear", between the nearest elements (of all axes), or "nearest".
        padding_mode: what lies beyond the image: "zeros", "border", its outermost elements, or "reflection".
        align_corners: -1 and 1 are the centres of the outermost elements, not their edges.

    Source: Jaderberg et al. (2015), arXiv:1506.02025, equation 5.

    Raises: `OptionError` for a mode that there is not; `ShapeError` when image and grid do not fit.
    """
    x, grid = lift(x), lift(grid)
    space = x.shape[2:]
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise OptionError(
            'grid_sample: mode must be "bilinear" or "nearest" and padding_mode "zeros", "border" or "reflection", got '
            f"{mode!r} and {padding_mode!r}"
        )
    if len(space) not in (2, 3) or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != len(space):
        raise ShapeError(
            f"grid_sample: needs (B, C, H, W) and (B, H', W', 2), or both with a depth, got {x.shape} and {grid.shape}"
        )
    places = [
        _place(grid[..., len(space) - 1 - axis], extent, padding_mode, bool(align_corners))
        for axis, extent in enumerate(space)
    ]
    flat = reshape(x, (*x.shape[:2], prod(space)))
    if mode == "nearest":
        return reshape(_at(flat, [rounded(place) for place in places], space), (*x.shape[:2], *grid.shape[1:-1]))
    total = None
    first = [floor(place) for place in places]
    for corner in product((0, 1), repeat=len(space)):
        share: Tensor | None = None
        for place, low, step in zip(places, first, corner, strict=True):
            part = place - low if step else 1 - (place - low)
            share = part if share is None else share * part
        assert share is not None
        found = _at(flat, [low + step for low, step in zip(first, corner, strict=True)], space)
        term = found * reshape(share, (x.shape[0], 1, -1))
        total = term if total is None else total + term
    assert total is not None
    return reshape(total, (*x.shape[:2], *grid.shape[1:-1]))


def _place(coordinate: Tensor, extent: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Where a coordinate lies among the elements of an axis, 0 being the first one's centre."""
    place = (coordinate + 1) * ((extent - 1) / 2) if align_corners else ((coordinate + 1) * extent - 1) / 2
    if padding_mode == "reflection":
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        if high > low:
            away = absolute(place - low)
            turns = floor(away / (high - low))
            rest = away - turns * (high - low)
            place = where(turns % 2 == 0, rest + low, high - rest)
        else:
            place = place * 0
    return place if padding_mode == "zeros" else clip(place, 0.0, extent - 1.0)


def _at(flat: Tensor, places: Sequence[Tensor], space: Sequence[int]) -> Tensor:
    """The elements (B, C, N) at whole places, 0 where one is beyond the image."""
    index, inside = None, None
    for place, extent in zip(places, space, strict=True):
        here = (place >= 0) & (place < extent)
        whole = where(here, place, 0.0).astype(int32)
        index = whole if index is None else index * extent + whole
        inside = here if inside is None else inside & here
    assert index is not None and inside is not None
    rows = (flat.shape[0], 1, -1)
    return where(reshape(inside, rows), take_along_axis(flat, reshape(index, rows), -1), 0.0)


@composite
def affine_grid(theta: Operand, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The points that an affine map sends each point of an image of this size to, for `grid_sample`.

    Shapes: theta (B, 2, 3), size (B, C, H, W) -> (B, H, W, 2); or (B, 3, 4) and (B, C, D, H, W) -> (B, D, H, W, 3).

    Raises: `ShapeError` when they do not fit.
    """
    theta = lift(theta)
    space = tuple(size)[2:]
    if len(space) not in (2, 3) or theta.shape != (size[0], len(space), len(space) + 1):
        raise ShapeError(
            f"affine_grid: size (B, C, H, W) needs theta (B, 2, 3), and (B, C, D, H, W) (B, 3, 4); got {tuple(size)} "
            f"and {theta.shape}"
        )
    points = []
    for axis, extent in reversed(list(enumerate(space))):
        step = counter(extent).astype(theta.dtype)
        reach = max(extent - 1, 1) if align_corners else extent
        along = (2 * step - (extent - 1)) / reach
        points.append(broadcast_to(reshape(along, (-1, *(1,) * (len(space) - 1 - axis))), space))
    homogeneous = reshape(stack([*points, points[0] * 0 + 1], axis=-1), (1, prod(space), len(space) + 1))
    moved = homogeneous @ theta.swapaxes(1, 2)
    return reshape(moved, (size[0], *space, len(space)))
