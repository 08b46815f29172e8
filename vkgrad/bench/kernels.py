"""A training step kernel by kernel, by the device's own clock: which row, how long, how near to which of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from vkgrad.bench import cases, guards, models, results, step
from vkgrad.bench.cases import Case
from vkgrad.bench.contender import no_garbage_collection, pipelined
from vkgrad.bench.peaks import Peaks
from vkgrad.bench.results import Spread, digits
from vkgrad.bench.step import Parts
from vkgrad.bench.training import VkgradJit
from vkgrad.profile import StepTimes, time_kernels

PIPELINED_RUNS = 5
WIDEST_OPS = 36


@dataclass(frozen=True)
class Kernels:
    """A step of one case taken apart: into kernels, and into who was at work.

    fed      a new batch from the host and the loss read, at each step
    eager    the same without `vg.jit`
    """

    case: Case
    times: StepTimes
    pipelined: Spread
    resident: Parts
    fed: Parts
    eager: Parts


def measured(case: Case, runs: int = 50) -> Kernels:
    """The kernels of a proven step, each the median of `runs`, and its parts over `runs` steps.

    Raises:
        Refused: a guard tripped, before or after.
    """
    jitted = models.proven(case).contender
    assert isinstance(jitted, VkgradJit)
    with no_garbage_collection():
        back_to_back = [sample for _ in range(PIPELINED_RUNS) for sample in pipelined(jitted, runs, 1)]
    times = time_kernels(jitted.resident_step, runs=runs)
    eager = models.proven(case, eager=True).contender
    eager_us = time_kernels(eager.step, runs=runs).whole_us
    steps = max(runs, 8)
    parts = {
        "resident": step.decompose(jitted.step, jitted.loss, times.whole_us, steps),
        "fed": step.decompose(_feeding(jitted), jitted.loss, times.whole_us, steps),
        "eager": step.decompose(_feeding(eager), eager.loss, eager_us, steps),
    }
    for contender in (jitted, eager):
        guards.finite_loss(contender.loss())
    return Kernels(case, times, Spread.of(back_to_back), **parts)


def _feeding(contender: Any) -> Any:
    number = 0

    def feed() -> None:
        nonlocal number
        number = (number + 1) % cases.BATCH_COUNT
        contender.feed(number)

    return feed


def tables(found: Kernels, peaks: Peaks) -> str:
    rows = []
    for number, one in enumerate(found.times.kernels):
        share, roof = peaks.share(one)
        ops = " ".join(one.kernel.ops)
        rows.append(
            [
                f"{found.case} #{number}", str(one.kernel.level), one.name, one.space, digits(one.time_us),
                digits(one.gb_s), digits(one.gflop_s), f"{share:.1%}", roof, ops[:WIDEST_OPS],
            ]
        )  # fmt: skip
    header = ["kernel", "level", "row", "parallel | reduced", "µs", "GB/s", "GFLOP/s", "of roof", "roof", "what"]
    levels = " + ".join(digits(time) for time in found.times.levels_us)
    parts = [("jit, resident batch", found.resident), ("jit, fed", found.fed), ("no jit, fed", found.eager)]
    return "\n".join(
        [
            results.table(header, rows),
            f"each alone {digits(found.times.alone_us)} µs; "
            f"by level {levels} = {digits(sum(found.times.levels_us))} µs; "
            f"whole on the device {digits(found.times.whole_us)} µs; a step pipelined {found.pipelined} µs",
            "",
            step.table(parts),
        ]
    )


def as_lines(found: Kernels, peaks: Peaks, runs: int) -> Iterator[dict[str, Any]]:
    for one in found.times.kernels:
        share, roof = peaks.share(one)
        yield {
            "model": found.case.model,
            "op": " ".join(one.kernel.ops),
            "shape": [list(one.kernel.parallel), list(one.kernel.reduced)],
            "dtype": "float32",
            "batch": found.case.batch,
            "row": one.name,
            "level": one.kernel.level,
            "median_us": round(one.time_us, 3),
            "gb_s": round(one.gb_s, 2),
            "gflop_s": round(one.gflop_s, 2),
            "of_roof": round(share, 4),
            "roof": roof,
            "runs": runs,
        }
    for arm, parts in (("resident", found.resident), ("fed", found.fed), ("eager, fed", found.eager)):
        yield {
            "model": found.case.model,
            "op": "step, taken apart",
            "shape": [found.case.batch, *cases.INPUT_SHAPES[found.case.model]],
            "dtype": "float32",
            "arm": arm,
            "runs": max(runs, 8),
            "mean_us": round(parts.step, 3),
            **{f"{part.name}_us": round(getattr(parts, part.name), 3) for part in fields(Parts)},
        }
