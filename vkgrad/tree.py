"""Nestings of dicts, lists, tuples and modules, taken apart into leaves and put together again.

A module is anything with a `named_parameters` method. Its leaves are its parameters; what is put together in its place
is a dict of their names, since nobody can build a module out of gradients. None has no leaves. This file must not know
`vkgrad.nn` or tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vkgrad.errors import ShapeError


class Leaf(NamedTuple):
    """One leaf, how to write its place (`[0]['w']`, `.layer.weight`), and whether it is a module's parameter."""

    path: str
    value: Any
    of_module: bool


@dataclass(frozen=True)
class Structure:
    """A nesting without its leaves; equal nestings have equal structures, so it can be a key.

    kind      dict, list, tuple or a named tuple's class; None for a leaf, and `nothing` for None
    keys      the keys of a dict, or the names of a module's parameters
    """

    kind: Any
    keys: tuple = ()
    children: tuple[Structure, ...] = ()

    @property
    def count(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(child.count for child in self.children)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The nesting with these leaves, in the order of `flatten`.

        Raises: `ShapeError` when there are too few or too many.
        """
        if len(leaves) != self.count:
            raise ShapeError(f"unflatten: this nesting has {self.count} leaves, got {len(leaves)}")
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        parts = [child._build(leaves) for child in self.children]
        return _assembled(self.kind, self.keys, parts)


class nothing:
    """The kind of None."""


def is_module(value: Any) -> bool:
    return callable(getattr(value, "named_parameters", None)) and not isinstance(value, type)


def _parts(value: Any) -> tuple[Any, tuple, list[Any]] | None:
    """The kind, keys and parts of a nesting; None for a leaf."""
    if value is None:
        return nothing, (), []
    if is_module(value):
        named = dict(value.named_parameters())
        return dict, tuple(named), list(named.values())
    if isinstance(value, Mapping):
        return dict, tuple(value), list(value.values())
    if isinstance(value, tuple | list):
        return type(value), (), list(value)
    return None


def _assembled(kind: Any, keys: tuple, parts: list[Any]) -> Any:
    if kind is nothing:
        return None
    if kind is dict:
        return dict(zip(keys, parts, strict=True))
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def leaves(value: Any, path: str = "", of_module: bool = False) -> Iterator[Leaf]:
    """Yield the leaves of a nesting, with where they are."""
    found = _parts(value)
    if found is None:
        yield Leaf(path, value, of_module)
        return
    _, keys, parts = found
    inside = is_module(value)
    for key, part in zip(keys or range(len(parts)), parts, strict=True):
        yield from leaves(part, f"{path}.{key}" if inside else f"{path}[{key!r}]", inside)


def structure(value: Any) -> Structure:
    """The nesting of `value` without its leaves."""
    found = _parts(value)
    if found is None:
        return Structure(None)
    kind, keys, parts = found
    return Structure(kind, keys, tuple(structure(part) for part in parts))


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nesting in order, and what puts them together again.

    Example:
        >>> from vkgrad import tree
        >>> numbers, form = tree.flatten({"w": [1, 2], "b": (3, None)})
        >>> numbers, form.unflatten([x * 10 for x in numbers])
        ([1, 2, 3], {'w': [10, 20], 'b': (30, None)})
    """
    return [leaf.value for leaf in leaves(value)], structure(value)


def transform(function: Callable[[Any], Any], value: Any) -> Any:
    """The nesting with `function` applied to each leaf; a module becomes a dict of its parameters' names."""
    found, form = flatten(value)
    return form.unflatten([function(leaf) for leaf in found])


def replace(function: Callable[[Any], Any], value: Any) -> Any:
    """Like `transform`, but modules stay themselves and `function` does not see what is inside them."""
    found = None if is_module(value) else _parts(value)
    if is_module(value):
        return value
    if found is None:
        return function(value)
    kind, keys, parts = found
    return _assembled(kind, keys, [replace(function, part) for part in parts])
