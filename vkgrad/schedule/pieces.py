"""Sums of many pieces that do not overlap, as the pieces side by side: nodes in, equal nodes out.

The gradient of a loop over x[0], x[1], ... ends so: the gradient of each slice is padded to all of x, and they are
added up. Every place would add as many numbers as there are pieces, of which all but one are padding. (Where all of
them are -0.0, so is what is joined, and not the sum.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkgrad.ir import build as b
from vkgrad.ir.node import Node, consumers, rebuilt, walk
from vkgrad.ir.op import Family
from vkgrad.ops.joining import MOST_JOINED, join


def pieces_joined(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` where sums of more pieces than one kernel joins are joined, in the same order."""
    order = walk(outputs, stop=has_value)
    if sum(node.is_op("pad") for node in order) <= MOST_JOINED:
        return list(outputs)
    readers, wanted = consumers(order), set(outputs)
    inner = {  # additions whose sum is only a part of another one
        node
        for node in order
        if node.is_op("add") and node not in wanted and not has_value(node)
        and len(readers[node]) == 1 and readers[node][0].is_op("add")
    }  # fmt: skip
    new: dict[Node, Node] = {}
    for node in order:
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
            continue
        new[node] = rebuilt(node, tuple(new[source] for source in node.inputs))
        if node.is_op("add") and node not in inner:
            new[node] = _joined([new[term] for term in _terms(node, inner)]) or new[node]
    return [new[node] for node in outputs]


def _terms(node: Node, inner: set[Node]) -> list[Node]:
    """What is added up in `node` and the additions below it, in order."""
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current is node or current in inner:
            stack.extend(reversed(current.inputs))
        else:
            found.append(current)
    return found


def _axis(node: Node) -> int | None:
    """The only axis along which `node` pads its input with zeros, without gaps."""
    if not node.is_op("pad") or node.attributes["value"] != 0 or any(node.attributes["interior"]):
        return None
    padded = [axis for axis in range(node.ndim) if node.shape[axis] != node.inputs[0].shape[axis]]
    return padded[0] if len(padded) == 1 else None


def _joined(terms: Sequence[Node]) -> Node | None:
    """The sum of `terms` with those joined that lie side by side along one axis; None where these are few."""
    by_axis: dict[int, list[Node]] = {}
    for term in terms:
        axis = _axis(term)
        if axis is not None:
            by_axis.setdefault(axis, []).append(term)
    if not by_axis:
        return None
    axis, padded = max(by_axis.items(), key=lambda item: len(item[1]))
    parts: list[Node] = []
    taken: set[Node] = set()
    end = 0
    for term in sorted(padded, key=lambda term: term.attributes["low"][axis]):
        start = term.attributes["low"][axis]
        if start < end or term in taken:
            continue
        if start > end:
            parts.append(_zeros(term, axis, start - end))
        parts.append(term.inputs[0])
        taken.add(term)
        end = start + term.inputs[0].shape[axis]
    if len(taken) <= MOST_JOINED:
        return None
    if end < terms[0].shape[axis]:
        parts.append(_zeros(terms[0], axis, terms[0].shape[axis] - end))
    total = join(parts, axis)
    for term in terms:
        if term in taken:
            taken.remove(term)  # where it is there twice, the second one is still to be added
        else:
            total = b.apply("add", total, term)
    return total


def _zeros(like: Node, axis: int, extent: int) -> Node:
    return b.constant(0, like.dtype, tuple(extent if a == axis else e for a, e in enumerate(like.shape)))
