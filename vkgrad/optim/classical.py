"""Averaged gradient descent, and descent by signs; PyTorch's arguments and defaults."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class ASGD(Optimizer):
    """Gradient descent with shrinking steps, and the average of where it has been, `state_dict()["<name>.ax"]`.

    Args:
        lambd: how much the parameter decays, and the steps shrink.
        alpha: the power by which they shrink.
        t0: after how many steps averaging begins.
        weight_decay: adds `weight_decay * p` to the gradient.

    Source: Polyak and Juditsky (1992), Acceleration of stochastic approximation by averaging, as PyTorch does it.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        self.lambd = lambd
        self.alpha = alpha
        self.t0 = t0
        self.weight_decay = weight_decay
        self.maximize = maximize
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        return {"steps": f.full((), -1.0, dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        return {"ax": f.zeros_like(parameter)}

    def advanced(self, shared: State) -> State:
        return {"steps": shared["steps"] + 1.0}  # those before this one

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        p, g = self.decayed(p, g, lr)
        steps = shared["steps"].astype(p.dtype)
        eta = lr * f.exp(-self.alpha * f.log1p(self.lambd * lr * steps))
        new = p * (1.0 - self.lambd * eta) - eta * g
        part = 1.0 / f.maximum(steps - self.t0, 1.0)
        return new, {"ax": state["ax"] + (new - state["ax"]) * part}


class Rprop(Optimizer):
    """A step size for each element, which grows while its gradient keeps its sign and shrinks when that changes.

    Args:
        etas: by which factors it shrinks and grows.
        step_sizes: the least and the largest.

    Source: Riedmiller and Braun (1993), A direct adaptive method for faster backpropagation learning.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise OptionError(f"Rprop: etas must be below and above 1, got {etas}")
        self.etas = etas
        self.step_sizes = step_sizes
        self.maximize = maximize
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        first = f.full_like(parameter, self.defaults["lr"])
        return {"prev": f.zeros_like(parameter), "step_size": first}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        same = f.sign(g * state["prev"])
        factor = f.where(same > 0, self.etas[1], f.where(same < 0, self.etas[0], 1.0))
        size = f.clip(state["step_size"] * factor, *self.step_sizes)
        g = f.where(same < 0, 0.0, g)
        return p - f.sign(g) * size, {"prev": g, "step_size": size}
