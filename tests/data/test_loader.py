"""The loader: which batches come in which order, what the thread may leave behind, what reaches the consumer."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vkgrad.data import DataLoader
from vkgrad.errors import DataError

COUNT = 11


def make_loader(**options: Any) -> DataLoader:
    """Return a loader over images whose every element tells which example it belongs to."""
    labels = np.arange(COUNT, dtype=np.int32)
    images = np.broadcast_to(labels.reshape(-1, 1, 1), (COUNT, 2, 3)).astype(np.float32)
    return DataLoader(images, labels, **{"batch_size": 4, "as_numpy": True, **options})


def drawn(loader: DataLoader) -> list[int]:
    """Run one epoch, check that arrays stay aligned, and return the labels in order."""
    labels = []
    for image_batch, label_batch in loader:
        np.testing.assert_array_equal(image_batch, np.broadcast_to(label_batch[:, None, None], image_batch.shape))
        labels += label_batch.tolist()
    return labels


def loader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vkgrad-data")]


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["in a thread", "where it is asked for"])
@pytest.mark.parametrize("prefetch", [0, 1, 2, 100])
def test_prefetch_changes_nothing_but_when(prefetch: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkgrad.data.loader.SMALL_BATCH_BYTES", small)
    assert drawn(make_loader(shuffle=False, prefetch=prefetch)) == list(range(COUNT))
    assert drawn(make_loader(seed=3, prefetch=prefetch)) == drawn(make_loader(seed=3))


def test_every_epoch_draws_each_example_once_in_an_order_of_its_own() -> None:
    loader = make_loader(seed=3)
    epochs = [drawn(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert epochs == [loader.order(epoch).tolist() for epoch in range(3)]


def test_the_order_is_a_published_function_of_seed_and_epoch() -> None:
    """Frozen: whoever resumes a run or compares two machines relies on these numbers."""
    assert make_loader(seed=1).order(0).tolist() == [3, 5, 2, 9, 7, 10, 0, 8, 6, 1, 4]
    assert make_loader(seed=1).order(1).tolist() == [4, 0, 5, 6, 2, 7, 8, 3, 9, 10, 1]
    assert make_loader(seed=2).order(0).tolist() == [10, 1, 4, 0, 6, 3, 5, 2, 7, 8, 9]


def test_an_epoch_can_be_resumed() -> None:
    loader, resumed = make_loader(seed=5), make_loader(seed=5)
    drawn(loader)
    resumed.epoch = 1
    assert drawn(loader) == drawn(resumed)


def test_two_iterators_at_once_are_two_epochs() -> None:
    loader = make_loader(seed=5)
    pairs = list(zip(loader, loader, strict=True))
    assert [label for (_, labels), _ in pairs for label in labels.tolist()] == loader.order(0).tolist()
    assert [label for _, (_, labels) in pairs for label in labels.tolist()] == loader.order(1).tolist()


def test_the_words_of_a_key_are_a_seed() -> None:
    """A `vg.random.key` is an array of unsigned words, lowest first."""
    key = np.array([7, 1], np.uint32)
    assert make_loader(seed=key).order(0).tolist() == make_loader(seed=7 + 2**32).order(0).tolist()


@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [4, 4, 3]), (True, [4, 4])])
def test_the_last_batch(drop_last: bool, sizes: list[int]) -> None:
    loader = make_loader(drop_last=drop_last)
    assert [len(labels) for _, labels in loader] == sizes
    assert len(loader) == len(sizes)


def test_batches_that_divide_evenly_have_no_rest() -> None:
    for drop_last in (False, True):
        loader = DataLoader(np.arange(8), batch_size=4, drop_last=drop_last, as_numpy=True)
        assert len(loader) == len(list(loader)) == 2


def test_a_batch_is_a_copy() -> None:
    values = np.arange(4)
    for (batch,) in DataLoader(values, batch_size=4, shuffle=False, as_numpy=True):
        batch += 1
    assert values.tolist() == [0, 1, 2, 3]


def test_no_examples_are_no_batches() -> None:
    assert list(DataLoader(np.zeros((0, 3)), batch_size=4, as_numpy=True)) == []


@pytest.mark.parametrize("options", [{}, {"progress": True}], ids=["plain", "progress"])
def test_leaving_half_way_leaves_no_thread(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    iterator = iter(make_loader(batch_size=1, transform=lambda x, y: (x, y), **options))
    next(iterator)
    assert loader_threads(), "the thread must exist now, or this test shows nothing"
    del iterator
    assert loader_threads() == []


def test_leaving_half_way_cancels_what_was_not_begun() -> None:
    gathered = []
    loader = make_loader(batch_size=1, prefetch=8, shuffle=False, transform=lambda x, y: gathered.append(int(y[0])))
    for _ in loader:
        break
    before = len(gathered)
    assert before <= 9
    assert loader_threads() == []
    assert len(gathered) == before


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_exception_in_the_thread_reaches_the_consumer(prefetch: int) -> None:
    def refuse_seven(images: np.ndarray, labels: np.ndarray) -> Any:
        if 7 in labels:
            raise ZeroDivisionError("seven")
        return images, labels

    seen = []
    with pytest.raises(ZeroDivisionError, match="seven"):
        for _, labels in make_loader(shuffle=False, prefetch=prefetch, transform=refuse_seven):
            seen += labels.tolist()
    assert seen == [0, 1, 2, 3], "batches before the bad one are handed out first"
    assert loader_threads() == []


def test_transform_runs_in_the_thread_and_may_change_the_number_of_arrays() -> None:
    names = []

    def only_labels(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        names.append(threading.current_thread().name)
        return labels * 10

    batches = list(make_loader(shuffle=False, transform=only_labels))
    assert [len(batch) for batch in batches] == [1, 1, 1] and batches[2][0].tolist() == [80, 90, 100]
    assert all(name.startswith("vkgrad-data") for name in names)


def test_tensors_are_made_in_the_consumers_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def tensor(array: np.ndarray) -> np.ndarray:
        made.append(threading.current_thread())
        return array

    monkeypatch.setitem(sys.modules, "vkgrad.tensor", SimpleNamespace(tensor=tensor, adopted=tensor))
    assert sorted(drawn(make_loader(as_numpy=False))) == list(range(COUNT))
    assert len(made) == 6 and set(made) == {threading.current_thread()}


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((), {}, r"takes arrays, or a data set"),
        ((np.zeros(3), np.zeros(4)), {}, r"first axis, not \[\(3,\), \(4,\)\]"),
        ((np.zeros(3), np.float32(1)), {}, r"first axis, not \[\(3,\), \(\)\]"),
        ((np.float32(1),), {}, "first axis"),
        ((np.zeros(3),), {"batch_size": 0}, "batch_size must be at least 1"),
        ((np.zeros(3),), {"prefetch": -1}, "prefetch at least 0"),
        ((np.zeros(3),), {"drop_last": True}, "drop_last leaves no batch: 3 examples are fewer than batch_size 4"),
        ((np.zeros(3),), {"seed": -1}, "from 0 to"),
        ((np.zeros(3),), {"seed": 2**128}, "from 0 to"),
        ((np.zeros(3),), {"seed": 0.5}, "must be an int or a random key, not 0.5"),
    ],
)
def test_mistakes_are_named(arrays: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        DataLoader(*arrays, **{"batch_size": 4, **options})


class TestProgress:
    def test_bar_shows_text_values_and_end(self, capsys: pytest.CaptureFixture[str]) -> None:
        loader = make_loader(progress="epoch 1")
        for _ in loader:
            loader.show(loss=0.25)
        shown = capsys.readouterr().err
        assert "epoch 1: 100%" in shown and "3/3" in shown and "loss=0.25" in shown

    def test_without_a_bar_nothing_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        loader = make_loader()
        for _ in loader:
            loader.show(loss=0.25)
        assert capsys.readouterr() == ("", "")

    def test_a_tensor_is_refused_since_reading_it_would_wait(self) -> None:
        with pytest.raises(DataError, match=r"loss is a ndarray; pass float\(loss\)"):
            make_loader().show(loss=np.zeros(()))  # stands for a Tensor: anything that is not a plain number

    def test_tqdm_is_not_needed_without_a_bar(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tqdm", None)
        assert len(list(make_loader())) == 3
