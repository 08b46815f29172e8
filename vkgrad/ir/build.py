"""How nodes come to be: strict `build`, and forgiving `apply` that promotes and broadcasts first.

Broadcasting and promotion happen here and nowhere else, as `expand` and `cast` nodes, so that a gradient rule has no
shape code. Watchers of `on_node` see every node at the moment it is built (the engine refuses there what its device
cannot do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError, ShapeError
from vkgrad.ir.dtypes import DType, dtype_of, promote, weak_dtype
from vkgrad.ir.node import Node, Operand, make
from vkgrad.ir.op import OPS, Family, Op, Shape
from vkgrad.ir.rounding import rounded, wrapped

on_node: list[Callable[[Node], None]] = []

JOINING = (Family.REDUCTION, Family.CONTRACTION)  # families whose terms are added up in the wider type


def build(op: Op | str, *inputs: Node, **attributes: Any) -> Node:
    """One strict primitive: shapes and types must already fit.

    Of a type that is only stored (float16, say) terms are joined in the type that it is computed in, and the result is
    rounded once: the node is then the cast of such a reduction or contraction.
    """
    record = OPS[op] if isinstance(op, str) else op
    if len(inputs) != record.arity:
        raise TypeError(f"{record.name}: takes {record.arity} operands, got {len(inputs)}")
    dtype = record.dtype([node.dtype for node in inputs], **attributes)
    if dtype.narrow and record.family in JOINING:
        return cast(build(record, *(cast(node, dtype.computed) for node in inputs), **attributes), dtype)
    shape = record.shape([node.shape for node in inputs], **attributes)
    node = make(record, inputs, attributes, shape, dtype)
    for watch in on_node:
        watch(node)
    return node


def constant(value: bool | int | float, dtype: DType, shape: Shape = ()) -> Node:
    """A literal of type `dtype`, repeated over `shape`. Integers wrap, as NumPy's casts do."""
    if dtype.kind == "f":
        value = rounded(float(value), dtype)
    elif dtype.kind == "b":
        value = bool(value)
    else:
        value = wrapped(int(value), dtype)
    return expand(build("constant", value=value, type=dtype.name), shape)


def cast(node: Node, dtype: DType) -> Node:
    if node.dtype is dtype:
        return node
    if node.is_op("constant"):
        return constant(node.attributes["value"], dtype)
    return build("cast", node, type=dtype.name)


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    if len(set(shapes)) == 1:
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    out = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise ShapeError(f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast together")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def reshape(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else build("reshape", node, shape=shape)


def expand(node: Node, shape: Shape) -> Node:
    """Broadcast `node` to `shape`, adding leading axes as NumPy does."""
    if node.shape == shape:
        return node
    node = reshape(node, (1,) * (len(shape) - node.ndim) + node.shape)
    return node if node.shape == shape else build("expand", node, shape=shape)


def sum_to(node: Node, shape: Shape) -> Node:
    """The gradient of `expand`: add up what was repeated."""
    lead = node.ndim - len(shape)
    wide = (1,) * lead + shape
    axes = tuple(a for a, (have, want) in enumerate(zip(node.shape, wide, strict=True)) if have != want)
    return reshape(build("sum", node, axes=axes) if axes else node, shape)


def _operand_dtype(value: Operand) -> DType | None:
    if isinstance(value, Node):
        return value.dtype
    return dtype_of(value.dtype) if isinstance(value, np.generic) else None


def _are_alike(operands: Sequence[Operand]) -> bool:
    """Whether these are nodes of one type and one shape, as most are: then nothing has to be brought together."""
    first = operands[0]
    if not isinstance(first, Node):
        return False
    shape, dtype = first.shape, first.dtype
    return all(isinstance(v, Node) and v.dtype is dtype and v.shape == shape for v in operands[1:])


def apply(op: Op | str, *operands: Operand, **attributes: Any) -> Node:
    """A primitive on operands that first take a common type and a common shape. Python scalars are weak."""
    record = OPS[op] if isinstance(op, str) else op
    if _are_alike(operands):
        return build(record, *operands, **attributes)  # type: ignore[arg-type]
    strong = [dtype for dtype in map(_operand_dtype, operands) if dtype is not None]
    # `where` takes its type from its two branches; its mask stays a mask.
    typed = [d for d in map(_operand_dtype, operands[1:]) if d is not None] if record.name == "where" else strong
    try:
        common = promote(*typed) if typed else None
    except DTypeError as error:
        raise DTypeError(f"{record.name}: {error}") from None
    for value in operands[record.name == "where" :]:
        if not isinstance(value, Node) and _operand_dtype(value) is None:
            wider = weak_dtype(value, common)  # type: ignore[arg-type]
            common = wider if common is None or wider.kind == "f" or common.kind == "b" else common
    nodes = []
    for position, value in enumerate(operands):
        if record.name == "where" and position == 0:
            nodes.append(value if isinstance(value, Node) else constant(bool(value), dtype_of("bool")))
            continue
        assert common is not None
        nodes.append(cast(value, common) if isinstance(value, Node) else constant(value, common))  # type: ignore[arg-type]
    shape = broadcast_shapes(record.name, *(node.shape for node in nodes))
    return build(record, *(expand(node, shape) for node in nodes), **attributes)


def normalise_axes(name: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes as sorted, distinct, non-negative integers; None means all."""
    if axes is None:
        return tuple(range(ndim))
    wanted = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    out = []
    for axis in wanted:
        if not -ndim <= axis < ndim:
            raise ShapeError(f"{name}: axis {axis} is out of range for {ndim} axes")
        out.append(int(axis) % ndim)
    if len(set(out)) != len(out):
        raise ShapeError(f"{name}: an axis is named twice in {wanted}")
    return tuple(sorted(out))


# Gradient rules are written with operators on nodes. Tensors have their own, which come here too.
def _binary(name: str, swap: bool = False) -> Callable[[Node, Operand], Node]:
    return (lambda x, y: apply(name, y, x)) if swap else (lambda x, y: apply(name, x, y))


for _name, _method in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "truediv")):
    setattr(Node, f"__{_method}__", _binary(_name))
    setattr(Node, f"__r{_method}__", _binary(_name, swap=True))
for _name, _method in (("greater", "gt"), ("less", "lt"), ("greater_equal", "ge"), ("less_equal", "le")):
    setattr(Node, f"__{_method}__", _binary(_name))
setattr(Node, "__neg__", lambda x: apply("negative", x))  # noqa: B010  the declaration for mypy is in node.py
