"""Singular values, and eigenvalues of symmetric matrices, by one-sided Jacobi rotations.

G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed., 8.6.3. Derivatives: J. Townsend, "Differentiating the
singular value decomposition" (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, HostRule, Shape
from vkgrad.ops.arithmetic import guarded_product
from vkgrad.ops.factorisations.matrices import (
    DEFINITE,
    TALL,
    Dtypes,
    block,
    composed,
    diagonal_of,
    each_matrix,
    identity,
    joined,
    lanes_for,
    masked,
    product,
    rows_at,
    square,
    tall,
    transposed,
)
from vkgrad.ops.factorisations.orthogonal import qr, qr_parts
from vkgrad.ops.families import routine, wide
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.sorting import argsort

LARGEST_JACOBI = 128  # rows of the largest matrix whose sweeps are one dispatch
SWEEPS = {"float32": 10, "float64": 13}  # pairs turn by less than a rounding well before


# ---- singular values and eigenvalues, both by turning pairs of vectors until all are orthogonal
def _sweeps_of(x: np.ndarray, *, sweeps: int) -> np.ndarray:
    n = x.shape[0]
    x, one = x.copy(), x.dtype.type(1)
    players = n + n % 2
    pairs = np.arange(1, players // 2)
    for _ in range(sweeps):
        turned = False
        for turn in range(players - 1):
            p = np.concatenate([[turn], (turn + pairs) % (players - 1)])
            q = np.concatenate([[players - 1], (turn + players - 1 - pairs) % (players - 1)])
            p, q = p[(p < n) & (q < n)], q[(p < n) & (q < n)]
            a, c = x[p], x[q]
            pp, qq, pq = ((u[:, :n] * v[:, :n]).sum(1) for u, v in ((a, a), (c, c), (a, c)))
            turns = np.abs(pq) > np.finfo(x.dtype).eps * np.sqrt(pp) * np.sqrt(qq)
            turned = turned or bool(turns.any())
            z = np.where(turns, (qq - pp) / np.where(turns, 2 * pq, one), 0)
            tangent = np.where(turns, np.where(z < 0, -one, one) / (np.abs(z) + np.sqrt(1 + z * z)), 0)
            half = (tangent / (1 + np.sqrt(1 + tangent * tangent)))[:, None]
            sine = 2 * half / (1 + half * half)
            x[p], x[q] = a - sine * (c + half * a), c + sine * (a - half * c)
        if not turned:
            break
    return x


def _sweeps_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits, *, sweeps: int) -> Geometry:
    (*lead, n, w), size_bytes = shapes[0], dtypes[0].size_bytes
    together = 1 if limits.software else 8
    most = min(512, 1 << (together * ((n + 1) // 2) - 1).bit_length())  # more would meet nobody
    lanes = min(max(lanes_for(limits, sweeps * (n - 1) * n // 2 * (n + w), most), together), limits.max_invocations)
    parts_bytes, rows_bytes = 3 * lanes * size_bytes + 4, n * w * size_bytes
    held = parts_bytes + rows_bytes <= limits.shared_bytes
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "n": n, "width": w},
        parameters={
            "lanes": lanes, "together": together, "sweeps": sweeps, "held": n * w if held else 0,
            "tiny": {4: "1.1920929e-7", 8: "2.220446049250313e-16lf"}[size_bytes],
        },
        shared_bytes=parts_bytes + rows_bytes * held,
    )  # fmt: skip


def _sweeps_shape(shapes: Sequence[Shape], *, sweeps: int) -> Shape:
    shape = shapes[0]
    if len(shape) < 2 or shape[-1] < shape[-2]:
        raise ShapeError(f"jacobi_sweeps: takes (..., n, w) with w >= n, got {shape}")
    return shape


routine(
    "jacobi_sweeps", template="linalg_jacobi.comp.j2", geometry=_sweeps_geometry, shape=_sweeps_shape,
    dtype=wide("jacobi_sweeps"), numpy=each_matrix(_sweeps_of), grad=NOT_DIFFERENTIABLE, batched=True,
    samples=uniform(-2, 2).on(case((2, 3, 6), sweeps=1), case((4, 8), sweeps=2), case((0, 3, 6), sweeps=1)),
    doc="rows turned in pairs until their first n numbers are nearly orthogonal",
)  # fmt: skip


def _orthogonal_rows(a: Node, width: Any) -> tuple[Node, Node]:
    """Rows w (..., n, n) that are orthogonal, and v with w^T = a v^T, for square a."""
    n, sweeps = a.shape[-1], SWEEPS[a.dtype.name]
    packed = joined([transposed(a), identity(a, n)], -1)
    together = 1 if width.lanes == 1 else sweeps  # a software driver bounds loops
    for _ in range(sweeps // together):
        packed = b.build("jacobi_sweeps", packed, sweeps=together)
    return block(packed, (0, n), (0, n)), block(packed, (0, n), (n, 2 * n))


def _in_order(values: Node, *rows: Node) -> tuple[Node, ...]:
    """`values` (..., 1, n) in descending order, and the rows that belong to them."""
    index = argsort(-b.reshape(values, (*values.shape[:-2], values.shape[-1])))
    return transposed(rows_at(transposed(values), index)), *(rows_at(x, index) for x in rows)


def _is_large(shapes: Sequence[Shape]) -> bool:
    return min(shapes[0][-2:]) > LARGEST_JACOBI


HOSTED = HostRule(
    condition=f"more than {LARGEST_JACOBI} columns",
    reason="one workgroup turns all pairs of columns, and its work grows with their cube",
    applies=_is_large,
)


# ---- singular values
def svd(a: Node) -> Node:
    """U over s over V: (..., m, n) -> (..., m+1+n, n), m >= n, with a = U diag(s) V^T and s descending."""
    return b.build("svd", a)


def svd_parts(packed: Node) -> tuple[Node, Node, Node]:
    n = packed.shape[-1]
    m = packed.shape[-2] - n - 1
    columns = (0, n)
    return (
        block(packed, (0, m), columns),
        block(packed, (m, m + 1), columns),
        block(packed, (m + 1, m + 1 + n), columns),
    )


def _svd_of(a: np.ndarray) -> np.ndarray:
    if not np.isfinite(a).all():
        return np.full((a.shape[0] + 1 + a.shape[1], a.shape[1]), np.nan, a.dtype)
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, s[None], vt.T], axis=0)


def _gaps(values: Node) -> Node:
    """1 / (values[j] - values[i]) off the diagonal, 0 on it: (..., 1, n) -> (..., n, n).

    Between equal values it is infinite, and so is the derivative of their vectors: what asks for it gets no number, and
    what depends on the values alone multiplies it by 0.
    """
    return masked(1 / (values - transposed(values)), "not_equal")


def _svd_grad(g: Node, out: Node, a: Node) -> tuple:
    (u, s, v), (gu, gs, gv) = svd_parts(out), svd_parts(g)
    m, n = a.shape[-2:]
    gaps = _gaps(s * s)
    turned_u, turned_v = (guarded_product(product(transposed(x), gx), gaps) for x, gx in ((u, gu), (v, gv)))
    inner = (turned_u + transposed(turned_u)) * s + transposed(s) * (turned_v + transposed(turned_v))
    inner = inner + masked(b.expand(gs, (*a.shape[:-2], n, n)), "equal")
    left = product(u, inner)
    if m > n:
        left = left + guarded_product(gu - product(u, product(transposed(u), gu)), b.expand(1 / s, gu.shape))
    return (product(left, transposed(v)),)


def _reciprocal(s: Node) -> Node:
    present = b.apply("not_equal", s, 0)
    return b.apply("where", present, 1 / b.apply("where", present, s, 1), 0)


def _svd_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    basis, square = qr_parts(qr(a)) if m > n else (None, a)
    w, v = _orthogonal_rows(square, width)
    sizes = b.apply("sqrt", b.build("sum", w * w, axes=(w.ndim - 1,)))
    s, w, v = _in_order(transposed(sizes), w, v)
    # The directions of w that are (nearly) zero are anything orthogonal to the others, and QR finds such.
    u, signs = qr_parts(qr(transposed(w * transposed(_reciprocal(s)))))
    u = u * b.apply("where", diagonal_of(signs) < 0, b.constant(-1, a.dtype), 1)
    u = u if basis is None else product(basis, u)
    return joined([joined([u, s], -2), transposed(v)], -2)


def _svd_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = tall("svd")(shapes)
    return (*lead, m + 1 + n, n)


routine(
    "svd", template="linalg_jacobi.comp.j2", geometry=composed, shape=_svd_shape, dtype=wide("svd"),
    numpy=each_matrix(_svd_of), grad=_svd_grad, samples=TALL, passes=_svd_passes,
    batched=True, host_rule=HOSTED, doc="singular values and vectors, packed",
)  # fmt: skip


# ---- eigenvalues of symmetric matrices
def eigh(a: Node) -> Node:
    """Eigenvalues, ascending, over eigenvectors of symmetric a: (..., n, n) -> (..., n+1, n).

    Only the lower triangle of a counts.
    """
    return b.build("eigh", a)


def eigh_parts(packed: Node) -> tuple[Node, Node]:
    n = packed.shape[-1]
    return block(packed, (0, 1), (0, n)), block(packed, (1, n + 1), (0, n))


def _eigh_of(a: np.ndarray) -> np.ndarray:
    if not np.isfinite(a).all():
        return np.full((len(a) + 1, len(a)), np.nan, a.dtype)
    values, vectors = np.linalg.eigh(a)
    return np.concatenate([values[None], vectors], axis=0)


def _eigh_grad(g: Node, out: Node, a: Node) -> tuple:
    (values, v), (gvalues, gv) = eigh_parts(out), eigh_parts(g)
    n = a.shape[-1]
    inner = guarded_product(product(transposed(v), gv), _gaps(values)) + masked(
        b.expand(gvalues, (*a.shape[:-2], n, n)), "equal"
    )
    whole = product(product(v, inner), transposed(v))
    return ((whole + transposed(whole)) * 0.5,)


def _eigh_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    below = masked(a, "greater")
    a = below + transposed(below) + masked(a, "equal")
    sizes = b.build("sum", b.apply("abs", a), axes=(a.ndim - 1,))
    bound = b.build("max", sizes, axes=(a.ndim - 2,), ties="first")
    # Shifted until it is positive definite, singular vectors are eigenvectors; the values then come from the vectors.
    _, v = _orthogonal_rows(a + identity(a, a.shape[-1]) * bound, width)
    values = b.build("sum", v * product(v, a), axes=(a.ndim - 1,))
    order, v = _in_order(-transposed(values), v)
    return joined([-order, transposed(v)], -2)


def _eigh_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, n, _ = square("eigh")(shapes)
    return (*lead, n + 1, n)


routine(
    "eigh", template="linalg_jacobi.comp.j2", geometry=composed, shape=_eigh_shape, dtype=wide("eigh"),
    numpy=each_matrix(_eigh_of), grad=_eigh_grad, samples=DEFINITE, passes=_eigh_passes,
    batched=True, host_rule=HOSTED, doc="eigenvalues and eigenvectors of symmetric matrices, packed",
)  # fmt: skip
