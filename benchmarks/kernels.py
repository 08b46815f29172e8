"""A training step kernel by kernel, by the device's own clock: which row, how long, how near to the machine's limits.

python -m benchmarks.kernels --models mlp,lenet --batches 32
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cases, guards, reference, results
from benchmarks.cases import Case
from benchmarks.contenders.contender import PROVEN_BATCHES, Process, pipelined, waiting
from benchmarks.guards import Refused
from benchmarks.results import Spread, digits


def measure(case: Case, device: str, runs: int) -> tuple[Any, dict[str, Spread], dict[str, Any]]:
    """The profile of a jitted step, times of the same step untouched, and the device's names; values proven first."""
    import vkgrad as vg
    from benchmarks.contenders.vkgrad_jit import VkgradJit
    from benchmarks.contenders.vkgrad_models import driver
    from vkgrad.profile import profile

    data = cases.make(case)
    contender = VkgradJit(case, data)
    process = Process(lambda case, data: contender)
    process.contender = contender
    guards.right_device(contender.device, device)
    guards.right_losses(process.prove({})["losses"], reference.losses(case.model, data, PROVEN_BATCHES))
    placement = process.guard({"steps": 8})
    guards.no_layers_loaded(placement["layers"])
    guards.resident(placement["resident"])
    guards.right_counts(placement["counts"], 8, recorded=True)
    steps = {
        "pipelined": Spread.of([sample for _ in range(5) for sample in pipelined(contender, runs, 1)]),
        "waiting": Spread.of(waiting(contender, runs, 1)),
    }
    found = profile(contender.resident_step, runs=runs)
    guards.finite_loss(contender.loss())
    return found, steps, {"device": vg.default_device().name, "driver": driver()}


def space(kernel: Any) -> str:
    """The iteration space: parallel extents, then the reduced ones behind a bar."""
    parallel = "x".join(map(str, kernel.parallel)) or "1"
    return f"{parallel} | {'x'.join(map(str, kernel.reduced))}" if kernel.reduced else parallel


def tables(case: Case, found: Any, steps: dict[str, Spread]) -> str:
    rows = [
        [
            f"{case} #{number}", str(one.kernel.level), one.kernel.row or "", space(one.kernel),
            digits(one.time_us), digits(one.gb_s), digits(one.gflop_s), " ".join(one.kernel.ops)[:36],
        ]
        for number, one in enumerate(found.kernels)
    ]  # fmt: skip
    levels = " + ".join(digits(time) for time in found.levels_us)
    return "\n".join(
        [
            results.table(["kernel", "level", "row", "parallel | reduced", "µs", "GB/s", "GFLOP/s", "what"], rows),
            f"each alone {digits(found.alone_us)} µs; by level {levels} = {digits(sum(found.levels_us))} µs; "
            f"whole on the device {digits(found.whole_us)} µs; "
            f"a step pipelined {steps['pipelined']} µs, waiting {steps['waiting']} µs",
        ]
    )


def as_lines(case: Case, found: Any, names: dict[str, Any], runs: int, commit: str) -> Iterator[dict[str, Any]]:
    for one in found.kernels:
        yield {
            "commit": commit,
            **names,
            "model": case.model,
            "op": " ".join(one.kernel.ops),
            "shape": [list(one.kernel.parallel), list(one.kernel.reduced)],
            "dtype": "float32",
            "batch": case.batch,
            "row": one.kernel.row,
            "level": one.kernel.level,
            "median_us": round(one.time_us, 3),
            "gb_s": round(one.gb_s, 2),
            "gflop_s": round(one.gflop_s, 2),
            "runs": runs,
        }


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default="mlp,lenet")
    parser.add_argument("--batches", default="32")
    parser.add_argument("--device", default="", help="what the name of vkgrad's device must contain")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--out", type=Path, default=results.ROOT / "bench_results")
    chosen = parser.parse_args(given)
    commit = results.commit()
    parts = []
    try:
        guards.no_layers_asked()
        for batch in map(int, chosen.batches.split(",")):
            for model in chosen.models.split(","):
                case = Case(model, batch)
                found, steps, names = measure(case, chosen.device, chosen.runs)
                results.append(chosen.out, names["device"], as_lines(case, found, names, chosen.runs, commit))
                parts.append(tables(case, found, steps))
    except Refused as refusal:
        print(f"kernels: refused: {refusal}", file=sys.stderr)
        return 1
    finally:
        print("\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
