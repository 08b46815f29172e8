"""Hooks: functions that a module calls before and after its `forward`, and where its gradient passes.

A backward hook is a pair of identities with a derivative of their own: the one on the outputs notes their gradient, the
one on the inputs calls the hook. This module must not know `Module`, only that it has `forward` and `_hooks`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from vkgrad import engine, history, tree
from vkgrad.custom_rules import custom_vjp
from vkgrad.tensor import Tensor


class Hook(NamedTuple):
    """`kind` is "before", "after" or "backward"; `number` tells two hooks of one function apart."""

    kind: str
    function: Callable[..., Any]
    with_options: bool
    number: int


_numbers = count()


class HookHandle:
    """What takes a hook away again; it can stand in a `with`."""

    def __init__(self, module: Any, hook: Hook) -> None:
        self.module = module
        self.hook = hook

    def remove(self) -> None:
        """Call the hook no more."""
        _set(self.module, tuple(hook for hook in self.module._hooks if hook.number != self.hook.number))

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.remove()


def added(module: Any, kind: str, function: Callable[..., Any], with_options: bool = False) -> HookHandle:
    """Give `module` a hook."""
    hook = Hook(kind, function, with_options, next(_numbers))
    _set(module, (*module._hooks, hook))
    return HookHandle(module, hook)


def _set(module: Any, hooks: tuple[Hook, ...]) -> None:
    engine.changes += 1  # a recorded step looks whether its assumptions still hold
    module._hooks = hooks


def hooked(module: Any, hooks: tuple[Hook, ...], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `module(*inputs, **options)` gives with these hooks."""
    for hook in hooks:
        if hook.kind == "before":
            found = hook.function(module, inputs, options) if hook.with_options else hook.function(module, inputs)
            if found is not None and hook.with_options:
                inputs, options = found
            elif found is not None:
                inputs = found if isinstance(found, tuple) else (found,)
    backward = [hook for hook in hooks if hook.kind == "backward"]
    noted: dict[int, Tensor] = {}
    if backward:
        inputs = _watching_inputs(module, backward, inputs, noted)
    output = module.forward(*inputs, **options)
    if backward:
        output = _watching_outputs(module, backward, inputs, output, noted)
    for hook in hooks:
        if hook.kind == "after":
            given = (inputs, options) if hook.with_options else (inputs,)
            found = hook.function(module, *given, output)
            output = output if found is None else found
    return output


def _watching_inputs(
    module: Any, hooks: list[Hook], inputs: tuple[Any, ...], noted: dict[int, Tensor]
) -> tuple[Any, ...]:
    def watched(position: int, x: Tensor) -> Tensor:
        @custom_vjp
        def entrance(x: Tensor) -> Tensor:
            return x

        def backward(residuals: Any, g: Tensor) -> tuple[Tensor]:
            gradients = tuple(g if k == position else None for k in range(len(inputs)))
            gradients = _called(module, hooks, gradients, noted)
            replaced = gradients[position]
            return (g if replaced is None else replaced,)

        entrance.defvjp(lambda x: (x, ()), backward)
        return entrance(x)

    return tuple(
        watched(position, x) if isinstance(x, Tensor) and x.dtype.kind == "f" else x
        for position, x in enumerate(inputs)
    )


def _watching_outputs(
    module: Any, hooks: list[Hook], inputs: tuple[Any, ...], output: Any, noted: dict[int, Tensor]
) -> Any:
    leaves, form = tree.flatten(output)
    alone = not history.must_keep([x for x in inputs if isinstance(x, Tensor)])  # no gradient goes on to the inputs

    def watched(position: int, y: Tensor) -> Tensor:
        @custom_vjp
        def exit(y: Tensor) -> Tensor:
            return y

        def backward(residuals: Any, g: Tensor) -> tuple[Tensor]:
            noted[position] = g
            if alone:
                _called(module, hooks, (None,) * len(inputs), noted)
            return (g,)

        exit.defvjp(lambda y: (y, ()), backward)
        return exit(y)

    return form.unflatten([watched(k, y) if isinstance(y, Tensor) else y for k, y in enumerate(leaves)])


def _called(module: Any, hooks: list[Hook], gradients: tuple[Any, ...], noted: dict[int, Tensor]) -> tuple[Any, ...]:
    outputs = tuple(noted.get(k) for k in range(max(noted, default=-1) + 1))
    for hook in hooks:
        found = hook.function(module, gradients, outputs)
        if found is not None:
            gradients = found if isinstance(found, tuple) else (found,)
    return gradients
