"""Operators that are several primitives: convolution, pooling, products of matrices with a bias, softmax.

A convolution is windows of the padded input contracted with the weights, a pooling is a reduction of such windows, and
so on. Whatever is not recognised is written primitive by primitive, so a miss costs speed and no exactness.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from vkgrad.ir.node import Node

if TYPE_CHECKING:
    from vkgrad.onnx.primitives import Writer


def unexpanded(node: Node) -> Node:
    """What a node repeats along axes that broadcasting would add by itself."""
    while node.is_op("expand") or (node.is_op("reshape") and _adds_leading_ones(node)):
        node = node.inputs[0]
    return node


def _adds_leading_ones(node: Node) -> bool:
    old, new = node.inputs[0].shape, node.shape
    added = len(new) - len(old)
    return added >= 0 and new == (1,) * added + old


@dataclass(frozen=True)
class Windows:
    """Windows over the last axes of `base`, which has two axes before them, with what surrounds them."""

    base: Node
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]  # before each spatial axis, then after each
    fill: Any

    @property
    def attributes(self) -> dict[str, Any]:
        return {"kernel_shape": self.sizes, "strides": self.strides, "pads": self.pads, "dilations": self.dilations}


def windows_of(node: Node, dimensions: int) -> Windows | None:
    """The windows that `node` is, if it is `dimensions` of them one after the other."""
    taken: list[Node] = []
    while node.is_op("window") and len(taken) < dimensions:
        taken.append(node)
        node = node.inputs[0]
    taken.reverse()
    if dimensions == 0 or len(taken) != dimensions or node.ndim != dimensions + 2:
        return None
    if any(window.attributes["axis"] != 2 + number for number, window in enumerate(taken)):
        return None
    sizes, strides, dilations = (
        tuple(window.attributes[key] for window in taken) for key in ("size", "stride", "dilation")
    )
    pads, fill, base = (0,) * (2 * dimensions), None, node
    if node.is_op("pad"):
        low, high, interior = (node.attributes[key] for key in ("low", "high", "interior"))
        if not any((*interior, *low[:2], *high[:2])):
            pads, fill, base = (*low[2:], *high[2:]), node.attributes["value"], node.inputs[0]
    return Windows(base, sizes, strides, dilations, pads, fill)


@dataclass(frozen=True)
class Call:
    """An operator that was written, to be written again with what is found around it."""

    operator: str
    inputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    bias_axis: int = -1  # of the result, which a bias added to it must lie along
    shape: tuple[int, ...] = ()


class Recognised:
    """What was recognised so far, by node."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.biased: dict[Node, Call] = {}  # products that can take a bias
        self.pooled: dict[Node, tuple[str, tuple[int, ...]]] = {}  # reductions of windows, as they are without the 1s
        self.averaged: dict[Node, tuple[str, int]] = {}  # sums of windows: their mean, and the number that were added

    def written(self, node: Node) -> str | None:
        """The name of a node's value, if it was recognised and is written now."""
        rules = {
            "contract": self._contract, "reshape": self._reshape, "add": self._add, "max": self._pool,
            "sum": self._pool, "divide": self._divide,
        }  # fmt: skip
        rule = rules.get(node.op.name)
        return None if rule is None else rule(node)

    def _emit(self, call: Call) -> str:
        return self.writer.graph.emit(call.operator, *call.inputs, **call.attributes)

    # ---- products
    def _contract(self, node: Node) -> str | None:
        call = self._convolution(node) or self._gemm(node)
        if call is None:
            return self._matmul(node)
        name = self._emit(call)
        if call.shape == node.shape:
            self.biased[node] = call
            return name
        self.pooled[node] = (name, call.shape)  # a grouped convolution, whose groups are an axis of the node
        self.biased[node] = call
        return self.writer.reshaped(name, node.shape)

    def _convolution(self, node: Node) -> Call | None:
        """(B, [G], I, *P, *K) with ([G], O, I, *K) to (B, [G], O, *P)."""
        image, kernel = node.inputs
        left, right, out = (node.attributes[key] for key in ("left", "right", "out"))
        inside = [label for label in left if label in right and label not in out][1:]
        dimensions, grouped = len(inside), len(right) - 2 - len(inside)
        if dimensions == 0 or grouped not in (0, 1) or node.dtype.kind != "f":
            return None
        groups = kernel.shape[0] if grouped else 1
        if grouped:
            if not (image.is_op("reshape") and kernel.is_op("reshape")):
                return None
            image, kernel = image.inputs[0], kernel.inputs[0]
        windows = windows_of(image, dimensions)
        if windows is None or windows.fill not in (None, 0) or kernel.ndim != dimensions + 2:
            return None
        batch, group = left[0], left[1 : 1 + grouped]
        take, place = left[1 + grouped], left[2 + grouped : 2 + grouped + dimensions]
        make = right[grouped]
        if (left, right, out) != (
            (batch, *group, take, *place, *inside), (*group, make, take, *inside), (batch, *group, make, *place)
        ):  # fmt: skip
            return None
        channels, shape = windows.base.shape[1], (node.shape[0], kernel.shape[0], *node.shape[-dimensions:])
        fits = (groups * kernel.shape[1], *windows.sizes) == (channels, *kernel.shape[2:])
        if not fits or (grouped and node.inputs[1].shape != (groups, kernel.shape[0] // groups, *kernel.shape[1:])):
            return None
        names = tuple(self.writer.names[part] for part in (windows.base, kernel))
        return Call("Conv", names, {**windows.attributes, "group": groups}, bias_axis=1, shape=shape)

    def _gemm(self, node: Node) -> Call | None:
        """A product of two matrices, either of which may be transposed."""
        left, right, out = (node.attributes[key] for key in ("left", "right", "out"))
        if len(left) != 2 or len(right) != 2 or len(out) != 2 or node.dtype.kind != "f":
            return None
        summed = next((label for label in left if label not in out), None)
        if summed is None or len({*left, *right}) != 3:
            return None
        sides = [(node.inputs[0], left), (node.inputs[1], right)]
        if out[0] not in left:
            sides.reverse()
        (a, rows), (b, columns) = sides
        if out != (rows[rows[0] == summed], columns[columns[0] == summed]):
            return None
        trans = [int(rows[0] == summed), int(columns[1] == summed)]
        names = []
        for number, side in enumerate((a, b)):
            if side.is_op("permute"):  # of a matrix: it is transposed
                side, trans[number] = side.inputs[0], 1 - trans[number]
            names.append(self.writer.names[side])
        options = {key: 1 for key, on in zip(("transA", "transB"), trans, strict=True) if on}
        return Call("Gemm", tuple(names), options, shape=node.shape)

    def _matmul(self, node: Node) -> str | None:
        """A product of stacks of matrices, or of a stack and one matrix."""
        left, right, out = (node.attributes[key] for key in ("left", "right", "out"))
        summed = [label for label in left if label not in out]
        batch = [label for label in left if label in right and label in out]
        own, other = ([x for x in side if x not in batch and x not in summed] for side in (left, right))
        if len(summed) != 1 or len(other) != 1 or node.dtype.kind == "b" or not own:
            return None
        if batch and len(own) != 1:
            return None
        if list(out) != [*batch, *own, *other]:
            return None
        a = self._in_order(node.inputs[0], left, [*batch, *own, *summed])
        b = self._in_order(node.inputs[1], right, [*batch, *summed, *other])
        return self.writer.graph.emit("MatMul", a, b)

    def _in_order(self, node: Node, labels: tuple[int, ...], wanted: list[int]) -> str:
        if list(labels) == wanted:
            return self.writer.names[node]
        order = [labels.index(label) for label in wanted]
        return self.writer.graph.emit("Transpose", self.writer.names[node], perm=order)

    def _add(self, node: Node) -> str | None:
        """A product and a bias."""
        for product, bias in (node.inputs, node.inputs[::-1]):
            call = self.biased.get(product)
            if call is None or len(call.inputs) != 2 or call.shape != node.shape:
                continue
            source, axis = _vector(bias), call.bias_axis % node.ndim
            if source is not None and source.shape == (node.shape[axis],) and _lies_along(bias, axis):
                return self._emit(replace(call, inputs=(*call.inputs, self.writer.names[source])))
        return None

    # ---- pooling
    def _pool(self, node: Node) -> str | None:
        source, axes = node.inputs[0], node.attributes["axes"]
        dimensions = len(axes)
        if node.dtype.kind != "f" or axes != tuple(range(source.ndim - dimensions, source.ndim)):
            return None
        windows = windows_of(source, dimensions)
        if windows is None:
            return None
        names, shape = self.writer.names[windows.base], node.shape[: source.ndim - dimensions]
        if any(2 * pad > size for pad, size in zip(windows.pads, windows.sizes * 2, strict=True)):
            return None
        if node.is_op("max") and windows.fill in (None, -inf):
            name = self.writer.graph.emit("MaxPool", names, **windows.attributes)
        elif node.is_op("sum") and windows.fill in (None, 0) and set(windows.dilations) == {1}:
            options = {key: value for key, value in windows.attributes.items() if key != "dilations"}
            mean = self.writer.graph.emit("AveragePool", names, **options, count_include_pad=1)
            count = 1
            for size in windows.sizes:
                count *= size
            self.averaged[node] = (mean, count)
            name = self.writer.graph.emit("Mul", mean, self.writer.number(count, node))
        else:
            return None
        self.pooled[node] = (name, shape)
        return self.writer.reshaped(name, node.shape)

    def _reshape(self, node: Node) -> str | None:
        """A reshape that undoes what the primitives do and the operator does not."""
        source = node.inputs[0]
        found = self.pooled.get(source)
        if found is None or found[1] != node.shape:
            return None
        if source in self.averaged:
            self.averaged[node] = self.averaged[source]
        if source in self.biased:
            self.biased[node] = self.biased[source]
        return found[0]

    # ---- quotients
    def _divide(self, node: Node) -> str | None:
        above, below = node.inputs
        if above in self.averaged:
            mean, count = self.averaged[above]
            divisor = unexpanded(below)
            if divisor.is_op("constant") and divisor.attributes["value"] == count and above.shape == node.shape:
                return mean
        return self._softmax(above, below)

    def _softmax(self, above: Node, below: Node) -> str | None:
        """exp(x - max(x)) / sum(exp(x - max(x))) along one axis."""
        total = below.inputs[0] if below.is_op("expand") else below
        if not (above.is_op("exp") and total.is_op("sum") and total.inputs[0] is above):
            return None
        axes, shifted = total.attributes["axes"], above.inputs[0]
        if len(axes) != 1 or not shifted.is_op("subtract"):
            return None
        x, top = shifted.inputs
        while top.op.name in ("expand", "stop_gradient"):
            top = top.inputs[0]
        if not (top.is_op("max") and top.inputs[0] is x and top.attributes["axes"] == axes):
            return None
        return self.writer.graph.emit("Softmax", self.writer.names[x], axis=axes[0])


def _vector(node: Node) -> Node | None:
    """The vector that a bias was before it was repeated."""
    while node.op.name in ("expand", "reshape") and node.ndim != 1:
        node = node.inputs[0]
    return node if node.ndim == 1 else None


def _lies_along(bias: Node, axis: int) -> bool:
    """Whether a bias was repeated along all axes but this one."""
    if not bias.is_op("expand"):
        return bias.ndim == 1
    shape = bias.inputs[0].shape
    return all(extent == 1 or number == axis for number, extent in enumerate(shape))
