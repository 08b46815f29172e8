"""bfloat16 in SPIR-V, for compilers that know its sister only.

GLSL compilers before 2025 have float16_t and no bfloat16_t. A shader that holds matrices of bfloat16 is therefore
written with float16_t, and with `MARK` in a comment; its module says BFloat16KHR where it said half precision. This
works because such a shader computes nothing in that type: it moves bits into matrices, and multiplies these. May go
when every compiler of the table has GL_EXT_bfloat16.
"""

from __future__ import annotations

import struct

MARK = "// float16_t is bfloat16 here"

_EXTENSION, _CAPABILITY, _FLOAT = 10, 17, 22  # opcodes
_TYPE, _MATRIX = 5116, 5118  # the capabilities BFloat16TypeKHR and BFloat16CooperativeMatrixKHR
_ENCODING = 0  # BFloat16KHR
_HEADER = 5  # words


def with_bfloat16(module: bytes) -> bytes:
    """The module with bfloat16 for every float16."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    name = b"SPV_KHR_bfloat16\0"
    name += b"\0" * (-len(name) % 4)
    extension = struct.unpack(f"<{len(name) // 4}I", name)
    added = [2 << 16 | _CAPABILITY, _TYPE, 2 << 16 | _CAPABILITY, _MATRIX, (1 + len(extension)) << 16 | _EXTENSION]
    out, at = list(words[:_HEADER]), _HEADER
    while at < len(words):
        opcode, length = words[at] & 0xFFFF, words[at] >> 16
        if opcode != _CAPABILITY and added:
            out += [*added, *extension]  # capabilities come first, then extensions
            added = []
        if opcode == _FLOAT and words[at + 2] == 16:
            out += [4 << 16 | _FLOAT, words[at + 1], 16, _ENCODING]
        else:
            out += words[at : at + length]
        at += length
    return struct.pack(f"<{len(out)}I", *out)
