"""What this device can do at most, measured: bytes copied in its memory, multiply-adds in registers.

Every percentage in a table of kernels is of these two, never of a data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vkgrad import engine
from vkgrad.bench import guards
from vkgrad.codegen import cache
from vkgrad.functions import elementwise, linear
from vkgrad.profile import KernelTime, time_kernels
from vkgrad.profile.trace import nearest_roof
from vkgrad.tensor import eval, tensor

# Read, and as much again written: beyond every cache. Software Vulkan loads so slowly that no cache matters to it.
COPY_BYTES = {"gpu": 256 << 20, "software": 8 << 20, "cpu": 64 << 20}
RUNS = {"gpu": 20, "software": 5, "cpu": 5}

GROUP = 256
CHAINS = 8
# Eight chains of four lanes hide the time that one multiply-add takes; each is a variable of its own, because an array
# may end up in memory. The factors come from a buffer, or a compiler would know the result; x -> x / 2 + 1/2 keeps
# every value between 0 and 1.
MULTIPLY_ADD = f"""#version 450
layout(local_size_x = {GROUP}) in;
layout(set = 0, binding = 0) readonly buffer Factors {{ vec4 factors[]; }};
layout(set = 0, binding = 1) writeonly buffer Sums {{ float sums[]; }};
layout(constant_id = 0) const int rounds = 1;
void main() {{
    vec4 a = factors[0], b = factors[1];
    {" ".join(f"vec4 x{i} = {i / CHAINS} * a;" for i in range(CHAINS))}
    for (int round = 0; round < rounds; round++) {{
        {" ".join(f"x{i} = fma(x{i}, a, b);" for i in range(CHAINS))}
    }}
    sums[gl_GlobalInvocationID.x] = dot({" + ".join(f"x{i}" for i in range(CHAINS))}, vec4(1));
}}
"""
CHAIN_FLOPS = CHAINS * 4 * 2  # of one round of one invocation
MATMUL_SIZE = 512  # on the `cpu` device, whose peak is that of its BLAS


@dataclass(frozen=True)
class Peaks:
    """The two roofs of a device.

    copy_gb_s           over bytes read and written; the best of an ordinary kernel and the driver's own copy
    fma_gflop_s         float32, a multiply-add counted as two
    copy_kernel_gb_s    what the ordinary kernel reaches
    """

    copy_gb_s: float
    fma_gflop_s: float
    copy_kernel_gb_s: float

    def share(self, kernel: KernelTime) -> tuple[float, str]:
        """How near a kernel is to the nearer of the two roofs, and which that is.

        Above 1 where its bytes stay in a cache, which the copy's do not.
        """
        return nearest_roof(kernel.gb_s, kernel.gflop_s, self)

    def __str__(self) -> str:
        return (
            f"copies {self.copy_gb_s:.1f} GB/s (a kernel of vkgrad's {self.copy_kernel_gb_s:.1f}), "
            f"multiply-adds {self.fma_gflop_s:.0f} GFLOP/s"
        )


def measured(copy_bytes: int = 0) -> Peaks:
    """The roofs of the default device, medians of several runs. `copy_bytes`: other than what suits the device.

    Raises:
        Refused: one of the kernels came to a wrong value.
        UnsupportedError: the device has no timestamps.
    """
    device: Any = engine.default_device()
    kind = "cpu" if device.kind == "cpu" else "software" if device.software else "gpu"
    runs = RUNS[kind]
    size = min(copy_bytes or COPY_BYTES[kind], device.largest_binding)
    by_kernel = copy_kernel_gb_s(size, runs)
    if kind == "cpu":
        return Peaks(by_kernel, products_gflop_s(runs), by_kernel)
    return Peaks(max(by_kernel, copy_command_gb_s(device, size, runs)), multiply_adds_gflop_s(device, runs), by_kernel)


def copy_kernel_gb_s(size_bytes: int, runs: int) -> float:
    """An ordinary kernel of vkgrad that reads each element and writes it, its sign turned."""
    source = tensor(np.arange(size_bytes // 4, dtype=np.float32))
    eval(source)
    copy = elementwise.negative(source)
    times = time_kernels(eval, copy, runs=runs)
    if len(times.kernels) != 1 or float(copy[size_bytes // 8]) != -float(size_bytes // 8):
        raise guards.Refused("the copying kernel gave wrong values, so nothing can be said of the memory")
    return times.kernels[0].gb_s


def copy_command_gb_s(device: Any, size_bytes: int, runs: int) -> float:
    """The driver's own copy of a buffer. Its values are proven by `memory`, which brings them back."""
    native = device.native
    source, destination = native.buffer(size_bytes), native.buffer(size_bytes)
    plan = native.plan(copies=1, timestamps=2)
    plan.timestamp()
    plan.copy(destination, source, size_bytes)
    plan.timestamp()
    return 2 * size_bytes / _median_us(native, plan.finish(), runs) / 1e3


def multiply_adds_gflop_s(device: Any, runs: int) -> float:
    """A kernel of its own: vkgrad's element-wise kernels keep multiply and add apart, for equal bits everywhere."""
    native = device.native
    threads, rounds = (1 << 13, 64) if device.software else (1 << 20, 512)
    pipeline = native.pipeline(cache.spirv(MULTIPLY_ADD, "multiply_add"), 2, {0: np.int32(rounds).tobytes()})
    factors, sums = native.buffer(32, "upload"), native.buffer(4 * threads, "download")
    factors.write(np.full(8, 0.5, np.float32))
    plan = native.plan(copies=1, timestamps=2)
    plan.timestamp()
    plan.dispatch(pipeline, [factors, sums], (threads // GROUP, 1, 1))
    plan.timestamp()
    plan.barrier("host")
    plan.finish()
    time_us = _median_us(native, plan, runs)
    found = np.frombuffer(sums.read(), np.float32)
    if not np.allclose(found, 4 * CHAINS, rtol=1e-5):  # each lane of each chain is at 1 by now
        raise guards.Refused(f"the multiply-adds came to {found[0]} instead of {4 * CHAINS}")
    return threads * rounds * CHAIN_FLOPS / time_us / 1e3


def _median_us(native: Any, plan: Any, runs: int) -> float:
    """Between a plan's two timestamps; the first run only warms up."""
    times_us = []
    for _ in range(runs + 1):
        native.wait(native.submit(plan))
        times_us.append(plan.timestamps()[1] / 1e3)
    return float(np.median(times_us[1:]))


def products_gflop_s(runs: int) -> float:
    """The `cpu` device at its best: one large matrix product of its BLAS."""
    one = tensor(np.ones((MATMUL_SIZE, MATMUL_SIZE), np.float32))
    eval(one)
    product = linear.matmul(one, one)
    times = time_kernels(eval, product, runs=runs)
    if float(product[0, 0]) != MATMUL_SIZE:
        raise guards.Refused("the matrix product gave wrong values")
    return times.kernels[0].gflop_s
