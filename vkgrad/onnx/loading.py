"""Make a module of an ONNX file: its graph run node by node, with the file's weights as parameters that train.

What the file computes with shapes and other constants stays NumPy, on the host; only what depends on the inputs and the
weights becomes tensors. This module must not know how an operator is computed: that is in `operators`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vkgrad import engine
from vkgrad.errors import DataError, DataNotFoundError, ShapeError, UnsupportedError
from vkgrad.ir.dtypes import int32, int64, uint32, uint64
from vkgrad.nn.module import Module, parameter
from vkgrad.onnx.exporting import BUFFERS
from vkgrad.onnx.operators import Attributes
from vkgrad.onnx.recurrent import OPERATORS
from vkgrad.tensor import Tensor, asarray, tensor

Array = np.ndarray[Any, np.dtype[Any]]
# Which inputs of an operator are statistics, which no gradient should reach.
STATISTICS = {"BatchNormalization": (3, 4)}


def load(path: str | os.PathLike[str]) -> Loaded:
    """Read an ONNX file as a module that computes and trains.

    Its parameters are the file's floating-point weights under the file's names (but for batch norm's statistics, and
    single numbers); all else is constant. Inputs may have other extents than the file says where its graph allows that.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is damaged or no ONNX model.
        UnsupportedError: it uses an operator that vkgrad has not; the text lists them.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "linear.onnx")
        >>> _ = vg.onnx.export(vg.nn.Linear(3, 2), [vg.zeros((4, 3))], path)
        >>> model = vg.onnx.load(path)
        >>> model(vg.ones((4, 3))).shape, [name for name, _ in model.named_parameters()]
        ((4, 2), ['weight', 'bias'])
    """
    if not Path(path).is_file():
        raise DataNotFoundError(f"{path}: no such ONNX file")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        words = str(error).partition("\n")[0][:80]
        raise DataError(f"{path}: not an ONNX model, or damaged ({words}); export or fetch it again") from None
    unknown = sorted({_full_name(node) for node in model.graph.node} - set(OPERATORS))
    if unknown:
        raise UnsupportedError(f"{path}: vkgrad has no {', '.join(unknown)}; it reads {', '.join(sorted(OPERATORS))}")
    return Loaded(model)


def _full_name(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class Loaded(Module):
    """A module that runs the graph of an ONNX model. `load` makes one; `inputs` and `outputs` are its names for both.

    Called with tensors in the order of `inputs`, or by these names; returns a tensor, or a tuple of several.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self._opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        self._weights, self._constants = _split(graph, _buffers_of(model))
        given = {*self._weights, *self._constants}
        self.inputs = tuple(value.name for value in graph.input if value.name not in given)
        self.outputs = tuple(value.name for value in graph.output)
        self._nodes: list[tuple[NodeProto, Attributes]] = []
        for node in graph.node:
            attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
            if all(name in self._constants for name in node.input if name):
                self._constants.update(zip(node.output, self._folded(node, self._constants), strict=False))
            else:
                self._nodes.append((node, Attributes(node, attributes, self._opset)))
        self._uploaded: dict[str, Tensor] = {}  # constants that tensors meet, once they did

    def _contents(self) -> Mapping[str, Any]:
        return self._weights

    def forward(self, *inputs: Any, **named: Any) -> Any:
        given = dict(zip(self.inputs, inputs, strict=False)) | named
        if set(given) != set(self.inputs) or len(inputs) > len(self.inputs):
            raise ShapeError(f"{type(self).__name__}: takes {', '.join(self.inputs)}, got {', '.join(given) or 'none'}")
        values: dict[str, Any] = {**self._constants, **self._weights}
        values |= {name: asarray(value) for name, value in given.items()}
        for node, attributes in self._nodes:
            operands = [values[name] if name else None for name in node.input]
            if all(operand is None or isinstance(operand, np.ndarray) for operand in operands):
                values.update(zip(node.output, self._folded(node, values), strict=False))
                continue
            results = OPERATORS[node.op_type](_Operands(self, node, operands), attributes)
            results = results if isinstance(results, tuple | list) else (results,)
            values.update(zip(node.output, results, strict=False))
        found = tuple(values[name] for name in self.outputs)
        found = tuple(value if isinstance(value, Tensor) else _uploaded(value) for value in found)
        return found[0] if len(found) == 1 else found

    def _folded(self, node: NodeProto, values: Mapping[str, Any]) -> list[Array]:
        """What a node makes of constants, by ONNX's own reference."""
        arrays = {name: values[name] for name in node.input if name}
        graph = helper.make_graph(
            [node],
            "folded",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in arrays.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self._opset)])
        results = iter(ReferenceEvaluator(model).run(None, arrays))
        return [np.asarray(next(results)) if name else np.zeros(()) for name in node.output]

    def constant(self, name: str, array: Array) -> Tensor:
        """A constant as a tensor: uploaded when the first tensor meets it, and not again."""
        if name not in self._constants or engine.tracing() is not None:
            return _uploaded(array)
        found = self._uploaded.get(name)
        if found is None:
            found = self._uploaded[name] = _uploaded(array)
        return found

    def extra_repr(self) -> str:
        return f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}, {len(self._nodes)} nodes"


class _Operands:
    """A node's inputs while it runs."""

    def __init__(self, module: Loaded, node: NodeProto, values: list[Any]) -> None:
        self._module, self._node, self._values = module, node, values

    def __len__(self) -> int:
        return len(self._values)

    def has(self, number: int) -> bool:
        return number < len(self._values) and self._values[number] is not None

    def __getitem__(self, number: int) -> Tensor:
        """Input `number` as a tensor."""
        value = self._values[number]
        return value if isinstance(value, Tensor) else self._module.constant(self._node.input[number], value)

    def tensors(self) -> list[Tensor]:
        return [self[number] for number in range(len(self))]

    def array(self, number: int) -> Array:
        """Input `number` as an array: a shape, axes, or another number that tensors' values have no part in.

        Raises:
            UnsupportedError: it depends on the inputs' values.
        """
        value = self._values[number]
        if isinstance(value, Tensor):
            raise UnsupportedError(
                f"{self._node.op_type} {self._node.name!r}: its input {self._node.input[number]!r} depends on values "
                "that are computed, and vkgrad needs it when the graph is built"
            )
        return value

    def integers(self, number: int) -> list[int]:
        return [int(value) for value in self.array(number).reshape(-1)]


def _buffers_of(model: onnx.ModelProto) -> set[str] | None:
    """The names of the weights that are no parameters, if vkgrad has written the file."""
    found = next((entry.value for entry in model.metadata_props if entry.key == BUFFERS), None)
    return None if found is None else set(json.loads(found))


def _split(graph: GraphProto, buffers: set[str] | None) -> tuple[dict[str, Tensor], dict[str, Array]]:
    """The weights, which are tensors, and the constants."""
    same = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    statistics = {node.input[number] for node in graph.node for number in STATISTICS.get(node.op_type, ())}
    for name in list(statistics):  # PyTorch writes equal weights once, and names the others by Identity
        while name in same:
            name = same[name]
            statistics.add(name)
    weights: dict[str, Tensor] = {}
    constants: dict[str, Array] = {}
    for entry in graph.initializer:
        array = numpy_helper.to_array(entry)
        is_weight = array.dtype.kind == "f" and array.ndim > 0 if buffers is None else True
        if not is_weight:
            constants[entry.name] = array
            continue
        value = _uploaded(array)
        trains = entry.name not in (statistics if buffers is None else buffers)
        weights[entry.name] = parameter(value) if trains else value
    return weights, constants


def _uploaded(array: Array) -> Tensor:
    """An array as a tensor; ONNX's integers have 64 bits everywhere, which not every device has."""
    for wide, narrow in ((int64, int32), (uint64, uint32)):
        if array.dtype == wide.numpy and engine.default_device().lacks(wide):
            limits = np.iinfo(narrow.numpy)
            return tensor(np.clip(array, limits.min, limits.max).astype(narrow.numpy))
    return tensor(array)
