"""Write a function or a module as an ONNX file, from the graph of primitives that it builds.

The function runs once on leaves that stand in for its arguments, as `vg.jit` runs it; what it read from outside are
weights. This module must not know how a primitive is written: that is in `primitives` and `recognised`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import vkgrad
from vkgrad import engine, tree
from vkgrad.checked import shown
from vkgrad.errors import ArgumentError, DataError, OptionError
from vkgrad.history import no_grad
from vkgrad.ir.node import Node, walk
from vkgrad.nn.module import Module
from vkgrad.onnx.graph import Graph, type_code
from vkgrad.onnx.primitives import Writer
from vkgrad.ops.recurrences import unrolled
from vkgrad.ops.sources import leaf
from vkgrad.schedule.rewrite import rewrite
from vkgrad.tensor import Tensor, asarray
from vkgrad.tracing import Trace

OPSET = 18
IR_VERSION = 9  # what runtimes of two years ago read
BUFFERS = "vkgrad.buffers"  # names of the weights that are no parameters, in the file's metadata


def export(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    parameters: Module | Mapping[str, Tensor] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """Write what `function` computes of `arguments` to an ONNX file (opset 18), and return it.

    Shapes are those of the arguments. A module is written in the mode it is in: call `eval()` first, unless it should
    drop out. Weights have the names that they have in the module's state dict.

    Args:
        function: a module, or a function of tensors that returns tensors.
        arguments: tensors or arrays of the shapes and types that the file is for; their values do not matter.
        parameters: where a function's weights get their names from: a module, or a mapping from names to tensors.
        input_names: "x", or "x0", "x1" ... unless given.
        output_names: "y", or "y0", "y1" ... unless given.

    Raises:
        UnsupportedError: the function does something for which ONNX has no operator, such as drawing random numbers.
        OptionError: names that are too few, too many or not different.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "linear.onnx")
        >>> written = vg.onnx.export(vg.nn.Linear(3, 2), [vg.zeros((4, 3))], path)
        >>> [node.op_type for node in written.graph.node], [weight.name for weight in written.graph.initializer]
        (['Gemm'], ['weight', 'bias'])
    """
    named = _named(function if parameters is None else parameters)
    engine.evaluate([tensor.node for tensor in named.values()])
    if not isinstance(arguments, tuple | list):
        raise ArgumentError(f"onnx.export: arguments are a list of them, not {shown(arguments)}; write [x]")
    given = [asarray(argument) for argument in arguments]
    placeholders = [leaf(tensor.shape, tensor.dtype) for tensor in given]
    with engine.aside(), no_grad(), Trace().watching():
        # Inside, the assignments of the function, such as a counter's, are undone at the end.
        result = function(*[Tensor(node) for node in placeholders])
        outputs = [found.value.node for found in tree.leaves(result)]
    if not outputs or not all(isinstance(node, Node) for node in outputs):
        raise DataError("onnx.export: the function must return tensors")
    inputs_by_name = _names("input_names", input_names, "x", placeholders)
    outputs_by_name = _names("output_names", output_names, "y", outputs)
    taken = {*inputs_by_name, *outputs_by_name}
    if clash := sorted(taken & set(named)) or sorted(set(inputs_by_name) & set(outputs_by_name)):
        raise OptionError(
            f"onnx.export: the name {clash[0]!r} is there twice; choose other input_names or output_names"
        )
    model = _written(named, inputs_by_name, outputs_by_name)
    onnx.checker.check_model(model, full_check=True)
    Path(path).write_bytes(model.SerializeToString(deterministic=True))
    return model


def _named(source: Any) -> dict[str, Tensor]:
    """The weights by name, those that several names have by the first."""
    if isinstance(source, Module):
        return {**dict(source.named_parameters()), **dict(source.named_buffers())}
    return dict(source) if isinstance(source, Mapping) else {}


def _names(option: str, given: Sequence[str] | None, stem: str, nodes: Sequence[Node]) -> dict[str, Node]:
    if given is None:
        given = [stem] if len(nodes) == 1 else [f"{stem}{number}" for number in range(len(nodes))]
    if len(given) != len(nodes) or len(set(given)) != len(nodes):
        raise OptionError(f"onnx.export: {option} must be {len(nodes)} different names, got {list(given)}")
    return dict(zip(given, nodes, strict=True))


def _written(named: dict[str, Tensor], inputs: dict[str, Node], outputs: dict[str, Node]) -> onnx.ModelProto:
    graph = Graph([*named, *inputs, *outputs])
    writer = Writer(graph)
    for name, node in inputs.items():
        writer.names[node] = name
    weights = {tensor.node: name for name, tensor in reversed(named.items())}
    steps = rewrite(list(outputs.values()), engine.has_value, lambda n: unrolled(n) if n.is_op("recurrent") else n)
    outputs = dict(zip(outputs, steps, strict=True))
    for node in walk(outputs.values(), stop=engine.has_value):
        if node in writer.names:
            continue
        if not engine.has_value(node):
            writer.write(node)
        elif node in weights:
            writer.names[node] = weights[node]
        else:
            writer.names[node] = graph.constant(Tensor(node).numpy(), node.dtype.numpy)
    for name, node in outputs.items():  # an output may be an input, or be there twice
        graph.nodes.append(helper.make_node("Identity", [writer.names[node]], [name], name=name))
    nodes = _without_identities(graph.finished(outputs), outputs)
    used = {name for node in nodes for name in node.input}
    kept = {name: tensor for name, tensor in named.items() if name in used}
    written = helper.make_graph(
        nodes,
        "vkgrad",
        [helper.make_tensor_value_info(name, type_code(node.dtype), node.shape) for name, node in inputs.items()],
        [helper.make_tensor_value_info(name, type_code(node.dtype), node.shape) for name, node in outputs.items()],
        [numpy_helper.from_array(np.asarray(tensor), name) for name, tensor in kept.items()],
    )
    model = helper.make_model(
        written, producer_name="vkgrad", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    buffers = [name for name, tensor in kept.items() if not tensor.requires_grad]
    helper.set_model_props(model, {BUFFERS: json.dumps(buffers), "vkgrad.version": vkgrad_version()})
    return model


def vkgrad_version() -> str:
    from importlib.metadata import version

    return version(vkgrad.__name__)


def _without_identities(nodes: list[onnx.NodeProto], outputs: Mapping[str, Node]) -> list[onnx.NodeProto]:
    """Let the node before each output's Identity write it, where nothing else reads it."""
    makers = {name: node for node in nodes for name in node.output}
    readers: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    kept = []
    for node in nodes:
        maker = makers.get(node.input[0]) if node.op_type == "Identity" and node.output[0] in outputs else None
        if maker is None or readers[node.input[0]] > 1:
            kept.append(node)
        else:
            maker.output[0] = maker.name = node.output[0]
    return kept
