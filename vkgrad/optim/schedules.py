"""Learning rates that change over time: small objects on the host that assign `optimizer.lr`.

Call `schedule.step()` after each epoch (or step), outside a compiled function: a recorded step reads the rate from the
device, so nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi
from typing import Any

from vkgrad.errors import DataError, OptionError
from vkgrad.optim.optimizer import Optimizer


class Schedule:
    """Base of the schedules: a rate for each whole number of steps, in closed form.

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
        self.optimizer = optimizer
        self.base_lr = optimizer.lr
        self.last_epoch = 0

    def rate(self, epoch: int) -> float:
        """The learning rate after `epoch` steps; every schedule writes its own."""
        raise NotImplementedError(f"{type(self).__name__} has no rate method; write one")

    def step(self) -> None:
        """Move on by one and give the optimiser its new rate."""
        self.last_epoch += 1
        self.optimizer.lr = self.rate(self.last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The numbers that this schedule goes on from."""
        return {name: value for name, value in vars(self).items() if isinstance(value, bool | int | float | str)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from saved numbers. The rate itself belongs to the optimiser's state.

        Raises:
            DataError: the state is of another kind of schedule.
        """
        own = self.state_dict()
        if set(state) != set(own):
            different = ", ".join(sorted(set(own) ^ set(state)))
            raise DataError(f"load_state_dict: this {type(self).__name__} and the state differ in {different}")
        for name, value in state.items():
            setattr(self, name, type(own[name])(value))


class StepLR(Schedule):
    """Multiply the rate by `gamma` after every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise OptionError(f"StepLR: step_size must be at least 1, got {step_size}")
        super().__init__(optimizer)
        self.step_size = step_size
        self.gamma = gamma

    def rate(self, epoch: int) -> float:
        return self.base_lr * self.gamma ** (epoch // self.step_size)


class ExponentialLR(StepLR):
    """Multiply the rate by `gamma` after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        super().__init__(optimizer, step_size=1, gamma=gamma)


class CosineAnnealingLR(Schedule):
    """Go from the first rate to `eta_min` in `T_max` steps, along half a cosine.

    Source: Loshchilov and Hutter (2017), arXiv:1608.03983, equation 5, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        super().__init__(optimizer)
        self.T_max = T_max
        self.eta_min = eta_min

    def rate(self, epoch: int) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + cos(pi * epoch / self.T_max)) / 2
