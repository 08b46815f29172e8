"""Parts of data: some to train on, some to look at meanwhile. This module must not know batches or tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]


class Subset:
    """Some examples of a data set: what `DataLoader` takes as one.

    Args:
        dataset: anything with `len()` and indexing.
        indices: which of its examples, in this order.

    Raises:
        DataError: an index is outside.

    Example:
        >>> import vkgrad as vg
        >>> part = vg.data.Subset(["a", "b", "c"], [2, 0])
        >>> len(part), part[0]
        (2, 'c')
    """

    def __init__(self, dataset: Any, indices: Sequence[int] | Array) -> None:
        self.dataset, self.indices = dataset, np.asarray(indices, np.int64).reshape(-1)
        count = len(dataset)
        if self.indices.size and not -count <= self.indices.min() <= self.indices.max() < count:
            raise DataError(f"Subset: indices must be from 0 to {count - 1}, the last of {count} examples")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]

    def __repr__(self) -> str:
        return f"Subset of {len(self):,} of {described(self.dataset)}"


def described(dataset: Any) -> str:
    """A data set in a few words: its own, if it has any."""
    has_own = type(dataset).__repr__ not in (object.__repr__, list.__repr__)
    return repr(dataset) if has_own else f"a {type(dataset).__name__} of {len(dataset):,} examples"


def random_split(dataset: Any, lengths: Sequence[float], seed: int = 0) -> list[Any]:
    """Divide a data set, or arrays that belong together, into parts that have no example in common.

    Args:
        dataset: a data set, of which the parts are a `Subset` each; or a tuple of arrays, of which they are tuples.
        lengths: how many examples each part has, or shares of all that add up to 1.
        seed: which examples go where; the same seed divides as many examples in the same way.

    Raises:
        DataError: the lengths do not add up, or the arrays do not agree in their first axis.

    Example:
        >>> import numpy as np, vkgrad as vg
        >>> images, labels = np.zeros((50, 28, 28), np.uint8), np.arange(50)
        >>> train, validation = vg.data.random_split((images, labels), [0.9, 0.1])
        >>> len(train), train[0].shape, validation[1].tolist()
        (2, (45, 28, 28), [29, 23, 7, 46, 27])
        >>> loader = vg.data.DataLoader(*train, batch_size=16)
    """
    arrays = [np.asarray(array) for array in dataset] if isinstance(dataset, tuple) else None
    counts = {len(array) if array.ndim else 0 for array in arrays} if arrays is not None else {len(dataset)}
    if len(counts) != 1:
        raise DataError(f"random_split: arrays must agree in their first axis, which have {sorted(counts)} examples")
    (count,) = counts
    order = np.argsort(np.random.Philox(key=seed).random_raw(count), kind="stable")
    parts = np.split(order, np.cumsum(_whole(lengths, count))[:-1])
    if arrays is None:
        return [Subset(dataset, part) for part in parts]
    return [tuple(array[part] for array in arrays) for part in parts]


def _whole(lengths: Sequence[float], count: int) -> list[int]:
    """Lengths as numbers of examples. What shares leave over goes to the first parts, one each."""
    if any(length < 0 for length in lengths):
        raise DataError(f"random_split: lengths are not negative, got {list(lengths)}")
    if all(isinstance(length, int | np.integer) for length in lengths) and sum(lengths) != 1:
        if sum(lengths) != count:
            raise DataError(f"random_split: lengths {list(lengths)} add up to {sum(lengths)}, not to {count} examples")
        return [int(length) for length in lengths]
    if abs(sum(lengths) - 1) > 1e-6:
        raise DataError(f"random_split: shares {list(lengths)} add up to {sum(lengths):g}, not to 1")
    whole = [int(count * length + 1e-9) for length in lengths]
    for number in range(count - sum(whole)):
        whole[number % len(whole)] += 1
    return whole
