"""`custom_kernel`: an operation whose kernel is written by the user, as whole a citizen as any of vkgrad's own.

This module must not know how a template is rendered or run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, Geometry, Shape, _Statement
from vkgrad.ops.families import routine
from vkgrad.ops.samples import alike, uniform
from vkgrad.tensor import Tensor, derived, lift

WRITTEN_BY_USER = "written by a user"

__all__ = ["Geometry", "custom_kernel"]


def custom_kernel(
    name: str,
    *,
    template: str,
    geometry: Callable[..., Geometry],
    shape: Callable[..., Shape],
    dtype: Callable[..., DType],
    numpy: Callable[..., Any],
    grad: Callable[..., tuple] | _Statement = NOT_DIFFERENTIABLE,
    arity: int = 1,
    batched: bool = False,
    replace: bool = False,
) -> Callable[..., Tensor]:
    """A function of `arity` tensors, and of attributes by keyword, that is one dispatch of `template`.

    Args:
        name: the one name it has, in plans and errors.
        template: Jinja over GLSL: its text, or the name of a file in `templates/`.
        geometry: (input shapes, input dtypes, limits, **attributes) to a `Geometry`.
        shape: (input shapes, **attributes) to the shape of the result.
        dtype: (input dtypes, **attributes) to the element type of the result.
        numpy: (*arrays, **attributes) to an array: the meaning, which the CPU device runs and tests compare with.
        grad: (g, out, *inputs, **attributes), all tensors, to a tuple with the gradient of each input, or None.
        batched: whether more leading axes, the same for all inputs, are more of the same, as `vg.vmap` needs.
        replace: take the name from an earlier kernel of yours, so that a notebook's cell can be run again. What was
            built with that one stays as it is.

    What it takes is brought into memory in row-major order first; what it gives is one array. `docs/adding-a-kernel.md`
    shows one from end to end.

    Raises:
        TypeError: the name is taken, or something is missing.
    """
    if name in OPS and not (replace and OPS[name].doc == WRITTEN_BY_USER):
        raise TypeError(
            f"custom_kernel: op {name!r} is registered twice; take another name, or pass replace=True for one of yours"
        )
    OPS.pop(name, None)
    rule = grad if isinstance(grad, _Statement) else partial(_on_tensors, grad)
    op = routine(
        name, template=template, geometry=geometry, shape=shape, dtype=dtype, numpy=numpy, grad=rule, arity=arity,
        batched=batched, samples=uniform(-2, 2).on(*alike(arity)), doc=WRITTEN_BY_USER,
    )  # fmt: skip

    def call(*operands: Any, **attributes: Any) -> Tensor:
        tensors = [lift(operand) for operand in operands]
        return derived(b.build(op, *(x.node for x in tensors), **attributes), *tensors)

    call.__name__ = call.__qualname__ = name
    return call


def _on_tensors(grad: Callable[..., tuple], g: Node, out: Node, *inputs: Node, **attributes: Any) -> tuple:
    parts = grad(*(Tensor(node, keeps_history=True) for node in (g, out, *inputs)), **attributes)
    return tuple(part.node if isinstance(part, Tensor) else part for part in parts)
