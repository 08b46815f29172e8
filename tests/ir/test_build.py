"""`build` is strict; `apply` promotes and broadcasts first, once, by the rules of NumPy and the array API."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as npst

import vkgrad.ops  # noqa: F401  fills OPS
from tests.reference import evaluate, variable
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    dtype_of,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    promote,
    uint8,
    uint32,
    uint64,
    weak_dtype,
)
from vkgrad.ir.node import Node
from vkgrad.ops.sources import leaf


def value(node: Node, values: dict[Node, np.ndarray] | None = None) -> np.ndarray:
    return evaluate([node], values or {})[0]


# ---- types
@pytest.mark.parametrize("one", DTYPES.values(), ids=str)
@pytest.mark.parametrize("other", DTYPES.values(), ids=str)
def test_promotion_is_numpy_s_except_that_floats_stay(one: DType, other: DType) -> None:
    """The array API table; beyond it int with float32 stays float32, and the two half precisions meet in float32."""
    if uint64 in (one, other) and "i" in one.kind + other.kind:
        with pytest.raises(DTypeError, match=r"no integer type holds both uint64 and int.*astype"):
            promote(one, other)
    elif {one, other} == {float16, bfloat16}:
        assert promote(one, other) is float32
    elif "f" in one.kind + other.kind:
        assert promote(one, other) is max((d for d in (one, other) if d.kind == "f"), key=lambda d: d.size_bytes)
    else:
        assert promote(one, other).numpy == np.promote_types(one.numpy, other.numpy)


def test_promotion_of_many_is_that_of_two_and_two() -> None:
    assert promote(int32, uint64, float16) is float16
    assert promote(bool_, uint32, int32) is int64
    assert promote(float16, bfloat16, int32) is float32


@pytest.mark.parametrize(
    ("scalar", "beside", "expected"),
    [
        (True, None, bool_), (2, None, int32), (2.0, None, float32),
        (True, float64, float64), (2, float64, float64), (2.0, float64, float64),
        (2, uint32, uint32), (2.0, int32, float32), (2, bool_, int32), (2.0, bool_, float32), (True, int32, int32),
        (2.5, float16, float16), (2.5, bfloat16, bfloat16), (2, int8, int8), (2.5, int8, float32), (2, uint8, uint8),
    ],
)  # fmt: skip
def test_python_scalars_are_weak(scalar: float, beside: DType | None, expected: DType) -> None:
    assert weak_dtype(scalar, beside) is expected
    if beside is not None and expected is not bool_:
        assert b.apply("add", leaf((2,), beside), scalar).dtype is expected
        assert b.apply("add", scalar, leaf((2,), beside)).dtype is expected


def test_numpy_scalars_are_strong() -> None:
    assert b.apply("add", leaf((), float32), np.float64(1)).dtype is float64
    assert b.apply("add", leaf((), float32), np.float32(1)).dtype is float32


def test_two_scalars() -> None:
    assert b.apply("add", 1, 2.5).dtype is float32
    assert value(b.apply("add", 1, 2)) == 3


@pytest.mark.parametrize("name", ["bool", "bool_", np.bool_, np.dtype("float32"), "float64", np.int32, ">f4", uint32])
def test_dtype_of(name: object) -> None:
    expected = name.name if isinstance(name, DType) else np.dtype("bool" if name == "bool_" else name).name  # type: ignore[call-overload]
    assert dtype_of(name).numpy.name == expected


@pytest.mark.parametrize("name", ["float8", np.complex64, "nonsense", object()])
def test_dtypes_that_do_not_exist(name: object) -> None:
    words = r"vkgrad has bool, uint8, .*, int8, .*, float16, bfloat16, float32, float64|vkgrad has no complex numbers"
    with pytest.raises(DTypeError, match=words):
        dtype_of(name)


# ---- constants and casts
@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (0.1, float32, float(np.float32(0.1))), (0.1, float64, 0.1), (1e300, float32, np.inf),
        (2**31, int32, -(2**31)), (-1, uint32, 2**32 - 1), (2.9, int32, 2), (2, bool_, True), (0.0, bool_, False),
        (0.1, float16, float(np.float16(0.1))), (65519.0, float16, 65504.0), (65520.0, float16, np.inf),
        (0.1, bfloat16, 0.10009765625), (3.4e38, bfloat16, np.inf), (1.00390625, bfloat16, 1.0),
        (200, int8, -56), (-1, uint8, 255), (2**63, int64, -(2**63)), (-1, uint64, 2**64 - 1),
    ],
)  # fmt: skip
def test_constant_has_the_value_of_its_type(number: float, dtype: DType, expected: float) -> None:
    node = b.constant(number, dtype, (2, 2))
    np.testing.assert_array_equal(value(node), np.full((2, 2), expected, dtype.numpy))


def test_cast_folds_constants_and_leaves_equal_types_alone() -> None:
    x = leaf((2,), float32)
    assert b.cast(x, float32) is x
    assert b.cast(x, float64).is_op("cast")
    assert b.cast(b.constant(3, int32), float32) is b.constant(3.0, float32)


# ---- shapes
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0))
def test_broadcasting_is_numpy_s(shapes: npst.BroadcastableShapes) -> None:
    assert b.broadcast_shapes("f", *shapes.input_shapes) == shapes.result_shape


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 1), (3, 2)), ((0,), (2,))])
def test_shapes_that_do_not_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError):
        np.broadcast_shapes(*shapes)
    with pytest.raises(ShapeError, match=r"^add: shapes \(.*\) and \(.*\) do not broadcast together; .*equal or 1"):
        b.apply("add", *(leaf(shape, float32) for shape in shapes))


def test_expand_and_sum_to_undo_each_other_s_shape() -> None:
    values: dict[Node, np.ndarray] = {}
    x = variable(np.arange(6, dtype="f4").reshape(2, 3), values)
    for shape in [(3,), (1, 3), (2, 1), (2, 3), (), (1, 1)]:
        total = b.sum_to(x, shape)
        assert total.shape == shape
        assert value(total, values).sum() == 15
        assert b.expand(total, (2, 3)).shape == (2, 3)
    assert b.sum_to(x, x.shape) is x and b.expand(x, x.shape) is x and b.reshape(x, x.shape) is x


@pytest.mark.parametrize(
    ("axes", "ndim", "expected"),
    [(None, 2, (0, 1)), (-1, 3, (2,)), ((2, -3), 3, (0, 2)), ((), 2, ()), (np.int64(1), 2, (1,))],
)
def test_normalise_axes(axes: int | tuple[int, ...] | None, ndim: int, expected: tuple[int, ...]) -> None:
    assert b.normalise_axes("sum", axes, ndim) == expected


@pytest.mark.parametrize(
    ("axes", "message"), [(2, "axis 2 is out of range for 2 axes"), ((0, -2), "names an axis twice")]
)
def test_axes_that_are_not_there(axes: int | tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=f"^sum: .*{message}"):
        b.normalise_axes("sum", axes, 2)


# ---- build and apply
def test_build_is_strict() -> None:
    with pytest.raises(DTypeError, match=r"^add: operands must have one type, got float32, int32"):
        b.build("add", leaf((2,), float32), leaf((2,), int32))
    with pytest.raises(ShapeError, match=r"^add: operands must have one shape"):
        b.build("add", leaf((2,), float32), leaf((1,), float32))
    with pytest.raises(DTypeError, match=r"^sqrt: takes floats, got int32"):
        b.build("sqrt", leaf((2,), int32))
    with pytest.raises(TypeError, match="add: takes 2 operands, got 1"):
        b.build("add", leaf((2,), float32))


def test_apply_promotes_and_broadcasts_as_nodes() -> None:
    x, y = leaf((2, 1), int32), leaf((3,), float32)
    node = b.apply("add", x, y)
    assert (node.shape, node.dtype) == ((2, 3), float32)
    assert [source.op.name for source in node.inputs] == ["expand", "expand"]
    assert node.inputs[0].inputs[0].is_op("cast")


def test_where_takes_its_type_from_its_branches() -> None:
    mask, x = leaf((2,), bool_), leaf((3, 1), float64)
    assert b.apply("where", mask, x, 0).dtype is float64
    assert b.apply("where", mask, x, 0).shape == (3, 2)
    assert b.apply("where", mask, 1, 0).dtype is int32
    assert b.apply("where", True, x, leaf((), float32)).dtype is float64
    with pytest.raises(DTypeError, match=r"^where: the first operand must be a mask"):
        b.apply("where", x, x, x)


def test_promotion_errors_name_the_op() -> None:
    with pytest.raises(DTypeError, match=r"^add: no integer type holds both uint64 and int32"):
        b.apply("add", leaf((), int32), leaf((), uint64))


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.narrow], ids=str)
def test_narrow_types_are_added_up_in_the_type_they_are_computed_in(dtype: DType) -> None:
    node = b.build("sum", leaf((3,), dtype), axes=(0,))
    assert node.is_op("cast") and node.dtype is dtype
    (total,) = node.inputs
    assert total.is_op("sum") and total.dtype is dtype.computed and total.inputs[0].is_op("cast")


def test_watchers_see_every_node_with_or_of_a_rare_type() -> None:
    seen: list[Node] = []
    b.on_rare.append(seen.append)
    try:
        leaf((2,), float32) + 1
        node = b.cast(leaf((2,), float64) + 0.125, float32)
        again = b.cast(leaf((2,), float64) + 0.125, float32)  # answered by the tables, and still seen
    finally:
        b.on_rare.remove(seen.append)
    assert [n.op.name for n in seen] == ["constant", "reshape", "expand", "add", "cast", "add", "cast"]
    assert seen[-3] is node and seen[-1] is again


def test_operators() -> None:
    values: dict[Node, np.ndarray] = {}
    a = np.array([1.0, -2.0, 4.0], "f4")
    x = variable(a, values)
    for node, expected in [
        (x + 1, a + 1), (1 + x, 1 + a), (x - 1, a - 1), (1 - x, 1 - a), (x * 2, a * 2), (2 * x, 2 * a),
        (x / 2, a / 2), (2 / x, 2 / a), (-x, -a), (x > 1, a > 1), (x < 1, a < 1), (x >= 1, a >= 1), (x <= 1, a <= 1),
    ]:  # fmt: skip
        found = value(node, values)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
