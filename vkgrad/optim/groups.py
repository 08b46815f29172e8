"""Parameter groups: parameters that share options, such as a learning rate of their own.

A group is a mapping as PyTorch's is (`group["lr"] *= 0.1`), over the optimiser object that holds the options of its
update rule, and over the state on the device that its parameters share. This module must not know any rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vkgrad import engine
from vkgrad.errors import ArgumentError, OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.tensor import Tensor, tensor

if TYPE_CHECKING:
    from vkgrad.optim.optimizer import Optimizer

State = dict[str, Tensor]


class ParameterGroup(MutableMapping[str, Any]):
    """Parameters by name, `rule` whose options hold for them, and what they share: the rate and the rule's state.

    Assigning "lr" uploads a few bytes; assigning another option makes the next step another one, recorded anew.
    """

    def __init__(self, rule: Optimizer, params: dict[str, Tensor], lr: float, options: tuple[str, ...]) -> None:
        self.rule = rule
        self.params = params
        self.options = options
        self.dtype = max((p.dtype.computed for p in params.values()), key=lambda dtype: dtype.size_bytes)
        self.lr_tensor = scalar(lr, self.dtype)
        self.set_rate(lr)
        self.shared: State = rule.shared_state(self.dtype)
        self.notes: dict[str, Any] = {}  # what others leave here, such as a schedule's "initial_lr"

    def set_rate(self, lr: float) -> None:
        name = type(self.rule).__name__
        if isinstance(lr, str):
            raise ArgumentError(f"{name}: the learning rate lr must be a number, got {lr!r}")
        if not lr >= 0:
            raise OptionError(f"{name}: the learning rate lr must be at least 0, got {lr}")
        self.rate = float(lr)
        self.lr_tensor.assign(scalar(self.rate, self.dtype))

    def vary(self, name: str, value: float) -> None:
        """Give the rule a number that changes from step to step: a scalar on the device, not one in its kernels."""
        if name in self.shared:
            self.shared[name].assign(scalar(value, self.dtype))
        else:
            self.shared[name] = scalar(value, self.dtype)
            engine.changes += 1

    def assume(self) -> None:
        """Tell a step that is being recorded which options it depends on."""
        if (trace := engine.tracing()) is not None:
            trace.uses(self.rule, type(self.rule).relied_on)

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return list(self.params.values())
        if name == "lr":
            return self.rate
        if name in self.options:
            return getattr(self.rule, name)
        return self.notes[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            raise OptionError("param_groups: the parameters of a group stay; add others with add_param_group")
        if name == "lr":
            self.set_rate(value)
        elif name in self.options:
            setattr(self.rule, name, value)
        else:
            self.notes[name] = value

    def __delitem__(self, name: str) -> None:
        del self.notes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self.options, *self.notes))

    def __len__(self) -> int:
        return 2 + len(self.options) + len(self.notes)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={self[name]!r}" for name in self.options)
        return f"ParameterGroup({len(self.params)} parameters, lr={self.rate:g}{', ' if options else ''}{options})"


def described(name: str, params: Any) -> list[Mapping[str, Any]]:
    """What an optimiser was given, as groups: a list of dicts with "params" is that already."""
    if not isinstance(params, Tensor) and callable(getattr(params, "__func__", None)):
        call = getattr(params, "__name__", "parameters")
        raise ArgumentError(f"{name}: a method is no parameters; call it, model.{call}(), or pass the model")
    if not isinstance(params, Mapping | Tensor) and not hasattr(params, "named_parameters"):
        params = list(params)
        if params and all(isinstance(group, Mapping) and "params" in group for group in params):
            return params
    return [{"params": params}]


def scalar(value: float, dtype: DType) -> Tensor:
    # From an array, not from a number: a number would be a literal in the kernel, and every new rate a new kernel.
    return tensor(np.asarray(value, dtype.numpy))
