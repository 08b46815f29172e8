"""Training steps of vkgrad as a whole, in every arm of the race, without the peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vkgrad import engine
from vkgrad.bench import cases, guards, reference, results
from vkgrad.bench.cases import Case
from vkgrad.bench.contender import ARMS, PROVEN_BATCHES, Stopwatch, prove, warm_up
from vkgrad.bench.peaks import Peaks
from vkgrad.bench.results import Spread
from vkgrad.bench.training import VkgradContender, VkgradEager, VkgradJit

GUARDED_STEPS = 8
READ_EVERY = 10  # steps between two losses read in the fed arm
UNJITTED = ("pipelined", "host")  # arms in which the step is also taken without `vg.jit`


@dataclass(frozen=True)
class Proven:
    """A contender that may be timed: its losses, places and counts are right."""

    case: Case
    contender: VkgradContender
    placement: dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """The times of one case, by arm: as a recorded step, and built and flushed anew each time."""

    proven: Proven
    arms: dict[str, Spread]
    unjitted: dict[str, Spread]

    def gflop_s(self, arm: str) -> float:
        """Of the products of a step."""
        return self.proven.case.flops / self.arms[arm].median_us / 1e3


def proven(case: Case, eager: bool = False) -> Proven:
    """The training step of `case` on the default device, warmed up and held to every guard.

    Raises:
        Refused: losses, device, residency or counts are not what they must be.
    """
    guards.no_layers_asked()
    data = cases.make(case)
    contender = (VkgradEager if eager else VkgradJit)(case, data)
    guards.right_device(contender.device, engine.default_device().name)
    guards.right_losses(prove(contender), reference.losses(case.model, data, PROVEN_BATCHES))
    warm_up(contender)
    placement = contender.placement(GUARDED_STEPS)
    guards.no_layers_loaded(placement["layers"])
    guards.resident(placement["resident"])
    guards.right_counts(placement["counts"], GUARDED_STEPS, recorded=not eager)
    return Proven(case, contender, placement)


def measured(case: Case, seconds: float = 0.5) -> Steps:
    """A proven case in every arm, `seconds` for each.

    Raises:
        Refused: a guard tripped, before or after.
    """
    found, anew = proven(case), proven(case, eager=True)
    arms, unjitted = (
        {arm: Spread.of(stopwatch.time(arm, seconds, READ_EVERY)) for arm in chosen}
        for stopwatch, chosen in ((Stopwatch(found.contender), ARMS), (Stopwatch(anew.contender), UNJITTED))
    )
    for one in (found, anew):
        guards.finite_loss(one.contender.loss())
    return Steps(found, arms, unjitted)


def table(found: Sequence[Steps], peaks: Peaks) -> str:
    """A line a case; the share of the peak is that of the pipelined arm's products."""
    header = [
        "µs a step: median [p10-p90]",
        *ARMS,
        *(f"un-jitted, {arm}" for arm in UNJITTED),
        "dispatches",
        "levels",
        "GFLOP/s",
        "of peak",
    ]
    rows = [
        [
            str(steps.proven.case),
            *(str(spread) for spread in (*steps.arms.values(), *steps.unjitted.values())),
            str(steps.proven.placement["dispatches"]),
            str(steps.proven.placement["levels"]),
            f"{steps.gflop_s('pipelined'):.1f}",
            f"{steps.gflop_s('pipelined') / peaks.fma_gflop_s:.1%}",
        ]
        for steps in found
    ]
    return results.table(header, rows)


def as_lines(steps: Steps) -> Iterator[dict[str, Any]]:
    case, placement = steps.proven.case, steps.proven.placement
    recorded = [("vkgrad_jit", arm, spread) for arm, spread in steps.arms.items()]
    for contender, arm, spread in (*recorded, *(("vkgrad_eager", *item) for item in steps.unjitted.items())):
        yield {
            "model": case.model,
            "shape": [case.batch, *cases.INPUT_SHAPES[case.model]],
            "dtype": "float32",
            "contender": contender,
            "arm": arm,
            **({"read_every": READ_EVERY} if arm == "fed" else {}),
            **{name: placement[name] for name in ("rows", "dispatches", "levels")},
            **spread.fields(),
            "gflop_s": round(case.flops / spread.median_us / 1e3, 2),
        }
