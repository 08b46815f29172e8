"""Statistics of samples: weighted means, spreads, covariances, correlations.

This module must not know how a reduction is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.functions.elementwise import as_floats, clip, sqrt
from vkgrad.functions.joining import concat
from vkgrad.functions.linear import matmul
from vkgrad.functions.matrices import diag
from vkgrad.functions.reductions import max, mean, min, sum
from vkgrad.functions.sorting import quantile
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.tensor import Operand, Tensor, lift

__all__ = ["average", "corrcoef", "cov", "percentile", "ptp"]

Axes = int | Sequence[int] | None


def average(
    x: Operand, axis: Axes = None, weights: Operand | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean with weights, shaped like x or, of one axis, along `axis`; with the sum of the weights if `returned`."""
    x = as_floats(x)
    if weights is None:
        found = mean(x, axis, keepdims)
        total = found * 0 + x.size / (found.size or 1)
    else:
        weight = lift(weights).astype(promote(lift(weights).dtype, x.dtype))
        if weight.shape != x.shape:
            if weight.ndim != 1 or not isinstance(axis, int) or weight.size != x.shape[axis]:
                raise ShapeError(f"average: weights {weight.shape} are neither like {x.shape} nor along axis {axis}")
            (along,) = b.normalise_axes("average", axis, x.ndim)
            weight = weight.reshape(*(-1 if a == along else 1 for a in range(x.ndim))).broadcast_to(x.shape)
        total = sum(weight, axis, keepdims)
        found = sum(x * weight, axis, keepdims) / total
    return (found, total) if returned else found


def ptp(x: Operand, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """From the smallest to the largest element: how much that is."""
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def percentile(x: Operand, q: Any, axis: int | None = None, keepdims: bool = False, method: str = "linear") -> Tensor:
    """`quantile` in hundredths."""
    return quantile(x, (q if isinstance(q, Tensor) else np.asarray(q, np.float64)) / 100, axis, keepdims, method)


def cov(
    m: Operand,
    y: Operand | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
) -> Tensor:
    """Covariances of variables: the rows of m (columns if not `rowvar`), and of y if there is one.

    `fweights` says how often each observation was made, `aweights` how much it counts. The divisor is the number of
    observations less `ddof`, which is 1, or 0 if `bias`.
    """
    rows = _variables("cov", m, rowvar)
    if y is not None:
        rows = concat([rows, _variables("cov", y, rowvar)])
    less = (0 if bias else 1) if ddof is None else ddof
    count = rows.shape[1]
    if fweights is None and aweights is None:
        apart = rows - mean(rows, 1, keepdims=True)
        return _as_number(matmul(apart, apart.mT) / clip(lift(float(count - less)), 0))
    often = lift(1 if fweights is None else fweights).astype(rows.dtype)
    weight = often if aweights is None else often * lift(aweights).astype(rows.dtype)
    weight = weight.broadcast_to((count,))
    total = sum(weight)
    apart = rows - sum(rows * weight, 1, keepdims=True) / total
    divisor = total - less if aweights is None else total - less * sum(weight * aweights) / total
    return _as_number(matmul(apart * weight, apart.mT) / clip(divisor, 0))


def _variables(name: str, m: Operand, rowvar: bool) -> Tensor:
    x = as_floats(m)
    if x.ndim > 2:
        raise ShapeError(f"{name}: takes one axis or a matrix, got shape {x.shape}")
    if x.ndim < 2:
        return x.reshape(1, x.size)
    return x if rowvar else x.mT


def _as_number(found: Tensor) -> Tensor:
    """A single variance has no axes."""
    return found.reshape(()) if found.shape == (1, 1) else found


def corrcoef(x: Operand, y: Operand | None = None, rowvar: bool = True) -> Tensor:
    """Covariances over the spreads of both variables, at least -1 and at most 1."""
    found = cov(x, y, rowvar)
    if found.ndim == 0:
        return found / found
    spread = sqrt(diag(found))
    return clip(found / spread.expand_dims(1) / spread, -1, 1)
