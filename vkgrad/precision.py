"""`autocast`: inside it, products are computed from half-precision operands, and what must be exact in float32.

Products (`matmul`, `einsum`, `tensordot`, convolutions, linear layers) round float32 operands to the half type and give
that type, adding up in float32. Sums, means, norms, softmax, losses and functions that lose digits, such as `exp`,
`log` and `pow`, take halves as float32 and give float32. Everything else promotes as usual. Parameters stay as they
are: their gradients pass through the casts, so an optimiser sees float32.

The switch is `config.autocast`. This module must not know which function is of which kind: they ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from typing import Any, TypeVar

from vkgrad.config import config
from vkgrad.errors import DTypeError
from vkgrad.ir.dtypes import DType, bfloat16, dtype_of, float16, float32
from vkgrad.tensor import Tensor, lift

F = TypeVar("F", bound=Callable[..., Any])


class autocast(ContextDecorator):
    """Compute products in `dtype` (float16 or bfloat16) inside the block or the decorated function.

    It holds for this thread, and for what is recorded inside: gradients keep the casts of their forward pass.

    Raises:
        DTypeError: `dtype` is no half type.

    Example:
        >>> import vkgrad as vg
        >>> a = vg.ones((2, 3))
        >>> with vg.autocast(vg.bfloat16):
        ...     product = a @ a.T
        ...     print(product.dtype, product.sum().dtype)
        vkgrad.bfloat16 vkgrad.float32
    """

    def __init__(self, dtype: Any = float16, enabled: bool = True) -> None:
        self.dtype = dtype_of(dtype)
        if self.dtype not in (float16, bfloat16):
            raise DTypeError(f"autocast: takes float16 or bfloat16, got {self.dtype.name}")
        self.enabled = enabled
        self._open: list[Any] = []

    def __enter__(self) -> autocast:
        block = config.override(autocast=self.dtype.name if self.enabled else "off")
        block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def low_dtype() -> DType | None:
    """The type that products take their operands in now; None outside `autocast`."""
    name = config.autocast
    return None if name == "off" else dtype_of(name)


def for_product(*dtypes: DType) -> DType | None:
    """The type that operands of a product take instead of their common one, if autocast gives one."""
    low = low_dtype()
    return low if low is not None and all(d is float32 or d in (float16, bfloat16) for d in dtypes) else None


def single(x: Any) -> Any:
    """`x`, but inside `autocast` a tensor of halves as float32."""
    if isinstance(x, Tensor) and x.dtype.kind == "f" and x.dtype.narrow and low_dtype() is not None:
        return x.astype(float32)
    return x


def in_single(function: F) -> F:
    """A function of a tensor that is computed in float32 where that is one of halves, and rounded at the end only.

    Inside `autocast` the result stays float32.
    """

    @wraps(function)
    def wide(x: Any, *arguments: Any, **named: Any) -> Any:
        x = lift(x)
        if x.dtype.kind != "f" or not x.dtype.narrow:
            return function(x, *arguments, **named)
        found = function(x.astype(float32), *arguments, **named)
        return found if low_dtype() is not None else found.astype(x.dtype)

    return wide  # type: ignore[return-value]
