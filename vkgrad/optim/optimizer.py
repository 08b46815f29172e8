"""What all optimisers share: which parameters, the learning rate and state on the device, and the two ways to step.

An optimiser is its update rule: `state_of` makes what it keeps for a parameter, `shared_state` what it keeps once for
all, and `advanced` and `updated` compute the next of both. Everything that changes from step to step is a tensor on the
device, the learning rate included, so that a recorded step replays rightly. This module must not know any one rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from vkgrad import engine
from vkgrad.checked import Checked
from vkgrad.composites import composite
from vkgrad.errors import DataError, DifferentiationError, OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.ir.dtypes import DType
from vkgrad.optim.groups import ParameterGroup, State, described
from vkgrad.optim.parameters import named_parameters, with_gradients
from vkgrad.spelling import KEYWORDS, listed, meant
from vkgrad.tensor import Tensor, asarray

# No options of a rule.
_OWN = ("lr", "params", "defaults", "param_groups", "_options", "_state", "_names")


class Optimizer(Checked):
    """Base of the optimisers.

    Args:
        params: a module, or any nesting of tensors, such as `model.parameters()`; or a list of dicts, parameter groups
            with options of their own: `[{"params": a}, {"params": b, "lr": 0.01}]`.
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

    # Options that many rules have, and what they are where one has them not.
    maximize: bool = False  # climb instead of descend
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False

    def __init__(self, params: Any, lr: float) -> None:
        self._options = tuple(vars(self))
        self.params: dict[str, Tensor] = {}
        self._state: dict[str, State] = {}
        self._names: dict[int, str] = {}
        self.defaults = {"lr": lr, **{name: getattr(self, name) for name in self._options}}
        self.param_groups: list[ParameterGroup] = []
        for group in described(type(self).__name__, params):
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Update more parameters from now on: `{"params": ..., "lr": ..., ...}`; what is left out is as for the rest.

        Raises:
            OptionError: there is no parameter, one is in a group already, or the optimiser has no such option.
        """
        given = {name: value for name, value in param_group.items() if name != "params"}
        if unknown := given.keys() - self.defaults.keys():
            near = "; ".join(filter(None, (meant(name, self.defaults, KEYWORDS) for name in sorted(unknown))))
            known = f"it takes {', '.join(self.defaults)}"
            raise OptionError(
                f"{type(self).__name__}: a group has no option {', '.join(sorted(unknown))}; {near or known}"
            )
        number = len(self.param_groups)
        found = named_parameters(param_group["params"])
        found = {f"group{number}.{name}" if number else name: p for name, p in found.items()}
        if not found:
            raise OptionError(f"{type(self).__name__}: no parameter to update; pass a module or its parameters")
        if twice := [name for name, p in found.items() if id(p) in self._names]:
            raise OptionError(f"{type(self).__name__}: {twice[0]} is in a group already")
        # The first group's rule is the optimiser itself; others are like it but for their options.
        rule = copy(self) if number else self
        for name, value in {**self.defaults, **given}.items():
            if name != "lr":
                setattr(rule, name, value)
        group = ParameterGroup(rule, found, given.get("lr", self.defaults["lr"]), self._options)
        self.param_groups.append(group)
        engine.renamed()
        self.params.update(found)
        self._state.update({name: rule.state_of(p) for name, p in found.items()})
        self._names.update({id(p): name for name, p in found.items()})

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
        its attributes, and on nothing else; one that is no number, text or nesting of these makes every step slower."""
        raise NotImplementedError(f"{type(self).__name__} has no update rule; write `updated`")

    def decayed(self, p: Tensor, g: Tensor, lr: Tensor) -> tuple[Tensor, Tensor]:
        """Parameter and gradient with weight decay, which is in the parameter itself if it is decoupled."""
        if not self.weight_decay:
            return p, g
        if self.decoupled_weight_decay:
            return p * (1.0 - lr * self.weight_decay), g
        return p, g + self.weight_decay * p

    def relied_on(self) -> dict[str, Any]:
        """What a rule may depend on beside its tensors. The learning rate is one of them."""
        return {name: value for name, value in vars(self).items() if name not in _OWN}

    def replay_key(self) -> tuple:
        return tuple(self.relied_on().values())

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name not in _OWN:
            engine.renamed()

    # ---- stepping
    def update(self, params: Any, grads: Any) -> None:
        """Change `params` in place by the gradients that `grad` or `value_and_grad` returned for them.

        `params` is the module or nesting that this optimiser was made with, or a part of it; `grads` has the same
        nesting (for a module: a dict from names to gradients).

        Raises:
            ShapeError: the two do not belong together, or a tensor is not one of this optimiser's parameters.
        """
        gradients: dict[str, Tensor] = {}
        for place, p, gradient in with_gradients(params, grads):
            name = self._names.get(id(p))
            if name is None:
                kind = type(self).__name__
                raise ShapeError(
                    f"update: {place} {p.shape} is none of the parameters that this {kind} was made with; make one for "
                    "this model"
                )
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
        if (trace := engine.tracing()) is not None:
            trace.uses(self, _groups_of)
        with no_grad():
            for group in self.param_groups:
                own = {name: p for name, p in group.params.items() if name in gradients}
                if not own:
                    continue
                group.assume()
                states = {name: self._state[name] for name in own}
                given = {name: gradients[name] for name in own}
                new, new_states, shared = group.rule._after(own, given, states, group.shared, group.lr_tensor)
                _replace(own, new)
                for name, state in new_states.items():
                    _replace(self._state[name], state)
                _replace(group.shared, shared)
        engine.stepped()

    @composite
    def _after(
        self, params: State, gradients: State, states: dict[str, State], shared: State, lr: Tensor
    ) -> tuple[State, dict[str, State], State]:
        """The parameters, their states and the shared state after a step: all of it in one piece, to be replayed."""
        shared = {**shared, **self.advanced(shared)}
        rates = {p.dtype: lr.astype(p.dtype) for p in params.values()}
        new, new_states = {}, {}
        for name, p in params.items():
            g = -gradients[name] if self.maximize else gradients[name]
            new[name], new_states[name] = self.updated(p, g, states[name], shared, rates[p.dtype])
        return new, new_states, shared

    # ---- the learning rate, and state
    @property
    def lr(self) -> float:
        """The learning rate, of the first group; assigning gives it to all of them."""
        return self.param_groups[0].rate

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group.set_rate(value)

    def state_dict(self) -> State:
        """Everything that a step reads beside the parameters, by name; the tensors are the optimiser's own."""
        found: State = {}
        for number, group in enumerate(self.param_groups):
            prefix = f"group{number}." if number else ""
            found |= {f"{prefix}{name}": t for name, t in {"lr": group.lr_tensor, **group.shared}.items()}
        own = {f"{name}.{kind}": t for name, state in self._state.items() for kind, t in state.items()}
        return {**found, **own}

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
            different = listed(sorted(set(own) ^ set(state)))
            raise DataError(f"load_state_dict: this {type(self).__name__} and the state differ in {different}")
        _replace(own, {name: asarray(value, own[name].dtype) for name, value in state.items()})
        for group in self.param_groups:
            group.rate = float(group.lr_tensor)

    def __repr__(self) -> str:
        count = sum(p.size for p in self.params.values())
        return f"{type(self).__name__}(lr={self.lr:g}, {len(self.params)} parameters with {count:,} elements)"


def _groups_of(optimizer: Optimizer) -> dict[str, Any]:
    return {"param_groups": optimizer.param_groups}


def _replace(own: State, new: State) -> None:
    """Give every tensor its new value; all of the new values were built from the old ones."""
    for name, value in new.items():
        if value._node is not own[name]._node:  # else the rule has left it as it was
            own[name].assign(value)
