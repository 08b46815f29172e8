"""What all optimisers share: which parameters, the learning rate and state on the device, and the two ways to step.

An optimiser is its update rule: `state_of` makes what it keeps for a parameter, `shared_state` what it keeps once for
all, and `advanced` and `updated` compute the next of both. Everything that changes from step to step is a tensor on the
device, the learning rate included, so that a recorded step replays rightly. This module must not know any one rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vkgrad.composites import composite
from vkgrad.errors import DataError, DifferentiationError, OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.ir.dtypes import DType
from vkgrad.optim.parameters import named_parameters, with_gradients
from vkgrad.tensor import Tensor, asarray, tensor

State = dict[str, Tensor]
_OPTIONS = (bool, int, float, str, tuple, type(None))


class Optimizer:
    """Base of the optimisers.

    Args:
        params: a module, or any nesting of tensors, such as `model.parameters()`.
        lr: the learning rate. Assign to `optimizer.lr` to change it: a few bytes are uploaded and nothing is compiled.

    Raises:
        OptionError: there is no parameter, or an option is out of range.

    Example:
        >>> import vkgrad as vg
        >>> w = vg.tensor([1.0, 2.0])
        >>> optimizer = vg.optim.SGD(w, lr=0.25)
        >>> gradient = vg.grad(lambda w: (w * w).sum())(w)
        >>> optimizer.update(w, gradient)
        >>> w.tolist()
        [0.5, 1.0]
    """

    def __init__(self, params: Any, lr: float) -> None:
        self.params = named_parameters(params)
        if not self.params:
            raise OptionError(f"{type(self).__name__}: no parameter to update; pass a module or its parameters")
        widest = max((p.dtype.computed for p in self.params.values()), key=lambda dtype: dtype.size_bytes)
        self._lr_tensor = _scalar(lr, widest)
        self.lr = lr
        self._shared = self.shared_state(widest)
        self._state = {name: self.state_of(p) for name, p in self.params.items()}
        self._names = {id(p): name for name, p in self.params.items()}

    # ---- what a rule writes
    def shared_state(self, dtype: DType) -> State:
        """What this rule keeps once for all parameters, as it is before the first step; scalars of type `dtype`."""
        return {}

    def state_of(self, parameter: Tensor) -> State:
        """What this rule keeps for one parameter, as it is before the first step."""
        return {}

    def advanced(self, shared: State) -> State:
        """The shared state of the next step."""
        return shared

    def updated(self, p: Tensor, g: Tensor, state: State, shared: State, lr: Tensor) -> tuple[Tensor, State]:
        """Parameter `p` after a step along gradient `g`, and its new state. It may depend on this optimiser's options,
        its attributes that are numbers or texts, and on nothing else."""
        raise NotImplementedError(f"{type(self).__name__} has no update rule; write `updated`")

    def replay_key(self) -> tuple:
        """What a rule may depend on beside its tensors. The learning rate is one of them."""
        return tuple([value for name, value in vars(self).items() if name != "_lr" and isinstance(value, _OPTIONS)])

    # ---- stepping
    def update(self, params: Any, grads: Any) -> None:
        """Change `params` in place by the gradients that `grad` or `value_and_grad` returned for them.

        `params` is the module or nesting that this optimiser was made with, or a part of it; `grads` has the same
        nesting (for a module: a dict from names to gradients).

        Raises:
            ShapeError: the two do not belong together, or a tensor is not one of this optimiser's parameters.
        """
        gradients: dict[str, Tensor] = {}
        for p, gradient in with_gradients(params, grads):
            name = self._names.get(id(p))
            if name is None:
                raise ShapeError(f"update: a tensor of shape {p.shape} is not one that this optimiser was made with")
            gradients[name] = gradient
        self._step(gradients)

    def step(self) -> None:
        """Change the parameters in place by the gradients that `backward` left in `.grad`; those without stay.

        Raises:
            DifferentiationError: no parameter has a gradient.
        """
        gradients = {name: p.grad for name, p in self.params.items() if p.grad is not None}
        if not gradients:
            raise DifferentiationError("step: no parameter has a gradient; call backward() on the loss first")
        self._step(gradients)

    def zero_grad(self) -> None:
        """Forget the gradients that `backward` has left."""
        for p in self.params.values():
            p.grad = None

    def _step(self, gradients: Mapping[str, Tensor]) -> None:
        own = {name: self.params[name] for name in gradients}
        states = {name: self._state[name] for name in gradients}
        with no_grad():
            new, new_states, shared = self._after(own, dict(gradients), states, self._shared, self._lr_tensor)
            _replace(own, new)
            for name, state in new_states.items():
                _replace(self._state[name], state)
            _replace(self._shared, shared)

    @composite
    def _after(
        self, params: State, gradients: State, states: dict[str, State], shared: State, lr: Tensor
    ) -> tuple[State, dict[str, State], State]:
        """The parameters, their states and the shared state after a step: all of it in one piece, to be replayed."""
        shared = self.advanced(shared)
        rates = {p.dtype: lr.astype(p.dtype) for p in params.values()}
        new, new_states = {}, {}
        for name, p in params.items():
            new[name], new_states[name] = self.updated(p, gradients[name], states[name], shared, rates[p.dtype])
        return new, new_states, shared

    # ---- the learning rate, and state
    @property
    def lr(self) -> float:
        """The learning rate."""
        return self._lr

    @lr.setter
    def lr(self, value: float) -> None:
        if not value >= 0:
            raise OptionError(f"{type(self).__name__}: the learning rate must not be negative, got {value}")
        self._lr = float(value)
        self._lr_tensor.assign(_scalar(self._lr, self._lr_tensor.dtype))

    def state_dict(self) -> State:
        """Everything that a step reads beside the parameters, by name; the tensors are the optimiser's own."""
        own = {f"{name}.{kind}": t for name, state in self._state.items() for kind, t in state.items()}
        return {"lr": self._lr_tensor, **self._shared, **own}

    def state_tensors(self) -> list[Tensor]:
        """The tensors of `state_dict`, for whoever records a step."""
        return list(self.state_dict().values())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state into this optimiser's own tensors.

        Raises:
            DataError: the state is of another kind of optimiser, or of other parameters.
            ShapeError: a shape differs.
        """
        own = self.state_dict()
        if set(own) != set(state):
            different = ", ".join(sorted(set(own) ^ set(state)))
            raise DataError(f"load_state_dict: this {type(self).__name__} and the state differ in {different}")
        _replace(own, {name: asarray(value, own[name].dtype) for name, value in state.items()})
        self._lr = float(self._lr_tensor)

    def __repr__(self) -> str:
        count = sum(p.size for p in self.params.values())
        return f"{type(self).__name__}(lr={self.lr:g}, {len(self.params)} parameters with {count:,} elements)"


def _scalar(value: float, dtype: DType) -> Tensor:
    # From an array, not from a number: a number would be a literal in the kernel, and every new rate a new kernel.
    return tensor(np.asarray(value, dtype.numpy))


def _replace(own: State, new: State) -> None:
    """Give every tensor its new value; all of the new values were built from the old ones."""
    for name, value in new.items():
        if value._node is not own[name]._node:  # else the rule has left it as it was
            own[name].assign(value)
