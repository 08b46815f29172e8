"""Element types and their promotion.

A `DType` says how an element is named, stored and written in GLSL. It must not know a device: whether a device has
double precision is the device's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vkgrad.errors import DTypeError


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    `size_bytes` is the size in device memory. A bool is stored there as a 32-bit word, because GLSL has no bool in
    buffers, and is one byte in NumPy.
    """

    name: str
    kind: str  # "b" bool, "u" unsigned, "i" signed, "f" floating
    size_bytes: int
    glsl: str

    @property
    def numpy(self) -> np.dtype:
        return np.dtype("bool" if self.kind == "b" else self.name)

    @property
    def storage(self) -> str:
        """The GLSL type of one stored element."""
        return "uint" if self.kind == "b" else self.glsl

    @property
    def storage_numpy(self) -> np.dtype:
        """The NumPy type whose bytes are the stored elements."""
        return np.dtype("uint32") if self.kind == "b" else self.numpy

    def __repr__(self) -> str:
        return f"vkgrad.{self.name}"

    def __reduce__(self):
        return (dtype_of, (self.name,))


bool_ = DType("bool", "b", 4, "bool")
int32 = DType("int32", "i", 4, "int")
uint32 = DType("uint32", "u", 4, "uint")
float32 = DType("float32", "f", 4, "float")
float64 = DType("float64", "f", 8, "double")

DTYPES = {dtype.name: dtype for dtype in (bool_, uint32, int32, float32, float64)}
FLOATING = (float32, float64)
INTEGRAL = (int32, uint32)
NUMERIC = FLOATING + INTEGRAL
ANY = (*NUMERIC, bool_)


def dtype_of(name: object) -> DType:
    """The `DType` for a name, a NumPy type or a `DType`.

    Raises: `DTypeError` for a type that vkgrad does not have, with the list of those it has.
    """
    if isinstance(name, DType):
        return name
    if isinstance(name, str) and name.rstrip("_") in DTYPES:
        return DTYPES[name.rstrip("_")]
    try:
        return DTYPES[np.dtype(name).name]  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise DTypeError(f"no element type {name!r}; vkgrad has {', '.join(DTYPES)}") from None


def promote(*dtypes: DType) -> DType:
    """The common type of array operands, by the array API standard; a float type wins over any integer type.

    Raises: `DTypeError` where the common type (int64 for int32 with uint32) does not exist here.
    """
    kinds = {dtype.kind for dtype in dtypes}
    if "f" in kinds:
        return max((d for d in dtypes if d.kind == "f"), key=lambda d: d.size_bytes)
    if {"i", "u"} <= kinds:
        raise DTypeError("int32 and uint32 promote to int64, which vkgrad does not have yet; cast one with .astype")
    return next((d for d in dtypes if d.kind in "iu"), bool_)


def weak_dtype(value: bool | int | float, beside: DType | None) -> DType:
    """The type a Python scalar takes beside an array operand of type `beside` (None: alone)."""
    if isinstance(value, bool):
        return beside or bool_
    if isinstance(value, int):
        return beside if beside is not None and beside.kind != "b" else int32
    return beside if beside is not None and beside.kind == "f" else float32
