"""Numbers made into what an element type can hold: floats to the nearest (ties to even), integers by wrapping.

Python numbers only; arrays are `vkgrad.ops.narrow`. This module must not know nodes.
"""

from __future__ import annotations

import math
import struct

from vkgrad.ir.dtypes import DType

_FORMATS = {"float16": "<e", "float32": "<f"}


def rounded(value: float, dtype: DType) -> float:
    """The value of floating type `dtype` nearest to `value`; beyond the largest, infinity, as in any cast."""
    if dtype.size_bytes == 8:
        return value
    if dtype.name == "bfloat16":
        (bits,) = struct.unpack("<I", struct.pack("<f", _packed(value, "<f")))
        if not math.isnan(value):
            bits += 0x7FFF + (bits >> 16 & 1)
        return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
    return _packed(_packed(value, "<f"), _FORMATS[dtype.name])


def _packed(value: float, form: str) -> float:
    try:
        return struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def wrapped(value: int, dtype: DType) -> int:
    """The value of integer type `dtype` that is `value` modulo 2 to the number of its bits."""
    width = 8 * dtype.size_bytes
    bits = value & ((1 << width) - 1)
    return bits - (1 << width) if dtype.kind == "i" and bits >> (width - 1) else bits
