"""The Vulkan device: plans become Kompute sequences, one submission each.

The native part (`_native`) holds instance, memory, pipelines and submissions. Here a plan's kernels are rendered and
compiled, its levels are recorded with one barrier between two of them, and uploads and downloads ride in the same
sequence.
"""

from __future__ import annotations

import atexit
import hashlib
import struct
import sys
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np

from vkgrad.codegen import cache
from vkgrad.codegen.beside import beside_for, render_beside
from vkgrad.codegen.render import Shader, render
from vkgrad.codegen.rendered import rendered
from vkgrad.codegen.rows import Limits
from vkgrad.codegen.stacked import render_stack, stacking_for
from vkgrad.codegen.tune import Tuner
from vkgrad.config import config
from vkgrad.counters import count
from vkgrad.errors import DeviceLostError, NoDeviceError, NoDriverError, OutOfDeviceMemoryError
from vkgrad.ir.dtypes import DType, float64
from vkgrad.ir.node import Node
from vkgrad.notice import notice
from vkgrad.ops.narrow import handed_out
from vkgrad.runtime import _native, halves
from vkgrad.runtime.device import Job, Use
from vkgrad.runtime.measure import measure
from vkgrad.schedule.kernel import Dispatch, Group, Kernel, parts
from vkgrad.schedule.plan import Plan
from vkgrad.schedule.split import Width

# Sizes in bytes of small elements, and the feature by which shaders reach each alone.
SMALL_STORAGE = {1: "storageBuffer8BitAccess", 2: "storageBuffer16BitAccess"}
LARGEST_INDEX = 2**31 - 1  # indices in shaders are signed and have 32 bits


@dataclass(frozen=True)
class Way:
    """How an argument of a recorded step reaches the device.

    from_bytes     the smallest that goes this way
    page_locked    an array in page-locked memory is copied from there by the device, beside the step before
    staged         any other array is written into page-locked memory first, then the same; else where it is used
    """

    name: str
    from_bytes: int
    page_locked: bool = False
    staged: bool = False


# The first whose size is reached. The sizes are where measurements on an H200 cross (docs/decisions/006), in which
# staging what is not page-locked gained nothing at any size.
WRITTEN = Way("written in place", 0)
PAGE_LOCKED = Way("page-locked", 1 << 18, page_locked=True)
STAGED = Way("staged", 1 << 22, page_locked=True, staged=True)
WAYS = (PAGE_LOCKED, WRITTEN)


@dataclass
class Executable:
    """A plan with a pipeline per kernel."""

    plan: Plan
    shaders: list[Shader]
    pipelines: list[_native.Pipeline]


def _matrices(info: dict[str, Any]) -> frozenset[str]:
    """The half-precision types for `Limits.matrices`."""
    wanted = {"m": 16, "n": 16, "k": 16, "c": "f32", "d": "f32", "saturating": False, "scope": "subgroup"}
    if info["subgroup_size"] != 32 or not info["features"].get("shaderFloat16"):
        return frozenset()
    names = {"f16": "float16"}
    if info["features"].get("shaderBFloat16CooperativeMatrix"):
        names["bf16"] = "bfloat16"
    return frozenset(
        names[shape["a"]]
        for shape in info["cooperative_matrices"]
        if shape["a"] == shape["b"]
        and shape["a"] in names
        and all(shape[key] == value for key, value in wanted.items())
    )


class VulkanDevice:
    kind = "vulkan"

    def __init__(self, index: int | None = None) -> None:
        try:
            self.native = _native.Device(index)
        except (NoDriverError, NoDeviceError) as error:
            raise type(error)(f"{error}; or do without Vulkan: VKGRAD_DEVICE=cpu runs everything in NumPy") from None
        self.forks = _native.forks()
        info = self.info = self.native.info
        limits = info["limits"]
        self.name = info["name"]
        self.software = info["type"] == "cpu"
        self.max_buffers = min(limits["max_storage_buffers"], 32)
        self.limits = Limits(
            software=self.software,
            max_groups=tuple(limits["max_workgroup_count"]),
            max_invocations=limits["max_workgroup_invocations"],
            shared_bytes=limits["max_shared_memory_bytes"],
            subgroup=info["subgroup_size"],
            max_buffers=self.max_buffers,
            float64=bool(info["features"].get("shaderFloat64")),
            int64=bool(info["features"].get("shaderInt64")),
            broadcast=self.software,
            matrices=_matrices(info),
            packing=frozenset(size for size, feature in SMALL_STORAGE.items() if not info["features"].get(feature)),
        )
        named = f"{self.name}; {info['driver_name']} {info['driver_version']:x} {info['driver_info']}"
        if not self.software:
            self.limits = replace(self.limits, halves=halves.are_exact(self.native, named))
        self.tuner = Tuner(named, self.limits, partial(measure, self))
        self.width: Width | None = Width(32, 1, 1024) if self.software else Width(1 << 16, 256, 16, 132)
        self.stacking = stacking_for(self.limits, self.tuner.row)
        self.beside: Callable[[Kernel], Hashable] | None = beside_for(self.limits, self.tuner.row)
        self.largest_binding = limits["max_storage_buffer_range"]
        self.ways = WAYS if info["copy_family"] is not None else (WRITTEN,)
        self.arena: _native.Buffer | None = None
        self.pipelines: dict[tuple[str, tuple[int, ...]], _native.Pipeline] = {}
        name = f"pipelines-{info['vendor_id']:x}-{info['device_id']:x}-{info['driver_version']:x}.bin"
        self.cache_file = config.cache_dir / name
        self.native.load_cache(str(self.cache_file))
        # After the native part's own registration, so that it runs before the native devices close.
        atexit.register(self.save_cache)
        if self.software:
            notice(
                f"vkgrad runs on {self.name}, Vulkan in software: correct, but slower than NumPy. "
                "VKGRAD_DEVICE=cpu is the fast choice on a machine without a GPU."
            )

    def __repr__(self) -> str:
        return f"<vulkan device {self.name}>"

    # ---- what it can do
    def lacks(self, dtype: DType) -> str | None:
        """Why shaders cannot compute with values of `dtype` here, or None if they can."""
        if dtype.size_bytes != 8:
            return None
        if dtype is not float64:
            return None if self.limits.int64 else f"{self.name} lacks the feature shaderInt64"
        if not config.f64:
            return "double precision is switched off by VKGRAD_F64=0"
        return None if self.limits.float64 else f"{self.name} lacks the feature shaderFloat64"

    def refuses(self, node: Node) -> str | None:
        for dtype in (node.dtype, *(source.dtype for source in node.inputs)):
            if dtype.size_bytes == 8 and (reason := self.lacks(dtype)) is not None:
                return reason
        rule = node.op.host_rule
        if rule is not None and rule.applies([source.shape for source in node.inputs], **node.attributes):
            return f"{rule.condition}: {rule.reason}"
        return None

    # ---- memory
    def allocate(self, size_bytes: int, use: Use = "device") -> _native.Buffer:
        """Memory for kernels: "argument" can be written by the host where it is, "result" can be read."""
        count(buffers_allocated=1, bytes_allocated=size_bytes)
        kind: _native.Kind = {"argument": "bar", "result": "download"}.get(use, "device")  # type: ignore[assignment]
        return self.native.buffer(_words(size_bytes), kind if kind in self.info["memory_kinds"] else "device")

    def page_locked(self, size_bytes: int) -> _native.Buffer | None:
        return self.native.page_locked(size_bytes) if self.way(size_bytes).page_locked else None

    def storage(self, array: np.ndarray) -> np.ndarray:
        return array.astype(np.uint32) if array.dtype.kind == "b" else np.ascontiguousarray(array)

    def from_storage(self, raw: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        stored = raw[: prod(shape) * dtype.size_bytes].view(dtype.storage_numpy).reshape(shape)
        return stored != 0 if dtype.kind == "b" else handed_out(stored, dtype)

    def temporaries(self, size_bytes: int) -> _native.Buffer | None:
        """One arena serves every plan: submissions run one after the other, so their temporaries may share it."""
        if size_bytes and (self.arena is None or self.arena.nbytes < size_bytes):
            self.arena = self.allocate(size_bytes)
        return self.arena

    def way(self, size_bytes: int) -> Way:
        """How a step's argument of this size gets here."""
        return next(way for way in self.ways if size_bytes >= way.from_bytes)

    # ---- kernels
    def prepare(self, plan: Plan) -> Executable:
        self._check_sizes(plan)
        shaders = [self._shader(dispatch) for dispatch in plan.kernels]
        missing = {
            (shader.source, shader.numbers): shader
            for shader in shaders
            if (shader.source, shader.numbers) not in self.pipelines
        }
        if missing:
            modules = {s.source: cache.spirv(s.source, s.row) for s in missing.values()}
            with ThreadPoolExecutor(8) as pool:
                made = list(pool.map(lambda s: self._pipeline(s, modules[s.source]), missing.values()))
            self.pipelines.update(zip(missing, made, strict=True))
            count(pipelines_created=len(missing))
        if "glsl" in config.debug:
            for shader in shaders:
                header = f"// {shader.row} {dict(shader.parameters)} {shader.groups} {shader.numbers}"
                print(f"{header}\n{shader.source}", file=sys.stderr)
        return Executable(plan, shaders, [self.pipelines[s.source, s.numbers] for s in shaders])

    def _shader(self, dispatch: Dispatch) -> Shader:
        rows = [self.tuner.row(kernel) for kernel in parts(dispatch)]
        names = [row.name if row else "" for row in rows]
        if isinstance(dispatch, Group):
            draw = render_stack if dispatch.rows else render_beside
            return rendered(dispatch, self.limits, names, lambda: draw(dispatch, self.limits, self.tuner.row))
        return rendered(dispatch, self.limits, names, lambda: render(dispatch, self.limits, rows[0]))

    def _check_sizes(self, plan: Plan) -> None:
        for buffer in plan.buffers:
            if buffer.size_bytes > self.largest_binding:
                raise OutOfDeviceMemoryError(
                    f"{buffer.dtype.name}{list(buffer.shape)} takes {buffer.size_bytes:,} bytes, and a kernel on "
                    f"{self.name} sees at most {self.largest_binding:,} of one buffer; compute it in parts"
                )
        for kernel in plan.kernels:
            if max(kernel.places, kernel.terms) > LARGEST_INDEX:
                raise OutOfDeviceMemoryError(
                    f"{', '.join(kernel.labels)}: a kernel over {' x '.join(map(str, kernel.extents))} elements, "
                    f"and shaders count to {LARGEST_INDEX:,}; compute it in parts"
                )

    def _pipeline(self, shader: Shader, spirv: bytes) -> _native.Pipeline:
        spec = {number: struct.pack("<i", value) for number, value in enumerate(shader.numbers)}
        key = hashlib.blake2b(shader.source.encode(), digest_size=16).digest()
        return self.native.pipeline(spirv, shader.buffers, spec, key=key)

    def save_cache(self) -> None:
        """Write the driver's pipelines to disk, so that the next process creates them quickly."""
        if self.pipelines and _native.forks() == self.forks:  # a forked child has nothing to save
            self.cache_file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(DeviceLostError):
                self.native.save_cache(str(self.cache_file))

    # ---- running
    def record(self, job: Job) -> VulkanRecording:
        return VulkanRecording(self, job)


class VulkanRecording:
    """A job recorded into native plans: one, or more where VKGRAD_BATCH_MAX caps the dispatches of a submission."""

    def __init__(self, device: VulkanDevice, job: Job) -> None:
        self.device = device
        self.job = job  # for watchers of the engine, such as the profiler
        self.cap = config.batch_max
        self.plans: list[_native.Plan] = []
        self.open: _native.Plan | None = None
        self.filled = self.dispatches = self.barriers = 0
        self.ticket = 0
        # Memory that the host can reach is written and read where it is; the rest goes through one staging buffer.
        self.upload_places, self.staged_bytes = _places(job.uploads)
        self.download_places, self.landed_bytes = _places(job.downloads)
        self._record(job)
        self.submissions = len(self.plans)
        self.replay = self._replay(job)

    def _plan(self) -> _native.Plan:
        if self.open is None:
            self.open = self.device.native.plan(copies=1)
            self.plans.append(self.open)
            self.filled = 0
        return self.open

    def _close(self) -> None:
        if self.open is not None:
            self.open.finish()
            self.open = None

    def _barrier(self, kind: Literal["compute", "full", "host"]) -> None:
        """Order what follows after what came before; a new plan begins with such a barrier anyway."""
        if self.open is not None:
            self.open.barrier(kind)
            self.barriers += 1

    def _record(self, job: Job) -> None:
        if self.staged_bytes:
            self.staging = self.device.native.buffer(self.staged_bytes, "upload")
            for (memory, size), start in zip(job.uploads, self.upload_places, strict=True):
                if start is not None:
                    self._plan().copy(memory, self.staging, _words(size), 0, start)
            if job.executable is not None or job.copies or job.downloads:
                self._barrier("full")
        if job.executable is not None:
            self._record_kernels(job.executable, job.memory)
        touched: set[int] | None = None
        for destination, source, size in job.copies:
            if touched is None or not touched.isdisjoint((id(destination), id(source))):
                self._barrier("full")
                touched = set()
            touched |= {id(destination), id(source)}
            self._plan().copy(destination, source, _words(size))
        if self.landed_bytes:
            self._barrier("full")
            self.landing = self.device.native.buffer(self.landed_bytes, "download")
            for (memory, size), start in zip(job.downloads, self.download_places, strict=True):
                if start is not None:
                    self._plan().copy(self.landing, memory, _words(size), start)
        if job.downloads:
            self._barrier("host")
        self._close()

    def _record_kernels(self, executable: Executable, memory: Any) -> None:
        plan = executable.plan
        arena = self.device.temporaries(plan.arena_bytes)
        places: list[Any] = []
        for number, buffer in enumerate(plan.buffers):
            if buffer.kind == "temporary":
                places.append((arena, buffer.index, _words(buffer.size_bytes)))
            else:
                places.append(memory[number])
        level = 0
        for kernel, own, shader, pipeline in zip(
            plan.kernels, plan.levels, executable.shaders, executable.pipelines, strict=True
        ):
            if own != level:
                self._barrier("compute")
                level = own
            if self.cap is not None and self.open is not None and self.filled >= max(self.cap, 1):
                self._close()
            self._plan().dispatch(pipeline, [places[slot] for slot in kernel.slots], shader.groups)
            self.filled += 1
            self.dispatches += 1
        if self.cap == 0:
            self._close()

    def write(self, number: int, array: np.ndarray) -> None:
        stored = self.device.storage(array)
        memory, start = self.job.uploads[number][0], self.upload_places[number]
        raw = stored.reshape(-1).view(np.uint8)
        memory.write(raw) if start is None else self.staging.write(raw, start)
        count(bytes_uploaded=stored.nbytes)

    def _replay(self, job: Job) -> _native.Replay | None:
        """What does a whole run in one call; None where that is not possible."""
        if len(self.plans) != 1 or len(job.arrays) != len(job.uploads):
            return None
        arguments = []
        for (memory, size), start, (dtype, shape) in zip(job.uploads, self.upload_places, job.arrays, strict=True):
            if dtype.kind == "b":  # stored as words
                return None
            staged = start is not None
            way = self.device.way(size) if not staged else WRITTEN
            arguments.append(
                (
                    self.staging if staged else memory,
                    start or 0,
                    size,
                    dtype.num,
                    shape,
                    way.page_locked,
                    self.device.native.buffer(size, "download") if way.staged else None,
                )
            )
        return self.device.native.replay(self.plans[0], arguments)

    def run(self, arrays: Sequence[np.ndarray], before: VulkanRecording | None = None) -> bool:
        first = before.plans[0] if before is not None else None
        ticket = self.replay.run(first, *arrays) if self.replay is not None else 0
        if ticket:
            self.ticket = ticket
        return bool(ticket)

    def submit(self, before: VulkanRecording | None = None) -> None:
        """Hand the plans over; what `before` holds runs first, in the same submission as the first of them."""
        first = before.plans if before is not None else []
        for plan in self.plans:
            self.ticket = self.device.native.submit([*first, plan] if first else plan)
            first = []

    def is_done(self) -> bool:
        return self.device.native.done(self.ticket)

    def wait(self) -> None:
        self.device.native.wait(self.ticket)

    def read(self, number: int) -> np.ndarray:
        self.wait()
        (memory, size), start = self.job.downloads[number], self.download_places[number]
        raw = memory.read(0, size) if start is None else self.landing.read(start, size)
        return np.frombuffer(raw, np.uint8)


def _words(size_bytes: int) -> int:
    return -(-size_bytes // 4) * 4


def _places(pieces: Sequence[tuple[_native.Buffer, int]]) -> tuple[list[int | None], int]:
    """Where in a staging buffer each piece goes (None: it needs none), on 16-byte boundaries, and the total."""
    starts: list[int | None] = []
    at = 0
    for memory, size in pieces:
        starts.append(None if memory.kind != "device" else at)
        if memory.kind == "device":
            at += -(-size // 16) * 16
    return starts, at
