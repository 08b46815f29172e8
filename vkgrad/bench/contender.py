"""What a contender must be able to do, and the arms: the ways in which its steps are timed.

Peers of other frameworks are timed by this very code, so nothing here may know a framework.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from vkgrad.bench import cases

# Steps that prove a contender's values: fed from the host, then on the batch that stays on the device.
FED_BATCHES = (0, 1, 2)
RESIDENT_STEPS = 2
PROVEN_BATCHES = (*FED_BATCHES, *(0,) * RESIDENT_STEPS)

FEWEST_STEPS, MOST_STEPS = 3, 5000
BLOCKS = 3  # how often an arm runs in one timed command


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


def prove(contender: Contender) -> list[float]:
    """The losses of the first steps, one for each of `PROVEN_BATCHES`."""
    losses = []
    for number in FED_BATCHES:
        contender.feed(number)
        losses.append(contender.loss())
    for _ in range(RESIDENT_STEPS):
        contender.step()
        losses.append(contender.loss())
    return losses


def warm_up(contender: Contender) -> None:
    """Steps of both kinds: a contender may take turns between a few recordings."""
    for number in range(6):
        contender.step()
        contender.feed(number)
    contender.wait()


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


class Stopwatch:
    """Times a contender's arms, for about as long as it is told."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.step_seconds: dict[str, float] = {}

    def time(self, name: str, seconds: float, read_every: int) -> list[float]:
        """Samples of µs a step."""
        arm = ARMS[name]
        with no_garbage_collection():
            if name not in self.step_seconds:  # a first look, which also warms this arm up
                start = perf_counter()
                arm(self.contender, FEWEST_STEPS, read_every)
                self.step_seconds[name] = (perf_counter() - start) / FEWEST_STEPS
            wanted = int(seconds / BLOCKS / self.step_seconds[name])
            steps = min(max(wanted, FEWEST_STEPS), MOST_STEPS)
            start = perf_counter()
            samples = [sample for _ in range(BLOCKS) for sample in arm(self.contender, steps, read_every)]
            self.step_seconds[name] = (perf_counter() - start) / (BLOCKS * steps)
        return samples


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect now, and not inside the block, where a pause would be taken for a slow step."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
