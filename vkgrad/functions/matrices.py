"""Matrices made of vectors and of one another: diagonals, triangles, Kronecker products, turns; and stacks of them.

This module must not know how a layout is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.creation import counter, eye, place, tri
from vkgrad.functions.elementwise import where
from vkgrad.functions.joining import concat
from vkgrad.functions.linear import tensordot
from vkgrad.functions.lookup import nonzero
from vkgrad.functions.shapes import diagonal, expand_dims, flip, reshape, swapaxes
from vkgrad.ir import build as b
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "column_stack", "diag", "diagflat", "dstack",
    "fliplr", "flipud", "hstack", "identity", "inner", "kron", "rot90", "tril_indices", "triu_indices", "vander",
    "vdot", "vstack",
]  # fmt: skip


def broadcast_shapes(*shapes: Shape | int) -> Shape:
    """The shape that tensors of these shapes have together. Raises `ShapeError` where there is none."""
    return b.broadcast_shapes("broadcast_shapes", *((s,) if isinstance(s, int) else tuple(s) for s in shapes))


# ---- diagonals and triangles
def diag(x: Operand, k: int = 0) -> Tensor:
    """The k-th diagonal of a matrix; or, of a tensor of one axis, the matrix that has it there and else zeros."""
    x = lift(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: takes one axis or a matrix, got shape {x.shape}")
    extent = x.size + abs(k)
    low = max(-k, 0)
    placed = b.build("pad", x.node, low=(low,), high=(extent - x.size - low,), interior=(0,), value=0)
    shape = (extent, extent)
    return where(place(shape, 1) - place(shape, 0) == k, derived(b.reshape(placed, (extent, 1)), x), 0)


def diagflat(x: Operand, k: int = 0) -> Tensor:
    """The matrix with all elements of x on its k-th diagonal."""
    return diag(reshape(x, -1), k)


def identity(n: int, dtype: object = None) -> Tensor:
    """Ones on the diagonal, else zeros."""
    return eye(n, dtype=dtype)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Rows and columns of the elements on and below the k-th diagonal of an (n, m) matrix (int32)."""
    columns = n if m is None else m
    size = sum(min(max(row + k + 1, 0), columns) for row in range(n))
    return nonzero(tri(n, columns, k), size=size)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Rows and columns of the elements on and above the k-th diagonal of an (n, m) matrix (int32)."""
    columns = n if m is None else m
    size = sum(columns - min(max(row + k, 0), columns) for row in range(n))
    return nonzero(tri(n, columns, k - 1) == 0, size=size)


def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element, the highest first unless `increasing`. Shapes: x (M,) -> (M, N), N = M if None."""
    x = lift(x)
    if x.ndim != 1:
        raise ShapeError(f"vander: takes one axis, got shape {x.shape}")
    powers = counter(x.size if N is None else N)
    powers = powers if increasing else flip(powers)
    return x.reshape(-1, 1) ** powers.astype(x.dtype)


# ---- products
def kron(x: Operand, y: Operand) -> Tensor:
    """Every element of x times the tensor y, side by side along each axis."""
    left, right = lift(x), lift(y)
    ndim = max(left.ndim, right.ndim)
    ours, theirs = ((1,) * (ndim - t.ndim) + t.shape for t in (left, right))
    spread = left.reshape(*(e for extent in ours for e in (extent, 1)))
    product = spread * right.reshape(*(e for extent in theirs for e in (1, extent)))
    return product.reshape(*(a * c for a, c in zip(ours, theirs, strict=True)))


def inner(x: Operand, y: Operand) -> Tensor:
    """The sums of products over the last axes of both."""
    left, right = lift(x), lift(y)
    return left * right if not left.ndim or not right.ndim else tensordot(left, right, ((-1,), (-1,)))


def vdot(x: Operand, y: Operand) -> Tensor:
    """The sum of the products of all elements, one number."""
    return inner(reshape(x, -1), reshape(y, -1))


# ---- turns
def flipud(x: Operand) -> Tensor:
    """The rows in reverse order."""
    return flip(x, 0)


def fliplr(x: Operand) -> Tensor:
    """The columns in reverse order."""
    return flip(x, 1)


def rot90(x: Operand, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """x turned k times by a quarter, from the first of two axes to the second."""
    x = lift(x)
    first, second = (b.normalise_axes("rot90", axis, x.ndim)[0] for axis in axes)
    if first == second:
        raise OptionError(f"rot90: axes {axes} are one axis")
    if k % 4 == 0:
        return x
    if k % 4 == 2:
        return flip(x, (first, second))
    turned = swapaxes(x, first, second)
    return flip(turned, first if k % 4 == 1 else second)


# ---- stacks
def atleast_1d(x: Operand) -> Tensor:
    """x with at least one axis."""
    x = lift(x)
    return x if x.ndim else x.reshape(1)


def atleast_2d(x: Operand) -> Tensor:
    """x with at least two axes; new ones come first."""
    x = lift(x)
    return x if x.ndim > 1 else x.reshape(1, x.size)


def atleast_3d(x: Operand) -> Tensor:
    """x with at least three axes: a vector becomes (1, N, 1), a matrix (M, N, 1)."""
    x = lift(x)
    return x if x.ndim > 2 else x.reshape(*(x.shape if x.ndim == 2 else (1, prod(x.shape))), 1)


def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined side by side: along the second axis, or the first where there is only one."""
    pieces = [atleast_1d(x) for x in tensors]
    return concat(pieces, 0 if pieces and pieces[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined one below the other, vectors as rows."""
    return concat([atleast_2d(x) for x in tensors], 0)


def dstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along the third axis."""
    return concat([atleast_3d(x) for x in tensors], 2)


def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Vectors as columns of a matrix; matrices side by side."""
    pieces = [lift(x) for x in tensors]
    return concat([x if x.ndim > 1 else expand_dims(x.reshape(-1), 1) for x in pieces], 1)
