"""From a graph for one example to the graph for many: every primitive gets a leading axis, by a rule per family.

The rules rest on what a family is, so a new element-wise op or reduction needs none of its own, and the result is made
of the same primitives: it can be differentiated, batched again, fused and placed like anything else. This module must
not know tensors, values or devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vkgrad import autodiff
from vkgrad.errors import UnsupportedError
from vkgrad.ir import build as b
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import Family
from vkgrad.ops.indexed import gather
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import alias, permute

Batched = Mapping[Node, Node]  # a node of the graph for one example -> the node for all, batch axis first
Rule = Callable[[Node, Sequence[Node], Sequence[bool], int], Node]


def batch(outputs: Sequence[Node], examples: Batched, size: int) -> list[Node | None]:
    """`outputs` with a leading axis of extent `size`, given what stands for all examples at their inputs.

    None stands for an output that is the same for all examples, because it depends on none of `examples`.
    """
    done: dict[Node, Node] = dict(examples)
    order = walk(outputs, examples.__contains__, _needs)
    for node in order:
        if node in done or done.keys().isdisjoint(_needs(node)):
            continue
        rule = autodiff.custom_rules.get(node) if node.is_op("alias") else None
        mapped = [source in done for source in node.inputs]
        if any(mapped):
            made = _rule_of(node)(node, [done.get(source, source) for source in node.inputs], mapped, size)
        else:  # only what a user's own derivative depends on differs between the examples
            made = alias(_repeated(node.inputs[0], size))
        if rule is not None:
            needed = {source: done[source] for source in rule.inputs if source in done}
            autodiff.custom_rules[made] = _batched_rule(rule, dict(examples), needed, size)
        done[node] = made
    return [done.get(node) for node in outputs]


def _needs(node: Node) -> tuple[Node, ...]:
    rule = autodiff.custom_rules.get(node) if node.is_op("alias") else None
    return node.inputs if rule is None else (*node.inputs, *rule.inputs)


def _batched_rule(rule: autodiff.CustomRule, examples: Batched, inputs: Batched, size: int) -> autodiff.CustomRule:
    """The derivative of all examples: that of one, with a leading axis; what they share adds up over them."""

    def pull(g: Node) -> list[Node | None]:
        one = leaf(g.shape[1:], g.dtype)
        parts = rule.pull(one)
        present = [part for part in parts if part is not None]
        found = iter(batch(present, {**examples, one: g}, size))
        whole: list[Node | None] = []
        for part, source in zip(parts, rule.inputs, strict=True):
            if part is None:
                whole.append(None)
                continue
            every = next(found)
            every = _repeated(part, size) if every is None else every
            whole.append(every if source in inputs else b.reshape(b.build("sum", every, axes=(0,)), part.shape))
        return whole

    return autodiff.CustomRule(tuple(inputs.get(source, source) for source in rule.inputs), pull)


def _repeated(node: Node, size: int) -> Node:
    return b.expand(node, (size, *node.shape))


def _rule_of(node: Node) -> Rule:
    rule = _VIEWS.get(node.op.name) if node.op.family is Family.VIEW else _FAMILIES.get(node.op.family)
    if rule is None or (node.op.family is Family.ROUTINE and not node.op.batched):
        raise UnsupportedError(
            f"vmap: {node.op.name} has no batching rule; call it outside the mapped function, on all examples at once"
        )
    return rule


# ---- one rule per family
def _all(x: Node, is_mapped: bool, size: int) -> Node:
    return x if is_mapped else _repeated(x, size)


def _elementwise(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
    whole = [_all(x, is_mapped, size) for x, is_mapped in zip(inputs, mapped, strict=True)]
    return b.build(node.op, *whole, **node.attributes)


def _reduction(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
    return b.build(node.op, inputs[0], **_shifted(node, "axes"))


def _contraction(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
    left, right, out = (node.attributes[name] for name in ("left", "right", "out"))
    example = 1 + max((*left, *right, *out), default=-1)
    labels = {
        "left": (example, *left) if mapped[0] else left,
        "right": (example, *right) if mapped[1] else right,
        "out": (example, *out),
    }
    return b.build(node.op, *inputs, **{**node.attributes, **labels})


def _indexed(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
    (x, index), axis = inputs, node.attributes["axis"]
    if not mapped[1]:
        return gather(x, index, axis + 1)
    if not mapped[0]:
        return _to_front(gather(x, index, axis), axis)
    # Each example looks into its own rows: all rows in one axis, and an index that counts from the example's first.
    rows = x.shape[axis + 1]
    x = permute(x, [0, axis + 1, *(a for a in range(1, x.ndim) if a != axis + 1)])
    first = b.reshape(b.build("iota", extent=size), (size, *(1 for _ in index.shape[1:])))
    index = b.cast(index, first.dtype)
    inside = b.apply("logical_and", index >= 0, index < rows)
    found = gather(b.reshape(x, (size * rows, *x.shape[2:])), b.apply("where", inside, index + first * rows, -1), 0)
    # Axes now: the index's, with the examples first, then those of x without `axis`; the index belongs at `axis`.
    own, inner = range(1, index.ndim), range(index.ndim, found.ndim)
    return permute(found, [0, *inner[:axis], *own, *inner[axis:]])


def _to_front(node: Node, axis: int) -> Node:
    return permute(node, [axis, *(a for a in range(node.ndim) if a != axis)])


_FAMILIES: dict[Family, Rule] = {
    Family.ELEMENTWISE: _elementwise,
    Family.REDUCTION: _reduction,
    Family.CONTRACTION: _contraction,
    Family.INDEXED: _indexed,
    Family.ROUTINE: _elementwise,  # of those that are `batched`: a leading axis is more of the same
}


# ---- views: each says which of its attributes speak of axes
def _shifted(node: Node, *names: str) -> dict[str, Any]:
    """The attributes of `node`, where those of these names, which number axes, make room for one more in front."""
    found = dict(node.attributes)
    for name in names:
        held = found[name]
        found[name] = tuple(axis + 1 for axis in held) if isinstance(held, tuple) else held + 1
    return found


def _with_first(**first: Any) -> Rule:
    """A view whose attributes have an entry for each axis; `first` are those of the batch axis, None its extent."""

    def rule(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
        entries = {name: (size if value is None else value,) for name, value in first.items()}
        own = {name: (*entry, *node.attributes[name]) for name, entry in entries.items()}
        return b.build(node.op, inputs[0], **{**node.attributes, **own})

    return rule


def _with_axes(*names: str) -> Rule:
    return lambda node, inputs, mapped, size: b.build(node.op, inputs[0], **_shifted(node, *names))


_VIEWS: dict[str, Rule] = {
    "reshape": _with_first(shape=None),
    "expand": _with_first(shape=None),
    "slice": _with_first(starts=0, extents=None, steps=1),
    "pad": _with_first(low=0, high=0, interior=0),
    "permute": lambda node, inputs, mapped, size: permute(inputs[0], [0, *(a + 1 for a in node.attributes["axes"])]),
    "window": _with_axes("axis"),
    "diagonal": _with_axes("axis", "other"),
    "after": lambda node, inputs, mapped, size: b.build(node.op, _all(inputs[0], mapped[0], size), inputs[1]),
    "alias": lambda node, inputs, mapped, size: alias(inputs[0]),
    "stop_gradient": lambda node, inputs, mapped, size: b.build(node.op, inputs[0]),
}
