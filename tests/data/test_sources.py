"""Data sets are found where they lie, in the stated order of places, and a missing one is said with its remedy."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vkgrad.config import config
from vkgrad.data import Split, digits, fashion_mnist, mnist, sources, write_idx
from vkgrad.errors import DataError, DataNotFoundError

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def write_set(folder: Path, first_label: int, suffix: str = ".gz") -> Path:
    """Write six training and four test images; `first_label` tells sets in different folders apart."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 6), ("t10k", 4)):
        images = (np.arange(count * 3 * 5) * 7 % 256).astype(np.uint8).reshape(count, 3, 5)
        write_idx(folder / f"{split}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{split}-labels-idx1-ubyte{suffix}", (np.arange(count) + first_label).astype(np.uint8))
    return folder


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty $VKGRAD_DATA, and a Debian folder that does not exist: the machine's own sets stay out of it."""
    monkeypatch.setattr(sources, "DEBIAN_FASHION_MNIST", tmp_path / "debian")
    with config.override(data=tmp_path / "data"):
        yield tmp_path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fashion_mnist_is_found_in_the_data_folder(places: Path, suffix: str) -> None:
    write_set(places / "data", first_label=1, suffix=suffix)
    found = fashion_mnist()
    assert found.train.images.shape == (6, 3, 5) and found.train.images.dtype == np.uint8
    assert found.test.labels.dtype == np.int32 and found.test.labels.tolist() == [1, 2, 3, 4]
    assert found.train.images[1, 0, 0] == 15 * 7 and len(found.test) == 4
    assert found.class_names[9] == "Ankle boot" and found.origin == str(places / "data")


def test_the_more_specific_place_wins(places: Path) -> None:
    """Each place is added in rising rank; were the order another, the label would not change."""
    for first_label, folder in enumerate(("debian", "data", "data/FashionMNIST/raw", "data/fashion-mnist")):
        write_set(places / folder, first_label)
        assert fashion_mnist().train.labels[0] == first_label
    assert mnist().train.labels[0] == 1, "files in $VKGRAD_DATA itself serve either set"
    write_set(places / "elsewhere", first_label=4)
    assert fashion_mnist(places / "elsewhere").train.labels[0] == 4


def test_a_given_folder_is_the_only_place(places: Path) -> None:
    write_set(places / "debian", first_label=0)
    with pytest.raises(DataNotFoundError, match="elsewhere"):
        fashion_mnist(places / "elsewhere")


def test_a_missing_set_says_how_to_get_it() -> None:
    with pytest.raises(DataNotFoundError, match=r"not found in .*debian: run `apt-get install dataset-fashion-mnist`"):
        fashion_mnist()
    with config.override(data=None), pytest.raises(DataNotFoundError, match="VKGRAD_DATA, which is not set: set "):
        mnist()


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_a_set_is_not_passed_over(places: Path, name: str) -> None:
    write_set(places / "debian", first_label=0)
    (write_set(places / "data", first_label=1) / f"{name}.gz").unlink()
    with pytest.raises(DataNotFoundError, match=f"part of Fashion-MNIST only: put {name} there too"):
        fashion_mnist()


def test_the_spelling_with_a_dot_is_known(places: Path) -> None:
    write_set(places / "data", first_label=2, suffix="")
    for name in NAMES:
        (places / "data" / name).rename(places / "data" / name.replace("-idx", ".idx"))
    assert mnist().test.labels[0] == 2


def test_labels_beyond_the_classes_are_refused(places: Path) -> None:
    write_set(places / "data", first_label=7)
    with pytest.raises(DataError, match="train labels run from 7 to 12, but there are 10 classes"):
        fashion_mnist()


def test_images_and_labels_belong_together(places: Path) -> None:
    folder = write_set(places / "data", first_label=0)
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros(5, np.uint8))
    with pytest.raises(DataError, match=r"the same N, not \(6, 3, 5\) and \(5,\)"):
        fashion_mnist()


def test_first_takes_examples_from_the_front() -> None:
    split = Split(np.arange(24, dtype=np.uint8).reshape(4, 2, 3), np.arange(4, dtype=np.int32))
    assert split.first(3).labels.tolist() == [0, 1, 2] and len(split.first(9)) == 4


def test_digits() -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, which is optional")
    found = digits()
    assert found.train.images.shape == (1437, 8, 8) and found.test.images.shape == (360, 8, 8)
    assert found.train.images.max() == 255 and found.train.images.dtype == np.uint8
    assert sorted(set(found.test.labels.tolist())) == list(range(10))


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataNotFoundError, match="pip install scikit-learn"):
        digits()


def test_the_real_fashion_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums were taken once with another reader (struct and gzip alone) from Debian's files."""
    monkeypatch.undo()
    if not sources.DEBIAN_FASHION_MNIST.is_dir():
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    with config.override(data=None):
        found = fashion_mnist()
    assert (len(found.train), len(found.test), found.test.images.shape[1:]) == (60_000, 10_000, (28, 28))
    assert np.bincount(found.train.labels).tolist() == [6000] * 10
    assert found.test.labels[:5].tolist() == [9, 2, 1, 1, 6]
    assert int(found.test.images.sum(dtype=np.int64)) == 573_469_082
