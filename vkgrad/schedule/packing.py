"""Filters in the order in which products read them: nodes in, equal nodes out.

Filters lie in memory as (outputs, channels, taps). A product that moves them over an image takes a few channels of many
outputs at a time, or the other way round, and finds both a whole filter apart. So where filters are used often enough,
they are copied first as (taps, terms, outputs of the product): a copy of few elements, before anything else is done,
after which every load takes neighbours. No sum changes its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from vkgrad.ir import build as b
from vkgrad.ir.node import Node, consumers, rebuilt, walk
from vkgrad.ir.op import Family
from vkgrad.ops.contraction import extents_of
from vkgrad.ops.views import permute

# How often each element must be used, and multiply-adds of the product, that a copy is worth a kernel. On an H200 the
# gradient of the data of a 3x3 convolution takes 416 us as it is, and 275 with packed filters (128 channels at 28x28).
WORTH_USES = 1024
WORTH_PACKING = 1 << 28
NARROW = 32  # channels or outputs, of which fewer are no neighbours to take


def packed(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` where filters that are used often are packed for it, in the same order."""
    order = walk(outputs, stop=has_value)
    readers, wanted = consumers(order), set(outputs)
    new: dict[Node, Node] = {}
    for node in order:
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
            continue
        sources = [new[source] for source in node.inputs]
        if node.is_op("contract") and node.size:
            for side in (0, 1):
                taps = _taps(node, side, readers, wanted, has_value)
                if taps:
                    sources[side] = _in_order(node, side, sources[side], taps)
        new[node] = rebuilt(node, tuple(sources))
    return [new[node] for node in outputs]


def windows_of(node: Node, has_value: Callable[[Node], bool]) -> list[dict[str, Any]]:
    """The attributes of the windows that `node` ends in, the innermost axis last."""
    found: list[dict[str, Any]] = []
    while node.is_op("window") and not has_value(node):
        found.insert(0, dict(node.attributes))
        node = node.inputs[0]
    return found


def _taps(
    node: Node,
    side: int,
    readers: dict[Node, list[Node]],
    wanted: set[Node],
    has_value: Callable[[Node], bool],
) -> tuple[int, ...]:
    """The labels along which operand `side` of a contraction has taps, if it is worth packing."""
    own, other = (tuple(node.attributes[name]) for name in (("left", "right") if side == 0 else ("right", "left")))
    out = tuple(node.attributes["out"])
    filters, image = node.inputs[side], node.inputs[1 - side]
    extents = extents_of([source.shape for source in node.inputs], *(node.attributes[n] for n in ("left", "right")))
    work = prod(extents.values())
    if work < WORTH_PACKING or work < WORTH_USES * filters.size or any(n in other and n in out for n in own):
        return ()
    moved = len(windows_of(image, has_value))
    if moved:
        taps = other[-moved:]
    else:
        put_back = _put_back(node, readers, wanted)
        taps = out[-put_back:] if put_back else ()
    if prod(extents[label] for label in taps) == 1 or any(label not in own for label in taps):
        return ()
    sides = [prod(extents[n] for n in own if n not in taps and (n in out) is inside) for inside in (False, True)]
    return taps if min(sides) >= NARROW else ()


def _put_back(node: Node, readers: dict[Node, list[Node]], wanted: set[Node]) -> int:
    """How many last axes of `node` are added up where their windows were, by all that is done with it."""
    count = 0
    while node not in wanted and len(readers[node]) == 1:
        (node,) = readers[node]
        if node.is_op("diagonal"):
            count += 1
        elif node.op.family is not Family.VIEW and not (node.is_op("sum") and not node.attributes.get("partial")):
            break
    return count


def _in_order(node: Node, side: int, filters: Node, taps: Sequence[int]) -> Node:
    """A copy of `filters` with taps outermost, then what is summed, then what is not; seen as it was."""
    own, out = tuple(node.attributes[("left", "right")[side]]), tuple(node.attributes["out"])
    rest = [label for label in own if label not in taps]
    order = [*taps, *(n for n in rest if n not in out), *(n for n in rest if n in out)]
    axes = [own.index(label) for label in order]
    turned = permute(filters, axes)
    # A sum of one term has a kernel, and so a place in memory, of its own; `partial` keeps others from taking it in.
    copy = b.build("sum", b.reshape(turned, (*turned.shape, 1)), axes=(turned.ndim,), partial=True)
    return permute(b.reshape(copy, turned.shape), [axes.index(axis) for axis in range(len(axes))])
