"""What `benchmarks.fashion` recorded: a picture of the curves, and the tables of README.md and docs/benchmarks.md.

    python -m benchmarks.curves                   # print the table
    python -m benchmarks.curves --draw            # docs/fashion.png, with matplotlib (extra `plot`)
    python -m benchmarks.curves --check           # exit status 1 where the picture is not of today's lines

The newest run of each network, device and framework counts, whether it reached its goal or not. This must not train.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from vkgrad.bench.results import digits

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "fashion.png"
OFFICIAL = (60_000, 10_000)  # images to train on and to measure on; other lines are of some trial
NAMES = {"mlp": "MLP 784-128-10", "lenet": "LeNet-5", "resnet18": "ResNet-18"}
FRAMEWORKS = {"vkgrad_jit": "vkgrad", "torch_eager": "PyTorch, eager"}

Line = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training, by its lines: one an epoch, in their order."""

    lines: list[Line]

    @property
    def last(self) -> Line:
        return self.lines[-1]

    @property
    def goal(self) -> float:
        return float(self.last["recipe"]["goal"])

    @property
    def is_whole(self) -> bool:
        return bool(self.last["epoch"] == self.last["epochs"])

    @property
    def is_met(self) -> bool:
        return self.is_whole and bool(self.last["accuracy"] >= self.goal) and not self.last.get("host_nodes")

    @property
    def epoch_s(self) -> float:
        """Seconds that an epoch takes, without the one in which everything is compiled if there are others."""
        return median(line["epoch_s"] for line in self.lines[1:] or self.lines)

    @property
    def name(self) -> str:
        width = self.last["recipe"]["width"]
        return NAMES[self.last["model"]] + (f", width {width}" if width else "")

    @property
    def framework(self) -> str:
        return FRAMEWORKS.get(self.last["contender"], self.last["contender"])

    @property
    def is_ours(self) -> bool:
        return bool(self.last["contender"] == "vkgrad_jit")


def newest(lines: Iterable[Line]) -> list[Run]:
    """The newest run of each network, device and framework, in this order."""
    found: dict[tuple[int, str, int], list[Line]] = {}
    for line in lines:
        if line.get("benchmark") != "fashion" or (line["train"], line["test"]) != OFFICIAL:
            continue
        key = (list(NAMES).index(line["model"]), line["device"], list(FRAMEWORKS).index(line["contender"]))
        own = found.setdefault(key, [])
        if own and own[-1]["run"] != line["run"]:
            own.clear()
        own.append(line)
    return [Run(found[key]) for key in sorted(found)]


def table(lines: Iterable[Line]) -> str:
    """A row a run."""
    header = ["network", "device", "framework", "epochs", "batch", "test accuracy", "goal", "s an epoch", "vkgrad at"]
    rows = []
    for run in newest(lines):
        last = run.last
        accuracy = f"{last['accuracy']:.4f}"
        rows.append([
            run.name, last["device"], f"**{run.framework}**" if run.is_ours else run.framework,
            str(last["epoch"]) if run.is_whole else f"{last['epoch']} of {last['epochs']}", str(last["shape"][0]),
            accuracy if run.is_met or not run.is_whole else f"**{accuracy}**",
            f"{run.goal:g} {'met' if run.is_met else 'missed'}" if run.is_ours else "",
            digits(run.epoch_s), last["commit"],
        ])  # fmt: skip
    if not rows:
        return "No training has been recorded yet."
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * 3 + ["--:"] * 6, *rows])


def sentence(lines: Iterable[Line]) -> str:
    """For the README: what vkgrad reached."""
    found: dict[str, list[str]] = {}
    for run in newest(lines):
        if run.is_ours:
            missed = "" if run.is_met else f" (the goal of {run.goal:g} is missed)"
            found.setdefault(run.name, []).append(f"{run.last['accuracy']:.3f} on {run.last['device']}{missed}")
    if not found:
        return "No training has been recorded yet."
    parts = "; ".join(f"{name} {', '.join(reached)}" for name, reached in found.items())
    return f"Accuracy on Fashion-MNIST's official test images, after at most ten epochs: {parts}."


def digest(runs: Iterable[Run]) -> str:
    """What tells whether a picture is of these lines."""
    return hashlib.sha256(json.dumps([run.lines for run in runs], sort_keys=True).encode()).hexdigest()


def draw(runs: Sequence[Run], path: Path) -> None:
    """Accuracy over the epochs, a panel for each network; its goal is the dotted line."""
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(run.last["model"] for run in runs))
    devices = list(dict.fromkeys(run.last["device"] for run in runs))
    figure = Figure(figsize=(4 * len(models), 3.6), layout="constrained")
    for axes, model in zip(figure.subplots(1, len(models), squeeze=False)[0], models, strict=True):
        own = [run for run in runs if run.last["model"] == model]
        for run in own:
            axes.plot(
                [line["epoch"] for line in run.lines], [line["accuracy"] for line in run.lines],
                color=f"C{devices.index(run.last['device'])}", linestyle="-" if run.is_ours else "--", marker=".",
                label=f"{run.framework}, {run.last['device'].split(' (')[0]}: {digits(run.epoch_s)} s an epoch",
            )  # fmt: skip
        axes.axhline(own[0].goal, color="0.4", linestyle=":")
        axes.set(title=own[0].name, xlabel="epoch", ylabel="accuracy on the test images")
        axes.legend(fontsize="x-small", loc="lower right")
    figure.savefig(path, dpi=90, metadata={"Description": digest(runs)})


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, default=ROOT / "bench_results")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(given)
    from benchmarks.tables import read

    runs = newest(read(chosen.folder))
    if chosen.check:
        if digest(runs).encode() in chosen.picture.read_bytes():
            return 0
        print(f"{chosen.picture} is stale: python -m benchmarks.curves --draw", file=sys.stderr)
        return 1
    print(table(line for run in runs for line in run.lines))
    if chosen.draw:
        draw(runs, chosen.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
