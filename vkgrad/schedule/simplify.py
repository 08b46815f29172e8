"""Rewrites of the graph before kernels are chosen: nodes in, equal nodes with less work out.

Each rewrite here changes at most the last bit of a result, and says so where it does. The rewritten graph is made of
the same primitives. Nodes that already have a value are leaves to this pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from vkgrad.ir import build as b
from vkgrad.ir.node import Node, rebuilt, walk
from vkgrad.ir.op import Family
from vkgrad.ops.views import pad, permute

# One invocation may run 32,768 trips (some software drivers stop silently at 65,535 over all its loops), and 256 share a
# slot of a reduction. Above this many terms a reduction is done in two steps, which also gives it more parallel work.
LONGEST_REDUCTION = 1 << 20
LONGEST_CONTRACTION = 1 << 20


def simplify(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` rewritten, in the same order."""
    new: dict[Node, Node] = {}
    for node in walk(outputs, stop=has_value):
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
        else:
            new[node] = _simplified(rebuilt(node, tuple(new[source] for source in node.inputs)), has_value)
    return [new[node] for node in outputs]


def _scalar(node: Node) -> float | int | bool | None:
    """The literal that `node` repeats, if it does."""
    while node.op.name in ("expand", "reshape"):
        node = node.inputs[0]
    return node.attributes["value"] if node.is_op("constant") else None


def _simplified(node: Node, has_value: Callable[[Node], bool]) -> Node:
    name = node.op.name
    if node.size == 0:
        return node
    if name == "alias":
        return node.inputs[0]
    if node.op.family is Family.VIEW:
        return _view(node)
    if node.op.family is Family.REDUCTION:
        return _reduction(node)
    if name == "contract" and any(source.size == 0 for source in node.inputs):
        return b.constant(0, node.dtype, node.shape)
    if name in ("multiply", "divide") and node.dtype.kind == "f":
        x, y = node.inputs
        if _scalar(y) == 1:
            return x
        if name == "multiply" and _scalar(x) == 1:
            return y
    if node.op.family is Family.ELEMENTWISE:
        literals = [_scalar(source) for source in node.inputs]
        if all(literal is not None for literal in literals):
            return _folded(node, literals)
    return node


def _folded(node: Node, literals: Sequence[float | int | bool | None]) -> Node:
    """An op on literals, worked out once by its own NumPy meaning in its own type."""
    import numpy as np

    operands = [np.asarray(v, s.dtype.numpy) for v, s in zip(literals, node.inputs, strict=True)]
    with np.errstate(all="ignore"):
        value = node.op.numpy(*operands, **node.attributes)
    return b.constant(np.asarray(value).item(), node.dtype, node.shape)


def _view(node: Node) -> Node:
    (source,) = node.inputs
    if node.is_op("reshape"):
        if source.is_op("reshape"):
            source = source.inputs[0]
        return b.reshape(source, node.shape)
    if node.is_op("permute") and source.is_op("permute"):
        first = source.attributes["axes"]
        return permute(source.inputs[0], [first[axis] for axis in node.attributes["axes"]])
    if node.is_op("expand") and source.is_op("expand"):
        return b.build("expand", source.inputs[0], shape=node.shape)
    if node.is_op("slice") and source.is_op("pad"):
        # Padding that is cut away again, as the gradient of a slice followed by a slice makes it.
        outer, inner = node.attributes, source.attributes
        undone = (outer["starts"], outer["extents"]) == (inner["low"], source.inputs[0].shape) and all(
            step == between + 1 for step, between in zip(outer["steps"], inner["interior"], strict=True)
        )
        if undone:
            return source.inputs[0]
    return node


def _reduction(node: Node) -> Node:
    (source,) = node.inputs
    axes = node.attributes["axes"]
    if source.size == 0:
        assert node.op.init is not None
        return b.constant(node.op.init(node.dtype), node.dtype, node.shape)
    real = tuple(axis for axis in axes if source.shape[axis] != 1)
    if not real:
        return source
    if real != tuple(axes):
        return _reduction(b.build(node.op, source, **{**node.attributes, "axes": real}))
    if node.is_op("sum") and source.is_op("expand"):
        # n equal terms are n times one: exact where n is a power of two, one rounding instead of n elsewhere.
        inner = source.inputs[0]
        repeated = tuple(axis for axis in real if inner.shape[axis] == 1)
        if repeated:
            count = prod(source.shape[axis] for axis in repeated)
            kept = tuple(axis for axis in real if axis not in repeated)
            shape = tuple(1 if axis in repeated else extent for axis, extent in enumerate(source.shape))
            total = b.expand(inner, shape)
            if kept:
                total = _reduction(b.build("sum", total, axes=kept))
            return b.apply("multiply", total, count if node.dtype.kind != "f" else float(count))
    terms = prod(source.shape[axis] for axis in real)
    if terms > LONGEST_REDUCTION:
        return _split(node, source, real)
    return node


def _split(node: Node, source: Node, axes: Sequence[int]) -> Node:
    """A long reduction in two steps: along the longest axis, rows of about the square root of its length first."""
    axis = max(axes, key=lambda a: source.shape[a])
    extent = source.shape[axis]
    row = 1 << ((extent - 1).bit_length() + 1) // 2
    rows = -(-extent // row)
    assert node.op.init is not None
    high = [rows * row - extent if a == axis else 0 for a in range(source.ndim)]
    padded = pad(source, [0] * source.ndim, high, value=node.op.init(node.dtype))
    split = b.reshape(padded, (*source.shape[:axis], rows, row, *source.shape[axis + 1 :]))
    others = [a + (a > axis) for a in axes if a != axis]
    attributes = {**node.attributes, "axes": tuple(sorted([axis + 1, *others]))}
    partial = b.build(node.op, split, **attributes)
    narrow = b.reshape(partial, tuple(1 if a in axes and a != axis else e
                                      for a, e in enumerate((*source.shape[:axis], rows, *source.shape[axis + 1 :]))))  # fmt: skip
    return _reduction(b.build(node.op, narrow, **{**node.attributes, "axes": (axis,)}))


