"""Products of matrices and tensors, all of them by the one primitive `contract`.

Axes that only broadcast are left out of the labels instead of being repeated, so `matmul` of a batch with one matrix
reads that matrix once. This module must not know how a contraction is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.views import diagonal, permute
from vkgrad.precision import for_product
from vkgrad.tensor import Operand, Tensor, derived, lift, operator

__all__ = [
    "dot", "einsum", "matmul", "outer", "tensordot", "vecdot",
]  # fmt: skip


def _pair(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    left, right = lift(x), lift(y)
    dtype = for_product(left.dtype, right.dtype) or promote(left.dtype, right.dtype)
    if left.dtype is dtype is right.dtype:
        return left, right
    return left.astype(dtype), right.astype(dtype)


def matmul(x: Operand, y: Operand, *, dtype: Any = None) -> Tensor:
    """The matrix product; leading axes are batches and broadcast, and a one-axis operand is a row or a column.

    Halves are added up in float32 and rounded once; with `dtype=vg.float32` they are not rounded.

    Shapes: x (..., M, K) or (K,); y (..., K, N) or (K,); the result (..., M, N) without the axes that were not there.

    Raises: `ShapeError` when inner sizes differ, batches do not broadcast, or an operand has no axes.

    Example:
        >>> import vkgrad as vg
        >>> (vg.ones((5, 2, 3)) @ vg.ones((3,))).shape
        (5, 2)
    """
    left, right = _pair(x, y)
    if dtype is not None:
        left, right = left.astype(dtype), right.astype(dtype)
    if not left.ndim or not right.ndim:
        raise ShapeError(f"matmul: a number is no matrix, use *: {left.shape} @ {right.shape}")
    inner_axis = -2 if right.ndim > 1 else -1
    if left.shape[-1] != right.shape[inner_axis]:
        raise ShapeError(
            f"matmul: inner sizes differ: {left.shape} @ {right.shape}; axis -1 of the left must equal axis "
            f"{inner_axis} of the right{_turned(left, right)}"
        )
    left_batch, right_batch = left.shape[:-2], right.shape[:-2]
    batch = b.broadcast_shapes("matmul", left_batch, right_batch)
    row, inner, column = (len(batch) + k for k in range(3))
    rows = (row,) if left.ndim > 1 else ()
    columns = (column,) if right.ndim > 1 else ()
    left_node, left_labels = _labelled(left.node, left_batch, (*rows, inner), len(batch))
    right_node, right_labels = _labelled(right.node, right_batch, (inner, *columns), len(batch))
    out = [label for label in range(len(batch)) if label in left_labels or label in right_labels] + [*rows, *columns]
    node = contract(left_node, right_node, left_labels, right_labels, tuple(out))
    return derived(b.reshape(node, (*batch, *node.shape[len(out) - len(rows) - len(columns) :])), x, y)


def _turned(left: Tensor, right: Tensor) -> str:
    """What makes a product of two matrices fit, if turning one of them does."""
    if right.ndim > 1 and left.shape[-1] == right.shape[-1]:
        return "; x @ y.mT fits"
    return "; x.mT @ y fits" if min(left.ndim, right.ndim) > 1 and left.shape[-2] == right.shape[-2] else ""


def _labelled(node: Node, batch: Sequence[int], matrix: tuple[int, ...], rank: int) -> tuple[Node, tuple[int, ...]]:
    """`node` without the batch axes of extent 1, and the labels of the axes it keeps."""
    if not batch:
        return node, matrix
    kept = [axis for axis, extent in enumerate(batch) if extent != 1]
    shape = (*(batch[axis] for axis in kept), *node.shape[len(batch) :])
    return b.reshape(node, shape), (*(rank - len(batch) + axis for axis in kept), *matrix)


Tensor.__matmul__, Tensor.__rmatmul__ = operator(matmul), operator(matmul, swap=True)


def tensordot(x: Operand, y: Operand, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sum the products over pairs of axes: the last `axes` of x with the first of y, or the two lists given."""
    left, right = _pair(x, y)
    if isinstance(axes, int):
        ours, theirs = tuple(range(left.ndim - axes, left.ndim)), tuple(range(axes))
    else:
        ours, theirs = (
            tuple(a % t.ndim if -t.ndim <= a < t.ndim else t.ndim for a in side)
            for side, t in zip(axes, (left, right), strict=True)
        )
    if (
        len(ours) != len(theirs)
        or any(not 0 <= a < left.ndim for a in ours)
        or any(not 0 <= a < right.ndim for a in theirs)
        or any(left.shape[i] != right.shape[j] for i, j in zip(ours, theirs, strict=True))
    ):
        raise ShapeError(f"tensordot: axes {axes} do not pair equal extents of {left.shape} and {right.shape}")
    left_labels = list(range(left.ndim))
    right_labels = list(range(left.ndim, left.ndim + right.ndim))
    for i, j in zip(ours, theirs, strict=True):
        right_labels[j] = left_labels[i]
    out = [k for k in left_labels + right_labels if not (k in left_labels and k in right_labels)]
    return derived(contract(left.node, right.node, tuple(left_labels), tuple(right_labels), tuple(out)), x, y)


def outer(x: Operand, y: Operand) -> Tensor:
    """Every element of x times every element of y. Shapes: (M,), (N,) -> (M, N)."""
    left, right = lift(x), lift(y)
    if left.ndim != 1 or right.ndim != 1:
        raise ShapeError(f"outer: takes two tensors of one axis, got {left.shape} and {right.shape}")
    return left.reshape(-1, 1) * right


def vecdot(x: Operand, y: Operand, axis: int = -1) -> Tensor:
    """The sum of products along one axis; the other axes broadcast."""
    left, right = lift(x), lift(y)
    a, c = b.normalise_axes("vecdot", axis, left.ndim)[0], b.normalise_axes("vecdot", axis, right.ndim)[0]
    if left.shape[a] != right.shape[c]:
        raise ShapeError(f"vecdot: sizes differ along axis {axis}: {left.shape} and {right.shape}")
    return matmul(left.moveaxis(a, -1).expand_dims(-2), right.moveaxis(c, -1).expand_dims(-1)).squeeze((-2, -1))


def dot(x: Operand, y: Operand) -> Tensor:
    """The sum of products of two tensors of one axis; with more axes, NumPy's `dot`."""
    left, right = lift(x), lift(y)
    if not left.ndim or not right.ndim:
        return left * right
    return tensordot(left, right, ((-1,), (-min(right.ndim, 2),)))


def einsum(subscripts: str, *operands: Operand) -> Tensor:
    """Sums of products over named axes, in NumPy's notation: `"bij,bjk->bik"`, with `...` for axes that broadcast.

    Without an arrow the result has, in alphabetical order, the letters that occur once. Several operands are joined two
    at a time, the pair with the smallest result first.

    Raises: `ShapeError` when subscripts and shapes do not fit.

    Example:
        >>> import vkgrad as vg
        >>> vg.einsum("ij,kj->ik", vg.ones((2, 3)), vg.ones((4, 3))).shape
        (2, 4)
    """
    lifted = [lift(x) for x in operands]
    terms, out = _parse(subscripts, [x.shape for x in lifted])
    extents: dict[str, int] = {}
    for term, x in zip(terms, lifted, strict=True):
        for letter, extent in zip(term, x.shape, strict=True):
            if extents.get(letter, 1) not in (1, extent) and extent != 1:
                raise ShapeError(
                    f"einsum: {_shown(letter)!r} of {subscripts!r} is both {extents[letter]} and {extent}; a letter "
                    "stands for one extent"
                )
            extents[letter] = max(extents.get(letter, 1), extent) if extent else 0
    dtypes = [x.dtype for x in lifted]
    dtype = for_product(*dtypes) or promote(*dtypes)
    factors = [_distinct(b.cast(x.node, dtype), term, extents) for x, term in zip(lifted, terms, strict=True)]
    while len(factors) > 1:
        i, j = min(itertools.combinations(range(len(factors)), 2), key=lambda pair: _cost(factors, pair, out, extents))
        rest = [factor for k, factor in enumerate(factors) if k not in (i, j)]
        needed = set(out).union(*(term for _, term in rest))
        factors = [*rest, _joined(factors[i], factors[j], needed)]
    node, term = _summed(*factors[0], set(out))
    if missing := [letter for letter in out if letter not in term]:  # broadcast axes that were 1 everywhere
        node, term = b.reshape(node, (*node.shape, *(1 for _ in missing))), term + "".join(missing)
    return derived(permute(node, [term.index(letter) for letter in out]), *operands)


Factor = tuple[Node, str]

# Axes under `...` are named by characters that nobody types.
_ELLIPSIS = [chr(0x2460 + k) for k in range(16)]


def _shown(letter: str) -> str:
    return "..." if letter in _ELLIPSIS else letter


def _parse(subscripts: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """One letter per axis of each operand and of the result."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(
            f"einsum: {subscripts!r} names {len(terms)} operands, got {len(shapes)}; a comma stands between two"
        )
    widths = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    for term, shape, width in zip(terms, shapes, widths, strict=True):
        if (
            width < 0
            or (width and "..." not in term)
            or (not term.replace("...", "", 1).isalpha() and term not in ("", "..."))
        ):
            raise ShapeError(
                f"einsum: {term!r} does not name the {len(shape)} axes of shape {tuple(shape)}; write a letter for "
                "each, or ... for those that broadcast"
            )
    most = max((width for term, width in zip(terms, widths, strict=True) if "..." in term), default=0)
    named = "".join(_ELLIPSIS[:most])
    terms = [t.replace("...", named[most - w :] if w else "") for t, w in zip(terms, widths, strict=True)]
    letters = "".join(terms)
    if not arrow:
        right = "..." + "".join(sorted(x for x in set(letters) - set(named) if letters.count(x) == 1))
    out = right.replace("...", named)
    if len(set(out)) != len(out) or not set(out) <= set(letters):
        strange = next(letter for letter in out if letter not in letters or out.count(letter) > 1)
        raise ShapeError(
            f"einsum: {_shown(strange)!r} of {subscripts!r} must stand left of the arrow, and once right of it"
        )
    return terms, out


def _distinct(node: Node, term: str, extents: dict[str, int]) -> Factor:
    """The diagonal over letters that occur twice, without axes of extent 1 where others are longer."""
    axis = 0
    while axis < len(term):
        if node.shape[axis] == 1 and extents[term[axis]] != 1:
            node = b.reshape(node, node.shape[:axis] + node.shape[axis + 1 :])
            term = term[:axis] + term[axis + 1 :]
        elif (first := term.index(term[axis])) != axis:
            node = diagonal(node, first, axis)
            term = term[:axis] + term[axis + 1 :]
        else:
            axis += 1
    return node, term


def _summed(node: Node, term: str, needed: set[str]) -> Factor:
    """`node` summed over the letters that nothing needs any more."""
    axes = tuple(a for a, letter in enumerate(term) if letter not in needed)
    if not axes:
        return node, term
    kept = [a for a in range(node.ndim) if a not in axes]
    summed = b.reshape(b.build("sum", node, axes=axes), tuple(node.shape[a] for a in kept))
    return summed, "".join(term[a] for a in kept)


def _joined(left: Factor, right: Factor, needed: set[str]) -> Factor:
    # A letter that only one side has and nothing needs is summed before the product.
    x, ours = _summed(*left, needed | set(right[1]))
    y, theirs = _summed(*right, needed | set(left[1]))
    out = "".join(dict.fromkeys(letter for letter in ours + theirs if letter in needed))
    number = {letter: k for k, letter in enumerate(dict.fromkeys(ours + theirs))}
    labels = [tuple(number[letter] for letter in term) for term in (ours, theirs, out)]
    return contract(x, y, *labels), out


def _cost(factors: Sequence[Factor], pair: tuple[int, int], out: str, extents: dict[str, int]) -> int:
    """The number of elements that joining `pair` leaves."""
    needed = set(out).union(*(term for k, (_, term) in enumerate(factors) if k not in pair))
    size = 1
    for letter in set(factors[pair[0]][1] + factors[pair[1]][1]) & needed:
        size *= extents[letter]
    return size
