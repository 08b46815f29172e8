"""What a function's author says about its derivative: `stop_gradient` and `custom_vjp`.

This module must not know how a derivative is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from typing import Any

from vkgrad import autodiff, tree
from vkgrad.errors import DifferentiationError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.views import alias
from vkgrad.tensor import Tensor, derived, is_operand, lift

Function = Callable[..., Any]


def stop_gradient(x: Any) -> Any:
    """The value of x (or any nesting), as if it were a constant to every derivative."""
    return tree.replace(lambda leaf: lift(leaf).detach() if is_operand(leaf) else leaf, x)


class custom_vjp:
    """A function with a derivative of its own.

    `forward(*args)` returns `(output, residuals)`; `backward(residuals, cotangent)` returns a tuple with the gradient
    of each argument, None for one that has none. Only the arguments get gradients: a differentiated tensor that the
    function takes from elsewhere gets none.

    Example:
        >>> import vkgrad as vg
        >>> @vg.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, ()), lambda residuals, g: (vg.clip(g, -1.0, 1.0),))
        >>> vg.grad(lambda x: 5 * clipped(x))(1.0).item()
        1.0
    """

    def __init__(self, f: Function) -> None:
        update_wrapper(self, f)
        self._described = f
        self._forward: Function | None = None
        self._backward: Function | None = None

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Say how to compute the output with what the derivative needs, and the derivative."""
        self._forward, self._backward = forward, backward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward is None or self._backward is None:
            raise DifferentiationError(
                "custom_vjp: define its derivative with .defvjp(forward, backward) before a call"
            )
        if kwargs:  # f says where they belong
            bound = signature(self._described).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
            if bound.kwargs:
                raise DifferentiationError(
                    f"custom_vjp: {', '.join(bound.kwargs)} can only be given by name; backward "
                    "would not know where its gradient belongs"
                )
        args = tree.replace(lambda leaf: lift(leaf) if is_operand(leaf) else leaf, args)
        inputs = _tensors_in(args)
        output, residuals = self._forward(*args)
        rule = _Rule(
            self._backward, args, residuals, tree.structure(output), [lift(x) for x in tree.flatten(output)[0]]
        )
        outputs = [alias(node) for node in rule.outputs]
        for position, node in enumerate(outputs):
            autodiff.custom_rules[node] = autodiff.CustomRule(tuple(x.node for x in inputs), rule.of_output(position))
        return rule.form.unflatten([derived(node, *inputs) for node in outputs])


class _Rule:
    """The derivative of one call. It must not hold the aliases whose rule it is, or they would never be freed."""

    def __init__(
        self, backward: Function, args: Sequence[Any], residuals: Any, form: tree.Structure, outputs: Sequence[Tensor]
    ) -> None:
        self.backward = backward
        self.args = args
        self.residuals = residuals
        self.form = form
        self.outputs = [output.node for output in outputs]

    def of_output(self, position: int) -> Callable[[Node], list[Node | None]]:
        """What turns the gradient of one output into those of the arguments. Rules are linear: outputs add up."""

        def pull(g: Node) -> list[Node | None]:
            cotangents = [autodiff.zeros_like(node) for node in self.outputs]
            cotangents[position] = g
            tensors = [Tensor(node, keeps_history=True) for node in cotangents]
            return self._matched(self.backward(self.residuals, self.form.unflatten(tensors)))

        return pull

    def _matched(self, parts: Any) -> list[Node | None]:
        """The gradients that the user's `backward` returned, one for each tensor in the arguments."""
        if not isinstance(parts, tuple) or len(parts) != len(self.args):
            raise DifferentiationError(f"custom_vjp: backward must return a tuple of {len(self.args)} gradients")
        nodes: list[Node | None] = []
        for part, arg in zip(parts, self.args, strict=True):
            tensors = _tensors_in(arg)
            gradients = [None] * len(tensors) if part is None else tree.flatten(part)[0]
            if len(gradients) != len(tensors):
                raise DifferentiationError("custom_vjp: a gradient has another nesting than its argument")
            for tensor, gradient in zip(tensors, gradients, strict=True):
                given = None if gradient is None else lift(gradient)
                if given is not None and given.shape != tensor.shape:
                    raise ShapeError(f"custom_vjp: a gradient has shape {given.shape}, its argument {tensor.shape}")
                nodes.append(None if given is None else b.cast(given.node, tensor.dtype))
        return nodes


def _tensors_in(value: Any) -> list[Tensor]:
    return [leaf.value for leaf in tree.leaves(value) if isinstance(leaf.value, Tensor)]
