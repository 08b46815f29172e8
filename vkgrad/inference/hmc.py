"""Hamiltonian Monte Carlo: a draw is where a trajectory of a fixed number of leapfrog steps ends, or where it began.

A draw with all that is learned from it is one recorded step, and one submission. This module must not know how chains
are started or draws are kept.

Source: R. M. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo, chapter 5, 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad import random
from vkgrad.errors import OptionError
from vkgrad.inference.adapting import Adaptation
from vkgrad.inference.chains import Chains, Outcome, Sampler
from vkgrad.inference.leapfrog import draw_momentum, energy, leapfrog
from vkgrad.jit import jit
from vkgrad.tensor import Tensor

FAR = 1000.0  # an energy that grew by this much says that the trajectory left the level of its beginning


@dataclass(frozen=True)
class HMC:
    """Trajectories of `steps` leapfrog steps.

    Args:
        step_size: the first one; None to look for one. The warm-up adapts it.
        target: the mean probability of acceptance that the step size is adapted to.
        jitter: each draw's step size differs from the adapted one by up to this part of it, so that no trajectory
            comes back to where it began time and again.
    """

    steps: int = 16
    step_size: float | None = None
    target: float = 0.8
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"inference.HMC: takes 1 step or more, got steps={self.steps}")
        check(self.step_size, self.target, "HMC")
        if not 0 <= self.jitter < 1:
            raise OptionError(f"inference.HMC: jitter is a part, from 0 to below 1, got {self.jitter}")

    def sampler(self, chains: Chains, adaptation: Adaptation, key: Tensor) -> Sampler:
        return _Trajectories(self, chains, adaptation, key)


def check(step_size: float | None, target: float, name: str) -> None:
    if step_size is not None and not step_size > 0:
        raise OptionError(f"inference.{name}: step_size must be positive, got {step_size}")
    if not 0 < target < 1:
        raise OptionError(f"inference.{name}: target is a probability between 0 and 1, got {target}")


class _Trajectories:
    """The recorded steps of one run."""

    def __init__(self, options: HMC, chains: Chains, adaptation: Adaptation, key: Tensor) -> None:
        self.options, self.chains, self.adaptation, self.key = options, chains, adaptation, key
        self._draw = jit(self._moved)
        self._learn = jit(self._learned)

    def draw(self, number: int, collects: bool | None = None) -> Outcome:
        """The next draw; `collects` says that it is one of the warm-up, and whether scales are learned from it."""
        count = np.array(number, np.uint32)
        return self._draw(count) if collects is None else self._learn(count, np.array(collects))

    def _moved(self, number: Tensor) -> Outcome:
        chains, adaptation = self.chains, self.adaptation
        count, size = chains.position.shape
        key = random.fold_in(self.key, number)
        even = random.uniform(
            key, (count, 2 * size + 2), dtype=chains.position.dtype
        )  # one draw for all that is chance
        begin = chains.phase(draw_momentum(even[:, : 2 * size], adaptation.inverse_mass))
        step = f.exp(adaptation.log_step)
        if self.options.jitter:
            step = step * (1 + self.options.jitter * (2 * even[0, -1] - 1))
        end = leapfrog(chains.value_and_grad, begin, step, adaptation.inverse_mass, self.options.steps)
        gain = energy(begin, adaptation.inverse_mass) - energy(end, adaptation.inverse_mass)
        taken = f.log(even[:, -2]) < gain  # never where it is NaN
        chains.become(taken, end)
        steps: Any = f.full(gain.shape, self.options.steps, dtype="int32")
        return Outcome(chains.position, chains.log_density, probability(gain), f.logical_not(gain > -FAR), steps)

    def _learned(self, number: Tensor, collects: Tensor) -> Outcome:
        outcome = self._moved(number)
        self.adaptation.learn_step(outcome.accepted)
        self.adaptation.learn_scale(outcome.position, collects)
        return outcome


def probability(gain: Tensor) -> Tensor:
    """The probability of acceptance for an energy that fell by `gain`; 0 for NaN."""
    return f.where(gain > -FAR, f.exp(f.minimum(gain, 0.0)), 0.0)


def accepted_after_one_step(chains: Chains, inverse_mass: Tensor, key: Tensor, step_size: Tensor) -> Tensor:
    """The mean probability with which one leapfrog step is accepted, which says how large steps may be."""
    count, size = chains.position.shape
    even = random.uniform(key, (count, 2 * size), dtype=chains.position.dtype)
    begin = chains.phase(draw_momentum(even, inverse_mass))
    end = leapfrog(chains.value_and_grad, begin, step_size, inverse_mass, 1)
    return probability(energy(begin, inverse_mass) - energy(end, inverse_mass)).mean()
