"""The meanings on integers and masks against Python's own integers, for every pair of edges; casts; random bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from tests.ops.op_cases import ELEMENTWISE, INTEGERS, operand_dtypes, takes
from vkgrad.ir.dtypes import DTYPES
from vkgrad.ir.op import OPS, Op


def _int_pow(x: int, y: int) -> int:
    return x**y if y >= 0 else int(Fraction(1, x**-y)) if x else 0


INTEGER_REFERENCE: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "pow": lambda x, y: _int_pow(x, y) if abs(y) < 100 else pow(x, y, 2**64) if y > 0 else _int_pow(x, -(100 + y % 2)),
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
    "bitwise_left_shift": lambda x, y: x << y if 0 <= y < 64 else 0,
    "bitwise_right_shift": lambda x, y: x >> (y if 0 <= y < 64 else 64),
}
OTHERWISE_TESTED = {"cast", "threefry"}


def wrapped(value: int | bool, dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return bool(value)
    width = 8 * dtype.itemsize
    bits = int(value) % 2**width
    return bits - 2**width if dtype.kind == "i" and bits >> (width - 1) else bits


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
    tested = {op.name for op, _ in integer_cases()}
    assert tested == set(INTEGER_REFERENCE)
    float_only = {op.name for op in ELEMENTWISE if not any(takes(op, DTYPES[name]) for name in INTEGERS)}
    assert {op.name for op in ELEMENTWISE} == tested | float_only | OTHERWISE_TESTED


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
    ("uint32", 2**32 - 1, "float64", 2**32 - 1), ("float32", 300.0, "int8", 127), ("float32", -1e9, "int16", -(2**15)),
    ("int32", 300, "uint8", 44), ("int32", 200, "int8", -56), ("float32", 1e30, "int64", 2**63 - 1),
    ("float64", -1e30, "int64", -(2**63)), ("float64", 1e30, "uint64", 2**64 - 1), ("float32", nan, "uint16", 0),
    ("int64", 2**53 + 1, "int32", 1), ("float32", 65519.0, "float16", 65504.0), ("float32", 65520.0, "float16", inf),
    ("float32", 2.0**-25, "float16", 0.0), ("float32", 1.5 * 2.0**-24, "float16", 2.0**-23),
    ("float32", 1.00390625, "bfloat16", 1.0), ("float32", 1.01171875, "bfloat16", 1.015625),
    ("float32", nan, "bfloat16", nan), ("float64", 1e300, "bfloat16", inf), ("uint16", 2**16 - 1, "float16", inf),
]  # fmt: skip


@pytest.mark.parametrize(("source", "value", "target", "expected"), CASTS)
def test_cast(source: str, value: Any, target: str, expected: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = OPS["cast"].numpy(np.array([value], source), type=target)
    assert found.dtype == DTYPES[target].numpy
    np.testing.assert_array_equal(found, np.array([expected], DTYPES[target].numpy))


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
