"""Linear algebra: `vg.linalg`, with the array API's names, over the last two axes, batched, on the device.

What has no answer is NaN or infinite, since a kernel cannot raise: `solve` and `inv` with a singular matrix, `cholesky`
of one that is not positive definite. Everything has gradients, of any order, where the result is a differentiable
function: `qr` of full rank, `svd` and `eigh` with distinct values. This module must not know how a factorisation is
computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkgrad import functions as f
from vkgrad import singular
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.functions.linear import matmul, outer, tensordot, vecdot
from vkgrad.functions.matrices import kron
from vkgrad.functions.reductions import norm as _vector_norm
from vkgrad.functions.shapes import matrix_transpose
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, float64, promote
from vkgrad.ops import factorisations as ops
from vkgrad.spelling import answer_misspellings
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "kron", "lstsq", "lu", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "triangular_solve", "vecdot", "vector_norm",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


Axes = int | Sequence[int] | None


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class LUResult(NamedTuple):
    """`a[rows] = L @ U`; `rows` is shaped (..., M)."""

    rows: Tensor
    L: Tensor
    U: Tensor


class LstsqResult(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


# ---- arguments
def _matrices(name: str, x: Operand, square: bool = False) -> Tensor:
    found = lift(x)
    if found.dtype.kind != "f":
        if found.dtype.kind == "b":
            raise DTypeError(f"linalg.{name}: takes numbers, got a mask; use .astype first")
        found = found.astype(float32)
    if found.dtype not in (float32, float64):
        raise DTypeError(f"linalg.{name}: takes float32 or float64, got {found.dtype.name}; use .astype first")
    if found.ndim < 2:
        raise ShapeError(f"linalg.{name}: takes matrices (..., M, N), got shape {found.shape}")
    if square and found.shape[-1] != found.shape[-2]:
        others = "; vg.linalg.lstsq solves others" if name in ("inv", "solve") else ""
        raise ShapeError(f"linalg.{name}: takes square matrices (..., N, N), got shape {found.shape}{others}")
    return found


def _sides(name: str, a: Operand, y: Operand, square: bool = True) -> tuple[Tensor, Tensor, bool]:
    """A matrix and a right-hand side of one type and one batch; and whether that was a vector."""
    left, right = _matrices(name, a, square), lift(y)
    dtype = promote(left.dtype, right.dtype)
    left, right = left.astype(dtype), right.astype(dtype)
    vector = right.ndim == 1
    right = right.expand_dims(-1) if vector else right
    if right.ndim < 2 or right.shape[-2] != left.shape[-2]:
        raise ShapeError(
            f"linalg.{name}: a matrix {left.shape} takes a right-hand side of {left.shape[-2]} rows, "
            f"got {lift(y).shape}"
        )
    batch = b.broadcast_shapes(f"linalg.{name}", left.shape[:-2], right.shape[:-2])
    wide = [f.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (left, right)]
    return wide[0], wide[1], vector


# ---- factorisations
def cholesky(x: Operand, upper: bool = False) -> Tensor:
    """L with L L^T = x for positive definite x, or with `upper` U with U^T U = x. Shapes: (..., N, N) -> the same.

    Only the lower triangle of x counts. Where x is not positive definite the result is NaN from that column on.

    Raises: `ShapeError` when x is not square, `DTypeError` when it is not of float32 or float64.

    Example:
        >>> import vkgrad as vg
        >>> vg.linalg.cholesky(vg.tensor([[4.0, 2.0], [2.0, 2.0]])).tolist()
        [[2.0, 0.0], [1.0, 1.0]]
    """
    source = _matrices("cholesky", x, square=True)
    found = derived(ops.cholesky(source.node), source)
    return found.mT if upper else found


def lu(x: Operand) -> LUResult:
    """`x[rows] = L @ U`, with the largest pivot of each column.

    Shapes: (..., M, N) -> (..., M), (..., M, K), (..., K, N), where K = min(M, N).
    """
    source = _matrices("lu", x)
    m, n = source.shape[-2:]
    if m < n:
        rows, left, right = lu(source[..., :, :m])
        moved = derived(ops.rows_at(source[..., :, m:].node, rows.node), source)
        return LUResult(rows, left, f.concat([right, triangular_solve(left, moved, unit=True)], axis=-1))
    packed = ops.lu(source.node)
    lower, upper, index = ops.lu_parts(packed)
    unit = f.eye(m, n, dtype=source.dtype)
    return LUResult(derived(index, source), derived(lower, source) + unit, derived(upper, source))


def qr(x: Operand, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and upper triangular R, Q R = x. Shapes: (..., M, N) -> (..., M, K), (..., K, N).

    K = min(M, N), or M with mode "complete". The signs of R's diagonal are either.
    """
    source = _matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise OptionError(f"linalg.qr: mode must be 'reduced' or 'complete', got {mode!r}")
    m, n = source.shape[-2:]
    if mode == "complete" and m > n:
        filled = qr(f.concat([source, f.zeros((*source.shape[:-1], m - n), dtype=source.dtype)], axis=-1))
        return QRResult(filled.Q, filled.R[..., :, :n])
    if m < n:
        square = qr(source[..., :, :m])
        return QRResult(square.Q, f.concat([square.R, square.Q.mT @ source[..., :, m:]], axis=-1))
    q, r = ops.qr_parts(ops.qr(source.node))
    return QRResult(derived(q, source), derived(r, source))


def svd(x: Operand, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh, S descending. Shapes: (..., M, N) -> (..., M, K), (..., K), (..., K, N), K = min(M, N).

    With `full_matrices` U is (..., M, M) and Vh (..., N, N).
    """
    source = _matrices("svd", x)
    if source.shape[-2] < source.shape[-1]:
        turned = svd(source.mT, full_matrices)
        return SVDResult(turned.Vh.mT, turned.S, turned.U.mT)
    u, s, v = (derived(node, source) for node in ops.svd_parts(ops.svd(source.node)))
    m, n = source.shape[-2:]
    if full_matrices and m > n:
        basis = qr(u, mode="complete").Q  # its first columns are those of u, up to sign
        u = f.concat([u, basis[..., :, n:]], axis=-1)
    return SVDResult(u, s.squeeze(-2), v.mT)


def svdvals(x: Operand) -> Tensor:
    """The singular values, descending. Shapes: (..., M, N) -> (..., min(M, N))."""
    return svd(x, full_matrices=False).S


def eigh(x: Operand) -> EighResult:
    """Eigenvalues (ascending) and eigenvectors (columns) of symmetric x. Shapes: (..., N, N) -> (..., N), (..., N, N).

    Only the lower triangle of x counts.

    Example:
        >>> import vkgrad as vg
        >>> vg.linalg.eigh(vg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
        [1.0, 2.0]
    """
    source = _matrices("eigh", x, square=True)
    values, vectors = ops.eigh_parts(ops.eigh(source.node))
    return EighResult(derived(values, source).squeeze(-2), derived(vectors, source))


def eigvalsh(x: Operand) -> Tensor:
    """The eigenvalues of symmetric x, ascending. Shapes: (..., N, N) -> (..., N)."""
    return eigh(x).eigenvalues


# ---- equations
def triangular_solve(a: Operand, y: Operand, *, lower: bool = True, unit: bool = False) -> Tensor:
    """x with a x = y for triangular a; its other triangle is not looked at, and with `unit` nor is its diagonal.

    Shapes: a (..., N, N); y (..., N, K) or (N,) -> the shape of y.
    """
    left, right, vector = _sides("triangular_solve", a, y)
    found = derived(ops.substitute(left.node, right.node, lower=lower, unit=unit), left, right)
    return found.squeeze(-1) if vector else found


def solve(a: Operand, y: Operand) -> Tensor:
    """x with a x = y, by LU with row exchanges. Shapes: a (..., N, N); y (..., N, K) or (N,) -> the shape of y.

    Where a is singular, elements are infinite or NaN.

    Example:
        >>> import vkgrad as vg
        >>> vg.linalg.solve(vg.tensor([[2.0, 0.0], [0.0, 4.0]]), vg.tensor([2.0, 2.0])).tolist()
        [1.0, 0.5]
    """
    left, right, vector = _sides("solve", a, y)
    packed = ops.lu(left.node)
    n = left.shape[-1]
    square = ops.block(packed, (0, n), (0, n))
    moved = ops.rows_at(right.node, ops.lu_parts(packed)[2])
    found = ops.substitute(square, ops.substitute(square, moved, lower=True, unit=True), lower=False)
    result = derived(found, left, right)
    return result.squeeze(-1) if vector else result


def inv(x: Operand) -> Tensor:
    """The inverse. Shapes: (..., N, N) -> the same. For a system of equations, `solve` is faster and closer."""
    source = _matrices("inv", x, square=True)
    n = source.shape[-1]
    return solve(source, f.broadcast_to(f.eye(n, dtype=source.dtype), source.shape))


def det(x: Operand) -> Tensor:
    """The determinant, with derivatives also where it is 0. Shapes: (..., N, N) -> (...)."""
    return singular.det(_matrices("det", x, square=True))


def slogdet(x: Operand) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its size. Shapes: (..., N, N) -> (...), (...)."""
    _, upper, _, sign = singular.pivots(_matrices("slogdet", x, square=True))
    diagonal_ = singular.diagonal_of(upper)
    return SlogdetResult(f.sign(diagonal_).prod(-1) * sign, f.log(f.abs(diagonal_)).sum(-1))


def lstsq(a: Operand, y: Operand, rcond: float | None = None) -> LstsqResult:
    """The x that makes |a x - y| least, and among those the shortest; by singular values.

    Singular values below `rcond` times the largest count as zero; by default, N times the rounding of the type.
    Shapes: a (..., M, N); y (..., M, K) or (M,) -> solution (..., N, K) or (N,), residuals (sums of squares) (..., K)
    or (), rank (...), singular values (..., min(M, N)).
    """
    left, right, vector = _sides("lstsq", a, y, square=False)
    s = svdvals(left)
    kept = s > _cut(left, s, rcond).expand_dims(-1)
    solution = pinv(left, rcond) @ right
    residuals = ((left @ solution - right) ** 2).sum(-2)
    rank = kept.astype(b.build("iota", extent=1).dtype).sum(-1)
    return LstsqResult(
        solution.squeeze(-1) if vector else solution, residuals.squeeze(-1) if vector else residuals, rank, s
    )


def _cut(x: Tensor, s: Tensor, rtol: Any) -> Tensor:
    """Below what a singular value counts as zero: (...)."""
    if s.shape[-1] == 0:
        return f.zeros(s.shape[:-1], dtype=s.dtype)
    relative = max(x.shape[-2:]) * float(np.finfo(x.dtype.numpy).eps) if rtol is None else rtol
    return s.max(-1).detach() * relative


def pinv(x: Operand, rtol: Any = None) -> Tensor:
    """The pseudo-inverse, by singular values; its derivative is that at constant rank.

    Shapes: (..., M, N) -> (..., N, M).
    """
    source = _matrices("pinv", x)
    u, s, vh = svd(source, full_matrices=False)
    return singular.pinv(u, s, vh, source, s > _cut(source, s, rtol).expand_dims(-1))


def matrix_rank(x: Operand, rtol: Any = None) -> Tensor:
    """How many singular values are above `rtol` times the largest. Shapes: (..., M, N) -> (...)."""
    source = _matrices("matrix_rank", x)
    s = svdvals(source)
    return (s > _cut(source, s, rtol).expand_dims(-1)).astype(b.build("iota", extent=1).dtype).sum(-1)


def cond(x: Operand) -> Tensor:
    """The largest singular value over the smallest. Shapes: (..., M, N) -> (...)."""
    s = svdvals(x)
    return s[..., 0] / s[..., -1]


# ---- norms, products and small things
def norm(x: Operand, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """NumPy's `linalg.norm`: of all elements, of vectors along one axis, or of matrices if `ord` and `axis` say so."""
    source = lift(x)
    if isinstance(axis, int) or ord is None or (axis is None and source.ndim == 1):
        return vector_norm(source, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    pair = (-2, -1) if axis is None else tuple(axis)
    moved = f.moveaxis(source, pair, (-2, -1)) if axis is not None else source
    found = matrix_norm(moved, ord=ord)
    return f.expand_dims(found, tuple(sorted(a % source.ndim for a in pair))) if keepdims else found


def vector_norm(x: Operand, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """(sum |x|**ord)**(1/ord) along `axis` (over everything if None); its derivative at 0 is 0."""
    return _vector_norm(x, ord=ord, axis=axis, keepdims=keepdims)


def matrix_norm(x: Operand, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of each matrix: "fro", "nuc", 1, -1, 2, -2, inf or -inf. Shapes: (..., M, N) -> (...)."""
    source = _matrices("matrix_norm", x)
    if ord == "fro":
        found = _vector_norm(source, axis=(-2, -1))
    elif 0 in source.shape[-2:] and ord in ("nuc", 1, 2, math.inf):
        found = f.zeros(source.shape[:-2], dtype=source.dtype)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = f.abs(source).sum(-2 if abs(ord) == 1 else -1)
        found = sums.max(-1) if ord > 0 else sums.min(-1)
    elif ord in ("nuc", 2, -2):
        s = svdvals(source)
        found = s.sum(-1) if ord == "nuc" else s.max(-1) if ord == 2 else s.min(-1)
    else:
        raise OptionError(f"linalg.matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    return found.expand_dims((-2, -1)) if keepdims else found


def matrix_power(x: Operand, n: int) -> Tensor:
    """x @ x @ … n times; the inverse's power for negative n. Shapes: (..., N, N) -> the same."""
    source = _matrices("matrix_power", x, square=True)
    if n < 0:
        return matrix_power(inv(source), -n)
    result: Tensor | None = None
    while n:
        if n % 2:
            result = source if result is None else result @ source
        n //= 2
        source = source @ source if n else source
    return result if result is not None else f.broadcast_to(f.eye(lift(x).shape[-1], dtype=source.dtype), source.shape)


def multi_dot(arrays: Sequence[Operand]) -> Tensor:
    """The product of several matrices, in the order that multiplies least; the first and last may be vectors."""
    found = [lift(x) for x in arrays]
    if len(found) < 2:
        raise ShapeError("linalg.multi_dot: needs at least two operands")
    first, last = found[0].ndim == 1, found[-1].ndim == 1
    found[0] = found[0].expand_dims(0) if first else found[0]
    found[-1] = found[-1].expand_dims(-1) if last else found[-1]
    sizes = [x.shape[0] for x in found] + [found[-1].shape[1]]
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(found))}
    for length in range(1, len(found)):
        for i in range(len(found) - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def multiplied(i: int, j: int) -> Tensor:
        return found[i] if i == j else multiplied(i, cost[i, j][1]) @ multiplied(cost[i, j][1] + 1, j)

    result = multiplied(0, len(found) - 1)
    result = result.squeeze(0) if first else result
    return result.squeeze(-1) if last else result


def cross(x: Operand, y: Operand, *, axis: int = -1) -> Tensor:
    """The vector product of vectors of three elements along `axis`."""
    left, right = lift(x).moveaxis(axis, -1), lift(y).moveaxis(axis, -1)
    if left.shape[-1] != 3 or right.shape[-1] != 3:
        raise ShapeError(
            f"linalg.cross: takes vectors of 3 elements along axis {axis}, got {lift(x).shape}, {lift(y).shape}"
        )
    found = f.roll(left, -1, axis=-1) * f.roll(right, -2, axis=-1) - f.roll(left, -2, axis=-1) * f.roll(
        right, -1, axis=-1
    )
    return found.moveaxis(-1, axis)


def diagonal(x: Operand, *, offset: int = 0) -> Tensor:
    """The diagonal of each matrix. Shapes: (..., M, N) -> (..., K)."""
    return f.diagonal(x, offset, -2, -1)


def trace(x: Operand, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonal of each matrix. Shapes: (..., M, N) -> (...)."""
    return f.trace(x, offset, dtype=dtype)


answer_misspellings(globals())
