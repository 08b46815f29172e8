"""Types that are only stored (float16, bfloat16, 8- and 16-bit integers), on NumPy arrays.

In a kernel, on the CPU device as on Vulkan, a value of such a type is one of the type it is computed in that the narrow
type can hold. bfloat16 is the upper half of a float32; NumPy lacks it, and memory holds its bits as uint16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkgrad.ir.dtypes import DType
from vkgrad.ir.op import Op

Array = np.ndarray[Any, np.dtype[Any]]


def narrowed(array: Any, dtype: DType) -> Array:
    """`array` of the type that `dtype` is computed in, each value rounded (or wrapped) to one that `dtype` holds."""
    return decoded(encoded(array, dtype), dtype)


def encoded(array: Any, dtype: DType) -> Array:
    """`array` as the elements of `dtype` lie in memory. Floats are rounded to the nearest, ties to even."""
    array = np.asarray(array)
    if dtype.name != "bfloat16":
        return np.asarray(_through_single(array, dtype).astype(dtype.memory, copy=False))
    if array.dtype.name == "bfloat16":  # of ml_dtypes, which registers it with NumPy
        return array.view(np.uint16)
    bits = np.ascontiguousarray(array, np.float32).reshape(array.shape).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    quiet = bits >> np.uint32(16) | np.uint32(0x40)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, quiet, rounded).astype(np.uint16)


def decoded(stored: Array, dtype: DType) -> Array:
    """Elements as they lie in memory, in the type in which `dtype` is computed."""
    if dtype.name == "bfloat16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(dtype.computed.numpy, copy=False)


def handed_out(stored: Array, dtype: DType) -> Array:
    """Elements as they lie in memory, as the NumPy array that users get: bfloat16 becomes float32, exactly."""
    return decoded(stored, dtype) if dtype.name == "bfloat16" else stored


def _through_single(array: Array, dtype: DType) -> Array:
    """float64 and wide integers become half precision by way of float32, on every device alike."""
    return array.astype(np.float32) if dtype.name == "float16" and array.dtype != np.float16 else array


def meaning_of(op: Op, dtype: DType) -> Callable[..., Array]:
    """What `op` does to arrays, with a result of `dtype`: its own meaning in the computed type, then rounded.

    The operands of a narrow type are of the type it is computed in, and so is the result.
    """
    plain = getattr(op.numpy, "__wrapped__", op.numpy)
    if not dtype.narrow:
        return plain
    return lambda *operands, **attributes: narrowed(plain(*operands, **attributes), dtype)
