"""Arguments of a recorded function: where they are, and their arrays, found with as little looking as can be.

This module must not know recordings: it says what a call was given, `vkgrad.step` what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from vkgrad import engine
from vkgrad.conversion import from_dlpack
from vkgrad.errors import DTypeError
from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.tensor import Tensor

# How an argument gets to a recording: from the host, as a copy made before it runs, or by the id of its value, not at
# all. Not numbers, which ids are.
HOST, COPIED = "host", "copied"
Mark: TypeAlias = int | str
Marks: TypeAlias = tuple[Mark, ...]
Found: TypeAlias = tuple[Marks, Sequence[np.ndarray], Sequence[engine.Value]]  # and arrays and values for the first two


def is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def is_foreign(value: Any) -> bool:
    """Whether a value, or one in a nesting, is an array of another framework."""
    if isinstance(value, tuple | list):
        return any(map(is_foreign, value))
    if isinstance(value, dict):
        return any(map(is_foreign, value.values()))
    return not is_array(value) and hasattr(type(value), "__dlpack__")


def at_home(value: Any) -> Any:
    """A nesting in which arrays of other frameworks are NumPy's, of the same memory where that is the host's."""
    return replaced(value, lambda leaf: from_dlpack(leaf) if is_foreign(leaf) else leaf)


def _is_itself(value: Any) -> bool:
    """Whether an argument that is the same object is the same argument: numbers, texts, modules, optimisers."""
    return isinstance(value, bool | int | float | str | None) or type(value).__hash__ is object.__hash__


def reader(arguments: tuple, bound: Mapping[int, Any]) -> Callable[[tuple], Found | None] | None:
    """What finds out where later arguments are, with no look into nestings; None where there are any.

    It gives None where an argument is not of the kind it was. Shapes and element types of arrays are the recording's
    business. Those of tensors on the device, which it cannot check, are looked at here.
    """
    kinds = [type(value) if is_array(value) else None for value in arguments]
    if not all(
        kind in (np.ndarray, Tensor) if kind else _is_itself(v) for kind, v in zip(kinds, arguments, strict=True)
    ):
        return None
    count = len(kinds)
    if all(kind is np.ndarray for kind in kinds):
        marks = (HOST,) * count
        return lambda given: (marks, given, ()) if len(given) == count else None

    def read(given: tuple) -> Found | None:
        if len(given) != count:
            return None
        marks: list[Mark] = []
        arrays: list[np.ndarray] = []
        copied: list[engine.Value] = []
        for value, kind, first in zip(given, kinds, others, strict=True):
            if kind is None:
                if value is not first:
                    return None
                continue
            if type(value) is not kind:
                return None
            source = value
            if kind is Tensor:
                known = engine.values.get(value._node)
                if known is None or value._requires_grad or value.keeps_history:
                    return None
                source = known.source
                if source is None:
                    if id(known) in bound:
                        marks.append(id(known))
                    elif (value.shape, value.dtype) == first and known.size_bytes:
                        marks.append(COPIED)
                        copied.append(known)
                    else:
                        return None
                    continue
            marks.append(HOST)
            arrays.append(source)
        return tuple(marks), arrays, copied

    # Not the arrays of the first call, which need not live on.
    others = [
        value if kind is None else (value.shape, value.dtype) if kind is Tensor else None
        for kind, value in zip(kinds, arguments, strict=True)
    ]
    return read


def dtype_in(value: Any) -> DType:
    try:
        return dtype_of(value.dtype)
    except DTypeError as error:
        raise DTypeError(f"jit: {error}") from None


def host_data(value: Any) -> np.ndarray | None:
    """The elements of an argument that are still on the host."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="), copy=False)
    found = engine.values.get(value._node)
    return found.source if found is not None else None


def replaced(value: Any, function: Callable[[Any], Any]) -> Any:
    """The nesting with `function` applied to each leaf."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[replaced(part, function) for part in value])
    if isinstance(value, tuple | list):
        return type(value)([replaced(part, function) for part in value])
    if isinstance(value, dict):
        return {key: replaced(part, function) for key, part in value.items()}
    return function(value)
