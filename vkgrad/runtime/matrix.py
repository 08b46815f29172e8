"""An operand of a product as the matrix that BLAS reads: in place where its strides allow, else as a copy.

This module must not know what the product is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from vkgrad.runtime.access import Buffers, settle, windows
from vkgrad.runtime.blocks import copying
from vkgrad.runtime.nest import Space
from vkgrad.runtime.program import Program
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Instruction, Load


class Matrix:
    """An operand as (*lead, rows, columns): `own` by `inner` on the left, `inner` by `own` on the right.

    It is copied only where BLAS could not read it in place, and then so that `own` is walked last if `own_last`. The
    memory of its elements is lent until `release`.
    """

    def __init__(
        self,
        space: Space,
        scratch: Scratch,
        side: int,
        axes: tuple[Sequence[int], Sequence[int], Sequence[int]],
        own_last: bool,
        left: bool,
        innermost: int | None,
        threads: int = 1,
    ):
        lead, own, inner = axes
        self.side, self.scratch, self.threads = side, scratch, threads
        shape = space.shapes()[side]
        full = tuple(1 if a in lead and shape[a] == 1 else e for a, e in enumerate(space.extents))
        unused = [a for a in range(len(full)) if a not in (*lead, *own, *inner)]
        full = tuple(1 if a in unused else e for a, e in enumerate(full))
        last = (*inner, *own) if own_last else (*own, *inner)
        self.order = (*unused, *lead, *last)
        self.unpacked = tuple(full[a] for a in self.order)
        sizes = [prod(full[a] for a in group) for group in ((inner, own) if own_last else (own, inner))]
        self.packed = (*(full[a] for a in lead), *sizes)
        self.transposed = own_last == left
        self.full = None if full == shape else full
        load = space.code[side]
        self.native = copying(load, self.order, self.unpacked) if isinstance(load, Load) and is_copied(load) else None
        self.slot = load.slot if isinstance(load, Load) else 0
        self.program = None if self.native else Program(space, scratch, [side], innermost=innermost)
        # Memory for a copy. Whether it is needed shows when there is a value: until then it costs nothing.
        self.copy = scratch.take(self.packed, space.code[side].dtype.computed.numpy)
        self.in_place: bool | None = None

    def release(self) -> None:
        if self.program is not None:
            self.program.release()
        self.scratch.give(self.copy)

    def __call__(self, buffers: Buffers) -> np.ndarray:
        if self.program is None:
            assert self.native is not None
            self.native.run((buffers[self.slot], self.copy), self.threads)
            return self.copy.swapaxes(-1, -2) if self.transposed else self.copy
        value = self.program.values(buffers)[self.side]
        if self.full is not None:
            value = np.broadcast_to(value, self.full)
        value = value.transpose(self.order)
        if self.in_place is None:
            flat = value.reshape(self.packed)
            self.in_place = bool(np.may_share_memory(flat, value)) and _readable(flat)
        if self.in_place:
            flat = value.reshape(self.packed)
        else:
            flat = self.copy
            np.copyto(flat.reshape(self.unpacked), value)
        return flat.swapaxes(-1, -2) if self.transposed else flat


def is_copied(instruction: Instruction) -> bool:
    """Whether it reads windows or padding, which are a matrix in no memory, and native rows can copy them."""
    if not isinstance(instruction, Load) or instruction.dtype.name != "float32":
        return False
    layout = settle(instruction.layout)
    return bool(layout.guards or windows(layout)) and all(g.step == 1 for g in layout.guards)


def _readable(array: np.ndarray) -> bool:
    """Whether BLAS can read the last two axes where they are: one of them dense, the other further apart than that."""
    (rows, columns), (across, along), size = array.shape[-2:], array.strides[-2:], array.itemsize
    return (along == size and across >= columns * size) or (across == size and along >= rows * size)
