"""On which device a tensor is made, where a call says so: `device=` of the array API standard.

A device is named by what `vg.set_device` takes (an index, part of a name, "cpu") or is one that `x.device` gave. This
module must not know tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import NoDeviceError
from vkgrad.runtime.device import Device


def found(device: Any) -> Device:
    """The device that `device` stands for; None is the one that tensors are made on now."""
    if device is None or isinstance(device, str | int):
        return engine.device(None if device is None else str(device))
    if device not in engine.opened().values():
        raise NoDeviceError(f"{device!r} is no device; name one as vg.devices() does, or take another tensor's .device")
    return device


@contextmanager
def on(device: Any) -> Iterator[None]:
    """Inside, tensors are made on `device`. What is only recorded inside is computed where it is read."""
    wanted = found(device)
    if wanted is engine.device():
        yield
        return
    choice = next(name for name, opened in engine.opened().items() if opened is wanted)
    with config.override(device=choice):
        yield


def placed(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which makes a tensor from nothing, with a keyword `device`: on another one it is made at once."""

    @wraps(function)
    def made(*arguments: Any, device: Any = None, **options: Any) -> Any:
        if device is None or found(device) is engine.device():
            return function(*arguments, **options)
        with on(device):
            tensor = function(*arguments, **options)
            engine.evaluate([tensor.node])
            return tensor

    signature = inspect.signature(function)
    extra = inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any)
    made.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    return made
