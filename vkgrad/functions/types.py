"""Questions about element types, by the names of the array API standard.

This module must not know values: everything here is answered from types alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vkgrad.errors import DTypeError, OptionError
from vkgrad.ir.build import weak_dtype
from vkgrad.ir.dtypes import DType, dtype_of, integer_range, promote
from vkgrad.tensor import Tensor, asarray

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}
# Bits of the fraction, and the largest exponent.
_FLOATS = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a float type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type_of(thing: Any) -> DType:
    return thing.dtype if isinstance(thing, Tensor) else dtype_of(getattr(thing, "dtype", thing))


def finfo(type: Any) -> FloatInfo:
    """The limits of a float type, or of a tensor's.

    Raises: `DTypeError` for a type that is no float.

    Example:
        >>> import vkgrad as vg
        >>> vg.finfo(vg.float16).max, vg.finfo("bfloat16").eps
        (65504.0, 0.0078125)
    """
    dtype = _type_of(type)
    if dtype.kind != "f":
        raise DTypeError(f"finfo: {dtype.name} is no float type; use iinfo")
    fraction, exponent = _FLOATS[dtype.name]
    greatest = (2.0 - 2.0**-fraction) * 2.0**exponent
    return FloatInfo(8 * dtype.size_bytes, 2.0**-fraction, greatest, -greatest, 2.0 ** (1 - exponent), dtype)


def iinfo(type: Any) -> IntegerInfo:
    """The limits of an integer type, or of a tensor's.

    Raises: `DTypeError` for a type that is no integer.
    """
    dtype = _type_of(type)
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: {dtype.name} is no integer type; use finfo")
    least, greatest = integer_range(dtype)
    return IntegerInfo(8 * dtype.size_bytes, greatest, least, dtype)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that an operation on these gives: tensors, types, and Python numbers, which are weak.

    Raises: `DTypeError` where there is none.

    Example:
        >>> import vkgrad as vg
        >>> vg.result_type(vg.int8, vg.uint8), vg.result_type(vg.float16, 2.5)
        (vkgrad.int16, vkgrad.float16)
    """
    if not arrays_and_dtypes:
        raise OptionError("result_type: takes at least one tensor, type or number")
    numbers = [thing for thing in arrays_and_dtypes if isinstance(thing, bool | int | float)]
    typed = [_type_of(thing) for thing in arrays_and_dtypes if not isinstance(thing, bool | int | float)]
    common = promote(*typed) if typed else None
    for number in sorted(numbers, key=lambda number: (isinstance(number, float), not isinstance(number, bool))):
        common = weak_dtype(number, common)
    assert common is not None
    return common


def can_cast(from_: Any, to: Any) -> bool:
    """Whether every value of `from_` (a type or a tensor) is one of type `to` by the rules of promotion."""
    source, target = _type_of(from_), dtype_of(to)
    if source.kind != target.kind and target.kind in "bf":
        return source.kind == "b" and target.kind == "f"
    try:
        return promote(source, target) is target
    except DTypeError:
        return False


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind: a type, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" (none is) or "numeric", or one of a tuple of these.

    Raises: `OptionError` for a kind that is not one of these.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in KINDS:
        return dtype_of(dtype).kind in KINDS[kind] if KINDS[kind] else False
    if isinstance(kind, DType):
        return dtype_of(dtype) is kind
    raise OptionError(f"isdtype: no kind {kind!r}; there are {', '.join(KINDS)}, types, and tuples of them")


def astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` converted to `dtype`. Tensors do not change in place, so a copy and the same tensor are alike."""
    return asarray(x).astype(dtype, copy, device)
