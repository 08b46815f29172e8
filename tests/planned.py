"""Runs graphs as the CPU device does: planned, then kernel after kernel on the NumPy twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkgrad.ir.node import Node
from vkgrad.ops.narrow import encoded, handed_out
from vkgrad.runtime.twin import prepare
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import Plan, build_plan, structure


def plan_of(
    outputs: Sequence[Node], *, max_buffers: int = 16, replaces: Mapping[Node, Node] | None = None, **options: Any
) -> tuple[Plan, list[Node]]:
    """The plan for `outputs` and its leaves in order. `replaces` maps outputs to leaves they are the new values of.

    Other options are those of `build_plan`.
    """
    leaves = structure(outputs, lambda node: False)[1]
    numbers = {outputs.index(new): leaves.index(old) for new, old in (replaces or {}).items()}
    plan = build_plan(outputs, leaves, max_buffers=max_buffers, replaces=numbers, **options)
    return plan, leaves


def run(
    plan: Plan,
    leaves: Sequence[Node],
    values: Mapping[Node, np.ndarray],
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
    repeats: int = 2,
) -> list[np.ndarray | None]:
    """What the plan's targets come out as (None where empty).

    Temporaries share one arena as the plan says and start out full of rubbish. Closures run `repeats` times on fresh
    inputs, since they keep memory between runs. `change` alters each kernel first, for tests of the tests.
    """
    kernels = [prepare(change(kernel)) for kernel in plan.kernels]
    for _ in range(repeats):
        arena = np.full(plan.arena_bytes, 0xA5, np.uint8)
        memory: list[np.ndarray] = []
        for buffer in plan.buffers:
            if buffer.kind == "input":
                memory.append(encoded(values[leaves[buffer.index]], buffer.dtype).copy().reshape(-1))
            elif buffer.kind == "temporary":
                size = buffer.count * buffer.dtype.memory.itemsize
                memory.append(arena[buffer.index : buffer.index + size].view(buffer.dtype.memory))
            else:
                size = buffer.count * buffer.dtype.memory.itemsize
                memory.append(np.full(size, 0xA5, np.uint8).view(buffer.dtype.memory))
        for taken, owner in plan.in_place.items():
            memory[taken] = memory[owner]
        with np.errstate(all="ignore"):
            for kernel, execute in zip(plan.kernels, kernels, strict=True):
                execute([memory[slot] for slot in kernel.slots])
    return [None if number is None else memory[number] for number in plan.outputs]


def planned(
    outputs: Sequence[Node],
    values: Mapping[Node, np.ndarray],
    *,
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
    **options: Any,
) -> list[np.ndarray]:
    """The values of `outputs`, as `reference.evaluate` gives them, but through a plan."""
    plan, leaves = plan_of(outputs, **options)
    flat = run(plan, leaves, values, change)
    shaped = []
    for node, value in zip(outputs, flat, strict=True):
        empty = np.empty(node.shape, node.dtype.numpy)
        shaped.append(empty if value is None else handed_out(value.reshape(node.shape), node.dtype))
    return shaped
