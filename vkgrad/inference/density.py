"""A log density of one position, asked of many chains at once, with positions of any nesting as rows of numbers.

This module must not know samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from vkgrad import functions as f
from vkgrad import tree
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.functional import value_and_grad
from vkgrad.ir.op import Shape
from vkgrad.mapping import vmap
from vkgrad.tensor import Tensor, asarray


class Density:
    """`log_density`, of positions that are shaped like `initial` without its leading axis of chains.

    Shapes: rows are (C, D): of each of C chains the D numbers of a position, one leaf after the other.
    """

    def __init__(self, log_density: Callable[[Any], Tensor], initial: Any) -> None:
        self.log_density = log_density
        found = tree.leaves(initial)
        if not found or any(leaf.of_module for leaf in found):
            raise OptionError("inference: positions are tensors in dicts, lists and tuples, got none or a module")
        tensors = [asarray(leaf.value) for leaf in found]
        for leaf, tensor in zip(found, tensors, strict=True):
            if tensor.dtype.kind != "f" or tensor.dtype is not tensors[0].dtype:
                raise DTypeError(
                    f"inference: all parts of a position are of one float type, initial{leaf.path} is of "
                    f"{tensor.dtype.name}"
                )
            if not tensor.ndim or tensor.shape[0] != tensors[0].shape[0] or not tensor.shape[0]:
                raise ShapeError(
                    f"inference: the first axis of every part is that of the chains, initial{leaf.path} is of shape "
                    f"{tensor.shape}"
                )
        self.form = tree.structure(initial)
        self.shapes: list[Shape] = [tensor.shape[1:] for tensor in tensors]
        self.dtype = tensors[0].dtype
        self.chains = tensors[0].shape[0]
        self.size = sum(math.prod(shape) for shape in self.shapes)

    def rows(self, position: Any) -> Tensor:
        """The rows (C, D) of positions with a leading axis of chains."""
        parts = [asarray(leaf).reshape((self.chains, -1)) for leaf in tree.flatten(position)[0]]
        return parts[0] if len(parts) == 1 else f.concat(parts, axis=1)

    def nested(self, rows: Tensor) -> Any:
        """The nesting of rows (..., D): each leaf (..., *its shape)."""
        parts, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            part = rows if size == self.size else rows[..., start : start + size]
            parts.append(part.reshape((*rows.shape[:-1], *shape)))
            start += size
        return self.form.unflatten(parts)

    def value_and_grad(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The log density (C,) of each row, and its gradients (C, D)."""

        def total(rows: Tensor) -> tuple[Tensor, Tensor]:
            values = vmap(self._of_one)(rows)
            return values.sum(), values

        (_, values), gradient = value_and_grad(total, has_aux=True)(rows)
        return values, gradient

    def _of_one(self, row: Tensor) -> Tensor:
        value = asarray(self.log_density(self.nested(row)))
        if value.shape or value.dtype.kind != "f":
            raise ShapeError(
                f"inference: a log density is one float for one position, got {value.dtype.name} of shape {value.shape}"
            )
        return value.astype(self.dtype)
