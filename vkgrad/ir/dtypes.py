"""Element types and their promotion.

A `DType` says how an element is named, stored, written in GLSL, and in which type it is computed. It must not know a
device: whether a device has double precision is the device's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from vkgrad.errors import DTypeError
from vkgrad.spelling import meant


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type.

    name        as the array API standard and NumPy spell it
    kind        "b" bool, "u" unsigned, "i" signed, "f" floating
    size_bytes  in device memory. A bool is stored there as a 32-bit word, because GLSL has no bool in buffers
    glsl        the GLSL type of a value in a kernel
    storage     the GLSL type of one stored element, where a device can store it
    narrow      a type that is only stored: arithmetic is done in `computed`, and each result rounded or wrapped to
                what this type can hold
    """

    name: str
    kind: str
    size_bytes: int
    glsl: str
    storage: str
    narrow: bool = False

    @property
    def computed(self) -> DType:
        """The type in which kernels compute: this one, or the 32-bit one of its kind."""
        return {"f": float32, "i": int32, "u": uint32}[self.kind] if self.narrow else self

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type of values that are handed out. NumPy has no bfloat16: it comes out as float32, exactly."""
        return np.dtype("float32" if self.name == "bfloat16" else self.name)

    @property
    def memory(self) -> np.dtype:
        """The NumPy type whose bytes are the elements in the host's memory."""
        return np.dtype("uint16" if self.name == "bfloat16" else self.name)

    @property
    def storage_numpy(self) -> np.dtype:
        """The NumPy type whose bytes are the elements in a Vulkan device's memory."""
        return np.dtype("uint32") if self.kind == "b" else self.memory

    @property
    def glsl_fields(self) -> dict[str, str | int]:
        """What an op's GLSL can say about its result: the GLSL {type}, its {unsigned} sister and {width} in bits, and
        the {name} of the element type."""
        wide = self.size_bytes == 8
        unsigned, width = ("uint64_t", 64) if wide else ("uint", 32)
        return {"type": self.glsl, "name": self.name, "unsigned": unsigned, "width": width}

    def __repr__(self) -> str:
        return f"vkgrad.{self.name}"

    def __reduce__(self):
        return (dtype_of, (self.name,))


bool_ = DType("bool", "b", 4, "bool", "uint")
int8 = DType("int8", "i", 1, "int", "int8_t", narrow=True)
int16 = DType("int16", "i", 2, "int", "int16_t", narrow=True)
int32 = DType("int32", "i", 4, "int", "int")
int64 = DType("int64", "i", 8, "int64_t", "int64_t")
uint8 = DType("uint8", "u", 1, "uint", "uint8_t", narrow=True)
uint16 = DType("uint16", "u", 2, "uint", "uint16_t", narrow=True)
uint32 = DType("uint32", "u", 4, "uint", "uint")
uint64 = DType("uint64", "u", 8, "uint64_t", "uint64_t")
# Stored as their bits: how a driver converts a float16_t, and whether it rounds to the nearest, is not promised.
float16 = DType("float16", "f", 2, "float", "uint16_t", narrow=True)
bfloat16 = DType("bfloat16", "f", 2, "float", "uint16_t", narrow=True)
float32 = DType("float32", "f", 4, "float", "float")
float64 = DType("float64", "f", 8, "double", "double")

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATING = (float16, bfloat16, float32, float64)
INTEGRAL = SIGNED + UNSIGNED
NUMERIC = FLOATING + INTEGRAL
ANY = (*NUMERIC, bool_)
DTYPES = {dtype.name: dtype for dtype in (bool_, *UNSIGNED, *SIGNED, *FLOATING)}


NO_COMPLEX = (
    "vkgrad has no complex numbers: a complex tensor is one of floats with a last axis of extent 2, its real and "
    "imaginary parts, as vg.fft takes and gives it; np.stack([z.real, z.imag], axis=-1) makes one of an array z"
)


def dtype_of(name: object) -> DType:
    """The `DType` for a name, a NumPy type (`ml_dtypes.bfloat16` too) or a `DType`.

    Raises: `DTypeError` for a type that vkgrad does not have, with the list of those it has.
    """
    if isinstance(name, DType):
        return name
    if isinstance(name, str) and name.rstrip("_") in DTYPES:
        return DTYPES[name.rstrip("_")]
    try:
        dtype = np.dtype(name)  # type: ignore[call-overload]
        if dtype.kind == "c":
            raise DTypeError(NO_COMPLEX)
        return DTYPES[dtype.name]
    except (TypeError, KeyError) as error:
        if isinstance(error, DTypeError):
            raise
        if isinstance(name, np.dtype) and name.kind in "OSU":
            kind = "Python objects" if name.kind == "O" else "text"
            raise DTypeError(
                f"dtype: {kind} cannot be elements; convert the array first, for example array.astype(np.float32)"
            ) from None
        if isinstance(name, int | tuple | list):
            raise DTypeError(
                f"dtype: {name!r} is no element type; several extents are one argument, as in vg.zeros((2, 3))"
            ) from None
        suggestion = meant(name, DTYPES) if isinstance(name, str) else ""
        known = f"vkgrad has {', '.join(DTYPES)}"
        raise DTypeError(f"dtype: no element type {name!r}; {f'{suggestion} ' if suggestion else ''}{known}") from None


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = 8 * dtype.size_bytes
    return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@lru_cache(maxsize=1024)
def promote(*dtypes: DType) -> DType:
    """The common type of array operands, by the array API standard.

    Where the standard leaves it open: a float type wins over any integer type, anything wins over bool, and float16
    with bfloat16 is float32.

    Raises: `DTypeError` for uint64 with a signed integer, which no integer type holds both of.
    """
    floats = [dtype for dtype in dtypes if dtype.kind == "f"]
    return reduce(_promote, floats or dtypes)


def _promote(x: DType, y: DType) -> DType:
    if x is y or y.kind == "b":
        return x
    if x.kind == "b":
        return y
    if x.kind == y.kind:
        if x.size_bytes == y.size_bytes:
            return float32  # float16 with bfloat16
        return x if x.size_bytes > y.size_bytes else y
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    if signed.size_bytes > unsigned.size_bytes:
        return signed
    if unsigned is uint64:
        raise DTypeError(f"no integer type holds both uint64 and {signed.name}; cast one with .astype")
    return SIGNED[UNSIGNED.index(unsigned) + 1]


def weak_dtype(value: bool | int | float, beside: DType | None) -> DType:
    """The type a Python scalar takes beside an array operand of type `beside` (None: alone)."""
    if isinstance(value, bool):
        return beside or bool_
    if isinstance(value, int):
        return beside if beside is not None and beside.kind != "b" else int32
    return beside if beside is not None and beside.kind == "f" else float32
