"""What a contender must be able to do, and the process around it: commands come in as JSON lines, answers go out so.

    {"do": "load", "model": …, "batch": …, "data": path, "asked": device}  ->  {"versions": …, "device": …}
    {"do": "prove"}                                                        ->  {"losses": […]}
    {"do": "guard", "steps": n}                                            ->  {"resident": …, "counts": …, "layers": …}
    {"do": "time", "arm": …, "seconds": s, "read_every": k}                ->  {"samples_us": […], "loss": …}

The answer to anything that fails is {"error": …}, or {"absent": why} where the contender is not installed.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks import cases

# Steps that prove a contender's values: fed from the host, then on the batch that stays on the device.
FED_BATCHES = (0, 1, 2)
RESIDENT_STEPS = 2
PROVEN_BATCHES = (*FED_BATCHES, *(0,) * RESIDENT_STEPS)

FEWEST_STEPS, MOST_STEPS = 3, 5000
BLOCKS = 3  # how often an arm runs in one timed command


class Absent(Exception):
    """The contender cannot run here; the message says what is missing."""


class Contender(ABC):
    """One framework's training step on one model. `__init__` compiles and warms up nothing more than it must."""

    versions: dict[str, str]
    device: str

    @abstractmethod
    def __init__(self, case: cases.Case, data: cases.Data) -> None: ...

    @abstractmethod
    def step(self) -> None:
        """Hand over one step on the first batch, which stays on the device."""

    @abstractmethod
    def feed(self, number: int) -> None:
        """Hand over one step on batch `number`, from the host."""

    @abstractmethod
    def loss(self) -> float:
        """The loss of the step handed over last."""

    @abstractmethod
    def wait(self) -> None:
        """Return when everything that was handed over is over."""

    def placement(self, steps: int) -> dict[str, Any]:
        """Where things are and what `steps` steps of either kind cost; only those who can know answer."""
        return {}


# ---- the arms: each takes `steps` steps and returns samples of µs a step, one for each or one for all
def waiting(contender: Contender, steps: int, read_every: int) -> list[float]:
    """Wait for each step before the next."""
    samples = []
    for _ in range(steps):
        start = perf_counter()
        contender.step()
        contender.wait()
        samples.append((perf_counter() - start) * 1e6)
    return samples


def pipelined(contender: Contender, steps: int, read_every: int) -> list[float]:
    """Steps back to back on a batch that stays on the device, one wait at the end."""
    start = perf_counter()
    for _ in range(steps):
        contender.step()
    contender.wait()
    return [(perf_counter() - start) * 1e6 / steps]


def fed(contender: Contender, steps: int, read_every: int) -> list[float]:
    """Steps back to back, each with a new batch from the host, the loss read every `read_every` steps."""
    start = perf_counter()
    for number in range(steps):
        contender.feed(number % cases.BATCH_COUNT)
        if number % read_every == read_every - 1:
            contender.loss()
    contender.wait()
    return [(perf_counter() - start) * 1e6 / steps]


def host(contender: Contender, steps: int, read_every: int) -> list[float]:
    """How long handing over a step takes while nothing is under way."""
    samples = []
    for _ in range(steps):
        contender.wait()
        start = perf_counter()
        contender.step()
        samples.append((perf_counter() - start) * 1e6)
    contender.wait()
    return samples


Arm = Callable[[Contender, int, int], list[float]]
ARMS: dict[str, Arm] = {"pipelined": pipelined, "waiting": waiting, "fed": fed, "host": host}


class Process:
    """Answers one command after another."""

    def __init__(self, make: Callable[[cases.Case, cases.Data], Contender]) -> None:
        self.make = make
        self.contender: Any = None
        self.step_seconds: dict[str, float] = {}

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        case = cases.Case(message["model"], message["batch"])
        self.contender = self.make(case, cases.load(message["data"]))
        return {"versions": self.contender.versions, "device": self.contender.device}

    def prove(self, message: dict[str, Any]) -> dict[str, Any]:
        losses = []
        for number in FED_BATCHES:
            self.contender.feed(number)
            losses.append(self.contender.loss())
        for _ in range(RESIDENT_STEPS):
            self.contender.step()
            losses.append(self.contender.loss())
        return {"losses": losses}

    def guard(self, message: dict[str, Any]) -> dict[str, Any]:
        for number in range(6):  # warm-up: a contender may take turns between a few recordings
            self.contender.step()
            self.contender.feed(number)
        self.contender.wait()
        return self.contender.placement(message["steps"])

    def time(self, message: dict[str, Any]) -> dict[str, Any]:
        name, read_every = message["arm"], message["read_every"]
        arm = ARMS[name]
        gc.collect()
        gc.disable()
        try:
            if name not in self.step_seconds:  # a first look, which also warms this arm up
                start = perf_counter()
                arm(self.contender, FEWEST_STEPS, read_every)
                self.step_seconds[name] = (perf_counter() - start) / FEWEST_STEPS
            wanted = int(message["seconds"] / BLOCKS / self.step_seconds[name])
            steps = min(max(wanted, FEWEST_STEPS), MOST_STEPS)
            start = perf_counter()
            samples = [sample for _ in range(BLOCKS) for sample in arm(self.contender, steps, read_every)]
            self.step_seconds[name] = (perf_counter() - start) / (BLOCKS * steps)
        finally:
            gc.enable()
        return {"samples_us": samples, "steps": BLOCKS * steps, "loss": self.contender.loss()}


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
