"""Running sums, products and extremes: each element joined with those before it along an axis.

`axis` is None for the flattened tensor; `reverse` runs from the end; `exclusive` leaves the element itself out. This
module must not know how a scan is computed.
"""

from __future__ import annotations

from typing import Any

from vkgrad.errors import ShapeError
from vkgrad.functions.elementwise import exp, floating, isfinite, log, where
from vkgrad.functions.joining import concat
from vkgrad.functions.reductions import as_terms
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, int32, promote
from vkgrad.ops import scans
from vkgrad.ops.scattering import identity
from vkgrad.tensor import Operand, Tensor, derived, lift, method

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "linear_scan", "logcumsumexp",
]  # fmt: skip


ADDING = ("cumsum", "cumprod", "cumulative_sum", "cumulative_prod")


def _arranged(name: str, x: Operand, axis: int | None, dtype: Any = None) -> tuple[Tensor, int]:
    """x as numbers, flattened where there is no axis, and the axis."""
    numbers = lift(x)
    if dtype is not None:
        numbers = numbers.astype(dtype)
    elif name in ADDING:
        numbers = as_terms(numbers)
    elif numbers.dtype.kind == "b":
        numbers = numbers.astype(int32)
    if axis is None:
        return numbers.reshape(-1), 0
    return numbers, b.normalise_axes(name, axis, numbers.ndim)[0]


def _scan(x: Tensor, axis: int, join: str, reverse: bool, exclusive: bool) -> Tensor:
    node = scans.scan(x.node, join, reverse, axis)
    if exclusive:
        node = scans.shifted(node, -1 if reverse else 1, identity(join, x.dtype), axis)
    return derived(node, x)


@method
def cumsum(
    x: Operand, axis: int | None = None, dtype: Any = None, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Running sums; of masks, how many held so far. Integers wrap.

    Example:
        >>> import vkgrad as vg
        >>> vg.cumsum(vg.tensor([1, 2, 3])).tolist(), vg.cumsum([1, 2, 3], reverse=True, exclusive=True).tolist()
        ([1, 3, 6], [5, 3, 0])
    """
    numbers, along = _arranged("cumsum", x, axis, dtype)
    return _scan(numbers, along, "sum", reverse, exclusive)


@method
def cumprod(
    x: Operand, axis: int | None = None, dtype: Any = None, *, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    """Running products. The gradient is right with any number of zeros, at every order.

    Example:
        >>> import vkgrad as vg
        >>> vg.grad(lambda x: vg.cumprod(x)[-1])(vg.tensor([2.0, 0.0, 3.0, 4.0])).tolist()
        [0.0, 24.0, 0.0, 0.0]
    """
    numbers, along = _arranged("cumprod", x, axis, dtype)
    return _scan(numbers, along, "prod", reverse, exclusive)


def cummax(x: Operand, axis: int | None = None, *, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """The largest element so far; NaN from the first NaN on. Of equal ones the latest gets the gradient."""
    numbers, along = _arranged("cummax", x, axis)
    return _scan(numbers, along, "max", reverse, exclusive)


def cummin(x: Operand, axis: int | None = None, *, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """The smallest element so far; NaN from the first NaN on. Of equal ones the latest gets the gradient."""
    numbers, along = _arranged("cummin", x, axis)
    return _scan(numbers, along, "min", reverse, exclusive)


def logcumsumexp(x: Operand, axis: int | None = None, *, reverse: bool = False) -> Tensor:
    """log(cumsum(exp(x))) without overflow: sums of exponentials relative to the largest so far."""
    numbers, along = _arranged("logcumsumexp", floating(x), axis)
    # The largest so far is a scale, whose value does not matter: it takes no part in derivatives.
    largest = derived(scans.scan(numbers.detach().node, "max", reverse, along), numbers).detach()
    scale = where(isfinite(largest), largest, 0)
    before = Tensor(scans.shifted(largest.node, -1 if reverse else 1, identity("max", numbers.dtype), along))
    shrinks = where(isfinite(before), exp(where(isfinite(before), before, 0) - scale), 0)
    shrinks = where(before == largest, 1, shrinks)
    total = derived(scans.linear_scan(shrinks.node, exp(numbers - scale).node, reverse, along), numbers)
    return scale + log(total)


def linear_scan(a: Operand, x: Operand, axis: int = -1, *, reverse: bool = False) -> Tensor:
    """The recurrence h[i] = a[i] h[i-1] + x[i] along `axis`, from h = 0 before its start, in parallel.

    Shapes: a and x broadcast to one shape, which h has.
    """
    first, second = lift(a), lift(x)
    shape = b.broadcast_shapes("linear_scan", first.shape, second.shape)
    along = b.normalise_axes("linear_scan", axis, len(shape))[0]
    common = promote(first.dtype, second.dtype)
    common = common if common.kind == "f" else float32
    factors, terms = (y.astype(common).broadcast_to(shape) for y in (first, second))
    return derived(scans.linear_scan(factors.node, terms.node, reverse, along), factors, terms)


def _standard(name: str, x: Tensor, axis: int | None, dtype: Any, include_initial: bool, join: str) -> Tensor:
    """The array API standard's form."""
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"{name}: say which axis of a tensor with {x.ndim} axes")
        axis = 0
    numbers, along = _arranged(name, x, axis, dtype)
    done = _scan(numbers, along, join, False, False)
    if not include_initial:
        return done
    first = Tensor(
        b.constant(identity(join, done.dtype), done.dtype, (*done.shape[:along], 1, *done.shape[along + 1 :]))
    )
    return concat([first, done], axis=along)


def cumulative_sum(x: Operand, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """`cumsum` by the array API standard: an axis is needed unless there is one; `include_initial` starts with 0."""
    return _standard("cumulative_sum", lift(x), axis, dtype, include_initial, "sum")


def cumulative_prod(x: Operand, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """`cumprod` by the array API standard: an axis is needed unless there is one; `include_initial` starts with 1."""
    return _standard("cumulative_prod", lift(x), axis, dtype, include_initial, "prod")
