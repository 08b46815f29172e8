"""Adam and its relatives: steps from running means of the gradient and of its square.

Arguments and defaults are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class _Moments(Optimizer):
    """What all of them share: the options, and the means with weight decay, which is in the parameter or the gradient.

    Args:
        betas: how much of the two running means stays at each step.
        eps: added to the root of the second.
        weight_decay: adds `weight_decay * p` to the gradient.
    """

    def __init__(
        self, params: Any, lr: float, betas: tuple[float, float], eps: float, weight_decay: float, maximize: bool
    ) -> None:
        if not isinstance(betas, Iterable) or not all(0 <= beta < 1 for beta in betas):
            raise OptionError(f"{type(self).__name__}: betas must be two numbers, at least 0 and below 1, got {betas}")
        self.betas = tuple(betas)
        self.eps = eps
        self.weight_decay = weight_decay
        self.maximize = maximize
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter), "exp_avg_sq": f.zeros_like(parameter)}

    def means(self, g: Tensor, state: State, beta1: Any) -> State:
        """The two running means after gradient `g`."""
        beta2 = self.betas[1]
        return {
            "exp_avg": beta1 * state["exp_avg"] + (1.0 - beta1) * g,
            "exp_avg_sq": beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (g * g),
        }


class Adam(_Moments):
    """Steps scaled by running means of the gradient and of its square, both corrected for starting at zero.

    Args:
        betas: how much of the two running means stays at each step.
        eps: added to the root of the second.
        weight_decay: adds `weight_decay * p` to the gradient.
        amsgrad: divide by the largest mean square so far instead of the present one.
        decoupled_weight_decay: shrink the parameter itself by `lr * weight_decay`, as AdamW does.

    Source: Kingma and Ba (2015), arXiv:1412.6980, Algorithm 1; amsgrad: Reddi, Kale and Kumar (2018), arXiv:1904.09237.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self.amsgrad = amsgrad
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay, maximize)

    def shared_state(self, dtype: DType) -> State:
        # 1 - beta**t, carried from step to step as beta * c + (1 - beta). Computing the power would lose digits: in
        # single precision 1 - 0.999 is already wrong by 1e-5, and with GLSL's pow by more.
        return {"correction1": f.zeros((), dtype=dtype), "correction2": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        largest = {"max_exp_avg_sq": f.zeros_like(parameter)} if self.amsgrad else {}
        return super().state_of(parameter) | largest

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
        p, g = self.decayed(p, g, lr)
        new = self.means(g, state, beta1)
        square = new["exp_avg_sq"]
        if self.amsgrad:
            square = new["max_exp_avg_sq"] = f.maximum(state["max_exp_avg_sq"], square)
        correction1, correction2 = (shared[name].astype(p.dtype) for name in ("correction1", "correction2"))
        denominator = f.sqrt(square) / f.sqrt(correction2) + self.eps
        return p - (lr / correction1) * (new["exp_avg"] / denominator), new


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself, not through the running means.

    Source: Loshchilov and Hutter (2019), arXiv:1711.05101, Algorithm 2, scaled by the learning rate as PyTorch does.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True)


class Adamax(_Moments):
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
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize)

    def shared_state(self, dtype: DType) -> State:
        return {"correction": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        return {"exp_avg": f.zeros_like(parameter), "exp_inf": f.zeros_like(parameter)}

    def advanced(self, shared: State) -> State:
        return {"correction": self.betas[0] * shared["correction"] + (1.0 - self.betas[0])}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta1, beta2 = self.betas
        p, g = self.decayed(p, g, lr)
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * g
        largest = f.maximum(beta2 * state["exp_inf"], f.abs(g) + self.eps)
        return p - (lr / shared["correction"].astype(p.dtype)) * (mean / largest), {
            "exp_avg": mean,
            "exp_inf": largest,
        }


class NAdam(_Moments):
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
        *,
        maximize: bool = False,
    ) -> None:
        self.momentum_decay = momentum_decay
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay, maximize)

    def shared_state(self, dtype: DType) -> State:
        one = f.ones((), dtype=dtype)
        return {"decay": one, "mu_product": f.ones((), dtype=dtype), "correction2": f.zeros((), dtype=dtype)}

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
        p, g = self.decayed(p, g, lr)
        new = self.means(g, state, self.betas[0])
        mean, square = new["exp_avg"], new["exp_avg_sq"]
        decay, product, correction2 = (shared[name].astype(p.dtype) for name in ("decay", "mu_product", "correction2"))
        now, following = self._amount(decay), self._amount(decay * 0.96**self.momentum_decay)
        denominator = f.sqrt(square / correction2) + self.eps
        p = p - (lr * (1.0 - now) / (1.0 - product)) * (g / denominator)
        p = p - (lr * following / (1.0 - product * following)) * (mean / denominator)
        return p, new


class RAdam(_Moments):
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
        *,
        maximize: bool = False,
    ) -> None:
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay, maximize)

    def shared_state(self, dtype: DType) -> State:
        # The paper's rho is 2 / (1 - beta) - 1 - 2 t beta^t / (1 - beta^t), where two numbers near 2000 cancel. With
        # S = 1 + beta + ... + beta^(t-1) and D = 1 + 2 beta + ... + t beta^(t-1) it is 2 D / S - 1, which does not.
        return {name: f.zeros((), dtype=dtype) for name in ("correction1", "powers", "counted_powers")}

    def advanced(self, shared: State) -> State:
        beta1, beta2 = self.betas
        powers = 1.0 + beta2 * shared["powers"]
        return {
            "correction1": beta1 * shared["correction1"] + (1.0 - beta1),
            "powers": powers,
            "counted_powers": powers + beta2 * shared["counted_powers"],
        }

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        beta2 = self.betas[1]
        p, g = self.decayed(p, g, lr)
        new = self.means(g, state, self.betas[0])
        mean, square = new["exp_avg"], new["exp_avg_sq"]
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
        return p - lr * step, new
