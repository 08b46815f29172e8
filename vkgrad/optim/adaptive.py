"""Optimisers that scale each element's step by the gradients it has seen."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square, both corrected for starting at zero.

    Args:
        betas: how much of the two running means stays at each step.
        eps: added to the root of the second.
        weight_decay: adds `weight_decay * p` to the gradient.
        amsgrad: divide by the largest mean square so far instead of the present one.

    Source: Kingma and Ba (2015), arXiv:1412.6980, Algorithm 1; amsgrad: Reddi, Kale and Kumar (2018), arXiv:1904.09237.
    """

    decoupled_weight_decay = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise OptionError(f"{type(self).__name__}: betas must be at least 0 and below 1, got {betas}")
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.amsgrad = amsgrad
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        # 1 - beta**t, carried from step to step as beta * c + (1 - beta). Computing the power would lose digits: in
        # single precision 1 - 0.999 is already wrong by 1e-5, and with GLSL's pow by more.
        return {"correction1": f.zeros((), dtype=dtype), "correction2": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if self.amsgrad else ()))
        return {name: f.zeros_like(parameter) for name in names}

    def advanced(self, shared: State) -> State:
        new = {
            name: beta * shared[name] + (1.0 - beta)
            for name, beta in zip(("correction1", "correction2"), self.betas, strict=True)
        }
        if "beta1" in shared:  # a schedule changes it, and the correction is that of the present one
            new["steps"] = shared["steps"] + 1.0
            new["correction1"] = -f.expm1(new["steps"] * f.log(shared["beta1"]))
        return new

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1: Any = shared["beta1"].astype(p.dtype) if "beta1" in shared else self.betas[0]
        beta2 = self.betas[1]
        if self.weight_decay and self.decoupled_weight_decay:
            p = p * (1.0 - lr * self.weight_decay)
        elif self.weight_decay:
            g = g + self.weight_decay * p
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * g
        square = beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (g * g)
        new = {"exp_avg": mean, "exp_avg_sq": square}
        if self.amsgrad:
            square = new["max_exp_avg_sq"] = f.maximum(state["max_exp_avg_sq"], square)
        correction1, correction2 = (shared[name].astype(p.dtype) for name in ("correction1", "correction2"))
        denominator = f.sqrt(square) / f.sqrt(correction2) + self.eps
        return p - (lr / correction1) * (mean / denominator), new


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself, not through the running means.

    Source: Loshchilov and Hutter (2019), arXiv:1711.05101, Algorithm 2, scaled by the learning rate as PyTorch does.
    """

    decoupled_weight_decay = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


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
    ) -> None:
        self.alpha = alpha
        self.eps = eps
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.centered = centered
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        names = ["square_avg"] + ["momentum_buffer"] * (self.momentum > 0) + ["grad_avg"] * self.centered
        return {name: f.zeros_like(parameter) for name in names}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay:
            g = g + self.weight_decay * p
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
    ) -> None:
        self.lr_decay = lr_decay
        self.weight_decay = weight_decay
        self.initial_accumulator_value = initial_accumulator_value
        self.eps = eps
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        return {"decay": f.full((), 1.0 - self.lr_decay, dtype=dtype)} if self.lr_decay else {}

    def state_of(self, parameter: Tensor) -> State:
        return {"sum": f.full_like(parameter, self.initial_accumulator_value)}

    def advanced(self, shared: State) -> State:
        return {"decay": shared["decay"] + self.lr_decay} if self.lr_decay else {}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay:
            g = g + self.weight_decay * p
        if self.lr_decay:
            lr = lr / shared["decay"].astype(p.dtype)
        total = state["sum"] + g * g
        return p - lr * (g / (f.sqrt(total) + self.eps)), {"sum": total}


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
