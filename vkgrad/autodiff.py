"""Reverse-mode differentiation: a graph goes in, a bigger graph of the same primitives comes out.

Since the result is made of forward primitives it can be differentiated again, fused and placed like anything else. This
module must not know tensors, values or devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkgrad.errors import DifferentiationError
from vkgrad.ir.build import apply, constant
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import NOT_DIFFERENTIABLE, ZERO


def vjp(outputs: Sequence[Node], wrt: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
    """The product of `cotangents` with the Jacobian of `outputs` with respect to `wrt`.

    Nothing is searched below a node of `wrt`. None stands for a gradient that is zero because no path exists.
    Raises: `DifferentiationError` when a path goes through an op that has no derivative.
    """
    targets = set(wrt)
    order = walk(outputs, stop=targets.__contains__)
    on_path: set[Node] = set()
    for node in order:
        if node in targets or (node.dtype.kind == "f" and not on_path.isdisjoint(node.inputs)):
            on_path.add(node)

    gradient: dict[Node, Node] = {}

    def accumulate(node: Node, g: Node) -> None:
        known = gradient.get(node)
        gradient[node] = g if known is None else apply("add", known, g)

    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output in on_path:
            accumulate(output, cotangent)
    for node in reversed(order):
        if node not in on_path or node in targets or node not in gradient:
            continue
        rule = node.op.grad
        if rule is ZERO:
            continue
        if rule is NOT_DIFFERENTIABLE:
            raise DifferentiationError(f"{node.op.name}: has no derivative; stop_gradient its input if that is meant")
        parts = rule(gradient[node], node, *node.inputs, **node.attributes)  # type: ignore[operator]
        for source, part in zip(node.inputs, parts, strict=True):
            if source in on_path and part is not None and part is not ZERO:
                accumulate(source, part)
    return [gradient.get(node) for node in wrt]


def zeros_like(node: Node) -> Node:
    return constant(0, node.dtype, node.shape)
