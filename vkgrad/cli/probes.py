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
    "int32": int32,
    "uint32": uint32,
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
