"""Weights that live in another framework's objects, brought into a module. This module must not import any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkgrad.errors import DataError
from vkgrad.nn.module import Module, StateMismatch
from vkgrad.tensor import Tensor


def from_torch_state_dict(
    module: Module, source: Any, rename: Callable[[str], str | None] | None = None, strict: bool = True
) -> StateMismatch:
    """Copy the weights of a `torch.nn.Module`, or of its state dict, into a module.

    PyTorch need not be importable here: whatever has `state_dict()`, or maps names to things with `numpy()`, will do.

    Args:
        rename: from a name there to the name here, or to None for a weight to leave out.
        strict: see `Module.load_state_dict`, which also says what is returned and raised.

    Raises:
        DataError: a value is no array, or two names become one.

    Example:
        >>> import numpy as np, vkgrad as vg
        >>> layer = vg.nn.Linear(2, 1)
        >>> theirs = {"fc.weight": np.ones((1, 2), "f4"), "fc.bias": np.zeros(1, "f4")}  # or torch's own
        >>> _ = vg.nn.from_torch_state_dict(layer, theirs, rename=lambda name: name.removeprefix("fc."))
        >>> layer(vg.tensor([[1.0, 2.0]])).tolist()
        [[3.0]]
    """
    state = source.state_dict() if hasattr(source, "state_dict") else source
    found: dict[str, Any] = {}
    for name, value in state.items():
        own = name if rename is None else rename(name)
        if own in found:
            raise DataError(f"from_torch_state_dict: two weights are renamed to {own!r}, the second is {name!r}")
        if own is not None:
            found[own] = _array(name, value)
    return module.load_state_dict(found, strict)


def _array(name: str, value: Any) -> Any:
    if isinstance(value, Tensor | np.ndarray):
        return value
    try:
        held = value.detach().cpu() if hasattr(value, "detach") else value
        try:
            return np.asarray(held.numpy())
        except TypeError:  # bfloat16, which NumPy has not and float32 holds
            return np.asarray(held.float().numpy())
    except AttributeError:
        raise DataError(f"from_torch_state_dict: {name} is a {type(value).__name__}, which has no numpy()") from None
