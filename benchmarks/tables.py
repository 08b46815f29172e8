"""The tables of races, goals, routines and trainings in README.md and docs/benchmarks.md, made from `bench_results/`.

    python -m benchmarks.tables                                        # print them
    python -m benchmarks.tables --write README.md docs/benchmarks.md   # between the pages' marks
    python -m benchmarks.tables --check README.md docs/benchmarks.md   # exit status 1 where a page is stale

The newest race of each device, model, batch size and arm counts, won or lost. This must not measure, and it leaves no
contender out: who has no time is shown with the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import curves, fusion, goals, hmc_table, routine_table
from vkgrad.bench.contender import ARMS
from vkgrad.bench.results import digits

ROOT = Path(__file__).resolve().parents[1]
OURS = "vkgrad_jit"
AGAIN = " (again)"
BASELINES = ("torch_cuda_graph", "torch_eager", "jax_jit")  # the first that has a time is what ratios are to
NAMES = {
    "vkgrad_jit": "**vkgrad**, `vg.jit`",
    "vkgrad_eager": "vkgrad, un-jitted",
    "torch_cuda_graph": "PyTorch, CUDA graph",
    "torch_compile": "PyTorch, `torch.compile`",
    "torch_eager": "PyTorch, eager",
    "jax_jit": "JAX, `jax.jit`",
}
MODELS = {"mlp": "MLP", "lenet": "LeNet-5"}
MEANINGS = {
    "pipelined": "steps back to back, the batch on the device",
    "waiting": "waiting for each step",
    "fed": "a batch from the host each step, the loss read every few",
    "host": "what handing over a step costs the host",
}
MARK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end measured -->)", re.DOTALL)

Line = dict[str, Any]
Case = tuple[str, int]  # model, batch


@dataclass(frozen=True)
class Race:
    """One race in one arm: who took how many µs a step, and why the others have no time."""

    line: Line
    times_us: dict[str, float]
    none_because: dict[str, str]

    @classmethod
    def of(cls, line: Line) -> Race:
        everybody = {line["contender"]: line, **line["peers"]}
        return cls(
            line,
            {label: found["median_us"] for label, found in everybody.items() if "median_us" in found},
            {label: found["none_because"] for label, found in everybody.items() if "none_because" in found},
        )

    def best_peer(self) -> str | None:
        """The fastest that is not vkgrad."""
        peers = [label for label in self.times_us if not label.startswith("vkgrad")]
        return min(peers, key=self.times_us.__getitem__, default=None)


Races = dict[str, dict[str, dict[Case, Race]]]  # device -> arm -> case


def read(folder: Path) -> list[Line]:
    """Every line that was ever measured, the oldest first: files are named by date."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def newest(lines: Iterable[Line]) -> Races:
    races: Races = {}
    for line in lines:
        if line.get("contender") == OURS and line.get("peers"):
            case = (line["model"], line["shape"][0])
            races.setdefault(line["device"], {}).setdefault(line["arm"], {})[case] = Race.of(line)
    return races


def table(cases: dict[Case, Race]) -> str:
    """Contenders against models and batch sizes: µs, the ratio to the baseline, the fastest in bold."""
    columns = sorted(cases, key=lambda case: (list(MODELS).index(case[0]), case[1]))
    met = {label for race in cases.values() for label in (*race.times_us, *race.none_because)}
    labels = [*(label for label in NAMES if label in met), *sorted(met - set(NAMES))]
    labels = [label for label in labels if not label.endswith(AGAIN)]
    baseline = next((b for b in BASELINES if any(b in race.times_us for race in cases.values())), None)

    def cell(label: str, race: Race) -> str:
        if label not in race.times_us:
            return "no time" if label in race.none_because else ""
        time = race.times_us[label]
        rivals = [other for name, other in race.times_us.items() if not name.endswith(AGAIN)]
        shown = f"**{digits(time)}**" if time == min(rivals) else digits(time)
        return f"{shown} ({time / race.times_us[baseline]:.2f})" if baseline in race.times_us else shown

    def again(race: Race) -> str:
        twice = race.times_us.get(OURS + AGAIN)
        return f"{twice / race.times_us[OURS]:.2f}" if twice else ""

    rows = [[NAMES.get(label, label), *(cell(label, cases[case]) for case in columns)] for label in labels]
    rows.append(["the same twice", *(again(cases[case]) for case in columns)])
    ratio = f"µs (ratio to {NAMES[baseline]})" if baseline else "µs"
    header = [ratio, *(f"{MODELS[model]} {batch}" for model, batch in columns)]
    lines = [header, ["---", *("--:" for _ in columns)], *rows]
    reasons = {(label, why) for race in cases.values() for label, why in race.none_because.items()}
    notes = [f"No time: {NAMES.get(label, label)}, {why}." for label, why in sorted(reasons)]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + [""] + [*notes, lost(cases)])


def lost(cases: dict[Case, Race]) -> str:
    """The races that vkgrad did not win, with who did."""
    found = []
    for (model, batch), race in cases.items():
        best = race.best_peer()
        if best is not None and race.times_us[best] < race.times_us[OURS]:
            found.append(
                f"{MODELS[model]} {batch}: {digits(race.times_us[OURS])} µs against {digits(race.times_us[best])} of "
                f"{NAMES.get(best, best)}"
            )
    return f"Lost {len(found)} of {len(cases)}{': ' + '; '.join(found) if found else ''}."


def conditions(device: str, arms: dict[str, dict[Case, Race]]) -> str:
    """Device, driver, versions and commits behind the tables of one device."""
    lines = [race.line for cases in arms.values() for race in cases.values()]
    versions = {
        f"{name} {version}"
        for line in lines
        for peer in line["peers"].values()
        for name, version in peer.items()
        if name in ("torch", "jax", "numpy")
    }
    drivers, commits = ({line[name] for line in lines} for name in ("driver", "commit"))
    parts = [device, *sorted(drivers), *sorted(versions), f"vkgrad at {', '.join(sorted(commits))}"]
    return "; ".join(parts) + "."


def short(races: Races) -> str:
    """For the README: steps back to back, and a pointer to the rest."""
    parts = []
    for device, arms in races.items():
        for arm in ("pipelined", "fed"):
            if arm in arms:
                parts += [f"**{device}**, {MEANINGS[arm]}:", table(arms[arm])]
        parts.append(conditions(device, arms))
    return "\n\n".join(parts) if parts else "No race has been recorded yet."


def full(races: Races) -> str:
    """For the page on benchmarks: every arm."""
    parts = []
    for device, arms in races.items():
        parts += [f"### {device}", conditions(device, arms)]
        for arm in ARMS:
            if arm in arms:
                parts += [f"`{arm}`: {MEANINGS[arm]}", table(arms[arm])]
    return "\n\n".join(parts) if parts else "No race has been recorded yet."


PARTS: dict[str, Callable[[list[Line]], str]] = {
    "races": lambda lines: short(newest(lines)),
    "arms": lambda lines: full(newest(lines)),
    "goals": goals.table,
    "trained": curves.sentence,
    "trainings": curves.table,
    "routines": routine_table.table,
    "draws": hmc_table.table,
    "fusion": fusion.table,
}


def filled(text: str, lines: list[Line]) -> str:
    """A page with its marked parts made anew."""
    return MARK.sub(lambda match: match[1] + PARTS[match[2]](lines) + "\n" + match[3], text)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, default=ROOT / "bench_results")
    parser.add_argument("--write", type=Path, nargs="+", default=[], metavar="PAGE")
    parser.add_argument("--check", type=Path, nargs="+", default=[], metavar="PAGE")
    chosen = parser.parse_args(given)
    lines = read(chosen.folder)
    if not chosen.write and not chosen.check:
        print(full(newest(lines)))
    for page in chosen.write:
        page.write_text(filled(page.read_text(), lines))
    stale = [page for page in chosen.check if filled(page.read_text(), lines) != page.read_text()]
    for page in stale:
        print(f"{page} is stale: python -m benchmarks.tables --write {page}", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
