"""What densities share: numbers and tensors of one type, and products with logarithms at the edge of a support.

This module must not know a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.functions.elementwise import as_floats
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, float32, promote
from vkgrad.tensor import Operand, Tensor

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def parameter(value: Operand) -> Any:
    """A parameter as it is kept: a Python number stays one, and takes the type of what it meets; else a float tensor.

    Nothing is lost where a distribution made with 0.1 is asked in double precision.
    """
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, np.generic) and value.ndim == 0:
        return float(value)
    return as_floats(value)


def common_type(*parameters: Any) -> DType:
    """The type of those that are tensors; float32 where all are numbers."""
    typed = [p.dtype for p in parameters if isinstance(p, Tensor)]
    return promote(*typed) if typed else float32


def together(*operands: Any) -> list[Tensor]:
    """The operands as tensors of their common float type."""
    kept = [parameter(operand) for operand in operands]
    kind = common_type(*kept)
    return [p.astype(kind) if isinstance(p, Tensor) else Tensor(b.constant(p, kind)) for p in kept]


def within(outside: Tensor, x: Tensor, instead: float, density: Callable[[Tensor], Tensor]) -> Tensor:
    """density(x), or -inf where `outside` holds; there it is asked at `instead`, so that no gradient is NaN."""
    return f.where(outside, -math.inf, density(f.where(outside, instead, x)))


def times(a: Tensor, log_x: Tensor) -> Tensor:
    """a log(x) from log(x), for a that is not negative where x is 0: 0 where both are 0, and no gradient there."""
    at_zero = log_x == -math.inf
    edge = f.where(a == 0, 0.0, f.where(a > 0, -math.inf, math.inf))
    return f.where(at_zero, edge, a * f.where(at_zero, 0.0, log_x))


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function."""
    return f.lgamma(a) + f.lgamma(b) - f.lgamma(a + b)
