"""L-BFGS: Newton's steps, with the curvature learnt from the last steps and gradients.

Vectors stay on the device; what is read are the few numbers that decide how to go on. This module must not know what is
minimised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError, UnsupportedError
from vkgrad.history import no_grad
from vkgrad.optim.groups import State, scalar
from vkgrad.optim.line_search import Point, strong_wolfe
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.parameters import named_parameters
from vkgrad.tensor import Tensor, asarray

LEAST_CURVATURE = 1e-10  # a pair of step and change with a smaller product says nothing


@dataclass
class _Memory:
    """What is known of the last steps, flat: (N,) each."""

    gradient: Tensor  # where the last step began
    step: Tensor
    scale: Tensor  # of the first guess of the inverse curvature
    changes: list[Tensor] = field(default_factory=list)  # of the gradient
    steps: list[Tensor] = field(default_factory=list)
    inverses: list[Tensor] = field(default_factory=list)  # 1 / (change . step)


class LBFGS(Optimizer):
    """Steps of Newton's method, whose curvature comes from the last `history_size` steps; `step(closure)` takes some.

    Call `step` with a function without arguments that computes the loss anew: it calls `backward` and returns the loss,
    as in PyTorch, or returns what `value_and_grad` does. For smooth losses of all data, not of random batches.

    Args:
        max_iter: how many steps a call of `step` takes at most.
        max_eval: how often it calls the function at most; 5 / 4 of `max_iter` if None.
        tolerance_grad: stop where no element of the gradient is larger.
        tolerance_change: stop where neither the loss nor a parameter changes by more.
        line_search_fn: "strong_wolfe", or None for steps of length `lr`.

    Source: Nocedal and Wright (2006), Numerical Optimization, Algorithms 7.4 and 7.5.

    Raises:
        OptionError: an option that there is not, or a second group of parameters.

    Example:
        >>> import vkgrad as vg
        >>> w = vg.tensor([3.0, -4.0])
        >>> optimizer = vg.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> loss = vg.value_and_grad(lambda params: ((params[0] - vg.tensor([1.0, 2.0])) ** 2).sum())
        >>> _ = optimizer.step(lambda: loss([w]))
        >>> [round(x, 4) for x in w.tolist()]
        [1.0, 2.0]
    """

    open_state = True  # a checkpoint holds as many steps as there were

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise OptionError(f'LBFGS: line_search_fn must be "strong_wolfe" or None, not {line_search_fn!r}')
        if max_iter < 1 or history_size < 1:
            raise OptionError(f"LBFGS: max_iter and history_size must be positive, got {max_iter} and {history_size}")
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad = tolerance_grad
        self.tolerance_change = tolerance_change
        self.history_size = history_size
        self.line_search_fn = line_search_fn
        super().__init__(params, lr)
        self._memory: _Memory | None = None

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        if self.param_groups:
            raise OptionError("LBFGS: its steps are of all parameters together; there is one group only")
        super().add_param_group(param_group)

    def update(self, params: Any, grads: Any) -> None:
        raise UnsupportedError("LBFGS: needs the loss at other places too; call step(closure) instead of update")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` steps, and return the loss before the first of them."""
        if closure is None:
            raise OptionError("LBFGS: step needs a function that computes the loss anew: step(closure)")
        before, now = self._evaluated(closure)
        calls = 1
        for taken in range(1, self.max_iter + 1):
            if _largest(now.gradient) <= self.tolerance_grad:
                break
            with no_grad():
                t = self.lr
                if self._memory is None:
                    direction = -now.gradient
                    t *= min(1.0, 1.0 / float(f.sum(f.abs(now.gradient))))
                    self._memory = _Memory(now.gradient, direction, f.ones_like(now.gradient[0]))
                else:
                    self._remember(now.gradient, self._memory)
                    direction = _towards_minimum(now.gradient, self._memory)
                slope = float(f.sum(now.gradient * direction))
                self._memory.step = direction * self._scalar(t)
            if slope > -self.tolerance_change:
                break
            last = now
            if self.line_search_fn is None:
                self._place(self._origin(), self._memory.step)
                called = int(taken < self.max_iter)  # after the last step nobody asks
                now = self._evaluated(closure)[1] if called else now
            else:
                now, called = self._searched(closure, now, direction, slope, t, self.max_eval - calls)
            calls += called
            change = _largest(self._memory.step)
            if calls >= self.max_eval or change <= self.tolerance_change:
                break
            if abs(now.value - last.value) < self.tolerance_change:
                break
        return before

    def _searched(
        self, closure: Callable[[], Any], start: Point, direction: Tensor, slope: float, t: float, most: int
    ) -> tuple[Point, int]:
        """Go along a direction to where the line search says: the point there, and how often the loss was computed."""
        assert self._memory is not None
        origin = self._origin()

        def at(t: float) -> Point:
            self._place(origin, direction * self._scalar(t))
            _, found = self._evaluated(closure)
            return Point(t, found.value, found.gradient, float(f.sum(found.gradient * direction)))

        first = Point(0.0, start.value, start.gradient, slope)
        found, calls = strong_wolfe(at, first, t, _largest(direction), self.tolerance_change, most)
        self._memory.step = direction * self._scalar(found.t)
        self._place(origin, self._memory.step)
        return found, calls

    def _origin(self) -> State:
        return {name: Tensor(p.node) for name, p in self.params.items()}

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[Any, Point]:
        """The loss as the closure returns it, and as a point."""
        result = closure()
        if isinstance(result, tuple):
            result, given = result
            gradients = named_parameters(given)
        else:
            gradients = {name: p.grad for name, p in self.params.items() if p.grad is not None}
        parts = [gradients[name].detach() if name in gradients else f.zeros_like(p) for name, p in self.params.items()]
        with no_grad():
            flat = f.concat([f.reshape(part, (-1,)) for part in parts])
            return result, Point(0.0, float(result), flat, 0.0)

    def _place(self, origin: State, step: Tensor) -> None:
        """Set the parameters to where they were, moved by a step."""
        with no_grad():
            first = 0
            for name, p in self.params.items():
                p.assign(origin[name] + f.reshape(step[first : first + p.size], p.shape).astype(p.dtype))
                first += p.size

    def _remember(self, gradient: Tensor, memory: _Memory) -> None:
        """Learn the curvature along the last step from how the gradient has changed."""
        change, step = gradient - memory.gradient, memory.step
        memory.gradient = gradient
        curvature = f.sum(change * step)
        if float(curvature) <= LEAST_CURVATURE:
            return
        for known, new in (
            (memory.changes, change), (memory.steps, step), (memory.inverses, 1.0 / curvature),
        ):  # fmt: skip
            if len(known) == self.history_size:
                known.pop(0)
            known.append(new)
        memory.scale = curvature / f.sum(change * change)

    def _scalar(self, value: float) -> Tensor:
        return scalar(value, self.param_groups[0].dtype)

    # ---- state
    def state_dict(self) -> State:
        """The learning rate and what is known of the last steps, once there were any."""
        found, memory = super().state_dict(), self._memory
        if memory is not None:
            found |= {"prev_flat_grad": memory.gradient, "prev_step": memory.step, "H_diag": memory.scale}
            kept = {"old_dirs": memory.changes, "old_stps": memory.steps, "ro": memory.inverses}
            found |= {name: f.stack(tensors) for name, tensors in kept.items() if tensors}
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._memory = None
        super().load_state_dict({"lr": state["lr"]})
        if "prev_step" in state:
            gradient, step, scale = (asarray(state[name]) for name in ("prev_flat_grad", "prev_step", "H_diag"))
            changes, steps, inverses = (list(asarray(state.get(name, ()))) for name in ("old_dirs", "old_stps", "ro"))
            self._memory = _Memory(gradient, step, scale, changes, steps, inverses)


def _largest(x: Tensor) -> float:
    return float(f.max(f.abs(x)))


def _towards_minimum(gradient: Tensor, memory: _Memory) -> Tensor:
    """Minus the gradient times the inverse curvature: two loops over the pairs that are known."""
    pairs = list(zip(memory.changes, memory.steps, memory.inverses, strict=True))
    direction, shares = -gradient, []
    for change, step, inverse in reversed(pairs):
        shares.append(f.sum(step * direction) * inverse)
        direction = direction - shares[-1] * change
    direction = direction * memory.scale
    for (change, step, inverse), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - f.sum(change * direction) * inverse) * step
    return direction
