"""The op records: complete, of one type, and each meaning against an independent reference.

The references are mpmath at 40 digits, exact fractions and Python's own integers; the expected values at infinities,
zeros and NaN are those of the C standard's annex F, written out. Everything is derived from `OPS`: an op without a
reference fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from math import inf, nan, pi
from typing import Any

import mpmath
import numpy as np
import pytest

import vkgrad.ops  # noqa: F401  fills OPS
from tests.reference import evaluate, variable
from tests.tolerances import distance, ulps_of
from vkgrad.errors import DTypeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DTYPES, DType, dtype_of
from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op, register

mp = mpmath.mp
mp.dps = 40

ELEMENTWISE = [op for op in OPS.values() if op.family is Family.ELEMENTWISE]
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "polygamma": [{"order": 1}, {"order": 2}, {"order": 3}],
    "threefry": [{"word": 0}, {"word": 1}],
    "cast": [{"type": name} for name in DTYPES],
}


def operand_dtypes(op: Op, dtype: DType) -> list[DType]:
    return [DTYPES["bool"], dtype, dtype] if op.name == "where" else [dtype] * op.arity


def takes(op: Op, dtype: DType) -> bool:
    try:
        op.dtype(operand_dtypes(op, dtype), **ATTRIBUTES.get(op.name, [{}])[0])
    except DTypeError:
        return False
    return True


# ---- records
@pytest.mark.parametrize("field", ["shape", "dtype", "numpy", "grad", "samples", "glsl"])
def test_an_op_refuses_to_be_incomplete(field: str) -> None:
    assert field in {f.name for f in fields(Op)}
    with pytest.raises(TypeError, match=r"op 'add' .* must state"):
        replace(OPS["add"], **{field: None})


@pytest.mark.parametrize(("name", "field"), [("permute", "layout"), ("sum", "init"), ("sum", "combine")])
def test_a_family_has_its_own_fields(name: str, field: str) -> None:
    with pytest.raises(TypeError, match="must state"):
        replace(OPS[name], **{field: None})


def test_a_name_is_taken_once() -> None:
    with pytest.raises(TypeError, match="registered twice"):
        register(OPS["add"])


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
            text = glsl.format(x="<0>", y="<1>", z="<2>", w="<3>", **{**attributes, "type": "T"})
            assert all(f"<{i}>" in text for i in range(op.arity))


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
            nodes = [variable(array, values) for array in _operands(op, dtype, shape)]
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


# ---- meanings of floats at ordinary points
def _fraction(function: Callable) -> Callable:
    return lambda *x: function(*(Fraction(float(v)) for v in x))


def _rounded(x: Fraction) -> int:
    return round(x)  # halves to even


REFERENCE: dict[str, Callable] = {
    "add": _fraction(lambda x, y: x + y),
    "subtract": _fraction(lambda x, y: x - y),
    "multiply": _fraction(lambda x, y: x * y),
    "multiply_no_nan": _fraction(lambda x, y: x * y),
    "divide": _fraction(lambda x, y: x / y),
    "floor_divide": _fraction(lambda x, y: x // y),
    "remainder": _fraction(lambda x, y: x % y),
    "square": _fraction(lambda x: x * x),
    "reciprocal": _fraction(lambda x: 1 / x),
    "negative": _fraction(lambda x: -x),
    "abs": _fraction(abs),
    "sign": _fraction(lambda x: (x > 0) - (x < 0)),
    "maximum": max,
    "minimum": min,
    "relu": lambda x: x if x > 0 else 0,
    "where": lambda mask, x, y: x if mask else y,
    "floor": _fraction(math.floor),
    "ceil": _fraction(math.ceil),
    "trunc": _fraction(math.trunc),
    "round": _fraction(_rounded),
    "pow": mpmath.power,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": lambda x: mpmath.log1p(x),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erfinv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))) if x < 1e10 else mpmath.loggamma(x),
    "digamma": mpmath.digamma,
    "polygamma": lambda x, order: mpmath.polygamma(order, x),
    "isnan": lambda x: False,
    "isinf": lambda x: False,
    "isfinite": lambda x: True,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}
FLOAT_OPS = [op for op in ELEMENTWISE if takes(op, DTYPES["float32"]) and op.name != "cast"]


def points(op: Op, dtype: DType, count: int = 60) -> list[tuple]:
    """Ordinary points and the finite edges where the function is finite: each with the others fixed."""
    columns = [
        op.samples.draw((count,), d.numpy, seed, i).tolist()
        for seed in (1,)
        for i, d in enumerate(operand_dtypes(op, dtype))
    ]
    drawn = list(zip(*columns, strict=True))
    edges = [float(dtype.numpy.type(e)) for e in op.samples.edges if math.isfinite(e)]
    drawn += [(*drawn[0][:i], e, *drawn[0][i + 1 :]) for e in edges for i in range(op.name == "where", op.arity)]
    return drawn


def reference(op: Op, point: Sequence[Any], attributes: dict[str, Any]) -> float | bool | None:
    """The value at a point, as a double that is right to 1e-16; None at a pole or outside the domain."""
    try:
        value = REFERENCE[op.name](*(v if isinstance(v, bool) else mpmath.mpf(v) for v in point), **attributes)
    except (ZeroDivisionError, ValueError):
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, (Fraction, int)):
        return float(value)
    return None if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value) else float(value)


def worst_ulps(op: Op, meaning: Callable, dtype: DType, attributes: dict[str, Any]) -> tuple[float, Any]:
    """The largest distance from the reference over the points, and where."""
    table = [(p, r) for p in points(op, dtype) if (r := reference(op, p, attributes)) is not None]
    # A float32 result that overflows or is denormal is judged by the other tests.
    arrays = [np.array(column, d.numpy) for column, d in zip(zip(*(p for p, _ in table), strict=True),
                                                             operand_dtypes(op, dtype), strict=True)]  # fmt: skip
    found = np.asarray(meaning(*arrays, **attributes))
    expected = np.array([r for _, r in table])
    if found.dtype.kind == "b":
        off = np.where(found == expected, 0.0, inf)
    else:
        off = distance(found, expected, ulps_of(op.name).scale)
        with np.errstate(all="ignore"):
            size = np.abs(expected.astype(found.dtype))
        off = np.where(np.isinf(size) | (size < np.finfo(found.dtype).tiny), 0, off)
    where = int(off.argmax())
    return float(off[where]), (table[where], found[where])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", FLOAT_OPS, ids=lambda op: op.name)
def test_meaning_at_ordinary_points(op: Op, dtype: str) -> None:
    bound = ulps_of(op.name).meaning(np.dtype(dtype))
    for attributes in ATTRIBUTES.get(op.name, [{}]):
        worst, where = worst_ulps(op, op.numpy, DTYPES[dtype], attributes)
        # half an ulp more, since the reference itself is a rounded double
        assert worst <= bound + (0.51 if dtype == "float64" or bound == 0 else 0.001), where


@pytest.mark.parametrize("op", FLOAT_OPS, ids=lambda op: op.name)
def test_a_meaning_off_by_a_little_fails(op: Op) -> None:
    """The null arm of the test above."""

    def off(*operands: Any, **attributes: Any) -> Any:
        value = np.asarray(op.numpy(*operands, **attributes))
        return ~value if value.dtype.kind == "b" else value + np.maximum(np.abs(value), 1) * np.float32(3e-6)

    attributes = ATTRIBUTES.get(op.name, [{}])[0]
    worst, _ = worst_ulps(op, off, DTYPES["float32"], attributes)
    assert worst > ulps_of(op.name).meaning32 + 1


# ---- meanings of floats at 0, -0, inf, -inf and NaN, signs of zeros included
AT = (0.0, -0.0, inf, -inf, nan)
SPECIAL: dict[str, tuple] = {
    "negative": (-0.0, 0.0, -inf, inf, nan),
    "abs": (0.0, 0.0, inf, inf, nan),
    "sign": (0.0, 0.0, 1.0, -1.0, nan),
    "square": (0.0, 0.0, inf, inf, nan),
    "reciprocal": (inf, -inf, 0.0, -0.0, nan),
    "sqrt": (0.0, -0.0, inf, nan, nan),
    "rsqrt": (inf, -inf, 0.0, nan, nan),
    "cbrt": (0.0, -0.0, inf, -inf, nan),
    "relu": (0.0, None, inf, 0.0, nan),  # max(-0, 0) is either zero
    "floor": (0.0, -0.0, inf, -inf, nan),
    "ceil": (0.0, -0.0, inf, -inf, nan),
    "trunc": (0.0, -0.0, inf, -inf, nan),
    "round": (0.0, -0.0, inf, -inf, nan),
    "exp": (1.0, 1.0, inf, 0.0, nan),
    "exp2": (1.0, 1.0, inf, 0.0, nan),
    "expm1": (0.0, -0.0, inf, -1.0, nan),
    "log": (-inf, -inf, inf, nan, nan),
    "log2": (-inf, -inf, inf, nan, nan),
    "log10": (-inf, -inf, inf, nan, nan),
    "log1p": (0.0, -0.0, inf, nan, nan),
    "sin": (0.0, -0.0, nan, nan, nan),
    "cos": (1.0, 1.0, nan, nan, nan),
    "tan": (0.0, -0.0, nan, nan, nan),
    "asin": (0.0, -0.0, nan, nan, nan),
    "acos": (pi / 2, pi / 2, nan, nan, nan),
    "atan": (0.0, -0.0, pi / 2, -pi / 2, nan),
    "sinh": (0.0, -0.0, inf, -inf, nan),
    "cosh": (1.0, 1.0, inf, inf, nan),
    "tanh": (0.0, -0.0, 1.0, -1.0, nan),
    "asinh": (0.0, -0.0, inf, -inf, nan),
    "acosh": (nan, nan, inf, nan, nan),
    "atanh": (0.0, -0.0, nan, nan, nan),
    "sigmoid": (0.5, 0.5, 1.0, 0.0, nan),
    "softplus": (math.log(2), math.log(2), inf, 0.0, nan),
    "erf": (0.0, -0.0, 1.0, -1.0, nan),
    "erfc": (1.0, 1.0, 0.0, 2.0, nan),
    "erfinv": (0.0, -0.0, nan, nan, nan),
    "lgamma": (inf, inf, inf, inf, nan),
    "digamma": (-inf, inf, inf, nan, nan),
    "polygamma": (inf, inf, 0.0, nan, nan),
    "isnan": (False, False, False, False, True),
    "isinf": (False, False, True, True, False),
    "isfinite": (True, True, False, False, False),
}
PAIRS: list[tuple[str, float, float, float]] = [
    ("add", inf, -inf, nan), ("add", -0.0, -0.0, -0.0), ("add", -0.0, 0.0, 0.0), ("subtract", inf, inf, nan),
    ("multiply", inf, 0.0, nan), ("multiply", -1.0, 0.0, -0.0), ("multiply", inf, -2.0, -inf),
    ("multiply_no_nan", inf, 0.0, 0.0), ("multiply_no_nan", nan, 0.0, 0.0), ("multiply_no_nan", 0.0, inf, nan),
    ("multiply_no_nan", 1.0, nan, nan),
    ("divide", 1.0, 0.0, inf), ("divide", 1.0, -0.0, -inf), ("divide", 0.0, 0.0, nan), ("divide", 1.0, -inf, -0.0),
    ("floor_divide", 1.0, 0.0, inf), ("floor_divide", 0.0, 0.0, nan), ("floor_divide", inf, 2.0, nan),
    ("floor_divide", 1.0, -inf, -1.0), ("floor_divide", -1.0, inf, -1.0), ("floor_divide", 1.0, inf, 0.0),
    ("floor_divide", -0.0, 2.0, -0.0), ("floor_divide", 7.0, -2.0, -4.0), ("floor_divide", -7.0, 2.0, -4.0),
    ("remainder", 1.0, 0.0, nan), ("remainder", inf, 2.0, nan), ("remainder", 1.0, inf, 1.0),
    ("remainder", -1.0, inf, inf), ("remainder", 7.0, -2.0, -1.0), ("remainder", -7.0, 2.0, 1.0),
    ("remainder", 4.0, -2.0, -0.0), ("remainder", -4.0, 2.0, 0.0),
    ("maximum", nan, 1.0, nan), ("maximum", 1.0, nan, nan), ("maximum", -inf, inf, inf),
    ("minimum", nan, 1.0, nan), ("minimum", 1.0, nan, nan), ("minimum", -inf, inf, -inf),
    ("pow", 0.0, 0.0, 1.0), ("pow", nan, 0.0, 1.0), ("pow", 1.0, nan, 1.0), ("pow", 0.0, -1.0, inf),
    ("pow", -0.0, -1.0, -inf), ("pow", -0.0, -2.0, inf), ("pow", -0.0, 3.0, -0.0), ("pow", -8.0, 3.0, -512.0),
    ("pow", -2.0, 2.0, 4.0), ("pow", -2.0, 0.5, nan), ("pow", -1.0, inf, 1.0), ("pow", 0.5, inf, 0.0),
    ("pow", 0.5, -inf, inf), ("pow", 2.0, -inf, 0.0), ("pow", inf, -1.0, 0.0), ("pow", -inf, 3.0, -inf),
    ("pow", -inf, 0.5, inf), ("pow", -inf, -1.0, -0.0), ("pow", nan, 1.0, nan), ("pow", 2.0, 1024.0, inf),
    ("atan2", 0.0, -0.0, pi), ("atan2", -0.0, -1.0, -pi), ("atan2", -0.0, 1.0, -0.0), ("atan2", inf, -inf, 3 * pi / 4),
    ("atan2", 1.0, 0.0, pi / 2), ("atan2", nan, 1.0, nan),
    ("equal", nan, nan, False), ("not_equal", nan, nan, True), ("equal", 0.0, -0.0, True), ("less", nan, 1.0, False),
    ("less_equal", nan, nan, False), ("greater", nan, 1.0, False), ("greater_equal", nan, nan, False),
    ("less", -0.0, 0.0, False), ("greater", inf, -inf, True),
]  # fmt: skip
HALVES = [(-1.5, -2.0), (-0.5, -0.0), (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (0.49999997, 0.0)]


def assert_identical(found: Any, expected: float | bool | None, dtype: str, where: Any) -> None:
    """Equal as numbers of `dtype`, signs of zeros included; ordinary values may differ in the last place."""
    if expected is None:
        return
    found = np.asarray(found)
    wanted = np.asarray(expected, found.dtype)
    close = abs(float(found) - float(wanted)) <= 2 * float(np.spacing(np.abs(wanted), dtype=dtype)) if (
        found.dtype.kind == "f" and np.isfinite(wanted) and wanted != 0
    ) else bool(found == wanted or (found != found and wanted != wanted))  # fmt: skip
    signs = found.dtype.kind != "f" or np.isnan(wanted) or np.signbit(found) == np.signbit(wanted)
    assert close and signs, f"{where}: {found}, expected {wanted}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_meaning_at_special_points(dtype: str) -> None:
    assert set(SPECIAL) == {op.name for op in FLOAT_OPS if op.arity == 1}
    for name, expected in SPECIAL.items():
        found = OPS[name].numpy(np.array(AT, dtype), **ATTRIBUTES.get(name, [{}])[0])
        for at, value, wanted in zip(AT, found, expected, strict=True):
            assert_identical(value, wanted, dtype, f"{name}({at})")
    for name, x, y, wanted in PAIRS:
        (found,) = OPS[name].numpy(np.array([x], dtype), np.array([y], dtype))
        assert_identical(found, wanted, dtype, f"{name}({x}, {y})")
    for x, wanted in HALVES:
        (found,) = OPS["round"].numpy(np.array([x], dtype))
        assert_identical(found, wanted, dtype, f"round({x})")


@pytest.mark.parametrize(("found", "expected"), [(0.0, -0.0), (nan, 1.0), (1.0, nan), (inf, -inf), (1.0, 1.00001)])
def test_the_special_points_are_told_apart(found: float, expected: float) -> None:
    with pytest.raises(AssertionError):
        assert_identical(np.float64(found), expected, "float64", "")


# ---- meanings of integers and masks: every pair of these
INTEGERS = {
    "int32": (0, 1, -1, 2, -3, 7, -8, 31, 32, 33, -33, 46341, 2**31 - 1, -(2**31), -(2**31) + 1),
    "uint32": (0, 1, 2, 3, 7, 31, 32, 33, 65536, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1),
    "bool": (False, True),
}


def _int_pow(x: int, y: int) -> int:
    return x**y if y >= 0 else int(Fraction(1, x**-y)) if x else 0


INTEGER_REFERENCE: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "pow": lambda x, y: _int_pow(x, y) if abs(y) < 100 else pow(x, y, 2**32) if y > 0 else _int_pow(x, -(100 + y % 2)),
    "square": lambda x: x * x,
    "negative": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "maximum": max,
    "minimum": min,
    "where": lambda mask, x, y: x if mask else y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y,
    "logical_xor": lambda x, y: x != y,
    "logical_not": lambda x: not x,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_invert": lambda x: not x if isinstance(x, bool) else ~x,
    "bitwise_left_shift": lambda x, y: x << y if 0 <= y < 32 else 0,
    "bitwise_right_shift": lambda x, y: x >> (y if 0 <= y < 32 else 32),
}
OTHERWISE_TESTED = {"cast", "threefry"}


def wrapped(value: int | bool, dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return bool(value)
    bits = int(value) & 0xFFFFFFFF
    return bits - 2**32 if dtype.kind == "i" and bits >= 2**31 else bits


def integer_cases() -> Iterator[tuple[Op, str]]:
    for op in ELEMENTWISE:
        for name in INTEGERS:
            if op.name not in OTHERWISE_TESTED and takes(op, DTYPES[name]):
                yield op, name


@pytest.mark.parametrize(("op", "name"), list(integer_cases()), ids=lambda value: getattr(value, "name", value))
def test_meaning_on_integers_and_masks(op: Op, name: str) -> None:
    ranges = [INTEGERS[d.name] for d in operand_dtypes(op, DTYPES[name])]
    grid = np.meshgrid(*(np.arange(len(r)) for r in ranges), indexing="ij")
    places = list(zip(*(part.ravel().tolist() for part in grid), strict=True))
    columns = [[r[i] for i in column] for r, column in zip(ranges, zip(*places, strict=True), strict=True)]
    arrays = [np.array(column, d.numpy) for column, d in zip(columns, operand_dtypes(op, DTYPES[name]), strict=True)]
    found = op.numpy(*arrays)
    rule = INTEGER_REFERENCE[op.name]
    for point, value in zip(zip(*columns, strict=True), found.tolist(), strict=True):
        assert value == wrapped(rule(*point), found.dtype), f"{op.name}{point} gave {value}"


def test_every_op_has_a_reference() -> None:
    assert {op.name for op in FLOAT_OPS} == set(REFERENCE)
    assert {op.name for op, _ in integer_cases()} == set(INTEGER_REFERENCE)
    assert {op.name for op in ELEMENTWISE} == set(REFERENCE) | set(INTEGER_REFERENCE) | OTHERWISE_TESTED


# ---- casts and random bits
CASTS: list[tuple[str, Any, str, Any]] = [
    ("float32", 2.9, "int32", 2), ("float32", -2.9, "int32", -2), ("float32", nan, "int32", 0),
    ("float32", inf, "int32", 2**31 - 1), ("float32", -inf, "int32", -(2**31)), ("float32", 3e9, "int32", 2**31 - 1),
    ("float32", -1.5, "uint32", 0), ("float32", 3e9, "uint32", 3_000_000_000), ("float32", 5e9, "uint32", 2**32 - 1),
    ("float64", 2147483646.9, "int32", 2147483646), ("float64", 0.1, "float32", float(np.float32(0.1))),
    ("float64", 1e300, "float32", inf), ("float64", nan, "float32", nan), ("float32", -0.0, "bool", False),
    ("float32", nan, "bool", True), ("float32", 1e-30, "bool", True), ("int32", -1, "uint32", 2**32 - 1),
    ("uint32", 2**32 - 1, "int32", -1), ("int32", 256, "bool", True), ("bool", True, "float64", 1.0),
    ("bool", False, "int32", 0), ("int32", 16777217, "float32", 16777216.0),
    ("uint32", 2**32 - 1, "float64", 2**32 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("source", "value", "target", "expected"), CASTS)
def test_cast(source: str, value: Any, target: str, expected: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = OPS["cast"].numpy(np.array([value], source), type=target)
    assert found.dtype == target
    np.testing.assert_array_equal(found, np.array([expected], target))


def test_threefry_known_answers() -> None:
    """The vectors that come with the reference implementation (Random123, `kat_vectors`, threefry2x32 20)."""
    ones = 0xFFFFFFFF
    for key, counter, expected in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ones, ones), (ones, ones), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        operands = [np.array([word], np.uint32) for word in (*key, *counter)]
        found = [int(OPS["threefry"].numpy(*operands, word=word)[0]) for word in (0, 1)]
        assert found == list(expected)


# ---- the other families
VIEW_CASES: dict[str, list[tuple[tuple[int, ...], dict[str, Any]]]] = {
    "reshape": [((2, 3), {"shape": (3, 2)}), ((4,), {"shape": (2, 1, 2)}), ((0, 2), {"shape": (0,)})],
    "permute": [((2, 3, 4), {"axes": (2, 0, 1)}), ((), {"axes": ()})],
    "expand": [((1, 3), {"shape": (4, 3)}), ((1,), {"shape": (0,)})],
    "slice": [
        ((5, 4), {"starts": (4, 0), "extents": (3, 2), "steps": (-2, 3)}),
        ((5,), {"starts": (1,), "extents": (0,), "steps": (1,)}),
        ((3,), {"starts": (2,), "extents": (3,), "steps": (-1,)}),
    ],
    "pad": [
        ((2, 3), {"low": (1, 0), "high": (0, 2), "interior": (2, 0), "value": -1}),
        ((0, 2), {"low": (1, 0), "high": (1, 0), "interior": (3, 1), "value": -1}),
    ],
    "window": [
        ((7, 2), {"axis": 0, "size": 3, "stride": 2, "dilation": 2}),
        ((2, 5), {"axis": 1, "size": 5, "stride": 1, "dilation": 1}),
    ],
    "diagonal": [((3, 2, 3), {"axis": 0, "other": 2}), ((3, 3), {"axis": 1, "other": 0})],
    "alias": [((2, 2), {"token": 0})],
    "stop_gradient": [((2, 2), {})],
}


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.family is Family.VIEW], ids=lambda op: op.name)
def test_a_view_s_layout_is_its_meaning(op: Op) -> None:
    """On an array of addresses the meaning must give the addresses that the layout gives, and the promised shape."""
    for shape, attributes in VIEW_CASES[op.name]:
        memory = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        expected = op.numpy(memory, **attributes)
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
