"""What draws share: the shape that parameters and a wish make together, and the choice among candidates.

This module must not know a distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.creation import as_shape, counter
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor, lift

Sizes = int | Sequence[int] | None


def float_type(name: str, dtype: Any) -> DType:
    """The float type that `dtype` names. Raises `DTypeError` for another kind."""
    kind = dtype_of(dtype)
    if kind.kind != "f":
        raise DTypeError(f"random.{name}: makes float types, not {kind.name}")
    return kind


def drawn_shape(name: str, shape: Sizes, *parameters: Operand) -> Shape:
    """`shape`, or that of the parameters together if None. Raises `ShapeError` where they do not broadcast to it."""
    together = b.broadcast_shapes(f"random.{name}", *(lift(p).shape for p in parameters))
    if shape is None:
        return together
    wanted = as_shape("random", shape)
    if b.broadcast_shapes(f"random.{name}", together, wanted) != wanted:
        raise ShapeError(f"random.{name}: parameters of shape {together} do not broadcast to {wanted}")
    return wanted


def first_accepted(candidates: Tensor, accepted: Tensor) -> Tensor:
    """Of the candidates along the last axis the first that is accepted; the first of all if none is."""
    chosen = f.expand_dims(f.argmax(accepted, -1), -1)
    return f.where(counter(candidates.shape[-1]) == chosen, candidates, 0).sum(-1)
