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

__all__ = ["Leaf", "Structure", "explored", "flatten", "is_module", "leaves", "replace", "structure", "transform"]


def __dir__() -> list[str]:
    return sorted(__all__)


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

    def __str__(self) -> str:
        """The nesting with x for each leaf, as it would be typed."""
        parts = [str(child) for child in self.children]
        if self.kind is None or self.kind is nothing:
            return "x" if self.kind is None else "None"
        if self.kind is dict:
            return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(self.keys, parts, strict=True)) + "}"
        if self.kind is list:
            return f"[{', '.join(parts)}]"
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"

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


_A_LEAF = Structure(None)


_sorts: dict[type, str] = {}


def _sort(value: Any) -> str:
    """What `value` is here. Its type says so, and there are few types in a program."""
    kind = type(value)
    found = _sorts.get(kind)
    if found is None:
        if callable(getattr(kind, "named_parameters", None)):
            found = "module"
        elif kind is type(None):
            found = "nothing"
        else:
            found = "mapping" if issubclass(kind, Mapping) else "sequence" if issubclass(kind, tuple | list) else "leaf"
        _sorts[kind] = found
    return found


def is_module(value: Any) -> bool:
    return _sort(value) == "module"


def _parts(value: Any) -> tuple[Any, tuple, list[Any]] | None:
    """The kind, keys and parts of a nesting; None for a leaf."""
    sort = _sort(value)
    if sort == "leaf":
        return None
    if sort == "module":
        named = dict(value.named_parameters())
        return dict, tuple(named), list(named.values())
    if sort == "mapping":
        return dict, tuple(value), list(value.values())
    return (nothing, (), []) if sort == "nothing" else (type(value), (), list(value))


def _assembled(kind: Any, keys: tuple, parts: list[Any]) -> Any:
    if kind is nothing:
        return None
    if kind is dict:
        return dict(zip(keys, parts, strict=True))
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def explored(value: Any) -> tuple[list[Leaf], Structure]:
    """The leaves of a nesting with where they are, and the nesting without them, in one walk."""
    found: list[Leaf] = []
    return found, _explored(value, "", False, found)


def _explored(value: Any, path: str, of_module: bool, found: list[Leaf]) -> Structure:
    parted = _parts(value)
    if parted is None:
        found.append(Leaf(path, value, of_module))
        return _A_LEAF
    kind, keys, parts = parted
    inside = is_module(value)
    children = [
        _explored(part, f"{path}.{key}" if inside else f"{path}[{key!r}]", inside, found)
        for key, part in zip(keys or range(len(parts)), parts, strict=True)
    ]
    return Structure(kind, keys, tuple(children))


def leaves(value: Any) -> list[Leaf]:
    """The leaves of a nesting, with where they are."""
    return explored(value)[0]


def structure(value: Any) -> Structure:
    """The nesting of `value` without its leaves."""
    return explored(value)[1]


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nesting in order, and what puts them together again.

    Example:
        >>> from vkgrad import tree
        >>> numbers, form = tree.flatten({"w": [1, 2], "b": (3, None)})
        >>> numbers, form.unflatten([x * 10 for x in numbers])
        ([1, 2, 3], {'w': [10, 20], 'b': (30, None)})
    """
    found, form = explored(value)
    return [leaf.value for leaf in found], form


def transform(function: Callable[[Any], Any], value: Any) -> Any:
    """The nesting with `function` applied to each leaf; a module becomes a dict of its parameters' names."""
    found, form = flatten(value)
    return form.unflatten([function(leaf) for leaf in found])


def replace(function: Callable[[Any], Any], value: Any) -> Any:
    """Like `transform`, but modules stay themselves and `function` does not see what is inside them."""
    if is_module(value):
        return value
    found = _parts(value)
    if found is None:
        return function(value)
    kind, keys, parts = found
    return _assembled(kind, keys, [replace(function, part) for part in parts])
