"""`scan`: a state that is carried through a loop over the leading axis of arrays, as `jax.lax.scan` has it.

The loop is Python's: f is called once a step, and what it records is one graph. That is flushed as one plan, and under
`vg.jit` it is recorded once. This module must not know operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkgrad import engine, tree
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.creation import zeros
from vkgrad.functions.joining import stack
from vkgrad.tensor import Tensor, is_operand, lift


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Call `carry, y = f(carry, x)` for each x along the leading axis of `xs`; give the last carry, and all y stacked.

    `init`, `xs` and y may be any nestings; y may be None. The carry keeps its nesting, shapes and types. Without `xs`,
    x is None and `length` says how many steps there are. With `reverse` the last x comes first; y stays beside its x.

    A plan takes time in proportion to the steps, and is remembered. For the recurrence h = a h + x there is
    `linear_scan`, for sums, products and extremes `cumsum` and its kin, for recurrent networks `nn.LSTM` and its: these
    are one kernel for all steps.

    Raises: `ShapeError` or `DTypeError` where f changes the carry, or where `xs` have different lengths.

    Example:
        >>> import vkgrad as vg
        >>> last, sums = vg.scan(lambda total, x: (total + x, total + x), 0.0, vg.tensor([1.0, 2.0, 3.0]))
        >>> last.item(), sums.tolist()
        (6.0, [1.0, 3.0, 6.0])
    """
    carry = _tensors(init)
    xs = _tensors(xs)
    steps = _length(xs, length)
    if steps == 0:
        return carry, _nothing(f, carry, xs)
    found: list[Any] = []
    for t in range(steps)[:: -1 if reverse else 1]:
        carry, y = _step(f, carry, _slice(xs, t))
        found.append(y)
    leaves, form = zip(*(tree.flatten(y) for y in (found[::-1] if reverse else found)), strict=True)
    if any(own != form[0] for own in form):
        raise ShapeError("scan: f returned y of different nestings in different steps")
    return carry, form[0].unflatten([stack(list(column)) for column in zip(*leaves, strict=True)])


def _tensors(value: Any) -> Any:
    return tree.replace(lambda leaf: lift(leaf) if is_operand(leaf) else leaf, value)


def _slice(xs: Any, t: int) -> Any:
    return tree.replace(lambda x: x[t], xs)


def _length(xs: Any, length: int | None) -> int:
    lengths: dict[str, int] = {} if length is None else {"length": length}
    for place in tree.leaves(xs):
        if not isinstance(place.value, Tensor) or not place.value.ndim:
            raise ShapeError(
                f"scan: xs{place.path} has no leading axis to go along; close over what is the same for all"
            )
        lengths[f"xs{place.path}"] = place.value.shape[0]
    if not lengths:
        raise ShapeError("scan: give xs, or say with length how many steps there are")
    if len(set(lengths.values())) > 1:
        raise ShapeError(f"scan: lengths differ: {', '.join(f'{name} {extent}' for name, extent in lengths.items())}")
    return next(iter(lengths.values()))


def _step(f: Callable[[Any, Any], tuple[Any, Any]], carry: Any, x: Any) -> tuple[Any, Any]:
    """One step, with a carry like the one before."""
    result = f(carry, x)
    if not isinstance(result, Sequence) or len(result) != 2:
        raise ShapeError("scan: f must return a pair (carry, y); y may be None")
    new, y = (_tensors(part) for part in result)
    if tree.structure(new) != tree.structure(carry):
        raise ShapeError("scan: f returned a carry of another nesting than it was given")
    for before, after in zip(tree.leaves(carry), tree.leaves(new), strict=True):
        old, now = before.value, after.value
        if not isinstance(old, Tensor):
            continue
        name = f"carry{before.path}"
        if old.shape != now.shape:
            raise ShapeError(f"scan: f turned {name} of shape {old.shape} into {now.shape}; it must stay")
        if old.dtype is not now.dtype:
            raise DTypeError(
                f"scan: f turned {name} of {old.dtype.name} into {now.dtype.name}; "
                f"begin with {now.dtype.name}, or cast it back"
            )
    return new, y


def _nothing(f: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any) -> Any:
    """What no steps stack: f says what one would be like."""
    with engine.aside():
        y = _step(f, carry, tree.replace(lambda x: zeros(x.shape[1:], dtype=x.dtype), xs))[1]
    return tree.replace(lambda part: zeros((0, *part.shape), dtype=part.dtype), y)
