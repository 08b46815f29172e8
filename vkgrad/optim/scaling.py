"""Loss scaling: gradients too small for half precision are computed from a larger loss, and brought back after.

This module must not know which gradients are halves: it scales what it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad import tree
from vkgrad.errors import DataError, DifferentiationError, OptionError
from vkgrad.history import no_grad
from vkgrad.optim.optimizer import Optimizer
from vkgrad.tensor import Tensor, asarray, tensor


class GradScaler:
    """Scale the loss by a factor that is as large as the gradients allow.

    A step whose gradients overflow changes nothing and halves the factor; `growth_interval` good steps in a row double
    it. Factor and decision are tensors on the device, and skipping is a choice of each element: nothing is read back,
    and `vg.jit` records a whole step.

    Args:
        init_scale: the factor to begin with.
        growth_factor: what the factor is multiplied by after `growth_interval` steps without overflow.
        backoff_factor: what it is multiplied by after an overflow.
        enabled: whether to do anything at all.

    Raises:
        OptionError: an option is out of range.

    Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2; the names are PyTorch's.

    Example:
        >>> import vkgrad as vg
        >>> w = vg.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer, scaler = vg.optim.SGD(w, lr=0.25), vg.optim.GradScaler(init_scale=1024.0)
        >>> scaler.scale((w * w).sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.tolist()
        [0.5, 1.0]
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not init_scale > 0 or not growth_factor >= 1 or not 0 < backoff_factor <= 1 or growth_interval < 1:
            raise OptionError(
                f"GradScaler: needs init_scale > 0, growth_factor >= 1, 0 < backoff_factor <= 1 and growth_interval >= "
                f"1, got {init_scale}, {growth_factor}, {backoff_factor} and {growth_interval}"
            )
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval, self.enabled = growth_interval, enabled
        self._scale = tensor(np.array(init_scale, np.float32))
        self._good_steps = tensor(np.array(0, np.int32))
        self._overflow = tensor(np.array(False))
        self._unscaled: set[int] = set()  # optimisers whose gradients are brought back already

    def scale(self, outputs: Any) -> Any:
        """The loss, or a nesting of losses, times the factor (in float32, which holds it)."""
        if not self.enabled:
            return outputs
        leaves, structure = tree.flatten(outputs)
        return structure.unflatten([loss * self._scale for loss in leaves])

    def unscale(self, grads: Any) -> Any:
        """Gradients as `grad` returns them, divided by the factor; remembers whether one is not finite."""
        if not self.enabled:
            return grads
        leaves, structure = tree.flatten(grads)
        with no_grad():
            inverse = 1.0 / self._scale
            brought_back = [(g.astype(g.dtype.computed) * inverse).astype(g.dtype) for g in leaves]
            overflow = self._overflow
            for g in leaves:
                overflow = f.logical_or(overflow, f.any(f.logical_not(f.isfinite(g))))
            self._overflow.assign(overflow)
        return structure.unflatten(brought_back)

    def unscale_(self, optimizer: Optimizer) -> None:
        """The same for what `backward` has left in `.grad`, before clipping for example; `step` does it otherwise.

        Raises:
            DifferentiationError: it was done since the last `update`.
        """
        if id(optimizer) in self._unscaled:
            raise DifferentiationError("unscale_: these gradients were unscaled since the last update()")
        self._unscaled.add(id(optimizer))
        with_gradient = [p for p in optimizer.params.values() if p.grad is not None]
        for p, g in zip(with_gradient, self.unscale([p.grad for p in with_gradient]), strict=True):
            p.grad = g

    def step(self, optimizer: Optimizer, params: Any = None, grads: Any = None) -> None:
        """Take the optimiser's step, unless a gradient is not finite: then nothing changes.

        Without `grads`, by what `backward` has left; else by gradients that `unscale` has returned, for `params`.
        """
        if not self.enabled:
            optimizer.step() if grads is None else optimizer.update(params, grads)
            return
        if grads is None and id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        kept = [*optimizer.params.values(), *optimizer.state_tensors()]
        before = [Tensor(t.node) for t in kept]
        optimizer.step() if grads is None else optimizer.update(params, grads)
        with no_grad():
            for t, old in zip(kept, before, strict=True):
                if t.node is not old.node:
                    t.assign(f.where(self._overflow, old, Tensor(t.node)))

    def update(self) -> None:
        """Choose the next factor, once all steps with this one are taken."""
        self._unscaled.clear()
        if not self.enabled:
            return
        with no_grad():
            good = self._good_steps + 1
            grows = good >= self.growth_interval
            grown = f.where(grows, self._scale * self.growth_factor, self._scale)
            # A factor beyond float32 would make every gradient infinite for good.
            grown = f.where(f.isfinite(grown), grown, self._scale)
            overflow = Tensor(self._overflow.node)
            self._scale.assign(f.where(overflow, self._scale * self.backoff_factor, grown))
            self._good_steps.assign(f.where(f.logical_or(overflow, grows), 0, good))
            self._overflow.assign(f.zeros_like(overflow))

    def get_scale(self) -> float:
        """The factor now; reads it from the device."""
        return float(self._scale) if self.enabled else 1.0

    def state_dict(self) -> dict[str, Tensor]:
        """What must be saved to go on later."""
        return {"scale": self._scale, "good_steps": self._good_steps}

    def state_tensors(self) -> list[Tensor]:
        """The tensors that a recorded step reads."""
        return [self._scale, self._good_steps, self._overflow]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            DataError: it is the state of something else.
        """
        own = self.state_dict()
        if set(state) != set(own):
            raise DataError(f"load_state_dict: a GradScaler has {', '.join(own)}, the state has {', '.join(state)}")
        for name, t in own.items():
            t.assign(asarray(state[name], t.dtype))
