"""Race training steps: every contender a process of its own, the same weights and batches, values proven first.

    python -m benchmarks.race                                    # everything; on a GPU this takes minutes
    python -m benchmarks.race --models mlp --batches 32 --budget 0.5 --contenders vkgrad_jit,torch_eager
    python -m benchmarks.race --check                            # values and guards only, no stopwatch

Arms: `pipelined` (steps back to back on a resident batch, one wait at the end), `waiting` (a wait after each step),
`fed` (a new batch from the host each step, the loss read every few), `host` (handing over one step, nothing under way).
Rounds are interleaved and their order rotates; the first contender runs a second time as `(again)`, and the ratio of
the two is what the machine's own unrest makes of no difference at all. A contender that trips a guard gets no time and
makes the exit status 1. One that is not installed, or fails, is shown as such.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import contenders
from vkgrad.bench import cases, guards, reference, results
from vkgrad.bench.cases import Case
from vkgrad.bench.contender import ARMS, PROVEN_BATCHES
from vkgrad.bench.guards import Refused

ROOT = Path(__file__).resolve().parents[1]
AGAIN = " (again)"
LOAD_SECONDS = 200  # torch.compile takes 45 s for LeNet-5 on a fast machine


class Failed(Exception):
    """A contender that cannot be raced: absent, crashed, or too slow."""


@dataclass
class Runner:
    """One contender's process in one case, with what it measured."""

    label: str
    entry: contenders.Entry
    process: subprocess.Popen[bytes]
    log: Path
    state: str = ""  # why it gets no time
    refused: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    def ask(self, do: str, patience: float = LOAD_SECONDS, **message: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **message}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._end()) from None
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.process.kill()
            raise Failed(f"no answer to {do!r} in {patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(self._end())
        answer: dict[str, Any] = json.loads(line)
        for kind in ("absent", "error"):
            if kind in answer:
                raise Failed(f"{kind}: {answer[kind]}")
        return answer

    def _end(self) -> str:
        """Why the process is gone, by its last words."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        words = lines[-1] if lines else f"exit status {self.process.wait(5)}"
        missing = re.search(r"No module named '[^']+'", words)
        return f"absent: {missing[0]}" if missing else f"ended early: {words}"

    @property
    def races(self) -> bool:
        return not self.state


@dataclass(frozen=True)
class Options:
    """How to race. `budget` is seconds for one arm of one contender over all rounds."""

    device: str
    rounds: int
    budget: float
    read_every: int
    check: bool


def environment(device: str) -> dict[str, str]:
    """What contenders run in: float32 without TF32, memory shared with the others, and the same kind of device."""
    path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if part)
    wanted = {"PYTHONPATH": path, "NVIDIA_TF32_OVERRIDE": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if device:
        wanted["VKGRAD_DEVICE"] = device
    if device == "cpu":
        wanted |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return {**os.environ, **wanted}


@contextmanager
def runner(label: str, entry: contenders.Entry, device: str, folder: Path) -> Iterator[Runner]:
    log = folder / f"{label.replace(' ', '')}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", entry.module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment(device),
        )  # fmt: skip
    try:
        yield Runner(label, entry, process, log)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # it ended before it read everything; its state says so


def prepare(own: Runner, case: Case, data: Path, expected: Sequence[float], options: Options) -> None:
    """Load a contender and hold it to every guard; what fails is noted in its state."""
    try:
        own.facts = own.ask("load", model=case.model, batch=case.batch, data=str(data))
        losses = own.ask("prove")["losses"]
        own.facts["largest_difference"] = guards.right_losses(losses, expected)
        steps = 8
        placement = own.ask("guard", steps=steps)
        if own.entry.ours:
            own.facts |= placement
            guards.no_layers_loaded(placement["layers"])
            guards.right_device(own.facts["device"], options.device)
            guards.resident(placement["resident"])
            guards.right_counts(placement["counts"], steps, own.entry.recorded)
    except Failed as failure:
        own.state = str(failure)
    except Refused as refusal:
        own.state, own.refused = f"REFUSED: {refusal}", True


def measure(runners: Sequence[Runner], options: Options) -> None:
    """All rounds of all arms, interleaved; the order moves on by one each round."""
    for turn in range(options.rounds):
        for arm in ARMS:
            racing = [own for own in runners if own.races]
            shift = turn % max(len(racing), 1)
            for own in (*racing[shift:], *racing[:shift]):
                seconds = options.budget / options.rounds
                try:
                    answer = own.ask("time", 60 + 20 * seconds, arm=arm, seconds=seconds, read_every=options.read_every)
                    guards.finite_loss(answer["loss"])
                    own.samples.setdefault(arm, []).extend(answer["samples_us"])
                except Failed as failure:
                    own.state = str(failure)
                except Refused as refusal:
                    own.state, own.refused = f"REFUSED: {refusal}", True
    for own in runners:
        if not own.races:
            own.samples.clear()


def race(case: Case, entries: Sequence[contenders.Entry], options: Options) -> list[Runner]:
    """One case: start everybody, prepare them one after the other, and time those who passed."""
    data = cases.make(case)
    expected = reference.losses(case.model, data, PROVEN_BATCHES)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        cases.save(folder / "data.npz", data)
        taking_part = [(entry.name, entry) for entry in entries if entry.batches is None or case.batch in entry.batches]
        if not options.check and taking_part:
            taking_part.append((taking_part[0][0] + AGAIN, taking_part[0][1]))
        runners = [stack.enter_context(runner(label, entry, options.device, folder)) for label, entry in taking_part]
        with ThreadPoolExecutor(len(runners) + 1) as pool:  # one after the other, but for who only compiles at first

            def ready(own: Runner) -> None:
                prepare(own, case, folder / "data.npz", expected, options)

            compiling = [pool.submit(ready, own) for own in runners if own.entry.compiles]
            for own in runners:
                if not own.entry.compiles:
                    ready(own)
            for one in compiling:
                one.result()
        if not options.check:
            ask_for_peaks(runners)
            measure(runners, options)
        return runners


def ask_for_peaks(runners: Sequence[Runner]) -> None:
    """What the device can do at most, measured by vkgrad in the same run, is a fact of the first who can tell."""
    for own in runners:
        if own.entry.ours and own.races:
            try:
                own.facts["peaks"] = own.ask("peaks")
            except Failed as failure:
                own.state = str(failure)
            return


# ---- what comes out
def as_lines(case: Case, runners: Sequence[Runner], options: Options, commit: str) -> Iterator[dict[str, Any]]:
    """One line for `bench_results/` per vkgrad contender and arm, with everybody who ran beside it."""
    for arm in ARMS:
        beside = {
            own.label: {
                **own.facts.get("versions", {}),
                "device": own.facts.get("device"),
                **(results.Spread.of(own.samples[arm]).fields() if arm in own.samples else {"none_because": own.state}),
            }
            for own in runners
        }
        for own in runners:
            if own.label not in beside or arm not in own.samples or not own.entry.ours:
                continue
            spread = results.Spread.of(own.samples[arm])
            yield {
                "commit": commit,
                "device": own.facts["device"],
                "driver": own.facts["driver"],
                "model": case.model,
                "shape": [case.batch, *cases.INPUT_SHAPES[case.model]],
                "dtype": "float32",
                "contender": own.label,
                "arm": arm,
                **({"read_every": options.read_every} if arm == "fed" else {}),
                "rows": own.facts["rows"],
                "dispatches": own.facts["dispatches"],
                "levels": own.facts["levels"],
                **spread.fields(),
                "gflop_s": round(case.flops / spread.median_us / 1e3, 2),
                **({"peaks": own.facts["peaks"]} if "peaks" in own.facts else {}),
                "rounds": options.rounds,
                "processors": len(os.sched_getaffinity(0)),
                "peers": {label: fields for label, fields in beside.items() if label != own.label},
            }


def findings(case: Case, runners: Sequence[Runner], check: bool) -> Iterator[str]:
    """Who has no time in this case and why; in a check also how near to float64 everybody is."""
    for own in runners:
        if own.state:
            yield f"{case}: {own.label} has no time. {own.state}"
        elif check:
            yield f"{case}: {own.label} agrees with float64 to {own.facts['largest_difference']:.1e}"


def report(raced: dict[Case, list[Runner]], entries: Sequence[contenders.Entry]) -> str:
    """Who raced, with versions and plans, then the tables of times, the most asked-for at the very end."""
    parts = []
    facts = {own.label: own.facts for runners in raced.values() for own in runners if own.facts}
    for label, found in facts.items():
        versions = " ".join(f"{name} {version}" for name, version in found["versions"].items())
        plans = [
            f"{case}: {own.facts['dispatches']} dispatches in {own.facts['levels']} levels"
            for case, runners in raced.items()
            for own in runners
            if own.label == label and "levels" in own.facts
        ]
        parts.append(f"{label}: {versions} on {found['device']}. {'; '.join(plans)}".rstrip())
    labels = [entry.name for entry in entries] + [entry.name + AGAIN for entry in entries[:1]]
    for arm in reversed(ARMS):
        header = [f"{arm}, µs a step: median [p10-p90]", *map(str, raced)]
        rows = [[label, *(cell(raced[case], label, arm) for case in raced)] for label in labels]
        rows.append(["A/A ratio", *(again_ratio(raced[case], arm) for case in raced)])
        parts.append("\n" + results.table(header, rows))
        if arm == "pipelined":
            share = [[label, *(peak_cell(case, raced[case], label) for case in raced)] for label in labels]
            parts.append("\n" + results.table(["GFLOP/s of the products, pipelined", *map(str, raced)], share))
    return "\n".join(parts)


def peak_cell(case: Case, runners: Sequence[Runner], label: str) -> str:
    """GFLOP/s, on the device that vkgrad ran on also as a share of the multiply-adds it was measured to do."""
    measured = next((own.facts for own in runners if "peaks" in own.facts), None)
    for own in runners:
        if own.label == label and "pipelined" in own.samples:
            gflop_s = case.flops / results.Spread.of(own.samples["pipelined"]).median_us / 1e3
            if measured is None or measured["device"] != own.facts["device"]:
                return results.digits(gflop_s)
            return f"{results.digits(gflop_s)} ({gflop_s / measured['peaks']['fma_gflop_s']:.1%} of peak)"
    return ""


def cell(runners: Sequence[Runner], label: str, arm: str) -> str:
    for own in runners:
        if own.label == label:
            return str(results.Spread.of(own.samples[arm])) if arm in own.samples else own.state.split(":")[0]
    return "not raced"


def again_ratio(runners: Sequence[Runner], arm: str) -> str:
    """Median of the second run of the first contender over that of its first run."""
    medians = {own.label: results.Spread.of(own.samples[arm]).median_us for own in runners if arm in own.samples}
    for label, median in medians.items():
        if label + AGAIN in medians:
            return f"{medians[label + AGAIN] / median:.3f}"
    return "none"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default="mlp,lenet")
    parser.add_argument("--batches", default="32,256,2048")
    parser.add_argument("--contenders", default=",".join(contenders.ENTRIES), help="names, or modules of your own")
    parser.add_argument("--device", default="", help="the device vkgrad must run on: part of its name, or cpu for all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.6, help="seconds for each arm of each contender in a case")
    parser.add_argument("--read-every", type=int, default=10, help="steps between two losses read in the fed arm")
    parser.add_argument("--minutes", type=float, default=7, help="no new case is begun later than this allows")
    parser.add_argument("--check", action="store_true", help="values and guards only")
    parser.add_argument("--out", type=Path, default=ROOT / "bench_results")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    try:
        guards.no_layers_asked()
        guards.no_layers_loaded(guards.loaded_layers())
        entries = [contenders.entry(name) for name in chosen.contenders.split(",")]
    except (Refused, ValueError) as error:
        print(f"race: {error}", file=sys.stderr)
        return 1
    options = Options(chosen.device, chosen.rounds, chosen.budget, chosen.read_every, chosen.check)
    commit = results.commit()
    # Small batches first: if time runs out, those that matter most are there.
    wanted = [Case(model, int(batch)) for batch in chosen.batches.split(",") for model in chosen.models.split(",")]
    raced: dict[Case, list[Runner]] = {}
    started, seconds = time.monotonic(), [0.0]
    for case in wanted:
        before = time.monotonic()
        recent = max(seconds[-len(chosen.models.split(",")) :])  # what a batch size takes, differs
        if before - started + recent > chosen.minutes * 60:
            print(f"{case}: not raced, the {chosen.minutes:g} minutes are over")
            continue
        raced[case] = race(case, entries, options)
        seconds.append(time.monotonic() - before)
        found = findings(case, raced[case], options.check)
        print("\n".join([f"{case}: {seconds[-1]:.0f} s", *found]), flush=True)
        lines = list(as_lines(case, raced[case], options, commit))
        if lines:
            results.append(chosen.out, lines[0]["device"], lines)
    if not options.check:
        print(report(raced, entries))
    wrong = [
        own.label for runners in raced.values() for own in runners if own.refused or (own.state and own.entry.ours)
    ]
    if wrong or not raced:
        print(f"race: without a time: {', '.join(wrong) or 'everything'}; the reasons are above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
