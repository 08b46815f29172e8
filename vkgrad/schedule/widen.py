"""Contractions of single precision, added up in double precision: what VKGRAD_MATMUL_ACC=f64 asks for.

Nodes in, nodes out: the operands are cast inside the kernel, so nothing wider is ever stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, float64
from vkgrad.ir.node import Node, rebuilt, walk
from vkgrad.ir.op import Family


def widen(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` with every float32 contraction accumulated in float64, in the same order."""
    new: dict[Node, Node] = {}
    for node in walk(outputs, stop=has_value):
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
            continue
        same = new[node] = rebuilt(node, tuple(new[source] for source in node.inputs))
        if same.op.family is Family.CONTRACTION and same.dtype is float32:
            x, y = (b.cast(source, float64) for source in same.inputs)
            new[node] = b.cast(b.build("contract", x, y, **same.attributes), float32)
    return [new[node] for node in outputs]
