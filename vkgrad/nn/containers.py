"""Modules made of other modules, named by their position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from vkgrad import engine
from vkgrad.errors import ArgumentError
from vkgrad.nn.module import Module, attributes_of, parameter


class _Container(Module):
    """What all of them share: a step that is being recorded is told who was looked into, since nobody calls a list."""

    def _watched(self) -> None:
        if engine.trace is not None and (trace := engine.tracing()) is not None:
            trace.uses(self, attributes_of)


def as_layer(owner: Module, place: int | str, layer: Any) -> Module:
    """A module, or an error that says how the thing becomes one. Raises: `ArgumentError`."""
    if isinstance(layer, Module):
        return layer
    kind = type(owner).__name__
    if isinstance(layer, type):
        mended = f"is the class {layer.__name__}; write {layer.__name__}() to make a layer"
    elif isinstance(layer, list | tuple):
        mended = f"is a {type(layer).__name__} of layers; write {kind}(*layers)"
    elif callable(layer):
        name = getattr(layer, "__name__", type(layer).__name__)
        mended = f"is the function {name}; use a layer of nn. or a Module whose forward calls it"
    else:
        mended = f"is a {type(layer).__name__}, and only modules are layers"
    raise ArgumentError(f"{kind}.{place} {mended}")


class ModuleList(_Container):
    """A list of modules; its `forward` is for the module around it to write."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self.layers = [as_layer(self, place, module) for place, module in enumerate(modules or ())]

    def _contents(self) -> Mapping[str, Any]:
        """Name the layers "0", "1", ... as PyTorch does, not "layers.0"."""
        others = {name: value for name, value in vars(self).items() if name != "layers"}
        return {str(index): layer for index, layer in enumerate(self.layers)} | others

    def append(self, module: Module) -> None:
        self.layers.append(module)
        engine.renamed()

    def extend(self, modules: Iterable[Module]) -> None:
        self.layers.extend(modules)
        engine.renamed()

    def insert(self, index: int, module: Module) -> None:
        self.layers.insert(index, module)
        engine.renamed()

    def __getitem__(self, index: Any) -> Any:
        """The module at a position, or for a slice a container like this one."""
        if isinstance(index, slice):
            part = copy(self)
            part.layers = self.layers[index]
            return part
        self._watched()
        try:
            return self.layers[index]
        except IndexError:
            count = len(self.layers)
            known = f"{count} layers, {-count} to {count - 1}" if count else "no layers"
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {known}") from None

    def __setitem__(self, index: int, module: Module) -> None:
        self.layers[index] = module
        engine.renamed()

    def __len__(self) -> int:
        self._watched()
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        self._watched()
        return iter(self.layers)


class Sequential(ModuleList):
    """Feed each module's output to the next.

    Example:
        >>> import vkgrad as vg
        >>> model = vg.nn.Sequential(vg.nn.Linear(4, 3), vg.nn.Tanh(), vg.nn.Linear(3, 1))
        >>> model(vg.ones((2, 4))).shape
        (2, 1)
    """

    _keys: tuple[str, ...] = ()

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):  # names of their own
            self._keys = tuple(modules[0])
            modules = tuple(modules[0].values())
        super().__init__(modules)  # type: ignore[arg-type]

    def _contents(self) -> Mapping[str, Any]:
        found = super()._contents()
        return {self._keys[int(k)] if k.isdigit() and int(k) < len(self._keys) else k: v for k, v in found.items()}

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class _Named(_Container):
    """What the dictionaries share: members by name, which are the keys of the state dict."""

    def __init__(self, members: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        self.members: dict[str, Any] = {}
        self.update({} if members is None else members)

    def _contents(self) -> Mapping[str, Any]:
        return self.members | {name: value for name, value in vars(self).items() if name != "members"}

    def update(self, members: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        for name, member in dict(members).items():
            self[name] = member

    def __setitem__(self, name: str, member: Any) -> None:
        self.members[name] = member
        engine.renamed()

    def __getitem__(self, name: str) -> Any:
        self._watched()
        return self.members[name]

    def __getattr__(self, name: str) -> Any:
        """A member as an attribute, as PyTorch has it."""
        members = vars(self).get("members", {})
        if name not in members:
            raise AttributeError(f"{type(self).__name__} has no member {name!r}")
        return self[name]

    def __delitem__(self, name: str) -> None:
        del self.members[name]
        engine.renamed()

    def __contains__(self, name: str) -> bool:
        self._watched()
        return name in self.members

    def __len__(self) -> int:
        self._watched()
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        self._watched()
        return iter(self.members)

    def keys(self) -> Iterable[str]:
        self._watched()
        return self.members.keys()

    def values(self) -> Iterable[Any]:
        self._watched()
        return self.members.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        self._watched()
        return self.members.items()

    def pop(self, name: str) -> Any:
        engine.renamed()
        return self.members.pop(name)


class ModuleDict(_Named):
    """Modules by name; its `forward` is for the module around it to write."""


class ParameterDict(_Named):
    """Parameters by name; tensors that are put in become parameters."""

    def __setitem__(self, name: str, member: Any) -> None:
        super().__setitem__(name, parameter(member))


class ParameterList(ModuleList):
    """A list of parameters, named by their positions; tensors that are put in become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        self.layers: list[Any] = [parameter(value) for value in (() if values is None else values)]

    def append(self, module: Any) -> None:
        self.layers.append(parameter(module))
        engine.renamed()

    def extend(self, modules: Iterable[Any]) -> None:
        self.layers.extend(parameter(value) for value in modules)
        engine.renamed()

    def insert(self, index: int, module: Any) -> None:
        self.layers.insert(index, parameter(module))
        engine.renamed()

    def __setitem__(self, index: int, module: Any) -> None:
        self.layers[index] = parameter(module)
        engine.renamed()
