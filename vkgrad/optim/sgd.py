"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.optim.optimizer import Optimizer, State
from vkgrad.tensor import Tensor


class SGD(Optimizer):
    """Step against the gradient: buffer = momentum * buffer + (1 - dampening) * g, and p = p - lr * buffer.

    The first step takes the gradient whole into the buffer, whatever the dampening.

    Args:
        momentum: how much of the previous step stays; 0 keeps no buffer.
        dampening: how much of each later gradient is left out of the buffer.
        weight_decay: adds `weight_decay * p` to the gradient.
        nesterov: look ahead along the momentum; needs momentum without dampening.

    Source: Sutskever, Martens, Dahl and Hinton (2013), On the importance of initialization and momentum, in the form
    that PyTorch's documentation states.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise OptionError("SGD: nesterov needs momentum above 0 and dampening 0")
        self.momentum = momentum
        self.dampening = dampening if momentum else 0.0
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.maximize = maximize
        super().__init__(params, lr)

    def shared_state(self, dtype: DType) -> State:
        # The first step differs from the others, so what a step leaves out is state and not a number in its kernel. It
        # climbs from -dampening to 0 at the first step, to dampening at the second, and stays there.
        return {"dampening": f.full((), -self.dampening, dtype=dtype)} if self.dampening else {}

    def state_of(self, parameter: Tensor) -> State:
        return {"momentum_buffer": f.zeros_like(parameter)} if self.momentum else {}

    def advanced(self, shared: State) -> State:
        if not self.dampening:
            return {}
        return {"dampening": f.minimum(shared["dampening"] + self.dampening, self.dampening)}

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        p, g = self.decayed(p, g, lr)
        if not self.momentum:
            return p - lr * g, {}
        momentum = shared["momentum"].astype(p.dtype) if "momentum" in shared else self.momentum
        kept = g * (1.0 - shared["dampening"].astype(g.dtype)) if self.dampening else g
        buffer = momentum * state["momentum_buffer"] + kept
        return p - lr * (g + momentum * buffer if self.nesterov else buffer), {"momentum_buffer": buffer}
