"""Parameters that are computed from others each time they are looked at; PyTorch's names and keys.

A layer whose `weight` is parametrised holds what it is computed from as `parametrizations.weight.original` (or
`original0`, `original1`, ...), which training changes; `layer.weight` is the result. This module must not know any one
parametrisation.
"""

from __future__ import annotations

from typing import Any

from vkgrad.errors import OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.nn.containers import ModuleDict, ModuleList
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor, asarray

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(ModuleList):
    """The modules that a parameter passes through, first to last, and the tensors that it starts from."""

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        self._trained = original.requires_grad
        found = self._undone(Tensor(original.node))
        self._count = len(found) if isinstance(found, tuple) else 0  # 0: one tensor, which has no number
        for name, value in zip(self._names(), found if isinstance(found, tuple) else (found,), strict=True):
            setattr(self, name, parameter(Tensor(value.node), self._trained))

    def _names(self) -> list[str]:
        return [f"original{k}" for k in range(self._count)] if self._count else ["original"]

    def _undone(self, value: Any) -> Any:
        """What these modules make `value` of."""
        with no_grad():
            for module in reversed(self.layers):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        return value

    def set_value(self, value: Any) -> None:
        """Change the originals, so that the parameter becomes `value` if the modules can make it."""
        found = self._undone(asarray(value))
        for name, new in zip(self._names(), found if isinstance(found, tuple) else (found,), strict=True):
            getattr(self, name).assign(new)

    def forward(self) -> Tensor:
        first, *others = self
        value = first(*(getattr(self, name) for name in self._names()))
        for module in others:
            value = module(value)
        return value


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let an attribute of a module be what `parametrization` makes of it, and return the module.

    Make the optimiser afterwards: the parameter is another tensor then.

    Args:
        parametrization: a module from a tensor to one of its shape. Its method `right_inverse`, if it has one, makes
            of a value what it is computed from, which may be several tensors.
        unsafe: let the shape or type change.

    Raises:
        OptionError: the module has no such tensor.
        ShapeError: the parametrisation changes its shape or type.

    Example:
        >>> import vkgrad as vg
        >>> class Symmetric(vg.nn.Module):
        ...     def forward(self, x):
        ...         return vg.triu(x) + vg.triu(x, 1).T
        >>> layer = vg.nn.utils.parametrize.register_parametrization(vg.nn.Linear(3, 3), "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all()), [name for name, _ in layer.named_parameters()]
        (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        vars(module)["parametrizations"][tensor_name].append(parametrization)
        return module
    original = vars(module).get(tensor_name)
    if not isinstance(original, Tensor):
        raise OptionError(f"register_parametrization: {type(module).__name__} has no tensor {tensor_name!r}")
    made = ParametrizationList([parametrization], original)
    value = made()
    if not unsafe and (value.shape, value.dtype) != (original.shape, original.dtype):
        raise ShapeError(
            f"register_parametrization: {tensor_name} of {original.dtype.name}{list(original.shape)} would become "
            f"{value.dtype.name}{list(value.shape)}; pass unsafe=True if the layer can take that"
        )
    if not is_parametrized(module):
        kind = type(module)
        # A class of its own for this one module, since properties belong to classes.
        module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
        module.parametrizations = ModuleDict()
    delattr(module, tensor_name)
    module.parametrizations[tensor_name] = made  # type: ignore[attr-defined]
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _property(name: str) -> property:
    return property(
        lambda module: module.parametrizations[name](),
        lambda module, value: module.parametrizations[name].set_value(value),
        doc=f"What `parametrizations.{name}` makes.",
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrised attribute, or this one is."""
    held = vars(module).get("parametrizations")
    return isinstance(held, ModuleDict) and (tensor_name is None or tensor_name in held.members)


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Let an attribute be a parameter of its own again, and return the module.

    Args:
        leave_parametrized: with the value that it has now; else with that of the original, if there is only one.

    Raises:
        OptionError: it is not parametrised, or there are several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise OptionError(f"remove_parametrizations: {tensor_name} of this {type(module).__name__} is not parametrised")
    held = module.parametrizations[tensor_name]
    if not leave_parametrized and held._count:
        raise OptionError(
            f"remove_parametrizations: {tensor_name} is made of {held._count} tensors; leave_parametrized must be True"
        )
    value = getattr(module, tensor_name) if leave_parametrized else held.original
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    setattr(module, tensor_name, parameter(Tensor(value.detach().node), held._trained))
    if not module.parametrizations.members:
        del module.parametrizations
        module.__class__ = type(module).__mro__[1]
    return module
