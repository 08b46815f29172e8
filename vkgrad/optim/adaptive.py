"""Optimisers that scale each element's step by the gradients it has seen."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of the squared gradient.

    Args:
        alpha: how much of the running mean stays at each step.
        eps: added to the root.
        weight_decay: adds `weight_decay * p` to the gradient.
        momentum: how much of the previous step stays.
        centered: subtract the squared mean of the gradient, so that its variance is what scales.

    Source: Tieleman and Hinton (2012), lecture 6.5; centred: Graves (2013), arXiv:1308.0850, equations 38 to 45.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        self.alpha = alpha
        self.eps = eps
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.centered = centered
        self.maximize = maximize
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        names = ["square_avg"] + ["momentum_buffer"] * (self.momentum > 0) + ["grad_avg"] * self.centered
        return {name: f.zeros_like(parameter) for name in names}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        p, g = self.decayed(p, g, lr)
        square = self.alpha * state["square_avg"] + (1.0 - self.alpha) * (g * g)
        new = {"square_avg": square}
        if self.centered:
            mean = new["grad_avg"] = self.alpha * state["grad_avg"] + (1.0 - self.alpha) * g
            square = square - mean * mean
        step = g / (f.sqrt(square) + self.eps)
        if self.momentum:
            momentum = shared["momentum"].astype(p.dtype) if "momentum" in shared else self.momentum
            step = new["momentum_buffer"] = momentum * state["momentum_buffer"] + step
        return p - lr * step, new


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients.

    Args:
        lr_decay: divides the learning rate by `1 + t * lr_decay` after t steps.
        weight_decay: adds `weight_decay * p` to the gradient.
        initial_accumulator_value: where the sums start.
        eps: added to the root.

    Source: Duchi, Hazan and Singer (2011), Adaptive subgradient methods.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        self.lr_decay = lr_decay
        self.weight_decay = weight_decay
        self.initial_accumulator_value = initial_accumulator_value
        self.eps = eps
        self.maximize = maximize
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        return {"decay": f.full((), 1.0 - self.lr_decay, dtype=dtype)} if self.lr_decay else {}

    def state_of(self, parameter: Tensor) -> State:
        return {"sum": f.full_like(parameter, self.initial_accumulator_value)}

    def advanced(self, shared: State) -> State:
        return {"decay": shared["decay"] + self.lr_decay} if self.lr_decay else {}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        p, g = self.decayed(p, g, lr)
        if self.lr_decay:
            lr = lr / shared["decay"].astype(p.dtype)
        total = state["sum"] + g * g
        return p - lr * (g / (f.sqrt(total) + self.eps)), {"sum": total}


class Adadelta(Optimizer):
    """Steps whose size comes from the sizes of the steps before, divided by those of the gradients.

    Args:
        rho: how much of the two running means stays at each step.
        eps: added under both roots.
        weight_decay: adds `weight_decay * p` to the gradient.

    Source: Zeiler (2012), arXiv:1212.5701, Algorithm 1.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        if not 0 <= rho <= 1:
            raise OptionError(f"Adadelta: rho must be from 0 to 1, got {rho}")
        self.rho = rho
        self.eps = eps
        self.weight_decay = weight_decay
        self.maximize = maximize
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        return {"square_avg": f.zeros_like(parameter), "acc_delta": f.zeros_like(parameter)}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        p, g = self.decayed(p, g, lr)
        square = self.rho * state["square_avg"] + (1.0 - self.rho) * (g * g)
        delta = f.sqrt(state["acc_delta"] + self.eps) / f.sqrt(square + self.eps) * g
        steps = self.rho * state["acc_delta"] + (1.0 - self.rho) * (delta * delta)
        return p - lr * delta, {"square_avg": square, "acc_delta": steps}


class Lion(Optimizer):
    """Steps of one size, in the direction of the sign of a mean of gradients.

    Args:
        betas: how much of the running mean goes into the step, and how much of it stays.
        weight_decay: shrinks the parameter by `lr * weight_decay` at each step.

    Source: Chen et al. (2023), arXiv:2302.06675, Algorithm 2.
    """

    def __init__(
        self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0
    ) -> None:
        self.betas = betas
        self.weight_decay = weight_decay
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter)}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        mean = state["exp_avg"]
        direction = f.sign(beta1 * mean + (1.0 - beta1) * g)
        if self.weight_decay:
            direction = direction + self.weight_decay * p
        return p - lr * direction, {"exp_avg": beta2 * mean + (1.0 - beta2) * g}
