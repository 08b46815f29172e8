"""Times the ways to compute one kernel on a Vulkan device, by the device's own clock.

A way must first prove itself: on ordinary numbers its result has to agree with the first way's, and bit for bit where
both promise the same order of summation. Whatever runs here runs on scratch memory. This module must not know what the
times decide.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from vkgrad.codegen.cache import spirv
from vkgrad.codegen.kernel_class import slot_sizes
from vkgrad.codegen.render import Shader, render
from vkgrad.codegen.rows import Row
from vkgrad.codegen.tune import Finding, order_of
from vkgrad.errors import DeviceLostError, OutOfDeviceMemoryError, ShaderError, VulkanError
from vkgrad.ir.dtypes import DType
from vkgrad.runtime import _native
from vkgrad.schedule.kernel import Kernel

if TYPE_CHECKING:
    from vkgrad.runtime.vulkan import VulkanDevice

ROUNDS = 5  # the median of these counts, and of as many more for those that may win
HOPELESS = 2.0  # a way that takes this many times the best is not measured again
PART = 16  # a way is first run in part, and never as a whole if the part takes longer than the whole of the best
SHORT_US = 1000.0  # and longer than this, since what is short is not known so well and costs nothing to run
ROUND_US = 200.0  # a round repeats what is shorter than this, but
MOST_REPEATS = 16  # only so often
BLOCK = (1 << 20) + 7  # elements drawn; larger buffers repeat them, out of step with all sizes
POISON = 0xFFFFFFFF  # NaN: what nobody wrote cannot agree with anything


@dataclass(eq=False)
class _Way:
    row: Row
    shader: Shader | None = None
    pipeline: _native.Pipeline | None = None
    refused: str = ""
    times_us: list[float] = field(default_factory=list)

    def median_us(self) -> float:
        return median(self.times_us)

    def finding(self) -> Finding:
        return Finding(self.row.name, None if self.refused else round(self.median_us(), 3), self.refused)


def measure(device: VulkanDevice, kernel: Kernel, rows: Sequence[Row]) -> list[Finding]:
    """A `Finding` for each way to compute `kernel`. The first that runs is what the others are compared with."""
    ways = [_Way(row) for row in rows]
    if not device.info["timestamp_bits"]:
        return [Finding(row.name, refused=f"{device.name} has no timestamps") for row in rows]
    try:
        scratch = _Scratch(device.native, kernel)
    except OutOfDeviceMemoryError as error:
        return [Finding(row.name, refused=str(error)) for row in rows]
    _prepare(device, kernel, ways)
    best_us = float("inf")
    results: dict[str, np.ndarray] = {}  # by order of summation
    for way in ways:
        if way.refused:
            continue
        try:
            way.refused = _first_run(way, scratch, best_us) or _disagreement(
                scratch.result(), results, order_of(way.row, kernel, device.limits), kernel
            )
        except DeviceLostError:
            raise
        except VulkanError as error:
            way.refused = str(error)
        if not way.refused:
            best_us = min(best_us, way.times_us[0])
    proven = [way for way in ways if not way.refused]
    # The first of all ran while clocks may still have been rising, and it is what the others must beat.
    hopeful = [way for way in proven if way is proven[0] or way.times_us[0] <= HOPELESS * best_us]
    repeats = int(min(max(ROUND_US / best_us, 1), MOST_REPEATS)) if hopeful else 1
    for way in hopeful:
        way.times_us.clear()  # the first run was alone; only like is compared with like
    finalists = hopeful
    for _ in range(2):
        for _ in range(ROUNDS):  # in turns, so that a clock that rises or falls meanwhile favours nobody
            for way in finalists:
                way.times_us.append(scratch.run(way, repeats))
        # The first of all and the best by now meet again: the least of many noisy times is too often luck.
        finalists = list(dict.fromkeys((*hopeful[:1], *sorted(hopeful, key=_Way.median_us)[:1])))
    return [way.finding() for way in ways]


def _prepare(device: VulkanDevice, kernel: Kernel, ways: Sequence[_Way]) -> None:
    """Render, compile, and make pipelines side by side; what a compiler or the driver refuses is noted."""

    def make(way: _Way) -> None:
        try:
            way.shader = render(kernel, device.limits, way.row)
            shared = shared_bytes(way.shader.source)
            if shared > device.limits.shared_bytes:  # a driver need not refuse it, and some do not
                way.refused = f"needs {shared:,} bytes of shared memory; there are {device.limits.shared_bytes:,}"
                return
            spec = {number: struct.pack("<i", value) for number, value in enumerate(way.shader.numbers)}
            code = spirv(way.shader.source, way.row.name)
            way.pipeline = device.native.pipeline(code, way.shader.buffers, spec)
        except DeviceLostError:
            raise
        except VulkanError as error:
            kind = "the device refused its shader: " if isinstance(error, ShaderError) else ""
            way.refused = kind + str(error)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, ways))


def shared_bytes(source: str) -> int:
    """Bytes of shared memory that a shader declares."""
    total = 0
    for kind, extents in re.findall(r"^\s*shared (\w+) \w+((?:\[\d+\])*);", source, re.M):
        words = 2 if kind == "double" else int(kind[-1]) if kind[-1].isdigit() else 1
        total += 4 * words * prod(map(int, re.findall(r"\d+", extents)))
    return total


def _first_run(way: _Way, scratch: _Scratch, best_us: float) -> str:
    """Run a way once on poisoned memory and time it; returns why it may not go on, if so."""
    scratch.poison()
    if best_us < float("inf"):
        for _ in range(2):  # software drivers compile at the first dispatch
            part_us = scratch.run(way, part=PART)
        if part_us > max(best_us, SHORT_US):
            return f"too slow: a {PART}th of it takes {part_us:.0f} us, all of the best {best_us:.0f}"
    else:
        scratch.run(way)
    scratch.poison()
    way.times_us = [scratch.run(way)]
    return ""


def _disagreement(result: np.ndarray, results: dict[str, np.ndarray], order: str, kernel: Kernel) -> str:
    """Why `result` is wrong, if it is; else it joins `results`."""
    wanted = next(iter(results.values()), None)
    if wanted is not None:
        with np.errstate(invalid="ignore"):
            if result.dtype.kind != "f":
                wrong = np.count_nonzero(result != wanted)
            else:
                # Each of the sum's terms is at most 1, so a partial sum is at most their number and rounded by as
                # much; errors that add up by chance, as these do, stay below half of that bound.
                slack = 2 * kernel.terms * np.finfo(result.dtype).eps
                close = np.abs(result - wanted) <= slack
                wrong = np.count_nonzero(~(close | (np.isnan(result) & np.isnan(wanted))))
        if wrong:
            return f"wrong: {wrong} of {wanted.size} elements differ from the first row's"
    promised = results.setdefault(order, result)
    if promised is not result and promised.tobytes() != result.tobytes():
        return f"its bits differ from another way's with the same order of summation, {order}"
    return ""


class _Scratch:
    """Buffers for one kernel, its inputs full of ordinary numbers."""

    def __init__(self, native: _native.Device, kernel: Kernel) -> None:
        self.native = native
        (store,) = kernel.stores
        self.output, self.dtype = store.slot, store.dtype
        sizes = slot_sizes(kernel)
        self.count = sizes[self.output][1]
        self.buffers = [native.buffer(-(-count * dtype.size_bytes // 16) * 16) for dtype, count in sizes]
        for slot, (dtype, count) in enumerate(sizes):
            if slot != self.output:
                self._fill(self.buffers[slot], _ordinary(dtype, min(count, BLOCK), slot))
        self.landing = native.buffer(self.buffers[self.output].nbytes, "download")

    def _fill(self, buffer: _native.Buffer, block: np.ndarray) -> None:
        """Repeat `block` to the end of `buffer`, where it doubles with every copy."""
        stage = self.native.buffer(block.nbytes, "upload")
        stage.write(block)
        plan = self.native.plan(copies=1)
        plan.copy(buffer, stage, block.nbytes)
        there = block.nbytes
        while there < buffer.nbytes:
            plan.barrier("full")
            more = min(there, buffer.nbytes - there)
            plan.copy(buffer, buffer, more, there, 0)
            there += more
        self.native.wait(self.native.submit(plan.finish()))

    def poison(self) -> None:
        plan = self.native.plan(copies=1)
        plan.fill(self.buffers[self.output], POISON)
        self.native.wait(self.native.submit(plan.finish()))

    def run(self, way: _Way, repeats: int = 1, part: int = 1) -> float:
        """The time of one run in µs, of `repeats` one after the other; of a `part`, only so many of its workgroups."""
        assert way.shader is not None and way.pipeline is not None
        width, height, depth = way.shader.groups
        groups = (width, -(-height // part), depth) if height >= part else (-(-width // part), height, depth)
        plan = self.native.plan(copies=1, timestamps=2)
        plan.timestamp()
        for _ in range(repeats):
            plan.barrier("compute")
            plan.dispatch(way.pipeline, self.buffers, groups)
        plan.timestamp()
        self.native.wait(self.native.submit(plan.finish()))
        before, after = plan.timestamps()
        return max((after - before) / 1e3, 1e-3) / repeats

    def result(self) -> np.ndarray:
        plan = self.native.plan(copies=1)
        plan.copy(self.landing, self.buffers[self.output], self.landing.nbytes)
        plan.barrier("host")
        self.native.wait(self.native.submit(plan.finish()))
        return np.frombuffer(self.landing.read(), self.dtype.storage_numpy)[: self.count]


def _ordinary(dtype: DType, count: int, seed: int) -> np.ndarray:
    """`count` numbers between -1 and 1, whole ones if need be, none of them special; zeros would be too easy."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "f":
        return generator.uniform(-1, 1, count).astype(dtype.storage_numpy)
    low, high = {"b": (0, 2), "u": (0, 4)}.get(dtype.kind, (-3, 4))
    return generator.integers(low, high, count).astype(dtype.storage_numpy)
