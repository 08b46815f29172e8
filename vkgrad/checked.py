"""`Checked`: the base of classes whose constructors look at their arguments before anything is made of them.

A constructor of this package says what it takes by its annotations: an argument that is an `int` is a whole number, one
that has no default is a size, and a `float` is a number. This module must not know any such class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from itertools import takewhile
from numbers import Integral
from typing import Any

from vkgrad.errors import ArgumentError, OptionError
from vkgrad.spelling import is_own, refuse_unknown

PLACES = ("dim", "axis")  # whole numbers that are no sizes: they may count from the end


class Checked:
    """Base of classes whose constructor refuses misspelled keywords, and text or fractions where it takes a size.

    Raises: `TypeError` for a keyword that there is not, `ArgumentError` for one of another kind, `OptionError` for a
    size below 1.
    """

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        if named:
            refuse_unknown(cls.__name__, cls.__init__, named)
        if is_own(cls.__init__):
            for name, kind, value in _numbers(cls.__init__, arguments, named):
                _check(cls.__name__, name, value, kind)
        return super().__new__(cls)


def function_in(name: str, value: Any) -> None:
    """Refuse what is no function where `name` takes one: most often what a function gave. Raises: `ArgumentError`."""
    if not callable(value):
        raise ArgumentError(f"{name}: takes a function, not {shown(value)}; write vg.{name}(f)(x)")


def shown(value: Any) -> str:
    """What a value is, in few words."""
    return repr(value) if value is None or isinstance(value, str | int | float) else f"a {type(value).__name__}"


@lru_cache(maxsize=1024)
def _kinds(constructor: Callable[..., Any]) -> dict[str, str]:
    """What the numbers among the arguments of a constructor must be: "size", "int" or "float"."""
    found = {}
    for name, parameter in list(inspect.signature(constructor).parameters.items())[1:]:
        if parameter.annotation in ("int", "float"):
            is_needed = parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            is_size = parameter.annotation == "int" and is_needed and name not in PLACES
            found[name] = "size" if is_size else parameter.annotation
    return found


@lru_cache(maxsize=1024)
def _order(constructor: Callable[..., Any]) -> tuple[str, ...]:
    parameters = list(inspect.signature(constructor).parameters.values())[1:]
    return tuple(p.name for p in takewhile(lambda p: p.kind is p.POSITIONAL_OR_KEYWORD, parameters))


def _numbers(constructor: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The arguments that are to be numbers, each with its kind. Those that are too many are Python's to refuse."""
    kinds = _kinds(constructor)
    given = [*zip(_order(constructor), arguments, strict=False), *named.items()] if kinds else []
    return [(name, kinds[name], value) for name, value in given if name in kinds]


def _check(owner: str, name: str, value: Any, kind: str) -> None:
    if kind == "float":
        if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
            raise ArgumentError(f"{owner}: {name} must be a number, got {value!r}")
        return
    if not isinstance(value, Integral):
        whole = "; // divides into whole ones" if isinstance(value, float) else ""
        raise ArgumentError(f"{owner}: {name} must be a whole number, got {shown(value)}{whole}")
    if kind == "size" and value < 1:
        raise OptionError(f"{owner}: {name} must be at least 1, got {value}")
