"""Factorisations of matrices: Cholesky, LU, QR, eigenvalues, singular values, and substitution.

Each is a routine over the last two axes; axes before them are a batch. One dispatch does a block of `BLOCK` columns a
workgroup, and `passes` composes larger ones from blocks and matrix products, so that the arithmetic of a large matrix
is in products. A routine has one output, so what has several parts packs them: each docstring says how, and
`vkgrad.linalg` unpacks them. What has no answer (a matrix that is not positive definite, a zero pivot) is NaN or
infinite: a kernel cannot raise. This package must not know tensors.
"""

from vkgrad.ops.factorisations.matrices import BLOCK, block, diagonal_of, rows_at
from vkgrad.ops.factorisations.orthogonal import qr, qr_parts
from vkgrad.ops.factorisations.spectral import LARGEST_JACOBI, eigh, eigh_parts, svd, svd_parts
from vkgrad.ops.factorisations.triangular import cholesky, lu, lu_parts, substitute

__all__ = [
    "BLOCK", "LARGEST_JACOBI", "block", "cholesky", "diagonal_of", "eigh", "eigh_parts", "lu", "lu_parts", "qr",
    "qr_parts", "rows_at", "substitute", "svd", "svd_parts",
]  # fmt: skip
