"""Reverse-mode differentiation: a graph goes in, a bigger graph of the same primitives comes out.

Since the result is made of forward primitives it can be differentiated again, fused and placed like anything else. This
module must not know tensors, values or devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vkgrad.errors import DifferentiationError
from vkgrad.ir.build import apply, constant
from vkgrad.ir.node import Node, Signature, apart, is_sharing, walk
from vkgrad.ir.op import NOT_DIFFERENTIABLE, ZERO
from vkgrad.ir.program import Program, recorded, structure
from vkgrad.ir.weak import WeakMap

MOST_PROGRAMS = 256  # derivatives kept for reuse


@dataclass(frozen=True)
class CustomRule:
    """A user's own derivative of an `alias` node: it depends on `inputs`, and `pull` turns its gradient into theirs."""

    inputs: tuple[Node, ...]
    pull: Callable[[Node], Sequence[Node | None]]


on_vjp: list[Callable[[Sequence[Node]], None]] = []  # watchers, told what is differentiated
custom_rules: WeakMap[Node, CustomRule] = WeakMap()
_programs: dict[tuple, Program] = {}


def sources(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` has a derivative with respect to: none for integers, masks and piecewise constants."""
    if node.dtype.kind != "f" or node.op.grad is ZERO:
        return ()
    rule = custom_rules.get(node) if node.is_op("alias") else None
    return node.inputs if rule is None else rule.inputs


def vjp(outputs: Sequence[Node], wrt: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
    """The product of `cotangents` with the Jacobian of `outputs` with respect to `wrt`.

    Nothing is searched below a node of `wrt`. None stands for a gradient that is zero because no path exists. The rules
    are asked once for each structure of graph, and what they built is replayed afterwards, without what nobody needs.

    Raises: `DifferentiationError` when a path goes through an op that has no derivative.
    """
    for watch in on_vjp:
        watch(outputs)
    targets = set(wrt)
    has_custom = False

    def input_key(node: Node) -> Signature | None:
        nonlocal has_custom
        if node in targets or node.dtype.kind != "f" or node.op.grad is ZERO:
            return node.signature
        has_custom = has_custom or node in custom_rules
        return None

    graph, number, _ = structure(outputs, input_key)
    if has_custom or not is_sharing():
        return _derived(outputs, wrt, cotangents)
    weights = tuple([(number.setdefault(node, len(number)), node.signature) for node in cotangents])
    key = (graph, weights, tuple([number.get(node, -1) for node in wrt]))
    found = _programs.get(key)
    if found is None:
        with apart():
            parts = _derived(outputs, wrt, cotangents)
        found = recorded(parts, list(number))
        if found is None:
            return _derived(outputs, wrt, cotangents)
        while len(_programs) >= MOST_PROGRAMS:
            _programs.pop(next(iter(_programs)), None)
    else:
        _programs.pop(key, None)
    _programs[key] = found  # at the end, since the one that was used longest ago goes first
    return found.replay(number)


def _derived(outputs: Sequence[Node], wrt: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
    """`vjp`, by asking the rules."""
    targets = set(wrt)
    order = walk(outputs, targets.__contains__, sources)
    on_path: set[Node] = set()
    for node in order:
        if node in targets or not on_path.isdisjoint(sources(node)):
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
        for source, part in zip(sources(node), _pulled(gradient[node], node), strict=True):
            if source in on_path and part is not None and part is not ZERO:
                accumulate(source, part)
    return [gradient.get(node) for node in wrt]


def _pulled(g: Node, node: Node) -> Sequence[Node | None]:
    """The gradient of each of `sources(node)`, given that of `node`."""
    custom = custom_rules.get(node) if node.is_op("alias") else None
    if custom is not None:
        return custom.pull(g)
    rule = node.op.grad
    if rule is NOT_DIFFERENTIABLE:
        raise DifferentiationError(f"{node.op.name}: has no derivative; stop_gradient its input if that is meant")
    return rule(g, node, *node.inputs, **node.attributes)  # type: ignore[operator]


def zeros_like(node: Node) -> Node:
    return constant(0, node.dtype, node.shape)
