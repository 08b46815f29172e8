"""What a program submits, each plan once: its graph, its kernels with their times and shaders, and how often it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vkgrad import autodiff, engine
from vkgrad.codegen.render import Shader
from vkgrad.errors import ConfigError
from vkgrad.ir.node import Node, walk
from vkgrad.profile.clock import StepTimes, take_apart
from vkgrad.schedule.explain import explain, report
from vkgrad.schedule.plan import Plan
from vkgrad.viz.drawing import Drawing
from vkgrad.viz.graphs import drawn
from vkgrad.viz.memory import MemoryMap
from vkgrad.viz.plans import drawn_plan
from vkgrad.viz.timeline import Timeline

RUNS = 5  # over which a time is the median
MOST_PLANS = 64  # taken apart; a program without recorded steps may make any number of them


@dataclass
class Seen:
    """One plan that ran.

    times       its kernels, taken apart at its first run; None beyond `MOST_PLANS`
    shaders     what the device made of each kernel; empty on the `cpu` device, which runs NumPy
    count       how often it was submitted
    graphs      by their names; with differentiation there is one of what was there before
    excuse      why there is no graph
    uploaded, downloaded    bytes, at the first run
    """

    plan: Plan
    device: str
    times: StepTimes | None
    shaders: tuple[Shader, ...]
    uploaded: int
    downloaded: int
    graphs: dict[str, Drawing]
    excuse: str
    count: int = 1

    @property
    def total_us(self) -> float:
        """Time of all its runs."""
        return self.count * self.times.whole_us if self.times else 0.0

    def _row(self) -> Callable[[Any], str] | None:
        """The template row of a kernel, where the device has rows."""
        rows = {id(kernel): shader.row for kernel, shader in zip(self.plan.kernels, self.shaders, strict=False)}
        return (lambda kernel: rows[id(kernel)]) if rows else None

    @property
    def text(self) -> str:
        """The plan in words."""
        return explain(self.plan, self._row())

    def drawings(self) -> dict[str, Drawing]:
        """The plan, its memory map, and if it was timed its timeline."""
        timeline: dict[str, Drawing] = {"timeline": Timeline(self.times)} if self.times else {}
        plan = drawn_plan(self.plan, report(self.plan, self._row()), self.text)
        return {"plan": plan, **timeline, "memory": MemoryMap(self.plan)}


@contextmanager
def watching(timed: bool = True, graphs: bool = True) -> Iterator[list[Seen]]:
    """Collect what the block submits. `timed`: take each plan apart; `graphs`: draw what it computes.

    Raises:
        UnsupportedError: with `timed`, the device has no timestamps.
    """
    seen: dict[int, Seen] = {}
    asked: dict[int, tuple[Plan, dict[str, Drawing], str]] = {}
    differentiated: list[Node] = []

    def see_graph(targets: Sequence[Node], plan: Plan) -> None:
        if id(plan) in asked or len(asked) >= MOST_PLANS:
            return
        forward = set(walk(differentiated, stop=engine.has_value))
        differentiated.clear()
        forward &= set(walk(targets, stop=engine.has_value))
        pictures: dict[str, Drawing] = {}
        excuse = ""
        try:
            if forward:
                ends = forward - {source for node in forward for source in node.inputs}
                pictures["before differentiation"] = drawn(sorted(ends, key=lambda node: node.serial))
            pictures["everything that is computed"] = drawn(targets, forward)
        except ConfigError as error:  # too large to be looked at
            excuse = str(error)
        asked[id(plan)] = (plan, pictures, excuse)

    def see_run(plan: Plan | None, recording: Any) -> None:
        if plan is None or not plan.kernels:
            return
        if id(plan) in seen:
            seen[id(plan)].count += 1
            return
        recording.wait()
        times = take_apart(plan, recording, RUNS) if timed and len(seen) < MOST_PLANS else None
        job = recording.job
        uploaded, downloaded = (sum(size for _, size in pieces) for pieces in (job.uploads, job.downloads))
        _, pictures, excuse = asked.get(id(plan), (plan, {}, "it was recorded before anybody looked"))
        shaders = tuple(getattr(job.executable, "shaders", ()))
        seen[id(plan)] = Seen(
            plan, recording.device.name, times, shaders, uploaded, downloaded, pictures, "" if pictures else excuse
        )

    found: list[Seen] = []
    if graphs:
        engine.on_plan.append(see_graph)
        autodiff.on_vjp.append(differentiated.extend)
    engine.on_flush.append(see_run)
    try:
        yield found
    finally:
        engine.on_flush.remove(see_run)
        if graphs:
            engine.on_plan.remove(see_graph)
            autodiff.on_vjp.pop()
        found += seen.values()
