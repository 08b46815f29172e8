"""How one element of a buffer is written in GLSL: read, and stored.

A value of a type that is only stored, such as float16, is one of the type it is computed in. Where the device has no
access to memory in units as small as an element (its size is in a `Packing`), elements lie packed in 32-bit words.
This module must not know kernels.
"""

from __future__ import annotations

from vkgrad.ir.dtypes import DType

Packing = frozenset[int]  # sizes in bytes of the elements that shaders cannot reach alone


def stored_type(dtype: DType, packing: Packing = frozenset()) -> str:
    """The GLSL type of a buffer's elements."""
    return "uint" if dtype.size_bytes in packing else dtype.storage


def read(buffer: str, dtype: DType, address: str, packing: Packing = frozenset()) -> str:
    """The value of one element."""
    if not dtype.narrow:
        text = f"{buffer}[{address}]"
        return f"({text} != 0u)" if dtype.kind == "b" else text
    packed = dtype.size_bytes in packing
    if packed:
        shift, part = (2, "byte_of") if dtype.size_bytes == 1 else (1, "half_of")
        bits = f"{part}({buffer}[({address}) >> {shift}], {address})"
    else:
        bits = f"{buffer}[{address}]"
    if dtype.kind == "f":
        return f"from_{dtype.name}(uint({bits}))"
    value = f"{dtype.glsl}({bits})"
    return f"narrow_{dtype.name}({value})" if packed and dtype.kind == "i" else value


def encoded(dtype: DType, value: str, packing: Packing = frozenset()) -> str:
    """What is stored for `value`; where elements are packed, in the lowest bits."""
    if dtype.kind == "b":
        return f"({value} ? 1u : 0u)"
    if not dtype.narrow:
        return value
    bits = f"to_{dtype.name}({value})" if dtype.kind == "f" else value
    return f"uint({bits})" if dtype.size_bytes in packing else f"{dtype.storage}({bits})"


def store(buffer: str, dtype: DType, address: str, value: str, packing: Packing = frozenset()) -> str:
    """The statement that stores `value`."""
    bits = encoded(dtype, value, packing)
    if dtype.size_bytes not in packing:
        return f"{buffer}[{address}] = {bits};"
    # Each element has one writer, but a word has several: none may write back what it read of the others.
    shift, low, ones = (2, 3, "0xffu") if dtype.size_bytes == 1 else (1, 1, "0xffffu")
    word, place = f"{buffer}[at >> {shift}]", f"((at & {low}) << {5 - shift})"
    clear, set_ = f"atomicAnd({word}, ~({ones} << {place}));", f"atomicOr({word}, ({bits} & {ones}) << {place});"
    return f"{{ int at = {address}; {clear} {set_} }}"
