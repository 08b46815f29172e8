"""The meanings on floats: against mpmath at 40 digits and exact fractions, and at zeros, infinities and NaN.

The values at special points are those of the C standard's annex F, written out. An op without a reference fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, nan, pi
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.ops.op_cases import ATTRIBUTES, ELEMENTWISE, operand_dtypes, takes
from tests.tolerances import distance, ulps_of
from vkgrad.ir.dtypes import DTYPES, DType
from vkgrad.ir.op import OPS, Op

mpmath.mp.dps = 40


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
    "multiply_or_zero": _fraction(lambda x, y: x * y),
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
    "signbit": lambda x: 1 / x < 0,  # zeros are below
    "nextafter": lambda x, y: x,  # which it is one unit away from
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


def test_every_op_on_floats_has_a_reference() -> None:
    assert {op.name for op in FLOAT_OPS} == set(REFERENCE)


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
    "signbit": (False, True, False, True, False),
}
PAIRS: list[tuple[str, float, float, float]] = [
    ("add", inf, -inf, nan), ("add", -0.0, -0.0, -0.0), ("add", -0.0, 0.0, 0.0), ("subtract", inf, inf, nan),
    ("multiply", inf, 0.0, nan), ("multiply", -1.0, 0.0, -0.0), ("multiply", inf, -2.0, -inf),
    ("multiply_no_nan", inf, 0.0, 0.0), ("multiply_no_nan", nan, 0.0, 0.0), ("multiply_no_nan", 0.0, inf, nan),
    ("multiply_no_nan", 1.0, nan, nan),
    ("multiply_or_zero", inf, 0.0, 0.0), ("multiply_or_zero", 0.0, nan, 0.0), ("multiply_or_zero", 1.0, nan, nan),
    ("multiply_or_zero", inf, -2.0, -inf),
    ("divide", 1.0, 0.0, inf), ("divide", 1.0, -0.0, -inf), ("divide", 0.0, 0.0, nan), ("divide", 1.0, -inf, -0.0),
    ("floor_divide", 1.0, 0.0, inf), ("floor_divide", 0.0, 0.0, nan), ("floor_divide", inf, 2.0, nan),
    ("floor_divide", 1.0, -inf, -1.0), ("floor_divide", -1.0, inf, -1.0), ("floor_divide", 1.0, inf, 0.0),
    ("floor_divide", -0.0, 2.0, -0.0), ("floor_divide", 7.0, -2.0, -4.0), ("floor_divide", -7.0, 2.0, -4.0),
    ("remainder", 1.0, 0.0, nan), ("remainder", inf, 2.0, nan), ("remainder", 1.0, inf, 1.0),
    ("remainder", -1.0, inf, inf), ("remainder", 7.0, -2.0, -1.0), ("remainder", -7.0, 2.0, 1.0),
    ("remainder", 4.0, -2.0, -0.0), ("remainder", -4.0, 2.0, 0.0),
    ("nextafter", 0.0, -0.0, -0.0), ("nextafter", nan, 1.0, nan), ("nextafter", 1.0, nan, nan),
    ("nextafter", inf, inf, inf), ("nextafter", 1.0, 1.0, 1.0),
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
