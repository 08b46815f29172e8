"""Functions of neighbours along an axis: differences, derivatives, integrals, interpolation, convolution of signals.

This module must not know how a contraction or a lookup is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.elementwise import as_floats, clip, logical_xor, not_equal, where
from vkgrad.functions.joining import concat, padded
from vkgrad.functions.lookup import take
from vkgrad.functions.reductions import sum
from vkgrad.functions.sorting import argsort, searchsorted
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.ops.contraction import contract
from vkgrad.ops.views import flip, window
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = [
    "convolve", "correlate", "cumulative_trapezoid", "diff", "digitize", "gradient", "interp", "polyval", "trapezoid",
]  # fmt: skip


def _along(x: Tensor, axis: int, start: int | None, stop: int | None) -> Tensor:
    return x[(*(slice(None) for _ in range(axis)), slice(start, stop))]


def diff(
    x: Operand, n: int = 1, axis: int = -1, prepend: Operand | None = None, append: Operand | None = None
) -> Tensor:
    """What each element is more than the one before it along `axis`; done n times. Of masks, where they change.

    Shapes: the extent of `axis` becomes n less. `prepend` and `append` are joined to x first.

    Example:
        >>> import vkgrad as vg
        >>> vg.diff(vg.tensor([1, 4, 9, 16])).tolist(), vg.diff(vg.tensor([1, 4, 9, 16]), n=2).tolist()
        ([3, 5, 7], [2, 2])
    """
    values = lift(x)
    if n < 0:
        raise OptionError(f"diff: n is how often, got {n}")
    if values.ndim == 0:
        raise ShapeError("diff: a tensor without axes has no neighbours")
    (along,) = b.normalise_axes("diff", axis, values.ndim)

    def piece(value: Operand) -> Tensor:
        given = lift(value)
        shape = (*values.shape[:along], 1, *values.shape[along + 1 :])
        return given if given.ndim else derived(b.expand(given.node, shape), given)

    if n and (prepend is not None or append is not None):
        values = concat(
            [*([] if prepend is None else [piece(prepend)]), values, *([] if append is None else [piece(append)])],
            along,
        )
    change = logical_xor if values.dtype.kind == "b" else lambda later, sooner: later - sooner
    for _ in range(min(n, values.shape[along])):
        values = change(_along(values, along, 1, None), _along(values, along, None, -1))
    return values


def gradient(f: Operand, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Any:
    """Derivatives along each axis by differences of neighbours, of second order inside and `edge_order` at the ends.

    `varargs` is one distance for all axes, or for each a distance or the coordinates of its places. The result is a
    list, or one tensor for one axis.

    Raises: `ShapeError` when there are too few places or coordinates, `OptionError` for another `edge_order`.
    """
    values = as_floats(f)
    axes = list(b.normalise_axes("gradient", None, values.ndim)) if axis is None else (
        [axis] if isinstance(axis, int) else list(axis)
    )  # fmt: skip
    axes = [b.normalise_axes("gradient", one, values.ndim)[0] for one in axes]
    spaces = [1.0] * len(axes) if not varargs else list(varargs) * (len(axes) if len(varargs) == 1 else 1)
    if len(spaces) != len(axes):
        raise ShapeError(f"gradient: {len(varargs)} distances for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise OptionError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    found = [_derivative(values, a, space, edge_order) for a, space in zip(axes, spaces, strict=True)]
    return found[0] if len(found) == 1 else found


def _derivative(values: Tensor, axis: int, space: Any, edge_order: int) -> Tensor:
    extent = values.shape[axis]
    if extent < edge_order + 1:
        raise ShapeError(f"gradient: axis {axis} has {extent} places, it takes {edge_order + 1}")
    shape = tuple(-1 if a == axis else 1 for a in range(values.ndim))
    steps = lift(space)
    if steps.ndim:
        if steps.shape != (extent,):
            raise ShapeError(f"gradient: coordinates of shape {steps.shape} for axis {axis} of {values.shape}")
        steps = diff(as_floats(steps)).astype(values.dtype).reshape(*shape)
    else:
        steps = steps.astype(values.dtype).broadcast_to((extent - 1,)).reshape(*shape)
    slopes = diff(values, axis=axis) / steps
    left, right = _along(steps, axis, None, -1), _along(steps, axis, 1, None)
    before, after = _along(slopes, axis, None, -1), _along(slopes, axis, 1, None)
    inside = (before * right + after * left) / (left + right)
    first, last = _along(slopes, axis, None, 1), _along(slopes, axis, -1, None)
    if edge_order == 2:  # the derivative of the parabola through three places
        first = first - _along((after - before) / (left + right) * left, axis, None, 1)
        last = last + _along((after - before) / (left + right) * right, axis, -1, None)
    return concat([first, inside, last], axis)


def _trapezoids(y: Tensor, x: Operand | None, dx: Operand, axis: int) -> Tensor:
    """The areas between neighbours."""
    if x is None:
        width: Any = dx
    else:
        places = lift(x)
        width = diff(places, axis=axis if places.ndim > 1 else 0)
        if places.ndim == 1:
            width = width.reshape(*(-1 if a == axis else 1 for a in range(y.ndim)))
    return (_along(y, axis, 1, None) + _along(y, axis, None, -1)) * width * 0.5


def trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Tensor:
    """The integral of y along `axis` by trapezoids, over places x or at distance dx."""
    values = as_floats(y)
    (along,) = b.normalise_axes("trapezoid", axis, values.ndim)
    return sum(_trapezoids(values, x, dx, along), along)


def cumulative_trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Tensor:
    """The integral up to each place but the first; see `trapezoid`."""
    values = as_floats(y)
    (along,) = b.normalise_axes("cumulative_trapezoid", axis, values.ndim)
    return _trapezoids(values, x, dx, along).cumsum(along)


def interp(
    x: Operand,
    xp: Operand,
    fp: Operand,
    left: Operand | None = None,
    right: Operand | None = None,
    period: float | None = None,
) -> Tensor:
    """The value at x of the lines through the points (xp, fp); xp increases, or has any order on a `period`.

    Outside of xp it is `left` and `right`, by default the first and the last of fp. Gradients go to x, xp and fp.
    """
    at, places, values = as_floats(x), as_floats(xp), as_floats(fp)
    if places.ndim != 1 or places.shape != values.shape or places.size == 0:
        raise ShapeError(
            f"interp: takes as many places xp {places.shape} as values fp {values.shape}, one axis, at least one"
        )
    if period is not None:
        at, places = at % abs(period), places % abs(period)
        order = argsort(places)
        places, values = places[order], values[order]
        places = concat([places[-1:] - abs(period), places, places[:1] + abs(period)])
        values = concat([values[-1:], values, values[:1]])
    if places.size == 1:
        found = values[0] + at * 0
    else:
        after = clip(searchsorted(places, at, side="right"), 1, places.size - 1)
        x0, x1, y0, y1 = take(places, after - 1), take(places, after), take(values, after - 1), take(values, after)
        apart = not_equal(x0, x1)
        slope = where(apart, (y1 - y0) / where(apart, x1 - x0, 1), 0)
        found = y0 + slope * (at - x0)
    if period is not None:
        return found
    found = where(at < places[0], values[0] if left is None else left, found)
    return where(at > places[-1], values[-1] if right is None else right, found)


def digitize(x: Operand, bins: Operand, right: bool = False) -> Tensor:
    """The number of the bin that each element lies in: of edges that rise or fall, how many are behind it (int32)."""
    edges = lift(bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: edges have one axis, got {edges.shape}")
    side = "left" if right else "right"
    rising = searchsorted(edges, x, side=side)
    falling = edges.size - searchsorted(edges[::-1], x, side=side)
    return where(edges[0] <= edges[-1], rising, falling) if edges.size else rising


def polyval(p: Operand, x: Operand) -> Tensor:
    """The polynomial with the coefficients p, that of the highest power first, at x (Horner's rule)."""
    coefficients, x = lift(p), lift(x)
    found = coefficients[0] + x * 0 if coefficients.size else x * 0
    for k in range(1, coefficients.size):
        found = found * x + coefficients[k]
    return found


def convolve(a: Operand, v: Operand, mode: str = "full") -> Tensor:
    """sum over j of a[j] v[k - j], of two tensors of one axis, as NumPy's; `mode` is "full", "same" or "valid".

    Raises: `ShapeError` for other shapes or none of their elements, `OptionError` for another mode.
    """
    first, second = lift(a), lift(v)
    if first.ndim != 1 or second.ndim != 1 or not first.size or not second.size:
        raise ShapeError(
            f"convolve: takes two tensors of one axis and of some elements, got {first.shape}, {second.shape}"
        )
    if second.size > first.size:
        first, second = second, first
    dtype = promote(first.dtype, second.dtype)
    k = second.size
    margins = {"full": (k - 1, k - 1), "same": (k // 2, k - 1 - k // 2), "valid": (0, 0)}
    if mode not in margins:
        raise OptionError(f"convolve: mode must be 'full', 'same' or 'valid', got {mode!r}")
    low, high = margins[mode]
    line = padded(b.cast(first.node, dtype), (low,), (high,))
    windows = window(line, 0, k, 1, 1)
    found = contract(windows, flip(b.cast(second.node, dtype), (0,)), (0, 1), (1,), (0,))
    return derived(found, first, second)


def correlate(a: Operand, v: Operand, mode: str = "valid") -> Tensor:
    """sum over j of a[j + k] v[j], as NumPy's; see `convolve`."""
    first, second = lift(a), lift(v)
    if second.size > first.size and second.ndim == 1:  # NumPy exchanges them, which reverses the result
        return correlate(second, first, mode)[::-1]
    return convolve(first, second[::-1] if second.ndim == 1 else second, mode)
