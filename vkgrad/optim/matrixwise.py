"""Optimisers that look at a parameter as a matrix: its rows and columns, or its singular values."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class Adafactor(Optimizer):
    """Adam's second mean kept as its rows and columns, and steps in proportion to the parameter's own size.

    Args:
        lr: the most that the step's size is, in parts of the parameter's.
        beta2_decay: the mean square takes a part t ** beta2_decay of each new one at step t.
        eps: the least root of a mean square (the type's step from 1 if None), and the least size of a parameter.
        d: how large an update may be, its root mean square, before it is scaled down.
        weight_decay: shrinks the parameter by `lr * weight_decay` at each step.

    Source: Shazeer and Stern (2018), arXiv:1804.04235, Algorithms 4 and 5, as PyTorch has them.
    """

    decoupled_weight_decay = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        if beta2_decay > 0 or d < 1:
            raise OptionError(f"Adafactor: beta2_decay must be at most 0 and d at least 1, got {beta2_decay} and {d}")
        self.beta2_decay = beta2_decay
        self.eps = eps
        self.d = d
        self.weight_decay = weight_decay
        self.maximize = maximize
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        return {"steps": f.zeros((), dtype=dtype)}

    def state_of(self, parameter: Tensor) -> State:
        if parameter.ndim < 2:
            return {"variance": f.zeros_like(parameter)}
        *lead, rows, columns = parameter.shape
        return {
            "row_var": f.zeros((*lead, rows, 1), dtype=parameter.dtype),
            "col_var": f.zeros((*lead, 1, columns), dtype=parameter.dtype),
        }

    def advanced(self, shared: State) -> State:
        return {"steps": shared["steps"] + 1.0}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        steps = shared["steps"].astype(p.dtype)
        taken = f.exp(self.beta2_decay * f.log(steps))
        least = (2.0**-52 if p.dtype.name == "float64" else 2.0**-23) if self.eps[0] is None else self.eps[0]
        size = f.minimum(lr, f.rsqrt(steps)) * f.maximum(_root_mean_square(p), self.eps[1])
        means = {"row_var": -1, "col_var": -2} if p.ndim > 1 else {}
        square = {name: f.mean(g * g, axis=axis, keepdims=True) for name, axis in means.items()} or {"variance": g * g}
        new = {name: state[name] + taken * (now - state[name]) for name, now in square.items()}
        if p.ndim > 1:
            rows = new["row_var"]
            estimate = rows * new["col_var"] / f.maximum(f.mean(rows, axis=-2, keepdims=True), least)
        else:
            estimate = new["variance"]
        update = g * f.rsqrt(f.maximum(estimate, least * least))
        size = size / f.maximum(_root_mean_square(update) / self.d, 1.0)
        p, _ = self.decayed(p, g, lr)
        return p - size * update, new


def _root_mean_square(x: Tensor) -> Tensor:
    return f.sqrt(f.mean(x * x))


class Muon(Optimizer):
    """Momentum whose matrix is brought close to an orthogonal one before each step; for the matrices of hidden layers.

    Args:
        momentum: how much of the running mean of gradients stays.
        nesterov: look ahead along the momentum.
        ns_coefficients, ns_steps: of the polynomial that brings singular values near 1, and how often it is applied.
        eps: the least length of a matrix that it is divided by.
        weight_decay: shrinks the parameter by `lr * weight_decay` at each step.
        adjust_lr_fn: None or "original" multiplies the rate by sqrt(max(1, rows / columns)); "match_rms_adamw" by
            0.2 * sqrt(max(rows, columns)), which makes steps as large as AdamW's.

    It computes in the parameter's type, where PyTorch rounds the matrix to bfloat16.

    Source: Jordan et al. (2024), Muon: an optimizer for hidden layers in neural networks.

    Raises:
        OptionError: a parameter is no matrix, or there is no such adjustment.
    """

    decoupled_weight_decay = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise OptionError(f'Muon: adjust_lr_fn must be "original" or "match_rms_adamw", got {adjust_lr_fn!r}')
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.nesterov = nesterov
        self.ns_coefficients = tuple(ns_coefficients)
        self.eps = eps
        self.ns_steps = ns_steps
        self.adjust_lr_fn = adjust_lr_fn
        super().__init__(params, lr)

    def state_of(self, parameter: Tensor) -> State:
        if parameter.ndim != 2:
            raise OptionError(
                f"Muon: takes matrices, got a parameter of shape {parameter.shape}; give the others to AdamW"
            )
        return {"momentum_buffer": f.zeros_like(parameter)}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        momentum = shared["momentum"].astype(p.dtype) if "momentum" in shared else self.momentum
        buffer = state["momentum_buffer"] + (1.0 - momentum) * (g - state["momentum_buffer"])
        step = self._orthogonalised(g + momentum * (buffer - g) if self.nesterov else buffer)
        rows, columns = p.shape
        like_adamw = self.adjust_lr_fn == "match_rms_adamw"
        factor = 0.2 * max(rows, columns) ** 0.5 if like_adamw else max(1, rows / columns) ** 0.5
        p, _ = self.decayed(p, g, lr)
        return p - lr * factor * step, {"momentum_buffer": buffer}

    def _orthogonalised(self, x: Tensor) -> Tensor:
        a, b, c = self.ns_coefficients
        is_tall = x.shape[0] > x.shape[1]
        x = x.T if is_tall else x
        x = x / f.maximum(f.sqrt(f.sum(x * x)), self.eps)
        for _ in range(self.ns_steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        return x.T if is_tall else x
