"""The contraction of two operands over labelled axes: matrix products in every orientation, batched, and convolutions.

Each operand and the output name their axes by integer labels, as in an einsum. A label missing from the output is
summed, and must then be in both operands. The gradient of a contraction is a contraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family, Op, Shape, register
from vkgrad.ops.families import numeric
from vkgrad.ops.samples import case, uniform

Labels = tuple[int, ...]


def extents_of(shapes: Sequence[Shape], left: Labels, right: Labels) -> dict[int, int]:
    """The extent of each label. Raises `ShapeError` where the operands disagree."""
    extents: dict[int, int] = {}
    for shape, labels in zip(shapes, (left, right), strict=True):
        if len(shape) != len(labels) or len(set(labels)) != len(labels):
            raise ShapeError(f"contract: labels {labels} do not name the axes of shape {shape}, once each")
        for label, extent in zip(labels, shape, strict=True):
            if extents.setdefault(label, extent) != extent:
                raise ShapeError(f"contract: inner sizes differ: {shapes[0]} and {shapes[1]}")
    return extents


def summed_labels(left: Labels, right: Labels, out: Labels) -> Labels:
    return tuple(label for label in left if label not in out)


def _shape(shapes: Sequence[Shape], *, left: Labels, right: Labels, out: Labels) -> Shape:
    extents = extents_of(shapes, left, right)
    if {label for label in extents if label not in out} != {x for x in left if x in right and x not in out}:
        raise ShapeError(f"contract: a label that only one of {left} and {right} has must be in the output {out}")
    return tuple(extents[label] for label in out)


def contract(x: Node, y: Node, left: Labels, right: Labels, out: Labels) -> Node:
    """sum over the labels not in `out` of x[left] * y[right]; operands of one type."""
    return b.build("contract", x, y, left=tuple(left), right=tuple(right), out=tuple(out))


def _numpy(x: Any, y: Any, *, left: Labels, right: Labels, out: Labels) -> Any:
    return np.einsum(x, list(left), y, list(right), list(out), optimize=True).astype(x.dtype)


register(
    Op(
        name="contract", family=Family.CONTRACTION, arity=2, shape=_shape, dtype=numeric("contract"), numpy=_numpy,
        grad=lambda g, node, x, y, *, left, right, out: (
            contract(g, y, out, right, left),
            contract(g, x, out, left, right),
        ),
        samples=uniform(-2, 2).on(
            case((2, 3), (3, 2), left=(0, 1), right=(1, 2), out=(0, 2)),
            case((2, 2, 2), (1, 2, 2), left=(1, 0, 3), right=(2, 1, 0), out=(3, 0, 2)),
            case((3,), (3,), left=(0,), right=(0,), out=()),
            case((), (), left=(), right=(), out=()),
            case((2, 0), (0, 2), left=(0, 1), right=(1, 2), out=(0, 2)),
        ), doc="sum of products over shared labels",
    )
)  # fmt: skip
