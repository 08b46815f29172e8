"""SPIR-V by content: each shader is compiled once per machine, not once per process.

`spirv(source, name)` looks in memory, then on disk, then compiles. A disk entry is found by a hash of everything that
its content depends on (source, compiler and version, target), so an edited template or an upgraded compiler simply
misses. Nothing on disk is trusted: an entry carries a checksum, and one that does not agree is compiled anew and
replaced. This module must not know what a shader computes, and holds no policy on when to compile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from vkgrad.codegen import compilers
from vkgrad.codegen.glslang import Target
from vkgrad.config import config
from vkgrad.notice import notice

LIMIT_BYTES = 256 << 20  # about 60,000 shaders
MEMORY_ENTRIES = 4096

# Called with the shader's name at each real compile, on the thread that compiled.
on_compile: list[Callable[[str], None]] = []

_MAGIC = b"vkgrad-1"
_DIGEST_BYTES = 32


class DiskCache:
    """Bytes by key in one folder, bounded in size, safe to share between processes and to damage.

    A file is a magic word, the SHA-256 of key and content, and the content. Files are written beside their place and
    moved into it, so a reader sees a whole entry or none. Above `limit_bytes` the entries longest unused go first.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._size_bytes: int | None = None  # unknown until the first write, which alone pays for the listing
        self._warned = False

    def load(self, key: str) -> bytes | None:
        """The content stored under `key`; None when there is none or it is damaged."""
        path = self.folder / key
        try:
            blob = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST_BYTES
        content = blob[head:]
        if blob[:head] != _MAGIC + _digest(key, content):
            return None
        with contextlib.suppress(OSError):  # where we may only read, whoever may write decides what goes
            os.utime(path)  # eviction is by last use
        return content

    def store(self, key: str, content: bytes) -> None:
        """Write an entry, then evict if the folder outgrew its limit. A folder that cannot be written warns once."""
        blob = _MAGIC + _digest(key, content) + content
        temporary = ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix="new-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(blob)
            os.replace(temporary, self.folder / key)
            self._grow(len(blob))
        except OSError as error:
            if temporary:
                Path(temporary).unlink(missing_ok=True)
            self._warn(error)

    def clear(self) -> None:
        """Delete every entry."""
        for _, _, path in self._entries():
            path.unlink(missing_ok=True)
        self._size_bytes = None

    def size_bytes(self) -> int:
        """Bytes on disk now."""
        return sum(size for _, size, _ in self._entries())

    def is_empty(self) -> bool:
        """Whether there is nothing to find: no folder, none that we may list, or no file in it."""
        try:
            with os.scandir(self.folder) as files:
                return next(files, None) is None
        except OSError:
            return True

    def _grow(self, size_bytes: int) -> None:
        # Other processes write too: our running total may be low, until the listing here that corrects it.
        if self._size_bytes is None:
            self._size_bytes = self.size_bytes()
        else:
            self._size_bytes += size_bytes
        if self._size_bytes > self.limit_bytes:
            self._evict(self.limit_bytes * 3 // 4)  # with room to spare, else each write would list the folder

    def _evict(self, goal_bytes: int) -> None:
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= goal_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
        self._size_bytes = total

    def _entries(self) -> list[tuple[int, int, Path]]:
        """(time of last use in ns, bytes, path) of every file, those left behind by a killed writer included."""
        entries = []
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    try:
                        status = file.stat()
                    except FileNotFoundError:
                        continue  # another process evicted it
                    entries.append((status.st_mtime_ns, status.st_size, Path(file.path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return entries

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            notice(
                f"shaders are not kept for the next process: cannot write to {self.folder} ({error.strerror}); "
                "set VKGRAD_CACHE_DIR to a folder that can be written",
                RuntimeWarning,
            )


_memory: dict[str, bytes] = {}
_disks: dict[Path, DiskCache] = {}
_lock = threading.RLock()


def spirv(source: str, name: str, *, target: Target = Target.VULKAN_1_1) -> bytes:
    """The SPIR-V of a compute shader, compiled only if no process did it before; `name` is what errors call it.

    Raises: `ShaderError` for GLSL that is refused (which is never cached), `CompilerError` when no compiler is found.
    """
    compiler = compilers.chosen()
    key = key_of(source, compiler.identity(), target)
    with _lock:  # two threads that want one shader compile it once
        content = _memory.get(key)
        if content is not None:
            return content
        disk = on_disk()
        content = disk.load(key)
        if content is None:
            content = compilers.compile_with(compiler, source, name=name, target=target)
            disk.store(key, content)
            for subscriber in on_compile:
                subscriber(name)
        if len(_memory) >= MEMORY_ENTRIES:
            del _memory[next(iter(_memory))]
        _memory[key] = content
        return content


def key_of(source: str, identity: str, target: Target) -> str:
    """The hash of all that the SPIR-V depends on, as a file name."""
    parts = (target.environment, identity, source)
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def clear() -> None:
    """Forget every shader, in memory and on disk."""
    forget()
    on_disk().clear()


def forget() -> None:
    """Forget the shaders in memory, as a new process would; those on disk stay."""
    with _lock:
        _memory.clear()


def prewarm() -> threading.Thread | None:
    """`compilers.prewarm()` where shaders are sure to be compiled: on a machine whose disk cache is empty."""
    return compilers.prewarm() if on_disk().is_empty() else None


def on_disk() -> DiskCache:
    """The folder of compiled shaders that VKGRAD_CACHE_DIR names."""
    folder = config.cache_dir / "spirv"
    with _lock:
        return _disks.setdefault(folder, DiskCache(folder))


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()
