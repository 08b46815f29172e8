"""What users hold outside vkgrad (numbers, lists, NumPy arrays, DLPack objects), made into leaves and literals.

This module must not know tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from vkgrad import engine
from vkgrad.checked import shown
from vkgrad.errors import ArgumentError, DTypeError, ShapeError
from vkgrad.ir.dtypes import NO_COMPLEX, DType, bool_, dtype_of, float32, int32
from vkgrad.ir.node import Node

Scalar: TypeAlias = bool | int | float


def number(value: Any) -> Scalar:
    """A NumPy scalar as a Python number, which takes its type from what it stands beside."""
    if value.dtype.kind == "c":
        raise DTypeError(NO_COMPLEX)
    if value.dtype.kind not in "biuf":
        raise DTypeError(f"no element type {value.dtype.name}; a number here is a bool, an integer or a float")
    return {"b": bool, "f": float}.get(value.dtype.kind, int)(value)


def first_of(data: Any) -> Any:
    """The first thing in nested lists that is not a list, or an empty list."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return data


def _unequal(data: Any) -> list[int]:
    """The lengths of nested lists where they first differ, level by level."""
    level = [data]
    while level and all(isinstance(part, list | tuple | np.ndarray) for part in level):
        if len(lengths := dict.fromkeys(len(part) for part in level)) > 1:
            return list(lengths)
        level = [part for parts in level for part in parts]
    return sorted({len(part) if hasattr(part, "__len__") else 1 for part in level}, reverse=True)


def from_dlpack(data: Any) -> np.ndarray:
    """The elements of another framework's array, where they are. Raises `DTypeError` for a type that NumPy lacks."""
    try:
        return np.from_dlpack(data)
    except RuntimeError as error:  # NumPy's word for bfloat16 and its kin
        name = type(data).__name__
        raise DTypeError(f"tensor: NumPy cannot read this {name} ({error}); convert it first, to float32 say") from None


def as_array(data: Any, dtype: Any = None) -> tuple[np.ndarray, DType | None]:
    """`data` as a NumPy array, and the element type that Python numbers take (None: the array's own).

    Integers that int32 cannot hold need a `dtype` to be named.
    """
    if not isinstance(data, np.ndarray) and hasattr(data, "__dlpack__"):
        return from_dlpack(data), None
    if data is None or isinstance(data, Mapping):
        mended = "look at what should have given it" if data is None else "take one of its entries"
        raise ArgumentError(f"tensor: {shown(data)} is no array; {mended}")
    first = first_of(data)
    try:
        array = np.asarray(data)
    except ValueError:
        lengths = " and ".join(map(str, _unequal(data)))
        raise ShapeError(f"tensor: the lists have unequal lengths, {lengths}; pad them to one length") from None
    if isinstance(first, np.ndarray | np.generic) or array.dtype.kind not in "biuf":
        return array, None
    whole = array.dtype.kind in "iu" and array.size
    if dtype is None and whole and not -(2**31) <= array.min() <= array.max() < 2**31:
        raise DTypeError(
            "tensor: Python integers become int32, and one is out of its range; name a type, dtype=vg.int64 say"
        )
    return array, {"b": bool_, "f": float32}.get(array.dtype.kind, int32)


def upload(array: np.ndarray, dtype: Any = None, copy: bool = True) -> Node:
    """A new leaf with the elements of `array`, converted to `dtype` where one is named."""
    return engine.put(array, dtype_of(array.dtype if dtype is None else dtype), copy)
