"""A plan in words: kernels in order with what they compute, their sizes and buffers, and what each flush costs.

Pure text and data, for people and for golden tests; nothing here changes a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vkgrad.schedule.kernel import Compute, Dispatch, Group, Kernel, Reduce, parts
from vkgrad.schedule.plan import Plan


@dataclass(frozen=True)
class KernelReport:
    """One dispatch: its level, what it computes, extents of its parallel and reduced axes, bytes moved and FLOPs.

    `row` is the template row a device would choose, where one was asked.
    """

    level: int
    kind: str
    ops: tuple[str, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    flops: int
    row: str | None = None


def flops(kernel: Kernel) -> int:
    """Floating-point operations: one per element-wise op and per joined term."""
    full = kernel.is_full()
    total = 0
    for index, instruction in enumerate(kernel.code):
        if isinstance(instruction, (Compute, Reduce)):
            along = kernel.terms if full[index] or isinstance(instruction, Reduce) else 1
            total += kernel.places * along
    return total


def _kind(dispatch: Dispatch) -> str:
    if isinstance(dispatch, Group):
        return "stack" if dispatch.rows else "group"
    if dispatch.routine is not None:
        return "routine"
    return "contraction" if dispatch.product else "reduction" if len(dispatch.extents) > dispatch.parallel else "map"


def report(plan: Plan, row: Any = None) -> list[KernelReport]:
    """The kernels of a plan as data. `row(kernel)` names the template row."""
    out = []
    for dispatch, level in zip(plan.kernels, plan.levels, strict=True):
        written = {dispatch.slots[slot] for slot in dispatch.written}
        read = {dispatch.slots[slot] for slot, _ in dispatch.reads()}
        moved = written | read
        if isinstance(dispatch, Group):  # what members hand on inside does not count
            inside = written if not dispatch.rows else {buffer for buffer, _ in dispatch.staged}
            read, moved = read - inside, moved - dispatch.hidden
        out.append(
            KernelReport(
                level=level,
                kind=_kind(dispatch),
                ops=dispatch.labels,
                parallel=dispatch.extents[: dispatch.parallel],
                reduced=dispatch.extents[dispatch.parallel :],
                reads=tuple(sorted(read)),
                writes=tuple(sorted(written & moved)),
                bytes_read=sum(plan.buffers[number].size_bytes for number in read),
                bytes_written=sum(plan.buffers[number].size_bytes for number in written & moved),
                flops=sum(map(flops, parts(dispatch))),
                row=row(dispatch) if row else None,
            )
        )
    return out


def explain(plan: Plan, row: Any = None) -> str:
    """A plan as text, one line per dispatch."""
    kernels = report(plan, row)
    barriers = max(plan.depth - 1, 0)
    lines = [
        f"{plan.nodes} nodes -> {len(kernels)} dispatches in {plan.depth} levels, {barriers} barriers, "
        f"{plan.arena_bytes} bytes of temporaries"
    ]
    for number, kernel in enumerate(kernels):
        space = "x".join(map(str, kernel.parallel)) or "1"
        if kernel.reduced:
            joined = "sum over" if kernel.kind == "contraction" else "over"
            space += f" {joined} {'x'.join(map(str, kernel.reduced))}"
        where = f" [{kernel.row}]" if kernel.row else ""
        lines.append(
            f"  level {kernel.level}  #{number} {kernel.kind} {space}{where}: {' '.join(kernel.ops)}"
            f"  reads {_named(plan, kernel.reads)} writes {_named(plan, kernel.writes)}"
        )
        dispatch = plan.kernels[number]
        if isinstance(dispatch, Group):
            lines += [f"           {_kind(part)} {_space(part)}: {' '.join(part.labels)}" for part in dispatch.kernels]
    return "\n".join(lines)


def _space(kernel: Kernel) -> str:
    sides = (kernel.extents[: kernel.parallel], kernel.extents[kernel.parallel :])
    return " over ".join("x".join(map(str, side)) or "1" for side in sides if side or side is sides[0])


def _named(plan: Plan, numbers: tuple[int, ...]) -> str:
    names = []
    for number in numbers:
        buffer = plan.buffers[number]
        letter = {"input": "in", "output": "out", "temporary": "tmp"}[buffer.kind]
        names.append(f"{letter}{number}:{buffer.dtype.name}{list(buffer.shape)}")
    return " ".join(names) or "nothing"
