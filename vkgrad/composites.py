"""`composite`: functions that are nothing but the graph they build, built once and then replayed.

What such a function does depends on the shapes and element types of its tensors, on its other arguments and on
`autocast`, and on nothing else. The first call with a combination of them runs it on leaves that stand in for the
tensors; later ones build the same nodes on the real ones, without a tensor, a rule or a check for each. A function that
looks at values, or makes leaves of its own, cannot be replayed: it is simply called. This module must not know any of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from vkgrad import engine, tree
from vkgrad.config import config
from vkgrad.ir.node import is_sharing
from vkgrad.ir.program import Program, recorded
from vkgrad.ops.sources import leaf
from vkgrad.tensor import Tensor, derived

F = TypeVar("F", bound=Callable[..., Any])

MOST_PROGRAMS = 1024  # of one function; a full table starts anew
MOST_PARTS = 16  # of an argument that is a tuple or list: longer ones are data

Recipe = tuple[Program, tree.Structure]


def composite(function: F) -> F:
    """`function`, replayed where it was called before with such arguments. It returns tensors, in any nesting.

    Arguments are tensors, numbers, texts and nestings of them, and objects whose `replay_key` says what they are.
    """
    recipes: dict[tuple, Recipe | None] = {}

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        key: list[Any] = [config.autocast, len(arguments), *named]
        tensors: list[Tensor] = []
        for value in (*arguments, *named.values()):
            if not _add(key, tensors, value):
                return function(*arguments, **named)
        found = tuple(key)
        if found not in recipes and is_sharing():
            if len(recipes) >= MOST_PROGRAMS:
                recipes.clear()
            recipes[found] = _recorded(function, arguments, named)
        recipe = recipes.get(found)
        if recipe is None or not is_sharing():
            return function(*arguments, **named)
        program, form = recipe
        made = [derived(node, *tensors) for node in program.replay([tensor.node for tensor in tensors]) if node]
        return made[0] if form.kind is None else form.unflatten(made)

    return call  # type: ignore[return-value]


def _add(key: list[Any], tensors: list[Tensor], value: Any) -> bool:
    """Add an argument to a key, and the tensors in it; False if it may be another thing next time."""
    if isinstance(value, Tensor):
        tensors.append(value)
        key.append(value._node.signature.type)
    elif value is None or isinstance(value, bool | int | str):
        key += (type(value), value)
    elif isinstance(value, float):
        key += (type(value), value.hex())  # 0.0 is not -0.0 here, and NaN is itself
    elif isinstance(value, np.generic):
        key += (type(value), value.tobytes())
    elif isinstance(value, tuple | list) and len(value) <= MOST_PARTS:
        key += (type(value), len(value))
        return all(_add(key, tensors, part) for part in value)
    elif isinstance(value, dict):
        key += (dict, len(value), *value)
        return all(_add(key, tensors, part) for part in value.values())
    elif hasattr(value, "replay_key"):
        key.append(type(value))
        return _add(key, tensors, value.replay_key())
    else:
        return False
    return True


def _recorded(function: Callable[..., Any], arguments: tuple, named: dict[str, Any]) -> Recipe | None:
    given: list[Tensor] = []

    def stand_in(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        given.append(Tensor(leaf(value.shape, value.dtype)))
        return given[-1]

    with engine.aside():
        try:
            stood_in = tree.replace(stand_in, (arguments, named))
            result = function(*stood_in[0], **stood_in[1])
        except Exception:  # it is raised again by the call with the real arguments, which follows
            return None
        ends, form = tree.flatten(result)
        if not ends or not all(isinstance(end, Tensor) for end in ends):
            return None
        program = recorded([end._node for end in ends], [tensor._node for tensor in given])
    return None if program is None else (program, form)
