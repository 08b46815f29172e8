"""Relatives of Adam, with PyTorch's arguments and defaults."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


def _betas(name: str, betas: tuple[float, float]) -> tuple[float, float]:
    if not all(0 <= beta < 1 for beta in betas):
        raise OptionError(f"{name}: betas must be at least 0 and below 1, got {betas}")
    return tuple(betas)  # type: ignore[return-value]


class Adamax(Optimizer):
    """Adam with a decaying maximum of gradients in place of the root of their mean square.

    Args:
        betas: how much of the mean, and of the maximum, stays at each step.
        eps: added to the gradient's size.
        weight_decay: adds `weight_decay * p` to the gradient.

    Source: Kingma and Ba (2015), arXiv:1412.6980, Algorithm 2.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas = _betas("Adamax", betas)
        self.eps = eps
        self.weight_decay = weight_decay
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        return {"correction": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter), "exp_inf": f.zeros_like(parameter)}

    def advanced(self, shared: State) -> State:
        return {"correction": self.betas[0] * shared["correction"] + (1.0 - self.betas[0])}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        if self.weight_decay:
            g = g + self.weight_decay * p
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * g
        largest = f.maximum(beta2 * state["exp_inf"], f.abs(g) + self.eps)
        return p - (lr / shared["correction"].astype(p.dtype)) * (mean / largest), {
            "exp_avg": mean,
            "exp_inf": largest,
        }


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, whose amount grows from step to step.

    Args:
        momentum_decay: the amount at step t is `betas[0] * (1 - 0.96 ** (t * momentum_decay) / 2)`.
        decoupled_weight_decay: shrink the parameter itself by `lr * weight_decay`, as AdamW does.

    Source: Dozat (2016), Incorporating Nesterov momentum into Adam, Algorithm 2.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self.betas = _betas("NAdam", betas)
        self.eps = eps
        self.weight_decay = weight_decay
        self.momentum_decay = momentum_decay
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        one = f.ones((), dtype=dtype)
        return {"decay": one, "mu_product": f.ones((), dtype=dtype), "correction2": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter), "exp_avg_sq": f.zeros_like(parameter)}

    def _amount(self, decay: Tensor) -> Tensor:
        return self.betas[0] * (1.0 - 0.5 * decay)

    def advanced(self, shared: State) -> State:
        beta2 = self.betas[1]
        decay = shared["decay"] * 0.96**self.momentum_decay
        return {
            "decay": decay,
            "mu_product": shared["mu_product"] * self._amount(decay),
            "correction2": beta2 * shared["correction2"] + (1.0 - beta2),
        }

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        if self.weight_decay and self.decoupled_weight_decay:
            p = p * (1.0 - lr * self.weight_decay)
        elif self.weight_decay:
            g = g + self.weight_decay * p
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * g
        square = beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (g * g)
        decay, product, correction2 = (shared[name].astype(p.dtype) for name in ("decay", "mu_product", "correction2"))
        now, following = self._amount(decay), self._amount(decay * 0.96**self.momentum_decay)
        denominator = f.sqrt(square / correction2) + self.eps
        p = p - (lr * (1.0 - now) / (1.0 - product)) * (g / denominator)
        p = p - (lr * following / (1.0 - product * following)) * (mean / denominator)
        return p, {"exp_avg": mean, "exp_avg_sq": square}


class RAdam(Optimizer):
    """Adam that divides by the root of the mean square only once enough steps make that trustworthy.

    Args:
        decoupled_weight_decay: shrink the parameter itself by `lr * weight_decay`, as AdamW does.

    Source: Liu et al. (2020), arXiv:1908.03265, Algorithm 2.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self.betas = _betas("RAdam", betas)
        self.eps = eps
        self.weight_decay = weight_decay
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        # The paper's rho is 2 / (1 - beta) - 1 - 2 t beta^t / (1 - beta^t), where two numbers near 2000 cancel. With
        # S = 1 + beta + ... + beta^(t-1) and D = 1 + 2 beta + ... + t beta^(t-1) it is 2 D / S - 1, which does not.
        return {name: f.zeros((), dtype=dtype) for name in ("correction1", "powers", "counted_powers")}

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter), "exp_avg_sq": f.zeros_like(parameter)}

    def advanced(self, shared: State) -> State:
        beta1, beta2 = self.betas
        powers = 1.0 + beta2 * shared["powers"]
        return {
            "correction1": beta1 * shared["correction1"] + (1.0 - beta1),
            "powers": powers,
            "counted_powers": powers + beta2 * shared["counted_powers"],
        }

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        if self.weight_decay and self.decoupled_weight_decay:
            p = p * (1.0 - lr * self.weight_decay)
        elif self.weight_decay:
            g = g + self.weight_decay * p
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * g
        square = beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (g * g)
        correction1, powers, counted = (
            shared[name].astype(p.dtype) for name in ("correction1", "powers", "counted_powers")
        )
        most = 2.0 / (1.0 - beta2) - 1.0
        rho = 2.0 * counted / powers - 1.0
        enough = rho > 5.0
        rest = f.where(enough, rho, 5.0)
        part = (rest - 4.0) * (rest - 2.0) * (most / ((most - 4.0) * (most - 2.0))) / rest
        scale = f.sqrt(part * powers * (1.0 - beta2)) / (f.sqrt(square) + self.eps)
        step = f.where(enough, scale, 1.0) * (mean / correction1)
        return p - lr * step, {"exp_avg": mean, "exp_avg_sq": square}


class Adadelta(Optimizer):
    """Steps whose size comes from the sizes of the steps before, divided by those of the gradients.

    Args:
        rho: how much of the two running means stays at each step.
        eps: added under both roots.
        weight_decay: adds `weight_decay * p` to the gradient.

    Source: Zeiler (2012), arXiv:1212.5701, Algorithm 1.
    """

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0
    ) -> None:
        if not 0 <= rho <= 1:
            raise OptionError(f"Adadelta: rho must be from 0 to 1, got {rho}")
        self.rho = rho
        self.eps = eps
        self.weight_decay = weight_decay
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        return {"square_avg": f.zeros_like(parameter), "acc_delta": f.zeros_like(parameter)}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        if self.weight_decay:
            g = g + self.weight_decay * p
        square = self.rho * state["square_avg"] + (1.0 - self.rho) * (g * g)
        delta = f.sqrt(state["acc_delta"] + self.eps) / f.sqrt(square + self.eps) * g
        steps = self.rho * state["acc_delta"] + (1.0 - self.rho) * (delta * delta)
        return p - lr * delta, {"square_avg": square, "acc_delta": steps}
