"""Random numbers: published vectors, independence of how they are asked for, and the shape of the distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close
from vkgrad import random
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.tensor import apply

# Threefry-2x32, 20 rounds: (key, counter, result), from the known-answer file published with the paper.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_published_vectors(key: tuple, counter: tuple, expected: tuple) -> None:
    words = [vg.tensor(np.array([word], np.uint32)) for word in (*key, *counter)]
    assert tuple(apply("threefry", *words, word=word).item() for word in (0, 1)) == expected


def test_keys_hold_the_seed() -> None:
    assert random.key(5).tolist() == [0, 5]
    assert random.key(2**40 + 7).tolist() == [256, 7]
    assert random.key(-1).tolist() == [0xFFFFFFFF] * 2
    assert random.key(np.int64(3)).tolist() == [0, 3]  # type: ignore[arg-type]


def test_the_first_numbers_stay_what_they_are() -> None:
    """Saved models and published results depend on them: a change here is a change of every seed."""
    close(random.bits(random.key(42), (3,)), np.array(FIRST_BITS, np.uint32))
    close(random.uniform(random.key(42), (3,)), (np.array(FIRST_BITS, np.uint32) >> 8) * np.float32(2**-24))


def test_numbers_do_not_depend_on_the_shape() -> None:
    key = random.key(1)
    flat = random.uniform(key, (60,)).numpy()
    assert np.array_equal(random.uniform(key, (3, 4, 5)).numpy().ravel(), flat)
    assert np.array_equal(random.uniform(key, (7,)).numpy(), flat[:7])
    assert random.uniform(key).item() == flat[0]
    assert random.uniform(key, (0, 3)).shape == (0, 3)


def test_split_and_fold_in_give_other_keys() -> None:
    key = random.key(0)
    keys = [*random.split(key, 5), *(random.fold_in(key, k) for k in range(5)), key]
    seen = {tuple(k.tolist()) for k in keys}
    assert len(seen) == len(keys)
    drawn = {
        tuple(words) for words in zip(random.bits(key, 10).tolist(), random.bits(key, 10, word=1).tolist(), strict=True)
    }
    assert not seen & drawn
    first, second = random.split(key)
    assert not np.array_equal(random.bits(first, 8).numpy(), random.bits(second, 8).numpy())


COUNT = 20_000


def test_uniform_is_uniform() -> None:
    x = random.uniform(random.key(3), (COUNT,)).numpy()
    assert x.min() >= 0 and x.max() < 1
    counts = np.histogram(x, 20, (0, 1))[0]
    chi_squared = np.sum((counts - COUNT / 20) ** 2) / (COUNT / 20)
    assert chi_squared < 43.8  # 19 degrees of freedom, 1 in 1000
    wide = random.uniform(random.key(3), (COUNT,), -2.0, 5.0).numpy()
    assert -2 <= wide.min() < -1.99 and 4.99 < wide.max() <= 5
    np.testing.assert_allclose(wide, x * 7 - 2, atol=1e-6)


def test_normal_is_normal() -> None:
    x = random.normal(random.key(4), (COUNT,)).numpy().astype(np.float64)
    assert np.isfinite(x).all()
    error = 4 / math.sqrt(COUNT)
    assert abs(x.mean()) < error and abs(x.var() - 1) < error * math.sqrt(2)
    assert abs((x**3).mean()) < error * math.sqrt(15) and abs((x**4).mean() - 3) < error * math.sqrt(96)
    order = np.sort(x)
    distance = np.abs(np.vectorize(math.erf)(order / math.sqrt(2)) / 2 + 0.5 - (np.arange(COUNT) + 0.5) / COUNT).max()
    assert distance < 1.95 / math.sqrt(COUNT)  # Kolmogorov-Smirnov, 1 in 1000
    moved = random.normal(random.key(4), (COUNT,), 3.0, 0.5).numpy()
    np.testing.assert_allclose(moved, x * 0.5 + 3, atol=1e-5)


@pytest.mark.usefixtures("on_cpu")
def test_double_precision_uses_both_words() -> None:
    x = random.uniform(random.key(5), (1000,), dtype=vg.float64).numpy()
    assert x.min() >= 0 and x.max() < 1
    assert (x * 2**53 == np.floor(x * 2**53)).all()
    assert ((x * 2**24) % 1 != 0).mean() > 0.99
    normal = random.normal(random.key(5), (1000,), dtype=vg.float64)
    assert normal.dtype is vg.float64 and abs(normal.numpy().mean()) < 0.15


def test_bernoulli() -> None:
    mask = random.bernoulli(random.key(6), 0.3, (COUNT,))
    assert mask.dtype is vg.bool_
    assert abs(mask.numpy().mean() - 0.3) < 4 * math.sqrt(0.21 / COUNT)
    p = np.array([0.0, 1.0], np.float32)
    assert random.bernoulli(random.key(6), p).tolist() == [False, True]
    assert random.bernoulli(random.key(6), p, (50, 2)).numpy().mean(0).tolist() == [0, 1]


def test_randint() -> None:
    x = random.randint(random.key(7), (COUNT,), -3, 4).numpy()
    assert x.dtype == np.int32
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(-3, 4))
    assert np.abs(counts - COUNT / 7).max() < 4.5 * math.sqrt(COUNT / 7)
    assert random.randint(random.key(7), (4,), 5, 6).tolist() == [5] * 4
    with pytest.raises(ShapeError, match=r"randint: needs 1 to 2\*\*32"):
        random.randint(random.key(7), (4,), 5, 5)


def test_categorical() -> None:
    logits = vg.log(vg.tensor([0.5, 0.1, 0.4]))
    x = random.categorical(random.key(8), logits, shape=(COUNT,)).numpy()
    counts = np.bincount(x, minlength=3) / COUNT
    np.testing.assert_allclose(counts, [0.5, 0.1, 0.4], atol=4 * math.sqrt(0.25 / COUNT))
    assert random.categorical(random.key(8), vg.zeros((2, 5))).shape == (2,)
    assert random.categorical(random.key(8), vg.zeros((2, 5)), axis=0).shape == (5,)


def test_manual_seed_starts_the_same_keys_again() -> None:
    vg.manual_seed(11)
    first = [tuple(random.next_key().tolist()) for _ in range(3)]
    vg.manual_seed(11)
    pending = [random.next_key() for _ in range(3)]  # none computed before the next is asked for
    assert [tuple(key.tolist()) for key in pending] == first
    assert len(set(first)) == 3
    vg.manual_seed(12)
    assert tuple(random.next_key().tolist()) not in first


def test_a_plan_serves_every_key() -> None:
    """The seed is data: another one must not compile another kernel."""
    random.uniform(random.key(1), (16,)).numpy()
    with vg.counting() as counts:
        random.uniform(random.key(2), (16,)).numpy()
        random.normal(random.key(2), (16,)).numpy()
        random.normal(random.key(3), (16,)).numpy()
    assert counts.plans_built == 1


def test_mistakes_are_named() -> None:
    with pytest.raises(DTypeError, match=r"drawn with is a key, uint32\[2\]"):
        random.uniform(vg.ones(2), (3,))
    with pytest.raises(DTypeError, match="got a int"):
        random.uniform(5, (3,))  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"random\.normal: makes float types"):
        random.normal(random.key(0), (3,), dtype=vg.int32)


# Of random.key(42), from an independent computation of the generator in plain Python integers.
FIRST_BITS = [1832780943, 430176367, 843694964]
