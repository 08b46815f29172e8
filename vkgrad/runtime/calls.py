"""How an op is called on arrays: into memory that is there already, and in faster ways that give the same bits.

The meaning of an op is its own `numpy` function; what stands here is only how NumPy does the same quickly. This module
must not know kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir.op import Op
from vkgrad.runtime.scratch import Scratch

Call = Callable[..., Any]  # of the operands, then of the array that gets the result

FEW = 1 << 12  # elements up to which one branching call of np.where beats several calls without a branch
BITS: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def meaning(op: Op) -> Callable:
    """What an op does to arrays, without the guard against warnings (a run has one for all its kernels)."""
    return getattr(op.numpy, "__wrapped__", op.numpy)


def takes_memory(op: Op, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether `elementwise_call` has a call for this op (without attributes) with a result of `shape` and `dtype`."""
    if isinstance(meaning(op), np.ufunc) or op.name == "relu":
        return True
    return op.name == "where" and dtype.itemsize in BITS and prod(shape) > FEW


def elementwise_call(op: Op, shape: tuple[int, ...], dtype: np.dtype, mask: tuple[int, ...], scratch: Scratch) -> Call:
    """A call that writes the op's result where it is told; the last operand is that place.

    shape, dtype   of the result, whose memory is taken already
    mask           the shape of the first operand
    """
    if op.name == "relu":
        zero, maximum = np.zeros((1,) * len(shape), dtype), np.maximum
        return lambda x, out: maximum(x, zero, out=out)
    if op.name == "where":
        return selection(mask, BITS[dtype.itemsize], scratch)
    return meaning(op)


def selection(mask: tuple[int, ...], bits: np.dtype, scratch: Scratch) -> Call:
    """`np.where` without a branch per element, which costs most where the mask has no pattern.

    The result may be written over the second operand, not over the third.
    """
    narrow, chosen = scratch.take(mask, np.dtype(np.int8)), scratch.take(mask, bits)
    scratch.give(narrow)  # nobody else computes during the call
    scratch.give(chosen)
    copyto, negative, xor, both = np.copyto, np.negative, np.bitwise_xor, np.bitwise_and

    def select(condition: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> np.ndarray:
        negative(condition.view(np.int8), narrow)
        copyto(chosen, narrow)  # all bits where the condition holds, none elsewhere
        x, y, into = x.view(bits), y.view(bits), out.view(bits)
        if y.size == 1 and not y.item():
            both(x, chosen, into)
        elif x.size < out.size and y.size < out.size:
            both(xor(x, y), chosen, into)
            xor(into, y, into)
        else:
            xor(x, y, into)
            both(into, chosen, into)
            xor(into, y, into)
        return out

    return select


def in_row_order(call: Call, shape: tuple[int, ...], dtype: np.dtype, scratch: Scratch) -> Call:
    """`call` of an operand in row-major order.

    NumPy joins terms in the order in which they lie in memory, and a value just loaded lies there otherwise than one
    just computed; the result must not depend on which it is.
    """
    copy, copyto = scratch.take(shape, dtype), np.copyto
    scratch.give(copy)  # nobody else computes during the call

    def ordered(x: np.ndarray, out: np.ndarray) -> Any:
        if not x.flags.c_contiguous:
            copyto(copy, x)
            x = copy
        return call(x, out)

    return ordered


REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduction_call(op: Op, axes: tuple[int, ...], dtype: np.dtype, terms: int) -> Call | None:
    """A call of a reduction that writes its result where it is told, keeping reduced axes; None where NumPy cannot."""
    ufunc = REDUCTIONS.get(op.name)
    if ufunc is None or not terms:
        return None
    reduce: Any = ufunc.reduce
    return lambda x, out: reduce(x, axes, dtype, out, True)
