"""Schedules made of others, and the one that watches a number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from vkgrad.errors import OptionError
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.schedules import Schedule


class SequentialLR(Schedule):
    """One schedule after another: the next from each number of steps in `milestones` on, as if it began there."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]) -> None:
        if len(milestones) != len(schedulers) - 1 or any(s.optimizer is not optimizer for s in schedulers):
            raise OptionError("SequentialLR: needs schedules of this optimizer, and one milestone less than schedules")
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        which = bisect_right(self.milestones, epoch)
        return self.schedulers[which].rate(epoch - (self.milestones[which - 1] if which else 0), base, number)


class ChainedScheduler(Schedule):
    """The product of what several schedules make of the rate."""

    def __init__(self, schedulers: Sequence[Schedule], optimizer: Optimizer | None = None) -> None:
        if not schedulers or any(s.optimizer is not (optimizer or schedulers[0].optimizer) for s in schedulers):
            raise OptionError("ChainedScheduler: needs schedules, all of one optimizer")
        self.schedulers = list(schedulers)
        super().__init__(schedulers[0].optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        rate = base
        for schedule in self.schedulers:
            rate *= schedule.rate(epoch, base, number) / base if base else 0.0
        return rate


class ReduceLROnPlateau:
    """Multiply the rate by `factor` when a number that is given to `step` has not improved for `patience` steps.

    Args:
        mode: "min" if less is better, or "max".
        threshold: how much better counts: a part of the best so far, or with `threshold_mode="abs"` an amount.
        cooldown: how many steps after a reduction do not count.
        min_lr: the least rate, one or one for each group.
        eps: smaller reductions are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not factor < 1:
            raise OptionError('ReduceLROnPlateau: needs mode "min" or "max", "rel" or "abs", and a factor below 1')
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        count = len(optimizer.param_groups)
        self.min_lrs = [float(min_lr)] * count if isinstance(min_lr, int | float) else list(min_lr)
        self.eps = eps
        self.best = inf if mode == "min" else -inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0

    def step(self, metrics: Any) -> None:
        """Look at the number; a tensor is read."""
        now = float(metrics)
        self.last_epoch += 1
        if self._is_better(now):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                reduced = max(group["lr"] * self.factor, least)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, now: float) -> bool:
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1.0)
        if abs(self.best) == inf:
            return now < self.best if self.mode == "min" else now > self.best
        return now < self.best - margin if self.mode == "min" else now > self.best + margin

    def get_last_lr(self) -> list[float]:
        """The rates of now, one for each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The numbers that must be saved to go on later."""
        names = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from saved numbers."""
        for name in self.state_dict():
            setattr(self, name, state[name])
