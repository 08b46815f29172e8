"""Rewrites of the graph before kernels are chosen: nodes in, equal nodes with less work out.

Each rewrite here changes at most the last bit of a result, and says so where it does. The rewritten graph is made of
the same primitives. Nodes that already have a value are leaves to this pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign, inf, isfinite, prod

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node, consumers, rebuilt, walk
from vkgrad.ir.op import Family
from vkgrad.ir.rounding import rounded
from vkgrad.ops.views import permute


def simplify(outputs: Sequence[Node], has_value: Callable[[Node], bool]) -> list[Node]:
    """`outputs` rewritten, in the same order."""
    new: dict[Node, Node] = {}
    order = walk(outputs, stop=has_value)
    readers = consumers(order)
    for node in order:
        if has_value(node) or node.op.family is Family.LEAF:
            new[node] = node
            continue
        new[node] = _simplified(rebuilt(node, tuple(new[source] for source in node.inputs)), has_value)
        if node.inputs and len(readers[node.inputs[0]]) == 1 and node.inputs[0] not in outputs:
            if node.is_op("permute"):
                new[node] = _reordered(new[node], has_value)
            elif node.is_op("slice"):
                inner = node.inputs[0]
                below = inner.inputs[0] if inner.is_op("reshape") else inner
                if below is inner or (len(readers[below]) == 1 and below not in outputs):
                    new[node] = _cut_before_summing(new[node], has_value)
    return [new[node] for node in outputs]


def _reordered(node: Node, has_value: Callable[[Node], bool]) -> Node:
    """A permuted contraction that nobody else reads, made in that order at once: what reads it can then join it."""
    source = node.inputs[0] if node.is_op("permute") else node
    if node is source or not source.is_op("contract") or has_value(source):
        return node
    out = source.attributes["out"]
    attributes = {**source.attributes, "out": tuple(out[axis] for axis in node.attributes["axes"])}
    return b.build("contract", *source.inputs, **attributes)


def _cut_before_summing(node: Node, has_value: Callable[[Node], bool]) -> Node:
    """A slice of a sum that nobody else reads, as the sum of a slice: what is cut away is never computed.

    The gradient of a padded convolution ends so, for a sum over windows gives the padding gradients too.
    """
    source = node.inputs[0] if node.is_op("slice") else node
    total = source.inputs[0] if source.is_op("reshape") and not has_value(source) else source
    if source is node or not total.is_op("sum") or has_value(total):
        return node
    axes, (x,) = total.attributes["axes"], total.inputs
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    if tuple(x.shape[axis] for axis in kept) != source.shape:
        return node
    starts, extents, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    for axis, start, extent, step in zip(
        kept, node.attributes["starts"], node.attributes["extents"], node.attributes["steps"], strict=True
    ):
        starts[axis], extents[axis], steps[axis] = start, extent, step
    cut = b.build("slice", x, starts=tuple(starts), extents=tuple(extents), steps=tuple(steps))
    return b.reshape(b.build("sum", cut, **total.attributes), node.shape)


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
    if name == "cast" and node.inputs[0].dtype.narrow and not node.dtype.narrow:
        return _widened(node.inputs[0], node.dtype, has_value)
    if node.op.family is Family.VIEW:
        return node if name == "after" or has_value(node.inputs[0]) else _view(node)
    if node.op.family is Family.REDUCTION:
        return _reduction(node, has_value)
    if name == "contract" and any(source.size == 0 for source in node.inputs):
        return b.constant(0, node.dtype, node.shape)
    if name in ("multiply_no_nan", "multiply_or_zero"):
        # Beside a finite literal nothing has to be guarded. The sign of a zero may be another.
        x, y = node.inputs
        factor, guarded = _scalar(x), _scalar(y)
        if guarded == 0 or (factor == 0 and name == "multiply_or_zero"):
            return b.constant(0, node.dtype, node.shape)
        if name == "multiply_or_zero" and guarded is not None and isfinite(guarded):
            factor, guarded = guarded, factor
        if guarded is not None or (factor is not None and isfinite(factor)):
            return _simplified(b.build("multiply", y, x), has_value)
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
        if name == "divide" and literals[1] == 0:
            # The same by IEEE 754. lavapipe takes a division by a literal zero as undefined, and stores nothing.
            infinite = b.constant(copysign(inf, float(literals[1])), node.dtype, node.shape)
            return b.build("multiply", node.inputs[0], infinite)
    return node


def _widened(node: Node, dtype: DType, has_value: Callable[[Node], bool]) -> Node:
    """The cast of `node`, a type that is only stored, to a wider one; of a view, the view of such a cast.

    Sums and products widen their operands. Between them and the padding and windows that they read, the cast would be
    as large as all windows, and look like something to compute once and keep.
    """
    if node.op.family is not Family.VIEW or has_value(node):
        return b.cast(node, dtype)
    attributes = dict(node.attributes)
    if node.is_op("pad") and node.dtype.kind == "f":
        attributes["value"] = rounded(float(attributes["value"]), node.dtype)
    return b.build(node.op, _widened(node.inputs[0], dtype, has_value), **attributes)


def _folded(node: Node, literals: Sequence[float | int | bool | None]) -> Node:
    """An op on literals, worked out once by its own NumPy meaning in its own type."""
    import numpy as np

    from vkgrad.ops.narrow import meaning_of

    operands = [np.asarray(v, s.dtype.computed.numpy) for v, s in zip(literals, node.inputs, strict=True)]
    with np.errstate(all="ignore"):
        value = meaning_of(node.op, node.dtype)(*operands, **node.attributes)
    return b.constant(np.asarray(value).item(), node.dtype, node.shape)


def _view(node: Node) -> Node:
    """A view of something that is still to be computed, and may be looked through."""
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


def _reduction(node: Node, has_value: Callable[[Node], bool]) -> Node:
    (source,) = node.inputs
    axes = node.attributes["axes"]
    if source.size == 0:
        assert node.op.init is not None
        return b.constant(node.op.init(node.dtype), node.dtype, node.shape)
    real = tuple(axis for axis in axes if source.shape[axis] != 1)
    if not real:
        return source
    if real != tuple(axes):
        return _reduction(b.build(node.op, source, **{**node.attributes, "axes": real}), has_value)
    if node.is_op("sum") and source.is_op("expand") and not has_value(source):
        # n equal terms are n times one: exact where n is a power of two, one rounding instead of n elsewhere.
        inner = source.inputs[0]
        repeated = tuple(axis for axis in real if inner.shape[axis] == 1)
        if repeated:
            count = prod(source.shape[axis] for axis in repeated)
            kept = tuple(axis for axis in real if axis not in repeated)
            shape = tuple(1 if axis in repeated else extent for axis, extent in enumerate(source.shape))
            total = b.expand(inner, shape)
            if kept:
                total = _reduction(b.build("sum", total, axes=kept), has_value)
            return b.apply("multiply", total, count if node.dtype.kind != "f" else float(count))
    return node
