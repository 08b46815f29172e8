"""Factorisations into triangular matrices, Cholesky and LU, and substitution, which solves with them.

G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed., 3.2, 3.4 and 4.2; in blocks as in 1.4. Derivatives:
M. Giles, "Collected matrix derivative results" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import DeviceLimits, Geometry, Shape
from vkgrad.ops.factorisations.matrices import (
    BLOCK,
    DEFINITE,
    SQUARE,
    TRIANGULAR,
    Dtypes,
    block,
    each_matrix,
    halved,
    identity,
    joined,
    lanes_for,
    masked,
    panel_lanes,
    product,
    rows_at,
    square,
    tall,
    transposed,
)
from vkgrad.ops.families import routine, wide
from vkgrad.ops.sorting import inverse

RIGHT_HAND_SIDES = 16  # columns of a right-hand side a workgroup


# ---- Cholesky
def cholesky(a: Node) -> Node:
    """Lower L with L L^T = a, from the lower triangle of a; NaN where a is not positive definite."""
    return b.build("cholesky", a)


def _cholesky_of(a: np.ndarray) -> np.ndarray:
    lower = np.tril(a) + np.tril(a, -1).T
    try:
        return np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        found = lower.copy()
        for j in range(len(a)):
            found[j, j] = np.sqrt(found[j, j]) if found[j, j] > 0 else np.nan
            found[j + 1 :, j] /= found[j, j]
            found[j + 1 :, j + 1 :] -= np.outer(found[j + 1 :, j], found[j + 1 :, j])
        return np.tril(found)


def _cholesky_grad(g: Node, out: Node, a: Node) -> tuple:
    inner = masked(product(transposed(out), masked(g, "greater_equal")), "greater_equal")
    inner = inner - masked(inner, "equal") * 0.5
    half = substitute(transposed(out), inner, lower=False)
    whole = transposed(substitute(transposed(out), transposed(half), lower=False))
    return ((whole + transposed(whole)) * 0.5,)


def _cholesky_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    n = a.shape[-1]
    if n <= BLOCK:
        return node
    k = halved(n)
    first = cholesky(block(a, (0, k), (0, k)))
    below = transposed(substitute(first, transposed(block(a, (k, n), (0, k))), lower=True))
    last = cholesky(block(a, (k, n), (k, n)) - product(below, transposed(below)))
    right = b.constant(0, a.dtype, (*a.shape[:-2], k, n - k))
    return joined([joined([first, right], -1), joined([below, last], -1)], -2)


def _cholesky_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits) -> Geometry:
    n = shapes[0][-1]
    return Geometry(
        groups=prod(shapes[0][:-2]),
        numbers={"matrices": prod(shapes[0][:-2]), "n": n},
        parameters={"size": BLOCK, "lanes": lanes_for(limits, n**3 // 2), "nan": _nan(dtypes[0])},
        shared_bytes=BLOCK * BLOCK * dtypes[0].size_bytes,
    )


def _nan(dtype: DType) -> str:
    return "packDouble2x32(uvec2(0u, 0x7ff80000u))" if dtype.size_bytes == 8 else "uintBitsToFloat(0x7fc00000u)"


routine(
    "cholesky", template="linalg_cholesky.comp.j2", geometry=_cholesky_geometry, shape=square("cholesky"),
    dtype=wide("cholesky"), numpy=each_matrix(_cholesky_of), grad=_cholesky_grad, samples=DEFINITE,
    passes=_cholesky_passes, batched=True, doc="the lower triangular L with L L^T = x",
)  # fmt: skip


# ---- substitution
def substitute(a: Node, y: Node, *, lower: bool, unit: bool = False) -> Node:
    """x with a x = y for triangular a: (..., n, n), (..., n, k) -> (..., n, k). `unit`: a's diagonal counts as 1."""
    return b.build("substitute", a, y, lower=lower, unit=unit)


def _substitute_shape(shapes: Sequence[Shape], *, lower: bool, unit: bool) -> Shape:
    a, y = shapes
    square("substitute")(shapes)
    if len(y) != len(a) or y[:-1] != a[:-1]:
        raise ShapeError(f"substitute: matrices {a} take a right-hand side (..., {a[-1]}, columns), got {y}")
    return y


def _substitute_of(a: np.ndarray, y: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
    x = y.copy()
    order = range(len(a)) if lower else range(len(a) - 1, -1, -1)
    for j in order:
        if not unit:
            x[j] /= a[j, j]
        rest = slice(j + 1, None) if lower else slice(0, j)
        x[rest] -= np.outer(a[rest, j], x[j])
    return x


def _substitute_grad(g: Node, out: Node, a: Node, y: Node, *, lower: bool, unit: bool) -> tuple:
    own = substitute(transposed(a), g, lower=not lower, unit=unit)
    comparison = ("greater" if unit else "greater_equal") if lower else ("less" if unit else "less_equal")
    return (-masked(product(own, transposed(out)), comparison), own)


def _substitute_passes(node: Node, width: Any) -> Node:
    (a, y), lower, unit = node.inputs, node.attributes["lower"], node.attributes["unit"]
    n, columns = a.shape[-1], (0, y.shape[-1])
    if n <= BLOCK:
        return node
    k = halved(n)
    known, rest = ((0, k), (k, n)) if lower else ((k, n), (0, k))
    first = substitute(block(a, known, known), block(y, known, columns), lower=lower, unit=unit)
    left = block(y, rest, columns) - product(block(a, rest, known), first)
    second = substitute(block(a, rest, rest), left, lower=lower, unit=unit)
    return joined([first, second] if lower else [second, first], -2)


def _substitute_geometry(
    shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits, *, lower: bool, unit: bool
) -> Geometry:
    (*lead, n, _), width = shapes[0], shapes[1][-1]
    columns = min(RIGHT_HAND_SIDES, width) or 1
    return Geometry(
        groups=prod(lead) * -(-width // columns),
        numbers={"matrices": prod(lead), "n": n, "width": width},
        parameters={
            "size": BLOCK, "columns": columns, "lower": lower, "unit": unit,
            "lanes": lanes_for(limits, n * n * columns, 128),
        },
        shared_bytes=BLOCK * (BLOCK + columns) * dtypes[0].size_bytes,
    )  # fmt: skip


routine(
    "substitute", arity=2, template="linalg_substitution.comp.j2", geometry=_substitute_geometry,
    shape=_substitute_shape, dtype=wide("substitute"), numpy=each_matrix(_substitute_of), grad=_substitute_grad,
    samples=TRIANGULAR, passes=_substitute_passes, batched=True, doc="the solution of a triangular system",
)  # fmt: skip


# ---- LU
def lu(a: Node) -> Node:
    """LU with the largest pivot of each column: (..., m, n) -> (..., m, n+1), m >= n.

    Below the diagonal L, whose diagonal is 1; on and above it U; the last column says which row of a each row is.
    """
    return b.build("lu", a)


def _lu_of(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    found = np.concatenate([a, np.arange(m, dtype=a.dtype)[:, None]], axis=1)
    for j in range(n):
        sizes = np.abs(found[j:, j])
        pivot = j + int(np.argmax(np.where(np.isnan(sizes), -1, sizes)))
        found[[j, pivot]] = found[[pivot, j]]
        if found[j, j] != 0:
            found[j + 1 :, j] /= found[j, j]
        found[j + 1 :, j + 1 : n] -= np.outer(found[j + 1 :, j], found[j, j + 1 : n])
    return found


def lu_parts(packed: Node) -> tuple[Node, Node, Node]:
    """L (..., m, n) without its diagonal, U (..., n, n), and the row of a that each row is (..., m), as integers."""
    m, n = packed.shape[-2], packed.shape[-1] - 1
    lower = masked(block(packed, (0, m), (0, n)), "greater")
    upper = masked(block(packed, (0, n), (0, n)), "less_equal")
    index = b.cast(block(packed, (0, m), (n, n + 1)), b.build("iota", extent=1).dtype)
    return lower, upper, b.reshape(index, packed.shape[:-1])


def _lu_grad(g: Node, out: Node, a: Node) -> tuple:
    m, n = a.shape[-2:]
    lower, upper, index = lu_parts(out)
    own = block(g, (0, n), (0, n))
    below = None
    if m > n:  # rows below the square: theirs of L are those of a over U
        below = transposed(substitute(upper, transposed(block(g, (n, m), (0, n))), lower=False))
        own = own - masked(product(transposed(block(lower, (n, m), (0, n))), below), "less_equal")
        lower = block(lower, (0, n), (0, n))
    unit = lower + identity(a, n)
    inner = masked(product(transposed(unit), masked(own, "greater")), "greater") + masked(
        product(masked(own, "less_equal"), transposed(upper)), "less_equal"
    )
    left = substitute(transposed(unit), inner, lower=False, unit=True)
    whole = transposed(substitute(upper, transposed(left), lower=False))
    whole = whole if below is None else joined([whole, below], -2)
    return (rows_at(whole, inverse(index)),)


def _lu_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    if n <= BLOCK:
        return node
    k = halved(n)
    left = lu(block(a, (0, m), (0, k)))
    lower, _, index = lu_parts(left)
    right = rows_at(block(a, (0, m), (k, n)), index)
    top = substitute(block(lower, (0, k), (0, k)), block(right, (0, k), (0, n - k)), lower=True, unit=True)
    rest = lu(block(right, (k, m), (0, n - k)) - product(block(lower, (k, m), (0, k)), top))
    moved = lu_parts(rest)[2]
    columns = joined([block(left, (k, m), (0, k)), block(left, (k, m), (k, k + 1))], -1)
    below = rows_at(columns, moved)
    upper_part = joined([block(left, (0, k), (0, k)), top, block(left, (0, k), (k, k + 1))], -1)
    lower_part = joined(
        [block(below, (0, m - k), (0, k)), block(rest, (0, m - k), (0, n - k)), block(below, (0, m - k), (k, k + 1))],
        -1,
    )
    return joined([upper_part, lower_part], -2)


def _panel_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits) -> Geometry:
    (*lead, m, n) = shapes[0]
    lanes, across = panel_lanes(limits, m, n)
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "m": m, "n": n},
        parameters={"lanes": lanes, "across": across},
        shared_bytes=lanes * (dtypes[0].size_bytes + 4),
    )


def _lu_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = tall("lu")(shapes)
    return (*lead, m, n + 1)


routine(
    "lu", template="linalg_lu.comp.j2", geometry=_panel_geometry, shape=_lu_shape, dtype=wide("lu"),
    numpy=each_matrix(_lu_of), grad=_lu_grad, samples=SQUARE, passes=_lu_passes,
    batched=True, doc="LU with row exchanges, packed",
)  # fmt: skip
