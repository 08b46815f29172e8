"""Matrix products and convolutions: every row of the table that applies, by the device's own clock, beside PyTorch.

python -m benchmarks.products --shapes gemm,odd,lenet,resnet --device NVIDIA

A product is checked against float64 at sampled places before its time counts. `plan` is what a user gets: the kernels
that the scheduler makes of the product on this device (a long sum may be two), each by the row that is chosen. PyTorch
runs in a process of its own, as CUDA graphs, with TF32 off.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

TOLERANCE = 2e-5  # of the norm of the sampled places; f32 sums of 200,000 terms stay below 1e-5, TF32 would not
HALF_TOLERANCE = 4e-3  # a result is rounded to eight bits, or eleven
TIMED_US = 15_000.0  # how long one candidate is timed, if it is not slower than that once
WARM_US = 300_000.0  # an idle H200 takes about this long to reach its full clock
PARTS = ("fwd", "dgrad", "wgrad")


# ---- shapes
@dataclass(frozen=True)
class Gemm:
    """batch x (m, k) @ (k, n); `form` says of either side whether it is stored transposed."""

    m: int
    n: int
    k: int
    form: str = "nn"
    batch: int = 1
    dtype: str = "float32"

    @property
    def name(self) -> str:
        kind = "" if self.dtype == "float32" else f"{self.dtype} "
        return f"gemm {kind}{f'{self.batch}x ' if self.batch > 1 else ''}{self.m}x{self.n}x{self.k} {self.form}"

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def operands(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        left = (self.m, self.k) if self.form[0] == "n" else (self.k, self.m)
        right = (self.k, self.n) if self.form[1] == "n" else (self.n, self.k)
        lead = (self.batch,) if self.batch > 1 else ()
        return (*lead, *left), (*lead, *right)

    def node(self) -> tuple[Any, list[Any]]:
        from vkgrad.ir.dtypes import dtype_of
        from vkgrad.ops.contraction import contract
        from vkgrad.ops.sources import leaf

        x, y = (leaf(shape, dtype_of(self.dtype)) for shape in self.operands)
        lead = (3,) if self.batch > 1 else ()
        left = (0, 1) if self.form[0] == "n" else (1, 0)
        right = (1, 2) if self.form[1] == "n" else (2, 1)
        return contract(x, y, (*lead, *left), (*lead, *right), (*lead, 0, 2)), [x, y]

    def at(self, operands: Sequence[Any], flat: Any) -> Any:
        """The results at places `flat` of the row-major result, in double precision."""
        import numpy as np

        x, y = operands
        *lead, i, j = np.unravel_index(flat, (*(x.shape[:-2]), self.m, self.n))
        rows = (x if self.form[0] == "n" else np.swapaxes(x, -1, -2))[(*lead, i)]
        columns = np.swapaxes(y if self.form[1] == "n" else np.swapaxes(y, -1, -2), -1, -2)[(*lead, j)]
        return np.einsum("nk,nk->n", rows.astype("f8"), columns.astype("f8"))

    def torch(self) -> Callable[[], Any]:
        import torch

        dtype = getattr(torch, self.dtype)
        x, y = ((torch.rand(shape, device="cuda") - 0.5).to(dtype) for shape in self.operands)
        x = x.transpose(-1, -2) if self.form[0] == "t" else x
        y = y.transpose(-1, -2) if self.form[1] == "t" else y
        out = torch.empty((*x.shape[:-1], y.shape[-1]), device="cuda", dtype=dtype)
        return lambda: torch.matmul(x, y, out=out)


@dataclass(frozen=True)
class Convolution:
    """One part (forward, gradient of the data or of the weights) of a square convolution."""

    part: str
    batch: int
    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    packed: bool = False  # weights as (taps, channels, outputs)
    parts: int = 1  # of the batch, of which each gets a gradient of the weights of its own

    @property
    def name(self) -> str:
        return ("packed " if self.packed else "") + (
            f"{self.part} {self.batch}x{self.channels}x{self.size} to {self.outputs} k{self.kernel}"
            f"{f' s{self.stride}' if self.stride > 1 else ''}{f' p{self.padding}' if self.padding else ''}"
            f"{f' /{self.parts}' if self.parts > 1 else ''}"
        )

    @property
    def positions(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.positions**2 * self.outputs * self.channels * self.kernel**2

    def node(self) -> tuple[Any, list[Any]]:
        from vkgrad.autodiff import vjp
        from vkgrad.ir.dtypes import float32
        from vkgrad.ops.contraction import contract
        from vkgrad.ops.sources import leaf
        from vkgrad.ops.views import pad, permute, window

        x = leaf((self.batch, self.channels, self.size, self.size), float32)
        w = stored = leaf((self.outputs, self.channels, self.kernel, self.kernel), float32)
        if self.packed:
            order = (2, 3, 1, 0) if self.part == "fwd" else (2, 3, 0, 1)
            stored = leaf(tuple(w.shape[axis] for axis in order), float32)
            w = permute(stored, [order.index(axis) for axis in range(4)])
        margin = (0, 0, self.padding, self.padding)
        padded = pad(x, margin, margin) if self.padding else x
        windows = window(window(padded, 2, self.kernel, self.stride, 1), 3, self.kernel, self.stride, 1)
        y = contract(windows, w, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3))
        if self.part == "fwd":
            return y, [x, stored]
        g = leaf(y.shape, float32)
        if self.parts > 1:
            from vkgrad.ir.build import reshape

            x_parts, g_parts = (
                reshape(node, (self.parts, self.batch // self.parts, *node.shape[1:])) for node in (windows, g)
            )
            return contract(g_parts, x_parts, (7, 0, 6, 2, 3), (7, 0, 1, 2, 3, 4, 5), (7, 6, 1, 4, 5)), [x, g]
        if self.part == "dgrad":
            return vjp([y], [x], [g])[0], [stored, g]
        return vjp([y], [w], [g])[0], [x, g]

    def at(self, operands: Sequence[Any], flat: Any) -> Any:
        """The results at places `flat` of the row-major result, in double precision."""
        import numpy as np

        x_shape = (self.batch, self.channels, self.size, self.size)
        w_shape = (self.outputs, self.channels, self.kernel, self.kernel)
        y_shape = (self.batch, self.outputs, self.positions, self.positions)
        taps = np.arange(self.kernel)
        places = np.arange(self.positions)

        def padded(x: Any) -> Any:
            return np.pad(x, ((0, 0), (0, 0), *[(self.padding, self.padding)] * 2))

        if self.part == "wgrad":
            x, g = padded(operands[0]), operands[1]
            part, o, c, i, j = np.unravel_index(flat, (self.parts, *w_shape))
            own = self.batch // self.parts
            out = []
            for n, *one in zip(part, o, c, i, j, strict=True):
                seen = x[n * own : (n + 1) * own, one[1]]
                seen = seen[:, places[:, None] * self.stride + one[2], places * self.stride + one[3]]
                out.append((seen.astype("f8") * g[n * own : (n + 1) * own, one[0]]).sum())
            return np.array(out)
        w = operands[1] if self.part == "fwd" else operands[0]
        if self.packed:
            w = w.transpose(3, 2, 0, 1) if self.part == "fwd" else w.transpose(2, 3, 0, 1)
        out = []
        if self.part == "fwd":
            x = padded(operands[0])
            for b, o, i, j in zip(*np.unravel_index(flat, y_shape), strict=True):
                seen = x[b][:, (i * self.stride + taps)[:, None], j * self.stride + taps]
                out.append((seen.astype("f8") * w[o]).sum())
            return np.array(out)
        g = operands[1]
        for b, c, i, j in zip(*np.unravel_index(flat, x_shape), strict=True):
            total = 0.0
            for k in taps:
                for q in taps:
                    (y, above), (x, beside) = (divmod(at + self.padding - t, self.stride) for at, t in ((i, k), (j, q)))
                    if above == beside == 0 and 0 <= y < self.positions and 0 <= x < self.positions:
                        total += float(g[b, :, y, x].astype("f8") @ w[:, c, k, q])
            out.append(total)
        return np.array(out)

    def torch(self) -> Callable[[], Any]:
        import torch

        x = torch.rand(self.batch, self.channels, self.size, self.size, device="cuda") - 0.5
        w = torch.rand(self.outputs, self.channels, self.kernel, self.kernel, device="cuda") - 0.5
        stride, padding = [self.stride] * 2, [self.padding] * 2
        if self.part == "fwd":
            return lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding)
        g = torch.rand(self.batch, self.outputs, self.positions, self.positions, device="cuda") - 0.5
        mask = [self.part == "dgrad", self.part == "wgrad", False]
        return lambda: torch.ops.aten.convolution_backward(
            g, x, w, None, stride, padding, [1, 1], False, [0, 0], 1, mask
        )


Shape = Gemm | Convolution


def lenet(batch: int) -> Iterator[Convolution]:
    yield from (Convolution(part, batch, 1, 28, 6, 5, padding=2) for part in ("fwd", "wgrad"))
    yield from (Convolution(part, batch, 6, 14, 16, 5) for part in PARTS)


def resnet18(batch: int) -> Iterator[Convolution]:
    """The different convolutions of ResNet-18 on images of 224 (He et al. 2016, table 1)."""
    yield from (Convolution(part, batch, 3, 224, 64, 7, 2, 3) for part in ("fwd", "wgrad"))
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        yield from (Convolution(part, batch, channels, size, channels, 3, 1, 1) for part in PARTS)
        if channels > 64:
            yield from (Convolution(part, batch, channels // 2, 2 * size, channels, 3, 2, 1) for part in PARTS)
            yield from (Convolution(part, batch, channels // 2, 2 * size, channels, 1, 2) for part in PARTS)


SHAPES: dict[str, tuple[Shape, ...]] = {
    "gemm": tuple(Gemm(n, n, n) for n in (1024, 2048, 4096, 8192)),
    "odd": (
        Gemm(16384, 128, 512), Gemm(128, 16384, 512), Gemm(256, 256, 16384), Gemm(64, 64, 65536, "tn"),
        Gemm(8192, 16, 1024), Gemm(16, 8192, 1024), Gemm(4096, 4096, 32), Gemm(2048, 2048, 8),
        Gemm(1, 4096, 4096), Gemm(4096, 1, 4096), Gemm(8, 4096, 4096, "nt"), Gemm(1021, 1031, 1033),
        Gemm(509, 2053, 257), Gemm(2039, 4093, 127, "nt"), Gemm(1024, 1024, 1024, "tn"), Gemm(2048, 2048, 2048, "nt"),
        Gemm(1536, 1536, 1536, "tt"), Gemm(128, 128, 64, "nt", 96), Gemm(197, 197, 64, "nt", 384),
        Gemm(64, 64, 64, "nn", 1024),
    ),
    "half": tuple(
        Gemm(n, n, n, form, dtype=dtype)
        for n, form, dtype in (
            (4096, "nn", "float16"), (8192, "nn", "float16"), (4096, "nn", "bfloat16"), (8192, "nn", "bfloat16"),
            (4096, "tt", "float16"), (2048, "nt", "float16"), (1024, "nn", "float16"),
        )
    ),
    "mlp": (Gemm(2048, 128, 784), Gemm(2048, 10, 128), Gemm(128, 784, 2048, "tn"), Gemm(2048, 128, 10, "nt")),
    "lenet": (*lenet(32), *lenet(256), *lenet(2048)),
    "resnet": tuple(resnet18(32)),
}  # fmt: skip


# ---- PyTorch, in a process of its own
def torch_times(shapes: Sequence[Shape]) -> dict[str, float]:
    """Median µs of each shape, replayed in CUDA graphs."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    out = {}
    for shape in shapes:
        call = shape.torch()
        for _ in range(3):
            call()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(5):
                call()
        graph.replay()

        def timed(graph: Any = graph, start: Any = start, end: Any = end) -> float:
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) * 200

        once = timed()
        out[shape.name] = median(timed() for _ in range(max(3, min(20, int(TIMED_US / (5 * once))))))
    return out


# ---- ours
def expected(kernel: Any, memory: Sequence[Any], places: Any) -> Any:
    """The product's sums at `places` (rows of coordinates along P) in double precision."""
    import numpy as np

    from vkgrad.schedule.kernel import Compute, Load

    terms = np.indices(kernel.extents[kernel.parallel :]).reshape(len(kernel.extents) - kernel.parallel, -1)
    out = []
    for place in places:
        factors = []
        for side in (kernel.product.left, kernel.product.right):
            load = kernel.code[side]
            if isinstance(load, Compute):  # half precision, widened
                load = kernel.code[load.operands[0]]
            assert isinstance(load, Load)
            whole = [*(int(c) for c in place), *terms]

            def linear(form: Any, constant: int, whole: Any = whole) -> Any:
                return constant + sum(c * coordinate for c, coordinate in zip(form, whole, strict=True) if c)

            address, inside = linear(load.layout.strides, load.layout.offset), np.bool_(True)
            for guard in load.layout.guards:
                u = linear(guard.coefficients, guard.constant)
                inside = inside & (u >= 0) & (u < guard.bound) & (u % guard.step == 0)
                address = address + guard.stride * (u // guard.step)
            values = memory[kernel.slots[load.slot]]
            factors.append(np.where(inside, values[np.where(inside, address, 0)], load.fill).astype("f8"))
        out.append(np.broadcast_to(factors[0] * factors[1], terms.shape[1:]).sum())
    return np.array(out)


class Bench:
    """A device with noise in its memory, which serves every shape as operands."""

    def __init__(self, device: Any, words: int, dtype: str = "float32") -> None:
        import numpy as np

        from vkgrad.ir.dtypes import dtype_of
        from vkgrad.ops.narrow import encoded, handed_out

        self.device, self.native = device, device.native
        kind = dtype_of(dtype)
        self.size = kind.size_bytes
        self.tolerance = TOLERANCE if self.size == 4 else HALF_TOLERANCE
        stored = encoded(np.random.default_rng(1).uniform(-1, 1, words).astype("f4"), kind)
        self.host = handed_out(stored, kind)
        size_bytes = self.size * words
        self.noise = self.native.buffer(size_bytes, "device")
        piece = self.native.buffer(min(64 << 20, size_bytes), "upload")
        for start in range(0, size_bytes, piece.nbytes):
            size = min(piece.nbytes, size_bytes - start)
            piece.write(stored[start // self.size : (start + size) // self.size])
            self._run(lambda plan, start=start, size=size: plan.copy(self.noise, piece, size, start))
        self.landing = self.native.buffer(4096, "download")

    def _run(self, fill: Callable[[Any], Any], timestamps: int = 0) -> Any:
        plan = self.native.plan(copies=1, timestamps=timestamps)
        fill(plan)
        self.native.wait(self.native.submit(plan.finish()))
        return plan

    def memory(self, plan: Any) -> tuple[list[Any], list[Any]]:
        """Where each buffer of the plan is on the device, and the host's copy of the inputs."""
        places, copies, start = [], [], 0
        for buffer in plan.buffers:
            if buffer.kind == "input":
                places.append((self.noise, self.size * start, self.size * buffer.count))
                copies.append(self.host[start : start + buffer.count])
                start += -(-buffer.count // 128) * 128
            else:
                places.append((self.native.buffer(4 * buffer.count, "device"), 0, 4 * buffer.count))
                copies.append(None)
        return places, copies

    def check(self, kernel: Any, copies: Sequence[Any], out: Any, run: Callable[[Any], Any], wanted: dict) -> float:
        """Relative error at sampled places: corners, and some at random. `wanted` keeps what was worked out before."""
        import numpy as np

        extents = kernel.extents[: kernel.parallel]
        if "sums" not in wanted:
            corners = [[0] * len(extents), [e - 1 for e in extents]]
            random = np.random.default_rng(2).integers(0, np.array(extents, "i8"), (30, len(extents)))
            wanted["places"] = np.concatenate([np.array(corners).reshape(2, -1), random])
            wanted["sums"] = expected(kernel, copies, wanted["places"])
        (store,) = kernel.stores
        addresses = store.layout.offset + wanted["places"] @ np.array(store.layout.strides[: kernel.parallel])

        found = self.fetch(out, store.dtype, addresses, run)
        return float(np.linalg.norm(found - wanted["sums"]) / np.linalg.norm(wanted["sums"]))

    def check_plan(self, shape: Shape, plan: Any, copies: Sequence[Any], places: Sequence[Any], run: Any) -> float:
        """Relative error of what a plan leaves, at sampled places."""
        import numpy as np

        (number,) = plan.outputs
        buffer = plan.buffers[number]
        random = np.random.default_rng(3).integers(0, buffer.count, 62)
        flat = np.array([0, buffer.count - 1, *random])
        inputs = {b.index: copies[n].reshape(b.shape) for n, b in enumerate(plan.buffers) if b.kind == "input"}
        wanted = shape.at([inputs[index] for index in sorted(inputs)], flat)
        out = places[number][0]
        found = self.fetch(out, buffer.dtype, flat, run)
        return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

    def fetch(self, out: Any, dtype: Any, addresses: Any, run: Callable[[Any], Any]) -> Any:
        """The elements at `addresses` of a buffer, which `run` fills."""
        import numpy as np

        from vkgrad.ops.narrow import handed_out

        def fill(plan: Any) -> None:
            plan.fill(out, 0x7FC07FC0)  # not a number in either precision
            plan.barrier("full")
            run(plan)
            plan.barrier("full")
            for number, address in enumerate(addresses):
                plan.copy(self.landing, out, 4, 4 * number, dtype.size_bytes * int(address) // 4 * 4)
            plan.barrier("host")

        self._run(fill)
        found = np.frombuffer(self.landing.read(0, 4 * len(addresses)), dtype.memory)
        if dtype.size_bytes == 2:
            found = found.reshape(-1, 2)[np.arange(len(addresses)), addresses % 2]
        return handed_out(found, dtype).astype("f8")

    def samples(self, run: Callable[[Any], Any], count: int) -> list[float]:
        """µs of each of `count` runs."""

        def fill(plan: Any) -> None:
            plan.timestamp()
            for _ in range(count):
                run(plan)
                plan.barrier("compute")
                plan.timestamp()

        plan = self._run(fill, count + 1)
        return [(after - before) / 1e3 for before, after in pairwise(plan.timestamps())]

    def time(self, run: Callable[[Any], Any]) -> float:
        """Median µs, the first run left out."""
        once = self.samples(run, 2)[1]
        return median(self.samples(run, max(3, min(20, int(TIMED_US / once))))[1:])

    def warm(self, run: Callable[[Any], Any], enough_us: float) -> float:
        """Run until the device's clock is up; the time that a run then takes."""
        once = self.samples(run, 2)[1]
        for _ in range(8):
            self.samples(run, max(2, min(1000, int(enough_us / 8 / once))))
        return self.time(run)


def benches_of(device: Any, shapes: Sequence[Shape]) -> dict[str, Bench]:
    """By element type, a bench with memory enough for the operands of each shape."""
    words: dict[str, int] = {}
    for shape in shapes:
        leaves = shape.node()[1]
        name = leaves[0].dtype.name
        words[name] = max(words.get(name, 0), sum(-(-prod(x.shape) // 128) * 128 for x in leaves))
    return {name: Bench(device, count, name) for name, count in words.items()}


def fitting(rows: Sequence[Any], kernel: Any, dtype: Any, device: Any) -> list[Any]:
    """Rows by which `kernel` can be computed and, for halves, that are worth a measurement."""
    own = [row for row in rows if row.applies(kernel, device.limits)]
    if dtype.size_bytes == 2:  # the others read halves one by one
        own = [row for row in own if "cooperative" in row.name or row.name == "contract_shared_128x128x32"]
    return own


# ---- rows that are not in the table (yet)
# bm, bn, bk, tm, tn, slices of `contract_shared`, and what else is set
TILES: tuple[tuple[tuple[int, int, int, int, int, int], dict[str, Any]], ...] = (
    ((128, 256, 16, 8, 8, 1), {"padded": False}),
    ((128, 256, 16, 8, 8, 1), {"padded": False, "in_turn": True}),
    ((256, 128, 16, 8, 8, 1), {"padded": False, "in_turn": True}),
    ((128, 128, 16, 8, 8, 1), {"in_turn": True}),
    ((128, 128, 16, 8, 8, 1), {"padded": False, "in_turn": True}),
    ((128, 128, 8, 8, 8, 1), {"in_turn": True}),
    ((128, 256, 8, 8, 16, 1), {"in_turn": True}),
    ((128, 256, 16, 8, 16, 1), {"padded": False, "in_turn": True}),
    ((256, 128, 16, 16, 8, 1), {"padded": False, "in_turn": True}),
    ((256, 256, 8, 8, 8, 1), {"in_turn": True}),
    ((128, 64, 16, 8, 8, 1), {"in_turn": True}),
    ((128, 64, 32, 8, 8, 1), {"padded": False, "in_turn": True}),
    ((64, 64, 16, 8, 8, 1), {"in_turn": True}),
    ((64, 64, 16, 8, 4, 1), {"in_turn": True}),
    ((64, 64, 32, 8, 8, 2), {"in_turn": True}),
    ((96, 96, 16, 8, 4, 1), {}),
    ((96, 96, 32, 8, 4, 2), {}),
    ((96, 64, 16, 8, 4, 1), {}),
    ((96, 64, 32, 8, 4, 2), {}),
    ((96, 128, 16, 8, 8, 1), {}),
    ((96, 128, 16, 8, 4, 1), {}),
)  # fmt: skip


# threads, lanes along K, rows, and steps of four at once of `contract_vector`
VECTORS: tuple[tuple[int, int, int, int], ...] = (
    (256, 64, 2, 4), (256, 32, 4, 2), (128, 32, 4, 2), (128, 16, 4, 2), (128, 8, 4, 2), (512, 64, 4, 2),
)  # fmt: skip


# bm, bn, bk, rows and columns of a subgroup, stages of `contract_cooperative`
COOPERATIVE: tuple[tuple[int, int, int, int, int, int], ...] = (
    (128, 128, 32, 64, 64, 2), (128, 128, 32, 64, 32, 2), (128, 256, 16, 64, 64, 2), (128, 128, 16, 64, 64, 2),
    (128, 256, 32, 64, 64, 1), (128, 128, 64, 64, 64, 1), (128, 128, 64, 64, 32, 1), (256, 128, 16, 64, 64, 2),
    (64, 128, 32, 64, 32, 2), (64, 64, 64, 32, 32, 2), (128, 64, 64, 64, 32, 1), (128, 64, 32, 64, 32, 2),
)  # fmt: skip


def explored() -> list[Any]:
    """Rows of `contract_shared`, `contract_vector` and `contract_cooperative` over the lists above."""
    from vkgrad.codegen.rows.staged import cooperative_row, shared_row, vector_row

    rows = []
    for (bm, bn, bk, tm, tn, slices), more in TILES:
        flags = "".join(f" {name}={value}" for name, value in more.items())
        name = f"{bm}x{bn}x{bk} {tm}x{tn}{f' /{slices}' if slices > 1 else ''}{flags}"
        rows.append(shared_row(name, bm, bn, bk, tm, tn, slices, 40.0, "", **more))
    for threads, lanes, each, unroll in VECTORS:
        rows.append(vector_row(f"vector {threads} k{lanes} rows{each} x{unroll}", threads, lanes, each, unroll, ""))
    for bm, bn, bk, wm, wn, stages in COOPERATIVE:
        name = f"cooperative {bm}x{bn}x{bk} {wm}x{wn} stages={stages}"
        rows.append(cooperative_row(name, bm, bn, bk, wm, wn, stages, 200.0, ""))
    return rows


def explore(shapes: Sequence[Shape], rows: Sequence[Any], theirs: dict[str, float], out: Path | None) -> None:
    """Every shape by every row that fits, printed as they come; the next shape's pipelines are made meanwhile."""
    import vkgrad as vg
    from vkgrad.codegen.render import render
    from vkgrad.schedule.plan import build_plan

    device: Any = vg.default_device()

    def prepare(shape: Shape) -> Any:
        target, leaves = shape.node()
        plan = build_plan([target], leaves, max_buffers=device.max_buffers, width=device.width)
        (kernel,) = [kernel for kernel in plan.kernels if kernel.product]
        own = fitting(rows, kernel, leaves[0].dtype, device)
        others = [render(other, device.limits) for other in plan.kernels if other is not kernel]
        shaders = [render(kernel, device.limits, row) for row in own]
        return plan, kernel, own, shaders, others, pipelines(device, [*shaders, *others])

    benches = benches_of(device, shapes)
    with ThreadPoolExecutor(1) as ahead:
        coming = [ahead.submit(prepare, shape) for shape in shapes]
        for shape, future in zip(shapes, coming, strict=True):
            plan, kernel, own, shaders, others, made = future.result()
            bench = benches[shape.node()[1][0].dtype.name]
            places, copies = bench.memory(plan)
            wanted: dict = {}
            times: dict[str, float] = {}
            wrong = []
            for number, (row, shader) in enumerate(zip(own, shaders, strict=True)):
                rest = iter(zip(others, made[len(own) :], strict=True))
                dispatches = []
                for part, level in zip(plan.kernels, plan.levels, strict=True):
                    text, pipeline = (shader, made[number]) if part is kernel else next(rest)
                    dispatches.append((pipeline, [places[slot] for slot in part.slots], text.groups, level))
                run = steps(dispatches)
                output = places[kernel.slots[kernel.stores[0].slot]][0]
                error = bench.check(kernel, copies, output, run, wanted)
                if not error <= bench.tolerance:
                    wrong.append(f"{row.name} ({error:.1e})")
                    continue
                if number % 8 == 0:
                    bench.warm(run, WARM_US / (1 if number == 0 else 10))
                times[row.name] = bench.time(run)
            torch = theirs.get(shape.name)
            rate = shape.flops / 1e6 / (torch or 1e9)
            print(f"\n{shape.name}: torch {torch or 0:.1f} us, {rate:.1f} TFLOP/s; {len(plan.kernels)} kernels")
            for name, time in sorted(times.items(), key=lambda item: item[1]):
                ratio = f"{torch / time:.3f}" if torch else ""
                print(f"    {name:44} {time:10.1f} us {shape.flops / 1e6 / time:6.1f} TFLOP/s {ratio}")
            if wrong:
                print(f"    wrong: {'; '.join(wrong)}")
            sys.stdout.flush()
            if out:
                with out.open("a") as file:
                    file.write(json.dumps({"shape": shape.name, "torch_us": torch, "rows_us": times}) + "\n")


@dataclass
class Found:
    """One shape measured: µs by row, the row that is chosen, µs of the plan, the rows of the plan."""

    shape: Shape
    rows: dict[str, float]
    chosen: str
    plan_us: float
    plan_rows: list[str]
    wrong: list[str]


def pipelines(device: Any, shaders: Sequence[Any]) -> list[Any]:
    """A pipeline for each shader; equal ones are made once, all of them side by side."""
    from vkgrad.codegen import cache

    different = {(shader.source, shader.numbers): shader for shader in shaders}

    def make(shader: Any) -> Any:
        numbers = {number: struct.pack("<i", value) for number, value in enumerate(shader.numbers)}
        return device.native.pipeline(cache.spirv(shader.source, shader.row), shader.buffers, numbers)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(different, pool.map(make, different.values()), strict=True))
    return [made[shader.source, shader.numbers] for shader in shaders]


def measure(shapes: Sequence[Shape], rows: Sequence[Any], ready: Callable[[], Any] = lambda: None) -> list[Found]:
    """Every shape by every row that applies; `ready` is waited for before anything is timed."""
    import vkgrad as vg
    from vkgrad.codegen.render import render
    from vkgrad.codegen.rows import choose
    from vkgrad.schedule.plan import build_plan

    device: Any = vg.default_device()
    work = []
    for shape in shapes:
        target, leaves = shape.node()
        single, whole = (
            build_plan([target], leaves, max_buffers=device.max_buffers, width=width) for width in (None, device.width)
        )
        (kernel,) = [kernel for kernel in single.kernels if kernel.product]  # there may be copies too
        own = fitting(rows, kernel, leaves[0].dtype, device)
        shaders = [render(kernel, device.limits, row) for row in own]
        parts = [render(kernel, device.limits) for kernel in whole.kernels]
        work.append((shape, single, kernel, own, shaders, whole, parts))
    made = iter(pipelines(device, [shader for *_, a, _, b in work for shader in (*a, *b)]))
    ready()
    benches = benches_of(device, shapes)
    out: list[Found] = []
    plans: list[Callable[[Any], None]] = []
    timed: list[tuple[Callable[[Any], None], Callable[[float], None]]] = []
    for shape, single, kernel, own, shaders, whole, parts in work:
        bench = benches[shape.node()[1][0].dtype.name]
        places, copies = bench.memory(single)
        found = Found(shape, {}, choose(kernel, device.limits).name, 0.0, [shader.row for shader in parts], [])
        out.append(found)
        wanted: dict = {}
        for row, shader in zip(own, shaders, strict=True):
            run = steps([(next(made), [places[slot] for slot in kernel.slots], shader.groups, 0)])
            output = places[kernel.slots[kernel.stores[0].slot]][0]
            if bench.check(kernel, copies, output, run, wanted) <= bench.tolerance:
                timed.append((run, partial(found.rows.__setitem__, row.name)))
            else:
                found.wrong.append(row.name)
        places, copies = bench.memory(whole)
        run = steps(
            [
                (next(made), [places[slot] for slot in kernel.slots], shader.groups, level)
                for kernel, shader, level in zip(whole.kernels, parts, whole.levels, strict=True)
            ]
        )
        if bench.check_plan(shape, whole, copies, places, run) > bench.tolerance:
            found.wrong.append("plan")
        timed.append((run, partial(setattr, found, "plan_us")))
        plans.append(run)
    # A GPU that waits for the host lowers its clock, so everything is timed in one go, with the clock kept up.
    heavy = max(zip(out, plans, strict=True), key=lambda pair: pair[0].shape.flops)[1]
    before = bench.warm(heavy, WARM_US)
    for number, (run, keep) in enumerate(timed):
        if number % 8 == 0:
            bench.warm(heavy, WARM_US / 10)
        keep(bench.time(run))
    after = bench.time(heavy)
    print(f"the longest took {before:.1f} us before all others, and {after:.1f} after them")
    return out


def steps(dispatches: Sequence[tuple[Any, Sequence[Any], Any, int]]) -> Callable[[Any], None]:
    """Adds dispatches (pipeline, memory, groups, level) to a plan, with a barrier between two levels."""

    def run(plan: Any) -> None:
        before = 0
        for pipeline, memory, groups, level in dispatches:
            if level != before:
                plan.barrier("compute")
            before = level
            plan.dispatch(pipeline, memory, groups)

    return run


# ---- tables
def tables(found: Sequence[Found], theirs: dict[str, float], all_rows: bool) -> str:
    from vkgrad.bench.results import digits, table

    lines = []
    for one in found:
        best = min(one.rows, key=one.rows.__getitem__, default="")
        torch = theirs.get(one.shape.name)
        lines.append([
            one.shape.name, digits(one.plan_us), digits(one.shape.flops / one.plan_us / 1e6),
            digits(torch) if torch else "", digits(torch / one.plan_us) if torch else "",
            f"{len(one.plan_rows)}: {one.plan_rows[0]}",
            f"{one.chosen} {digits(one.rows[one.chosen])}" if one.chosen in one.rows else "",
            f"{best} {digits(one.rows[best])}" if best else "", " ".join(one.wrong),
        ])  # fmt: skip
        if all_rows:
            lines += [
                [f"    {name}", digits(time), digits(one.shape.flops / time / 1e6), "",
                 digits(torch / time) if torch else "", "", "", "", ""]
                for name, time in sorted(one.rows.items(), key=lambda item: item[1])
            ]  # fmt: skip
    header = ["shape", "plan µs", "TFLOP/s", "torch µs", "torch / plan", "plan", "one kernel", "best row", "wrong"]
    ratios = [theirs[one.shape.name] / one.plan_us for one in found if one.shape.name in theirs]
    mean = f"\ngeometric mean of torch / plan: {geometric_mean(ratios):.3f}" if ratios else ""
    return table(header, lines) + mean


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shapes", default="gemm,odd,mlp,lenet,resnet", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--rows", action="store_true", help="a line for every row, not only for the best")
    parser.add_argument("--plans", action="store_true", help="only what a user gets, no row by itself")
    parser.add_argument("--explore", action="store_true", help="time rows that are not in the table, as they come")
    parser.add_argument("--torch", type=Path, help="measure PyTorch alone, and write its times here")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--out", type=Path, help="a file for everything measured, as a line of JSON each")
    chosen = parser.parse_args(given)
    lists = {name: [s for s in SHAPES[name] if chosen.only in s.name] for name in chosen.shapes.split(",")}
    shapes = list({shape.name: shape for group in lists.values() for shape in group}.values())
    if chosen.torch:
        chosen.torch.write_text(json.dumps(torch_times(shapes)))
        return 0
    from vkgrad.codegen.rows import ROWS

    times = Path(f"{chosen.out or 'products'}.torch")
    theirs: dict[str, float] = {}
    process = None
    if not chosen.alone:
        arguments = ["--shapes", chosen.shapes, "--only", chosen.only, "--torch", str(times)]
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.products", *arguments])

    def ready() -> None:
        if process is not None and process.wait() == 0:
            theirs.update(json.loads(times.read_text()))

    products = [row for row in ROWS if "contract" in row.name and not chosen.plans]
    if chosen.explore:
        ready()
        explore(shapes, [*explored(), *products], theirs, chosen.out)
        return 0
    found = {one.shape.name: one for one in measure(shapes, products, ready)}
    for group, own in lists.items():
        print(f"\n{group}\n{tables([found[shape.name] for shape in own], theirs, chosen.rows)}")
    if chosen.out:
        with chosen.out.open("w") as file:
            for name, one in found.items():
                line = {"shape": name, "flops": one.shape.flops, "rows_us": one.rows, "chosen": one.chosen}
                line |= {"plan_us": one.plan_us, "plan": one.plan_rows, "torch_us": theirs.get(name)}
                file.write(json.dumps(line) + "\n")
    return int(any(one.wrong for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
