"""How nodes come to be: strict `build`, and forgiving `apply` that promotes and broadcasts first.

Broadcasting and promotion happen here and nowhere else, as `expand` and `cast` nodes, so that a gradient rule has no
shape code. An op's rules are asked once for each combination of attributes, shapes and element types; a program that
builds the same graph again and again gets their answers from a table. Watchers of `on_rare` see every node with or of
an element type that some devices lack, or of an op with a host rule, at the moment it is built (the engine refuses
there what its device cannot do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vkgrad.errors import ArgumentError, DTypeError, ShapeError
from vkgrad.ir.dtypes import DType, dtype_of, promote, weak_dtype
from vkgrad.ir.node import Node, Operand, Signature, frozen, is_sharing, node_of, signature_of
from vkgrad.ir.op import OPS, Family, Op, Shape
from vkgrad.ir.rounding import rounded, wrapped

on_rare: list[Callable[[Node], None]] = []

MOST_RULED = 1 << 14  # answers of rules that are remembered; a full table starts anew
MOST_LITERALS = 1 << 10


class Ruled(NamedTuple):
    """What an op's rules say of operands of some types: the result's signature, and if some device may refuse it."""

    signature: Signature
    is_rare: bool


class Joint(NamedTuple):
    """What operands become before a primitive takes them: their types, their common shape, and then its `Ruled`."""

    dtypes: tuple[DType, ...]
    shape: Shape
    ruled: Ruled | None
    is_alike: bool  # nodes of that type and shape already, as most are


_ruled: dict[tuple, Ruled] = {}
_joint: dict[tuple, Joint] = {}
_literals: dict[tuple, Node] = {}

JOINING = (Family.REDUCTION, Family.CONTRACTION)  # families whose terms are added up in the wider type


def build(op: Op | str, *inputs: Node, **attributes: Any) -> Node:
    """One strict primitive: shapes and types must already fit.

    Of a type that is only stored (float16, say) terms are joined in the type that it is computed in, and the result is
    rounded once: the node is then the cast of such a reduction or contraction.
    """
    record = OPS[op] if isinstance(op, str) else op
    key = (record, frozen(attributes) if attributes else (), *[node.signature.type for node in inputs])
    ruled = _ruled.get(key)
    if ruled is None:
        if len(inputs) != record.arity:
            raise TypeError(f"{record.name}: takes {record.arity} operands, got {len(inputs)}")
        dtypes = [node.dtype for node in inputs]
        dtype = record.dtype(dtypes, **attributes)
        if dtype.narrow and record.family in JOINING:
            return cast(build(record, *(cast(node, dtype.computed) for node in inputs), **attributes), dtype)
        shape = record.shape([node.shape for node in inputs], **attributes)
        ruled = Ruled(signature_of(record, attributes, shape, dtype), _is_rare(record, dtype, *dtypes))
        _remember(_ruled, key, ruled, MOST_RULED)
    return made(ruled, inputs)


def made(ruled: Ruled, inputs: tuple[Node, ...]) -> Node:
    """The node that `ruled` was said of, on inputs of the types that it was said of."""
    node = node_of(ruled.signature, inputs)
    if ruled.is_rare:
        for watch in on_rare:
            watch(node)
    return node


def ruled_as(node: Node) -> Ruled:
    """What makes a node like this one."""
    return Ruled(node.signature, _is_rare(node.op, node.dtype, *(source.dtype for source in node.inputs)))


def _is_rare(op: Op, *dtypes: DType) -> bool:
    return op.host_rule is not None or any(dtype.size_bytes == 8 for dtype in dtypes)


def _remember(table: dict[tuple, Any], key: tuple, value: Any, most: int) -> None:
    if len(table) >= most:
        table.clear()
    table[key] = value


def constant(value: bool | int | float, dtype: DType, shape: Shape = ()) -> Node:
    """A literal of type `dtype`, repeated over `shape`. Integers wrap, as NumPy's casts do.

    Literals are kept for the next time, since steps use the same ones again, and a constant tensor is three nodes.
    """
    if not is_sharing():
        return _constant(value, dtype, shape)
    key = (type(value), value.hex() if isinstance(value, float) else value, dtype.name, shape)
    node = _literals.get(key)
    if node is None:
        node = _constant(value, dtype, shape)
        _remember(_literals, key, node, MOST_LITERALS)
    return node


def forget_literals() -> None:
    """Let go of them: one has been given a value, and as long as it is kept, so is its memory."""
    _literals.clear()


def is_literal(node: Node) -> bool:
    """Whether `constant` made this node."""
    while node.op.name in ("expand", "reshape"):
        node = node.inputs[0]
    return node.op.name == "constant"


def _constant(value: bool | int | float, dtype: DType, shape: Shape) -> Node:
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
            raise ShapeError(
                f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast together; from the last axis on, "
                f"extents must be equal or 1{_column(shapes)}"
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def _column(shapes: Sequence[Shape]) -> str:
    """What makes two shapes fit, if an axis at the end of one does: a vector of one number for each row."""
    short, long = sorted(shapes[:2], key=len)
    return "; x[..., None] adds a last axis" if len(shapes) == 2 and long[: len(short)] == short else ""


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


def apply(op: Op | str, *operands: Operand, **attributes: Any) -> Node:
    """A primitive on operands that first take a common type and a common shape. Python scalars are weak."""
    record = OPS[op] if isinstance(op, str) else op
    key = (record, *[v.signature.type if isinstance(v, Node) else type(v) for v in operands])
    dtypes, shape, ruled, is_alike = _joint.get(key) or _join(key, record, operands)
    if is_alike and ruled is not None and not attributes:
        return made(ruled, operands)  # type: ignore[arg-type]
    inputs = []
    for value, dtype in zip(operands, dtypes, strict=True):
        if not isinstance(value, Node):
            inputs.append(constant(value, dtype, shape))  # type: ignore[arg-type]
            continue
        if value.dtype is not dtype:
            value = cast(value, dtype)
        inputs.append(value if value.shape == shape else expand(value, shape))
    if attributes:
        return build(record, *inputs, **attributes)
    if ruled is None:  # not said before, since it could have been an error
        node = build(record, *inputs)
        if node.op is record:
            _remember(_joint, key, Joint(dtypes, shape, ruled_as(node), is_alike), MOST_RULED)
        return node
    return made(ruled, tuple(inputs))


def _join(key: tuple, record: Op, operands: Sequence[Operand]) -> Joint:
    """Find the common type and shape of operands, and remember them under `key`."""
    is_mask = [record.name == "where" and position == 0 for position in range(len(operands))]
    strong = [_operand_dtype(value) for value in operands]
    # `where` takes its type from its two branches; its mask stays a mask.
    typed = [dtype for dtype, mask in zip(strong, is_mask, strict=True) if dtype is not None and not mask]
    try:
        common = promote(*typed) if typed else None
    except DTypeError as error:
        raise DTypeError(f"{record.name}: {error}") from None
    for value, dtype, mask in zip(operands, strong, is_mask, strict=True):
        if dtype is None and not mask:
            wider = weak_dtype(value, common)  # type: ignore[arg-type]
            common = wider if common is None or wider.kind == "f" or common.kind == "b" else common
    assert common is not None
    dtypes = tuple(
        (value.dtype if isinstance(value, Node) else dtype_of("bool")) if mask else common
        for value, mask in zip(operands, is_mask, strict=True)
    )
    shape = broadcast_shapes(record.name, *(v.shape if isinstance(v, Node) else () for v in operands))
    is_alike = all(
        isinstance(v, Node) and v.shape == shape and v.dtype is dtype for v, dtype in zip(operands, dtypes, strict=True)
    )
    joint = Joint(dtypes, shape, None, is_alike)
    _remember(_joint, key, joint, MOST_RULED)
    return joint


def normalise_axes(name: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes as sorted, distinct, non-negative integers; None means all."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, float | str):
        raise ArgumentError(f"{name}: axis must be a whole number or several, got {axes!r}")
    return _normalised(name, (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes), ndim)


@lru_cache(maxsize=1024)
def _normalised(name: str, axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    out = []
    for axis in axes:
        if not -ndim <= axis < ndim:
            known = f"{ndim} axes, {-ndim} to {ndim - 1}" if ndim else "a tensor without axes"
            raise ShapeError(f"{name}: axis {axis} is out of range for {known}")
        out.append(int(axis) % ndim)
    if len(set(out)) != len(out):
        raise ShapeError(f"{name}: {axes} names an axis twice; name each once")
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
