"""Sequences of different lengths in one batch; PyTorch's names.

What is packed stays padded here, and recurrent layers leave the padding out by its lengths: shapes are known when a
graph is built, and one plan serves all lengths. So nothing has to be sorted. This module must not know any layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.errors import OptionError, ShapeError
from vkgrad.tensor import Tensor, asarray, tensor

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


@dataclass(frozen=True)
class PackedSequence:
    """Sequences (T, B, ...) and how long each of them is (B,). Recurrent layers take one and return one."""

    padded: Tensor
    lengths: Tensor

    def cleared(self, padding_value: float = 0.0) -> Tensor:
        """The sequences with `padding_value` beyond their ends, whatever was there: (T, B, ...)."""
        x, inside = self.padded, is_inside(self.padded.shape[0], self.lengths)
        return f.where(f.reshape(inside, (*inside.shape, *(1,) * (x.ndim - 2))), x, padding_value)


def is_inside(steps: int, lengths: Tensor) -> Tensor:
    """Which of so many steps belong to a sequence and not to its padding: (T, B)."""
    return f.expand_dims(f.arange(steps, dtype=lengths.dtype), axis=1) < lengths


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence of x (T, B, D) from its end to its beginning; its padding stays."""
    step = f.expand_dims(f.arange(x.shape[0], dtype=lengths.dtype), axis=1)
    places = f.where(step < lengths, lengths - 1 - step, step)
    return f.take_along_axis(x, f.expand_dims(places, axis=2), axis=0)


def pad_sequence(
    sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors of different lengths side by side, filled up to the longest.

    Shapes: tensors (L, ...) -> (T, B, ...), with `batch_first` (B, T, ...).

    Raises:
        OptionError: there are none, or no such side.
    """
    if not len(sequences) or padding_side not in ("right", "left"):
        raise OptionError(f'pad_sequence: needs sequences, and padding_side "right" or "left", got {padding_side!r}')
    tensors = [asarray(sequence) for sequence in sequences]
    longest = max(x.shape[0] for x in tensors)
    filled = []
    for x in tensors:
        missing = longest - x.shape[0]
        widths = (0, missing) if padding_side == "right" else (missing, 0)
        filled.append(f.pad(x, [widths] + [(0, 0)] * (x.ndim - 1), padding_value))
    return f.stack(filled, axis=0 if batch_first else 1)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences and their lengths together, for a recurrent layer.

    Shapes: input (T, B, ...), with `batch_first` (B, T, ...); lengths (B,) integers from 1 to T.

    Args:
        enforce_sorted: PyTorch's; any order will do here.

    Raises:
        ShapeError: lengths that do not fit, where they are known on the host.
    """
    x = asarray(input)
    x = f.swapaxes(x, 0, 1) if batch_first else x
    if not isinstance(lengths, Tensor):
        array = np.asarray(lengths)
        if array.shape != x.shape[1:2] or array.dtype.kind not in "iu" or not 1 <= array.min() <= array.max() <= len(x):
            raise ShapeError(
                f"pack_padded_sequence: needs {x.shape[1]} lengths from 1 to {x.shape[0]}, got {array.tolist()}"
            )
        x, lengths = x[: int(array.max())], tensor(array.astype(np.int32))
    if lengths.shape != x.shape[1:2]:
        raise ShapeError(f"pack_padded_sequence: needs {x.shape[1]} lengths, got {lengths.shape}")
    return PackedSequence(x, lengths)


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (L, ...) of different lengths, for a recurrent layer."""
    return pack_padded_sequence(pad_sequence(sequences), [len(sequence) for sequence in sequences])


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences (T, B, ...), filled up with `padding_value`, and their lengths (B,).

    Args:
        total_length: make T at least so long.

    Raises:
        ShapeError: T is longer than `total_length`.
    """
    x = sequence.cleared(padding_value)
    if total_length is not None:
        if total_length < x.shape[0]:
            raise ShapeError(f"pad_packed_sequence: total_length {total_length} is less than {x.shape[0]} steps")
        x = f.pad(x, [(0, total_length - x.shape[0])] + [(0, 0)] * (x.ndim - 1), padding_value)
    return (f.swapaxes(x, 0, 1) if batch_first else x), sequence.lengths


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding, (L, ...) each; lengths on the device are read."""
    x = asarray(padded_sequences)
    x = x if batch_first else f.swapaxes(x, 0, 1)
    return [row[: int(length)] for row, length in zip(x, np.asarray(lengths), strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, (L, ...) each; their lengths are read."""
    return unpad_sequence(packed_sequences.padded, packed_sequences.lengths)
