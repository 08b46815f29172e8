"""Long sorts on devices of many invocations: by digits of eight bits, the lowest first, each in three dispatches.

A value's code is an unsigned number that is ordered as values should be. `digit_counts` says how often each digit is in
each block, a running sum where it starts, and `digit_move` takes codes and positions there, in an order that is theirs
alone. This module must not know when a sort is long: `vkgrad.ops.sorting` says.

Source: N. Satish, M. Harris, M. Garland, "Designing Efficient Sorting Algorithms for Manycore GPUs", 2009, section III.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, float32, int32, uint32
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, Shape
from vkgrad.ops.families import Taking, routine
from vkgrad.ops.samples import case, edges, inf, nan, uniform

# Elements of a block, and of a lane where there are so many lanes (H200, 10^6: with 16 of a lane 13 % slower).
BLOCK, EACH = 2048, 8
DIGITS = 256


def sorted_by_digits(x: Node, descending: bool = False, bits: int = 32) -> Node:
    """Where each element of sorted x is, along the last axis, for types of at most 32 bits.

    `bits` says that x are whole numbers that are not negative and have no more bits.
    """
    now, lowest, highest = x, 0, bits
    if x.dtype.kind == "f":
        now, lowest = b.cast(x, float32), {"float16": 8, "bfloat16": 16}.get(x.dtype.name, 0)  # the rest of it is zeros
    elif x.dtype.kind == "b":
        now, highest = b.cast(x, int32), 8
    elif x.dtype.size_bytes < 4:
        highest = 8 * x.dtype.size_bytes
        now = b.cast(x, int32) + (1 << highest - 1 if x.dtype.kind == "i" else 0)
    shifts = range(lowest, highest, 8)
    for shift in shifts:
        which = {"shift": shift, "first": shift == shifts[0], "descending": descending}
        counts = b.build("digit_counts", now, **which)
        before = b.build("scan", counts, join="sum", reverse=False)
        now = b.build("digit_move", now, before, last=shift == shifts[-1], **which)
    return now


# ---- meanings
def _codes(x: Any, descending: bool) -> Any:
    if x.dtype.kind == "f":
        bits = x.astype("f4").view(np.uint32)
        code = np.where(bits >> 31 != 0, ~bits, bits | np.uint32(1 << 31))
        code = np.where(bits << 1 == 0, np.uint32(1 << 31), code)
        return np.where(np.isnan(x), np.uint32(0xFFFFFFFF), ~code if descending else code)
    code = x.view(np.uint32) ^ np.uint32(1 << 31 if x.dtype.kind == "i" else 0)
    return ~code if descending else code


def _pairs(x: Any, first: bool, descending: bool) -> Any:
    if not first:
        return x
    positions = np.broadcast_to(np.arange(x.shape[-1], dtype=np.uint32), x.shape)
    return np.stack([_codes(x, descending), positions], axis=-2)


def _numpy_counts(x: Any, *, shift: int, first: bool, descending: bool) -> Any:
    codes = _pairs(x, first, descending)[..., 0, :]
    digits = (codes >> np.uint32(shift)) & 255
    blocks = [digits[..., at : at + BLOCK] for at in range(0, digits.shape[-1], BLOCK)]
    counted = [(block[..., None] == np.arange(DIGITS)).sum(-2) for block in blocks]
    return np.stack(counted, axis=-2).astype(np.int32)


def _numpy_move(x: Any, before: Any, *, shift: int, first: bool, last: bool, descending: bool) -> Any:
    pairs = _pairs(x, first, descending)
    order = np.argsort((pairs[..., :1, :] >> np.uint32(shift)) & 255, axis=-1, kind="stable")
    moved = np.take_along_axis(pairs, np.broadcast_to(order, pairs.shape), -1)
    return moved[..., 1, :].astype(np.int32) if last else moved


# ---- how they run
def _words(mode: str, each: int) -> int:
    """In shared memory."""
    return DIGITS if mode == "counts" else BLOCK + BLOCK // 16 + 10 * (BLOCK // each) + 2 * DIGITS


def _geometry(mode: str) -> Any:
    def geometry(
        shapes: Sequence[Shape],
        dtypes: Sequence[DType],
        limits: DeviceLimits,
        *,
        shift: int,
        first: bool,
        descending: bool,
        last: bool = False,
    ) -> Geometry:
        *lead, n = shapes[0] if first else (*shapes[0][:-2], shapes[0][-1])
        blocks = -(-n // BLOCK)
        each = EACH
        while BLOCK // each > limits.max_invocations or _words(mode, each) * 4 > limits.shared_bytes:
            each *= 2
        local = BLOCK // each
        parameters = {
            "mode": mode, "shift": shift, "first": first, "last": last, "descending": descending, "local": local,
            "block": BLOCK, "each": each,
        }  # fmt: skip
        parts = prod(lead) * blocks
        numbers = {"n": n, "blocks": blocks, "parts": parts}
        return Geometry(groups=parts, numbers=numbers, parameters=parameters, shared_bytes=4 * _words(mode, each))

    return geometry


def _counts_shape(shapes: Sequence[Shape], *, first: bool, **_: Any) -> Shape:
    lead = shapes[0][:-1] if first else shapes[0][:-2]
    return (*lead, -(-shapes[0][-1] // BLOCK), DIGITS)


def _move_shape(shapes: Sequence[Shape], *, first: bool, last: bool, **_: Any) -> Shape:
    lead, n = (shapes[0][:-1] if first else shapes[0][:-2]), shapes[0][-1]
    return (*lead, n) if last else (*lead, 2, n)


def _belonging(x: Any, before: Any, *, last: bool, **which: Any) -> list[Any]:
    return [x, np.cumsum(_numpy_counts(x, **which), axis=-2, dtype=np.int32)]


_ANY = uniform(-2, 2) + edges(0.0, nan, inf, -inf)


_counted = Taking((float32, int32, uint32), gives=int32)


def _moved(dtypes: Sequence[DType], *, last: bool, **_: Any) -> DType:
    _counted("digit_move")(dtypes[:1])
    return int32 if last else uint32


routine(
    "digit_counts", template="radix.comp.j2", geometry=_geometry("counts"), shape=_counts_shape,
    dtype=_counted("digit_counts"), numpy=_numpy_counts, grad=NOT_DIFFERENTIABLE,
    samples=_ANY.on(
        *(case((2, 9), shift=0, first=True, descending=down) for down in (False, True)),
        case((0, 3), shift=0, first=True, descending=False),
    ),
    doc="How often each digit of eight bits is in each block: the first step of a long `argsort`.",
)  # fmt: skip
routine(
    "digit_move", template="radix.comp.j2", geometry=_geometry("move"), shape=_move_shape, arity=2,
    dtype=_moved, numpy=_numpy_move, grad=NOT_DIFFERENTIABLE,
    samples=_ANY.typed(None, "int32").making(_belonging).on(
        *(case((2, 9), (2, 1, DIGITS), shift=0, first=True, last=down, descending=down) for down in (False, True)),
        case((0, 3), (0, 1, DIGITS), shift=0, first=True, last=True, descending=False),
    ),
    doc="Codes and positions in the order of one digit: the other.",
)  # fmt: skip
