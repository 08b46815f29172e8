"""An ONNX graph while it is written: names, constants, nodes, and in the end only what the outputs need.

This module must not know vkgrad's primitives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from vkgrad.ir.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]

TYPES: dict[str, int] = {
    "bool": TensorProto.BOOL, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
}  # fmt: skip


def type_code(dtype: DType) -> int:
    """ONNX's number of an element type."""
    return TYPES[dtype.name]


class Graph:
    """Nodes and constants in the order in which they are written."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self.nodes: list[NodeProto] = []
        self._given = set(given)  # names of inputs, outputs and weights
        self._taken = set(given)
        self._counts: dict[str, int] = {}
        self._constants: dict[tuple, str] = {}

    def name(self, stem: str) -> str:
        """A name that nothing has yet."""
        while True:
            number = self._counts[stem] = self._counts.get(stem, -1) + 1
            found = f"{stem}_{number}"
            if found not in self._taken:
                self._taken.add(found)
                return found

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; the name of its output."""
        out = self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, list(inputs), [out], name=out, **attributes))
        return out

    def constant(self, value: Any, dtype: Any) -> str:
        """A constant, written once however often it is asked for."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.emit("Constant", value=numpy_helper.from_array(array))
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> str:
        """A vector of int64: shapes, axes, positions."""
        return self.constant(list(values), np.int64)

    def finished(self, outputs: Iterable[str]) -> list[NodeProto]:
        """The nodes that `outputs` need, in an order and with names that depend on nothing else."""
        makers = {node.output[0]: node for node in self.nodes}
        order: list[NodeProto] = []
        seen: set[str] = set()
        stack = [(name, False) for name in reversed(list(outputs))]
        while stack:
            name, is_ready = stack.pop()
            if is_ready:
                order.append(makers[name])
            elif name in makers and name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack.extend((source, False) for source in reversed(makers[name].input))
        self._rename(order)
        return order

    def _rename(self, nodes: Sequence[NodeProto]) -> None:
        """Number the names in the order of the nodes: what was written and not needed has numbers too."""
        self._taken, self._counts = set(self._given), {}
        renamed: dict[str, str] = {}
        for node in nodes:
            for number, name in enumerate(node.input):
                node.input[number] = renamed.get(name, name)
            if node.output[0] not in self._given:
                renamed[node.output[0]] = node.name = self.name(node.op_type.lower())
                node.output[0] = node.name
