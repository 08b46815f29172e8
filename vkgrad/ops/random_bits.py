"""Random bits from a counter: the same numbers on every device, in any order, with no state.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, Threefry-2x32 with 20
rounds. The known-answer vectors published with that paper are in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad.ir.dtypes import uint32
from vkgrad.ir.op import NOT_DIFFERENTIABLE
from vkgrad.ops.families import Taking, elementwise
from vkgrad.ops.samples import alike, integers

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA  # makes an all-zero key harmless


def threefry2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """The two 32-bit words that `counter` is encrypted to under `key`; uint32 arrays in and out."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    first, second = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for round_ in range(4):
            turn = np.uint32(_ROTATIONS[(4 * group + round_) % 8])
            first = first + second
            second = (second << turn | second >> np.uint32(32 - turn)) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


elementwise(
    "threefry", arity=4, dtype=Taking((uint32,)),
    numpy=lambda key0, key1, counter0, counter1, *, word: threefry2x32((key0, key1), (counter0, counter1))[word],
    glsl="threefry2x32(uvec2({x}, {y}), uvec2({z}, {w}))[{word}]", grad=NOT_DIFFERENTIABLE,
    samples=integers(0, 1000).on(*alike(4, {"word": 0}, {"word": 1})),
    doc="Word 0 or 1 of Threefry-2x32 of (key0, key1, counter0, counter1).",
)  # fmt: skip
