"""Contractions of single precision, added up in double precision: what VKGRAD_MATMUL_ACC=f64 asks for.

Nodes in, nodes out: the operands are cast inside the kernel, so nothing wider is ever stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float32, float64
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family
from vkgrad.schedule.rewrite import rewrite


def widen(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` with every float32 contraction accumulated in float64, in the same order."""
    return rewrite(outputs, has_value, _widened)


def _widened(node: Node) -> Node:
    if node.op.family is not Family.CONTRACTION or node.dtype is not float32:
        return node
    x, y = (b.cast(source, float64) for source in node.inputs)
    return b.cast(b.build("contract", x, y, **node.attributes), float32)
