"""What a sampler learns while it warms up: the size of a step, and the scale of each number. Both on the device.

All chains share both, so that each learns from all. This module must not know samplers.

Sources: M. D. Hoffman, A. Gelman, "The No-U-Turn Sampler", JMLR 15, 2014, section 3.2 (dual averaging); T. F. Chan,
G. H. Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979; the
windows and what variances are drawn towards are Stan's (reference manual, "HMC algorithm parameters").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vkgrad import functions as f
from vkgrad.ir.dtypes import DType
from vkgrad.jit import jit
from vkgrad.tensor import Tensor, tensor

GAMMA, DELAY, KAPPA = 0.05, 10.0, 0.75  # of dual averaging: Hoffman and Gelman's
FIRST, LAST, WINDOW = 75, 50, 25  # draws in which only steps are learned, at both ends, and in the first window
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3


class Duty(NamedTuple):
    """What a draw of the warm-up is for: whether scales are learned from it, and whether they are set after it."""

    collects: bool
    closes: bool


def duties(warmup: int) -> list[Duty]:
    """The duties of `warmup` draws: windows that double in length, so that scales come from draws with good scales."""
    first, last = FIRST, LAST
    if warmup < first + last + WINDOW:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
    found = [Duty(False, False)] * first
    length, left = WINDOW, warmup - first - last
    while left > 0:
        length = left if left < 3 * length else length  # the last one takes what is no window of its own
        found += [Duty(True, False)] * (length - 1) + [Duty(True, True)]
        left, length = left - length, 2 * length
    return found + [Duty(False, False)] * last


class Adaptation:
    """The step size and the scales, as tensors that recorded steps change in place.

    log_step       the logarithm of the step size in use
    log_average    that of its average over the warm-up, which is used afterwards
    inverse_mass   (D,) the variance of each number
    """

    def __init__(self, size: int, dtype: DType, target: float) -> None:
        def state(value: float, *shape: int) -> Tensor:
            return tensor(np.full(shape, value), dtype)

        self.target = target
        self.log_step, self.log_average = state(0.0), state(0.0)
        self.centre, self.pull, self.count = state(math.log(10)), state(0.0), state(0.0)
        self.inverse_mass = state(1.0, size)
        self.seen, self.mean, self.squares = state(0.0), state(0.0, size), state(0.0, size)
        self._close, self._settle, self._start = jit(self._closed), jit(self._settled), jit(self._started)

    def _started(self, log_step: Tensor) -> None:
        """Begin anew with a step size, ten times which is what it is drawn towards."""
        self.log_step.assign(log_step)
        self.log_average.assign(log_step)
        self.centre.assign(log_step + math.log(10))
        self.pull.assign(f.zeros_like(self.pull))
        self.count.assign(f.zeros_like(self.count))

    # ---- called while a step is recorded
    def learn_step(self, accepted: Tensor) -> None:
        """Dual averaging of the step size, by the probability (C,) with which each chain accepted."""
        count = self.count + 1
        share = 1 / (count + DELAY)
        pull = (1 - share) * self.pull + share * (self.target - accepted.mean())
        log_step = self.centre - f.sqrt(count) / GAMMA * pull
        weight = count**-KAPPA
        self.log_average.assign(weight * log_step + (1 - weight) * self.log_average)
        self.log_step.assign(log_step)
        self.pull.assign(pull)
        self.count.assign(count)

    def learn_scale(self, rows: Tensor, collects: Tensor) -> None:
        """Count the positions (C, D) of all chains in mean and variance, if this draw `collects`."""
        count = rows.shape[0] * collects.astype(rows.dtype)
        own = rows.mean(0)
        apart = own - self.mean
        seen = self.seen + count
        share = count / f.maximum(seen, 1.0)
        own_squares = f.square(rows - own).sum(0) * collects.astype(rows.dtype)
        self.squares.assign(self.squares + own_squares + f.square(apart) * (self.seen * share))
        self.mean.assign(self.mean + apart * share)
        self.seen.assign(seen)

    # ---- called between steps
    def start_at(self, step_size: float) -> None:
        """Begin with a step size."""
        self._start(np.array(math.log(step_size), self.log_step.dtype.numpy))

    def close(self) -> None:
        """The end of a window: the variances that were seen become the scales, and steps are learned anew."""
        self._close()

    def settle(self) -> None:
        """The end of the warm-up: the average of the step size becomes the step size."""
        self._settle()

    def _closed(self) -> None:
        trust = self.seen / (self.seen + PRIOR_DRAWS)
        variance = self.squares / f.maximum(self.seen - 1, 1.0)
        self.inverse_mass.assign(trust * variance + (1 - trust) * PRIOR_VARIANCE)
        for state in (self.seen, self.mean, self.squares):
            state.assign(f.zeros_like(state))
        self._started(self.log_average + 0.0)

    def _settled(self) -> None:
        self.log_step.assign(self.log_average + 0.0)


def first_step_size(accepted_at: Callable[[float], float], start: float = 1.0) -> float:
    """The power of two of `start` at which one step is about to be accepted less than 4 times in 5.

    `accepted_at(step size)` is the mean probability over all chains. Source: Hoffman and Gelman, algorithm 4.
    """
    step = start
    grows = accepted_at(step) > 0.8
    for _ in range(60):
        following = step * 2 if grows else step / 2
        if (accepted_at(following) > 0.8) != grows:
            return step if grows else following
        step = following
    return step
