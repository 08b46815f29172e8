"""Functions that join the elements along some axes: sums, means, extremes, norms and what is normalised by them.

`axis` is None for all axes, an integer or a tuple; `keepdims` keeps the joined axes with extent 1. This module must not
know how a reduction is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vkgrad.composites import composite
from vkgrad.errors import ShapeError
from vkgrad.functions.elementwise import abs as absolute
from vkgrad.functions.elementwise import as_mask, exp, floating, isfinite, log, sqrt, where
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.ir.node import Node
from vkgrad.ir.op import Shape
from vkgrad.ops.reductions import argextreme
from vkgrad.precision import in_single, single
from vkgrad.tensor import Operand, Tensor, derived, lift, method

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "log_softmax", "logsumexp", "max", "mean",
    "min", "norm", "prod", "softmax", "std", "sum", "var",
]  # fmt: skip

Axes = int | Sequence[int] | None


def _reduce(op: str, x: Tensor, axis: Axes, keepdims: bool, **attributes: Any) -> Tensor:
    axes = b.normalise_axes(op, axis, x.ndim)
    node = b.build(op, x.node, axes=axes, **attributes) if axes else x.node
    return derived(_without(node, axes, keepdims), x)


def _without(node: Node, axes: Sequence[int], keepdims: bool) -> Node:
    """`node` without the `axes` that a reduction left with extent 1."""
    return node if keepdims else b.reshape(node, tuple(e for a, e in enumerate(node.shape) if a not in axes))


def _count(name: str, shape: Shape, axis: Axes) -> int:
    return math.prod(shape[a] for a in b.normalise_axes(name, axis, len(shape)))


def as_terms(x: Any) -> Tensor:
    """`x` as sums take it: a mask counts as 0 and 1, and small integers have the default type of their kind."""
    x = single(lift(x))
    if x.dtype.kind == "b":
        return x.astype(int32)
    return x.astype(x.dtype.computed) if x.dtype.kind in "iu" else x


@method
def sum(x: Operand, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The sum; of masks, how many hold. Integers wrap: those of 8 and 16 bits in the 32 that they become.

    Halves are added up in float32 and rounded once; with `dtype=vg.float32` they are not rounded.
    """
    return _reduce("sum", as_terms(x) if dtype is None else lift(x).astype(dtype), axis, keepdims)


@method
def prod(x: Operand, axis: Axes = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product. Its gradient is right with any number of zeros."""
    return _reduce("prod", as_terms(x) if dtype is None else lift(x).astype(dtype), axis, keepdims)


@method
def max(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one. Ties share the gradient equally.

    Raises: `ShapeError` over no elements, which have no largest.
    """
    return _extreme("max", x, axis, keepdims)


@method
def min(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one. Ties share the gradient equally.

    Raises: `ShapeError` over no elements, which have no smallest.
    """
    return _extreme("min", x, axis, keepdims)


amax, amin = max, min


def _extreme(op: str, x: Any, axis: Axes, keepdims: bool) -> Tensor:
    x = lift(x)
    _refuse_empty(op, x, axis)
    if x.dtype.kind == "b":
        return any(x, axis, keepdims) if op == "max" else all(x, axis, keepdims)
    return _reduce(op, x, axis, keepdims, ties="share")


def _refuse_empty(name: str, x: Tensor, axis: Axes) -> None:
    if _count(name, x.shape, axis) == 0:
        along = "" if axis is None else f" along axis {axis}"
        raise ShapeError(f"{name}: shape {x.shape} has no elements{along} to choose from; look at x.size first")


@method
def all(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether every element holds (is not 0)."""
    return _reduce("all", as_mask(x), axis, keepdims)


@method
def any(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether some element holds (is not 0)."""
    return _reduce("any", as_mask(x), axis, keepdims)


def count_nonzero(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0 (int32)."""
    return sum(as_mask(x), axis, keepdims)


@method
def argmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first largest element (or the first NaN) is along `axis`, or in the flattened tensor (int32)."""
    return _argextreme("max", x, axis, keepdims)


@method
def argmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first smallest element (or the first NaN) is along `axis`, or in the flattened tensor (int32)."""
    return _argextreme("min", x, axis, keepdims)


def _argextreme(kind: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = lift(x)
    x = x.astype(int32) if x.dtype.kind == "b" else x
    _refuse_empty(f"arg{kind}", x, axis)
    axes = b.normalise_axes(f"arg{kind}", axis, x.ndim)
    if not axes:
        return Tensor(b.constant(0, int32))
    return Tensor(_without(argextreme(x.node, kind, axes), axes, keepdims))


# ---- moments
@method
@composite
@in_single
def mean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean; NaN over no elements. Integers become float32."""
    x = lift(floating(x))
    count = _count("mean", x.shape, axis)
    return sum(x, axis, keepdims) / count


@method
@composite
@in_single
def var(x: Operand, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The mean squared distance from the mean, with `count - correction` as the divisor (1 for an unbiased estimate).

    The mean is computed first and then subtracted, so that a large mean does not cancel a small variance.
    """
    x = lift(floating(x))
    distance = x - mean(x, axis, keepdims=True)
    divisor = _count("var", x.shape, axis) - correction
    return sum(distance * distance, axis, keepdims) / (divisor if divisor > 0 else 0)


@method
def std(x: Operand, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The square root of the variance; its derivative is 0 where all elements are equal."""
    return _root(var(x, axis, correction, keepdims))


def _root(x: Tensor) -> Tensor:
    """The square root, with derivative 0 at 0 instead of infinity."""
    positive = x != 0  # NaN and infinity count: sqrt passes them on
    return where(positive, sqrt(where(positive, x, 1.0)), 0.0)


@method
@composite
@in_single
def norm(x: Operand, ord: float = 2, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The vector norm (sum |x|**ord)**(1/ord) along `axis`; `ord` may be infinite or 0 (the number of nonzeros).

    The derivative at 0 is 0.
    """
    x = lift(floating(x))
    if ord == 2:
        return _root(sum(x * x, axis, keepdims))
    if ord == 1 or (ord == math.inf and _count("norm", x.shape, axis) == 0):
        return sum(absolute(x), axis, keepdims)
    if ord == math.inf:
        return max(absolute(x), axis, keepdims)
    if ord == -math.inf:
        return min(absolute(x), axis, keepdims)
    if ord == 0:
        return count_nonzero(x, axis, keepdims).astype(x.dtype)
    at_zero = 0.0 if ord > 0 else math.inf  # of an element that is 0, and of a sum that is
    present = x != 0  # powers have infinite derivatives at 0
    total = sum(where(present, absolute(where(present, x, 1.0)) ** ord, at_zero), axis, keepdims)
    positive = total != 0
    return where(positive, where(positive, total, 1.0) ** (1 / ord), at_zero)


# ---- exponentials that cannot overflow: the largest element is subtracted first, as a constant
def _largest(x: Tensor, axis: Axes) -> Tensor:
    return _reduce("max", x, axis, keepdims=True, ties="share").detach()


@method
@composite
@in_single
def logsumexp(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))), without overflow."""
    x = lift(floating(x))
    largest = _largest(x, axis)
    shift = where(isfinite(largest), largest, 0.0)  # inf - inf would not be a number
    total = log(sum(exp(x - shift), axis, keepdims=True)) + shift
    return derived(_without(total.node, b.normalise_axes("logsumexp", axis, x.ndim), keepdims), total)


@method
@composite
@in_single
def softmax(x: Operand, axis: Axes = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, without overflow."""
    x = lift(floating(x))
    weights = exp(x - _largest(x, axis))
    return weights / sum(weights, axis, keepdims=True)


@method
@composite
@in_single
def log_softmax(x: Operand, axis: Axes = -1) -> Tensor:
    """log(softmax(x)), without overflow and without losing small probabilities."""
    x = lift(floating(x))
    shifted = x - _largest(x, axis)
    return shifted - log(sum(exp(shifted), axis, keepdims=True))
