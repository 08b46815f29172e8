"""What was aimed at on one device, what was measured, and what bounds the goals that were missed.

    python -m benchmarks.goals --from bench_results

A goal is met when every number of it is; numbers are the newest of `bench_results/`. Words about those that were missed
are in `goals.json`, by the goals' keys: what bounds it and what was tried. This must not measure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks import convolutions, products
from vkgrad.bench.results import digits

ROOT = Path(__file__).resolve().parents[1]
WORDS = Path(__file__).with_name("goals.json")
DEVICE = "NVIDIA H200"  # what the goals were set for
ELEMENTS = 1 << 26  # of arrays whose traffic is measured

Line = dict[str, Any]
Found = tuple[float, list[Line]]  # a number, and the lines that it was made of
MODELS = {"mlp": "MLP", "lenet": "LeNet-5"}


@dataclass(frozen=True)
class Part:
    """One number of a goal."""

    label: str
    limit: float
    value: Callable[[Sequence[Line]], Found | None]
    at_least: bool = False

    def holds(self, number: float) -> bool:
        return number >= self.limit if self.at_least else number <= self.limit


@dataclass(frozen=True)
class Goal:
    key: str
    work: str
    parts: tuple[Part, ...]
    unit: str = ""

    @property
    def aim(self) -> str:
        """The limits in words: one, if all parts have the same."""
        limits = [f"{'≥' if part.at_least else '≤'} {part.limit:g}" for part in self.parts]
        unit = f" {self.unit}" if self.unit else ""
        return (limits[0] if len(set(limits)) == 1 else " / ".join(limits)) + unit


# ---- numbers, from lines
def last(lines: Iterable[Line], **wanted: Any) -> Line | None:
    """The newest line with these fields."""
    found = None
    for line in lines:
        if all(line.get(name) == value for name, value in wanted.items()):
            found = line
    return found


def of_batch(lines: Iterable[Line], batch: int) -> Iterator[Line]:
    """Those of training steps of this batch size."""
    return (line for line in lines if "contender" in line and line["shape"][0] == batch)


def raced(model: str, batch: int, arm: str, field: str = "median_us") -> Callable[[Sequence[Line]], Found | None]:
    """A recorded step in a race: its time, or another field."""

    def value(lines: Sequence[Line]) -> Found | None:
        line = last(of_batch(lines, batch), model=model, arm=arm, contender="vkgrad_jit")
        return (line[field], [line]) if line else None

    return value


def unjitted(lines: Sequence[Line]) -> Found | None:
    """A step without `vg.jit`, as a part of the time of PyTorch's."""
    beside = (line for line in of_batch(lines, 32) if "peers" in line)
    line = last(beside, model="mlp", arm="pipelined", contender="vkgrad_eager")
    peer = line["peers"].get("torch_eager", {}).get("median_us") if line else None
    return (line["median_us"] / peer, [line]) if line and peer else None


def against_torch(benchmark: str, names: Iterable[str]) -> Callable[[Sequence[Line]], Found | None]:
    """PyTorch's time over ours, the geometric mean over some shapes. Nothing unless all of them have been measured."""
    wanted = list(names)

    def value(lines: Sequence[Line]) -> Found | None:
        found = {line["shape"]: line for line in lines if line.get("benchmark") == benchmark and line.get("torch_us")}
        own = [found[name] for name in wanted if name in found]
        if not wanted or len(own) < len(wanted):
            return None
        return geometric_mean([line["torch_us"] / line["plan_us"] for line in own]), own

    return value


def of_copy(start: str) -> Callable[[Sequence[Line]], Found | None]:
    """The least share of a copy's bandwidth among cases whose names begin so."""

    def value(lines: Sequence[Line]) -> Found | None:
        found = {
            line["case"]: line
            for line in lines
            if line.get("benchmark") == "bandwidth"
            and line["case"].startswith(start)
            and prod(line["shape"]) == ELEMENTS
            and "float16" not in line["case"]
        }
        if not found:
            return None
        least = min(found.values(), key=lambda line: line["gb_s"] / line["roof_gb_s"])
        return least["gb_s"] / least["roof_gb_s"], [least]

    return value


def first_step(lines: Sequence[Line]) -> Found | None:
    """Seconds from import to the first loss."""
    line = last(lines, model="mlp", arm="first step, warm")
    return (line["total_us"] / 1e6, [line]) if line else None


# ---- the goals
def _products(shapes: Iterable[products.Shape], limit: float) -> tuple[Part, ...]:
    return tuple(
        Part(s.name.removeprefix("gemm "), limit, against_torch("products", [s.name]), at_least=True) for s in shapes
    )


def _convolutions(layers: str, limit: float, label: str) -> Part:
    names = [shape.name for shape in convolutions.LAYERS[layers]]
    return Part(label, limit, against_torch("convolutions", names), at_least=True)


def _both(batch: int, mlp: float, lenet: float) -> Goal:
    parts = (("mlp", mlp), ("lenet", lenet))
    own = tuple(Part(MODELS[model], limit, raced(model, batch, "pipelined")) for model, limit in parts)
    return Goal(f"step {batch}", f"MLP / LeNet-5, batch {batch}, recorded step, pipelined", own, "µs")


GOALS = (
    Goal(
        "mlp pipelined", "MLP 784-128-10, batch 32, recorded step, pipelined",
        (Part("", 30, raced("mlp", 32, "pipelined")),), "µs",
    ),
    Goal(
        "mlp waiting", "the same, waiting for each step / with a batch and the loss moved, pipelined",
        (Part("waiting", 38, raced("mlp", 32, "waiting")), Part("fed", 46, raced("mlp", 32, "fed"))), "µs",
    ),
    Goal(
        "lenet pipelined", "LeNet-5, batch 32, recorded step, pipelined",
        (Part("", 110, raced("lenet", 32, "pipelined")),), "µs",
    ),
    _both(256, 70, 180),
    _both(2048, 90, 700),
    Goal("un-jitted", "MLP step without `vg.jit`, batch 32: time over PyTorch's, eager", (Part("", 1, unjitted),)),
    Goal("gemm", "products in float32, cuBLAS's time over ours", _products(products.SHAPES["gemm"], 0.95)),
    Goal(
        "odd", "20 products of odd shapes in float32, the same, geometric mean",
        (Part("", 1, against_torch("products", [s.name for s in products.SHAPES["odd"]]), at_least=True),),
    ),
    Goal(
        "half", "products in half precision, cuBLAS's time over ours",
        _products([s for s in products.SHAPES["half"] if s.name.endswith("nn") and s.flops > 1e11], 0.6),
    ),
    Goal(
        "convolutions", "convolutions with both gradients, cuDNN's time over ours, geometric mean",
        (_convolutions("resnet", 0.8, "ResNet-18's layers"), _convolutions("small", 1.0, "small channels")),
    ),
    Goal(
        "bandwidth", "2^26 elements: share of a copy's bandwidth, the least of each kind",
        tuple(
            Part(label, 0.9, of_copy(start), at_least=True)
            for label, start in (
                ("element-wise", "a * b + a"), ("softmax", "softmax of"), ("layer norm", "layer norm of"),
                ("sum over axis 0", "sum over axis 0"), ("over axis 1", "sum over axis 1"), ("transpose", "transpose"),
            )
        ),
    ),
    Goal(
        "levels", "dispatches / levels of a step",
        tuple(
            Part(f"{MODELS[model]} {field}", limit, raced(model, 32, "pipelined", field))
            for model, field, limit in (
                ("mlp", "dispatches", 7), ("mlp", "levels", 5), ("lenet", "dispatches", 20), ("lenet", "levels", 13),
            )
        ),
    ),
    Goal("first step", "first step of a second process, from import to the loss", (Part("", 0.5, first_step),), "s"),
    Goal("host", "the host's time of a recorded step, MLP, batch 32", (Part("", 10, raced("mlp", 32, "host")),), "µs"),
)  # fmt: skip


# ---- the table
@dataclass(frozen=True)
class Result:
    goal: Goal
    found: tuple[Found | None, ...]

    @property
    def is_measured(self) -> bool:
        return any(one is not None for one in self.found)

    @property
    def is_met(self) -> bool:
        pairs = zip(self.goal.parts, self.found, strict=True)
        return all(one is not None and part.holds(one[0]) for part, one in pairs)

    @property
    def measured(self) -> str:
        cells = []
        for part, one in zip(self.goal.parts, self.found, strict=True):
            if one is None:
                shown = "not measured"
            else:
                number = str(one[0]) if isinstance(one[0], int) else digits(one[0])
                shown = number if part.holds(one[0]) else f"**{number}**"
            cells.append(f"{part.label} {shown}".strip())
        return ", ".join(cells) if self.is_measured else "not measured"

    @property
    def commits(self) -> str:
        return ", ".join(sorted({line["commit"] for one in self.found if one for line in one[1]}))


def judged(lines: Iterable[Line], device: str = DEVICE) -> list[Result]:
    own = [line for line in lines if line.get("device") == device]
    return [Result(goal, tuple(part.value(own) for part in goal.parts)) for goal in GOALS]


def table(lines: Iterable[Line]) -> str:
    """Every goal, then words about those that were missed."""
    results = judged(lines)
    words: dict[str, str] = json.loads(WORDS.read_text())
    rows = [
        [one.goal.work, one.goal.aim, one.measured, "met" if one.is_met else "missed" if one.is_measured else "",
         one.commits]
        for one in results
    ]  # fmt: skip
    header = ["work", "goal", "measured", "", "vkgrad at"]
    drawn = "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])
    met = sum(one.is_met for one in results)
    missed = [one for one in results if one.is_measured and not one.is_met]
    notes = [f"* *{one.goal.work}*: {words.get(one.goal.key, 'nothing is known yet.')}" for one in missed]
    parts = [f"{DEVICE}: {met} of {len(results)} met; numbers that miss are bold.", drawn]
    return "\n\n".join(
        [*parts, *(["What bounds those that were missed, and what was tried:", "\n".join(notes)] * bool(notes))]
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.goals", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, default=ROOT / "bench_results")
    chosen = parser.parse_args(given)
    from benchmarks.tables import read

    print(table(read(chosen.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
