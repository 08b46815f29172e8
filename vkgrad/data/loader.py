"""Batches: shuffle by seed and epoch, gather ahead of time in a thread, hand out tensors.

The thread only ever touches NumPy; tensors are made in the consumer's thread, as each batch is handed out. Nothing
here reads a tensor back, so neither the loader nor its progress bar ever waits for the device. Large batches are
gathered into memory from which the device copies by itself (`vkgrad.data.pinned`) while it computes the step before.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from vkgrad.checked import Checked
from vkgrad.data.pinned import Pool, rows_of
from vkgrad.data.splitting import described
from vkgrad.errors import DataError
from vkgrad.spelling import listed

if TYPE_CHECKING:
    from tqdm import tqdm

Array = np.ndarray[Any, np.dtype[Any]]
Batch = tuple[Array, ...]

SMALL_BATCH_BYTES = 1 << 19  # gathering so little (some 50 us) takes less time than handing it to another thread
LOG_INTERVAL_S = 10.0  # between lines of a progress bar that goes to a file, where it cannot redraw itself


class DataLoader(Checked):
    """Iterate over arrays in batches, as tuples of tensors.

    Shapes: every array is (N, ...); a batch holds (B, ...) of each, in the order given. The last batch of an epoch is
    smaller when B does not divide N, unless `drop_last` (under `vg.jit` a smaller batch is traced a second time).

    Each `iter()` is one epoch, numbered by `loader.epoch`, which may be set to resume; `state_dict` also tells how far
    the epoch is, and after `load_state_dict` the next `iter()` goes on there. The order of an epoch depends on N, the
    seed and its number alone: the stable argsort of N 64-bit words of Philox4x64-10 with the seed as its key
    and the epoch as the highest word of its counter. NumPy promises these words to be the same in all its versions,
    which it does not for its `permutation`.

    Instead of arrays, one data set: anything with `len()` and indexing, such as `ImageFolder`, a `Subset`, or a list of
    pairs (image, label). Its examples are taken one by one, by `workers` threads, and `collate` makes a batch of them.

    Args:
        arrays: NumPy arrays, or anything that `numpy.asarray` takes; or one data set.
        batch_size: B.
        shuffle: draw a new order every epoch; else the order of the arrays.
        seed: an int from 0 to 2**128 - 1, or a key from `vg.random.key`.
        drop_last: leave out a last batch smaller than B.
        transform: called with the gathered arrays of a batch, in the thread; returns those to hand out instead. This is
            where uint8 images become the float32 that tensors can hold.
        prefetch: how many batches to gather ahead; 0 gathers in the caller's thread, as small batches without
            `transform` always are.
        pin_memory: gather large batches into page-locked memory, where the device has a gain of it.
        workers: how many threads take examples of a data set at a time. They help where that waits for files, or runs
            code that releases the interpreter, as Pillow and NumPy do. The batches are the same with any number.
        collate: makes the arrays of a batch of a list of a data set's examples; unless given, they are stacked.
        progress: show a progress bar on standard error; a text stands before it.
        as_numpy: hand out NumPy arrays (always copies) instead of tensors.

    Raises:
        DataError: the arrays do not agree in N, or an argument is out of range.

    Example:
        >>> import numpy as np
        >>> images, labels = np.zeros((10, 8, 8), np.uint8), np.arange(10, dtype=np.int32)
        >>> loader = DataLoader(images, labels, batch_size=4, seed=1, as_numpy=True)
        >>> [(x.shape, y.tolist()) for x, y in loader]
        [((4, 8, 8), [3, 5, 2, 9]), ((4, 8, 8), [7, 0, 8, 6]), ((2, 8, 8), [1, 4])]
    """

    def __init__(
        self,
        *arrays: Any,
        batch_size: int,
        shuffle: bool = True,
        seed: Any = 0,
        drop_last: bool = False,
        transform: Callable[..., Any] | None = None,
        prefetch: int = 2,
        pin_memory: bool = True,
        workers: int = 1,
        collate: Callable[[list[Any]], Any] | None = None,
        progress: bool | str = False,
        as_numpy: bool = False,
    ) -> None:
        if len(arrays) == 1 and _is_several(arrays[0]):
            kind = type(arrays[0]).__name__
            raise DataError(
                f"DataLoader: takes arrays one by one, not a {kind} of them; write DataLoader(*arrays, ...)"
            )
        if strange := [type(array).__name__ for array in arrays if hasattr(array, "__next__")]:
            raise DataError(
                f"DataLoader: takes arrays, or a data set with len() and indexing, not a {strange[0]}; write list(...)"
            )
        self.dataset = arrays[0] if len(arrays) == 1 and _is_dataset(arrays[0]) else None
        self.arrays = () if self.dataset is not None else tuple(np.asarray(array) for array in arrays)
        shapes = [(len(self.dataset),)] if self.dataset is not None else [array.shape for array in self.arrays]
        if not shapes:
            raise DataError("DataLoader: takes arrays, or a data set; write DataLoader(x, y, batch_size=32)")
        if any(not shape or shape[0] != shapes[0][:1][0] for shape in shapes):
            raise DataError(f"DataLoader: arrays must agree in their first axis, not {shapes}")
        if workers < 1 or (self.dataset is None and (workers > 1 or collate is not None)):
            raise DataError(
                "DataLoader: workers (at least 1) and collate are for a data set whose examples are indexed"
            )
        if batch_size < 1 or prefetch < 0:
            raise DataError(
                f"DataLoader: batch_size must be at least 1 and prefetch at least 0, not {batch_size} and {prefetch}"
            )
        if drop_last and shapes[0][0] < batch_size:
            raise DataError(
                f"DataLoader: drop_last leaves no batch: {shapes[0][0]} examples are fewer than batch_size "
                f"{batch_size}; take a smaller batch_size"
            )
        self.example_count: int = shapes[0][0]
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.transform = transform
        self.prefetch = prefetch
        self.pin_memory = pin_memory and not as_numpy
        self.workers = workers
        self.collate = collate or _stacked
        self.progress = progress
        self.as_numpy = as_numpy
        self.epoch = 0
        self._handed_out: int | None = None  # batches of the running epoch; None between epochs
        self._skipped = 0  # batches that the next epoch leaves out, because they were handed out before
        self._philox_key = _philox_key(seed)
        self._bar: tqdm[Any] | None = None
        self._pool: Pool | None = None

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        whole, rest = divmod(self.example_count, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __repr__(self) -> str:
        given = ", ".join(f"{array.shape} {array.dtype}" for array in self.arrays) or described(self.dataset)
        order = "shuffled" if self.shuffle else "in order"
        return f"DataLoader of {len(self)} batches of {self.batch_size}, {order}, from {given}"

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        epoch, first = self.epoch, self._skipped
        self.epoch, self._handed_out, self._skipped = epoch + 1, first, 0
        return self._with_progress(self._hand_out(epoch, first), first)

    def state_dict(self) -> dict[str, int]:
        """The running epoch and how many of its batches were handed out, or the next epoch and 0."""
        if self._handed_out is None:
            return {"epoch": self.epoch, "position": self._skipped}
        return {"epoch": self.epoch - 1, "position": self._handed_out}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `iter()` be the saved epoch, from the batch after those that were handed out.

        Raises:
            DataError: the state is of something else, or beyond the end of an epoch.
        """
        if set(state) != {"epoch", "position"} or not 0 <= state["position"] <= len(self) or state["epoch"] < 0:
            raise DataError(f"load_state_dict: {dict(state)} is no place in a DataLoader of {len(self)} batches")
        self.epoch, self._skipped, self._handed_out = int(state["epoch"]), int(state["position"]), None

    def order(self, epoch: int) -> Array:
        """Return the indices of all examples in the order of an epoch."""
        if not self.shuffle:
            return np.arange(self.example_count)
        philox = np.random.Philox(key=self._philox_key, counter=epoch << 192)
        return np.argsort(philox.random_raw(self.example_count), kind="stable")

    def show(self, **values: float | str) -> None:
        """Show values beside the progress bar of the running epoch; without a bar, do nothing.

        Raises:
            DataError: a value is a tensor, because reading it would make every step wait for the device.
        """
        for name, value in values.items():
            if not isinstance(value, int | float | str | np.number):
                raise DataError(
                    f"DataLoader.show: {name} is a {type(value).__name__}; pass float({name}), every few steps only, "
                    "because reading a tensor waits for the device"
                )
        if self._bar is not None:
            self._bar.set_postfix(values, refresh=False)

    def _gather(self, indices: Array, pool: Pool | None, workers: ThreadPoolExecutor | None = None) -> Batch:
        if self.dataset is not None:
            take = map if workers is None else workers.map
            examples = list(take(self.dataset.__getitem__, indices.tolist()))
            collated = self.collate(examples)
            batch = tuple(map(np.asarray, collated if isinstance(collated, tuple | list) else (collated,)))
            return self._transformed(batch, pool)
        if self.transform is None and pool is not None:
            return tuple(pool.gathered(array, indices) for array in self.arrays)
        return self._transformed(tuple(rows_of(array, indices) for array in self.arrays), pool)

    def _transformed(self, batch: Batch, pool: Pool | None) -> Batch:
        if self.transform is None:
            return batch
        transformed = self.transform(*batch)
        transformed = transformed if isinstance(transformed, tuple) else (transformed,)
        return transformed if pool is None else tuple(pool.copied(np.asarray(array)) for array in transformed)

    def _batches(self, order: Array, pool: Pool | None = None, first: int = 0) -> Generator[Batch, None, None]:
        """Yield gathered batches, `prefetch` of them ahead of the consumer; those from a pool are read-only."""
        starts = range(first * self.batch_size, len(self) * self.batch_size, self.batch_size)
        indices = (order[start : start + self.batch_size] for start in starts)
        example_bytes = sum(array.nbytes for array in self.arrays) // max(self.example_count, 1)
        is_small = (
            self.transform is None and self.dataset is None and example_bytes * self.batch_size < SMALL_BATCH_BYTES
        )
        if self.prefetch == 0 or is_small:
            yield from (self._gather(some, pool) for some in indices)
            return
        # One worker keeps the batches in order. An exception in it is raised by result(), in the consumer.
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vkgrad-data")
        workers = None if self.workers == 1 else ThreadPoolExecutor(self.workers, thread_name_prefix="vkgrad-data")
        try:
            pending: deque[Future[Batch]] = deque()
            for batch_indices in indices:
                pending.append(executor.submit(self._gather, batch_indices, pool, workers))
                if len(pending) > self.prefetch:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # also when the consumer drops the iterator half-way, which closes this generator
            executor.shutdown(cancel_futures=True)
            if workers is not None:
                workers.shutdown(cancel_futures=True)

    def _hand_out(self, epoch: int, first: int) -> Generator[tuple[Any, ...], None, None]:
        order = self.order(epoch)
        if self.as_numpy:
            for number, batch in enumerate(self._batches(order, first=first), first + 1):
                self._note(epoch, number)
                yield batch
            self._note(epoch, None)
            return
        from vkgrad import engine  # here, so that reading data needs nothing of the rest of the package
        from vkgrad.tensor import adopted, tensor

        if self.pin_memory and self._pool is None:
            self._pool = Pool(engine.device())
        with closing(self._batches(order, self._pool, first)) as batches:
            for number, batch in enumerate(batches, first + 1):
                self._note(epoch, number)
                yield tuple(tensor(array) if array.flags.writeable else adopted(array) for array in batch)
        self._note(epoch, None)

    def _note(self, epoch: int, handed_out: int | None) -> None:
        """Note how far the newest epoch is. After its last batch it still runs: what the caller does at an epoch's end
        is yet to come."""
        if self.epoch == epoch + 1:
            self._handed_out = handed_out

    def _with_progress(self, batches: Generator[tuple[Any, ...], None, None], first: int) -> Iterator[tuple[Any, ...]]:
        if self.progress is False:
            yield from batches
            return
        from tqdm import tqdm

        self._bar = bar = tqdm(
            batches,
            total=len(self),
            initial=first,
            desc=self.progress if isinstance(self.progress, str) else None,
            unit="batch",
            file=sys.stderr,
            mininterval=0.1 if sys.stderr.isatty() else LOG_INTERVAL_S,
        )
        try:
            with closing(batches):
                yield from bar
        finally:
            bar.close()
            self._bar = None


def _is_dataset(value: Any) -> bool:
    """Whether a value has examples to be indexed and is no array, nor something that becomes one."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # examples in a list: [(image, label), ...]
        return any(hasattr(part, "shape") for part in value[0])
    is_array = isinstance(value, list | tuple | np.ndarray) or hasattr(value, "__array__")
    return not is_array and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _is_several(value: Any) -> bool:
    """Whether a value is a list of arrays that are no rows of one."""
    if not isinstance(value, list | tuple) or not all(hasattr(array, "shape") and array.shape for array in value):
        return False
    return len({array.shape for array in value}) > 1


def _stacked(examples: list[Any]) -> Batch:
    """The arrays of a batch: what stands first in each example stacked, then what stands second, and so on."""
    parts = [example if isinstance(example, tuple | list) else (example,) for example in examples]
    try:
        return tuple(np.stack([np.asarray(value) for value in column]) for column in zip(*parts, strict=True))
    except ValueError:
        shapes = sorted({", ".join(str(np.asarray(value).shape) for value in part) for part in parts})
        raise DataError(
            f"DataLoader: examples of shapes {listed((f'[{each}]' for each in shapes), 3)} do not stack; give them one "
            "size, as ImageFolder(folder, size=(H, W)) does, or pass collate"
        ) from None


def _philox_key(seed: Any) -> int:
    """Return a seed, or the words of a `vg.random.key`, as the 128-bit key of Philox."""
    if isinstance(seed, int | np.integer):
        key = int(seed)
    else:
        words = np.asarray(seed)
        if words.dtype.kind != "u" or words.size * words.itemsize > 16:
            raise DataError(f"DataLoader: seed must be an int or a random key, not {seed!r}")
        key = int.from_bytes(words.astype(words.dtype.newbyteorder("<")).tobytes(), "little")
    if not 0 <= key < 2**128:
        raise DataError(f"DataLoader: seed must be from 0 to 2**128 - 1, not {key}")
    return key
