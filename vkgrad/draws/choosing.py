"""Choices among things: permutations, and elements with and without replacement.

This module must not know how bits are made, nor how elements are sorted.
"""

from __future__ import annotations

import math

from vkgrad import functions as f
from vkgrad.draws.continuous import gumbel
from vkgrad.draws.discrete import randint
from vkgrad.draws.keys import bits, fraction, split
from vkgrad.draws.parameters import Sizes
from vkgrad.errors import ShapeError
from vkgrad.functions.creation import as_shape, counter
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, int32
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["choice", "permutation"]


def permutation(key: Tensor, x: Operand, axis: int = 0) -> Tensor:
    """The slices of x along `axis` in random order; or, for an integer x, the numbers 0 … x - 1.

    They are sorted by random bits, so often that equal bits, which keep their order, do not matter.

    Example:
        >>> import vkgrad as vg
        >>> sorted(vg.random.permutation(vg.random.key(0), 5).tolist())
        [0, 1, 2, 3, 4]
    """
    if isinstance(x, int):
        return _order(key, x)
    values = lift(x)
    (along,) = b.normalise_axes("random.permutation", axis, values.ndim)
    return f.take(values, _order(key, values.shape[along]), axis=along)


def _order(key: Tensor, count: int) -> Tensor:
    rounds = max(1, math.ceil(3 * math.log(max(count, 2)) / math.log(2**32)))
    order = counter(count)
    for one in split(key, rounds):
        order = f.take(order, f.argsort(bits(one, count)), axis=0) if count > 1 else order
    return order


def choice(
    key: Tensor, a: Operand, shape: Sizes = (), replace: bool = True, p: Operand | None = None, axis: int = 0
) -> Tensor:
    """Slices of a along `axis` (or numbers below an integer a), with probabilities p, evenly likely if None.

    Raises: `ShapeError` for more than there are without replacement, and for p of another length.
    """
    extents = as_shape("random", () if shape is None else shape)
    things = None if isinstance(a, int) else lift(a)
    along = 0 if things is None else b.normalise_axes("random.choice", axis, things.ndim)[0]
    count = int(a) if things is None else things.shape[along]
    wanted = math.prod(extents)
    if wanted and (count < 1 or (not replace and wanted > count)):
        raise ShapeError(f"random.choice: cannot choose {wanted} of {count}{'' if replace else ' without replacement'}")
    weights = None if p is None else lift(p).astype(float32)
    if weights is not None and weights.shape != (count,):
        raise ShapeError(f"random.choice: p of shape {weights.shape} for {count} things")
    chosen = _chosen(key, count, wanted, replace, weights).reshape(extents)
    return chosen if things is None else f.take(things, chosen, axis=along)


def _chosen(key: Tensor, count: int, wanted: int, replace: bool, weights: Tensor | None) -> Tensor:
    if wanted == 0:
        return counter(0)
    if not replace:
        if weights is None:
            return _order(key, count)[:wanted]
        # The largest of the logarithms with Gumbel noise come in the order of draws without replacement.
        return f.argsort(f.log(weights) + gumbel(key, count), descending=True)[:wanted]
    if weights is None:
        return randint(key, wanted, 0, count)
    upto = f.cumsum(weights)
    found = f.searchsorted(upto, fraction(key, wanted) * upto[-1], side="right")
    return f.minimum(found, count - 1).astype(int32)
