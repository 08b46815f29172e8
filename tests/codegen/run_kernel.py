"""Test support: run one kernel, or a whole plan, on a native device with a row of one's choosing, and what NumPy says.

Each kernel gets fresh buffers, a pipeline and a submission of its own, so that nothing but the shader is under test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.codegen.spirv_validation import validate
from vkgrad.codegen.beside import render_beside
from vkgrad.codegen.cache import spirv
from vkgrad.codegen.render import Shader, render
from vkgrad.codegen.rows import ROWS, Limits, Row, choose
from vkgrad.codegen.stacked import render_stack
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node, walk
from vkgrad.runtime._native import Device
from vkgrad.schedule.kernel import Dispatch, Gather, Group, Kernel, Load, Store, parts
from vkgrad.schedule.plan import Plan

# The test device itself, and what rows meant for GPUs are told; a software driver runs those too, only slowly.
SOFTWARE = Limits(software=True, max_invocations=1024, shared_bytes=32768)
GPU_LIKE = Limits(software=False, max_invocations=1024, shared_bytes=32768)

Change = Callable[[Shader], Shader]


def limits_of(device: Device, limits: Limits) -> Limits:
    """`limits` within what the device has; only its own kind of subgroup is relied on."""
    own = device.info["limits"]
    return replace(
        limits,
        max_invocations=min(limits.max_invocations, own["max_workgroup_invocations"]),
        shared_bytes=min(limits.shared_bytes, own["max_shared_memory_bytes"]),
        subgroup=device.info["subgroup_size"],
        broadcast=limits.software,
    )


def rows_for(kernel: Kernel, limits: Limits) -> list[Row]:
    """Every row that can compute `kernel`."""
    return [row for row in ROWS if row.applies(kernel, limits)]


def slot_types(dispatch: Dispatch) -> dict[int, DType]:
    """The element type in each slot."""
    types: dict[int, DType] = {}
    for kernel in parts(dispatch):
        for part in (*kernel.code, *kernel.stores):
            if isinstance(part, (Load, Gather, Store)):
                types[dispatch.slots.index(kernel.slots[part.slot])] = part.dtype
    return types


def bindings(shader: Shader) -> dict[int, bytes]:
    """A shader's numbers as specialisation constants."""
    return {number: struct.pack("<i", value) for number, value in enumerate(shader.numbers)}


def run_kernel(
    device: Device, kernel: Dispatch, shader: Shader, memory: Mapping[int, np.ndarray], sizes: Mapping[int, int]
) -> dict[int, np.ndarray]:
    """What `kernel` leaves in each slot it writes, as flat arrays.

    memory  slot -> contents before (as NumPy has them; a bool is one byte there)
    sizes   slot -> number of elements, for slots without contents; they start out as noise
    """
    types = slot_types(kernel)
    code = spirv(shader.source, shader.row)
    validate(code)
    pipeline = device.pipeline(code, shader.buffers, bindings(shader))
    buffers = []
    for slot in range(len(kernel.slots)):
        stored = types[slot].storage_numpy
        start = memory[slot].ravel().astype(stored) if slot in memory else np.full(sizes[slot], 77, stored)
        buffer = device.buffer(max(start.nbytes, 4), "download" if slot in kernel.written else "upload")
        buffer.write(start)
        buffers.append(buffer)
    plan = device.plan()
    plan.dispatch(pipeline, buffers, shader.groups)
    plan.barrier("host")
    device.wait(device.submit(plan.finish()))
    return {
        slot: np.frombuffer(buffers[slot].read(), types[slot].storage_numpy).astype(types[slot].numpy)
        for slot in kernel.written
    }


def run_plan(
    device: Device,
    plan: Plan,
    inputs: Sequence[np.ndarray],
    limits: Limits,
    pick: Callable[[Kernel], Row] | None = None,
    change: Change = lambda shader: shader,
) -> list[np.ndarray]:
    """The plan's outputs from its inputs, one dispatch after the other; `pick` chooses each kernel's row."""
    memory: dict[int, np.ndarray] = {}
    for number, buffer in enumerate(plan.buffers):
        if buffer.kind == "input":
            memory[number] = inputs[buffer.index]
    for kernel in plan.kernels:
        if isinstance(kernel, Group):
            rendered = render_stack if kernel.rows else render_beside
            shader = rendered(kernel, limits, pick or (lambda kernel: None))
        else:
            shader = render(kernel, limits, pick(kernel) if pick else choose(kernel, limits))
        present = {slot: memory[number] for slot, number in enumerate(kernel.slots) if number in memory}
        sizes = {slot: plan.buffers[number].count for slot, number in enumerate(kernel.slots)}
        for slot, values in run_kernel(device, kernel, change(shader), present, sizes).items():
            memory[kernel.slots[slot]] = values
    out = []
    for number in plan.outputs:
        assert number is not None, "an empty output has no kernel"
        out.append(memory[number].reshape(plan.buffers[number].shape))
    return out


def evaluate_in_double(targets: Sequence[Node], values: Mapping[Node, np.ndarray]) -> list[np.ndarray]:
    """`targets` by the NumPy meaning of each op, every float in double precision."""
    known = {leaf: array.astype("f8") if array.dtype.kind == "f" else array for leaf, array in values.items()}
    for node in walk(targets, stop=known.__contains__):
        if node in known:
            continue
        operands = [known[source] for source in node.inputs]
        array = np.asarray(node.op.numpy(*operands, **node.attributes))
        known[node] = array.astype("f8") if array.dtype.kind == "f" else array
    return [known[target] for target in targets]


def corrupted(number: int) -> Change:
    """A change that takes one from a shader's number, as a wrong stride or extent would be; it stays in bounds."""

    def change(shader: Shader) -> Shader:
        numbers = list(shader.numbers)
        numbers[number] -= 1
        return replace(shader, numbers=tuple(numbers))

    return change
