"""Bytes to the device, on it and back, in several sizes: GB/s as a program sees them, and by the device's clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vkgrad import engine
from vkgrad.bench import guards, results
from vkgrad.bench.costs import spread
from vkgrad.bench.results import Spread, digits
from vkgrad.ir.dtypes import dtype_of

if TYPE_CHECKING:
    from vkgrad.runtime import _native

MEBIBYTES = (0.004, 0.098, 1, 64, 512)  # up to beyond every cache; 0.098: a batch of 32 images
SOFTWARE_MEBIBYTES = (0.004, 1, 16)  # such a device has the cache of its CPU, and little time


@dataclass(frozen=True)
class Line:
    """What was moved, how many bytes, how long it took, and over it the bytes that were read or written."""

    what: str
    size_bytes: int
    time: Spread
    gb_s: float

    @property
    def size(self) -> str:
        return f"{self.size_bytes >> 20} MiB" if self.size_bytes >= 1 << 20 else f"{self.size_bytes >> 10} KiB"


def measured(device: Any, mebibytes: Sequence[float] = (), runs: int = 10) -> list[Line]:
    """The transfers of a device; by default of sizes that suit it.

    Raises:
        Refused: bytes came back changed.
    """
    software = device.kind != "vulkan" or device.software
    sizes = [max(int(n * (1 << 20)) // 4 * 4, 4) for n in mebibytes or (SOFTWARE_MEBIBYTES if software else MEBIBYTES)]
    if device.kind == "vulkan":
        return transfers(device.native, sizes, runs)
    return copies(sizes, runs)


def copies(sizes: Sequence[int], runs: int) -> list[Line]:
    """On the `cpu` device: into its memory and out of it, through the engine."""
    lines = []
    for nbytes in sizes:
        data = np.random.default_rng(0).random(nbytes // 4, np.float32)
        node = engine.put(data, dtype_of("float32"))
        engine.evaluate([], read=[node])
        back = engine.read(node)
        if not np.array_equal(back, data):
            raise guards.Refused(f"{nbytes} bytes came back changed")

        def upload(data: np.ndarray = data) -> None:
            engine.evaluate([], read=[engine.put(data, dtype_of("float32"))])

        up, down = spread(upload, runs), spread(lambda node=node: engine.read(node), runs)  # type: ignore[misc]
        lines.append(Line("upload", nbytes, up, nbytes / up.median_us / 1e3))
        lines.append(Line("download", nbytes, down, nbytes / down.median_us / 1e3))
    return lines


def transfers(device: _native.Device, sizes: Sequence[int], runs: int) -> list[Line]:
    """Bytes to the device and back through the host, and on the device (read and written bytes both count)."""
    lines: list[Line] = []
    for nbytes in sizes:
        data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
        here, there = device.buffer(nbytes, "upload"), device.buffer(nbytes)
        other, back = device.buffer(nbytes), device.buffer(nbytes, "download")
        up = device.plan()
        up.copy(there, here, nbytes)
        up.finish()
        down = device.plan()
        down.copy(back, other, nbytes)
        down.barrier("host")
        down.finish()
        across = device.plan(copies=1, timestamps=2)
        across.timestamp()
        across.copy(other, there, nbytes)
        across.timestamp()
        across.finish()

        def upload(data: np.ndarray = data, here: _native.Buffer = here, up: _native.Plan = up) -> None:
            here.write(data)
            device.wait(device.submit(up))

        def download(back: _native.Buffer = back, down: _native.Plan = down) -> bytes:
            device.wait(device.submit(down))
            return back.read()

        writing = spread(lambda here=here, data=data: here.write(data), runs)  # type: ignore[misc]
        uploading = spread(upload, runs)
        ticks = []
        for _ in range(runs + 1):
            device.wait(device.submit(across))
            ticks.append(max(across.timestamps()[1] / 1e3, 1e-3))
        downloading = spread(download, runs)
        if download() != data.tobytes():
            raise guards.Refused(f"{nbytes} bytes came back changed")
        copying = Spread.of(ticks[1:])
        for what, moved, time_us in (
            ("write to mapped memory", nbytes, writing),
            ("upload, write and copy", nbytes, uploading),
            ("copy on the device", 2 * nbytes, copying),
            ("download, copy and read", nbytes, downloading),
        ):
            lines.append(Line(what, nbytes, time_us, moved / time_us.median_us / 1e3))
    return lines


def table(lines: Sequence[Line]) -> str:
    rows = [[line.what, line.size, str(line.time), digits(line.gb_s)] for line in lines]
    return results.table(["bytes moved", "size", "µs: median [p10-p90]", "GB/s"], rows)


def as_lines(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    for line in lines:
        shape = {"op": line.what, "shape": [line.size_bytes], "dtype": "bytes"}
        yield {**shape, **line.time.fields(), "gb_s": round(line.gb_s, 3)}
