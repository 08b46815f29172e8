"""The normal distribution over vectors, by the Cholesky factor of its covariance.

This module must not know how bits are made, nor how a factorisation is computed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad import linalg, random
from vkgrad.distributions.constraints import Constraint, real_vector
from vkgrad.distributions.distribution import Distribution
from vkgrad.distributions.parameters import HALF_LOG_2PI, together
from vkgrad.errors import OptionError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Shape
from vkgrad.tensor import Operand, Tensor


def _bad_diagonal(x: Any) -> Any:
    places = list(range(x.shape[-1]))
    return (x[..., places, places] <= 0).any(-1)


def _asymmetric(x: Any) -> Any:
    return _bad_diagonal(x) | (abs(x - x.swapaxes(-1, -2)) > 1e-5).any(-1).any(-1)


lower_cholesky = Constraint("lower triangular with a positive diagonal", _bad_diagonal, 2)
positive_definite = Constraint("symmetric with a positive diagonal", _asymmetric, 2)


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`, by one of covariance, its inverse (`precision_matrix`), or the Cholesky factor.

    The factor is the quickest, since the others are factorised first. A covariance that is not positive definite gives
    NaN, since a kernel cannot raise.

    Shapes: loc (..., N), matrices (..., N, N); a sample has the event shape (N,).

    Example:
        >>> import vkgrad as vg
        >>> plane = vg.distributions.MultivariateNormal(vg.zeros(2), vg.eye(2))
        >>> round(plane.log_prob(vg.zeros(2)).item(), 4)  # -log(2 pi)
        -1.8379
    """

    arg_constraints: ClassVar = {"loc": real_vector, "scale_tril": lower_cholesky}
    support = real_vector
    loc: Any
    scale_tril: Any

    def __init__(
        self,
        loc: Operand,
        covariance_matrix: Operand | None = None,
        precision_matrix: Operand | None = None,
        scale_tril: Operand | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise OptionError(
                f"{self._name}: takes one of covariance_matrix, precision_matrix and scale_tril, got {len(given)}"
            )
        if scale_tril is None:
            which = "covariance_matrix" if precision_matrix is None else "precision_matrix"
            if validate_args or (validate_args is None and not isinstance(given[0], Tensor)):
                self._demand(which, given[0], positive_definite)
            (matrix,) = together(given[0])
            scale_tril = linalg.cholesky(matrix) if precision_matrix is None else _from_precision(matrix)
        super().__init__({"loc": loc, "scale_tril": scale_tril}, validate_args)
        size = self.loc.shape[-1]
        if self.scale_tril.shape[-2:] != (size, size):
            raise ShapeError(f"{self._name}: loc {self.loc.shape} and a matrix {self.scale_tril.shape} do not fit")
        self.event_shape = (size,)

    def log_prob(self, value: Any) -> Tensor:
        x, loc, factor = self._with(value)
        z = whitened(factor, x - loc)
        size = f.log(linalg.diagonal(factor)).sum(-1) + self.event_shape[0] * HALF_LOG_2PI
        return -0.5 * f.square(z).sum(-1) - size

    def _draw(self, key: Tensor, extents: Shape, kind: DType) -> Tensor:
        even = random.normal(key, (*extents, *self.event_shape), dtype=kind)
        factor = self.scale_tril.astype(kind)
        moved = even @ factor.mT if factor.ndim == 2 else (factor @ even.expand_dims(-1)).squeeze(-1)
        return moved + self.loc

    @property
    def mean(self) -> Tensor:
        return self._all()[0]

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance (..., N, N)."""
        _, factor = self._all()
        return factor @ factor.mT

    @property
    def variance(self) -> Tensor:
        return f.square(self._all()[1]).sum(-1)

    def entropy(self) -> Tensor:
        _, factor = self._all()
        return f.log(linalg.diagonal(factor)).sum(-1) + self.event_shape[0] * (0.5 + HALF_LOG_2PI)


def whitened(factor: Tensor, x: Tensor) -> Tensor:
    """z with factor z = x, for vectors x (..., N); one factor serves all of them as the columns of one matrix."""
    size = factor.shape[-1]
    if factor.ndim == 2:
        return linalg.triangular_solve(factor, x.reshape((-1, size)).mT).mT.reshape(x.shape)
    batch = b.broadcast_shapes("distributions.MultivariateNormal", factor.shape[:-2], x.shape[:-1])
    wide = f.broadcast_to(x, (*batch, size)).expand_dims(-1)
    return linalg.triangular_solve(factor, wide).squeeze(-1)


def _from_precision(matrix: Tensor) -> Tensor:
    """The Cholesky factor of the inverse: that of the matrix turned around, turned back, is inverted."""
    inverse = f.flip(linalg.cholesky(f.flip(matrix, (-2, -1))), (-2, -1)).mT
    return linalg.triangular_solve(inverse, f.broadcast_to(f.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape))
