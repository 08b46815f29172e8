"""Functions that pick elements by position: `take` and `take_along_axis`.

Indices that come as NumPy arrays or lists are checked before they are uploaded. A kernel cannot raise: where an index
is already on the device and out of range, `take` reads NaN (0 for integers) and `take_along_axis` 0. This module must
not know how a lookup is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.creation import place
from vkgrad.functions.elementwise import where
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.ops.indexed import gather
from vkgrad.tensor import Operand, Tensor, derived, lift, method, tensor

__all__ = [
    "take", "take_along_axis",
]  # fmt: skip


def as_index(name: str, index: Any, extent: int) -> Tensor:
    """`index` as an integer tensor that counts from 0; negative ones count from the end.

    Raises: `ShapeError` when one that is known on the host is out of range, `DTypeError` when it is not of integers.
    """
    if not isinstance(index, Tensor):
        array = np.asarray(index)
        if array.size == 0:
            array = array.astype(np.int32)
        if array.dtype.kind not in "iu":
            raise DTypeError(f"{name}: an index must be of integers, got {array.dtype}")
        if array.size and not (array.min() >= -extent and array.max() < extent):
            raise ShapeError(f"{name}: index {_outside(array, extent)} is out of range for extent {extent}")
        return tensor(np.where(array < 0, array + extent, array), int32)
    if index.dtype.kind not in "iu":
        raise DTypeError(f"{name}: an index must be of integers, got {index.dtype.name}")
    if index.dtype.size_bytes < 4:  # `extent` may be more than it can hold
        index = index.astype(int32)
    return where(index < 0, index + extent, index) if index.dtype.kind == "i" else index


def _outside(array: np.ndarray, extent: int) -> int:
    return int(array[(array < -extent) | (array >= extent)].flat[0])


@method
def take(x: Operand, indices: Any, axis: int | None = None) -> Tensor:
    """The slices of x at `indices` along `axis` (of the flattened tensor if None).

    Shapes: x (..., N, ...), indices (*I) -> (..., *I, ...).
    """
    source: Tensor = lift(x) if axis is not None else lift(x).reshape(-1)
    along = b.normalise_axes("take", axis or 0, source.ndim)[0]
    return derived(gather(source.node, as_index("take", indices, source.shape[along]).node, along), source)


def take_along_axis(x: Operand, indices: Any, axis: int = -1) -> Tensor:
    """One element of x for each index: `out[i, j] = x[i, indices[i, j]]` for the last of two axes.

    Shapes: x and indices have as many axes; all but `axis` broadcast.

    Every candidate along `axis` is compared with the index. That costs as many reads as x has, and makes the gradient
    as cheap as the value, where scattering it would not be.
    """
    x = lift(x)
    along = b.normalise_axes("take_along_axis", axis, x.ndim)[0]
    index = as_index("take_along_axis", indices, x.shape[along])
    if index.ndim != x.ndim:
        raise ShapeError(f"take_along_axis: indices of shape {index.shape} must have as many axes as x {x.shape}")
    wide = x.moveaxis(along, -1).expand_dims(-2)  # (..., 1, N)
    wanted = index.moveaxis(along, -1).expand_dims(-1)  # (..., J, 1)
    candidates = place(wide.shape, -1)
    picked = where(wanted == candidates.astype(index.dtype), wide, 0)
    if x.dtype.kind == "b":
        return picked.any(-1).moveaxis(-1, along)
    return picked.sum(-1).moveaxis(-1, along)
