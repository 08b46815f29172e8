"""The process around a contender: commands come in as JSON lines, answers go out so.

    {"do": "load", "model": …, "batch": …, "data": path}                   ->  {"versions": …, "device": …}
    {"do": "prove"}                                                        ->  {"losses": […]}
    {"do": "guard", "steps": n}                                            ->  {"resident": …, "counts": …, "layers": …}
    {"do": "time", "arm": …, "seconds": s, "read_every": k}                ->  {"samples_us": […], "loss": …}
    {"do": "peaks"}                                                        ->  {"copy_gb_s": …, "fma_gflop_s": …}

The answer to anything that fails is {"error": …}, or {"absent": why} where the contender is not installed. A peer's
process takes the stopwatch from `vkgrad.bench`, which opens no device and starts no thread.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from vkgrad.bench import cases
from vkgrad.bench.contender import Contender, Stopwatch, prove, warm_up


class Absent(Exception):
    """The contender cannot run here; the message says what is missing."""


class Process:
    """Answers one command after another."""

    def __init__(self, make: Callable[[cases.Case, cases.Data], Contender]) -> None:
        self.make = make
        self.contender: Any = None
        self.stopwatch: Any = None

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        case = cases.Case(message["model"], message["batch"])
        self.contender = self.make(case, cases.load(message["data"]))
        self.stopwatch = Stopwatch(self.contender)
        return {"versions": self.contender.versions, "device": self.contender.device}

    def prove(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"losses": prove(self.contender)}

    def guard(self, message: dict[str, Any]) -> dict[str, Any]:
        warm_up(self.contender)
        return self.contender.placement(message["steps"])

    def time(self, message: dict[str, Any]) -> dict[str, Any]:
        samples = self.stopwatch.time(message["arm"], message["seconds"], message["read_every"])
        return {"samples_us": samples, "loss": self.contender.loss()}

    def peaks(self, message: dict[str, Any]) -> dict[str, Any]:
        """What vkgrad's device can do at most; asked of vkgrad's own contenders only."""
        from vkgrad.bench import peaks

        return vars(peaks.measured())


def serve(make: Callable[[cases.Case, cases.Data], Contender]) -> None:
    """Run this process as the contender that `make` makes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    process = Process(make)
    for line in sys.stdin:
        message = json.loads(line)
        try:
            answer = getattr(process, message["do"])(message)
        except (Absent, ImportError) as error:
            answer = {"absent": str(error)}
        except Exception as error:  # isolated: reported by the race, which goes on without this contender
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
