"""How each primitive is written in ONNX's operators.

`Writer.write` takes one node whose inputs are written. Operators of several primitives are found first, by
`recognised`; what is left unread by that is dropped when the graph is done. This module must not know weights or files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod
from typing import Any

import numpy as np

from vkgrad.errors import UnsupportedError
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family
from vkgrad.onnx.graph import Graph, type_code
from vkgrad.onnx.recognised import Recognised, unexpanded

# Primitives that ONNX has under another name, or under the same in its spelling.
SAME = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "pow": "Pow", "sqrt": "Sqrt",
    "reciprocal": "Reciprocal", "negative": "Neg", "abs": "Abs", "sign": "Sign", "maximum": "Max", "minimum": "Min",
    "relu": "Relu", "where": "Where", "floor": "Floor", "ceil": "Ceil", "round": "Round", "equal": "Equal",
    "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
    "isnan": "IsNaN", "isinf": "IsInf", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
    "logical_not": "Not", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
    "bitwise_invert": "BitwiseNot", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "erf": "Erf",
}  # fmt: skip
OF_MASKS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not"}
REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
PASSED_ON = ("alias", "stop_gradient", "after")  # they change no value
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Writer:
    """Writes nodes to a graph, inputs first; `names` says which of the graph's values each node is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[Node, str] = {}
        self.recognised = Recognised(self)

    def write(self, node: Node) -> None:
        """Write one node.

        Raises:
            UnsupportedError: ONNX has no operator for it.
        """
        name = self.recognised.written(node)
        if name is None:
            rule = RULES.get(node.op.name)
            if node.op.name in SAME:
                operator = SAME[node.op.name]
                operator = OF_MASKS.get(operator, operator) if node.dtype.kind == "b" else operator
                name = self.graph.emit(operator, *self.operands(node))
            elif node.op.name in REDUCTIONS:
                name = self.reduced(REDUCTIONS[node.op.name], self.names[node.inputs[0]], node)
            elif node.op.name in PASSED_ON:
                name = self.names[node.inputs[0]]
            elif rule is not None:
                name = rule(self, node)
            else:
                raise UnsupportedError(f"onnx.export: {_refusal(node)}")
        self.names[node] = name

    # ---- what rules say
    def operands(self, node: Node) -> list[str]:
        """The names of an element-wise node's operands, without the expansions that ONNX's broadcasting does itself."""
        bare = [unexpanded(operand) for operand in node.inputs]
        shapes = [operand.shape for operand in bare]
        chosen = bare if np.broadcast_shapes(*shapes) == node.shape else node.inputs
        return [self.names[operand] for operand in chosen]

    def reduced(self, operator: str, name: str, node: Node) -> str:
        return self.graph.emit(operator, name, self.graph.integers(node.attributes["axes"]), keepdims=1)

    def number(self, value: Any, node: Node) -> str:
        """A number of the type of `node`."""
        return self.graph.constant(value, node.dtype.numpy)

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        # 0 means 0 here, and not "as it was".
        return self.graph.emit("Reshape", name, self.graph.integers(shape), **({"allowzero": 1} if 0 in shape else {}))


def _refusal(node: Node) -> str:
    if node.is_op("threefry"):
        return "ONNX has no random numbers that are the same everywhere; call model.eval() first"
    if node.op.family is Family.LEAF:
        return f"a tensor {node} was never computed; read or vg.eval it before"
    return f"ONNX has no operator for {node.op.name}, which {node} needs"


# ---- rules: (writer, node) -> the name of its value
Rule = Callable[[Writer, Node], str]


def _constant(w: Writer, node: Node) -> str:
    return w.number(node.attributes["value"], node)


def _iota(w: Writer, node: Node) -> str:
    return w.graph.constant(np.arange(node.attributes["extent"]), np.int32)


def _cast(w: Writer, node: Node) -> str:
    return w.graph.emit("Cast", *w.operands(node), to=type_code(node.dtype))


def _square(w: Writer, node: Node) -> str:
    (x,) = w.operands(node)
    return w.graph.emit("Mul", x, x)


def _rsqrt(w: Writer, node: Node) -> str:
    return w.graph.emit("Reciprocal", w.graph.emit("Sqrt", *w.operands(node)))


def _cbrt(w: Writer, node: Node) -> str:
    (x,) = w.operands(node)
    root = w.graph.emit("Pow", w.graph.emit("Abs", x), w.number(1 / 3, node))
    return w.graph.emit("Mul", w.graph.emit("Sign", x), root)


def _trunc(w: Writer, node: Node) -> str:
    (x,) = w.operands(node)
    return w.graph.emit("Mul", w.graph.emit("Sign", x), w.graph.emit("Floor", w.graph.emit("Abs", x)))


def _exp2(w: Writer, node: Node) -> str:
    return w.graph.emit("Pow", w.number(2, node), *w.operands(node))


def _expm1(w: Writer, node: Node) -> str:
    # exp(x) - 1 cancels near 0; 2 t / (1 - t) with t = tanh(x / 2) does not.
    (x,) = w.operands(node)
    g = w.graph
    t = g.emit("Tanh", g.emit("Mul", x, w.number(0.5, node)))
    near = g.emit("Div", g.emit("Add", t, t), g.emit("Sub", w.number(1, node), t))
    is_near = g.emit("Less", g.emit("Abs", x), w.number(1, node))
    return g.emit("Where", is_near, near, g.emit("Sub", g.emit("Exp", x), w.number(1, node)))


def _log1p(w: Writer, node: Node) -> str:
    # log(1 + x) loses x's digits near 0; 2 atanh(x / (2 + x)) does not.
    (x,) = w.operands(node)
    g = w.graph
    half = g.emit("Atanh", g.emit("Div", x, g.emit("Add", x, w.number(2, node))))
    is_near = g.emit("Less", g.emit("Abs", x), w.number(0.5, node))
    return g.emit("Where", is_near, g.emit("Add", half, half), g.emit("Log", g.emit("Add", x, w.number(1, node))))


def _log_to(base: float) -> Rule:
    return lambda w, node: w.graph.emit("Div", w.graph.emit("Log", *w.operands(node)), w.number(log(base), node))


def _erfc(w: Writer, node: Node) -> str:
    return w.graph.emit("Sub", w.number(1, node), w.graph.emit("Erf", *w.operands(node)))


def _not_equal(w: Writer, node: Node) -> str:
    return w.graph.emit("Not", w.graph.emit("Equal", *w.operands(node)))


def _isfinite(w: Writer, node: Node) -> str:
    (x,) = w.operands(node)
    return w.graph.emit("Not", w.graph.emit("Or", w.graph.emit("IsNaN", x), w.graph.emit("IsInf", x)))


def _remainder(w: Writer, node: Node) -> str:
    x, y = w.operands(node)
    if node.dtype.kind != "f":
        return w.graph.emit("Mod", x, y)
    rest = w.graph.emit("Mod", x, y, fmod=1)  # it has the sign of x; ours has that of y
    moved = w.graph.emit("Mod", w.graph.emit("Add", rest, y), y, fmod=1)
    differs = w.graph.emit("Less", w.graph.emit("Mul", rest, y), w.number(0, node))
    return w.graph.emit("Where", differs, moved, rest)


def _floor_divide(w: Writer, node: Node) -> str:
    x, y = w.operands(node)
    if node.dtype.kind == "f":
        return w.graph.emit("Floor", w.graph.emit("Div", x, y))
    return w.graph.emit("Div", w.graph.emit("Sub", x, w.graph.emit("Mod", x, y)), y)


def _multiply_no_nan(w: Writer, node: Node) -> str:
    x, y = w.operands(node)
    zero = w.number(0, node)
    return w.graph.emit("Where", w.graph.emit("Equal", y, zero), zero, w.graph.emit("Mul", x, y))


def _multiply_or_zero(w: Writer, node: Node) -> str:
    (x, y), zero = w.operands(node), w.number(0, node)
    either = w.graph.emit("Or", w.graph.emit("Equal", x, zero), w.graph.emit("Equal", y, zero))
    return w.graph.emit("Where", either, zero, w.graph.emit("Mul", x, y))


def _shift(direction: str) -> Rule:
    return lambda w, node: w.graph.emit("BitShift", *w.operands(node), direction=direction)


def _any_or_all(operator: str) -> Rule:
    def rule(w: Writer, node: Node) -> str:
        whole = w.graph.emit("Cast", w.names[node.inputs[0]], to=6)  # int32: masks cannot be reduced
        return w.graph.emit("Cast", w.reduced(operator, whole, node), to=type_code(node.dtype))

    return rule


def _reshape(w: Writer, node: Node) -> str:
    return w.reshaped(w.names[node.inputs[0]], node.shape)


def _permute(w: Writer, node: Node) -> str:
    return w.graph.emit("Transpose", w.names[node.inputs[0]], perm=list(node.attributes["axes"]))


def _expand(w: Writer, node: Node) -> str:
    return w.graph.emit("Expand", w.names[node.inputs[0]], w.graph.integers(node.shape))


def _slice(w: Writer, node: Node) -> str:
    starts, extents, steps = (node.attributes[key] for key in ("starts", "extents", "steps"))
    ends = [s + n * t for s, n, t in zip(starts, extents, steps, strict=True)]
    ends = [e if e >= 0 else -(2**31) for e in ends]  # a negative end would count from the back
    bounds = [w.graph.integers(values) for values in (starts, ends, range(len(starts)), steps)]
    return w.graph.emit("Slice", w.names[node.inputs[0]], *bounds)


def _pad(w: Writer, node: Node) -> str:
    low, high, interior, value = (node.attributes[key] for key in ("low", "high", "interior", "value"))
    name, shape = w.names[node.inputs[0]], list(node.inputs[0].shape)
    for axis, between in enumerate(interior):  # each element becomes one with zeros after it; the last ones are cut
        if between and shape[axis]:
            split = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
            zeros = [0] * (len(split) + axis + 1) + [between] + [0] * (len(shape) - axis - 1)
            spread = _surrounded(w, w.reshaped(name, split), zeros, value, node)
            wide = shape[axis] * (between + 1)
            name = w.reshaped(spread, [*shape[:axis], wide, *shape[axis + 1 :]])
            shape[axis] = wide - between
            axes = w.graph.integers([axis])
            name = w.graph.emit("Slice", name, w.graph.integers([0]), w.graph.integers([shape[axis]]), axes)
    return _surrounded(w, name, [*low, *high], value, node) if any((*low, *high)) else name


def _surrounded(w: Writer, name: str, widths: Sequence[int], value: Any, node: Node) -> str:
    return w.graph.emit("Pad", name, w.graph.integers(widths), w.number(value, node))


def _window(w: Writer, node: Node) -> str:
    axis, size, stride, dilation = (node.attributes[key] for key in ("axis", "size", "stride", "dilation"))
    places = np.arange(node.shape[axis])[:, None] * stride + np.arange(size) * dilation
    taken = w.graph.emit("Gather", w.names[node.inputs[0]], w.graph.constant(places, np.int64), axis=axis)
    order = [a for a in range(node.ndim) if a != axis + 1] + [axis + 1]
    return w.graph.emit("Transpose", taken, perm=order)


def _diagonal(w: Writer, node: Node) -> str:
    axis, other = node.attributes["axis"], node.attributes["other"]
    letters = list(LETTERS[: node.inputs[0].ndim])
    letters[other] = letters[axis]
    left = [letter for a, letter in enumerate(letters) if a != other]
    return w.graph.emit("Einsum", w.names[node.inputs[0]], equation=f"{''.join(letters)}->{''.join(left)}")


def _gather(w: Writer, node: Node) -> str:
    x, index = (w.names[source] for source in node.inputs)
    if node.inputs[1].dtype.name not in ("int32", "int64"):
        index = w.graph.emit("Cast", index, to=7)
    return w.graph.emit("Gather", x, index, axis=node.attributes["axis"])


def _contract(w: Writer, node: Node) -> str:
    left, right, out = ("".join(LETTERS[label] for label in node.attributes[key]) for key in ("left", "right", "out"))
    return w.graph.emit("Einsum", *(w.names[source] for source in node.inputs), equation=f"{left},{right}->{out}")


def _scan(w: Writer, node: Node) -> str:
    if node.attributes["join"] != "sum":
        raise UnsupportedError(f"onnx.export: of running sums, products and extremes ONNX has sums only, not {node}")
    axis = w.graph.constant(node.ndim - 2, np.int64)
    return w.graph.emit("CumSum", w.names[node.inputs[0]], axis, reverse=int(node.attributes["reverse"]))


def _dft(w: Writer, node: Node) -> str:
    n, inverse = node.shape[-2], node.attributes["inverse"]
    rows = w.reshaped(w.names[node.inputs[0]], (prod(node.shape[:-2]), n, 1 if node.attributes["real"] else 2))
    found = w.graph.emit("DFT", rows, axis=1, inverse=int(inverse))
    if inverse:  # ONNX divides by the length, as NumPy does
        found = w.graph.emit("Mul", found, w.number(n, node))
    return w.reshaped(found, node.shape)


RULES: dict[str, Rule] = {
    "constant": _constant, "iota": _iota, "cast": _cast, "square": _square, "rsqrt": _rsqrt, "cbrt": _cbrt,
    "trunc": _trunc, "exp2": _exp2, "expm1": _expm1, "log1p": _log1p, "log2": _log_to(2), "log10": _log_to(10),
    "erfc": _erfc, "not_equal": _not_equal, "isfinite": _isfinite, "remainder": _remainder,
    "floor_divide": _floor_divide, "multiply_no_nan": _multiply_no_nan,
    "multiply_or_zero": _multiply_or_zero,
    "bitwise_left_shift": _shift("LEFT"), "bitwise_right_shift": _shift("RIGHT"),
    "any": _any_or_all("ReduceMax"), "all": _any_or_all("ReduceMin"),
    "reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "pad": _pad, "window": _window,
    "diagonal": _diagonal, "gather": _gather, "contract": _contract, "scan": _scan,
    "dft": _dft,
}  # fmt: skip
