"""What einops needs to rearrange tensors: `einops.rearrange(x, "b c h w -> b (h w) c")` and its kin.

einops looks for its backend among the classes derived from its own; where it is not installed there is nothing to do.
This module must not be needed by anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.tensor import Tensor, tensor

try:
    from einops._backends import AbstractBackend as _Base
except ImportError:
    _Base = object  # type: ignore[assignment, misc]


class VkgradBackend(_Base):
    """The operations that einops builds everything of, on tensors."""

    framework_name = "vkgrad"

    def is_appropriate_type(self, x: object) -> bool:
        return isinstance(x, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return tensor(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return f.arange(start, stop)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return x.shape

    def reshape(self, x: Tensor, shape: Any) -> Tensor:
        return x.reshape(shape)

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        return f.permute_dims(x, axes)

    def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
        return getattr(f, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list) -> Tensor:
        return f.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return f.expand_dims(x, new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        repeats = [1] * n_axes
        for position, length in pos2len.items():
            x = f.expand_dims(x, position)
            repeats[position] = length
        return f.tile(x, tuple(repeats))

    def tile(self, x: Tensor, repeats: Any) -> Tensor:
        return f.tile(x, repeats)

    def concat(self, tensors: list, axis: int) -> Tensor:
        return f.concat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.kind == "f"

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return f.einsum(pattern, *x)
