"""Learning rates that change over time: small objects on the host that assign the rate of each parameter group.

Call `schedule.step()` after each epoch (or step), outside a compiled function: a recorded step reads the rate from the
device, so nothing is compiled again. Schedules in closed form are here; cycles and compositions beside it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import cos, pi
from typing import Any

from vkgrad.checked import Checked
from vkgrad.errors import ArgumentError, DataError, OptionError
from vkgrad.optim.groups import ParameterGroup
from vkgrad.optim.optimizer import Optimizer


class Schedule(Checked):
    """Base of the schedules: a rate for each number of steps and each first rate, in closed form.

    Example:
        >>> import vkgrad as vg
        >>> optimizer = vg.optim.SGD([vg.zeros((2,))], lr=1.0)
        >>> schedule = vg.optim.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> rates = []
        >>> for epoch in range(4):
        ...     rates.append(optimizer.lr)
        ...     schedule.step()
        >>> rates
        [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                f"{type(self).__name__}: its first argument is the optimiser whose rate it sets, not a "
                f"{type(optimizer).__name__}; write optimizer = vg.optim.SGD(...) first"
            )
        self.optimizer = optimizer
        self.base_lrs = [group.notes.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self.last_epoch: float = 0
        self.apply()

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        """The learning rate after `epoch` steps of group `number`, whose first one was `base`."""
        raise NotImplementedError(f"{type(self).__name__} has no rate method; write one")

    def apply(self) -> None:
        """Give each group its rate of now."""
        for number, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs, strict=True)):
            self.set_group(group, base, number)

    def set_group(self, group: ParameterGroup, base: float, number: int) -> None:
        group["lr"] = self.rate(self.last_epoch, base, number)

    def step(self) -> None:
        """Move on by one and give the optimiser its new rate."""
        self.last_epoch += 1
        self.apply()

    def get_last_lr(self) -> list[float]:
        """The rates of now, one for each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def __repr__(self) -> str:
        rates = ", ".join(f"{rate:.4g}" for rate in self.get_last_lr())
        return f"{type(self).__name__}: lr {rates} after {self.last_epoch:g} steps"

    def state_dict(self) -> dict[str, Any]:
        """The numbers that must be saved to go on later; arguments are given again."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from saved numbers.

        Raises:
            DataError: they are of another kind of schedule.
        """
        own = self.state_dict()
        if set(own) != set(state):
            raise DataError(f"load_state_dict: a {type(self).__name__} has {', '.join(own)}, not {', '.join(state)}")
        for name, value in state.items():
            setattr(self, name, value)
        self.apply()


class StepLR(Schedule):
    """Multiply the rate by `gamma` after every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise OptionError(f"StepLR: step_size must be at least 1, got {step_size}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(Schedule):
    """Multiply the rate by `gamma` after each of the numbers of steps in `milestones`."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(StepLR):
    """Multiply the rate by `gamma` after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        super().__init__(optimizer, step_size=1, gamma=gamma)


class ConstantLR(Schedule):
    """`factor` times the rate for `total_iters` steps, then the rate."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5) -> None:
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return base * (self.factor if epoch < self.total_iters else 1.0)


class LinearLR(Schedule):
    """From `start_factor` to `end_factor` times the rate in `total_iters` steps, in a straight line."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0 < start_factor <= 1:
            raise OptionError(f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        part = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class PolynomialLR(Schedule):
    """The rate times (1 - t / total_iters) ** power, and 0 after that."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return base * (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class LambdaLR(Schedule):
    """The rate times what `lr_lambda` (one function, or one for each group) makes of the number of steps."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[Any], float] | Sequence[Callable[[Any], float]]
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise OptionError(f"{type(self).__name__}: needs one function, or {count}, one for each group")
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return base * self.lr_lambdas[number](epoch)


class MultiplicativeLR(LambdaLR):
    """Multiply the rate after each step by what `lr_lambda` makes of the number of steps."""

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        for done in range(1, int(epoch) + 1):
            base *= self.lr_lambdas[number](done)
        return base


class CosineAnnealingLR(Schedule):
    """Go from the first rate to `eta_min` in `T_max` steps, along half a cosine.

    Source: Loshchilov and Hutter (2017), arXiv:1608.03983, equation 5, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(Schedule):
    """Half a cosine from the first rate to `eta_min` in `T_0` steps; then again, each time `T_mult` as long.

    `step(epoch)` takes a fraction of an epoch too.

    Source: Loshchilov and Hutter (2017), arXiv:1608.03983, equation 5.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        if T_0 < 1 or T_mult < 1:
            raise OptionError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be at least 1, got {T_0} and {T_mult}")
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        super().__init__(optimizer)

    def rate(self, epoch: float, base: float, number: int = 0) -> float:
        length = self.T_0
        while epoch >= length:
            epoch -= length
            length *= self.T_mult
            if self.T_mult == 1:
                epoch %= length
        return self.eta_min + (base - self.eta_min) * (1 + cos(pi * epoch / length)) / 2

    def step(self, epoch: float | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.apply()
