"""Modules made of other modules, named by their position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vkgrad.nn.module import Module


class ModuleList(Module):
    """A list of modules; its `forward` is for the module around it to write."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.layers = list(modules)

    def _contents(self) -> Mapping[str, Any]:
        """Name the layers "0", "1", ... as PyTorch does, not "layers.0"."""
        others = {name: value for name, value in vars(self).items() if name != "layers"}
        return {str(index): layer for index, layer in enumerate(self.layers)} | others

    def append(self, module: Module) -> None:
        self.layers.append(module)

    def __getitem__(self, index: int) -> Module:
        return self.layers[index]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)


class Sequential(ModuleList):
    """Feed each module's output to the next.

    Example:
        >>> import vkgrad as vg
        >>> model = vg.nn.Sequential(vg.nn.Linear(4, 3), vg.nn.Tanh(), vg.nn.Linear(3, 1))
        >>> model(vg.ones((2, 4))).shape
        (2, 1)
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
