"""`sample`: chains are started, warmed up and run, and their draws kept; `Run` is what comes out.

This module must not know how chains move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from vkgrad import random, tree
from vkgrad.errors import OptionError
from vkgrad.inference import diagnostics
from vkgrad.inference.adapting import Adaptation, duties, first_step_size
from vkgrad.inference.chains import Chains, Outcome, Sampler
from vkgrad.inference.density import Density
from vkgrad.inference.hmc import accepted_after_one_step
from vkgrad.inference.nuts import NUTS
from vkgrad.jit import jit
from vkgrad.tensor import Tensor, tensor

AHEAD = 1  # draws that the device is given before the first of them is read


class Kernel(Protocol):
    """What `sample` takes as its kernel: `HMC(...)`, `NUTS(...)`."""

    @property
    def step_size(self) -> float | None: ...

    @property
    def target(self) -> float: ...

    def sampler(self, chains: Chains, adaptation: Adaptation, key: Tensor) -> Sampler: ...


@dataclass(frozen=True)
class Run:
    """The draws of all chains.

    draws         shaped like `initial`, each leaf (C, N, ...)
    log_density   (C, N) at the draws
    accepted      (C, N) the probability with which each trajectory was accepted, or the mean of its steps
    diverged      (C, N) whether a trajectory left the level of its energy: where many do, draws are not to be trusted
    steps         (C, N) leapfrog steps
    step_size     what the warm-up found; inverse_mass (D,) the variances that it found
    """

    draws: Any
    log_density: Tensor
    accepted: Tensor
    diverged: Tensor
    steps: Tensor
    step_size: float
    inverse_mass: Tensor

    def r_hat(self) -> Any:
        """`inference.r_hat` of each leaf: near 1 where chains agree."""
        return tree.replace(diagnostics.r_hat, self.draws)

    def ess(self) -> Any:
        """`inference.ess` of each leaf: as how many independent draws these count."""
        return tree.replace(diagnostics.ess, self.draws)

    def summary(self) -> str:
        """A table: for each number of a position its mean, deviation, effective number of draws and r_hat."""
        return diagnostics.summary(self.draws)


def sample(
    log_density: Callable[[Any], Tensor],
    initial: Any,
    key: Tensor,
    draws: int = 1000,
    warmup: int = 1000,
    kernel: Kernel | None = None,
    progress: bool = False,
) -> Run:
    """Draws from a density of which the logarithm is known up to a constant, by Hamiltonian Monte Carlo.

    `log_density(position)` takes one position, without the axis of chains, and is differentiated; any function of
    tensors will do. `kernel` is `NUTS()` unless given, or `HMC(...)`. With the same key and warm-up, the first draws
    of a longer run are those of a shorter one, bit for bit.

    Shapes: each leaf of `initial` (a tensor, or a nesting of them) is (C, ...): C chains, each with a beginning.

    Raises:
        ShapeError, DTypeError: parts of `initial` that do not belong together, a log density that is not one float.
        OptionError: a chain begins where the density is 0, or not finite; no draws are asked for.

    Example:
        >>> import vkgrad as vg
        >>> normal = vg.distributions.Normal(vg.tensor([1.0, -1.0]), 0.5)
        >>> run = vg.inference.sample(
        ...     lambda x: normal.log_prob(x).sum(), vg.zeros((8, 2)), vg.random.key(0), draws=50, warmup=50,
        ...     kernel=vg.inference.HMC(steps=4))
        >>> run.draws.shape
        (8, 50, 2)
    """
    if draws < 1 or warmup < 0:
        raise OptionError(f"inference.sample: takes 1 draw or more and no negative warm-up, got {draws} and {warmup}")
    kernel = NUTS() if kernel is None else kernel
    density = Density(log_density, initial)
    chains = Chains(density, density.rows(initial))
    adaptation = Adaptation(density.size, density.dtype, kernel.target)
    trial, moves = random.split(key)
    adaptation.start_at(_step_size(kernel, chains, adaptation, trial))
    sampler = kernel.sampler(chains, adaptation, moves)
    kept = _Kept(density, draws)
    with tqdm(total=warmup + draws, disable=not progress, desc="warm-up") as bar:
        for number, duty in enumerate(duties(warmup)):
            outcome = sampler.draw(number, duty.collects)
            if duty.closes:
                adaptation.close()
            if number % 32 == 31:
                outcome.accepted.numpy()  # so that the device is not given more than it can take
            bar.update()
        if warmup:
            adaptation.settle()
        bar.set_description("draws")
        for number, outcome in _behind(sampler, warmup, draws):
            kept.keep(number, outcome)
            bar.update()
    return kept.run(adaptation)


def _step_size(kernel: Kernel, chains: Chains, adaptation: Adaptation, key: Tensor) -> float:
    if kernel.step_size is not None:
        return kernel.step_size
    accepted = jit(lambda step: accepted_after_one_step(chains, adaptation.inverse_mass, key, step))
    kind = chains.position.dtype.numpy
    return first_step_size(lambda step: accepted(np.array(step, kind)).item())


def _behind(sampler: Sampler, warmup: int, draws: int) -> Iterator[tuple[int, Outcome]]:
    """Draws in order, each handed out when those after it were submitted."""
    waiting: list[tuple[int, Outcome]] = []
    for number in range(draws):
        waiting.append((number, sampler.draw(warmup + number)))
        if len(waiting) > AHEAD:
            yield waiting.pop(0)
    yield from waiting


class _Kept:
    """The draws so far, in host memory."""

    def __init__(self, density: Density, draws: int) -> None:
        self.density = density
        kind, lead = density.dtype.numpy, (density.chains, draws)
        self.rows = np.empty((*lead, density.size), kind)
        self.log_density, self.accepted = np.empty(lead, kind), np.empty(lead, kind)
        self.diverged, self.steps = np.empty(lead, bool), np.empty(lead, np.int32)

    def keep(self, number: int, outcome: Outcome) -> None:
        places = (self.rows, self.log_density, self.accepted, self.diverged, self.steps)
        for place, value in zip(places, outcome, strict=True):
            place[:, number] = value.numpy()

    def run(self, adaptation: Adaptation) -> Run:
        return Run(
            self.density.nested(tensor(self.rows)),
            tensor(self.log_density),
            tensor(self.accepted),
            tensor(self.diverged),
            tensor(self.steps),
            math.exp(adaptation.log_step.item()),
            tensor(adaptation.inverse_mass),
        )
