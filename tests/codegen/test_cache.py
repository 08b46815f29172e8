"""The SPIR-V cache: what is compiled again, what is not, and what damage, races and full disks do to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegen.spirv_validation import validate
from vkgrad.codegen import cache, compilers
from vkgrad.codegen.cache import DiskCache, spirv
from vkgrad.codegen.compilers import Compiler
from vkgrad.codegen.glslang import Target
from vkgrad.config import config
from vkgrad.errors import ShaderError

SHADER = """\
#version 450
layout(binding = 0) buffer Output { float y[]; };
void main() { y[gl_GlobalInvocationID.x] = 3.0; }
"""


def stand_in(identity: str = "stand-in 1") -> Compiler:
    """A compiler that needs no time and whose output tells what it was given."""

    def to_spirv(source: str, target: Target) -> bytes:
        return f"{identity}|{target.environment}|{source}".encode()

    return Compiler("stand-in", lambda: True, lambda: identity, to_spirv)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty cache for each test; yields the folder of its entries."""
    cache.forget()
    with config.override(cache_dir=tmp_path):
        yield tmp_path / "spirv"
    cache.forget()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the shaders compiled so far, as a subscriber of `on_compile` sees them."""
    names: list[str] = []
    monkeypatch.setattr(cache, "on_compile", [names.append])
    return names


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "COMPILERS", (stand_in(),))


def only_file(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def test_memory_then_disk_then_compiler(compiled: list[str], folder: Path) -> None:
    first = spirv(SHADER, "fill")
    validate(first)
    assert compiled == ["fill"]
    entry = only_file(folder).read_bytes()
    only_file(folder).unlink()
    assert spirv(SHADER, "fill") == first and compiled == ["fill"], "from memory"
    cache.forget()
    assert spirv(SHADER, "fill") == first and compiled == ["fill", "fill"], "neither has it"
    assert only_file(folder).read_bytes() == entry, "compiling is deterministic"
    cache.forget()
    assert spirv(SHADER, "fill") == first and len(compiled) == 2, "from disk"


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    program = f"""if True:
        from vkgrad.codegen import cache, glslang
        compiled = []
        cache.on_compile.append(compiled.append)
        for number in range(3):
            cache.spirv({SHADER!r}.replace("3.0", str(number)), f"fill_{{number}}")
        print(len(compiled), glslang._loaded is not None)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "VKGRAD_CACHE_DIR": str(tmp_path)}

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    assert run() == "3 True"
    assert run() == "0 False"  # not even the compiler's library is loaded
    shutil.rmtree(tmp_path / "spirv")
    assert run() == "3 True"


@pytest.mark.usefixtures("fast")
def test_the_key_is_everything_the_content_depends_on(
    compiled: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spirv("a", "first")
    spirv("a", "same source, other name")
    assert compiled == ["first"]
    spirv("a ", "edited")
    spirv("a", "for newer Vulkan", target=Target.VULKAN_1_3)
    monkeypatch.setattr(compilers, "COMPILERS", (stand_in("stand-in 2"),))
    assert spirv("a", "upgraded compiler").startswith(b"stand-in 2")
    assert compiled == ["first", "edited", "for newer Vulkan", "upgraded compiler"]
    assert len(list(folder.iterdir())) == 4


def test_key_parts_cannot_run_into_each_other() -> None:
    assert cache.key_of("c", "ab", Target.VULKAN_1_1) != cache.key_of("bc", "a", Target.VULKAN_1_1)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("damage", ["empty", "truncated", "header", "content", "longer", "other-entry"])
def test_a_damaged_entry_heals(damage: str, compiled: list[str], folder: Path) -> None:
    good = spirv("shader", "healed")
    path = only_file(folder)
    entry = path.read_bytes()
    spirv("another", "other")
    [other] = set(folder.iterdir()) - {path}
    path.write_bytes(
        {
            "empty": b"",
            "truncated": entry[:-1],
            "header": b"?" + entry[1:],
            "content": entry[:-1] + bytes([entry[-1] ^ 1]),
            "longer": entry + b"\0",
            "other-entry": other.read_bytes(),  # intact, but not what its name says
        }[damage]
    )
    cache.forget()
    assert spirv("shader", "healed") == good
    assert compiled == ["healed", "other", "healed"]
    assert path.read_bytes() == entry
    cache.forget()
    assert spirv("shader", "healed") == good and len(compiled) == 3


def test_a_refused_shader_is_not_cached(compiled: list[str], folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(ShaderError, match=r"(?s)broken_fill.*undeclared.*>   3 \|"):
            spirv(SHADER.replace("3.0", "nothing"), "broken_fill")
    assert compiled == [] and not folder.exists()


def write_in_place(self: DiskCache, key: str, content: bytes) -> None:
    """The mutation: `store` without its temporary file."""
    blob = cache._MAGIC + cache._digest(key, content) + content
    with open(self.folder / key, "wb") as file:
        file.write(blob[:40])
        file.flush()
        time.sleep(0.001)
        file.write(blob[40:])


def torn_reads(folder: Path) -> int:
    """Loads that miss while four writers, each with its own view of the folder, store the same entries again."""
    contents = {f"key-{n}": bytes([n]) * (1000 + n) for n in range(4)}
    for key, content in contents.items():
        DiskCache(folder).store(key, content)
    stop = threading.Event()

    def write() -> None:
        disk = DiskCache(folder)
        while not stop.is_set():
            for key, content in contents.items():
                disk.store(key, content)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        disk = DiskCache(folder)
        loads = [(key, disk.load(key)) for _ in range(150) for key in contents]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert all(content in (None, contents[key]) for key, content in loads), "the checksum lets no torn entry through"
    return sum(content is None for _, content in loads)


def test_concurrent_writers_never_show_half_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torn_reads(tmp_path / "atomic") == 0
    assert len(list((tmp_path / "atomic").iterdir())) == 4, "no temporary file is left"
    monkeypatch.setattr(DiskCache, "store", write_in_place)
    (tmp_path / "in-place").mkdir()
    for n in range(4):
        (tmp_path / "in-place" / f"key-{n}").touch()
    assert torn_reads(tmp_path / "in-place") > 0


def test_threads_that_want_one_shader_compile_it_once(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(source: str, target: Target) -> bytes:
        time.sleep(0.05)
        return source.encode()

    monkeypatch.setattr(compilers, "COMPILERS", (Compiler("slow", lambda: True, lambda: "slow 1", slow),))
    found: list[bytes] = []
    # Threads start without the fixture's override: they are given the same folder again.
    cache_dir = config.cache_dir

    def want() -> None:
        with config.override(cache_dir=cache_dir):
            found.append(spirv("shader", "shared"))

    threads = [threading.Thread(target=want) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"shader"] * 6 and compiled == ["shared"]


def test_eviction_takes_the_longest_unused_first(tmp_path: Path) -> None:
    entry_bytes = 1000
    overhead = len(cache._MAGIC) + cache._DIGEST_BYTES
    disk = DiskCache(tmp_path, limit_bytes=8 * entry_bytes)
    for n in range(8):
        disk.store(f"key-{n}", bytes(entry_bytes - overhead))
        os.utime(tmp_path / f"key-{n}", (n, n))
    assert disk.size_bytes() == 8 * entry_bytes, "at the limit nothing goes"
    assert disk.load("key-1") is not None  # used again
    disk.store("key-8", bytes(entry_bytes - overhead))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key-1", "key-4", "key-5", "key-6", "key-7", "key-8"]
    assert disk.size_bytes() == 6 * entry_bytes


def test_eviction_counts_what_other_processes_wrote(tmp_path: Path) -> None:
    for n in range(20):
        DiskCache(tmp_path).store(f"old-{n}", bytes(1000))
    DiskCache(tmp_path, limit_bytes=10_000).store("new", bytes(1000))
    assert DiskCache(tmp_path).size_bytes() <= 10_000 and (tmp_path / "new").exists()


@pytest.mark.usefixtures("fast")
def test_a_folder_that_cannot_be_written_warns_once(compiled: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with config.override(cache_dir=tmp_path / "file"):
        with pytest.warns(RuntimeWarning, match="cannot write to .*VKGRAD_CACHE_DIR"):
            spirv("a", "a")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spirv("b", "b")
            assert spirv("a", "a") == spirv("a", "a")
        assert compiled == ["a", "b"], "memory still serves"
        assert DiskCache(tmp_path / "file" / "spirv").is_empty(), "what cannot be listed has nothing to find"


@pytest.mark.usefixtures("fast")
def test_a_folder_that_can_only_be_read_is_read(
    compiled: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spirv("a", "a")
    cache.forget()

    def refuse(*arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Not by chmod: the administrator, who runs containers, may write everywhere.
    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    assert spirv("a", "a") and compiled == ["a"]
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        spirv("b", "b")
    assert compiled == ["a", "b"]
    assert len(list(folder.iterdir())) == 1, "a failed write leaves nothing behind"


@pytest.mark.usefixtures("fast")
def test_clear_forgets_memory_and_disk(compiled: list[str], folder: Path) -> None:
    spirv("a", "a")
    cache.clear()
    assert list(folder.iterdir()) == []
    spirv("a", "a")
    assert compiled == ["a", "a"]


@pytest.mark.usefixtures("fast")
def test_memory_is_bounded(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MEMORY_ENTRIES", 3)
    for n in range(5):
        spirv(str(n), str(n))
    assert len(cache._memory) == 3
    spirv("0", "0")
    assert compiled == ["0", "1", "2", "3", "4"], "what memory dropped is on disk"


def test_prewarm_only_where_shaders_will_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(compilers, "prewarm", lambda: warmed.append("warmed"))
    cache.prewarm()
    assert warmed == ["warmed"]
    spirv(SHADER, "fill")
    cache.prewarm()
    assert warmed == ["warmed"]
