"""Parts of data have nothing in common, and together they are all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.data import DataLoader, Subset, random_split
from vkgrad.errors import DataError

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20)


@pytest.mark.parametrize(
    ("lengths", "counts"),
    [
        ([15, 5], [15, 5]),
        ([0.75, 0.25], [15, 5]),
        ([1 / 3] * 3, [7, 7, 6]),
        ([1.0], [20]),
        ([0, 20], [0, 20]),
        ([1], [20]),
    ],
)
def test_every_example_is_in_one_part(lengths: list[Any], counts: list[int]) -> None:
    parts = random_split((X, Y), lengths)
    assert [len(y) for _, y in parts] == counts
    assert sorted(np.concatenate([y for _, y in parts])) == list(range(20))
    assert all(np.array_equal(x[:, 0], 2 * y) for x, y in parts)
    subsets = random_split(list(Y), lengths)
    assert [[part[k] for k in range(len(part))] for part in subsets] == [y.tolist() for _, y in parts]


def test_the_seed_decides() -> None:
    first, again, other = (random_split((X, Y), [10, 10], seed=seed)[0][1].tolist() for seed in (0, 0, 1))
    assert first == again != other != list(range(10))


@pytest.mark.parametrize(
    ("given", "lengths", "words"),
    [
        ((X, Y), [15, 6], "add up to 21, not to 20 examples"),
        ((X, Y), [0.5, 0.6], "add up to 1.1, not to 1"),
        ((X, Y), [25, -5], "not negative"),
        ((X, Y[:3]), [1.0], r"\[3, 20\] examples"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(given: Any, lengths: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        random_split(given, lengths)
    with pytest.raises(DataError, match="from 0 to 19"):
        Subset(Y, [20])


@pytest.mark.usefixtures("on_cpu")
def test_parts_go_into_a_loader() -> None:
    train, rest = random_split([(x, y) for x, y in zip(X, Y, strict=True)], [0.8, 0.2])
    for part in (train, rest):
        seen = [int(label) for _, y in DataLoader(part, batch_size=3) for label in y.numpy()]
        assert sorted(seen) == sorted(int(part[k][1]) for k in range(len(part)))
    assert "Subset of 16 of" in repr(train)


@pytest.mark.usefixtures("on_cpu")
def test_a_list_of_pairs_is_a_data_set_and_a_list_of_numbers_an_array() -> None:
    pairs = [(x, y) for x, y in zip(X, Y, strict=True)]
    ((x, y),) = DataLoader(pairs, batch_size=20, shuffle=False)
    assert np.array_equal(x, X) and np.array_equal(y, Y)
    ((both,),) = DataLoader([(1.0, 2.0), (3.0, 4.0)], batch_size=2, shuffle=False)
    assert vg.array_equal(both, vg.tensor([[1.0, 2.0], [3.0, 4.0]]).astype(both.dtype))
