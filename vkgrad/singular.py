"""Determinants and pseudo-inverses whose derivatives are right where a factorisation's are not: for singular matrices
and equal singular values.

A determinant is a polynomial of the elements and a pseudo-inverse is smooth where the rank stays the same, but the
factors that they are computed from are not. So small determinants are written out, and the others have derivatives of
their own. This module must not know who asks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.custom_rules import custom_vjp
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.ops import factorisations as ops
from vkgrad.ops.sorting import inverse as inverse_of
from vkgrad.tensor import Tensor, derived

WRITTEN_OUT = 3  # columns up to which a determinant is the sum of its terms


# ---- determinants
def det(x: Tensor) -> Tensor:
    """The determinant of square matrices, with derivatives for singular ones too. Shapes: (..., N, N) -> (...).

    Up to 3 columns they are exact at every order; above, second and higher ones of singular matrices have about half
    the digits.
    """
    n = x.shape[-1]
    if n == 0:
        return f.ones(x.shape[:-2], dtype=x.dtype)
    return _written_out(x, list(range(n)), 0) if n <= WRITTEN_OUT else _by_pivots(x)


def _written_out(x: Tensor, columns: list[int], row: int) -> Tensor:
    """Expanded along the first row."""
    if len(columns) == 1:
        return x[..., row, columns[0]]
    total: Tensor | None = None
    for number, column in enumerate(columns):
        rest = _written_out(x, [c for c in columns if c != column], row + 1)
        term = x[..., row, column] * rest
        total = term if total is None else total - term if number % 2 else total + term
    assert total is not None
    return total


def pivots(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """L without its diagonal, U, the rows, and the sign of the row exchanges (...)."""
    lower, upper, index = ops.lu_parts(ops.lu(x.node))
    rows = Tensor(index)
    # A permutation's sign counts the pairs that stand the wrong way around.
    wrong = (rows.expand_dims(-1) > rows.expand_dims(-2)) & (f.triu(f.ones(x.shape[-2:]), 1) > 0)
    odd = wrong.astype(int32).sum((-2, -1)) % 2
    return derived(lower, x), derived(upper, x), rows, (1 - 2 * odd).astype(x.dtype)


def diagonal_of(upper: Tensor) -> Tensor:
    return derived(b.reshape(ops.diagonal_of(upper.node), upper.shape[:-1]), upper)


@custom_vjp
def _by_pivots(x: Tensor) -> Tensor:
    raise AssertionError("its rule is below")


def _det_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    _, upper, _, sign = pivots(x)
    return diagonal_of(upper).prod(-1) * sign, x


@custom_vjp
def _cofactors(x: Tensor) -> Tensor:
    """The derivative of the determinant by each element."""
    raise AssertionError("its rule is below")


def _cofactors_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """det(x) inverse(x)^T, with a rounding in the place of pivots that are 0."""
    lower, upper, rows, sign = pivots(x)
    n = x.shape[-1]
    _, shift = _shift(upper, _eps(x), 0)
    diagonal = diagonal_of(upper) + shift
    eye = f.eye(n, dtype=x.dtype)
    moved = ops.rows_at(f.broadcast_to(eye, x.shape).node, rows.node)
    moved = ops.substitute(lower.node, moved, lower=True, unit=True)
    full = upper + eye * shift.expand_dims(-1)
    inverse = Tensor(ops.substitute(full.node, moved, lower=False))
    return inverse.mT * (diagonal.prod(-1) * sign).expand_dims((-2, -1)), x


def _cofactors_backward(x: Tensor, g: Tensor) -> tuple[Tensor]:
    """Through det(y) inverse(y)^T at a matrix y that is less singular: terms cancel where y nearly is."""
    lower, upper, rows, _ = pivots(x)
    n = x.shape[-1]
    small = math.sqrt(_eps(x))
    near, shift = _shift(upper, small, small)
    eye = f.eye(n, dtype=x.dtype)
    # What is added to U comes through L and the row exchanges to x.
    moved = (lower + eye) * shift.expand_dims(-2)
    added = Tensor(ops.rows_at(moved.node, inverse_of(rows.node)))
    y = x + f.where(near.any(-1).expand_dims((-2, -1)), added, 0.0).detach()
    packed = ops.lu(y.node)
    square = ops.block(packed, (0, n), (0, n))
    turned = ops.rows_at(f.broadcast_to(eye, x.shape).node, ops.lu_parts(packed)[2])
    solved = ops.substitute(square, ops.substitute(square, turned, lower=True, unit=True), lower=False)
    inverse = derived(solved, y).mT
    total = (g * inverse).sum((-2, -1), keepdims=True)
    return ((inverse * total - inverse @ g.mT @ inverse) * _by_pivots(y).expand_dims((-2, -1)),)


_by_pivots.defvjp(_det_forward, lambda x, g: (g.expand_dims((-2, -1)) * _cofactors(x),))
_cofactors.defvjp(_cofactors_forward, _cofactors_backward)


def _eps(x: Tensor) -> float:
    return float(np.finfo(x.dtype.numpy).eps)


def _shift(upper: Tensor, relative: float, below: float) -> tuple[Tensor, Tensor]:
    """Which pivots are at most `below` of the largest element, and what is added to them: `relative` of that."""
    largest = f.abs(upper).max((-2, -1)).expand_dims(-1)
    scale = f.where(largest > 0, largest, 1.0)
    diagonal = diagonal_of(upper)
    near = f.abs(diagonal) <= scale * below
    return near, f.where(near, f.where(diagonal < 0, -scale, scale) * relative, 0.0)


# ---- pseudo-inverses
@custom_vjp
def pinv(u: Tensor, s: Tensor, vh: Tensor, x: Tensor, kept: Tensor) -> Tensor:
    """The pseudo-inverse of x (..., M, N) from its singular values, of which those count that are `kept`."""
    raise AssertionError("its rule is below")


def _pinv_forward(u: Tensor, s: Tensor, vh: Tensor, x: Tensor, kept: Tensor) -> tuple[Tensor, Any]:
    found = (vh.mT * f.where(kept, 1 / f.where(kept, s, 1.0), 0.0).expand_dims(-2)) @ u.mT
    return found, (u, s, vh, x, kept)


def _pinv_backward(residuals: Any, g: Tensor) -> tuple:
    """G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses" (1973), equation 4.12, for constant rank."""
    x = residuals[3]
    p = pinv(*residuals)
    turned = g.mT
    outside = turned @ p @ p.mT
    inside = p.mT @ p @ turned
    along = p.mT @ g @ p.mT
    return None, None, None, (outside - x @ (p @ outside)) + (inside - (inside @ p) @ x) - along, None


pinv.defvjp(_pinv_forward, _pinv_backward)
