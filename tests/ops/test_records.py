"""The op records: complete, of one type, and of one mind where a record states something twice.

Everything is derived from `OPS`. The meanings themselves are tested in test_meanings.py and test_integer_meanings.py.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from math import inf, nan

import numpy as np
import pytest

from tests.ops.op_cases import ATTRIBUTES, ELEMENTWISE, operand_dtypes, takes
from tests.reference import evaluate, variable
from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DTYPES, DType, dtype_of
from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op, register


# ---- records
@pytest.mark.parametrize("field", ["shape", "dtype", "numpy", "grad", "samples", "glsl"])
def test_an_op_refuses_to_be_incomplete(field: str) -> None:
    assert field in {f.name for f in fields(Op)}
    with pytest.raises(TypeError, match=r"op 'add' .* must state"):
        replace(OPS["add"], **{field: None})


@pytest.mark.parametrize("field", ["shape", "dtype", "numpy", "grad", "samples", "template", "geometry"])
def test_a_routine_refuses_to_be_incomplete(field: str) -> None:
    with pytest.raises(TypeError, match=r"op 'scan' .* must state"):
        replace(OPS["scan"], **{field: None})


@pytest.mark.parametrize(("name", "field"), [("permute", "layout"), ("sum", "init"), ("sum", "combine")])
def test_a_family_has_its_own_fields(name: str, field: str) -> None:
    with pytest.raises(TypeError, match="must state"):
        replace(OPS[name], **{field: None})


def test_a_name_is_taken_once() -> None:
    with pytest.raises(TypeError, match="registered twice"):
        register(OPS["add"])


def test_an_op_without_cases_is_not_registered() -> None:
    op = OPS["cholesky"]
    with pytest.raises(TypeError, match=r"'another' .* must state the cases"):
        register(replace(op, name="another", samples=replace(op.samples, cases=())))
    assert "another" not in OPS


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_record(op: Op) -> None:
    assert OPS[op.name] is op
    assert callable(op.grad) or op.grad in (ZERO, NOT_DIFFERENTIABLE)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_glsl_names_every_operand_and_nothing_unknown(op: Op) -> None:
    for dtype in filter(lambda dtype: takes(op, dtype), ANY):
        assert op.glsl is not None
        glsl = op.glsl if isinstance(op.glsl, str) else op.glsl[dtype.kind]
        for attributes in ATTRIBUTES.get(op.name, [{}]):
            text = glsl.format(x="<0>", y="<1>", z="<2>", w="<3>", **{**attributes, **dtype.glsl_fields})
            assert all(f"<{i}>" in text for i in range(op.arity))


@pytest.mark.parametrize("name", ["abs", "relu", "maximum", "minimum", "max", "min", "scan", "scatter", "argsort"])
def test_kinks_and_ties_are_stated(name: str) -> None:
    """The pages of the families show what a record says of them."""
    assert re.search(r"derivative at 0|ties|[Ee]qual|Stable", OPS[name].doc)


# ---- types and shapes
def _operands(op: Op, dtype: DType, shape: tuple[int, ...], seed: int = 7) -> list[np.ndarray]:
    return [
        np.asarray(op.samples.draw(shape, d.numpy, seed, i, special=True))
        for i, d in enumerate(operand_dtypes(op, dtype))
    ]


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_meaning_keeps_types_and_shapes_and_never_warns(op: Op, dtype: DType) -> None:
    if not takes(op, dtype):
        with pytest.raises(DTypeError, match=rf"^{op.name}: "):
            op.dtype(operand_dtypes(op, dtype))
        return
    for attributes in ATTRIBUTES.get(op.name, [{}]):
        for shape in [(), (0, 3), (1,), (257,), (3, 4)]:
            values: dict[Node, np.ndarray] = {}
            arrays = zip(_operands(op, dtype, shape), operand_dtypes(op, dtype), strict=True)
            nodes = [variable(array, values, own) for array, own in arrays]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                evaluate([b.build(op, *nodes, **attributes)], values)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_meaning_sees_elements_not_memory(op: Op) -> None:
    """Flipped, strided, transposed, broadcast and read-only arrays give the same elements."""
    dtype = next(dtype for dtype in ANY if takes(op, dtype))
    attributes = ATTRIBUTES.get(op.name, [{}])[0]
    plain = _operands(op, dtype, (4, 6))
    expected = op.numpy(*plain, **attributes)
    for move in [lambda a: a[::-1, ::-2], lambda a: a.T, lambda a: np.broadcast_to(a[:1], (5, 6))]:
        np.testing.assert_array_equal(op.numpy(*map(move, plain), **attributes), move(expected))


# ---- the other families
@pytest.mark.parametrize("op", [op for op in OPS.values() if op.family is Family.VIEW], ids=lambda op: op.name)
def test_a_view_s_layout_is_its_meaning(op: Op) -> None:
    """On an array of addresses the meaning must give the addresses that the layout gives, and the promised shape."""
    for case in op.samples.cases:
        shape, attributes = case.shapes[0], dict(case.attributes)
        if "value" in attributes:
            attributes["value"] = -1  # what stands for no address
        memory = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        expected = op.numpy(memory, *[memory] * (op.arity - 1), **attributes)
        layout = op.layout(Layout.contiguous(shape), **attributes)  # type: ignore[misc]
        assert layout.extents == expected.shape == op.shape([shape], **attributes)
        for place in np.ndindex(*expected.shape):
            address = layout.address(place)
            assert (-1 if address is None else address) == expected[place]


FOLDS: dict[str, Callable] = {
    "sum": lambda x, y: x + y, "prod": lambda x, y: x * y, "max": max, "min": min,
    "any": lambda x, y: x or y, "all": lambda x, y: x and y,
}  # fmt: skip


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.family is Family.REDUCTION], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ANY, ids=str)
def test_a_reduction_is_a_fold_from_its_identity(op: Op, dtype: DType) -> None:
    attributes = {"ties": "share"} if op.name in ("max", "min") else {}
    if not takes(op, dtype):
        with pytest.raises(DTypeError, match=rf"^{op.name}: "):
            op.dtype([dtype], axes=(0,))
        return
    for shape, axes in [((3, 4), (1,)), ((2, 3, 2), (0, 2)), ((3,), ()), ((0, 2), (0,)), ((2, 0), (0,)), ((), ())]:
        # whole numbers, so that the order of addition does not matter
        x = np.random.default_rng(5).integers(0 if dtype.kind in "ub" else -3, 4, shape).astype(dtype.numpy)
        found = op.numpy(x, axes=axes, **attributes)
        assert found.shape == op.shape([shape], axes=axes, **attributes) and found.dtype == dtype.numpy
        for place in np.ndindex(*found.shape):
            total = op.init(dtype)  # type: ignore[misc]
            chosen = x[tuple(slice(None) if axis in axes else i for axis, i in enumerate(place))]
            for value in np.ravel(chosen).tolist():
                total = FOLDS[op.name](total, value)
            assert found[place] == total


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_find_nan(name: str) -> None:
    x = np.array([[1, nan, 2], [inf, -inf, 0]], np.float32)
    found = OPS[name].numpy(x, axes=(1,), ties="first")
    np.testing.assert_array_equal(found, [[nan], [inf if name == "max" else -inf]])


def test_contract_sums_products() -> None:
    generator = np.random.default_rng(6)
    for left, right, out in [
        ((0, 1), (1, 2), (2, 0)),
        ((3, 0, 1), (1, 3), (3, 0)),
        ((0,), (0,), ()),
        ((0,), (1,), (1, 0)),
    ]:
        extents = dict(enumerate((2, 3, 4, 2)))
        x, y = (generator.integers(-3, 4, [extents[a] for a in labels]).astype("f4") for labels in (left, right))
        found = OPS["contract"].numpy(x, y, left=left, right=right, out=out)
        assert found.dtype == np.float32
        summed = [label for label in extents if label in left and label in right and label not in out]
        for place in np.ndindex(*found.shape):
            at = dict(zip(out, place, strict=True))
            total = 0.0
            for inner in np.ndindex(*(extents[label] for label in summed)):
                at |= dict(zip(summed, inner, strict=True))
                total += float(x[tuple(at[a] for a in left)]) * float(y[tuple(at[a] for a in right)])
            assert found[place] == total


@pytest.mark.parametrize(("dtype", "outside"), [("float32", nan), ("int32", 0), ("bool", False)])
def test_gather_reads_nan_or_zero_outside(dtype: str, outside: float) -> None:
    x = np.array([[1, 0], [1, 1], [0, 1]]).astype(dtype)
    index = np.array([2, -1, 3, 0], np.int32)
    found = OPS["gather"].numpy(x, index, axis=0)
    expected = np.array([x[2], [outside] * 2, [outside] * 2, x[0]], dtype)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, expected)
    assert dtype_of(found.dtype) is OPS["gather"].dtype([dtype_of(dtype), DTYPES["int32"]], axis=0)
