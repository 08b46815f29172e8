"""Small programs with known answers, run through the whole engine on the chosen device and compared exactly.

The answers are written down, not computed: a device, driver or build that computes wrongly is found here before it
spoils a training run. Every number is chosen so that all roundings are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vkgrad import functions as F
from vkgrad.config import config
from vkgrad.counters import counting
from vkgrad.tensor import Tensor, tensor

Answers = Iterator[tuple[Tensor, Any]]
TINY = 2.0**-40  # lost at once by anything that computes in single precision


def float32() -> Answers:
    x = tensor(np.array([[1.5, -2.0], [0.25, 3.0]], np.float32))
    y = tensor(np.array([[2.0, 0.5], [8.0, -1.0]], np.float32))
    yield x * y + 1, [[4.0, 0.0], [3.0, -2.0]]
    yield x @ y.T, [[2.0, 14.0], [2.0, -1.0]]
    yield F.sum(x * x, axis=1), [6.25, 9.0625]


def float64() -> Answers:
    x = tensor(np.array([[1 + TINY, 2.0], [-1.0, TINY]], np.float64))
    yield x * 3, [[3 + 3 * TINY, 6.0], [-3.0, 3 * TINY]]
    yield x @ x, [[-1 + 2 * TINY + TINY**2, 2 + 4 * TINY], [-1.0 - 2 * TINY, -2.0 + TINY**2]]
    yield F.sum(x, axis=0), [TINY, 2 + TINY]


def float16() -> Answers:
    # 2049 lies between two values and is a tie; 2**-24 is the smallest; 65520 is the least that becomes infinite.
    x = tensor(np.array([2048.0, 2.0**-24, 65504.0, 1.0], np.float16))
    yield x + tensor(np.array([1.0, 2.0**-24, 16.0, 2.0**-11], np.float16)), [2048.0, 2.0**-23, np.inf, 1.0]
    yield (
        tensor(np.array([2049.0, 2051.0, 65519.0, 3 * 2.0**-25], np.float32)).astype("float16"),
        [
            2048.0,
            2052.0,
            65504.0,
            2.0**-23,
        ],
    )
    ones = tensor(np.ones((1, 4096), np.float16))
    yield ones @ ones.T, [[4096.0]]


def bfloat16() -> Answers:
    x = tensor(np.array([256.0, 1.0], np.float32), "bfloat16")
    yield x + 1, [256.0, 2.0]
    yield tensor(np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], np.float32)).astype("bfloat16"), [1.0, 1 + 2.0**-6]
    ones = tensor(np.ones((1, 4096), np.float32), "bfloat16")
    yield ones @ ones.T, [[4096.0]]


def small_integers(name: str, wrapped: list[int]) -> Callable[[], Answers]:
    """Five values around the end of the range, plus 100; read and written one element at a time."""

    def program() -> Answers:
        x = tensor(np.array([0, 1, 100, 120, 27], name))
        yield x + 100, [100, 101, *wrapped]
        yield x[::-1] // 7, [3, 17, 14, 0, 0]
        yield F.max(x, axis=0, keepdims=True), [120]

    return program


def int64() -> Answers:
    x = tensor(np.array([2**53 + 1, -(2**63), -7], np.int64))
    yield x + 2, [2**53 + 3, -(2**63) + 2, -5]
    yield x // 2, [2**52, -(2**62), -4]
    yield x.astype("int32"), [1, 0, -7]


def uint64() -> Answers:
    x = tensor(np.array([2**64 - 1, 6], np.uint64))
    yield x + 2, [1, 8]
    yield x >> 1, [2**63 - 1, 3]
    yield x ^ 5, [2**64 - 6, 3]


def int32() -> Answers:
    x = tensor(np.array([2**31 - 1, -7, 7], np.int32))
    yield x + 1, [-(2**31), -6, 8]
    yield x // 2, [2**30 - 1, -4, 3]
    yield x % 4, [3, 1, 3]


def uint32() -> Answers:
    x = tensor(np.array([2**32 - 1, 6], np.uint32))
    yield x + 2, [1, 8]
    yield x >> 1, [2**31 - 1, 3]
    yield x ^ 5, [2**32 - 6, 3]


def boolean() -> Answers:
    x, y = tensor(np.array([True, True, False, False])), tensor(np.array([True, False, True, False]))
    yield x & ~y, [False, True, False, False]
    yield F.any(x & y), True
    yield F.all(x | y), False


PROBES: dict[str, Callable[[], Answers]] = {
    "float32": float32,
    "float64": float64,
    "float16": float16,
    "bfloat16": bfloat16,
    "int32": int32,
    "uint32": uint32,
    "int8": small_integers("int8", [-56, -36, 127]),
    "uint8": small_integers("uint8", [200, 220, 127]),
    "int16": small_integers("int16", [200, 220, 127]),
    "uint16": small_integers("uint16", [200, 220, 127]),
    "int64": int64,
    "uint64": uint64,
    "bool": boolean,
}


def wrong_answers(dtype: str) -> list[str]:
    """Run the programs of one element type; a sentence for each answer that is not exactly the known one.

    Raises: what the engine raises; `UnsupportedError` where the device does not offer the type.
    """
    wrong = []
    with config.override(host="raise"), counting() as counts:
        for number, (found, known) in enumerate(PROBES[dtype]()):
            value, answer = found.numpy(), np.array(known, found.dtype.numpy)
            if value.dtype != answer.dtype or not np.array_equal(value, answer):
                wrong.append(f"program {number + 1} gave {value.tolist()}, not {answer.tolist()}")
    if not counts.dispatches:
        wrong.append("nothing was dispatched to the device")
    return wrong
