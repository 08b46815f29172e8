"""Shaders by kernel: what was rendered once on this machine is not rendered again by the next process.

Choosing a row, rendering templates and importing what renders them is most of a new process's first step. A kernel is
data that is written the same way in every process, so its text is a key, together with what else a shader depends on:
the device's limits, the rows that were chosen, the GLSL of the ops in it, and a hash of the templates and of the code
that fills them in. Routines are left out: their geometry is a function, which has no text. What is kept is GLSL; its
SPIR-V has a cache of its own, by content. This module must not know how a shader is rendered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vkgrad.codegen.cache import DiskCache
from vkgrad.codegen.render import Shader, template_folder
from vkgrad.codegen.rows import Limits
from vkgrad.config import config
from vkgrad.schedule.kernel import Compute, Dispatch, Kernel, Reduce, parts


def rendered(dispatch: Dispatch, limits: Limits, rows: Sequence[str], render: Callable[[], Shader]) -> Shader:
    """What `render` gives, asked only if no process did before. `rows` names the rows that were chosen beforehand."""
    if any(kernel.routine is not None for kernel in parts(dispatch)):
        return render()
    disk, key = on_disk(), key_of(dispatch, limits, rows)
    shader = _from_json(disk.load(key))
    if shader is None:
        shader = render()
        content = _to_json(shader)
        if _from_json(content) == shader:  # else a parameter is something that JSON has not
            disk.store(key, content)
    return shader


def key_of(dispatch: Dispatch, limits: Limits, rows: Sequence[str]) -> str:
    """A hash of all that a shader depends on, as a file name."""
    ops = {
        part.op.name: (part.op.glsl, part.op.combine)
        for kernel in parts(dispatch)
        for part in kernel.code
        if isinstance(part, Compute | Reduce)
    }
    texts = (version(), repr(limits), repr(tuple(rows)), repr(sorted(ops.items())), _text(dispatch))
    return hashlib.sha256("".join(f"{len(text)}:{text}" for text in texts).encode()).hexdigest()


def _text(dispatch: Dispatch) -> str:
    if isinstance(dispatch, Kernel):  # which buffers of the plan they are does not matter, only how many
        fields = (dispatch.extents, dispatch.parallel, dispatch.code, dispatch.stores, dispatch.product)
        return f"{len(dispatch.slots)} {fields}"
    return repr(dispatch)


@cache
def version() -> str:
    """A hash of the templates and of the code between a kernel and its text."""
    package = Path(__file__).resolve().parents[1]
    folders = (package / "codegen", package / "ir", template_folder())
    files = [package / "schedule" / "kernel.py", *(path for folder in folders for path in sorted(folder.rglob("*.*")))]
    digest = hashlib.sha256()
    for path in files:
        if path.suffix in (".py", ".glsl", ".j2"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def on_disk() -> DiskCache:
    """The folder of rendered shaders, one file a kernel."""
    return _folder(config.cache_dir / "glsl")


@cache
def _folder(path: Path) -> DiskCache:
    return DiskCache(path)


def _to_json(shader: Shader) -> bytes:
    return json.dumps(vars(shader)).encode()


def _from_json(content: bytes | None) -> Shader | None:
    """The shader in a file's content. The checksum was right, so the content is what this version wrote."""
    if content is None:
        return None
    read = json.loads(content)
    return Shader(**{name: _tuples(value) for name, value in read.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
