"""Rates that go up and down again, and momenta that go the other way.

A momentum that a schedule changes is a scalar on the device, as the rate is, so that a recorded step replays rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, floor, log, pi
from typing import Any

from vkgrad.errors import OptionError
from vkgrad.optim.groups import ParameterGroup
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.schedules import Schedule

Each = float | Sequence[float]


def for_each(name: str, value: Each, count: int) -> list[float]:
    values = [float(value)] * count if isinstance(value, int | float) else [float(v) for v in value]
    if len(values) != count:
        raise OptionError(f"{name} must be one number, or {count}, one for each group; got {value}")
    return values


def give_momentum(optimizer: Optimizer, group: ParameterGroup, value: float) -> None:
    """Set what `momentum`, or the first of `betas`, is from the next step on."""
    rule = group.rule
    if "momentum" in group.options:
        if not group["momentum"]:  # it kept no buffer so far
            group["momentum"] = value
            for name, p in group.params.items():
                for kind, tensor in rule.state_of(p).items():
                    optimizer._state[name].setdefault(kind, tensor)
        group.vary("momentum", value)
    else:
        if "steps" not in group.shared:
            remaining = 1.0 - float(group.shared["correction2"])
            group.vary("steps", round(log(remaining) / log(group["betas"][1])))
        group.vary("beta1", value)


class _Cycle(Schedule):
    """A schedule of rates and, with `cycle_momentum`, of momenta."""

    cycle_momentum: bool

    def _check_momentum(self, optimizer: Optimizer) -> None:
        options = optimizer.param_groups[0].options
        shared = optimizer.param_groups[0].shared
        if self.cycle_momentum and "momentum" not in options and not ("betas" in options and "correction2" in shared):
            raise OptionError(
                f"{type(self).__name__}: {type(optimizer).__name__} has no momentum to cycle; pass cycle_momentum=False"
            )

    def momentum(self, epoch: float, number: int) -> float:
        """The momentum after `epoch` steps."""
        raise NotImplementedError

    def set_group(self, group: ParameterGroup, base: float, number: int) -> None:
        super().set_group(group, base, number)
        if self.cycle_momentum:
            give_momentum(self.optimizer, group, self.momentum(self.last_epoch, number))


class OneCycleLR(_Cycle):
    """Up from max_lr / div_factor to `max_lr` in the first part of `total_steps`, then down to 1 / final_div_factor of
    the first; momentum the other way.

    Call `step()` after each batch.

    Args:
        total_steps: or `epochs` and `steps_per_epoch`.
        pct_start: how large the first part is.
        anneal_strategy: "cos" or "linear".
        three_phase: down to the first rate as fast as up, then to the last one.

    Source: Smith and Topin (2018), arXiv:1708.07120, section 3.

    Raises:
        OptionError: options that do not fit, or a step more than `total_steps`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Each,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Each = 0.85,
        max_momentum: Each = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise OptionError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear") or not 0 <= pct_start <= 1 or total_steps < 1:
            raise OptionError('OneCycleLR: needs "cos" or "linear", pct_start from 0 to 1 and positive total_steps')
        count = len(optimizer.param_groups)
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.max_lrs = for_each("max_lr", max_lr, count)
        self.momenta = [for_each("momentum", value, count) for value in (base_momentum, max_momentum)]
        self.div_factor = div_factor
        self.final_div_factor = final_div_factor
        # Each part: its last step, the rates and the momenta between which it goes.
        self.parts: list[tuple[float, str, str, int, int]] = [(pct_start * total_steps - 1, "first", "max", 1, 0)]
        if three_phase:
            self.parts.append((2 * pct_start * total_steps - 2, "max", "first", 0, 1))
            self.parts.append((total_steps - 1, "first", "last", 1, 1))
        else:
            self.parts.append((total_steps - 1, "max", "last", 0, 1))
        self._check_momentum(optimizer)
        super().__init__(optimizer)

    def _place(self, epoch: float) -> tuple[tuple[float, str, str, int, int], float]:
        """The part that a step lies in, and how far it is in it."""
        if epoch > self.total_steps:
            raise OptionError(f"OneCycleLR: step {epoch} of a cycle of {self.total_steps}; make it longer")
        start = 0.0
        for part in self.parts:
            if epoch <= part[0] or part is self.parts[-1]:
                return part, (epoch - start) / (part[0] - start)
            start = part[0]
        raise AssertionError("the last part takes all that is left")

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2.0 * (cos(pi * share) + 1)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        most = self.max_lrs[number]
        first = most / self.div_factor
        rates = {"first": first, "max": most, "last": first / self.final_div_factor}
        (_, start, end, _, _), share = self._place(epoch)
        return self._between(rates[start], rates[end], share)

    def momentum(self, epoch: float, number: int) -> float:
        (_, _, _, start, end), share = self._place(epoch)
        return self._between(self.momenta[start][number], self.momenta[end][number], share)


class CyclicLR(_Cycle):
    """From `base_lr` up to `max_lr` in `step_size_up` steps and down again, over and over; momentum the other way.

    Args:
        step_size_down: as many as up if None.
        mode: "triangular"; "triangular2", each cycle half as high; "exp_range", gamma ** steps as high.
        scale_fn: how high instead, of the number of cycles or of steps, as `scale_mode` says.

    Source: Smith (2017), arXiv:1506.01186, section 3.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Each,
        max_lr: Each,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[Any], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Each = 0.8,
        max_momentum: Each = 0.9,
    ) -> None:
        known: dict[str, tuple[Callable[[Any], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 1 / 2.0 ** (cycle - 1), "cycle"),
            "exp_range": (lambda steps: gamma**steps, "iterations"),
        }
        if scale_fn is None and mode not in known:
            raise OptionError(f"CyclicLR: mode must be one of {', '.join(known)}, got {mode!r}")
        count = len(optimizer.param_groups)
        self.scale, self.scale_mode = known[mode] if scale_fn is None else (scale_fn, scale_mode)
        self.lows, self.max_lrs = for_each("base_lr", base_lr, count), for_each("max_lr", max_lr, count)
        self.momenta = [for_each("momentum", value, count) for value in (base_momentum, max_momentum)]
        self.length = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.share_up = step_size_up / self.length
        self.cycle_momentum = cycle_momentum
        self._check_momentum(optimizer)
        super().__init__(optimizer)

    def _height(self, epoch: float) -> float:
        cycle = floor(1 + epoch / self.length)
        place = 1.0 + epoch / self.length - cycle
        height = place / self.share_up if place <= self.share_up else (place - 1) / (self.share_up - 1)
        return height * self.scale(cycle if self.scale_mode == "cycle" else epoch)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return self.lows[number] + (self.max_lrs[number] - self.lows[number]) * self._height(epoch)

    def momentum(self, epoch: float, number: int) -> float:
        low, high = (values[number] for values in self.momenta)
        return high - (high - low) * self._height(epoch)
