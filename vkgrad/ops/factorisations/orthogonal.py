"""QR by Householder's reflections, a block of columns at a time.

G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed., 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, Shape
from vkgrad.ops.factorisations.matrices import (
    BLOCK,
    TALL,
    Dtypes,
    block,
    composed,
    each_matrix,
    identity,
    joined,
    masked,
    panel_lanes,
    product,
    tall,
    transposed,
)
from vkgrad.ops.factorisations.triangular import substitute
from vkgrad.ops.families import routine, wide


# ---- QR
def qr(a: Node) -> Node:
    """Q over R: (..., m, n) -> (..., m+n, n), m >= n; the columns of Q are orthonormal, R is upper triangular."""
    return b.build("qr", a)


def qr_parts(packed: Node) -> tuple[Node, Node]:
    n = packed.shape[-1]
    m = packed.shape[-2] - n
    return block(packed, (0, m), (0, n)), block(packed, (m, m + n), (0, n))


def _qr_of(a: np.ndarray) -> np.ndarray:
    return np.concatenate(np.linalg.qr(a), axis=0)


def _qr_grad(g: Node, out: Node, a: Node) -> tuple:
    (q, r), (gq, gr) = qr_parts(out), qr_parts(g)
    gr = masked(gr, "less_equal")
    inner = product(r, transposed(gr)) - product(transposed(gq), q)
    below = masked(inner, "greater")
    even = below + transposed(below) + masked(inner, "equal")
    whole = gq + product(q, even)
    return (transposed(substitute(r, transposed(whole), lower=False)),)


def _qr_passes(node: Node, width: Any) -> Node:
    """Reflections of a block of columns at a time: Q is I - V T V^T for each block, and T's inverse is triangular."""
    (a,) = node.inputs
    m, n = a.shape[-2:]
    k = min(n, BLOCK)
    v, bent, r = _reflections(block(a, (0, m), (0, k)))
    top = joined([identity(a, k), b.constant(0, a.dtype, (*a.shape[:-2], m - k, k))], -2) if m > k else identity(a, k)
    q = _reflected(v, bent, top)
    if n == k:
        return joined([q, r], -2)
    right = _reflected(v, transposed(bent), block(a, (0, m), (k, n)), lower=True)
    rest, corner = qr_parts(qr(block(right, (k, m), (0, n - k))))
    above = b.constant(0, a.dtype, (*a.shape[:-2], k, n - k))
    q = joined([q, _reflected(v, bent, joined([above, rest], -2))], -1)
    r = joined([joined([r, block(right, (0, k), (0, n - k))], -1), joined([transposed(above), corner], -1)], -2)
    return joined([q, r], -2)


def _reflections(a: Node) -> tuple[Node, Node, Node]:
    """V (..., m, n), the inverse of T (..., n, n) and R (..., n, n) of at most `BLOCK` columns."""
    m, n = a.shape[-2:]
    packed = b.build("householder", a)
    r = masked(block(packed, (0, n), (0, n)), "less_equal")
    scales = block(packed, (m, m + 1), (0, n))
    turns = b.apply("not_equal", scales, 0)  # else the column was zero below its diagonal, and nothing is reflected
    unit = joined([identity(a, n), b.constant(0, a.dtype, (*a.shape[:-2], m - n, n))], -2) if m > n else identity(a, n)
    v = b.apply("where", turns, masked(block(packed, (0, m), (0, n)), "greater") + unit, 0)
    diagonal = b.apply("where", turns, 1 / b.apply("where", turns, scales, 1), 1)
    bent = masked(product(transposed(v), v), "less") + identity(a, n) * diagonal
    return v, bent, r


def _reflected(v: Node, bent: Node, x: Node, lower: bool = False) -> Node:
    """(I - V T V^T) x, with the triangular inverse of T (or of its transpose, which is lower)."""
    return x - product(v, substitute(bent, product(transposed(v), x), lower=lower))


def _householder_of(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    found = np.concatenate([a, np.zeros((1, n), a.dtype)], axis=0)
    for j in range(n):
        top, below = found[j, j], (found[j + 1 : m, j] ** 2).sum()
        if below == 0:
            continue
        mirrored = -np.copysign(np.sqrt(top * top + below), top)
        found[j + 1 : m, j] /= top - mirrored
        found[j, j], found[m, j] = mirrored, (mirrored - top) / mirrored
        w = found[m, j] * (found[j, j + 1 :] + found[j + 1 : m, j] @ found[j + 1 : m, j + 1 :])
        found[j, j + 1 :] -= w
        found[j + 1 : m, j + 1 :] -= np.outer(found[j + 1 : m, j], w)
    return found


def _householder_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits) -> Geometry:
    (*lead, m, n) = shapes[0]
    lanes, across = panel_lanes(limits, m, n)
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "m": m, "n": n},
        parameters={"lanes": lanes, "across": across},
        shared_bytes=lanes * dtypes[0].size_bytes,
    )


def _qr_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = tall("qr")(shapes)
    return (*lead, m + n, n)


def _householder_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = tall("householder")(shapes)
    return (*lead, m + 1, n)


routine(
    "householder", template="linalg_householder.comp.j2", geometry=_householder_geometry, shape=_householder_shape,
    dtype=wide("householder"), numpy=each_matrix(_householder_of), grad=NOT_DIFFERENTIABLE,
    samples=TALL, batched=True, 
    doc="reflections that make a matrix upper triangular, below it; the last row scales them",
)  # fmt: skip

routine(
    "qr", template="linalg_householder.comp.j2", geometry=composed, shape=_qr_shape, dtype=wide("qr"),
    numpy=each_matrix(_qr_of), grad=_qr_grad, samples=TALL, passes=_qr_passes,
    batched=True, doc="an orthonormal basis and the triangular coordinates in it, packed",
)  # fmt: skip
