"""Factorisations of matrices: Cholesky, LU, QR, eigenvalues, singular values, and substitution.

Each is a routine over the last two axes; axes before them are a batch. One dispatch does a block of `BLOCK` columns a
workgroup, and `passes` composes larger ones from blocks and matrix products, so that the arithmetic of a large matrix
is in products. A routine has one output, so what has several parts packs them: each docstring says how, and
`vkgrad.linalg` unpacks them. What has no answer (a matrix that is not positive definite, a zero pivot) is NaN or
infinite: a kernel cannot raise.

Sources: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed. (1.4 block LU and Cholesky, 5.2 Householder QR,
8.6.3 one-sided Jacobi); M. Giles, "Collected matrix derivative results" (2008) and J. Townsend, "Differentiating the
singular value decomposition" (2016) for the derivatives. This module must not know tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, HostRule, Shape
from vkgrad.ops.contraction import contract
from vkgrad.ops.families import routine, wide
from vkgrad.ops.indexed import gather
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.sorting import argsort, inverse
from vkgrad.ops.views import pad, permute, slice_

BLOCK = 32  # columns of a block: two of them fit the least shared memory that Vulkan promises
RIGHT_HAND_SIDES = 16  # columns of a right-hand side a workgroup
LARGEST_JACOBI = 128  # rows of the largest matrix whose sweep is one dispatch
SWEEPS = {"float32": 10, "float64": 13}  # pairs turn by less than a rounding well before

Dtypes = Sequence[DType]


# ---- matrices of nodes: the last two axes
def transposed(x: Node) -> Node:
    return permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def product(x: Node, y: Node) -> Node:
    """The matrix product; both have the same batch axes."""
    lead = tuple(range(x.ndim - 2))
    i, k, j = (x.ndim + n for n in range(3))
    return contract(x, y, (*lead, i, k), (*lead, k, j), (*lead, i, j))


def block(x: Node, rows: tuple[int, int], columns: tuple[int, int]) -> Node:
    """The part of each matrix from a first row and column up to, not including, a last."""
    lead = x.shape[:-2]
    starts = (*(0 for _ in lead), rows[0], columns[0])
    return slice_(x, starts, (*lead, rows[1] - rows[0], columns[1] - columns[0]), (1,) * x.ndim)


def joined(parts: Sequence[Node], axis: int) -> Node:
    """The parts beside each other along axis -1 or -2."""
    axis += parts[0].ndim
    whole = sum(part.shape[axis] for part in parts)
    total: Node | None = None
    before = 0
    for part in parts:
        low = [before if a == axis else 0 for a in range(part.ndim)]
        before += part.shape[axis]
        high = [whole - before if a == axis else 0 for a in range(part.ndim)]
        placed = pad(part, low, high)
        total = placed if total is None else total + placed
    assert total is not None
    return total


def masked(x: Node, comparison: str) -> Node:
    """x where `row comparison column` ("greater": below the diagonal), else 0."""
    rows = b.reshape(b.build("iota", extent=x.shape[-2]), (x.shape[-2], 1))
    columns = b.reshape(b.build("iota", extent=x.shape[-1]), (1, x.shape[-1]))
    return b.apply("where", b.apply(comparison, rows, columns), x, 0)


def identity(like: Node, n: int) -> Node:
    """The identity of n rows, for each matrix of the batch of `like`."""
    ones = masked(b.constant(1, like.dtype, (n, n)), "equal")
    return b.expand(ones, (*like.shape[:-2], n, n))


def diagonal_of(x: Node) -> Node:
    """The diagonal as a row: (..., n, n) -> (..., 1, n)."""
    return b.build("sum", masked(x, "equal"), axes=(x.ndim - 2,))


def rows_at(x: Node, index: Node) -> Node:
    """Rows of x (..., m, k) at `index` (..., n): (..., n, k), each matrix by its own index."""
    lead, (m, k) = x.shape[:-2], x.shape[-2:]
    count = prod(lead)
    first = b.reshape(b.build("iota", extent=count), (count, 1)) * m
    flat = b.apply("add", b.cast(b.reshape(index, (count, index.shape[-1])), first.dtype), first)
    return b.reshape(gather(b.reshape(x, (count * m, k)), flat, 0), (*lead, index.shape[-1], k))


# ---- shared by the records
def _square(name: str) -> Callable[[Sequence[Shape]], Shape]:
    def rule(shapes: Sequence[Shape], **_: Any) -> Shape:
        shape = shapes[0]
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ShapeError(f"{name}: takes square matrices in its last two axes, got shape {shape}")
        return shape

    return rule


def _tall(name: str) -> Callable[[Sequence[Shape]], Shape]:
    def rule(shapes: Sequence[Shape], **_: Any) -> Shape:
        shape = shapes[0]
        if len(shape) < 2 or shape[-2] < shape[-1]:
            raise ShapeError(f"{name}: takes matrices with at least as many rows as columns, got shape {shape}")
        return shape

    return rule


def _lanes(limits: DeviceLimits, work: int, most: int = 256) -> int:
    """How many lanes share `work` steps of a loop. Where Vulkan is software, only as many as its loops' bound asks."""
    lanes = 1
    while lanes < min(most, limits.max_invocations) and (work > 12_000 * lanes or not limits.software):
        lanes *= 2
    return lanes


def _each_matrix(meaning: Callable) -> Callable:
    """NumPy's function of one matrix, for a batch; where it finds no answer, NaN."""

    @wraps(meaning)
    def whole(x: np.ndarray, *more: np.ndarray, **attributes: Any) -> np.ndarray:
        found = []
        for place in np.ndindex(x.shape[:-2]):
            found.append(meaning(x[place], *(y[place] for y in more), **attributes))
        if not found:
            probe = meaning(
                np.eye(*x.shape[-2:], dtype=x.dtype), *(np.zeros(y.shape[-2:], y.dtype) for y in more), **attributes
            )
            return np.zeros((*x.shape[:-2], *probe.shape), x.dtype)
        return np.stack(found).reshape(*x.shape[:-2], *found[0].shape).astype(x.dtype)

    return whole


def _definite(a: np.ndarray) -> list[np.ndarray]:
    return [a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1], dtype=a.dtype)]


def _well_posed(a: np.ndarray, y: np.ndarray, **_: Any) -> list[np.ndarray]:
    return [a + 4 * np.eye(a.shape[-1], dtype=a.dtype), y]


_DEFINITE = uniform(-2, 2).making(_definite).on(case((2, 3, 3)), case((4, 4)), case((0, 3, 3)))
_TRIANGULAR = uniform(-1, 1).making(_well_posed).on(
    *(case((2, 3, 3), (2, 3, 2), lower=lower, unit=unit) for lower in (True, False) for unit in (True, False)),
    case((0, 3, 3), (0, 3, 2), lower=True, unit=False),
)  # fmt: skip
_SQUARE = uniform(-2, 2).on(case((2, 3, 3)), case((4, 4)), case((0, 3, 3)))
_TALL = _SQUARE.on(case((4, 3)))


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
    k = _halved(n)
    first = cholesky(block(a, (0, k), (0, k)))
    below = transposed(substitute(first, transposed(block(a, (k, n), (0, k))), lower=True))
    last = cholesky(block(a, (k, n), (k, n)) - product(below, transposed(below)))
    right = b.constant(0, a.dtype, (*a.shape[:-2], k, n - k))
    return joined([joined([first, right], -1), joined([below, last], -1)], -2)


def _halved(n: int) -> int:
    """The first of two parts of n columns, in whole blocks."""
    return -(-n // (2 * BLOCK)) * BLOCK


def _cholesky_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits) -> Geometry:
    n = shapes[0][-1]
    return Geometry(
        groups=prod(shapes[0][:-2]),
        numbers={"matrices": prod(shapes[0][:-2]), "n": n},
        parameters={"size": BLOCK, "lanes": _lanes(limits, n**3 // 2), "nan": _nan(dtypes[0])},
        shared_bytes=BLOCK * BLOCK * dtypes[0].size_bytes,
    )


def _nan(dtype: DType) -> str:
    return "packDouble2x32(uvec2(0u, 0x7ff80000u))" if dtype.size_bytes == 8 else "uintBitsToFloat(0x7fc00000u)"


routine(
    "cholesky", template="linalg_cholesky.comp.j2", geometry=_cholesky_geometry, shape=_square("cholesky"),
    dtype=wide("cholesky"), numpy=_each_matrix(_cholesky_of), grad=_cholesky_grad, samples=_DEFINITE,
    passes=_cholesky_passes, batched=True, doc="the lower triangular L with L L^T = x",
)  # fmt: skip


# ---- substitution
def substitute(a: Node, y: Node, *, lower: bool, unit: bool = False) -> Node:
    """x with a x = y for triangular a: (..., n, n), (..., n, k) -> (..., n, k). `unit`: a's diagonal counts as 1."""
    return b.build("substitute", a, y, lower=lower, unit=unit)


def _substitute_shape(shapes: Sequence[Shape], *, lower: bool, unit: bool) -> Shape:
    a, y = shapes
    _square("substitute")(shapes)
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
    k = _halved(n)
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
            "lanes": _lanes(limits, n * n * columns, 128),
        },
        shared_bytes=BLOCK * (BLOCK + columns) * dtypes[0].size_bytes,
    )  # fmt: skip


routine(
    "substitute", arity=2, template="linalg_substitution.comp.j2", geometry=_substitute_geometry,
    shape=_substitute_shape, dtype=wide("substitute"), numpy=_each_matrix(_substitute_of), grad=_substitute_grad,
    samples=_TRIANGULAR, passes=_substitute_passes, batched=True, doc="the solution of a triangular system",
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
    if m != n:
        raise ShapeError(f"lu: only square matrices have a derivative here, not {a.shape}; use qr")
    lower, upper, index = lu_parts(out)
    own = block(g, (0, n), (0, n))
    unit = lower + identity(a, n)
    inner = masked(product(transposed(unit), masked(own, "greater")), "greater") + masked(
        product(masked(own, "less_equal"), transposed(upper)), "less_equal"
    )
    left = substitute(transposed(unit), inner, lower=False, unit=True)
    whole = transposed(substitute(upper, transposed(left), lower=False))
    return (rows_at(whole, inverse(index)),)


def _lu_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    if n <= BLOCK:
        return node
    k = _halved(n)
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
    lanes = max(_lanes(limits, m * n * n), 2)
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "m": m, "n": n},
        parameters={"lanes": lanes},
        shared_bytes=lanes * (dtypes[0].size_bytes + 4),
    )


def _lu_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = _tall("lu")(shapes)
    return (*lead, m, n + 1)


routine(
    "lu", template="linalg_lu.comp.j2", geometry=_panel_geometry, shape=_lu_shape, dtype=wide("lu"),
    numpy=_each_matrix(_lu_of), grad=_lu_grad, samples=_SQUARE, passes=_lu_passes,
    batched=True, doc="LU with row exchanges, packed",
)  # fmt: skip


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
    lanes = max(_lanes(limits, m * n * n), 8)
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "m": m, "n": n},
        parameters={"lanes": lanes, "across": 4 if limits.software else 8},
        shared_bytes=lanes * dtypes[0].size_bytes,
    )


def _qr_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = _tall("qr")(shapes)
    return (*lead, m + n, n)


def _householder_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = _tall("householder")(shapes)
    return (*lead, m + 1, n)


def _composed(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits, **_: Any) -> Geometry:
    raise AssertionError("this routine is always in passes")


routine(
    "householder", template="linalg_householder.comp.j2", geometry=_householder_geometry, shape=_householder_shape,
    dtype=wide("householder"), numpy=_each_matrix(_householder_of), grad=NOT_DIFFERENTIABLE,
    samples=_TALL, batched=True, 
    doc="reflections that make a matrix upper triangular, below it; the last row scales them",
)  # fmt: skip

routine(
    "qr", template="linalg_householder.comp.j2", geometry=_composed, shape=_qr_shape, dtype=wide("qr"),
    numpy=_each_matrix(_qr_of), grad=_qr_grad, samples=_TALL, passes=_qr_passes,
    batched=True, doc="an orthonormal basis and the triangular coordinates in it, packed",
)  # fmt: skip


# ---- singular values and eigenvalues, both by turning pairs of vectors until all are orthogonal
def _sweep_of(x: np.ndarray) -> np.ndarray:
    n = x.shape[0]
    x = x.copy()
    players = n + n % 2
    pairs = np.arange(1, players // 2)
    for turn in range(players - 1):
        p = np.concatenate([[turn], (turn + pairs) % (players - 1)])
        q = np.concatenate([[players - 1], (turn + players - 1 - pairs) % (players - 1)])
        p, q = p[(p < n) & (q < n)], q[(p < n) & (q < n)]
        a, c = x[p], x[q]
        pp, qq, pq = ((u[:, :n] * v[:, :n]).sum(1) for u, v in ((a, a), (c, c), (a, c)))
        turns = np.abs(pq) > np.finfo(x.dtype).eps * np.sqrt(pp) * np.sqrt(qq)
        z = np.where(turns, (qq - pp) / np.where(turns, 2 * pq, 1), 0)
        t = np.where(z < 0, -1, 1) / (np.abs(z) + np.sqrt(1 + z * z))
        cosine = np.where(turns, 1 / np.sqrt(1 + t * t), 1)[:, None]
        sine = np.where(turns, cosine[:, 0] * t, 0)[:, None]
        x[p], x[q] = cosine * a - sine * c, sine * a + cosine * c
    return x


def _sweep_geometry(shapes: Sequence[Shape], dtypes: Dtypes, limits: DeviceLimits) -> Geometry:
    (*lead, n, w) = shapes[0]
    together = 1 if limits.software else 8
    lanes = min(max(_lanes(limits, (n - 1) * n // 2 * (n + w), 512), together), limits.max_invocations)
    return Geometry(
        groups=prod(lead),
        numbers={"matrices": prod(lead), "n": n, "width": w},
        parameters={
            "lanes": lanes, "together": together,
            "tiny": {4: "1.1920929e-7", 8: "2.220446049250313e-16lf"}[dtypes[0].size_bytes],
        },
        shared_bytes=3 * lanes * dtypes[0].size_bytes,
    )  # fmt: skip


def _sweep_shape(shapes: Sequence[Shape]) -> Shape:
    shape = shapes[0]
    if len(shape) < 2 or shape[-1] < shape[-2]:
        raise ShapeError(f"jacobi_sweep: takes (..., n, w) with w >= n, got {shape}")
    return shape


routine(
    "jacobi_sweep", template="linalg_jacobi.comp.j2", geometry=_sweep_geometry, shape=_sweep_shape,
    dtype=wide("jacobi_sweep"), numpy=_each_matrix(_sweep_of), grad=NOT_DIFFERENTIABLE, batched=True,
    samples=uniform(-2, 2).on(case((2, 3, 6)), case((4, 8)), case((0, 3, 6))),
    doc="rows turned in pairs until their first n numbers are nearly orthogonal",
)  # fmt: skip


def _orthogonal_rows(a: Node) -> tuple[Node, Node]:
    """Rows w (..., n, n) that are orthogonal, and v with w^T = a v^T, for square a."""
    n = a.shape[-1]
    packed = joined([transposed(a), identity(a, n)], -1)
    for _ in range(SWEEPS[a.dtype.name]):
        packed = b.build("jacobi_sweep", packed)
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
    """1 / (values[j] - values[i]) off the diagonal and away from equal ones, else 0: (..., 1, n) -> (..., n, n)."""
    difference = values - transposed(values)
    apart = b.apply("not_equal", difference, 0)
    return b.apply("where", apart, 1 / b.apply("where", apart, difference, 1), 0)


def _svd_grad(g: Node, out: Node, a: Node) -> tuple:
    (u, s, v), (gu, gs, gv) = svd_parts(out), svd_parts(g)
    m, n = a.shape[-2:]
    gaps, over = _gaps(s * s), _reciprocal(s)
    turned_u, turned_v = gaps * product(transposed(u), gu), gaps * product(transposed(v), gv)
    inner = (turned_u + transposed(turned_u)) * s + transposed(s) * (turned_v + transposed(turned_v))
    inner = inner + masked(b.expand(gs, (*a.shape[:-2], n, n)), "equal")
    left = product(u, inner)
    if m > n:
        left = left + (gu - product(u, product(transposed(u), gu))) * over
    return (product(left, transposed(v)),)


def _reciprocal(s: Node) -> Node:
    present = b.apply("not_equal", s, 0)
    return b.apply("where", present, 1 / b.apply("where", present, s, 1), 0)


def _svd_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    m, n = a.shape[-2:]
    basis, square = qr_parts(qr(a)) if m > n else (None, a)
    w, v = _orthogonal_rows(square)
    sizes = b.apply("sqrt", b.build("sum", w * w, axes=(w.ndim - 1,)))
    s, w, v = _in_order(transposed(sizes), w, v)
    # The directions of w that are (nearly) zero are anything orthogonal to the others, and QR finds such.
    u, signs = qr_parts(qr(transposed(w * transposed(_reciprocal(s)))))
    u = u * b.apply("where", diagonal_of(signs) < 0, b.constant(-1, a.dtype), 1)
    u = u if basis is None else product(basis, u)
    return joined([joined([u, s], -2), transposed(v)], -2)


def _svd_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, m, n = _tall("svd")(shapes)
    return (*lead, m + 1 + n, n)


routine(
    "svd", template="linalg_jacobi.comp.j2", geometry=_composed, shape=_svd_shape, dtype=wide("svd"),
    numpy=_each_matrix(_svd_of), grad=_svd_grad, samples=_TALL, passes=_svd_passes,
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
    inner = _gaps(values) * product(transposed(v), gv) + masked(b.expand(gvalues, (*a.shape[:-2], n, n)), "equal")
    whole = product(product(v, inner), transposed(v))
    return ((whole + transposed(whole)) * 0.5,)


def _eigh_passes(node: Node, width: Any) -> Node:
    (a,) = node.inputs
    below = masked(a, "greater")
    a = below + transposed(below) + masked(a, "equal")
    sizes = b.build("sum", b.apply("abs", a), axes=(a.ndim - 1,))
    bound = b.build("max", sizes, axes=(a.ndim - 2,), ties="first")
    # Shifted until it is positive definite, singular vectors are eigenvectors; the values then come from the vectors.
    _, v = _orthogonal_rows(a + identity(a, a.shape[-1]) * bound)
    values = b.build("sum", v * product(v, a), axes=(a.ndim - 1,))
    order, v = _in_order(-transposed(values), v)
    return joined([-order, transposed(v)], -2)


def _eigh_shape(shapes: Sequence[Shape]) -> Shape:
    *lead, n, _ = _square("eigh")(shapes)
    return (*lead, n + 1, n)


routine(
    "eigh", template="linalg_jacobi.comp.j2", geometry=_composed, shape=_eigh_shape, dtype=wide("eigh"),
    numpy=_each_matrix(_eigh_of), grad=_eigh_grad, samples=_DEFINITE, passes=_eigh_passes,
    batched=True, host_rule=HOSTED, doc="eigenvalues and eigenvectors of symmetric matrices, packed",
)  # fmt: skip
