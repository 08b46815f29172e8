"""Fused against unfused: the same graph planned twice on one device, by the device's own clock.

    python -m benchmarks.fusion [--runs 12] [--seconds 40] [--groups steps,rows,shared] [--out build/fusion.jsonl]

Three groups. `steps` are training steps of the bench models. `rows` are reductions with element-wise work before and
after them, over slots x length; `shared` are losses of square softmaxes with their gradients, where the other way is to
compute shared subexpressions again (`VKGRAD_CSE=0`). Values agree before a time counts, and nothing ran on the host. A
case is lost where the fused plan takes more than 1/0.97 of the other's time, at the median of samples taken in turns;
on a GPU the exit status is 1 where one is. Kernels are timed one by one, each with the barrier before it, so what a
plan saves in dispatches and barriers is on top.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad import engine
from vkgrad.bench.results import Spread, digits
from vkgrad.config import config

LEAST = 0.97  # of the other's speed
MOST_ELEMENTS = 1 << 25
SLOTS, LENGTHS = (1, 8, 256, 2048, 100_000), (8, 64, 256, 4096)
TIMER_US = 2.0  # kernels this much apart are not told apart by the clock of every device

Graph = Callable[[], list[vg.Tensor]]


@dataclass(frozen=True)
class Case:
    """A graph that is built anew for each run, and the switch that makes the other plan."""

    name: str
    graph: Graph
    tolerance: float = 1e-5
    switch: str = "fuse"

    @property
    def other(self) -> AbstractContextManager[None]:
        return config.override(**{self.switch: False})


def drawn(*shape: int) -> vg.Tensor:
    x = vg.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    vg.eval(x)
    return x


# ---- what is run
def steps() -> Iterator[Case]:
    from tests.models import LeNet5, batches, mlp

    for (name, model, image), size in product((("MLP", mlp, False), ("LeNet-5", LeNet5, True)), (32, 256, 2048)):
        vg.manual_seed(0)
        network = model()
        vg.eval([parameter for _, parameter in network.named_parameters()])
        images, labels = (vg.tensor(array) for array in batches(1, size, image)[0])
        vg.eval(images, labels)

        def graph(network: Any = network, images: vg.Tensor = images, labels: vg.Tensor = labels) -> list[vg.Tensor]:
            loss, gradients = vg.value_and_grad(lambda m: vg.nn.cross_entropy(m(images), labels))(network)
            return [loss, *(p - 0.1 * gradients[name] for name, p in network.named_parameters())]

        yield Case(f"step {name} {size}", graph)


def rows() -> Iterator[Case]:
    for slots, length in product(SLOTS, LENGTHS):
        if slots * length <= MOST_ELEMENTS:
            x = drawn(slots, length)
            yield Case(f"softmax {slots}x{length}", lambda x=x: [vg.softmax(vg.tanh(x) * 2, axis=1)])
            yield Case(f"norm {slots}x{length}", lambda x=x: [normalised(x * x + x)])
            yield Case(f"sum {slots}x{length}", lambda x=x: [vg.sqrt(vg.sum(vg.exp(-x) * x * x, axis=1) + 1)])


def normalised(x: vg.Tensor) -> vg.Tensor:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * vg.rsqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


def shared() -> Iterator[Case]:
    for side in (64, 256, 1024):
        x, weight = drawn(side, side), drawn(side, side)

        def graph(x: vg.Tensor = x, weight: vg.Tensor = weight) -> list[vg.Tensor]:
            loss, gradient = vg.value_and_grad(lambda x: (vg.softmax(x, axis=1) * weight).sum())(x)
            return [loss, gradient]

        yield Case(f"shared softmax {side}x{side}", graph, 1e-4, switch="cse")


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {"steps": steps, "rows": rows, "shared": shared}


# ---- measuring
def once(case: Case) -> float:
    vg.synchronize()
    with vg.profile() as p:
        vg.eval(case.graph())
    return p.device_us


def agree(case: Case) -> tuple[int, int]:
    """The dispatches of both plans, whose values are the same to rounding and were computed on the device."""
    with vg.counting() as census:
        ours = [x.numpy() for x in case.graph()]
        with case.other:
            theirs = [x.numpy() for x in case.graph()]
    assert not census.host_nodes, f"{case.name}: {census.host_nodes} nodes ran on the host"
    for one, other in zip(ours, theirs, strict=True):
        scale = max(float(np.abs(other).max()), 1e-30)
        off = float(np.abs(one - other).max()) / scale
        assert off <= case.tolerance, f"{case.name}: the plans differ by {off}"
    counts = []
    for context in (config.override(), case.other):
        with context:
            counts.append(len(vg.plan(*case.graph()).kernels))
    return counts[0], counts[1]


def measure(case: Case, runs: int) -> dict[str, Any]:
    fused, unfused = agree(case)
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(runs + 2):
        for way in (0, 1) if number % 2 else (1, 0):
            with case.other if way else config.override():
                time_us = once(case)
            if number > 1:  # the first two are for clocks and caches
                samples[way].append(time_us)
    ours, theirs = map(Spread.of, samples)
    return {
        "case": case.name, "dispatches": fused, "dispatches_other": unfused, **ours.fields(),
        "other_us": round(theirs.median_us, 3), "ratio": round(theirs.median_us / ours.median_us, 3),
    }  # fmt: skip


def lost(line: dict[str, Any]) -> bool:
    return bool(line["ratio"] < LEAST and line["median_us"] - line["other_us"] > TIMER_US)


def table(lines: Iterable[dict[str, Any]]) -> str:
    """For the page on benchmarks, of the newest line of each case: what was won least, or lost, in each group."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in lines:
        if line.get("benchmark") == "fusion":
            found.setdefault((line["device"], line["case"].partition(" ")[0]), {})[line["case"]] = line
    rows = [["device", "graphs", "cases", "other / fused, median", "least", "in", "lost"], ["---", "---", *["--:"] * 5]]
    for (device, group), cases in found.items():
        ratios = sorted(line["ratio"] for line in cases.values())
        least = min(cases.values(), key=lambda line: line["ratio"])
        over = sum(map(lost, cases.values()))
        rows.append([device, group, str(len(cases)), f"{ratios[len(ratios) // 2]:.2f}", f"{least['ratio']:.2f}",
                     least["case"], str(over)])  # fmt: skip
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) if found else "No run has been recorded yet."


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60, help="no case is begun later than this")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--cases", default="", help="only those whose name has this in it")
    parser.add_argument("--out", type=Path, help="where the lines go")
    chosen = parser.parse_args(given)
    ends = time.monotonic() + chosen.seconds
    lines: list[dict[str, Any]] = []
    skipped = 0
    print(
        f"{vg.default_device()}: µs of the device\n{'':24}{'dispatches':>14}{'fused':>22}{'other':>10}  other / fused"
    )
    for group in chosen.groups.split(","):
        for case in GROUPS[group]():
            if chosen.cases not in case.name:
                continue
            if time.monotonic() > ends:
                skipped += 1
                continue
            lines.append(measure(case, chosen.runs))
            line = lines[-1]
            counts = f"{line['dispatches']} / {line['dispatches_other']}"
            spread = Spread(line["median_us"], line["p10_us"], line["p90_us"], line["runs"])
            print(
                f"{line['case']:24}{counts:>14}{spread!s:>22}{digits(line['other_us']):>10}  {line['ratio']:.2f}"
                + ("  LOST" if lost(line) else ""),
                flush=True,
            )
            engine.clear_caches()
    over = [line["case"] for line in lines if lost(line)]
    print(
        f"lost {len(over)} of {len(lines)}"
        + "".join(f"; {name}" for name in over)
        + (f"; {skipped} not reached" if skipped else "")
    )
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    software = getattr(engine.device(), "software", True)
    return int((bool(over) and not software) or not lines)


if __name__ == "__main__":
    sys.exit(main())
