"""Find the image sets that install by package name, and hand them out as NumPy arrays.

Nothing here downloads anything: a set is on this machine, or the error says which command brings it. This module must
not know batches or tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.config import config
from vkgrad.data.idx import read_idx
from vkgrad.errors import DataError, DataNotFoundError

Array = np.ndarray[Any, np.dtype[Any]]

FASHION_MNIST_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DIGIT_CLASSES = tuple("0123456789")

# Where Debian's and Ubuntu's package dataset-fashion-mnist puts the four original files.
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")

# scikit-learn publishes the digits in one piece; the last fifth, in their order, is the test here.
DIGITS_TRAIN_COUNT = 1437


@dataclass(frozen=True, repr=False)
class Split:
    """Images and their labels.

    Shapes: images (N, H, W) uint8 from 0 to 255, labels (N,) int32.
    """

    images: Array
    labels: Array

    def __post_init__(self) -> None:
        if self.images.ndim != 3 or self.labels.shape != self.images.shape[:1]:
            raise DataError(
                f"images must be (N, H, W) and labels (N,) with the same N, not {self.images.shape} and "
                f"{self.labels.shape}"
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"Split(images {self.images.shape} {self.images.dtype}, labels {self.labels.shape} {self.labels.dtype})"

    def first(self, count: int) -> Split:
        """Return the first `count` examples (all of them when there are fewer), without copying."""
        return Split(self.images[:count], self.labels[:count])


@dataclass(frozen=True, repr=False)
class Dataset:
    """A set of labelled images, divided into training and test, and where it was found."""

    train: Split
    test: Split
    class_names: tuple[str, ...]
    origin: str

    def __post_init__(self) -> None:
        for split_name, split in (("train", self.train), ("test", self.test)):
            if len(split) and not 0 <= split.labels.min() <= split.labels.max() < len(self.class_names):
                raise DataError(
                    f"{self.origin}: {split_name} labels run from {split.labels.min()} to {split.labels.max()}, "
                    f"but there are {len(self.class_names)} classes"
                )

    def __repr__(self) -> str:
        classes = f"{len(self.class_names)} classes, {self.class_names[0]} to {self.class_names[-1]}"
        return f"Dataset from {self.origin}\n  train: {self.train}\n  test:  {self.test}\n  {classes}"


def fashion_mnist(folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return Fashion-MNIST: 60,000 + 10,000 photographs of clothing, 28 by 28, in ten classes.

    Looked for in `folder` if given; else in `$VKGRAD_DATA` (in `fashion-mnist/`, `FashionMNIST/raw/` or the folder
    itself) and then where Debian's package puts it.

    Raises:
        DataNotFoundError: it is nowhere there; the text names the command that installs it.
        DataError: a file is damaged.

    Source: Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747.
    """
    candidates = _candidates(folder, "fashion-mnist", "FashionMNIST/raw")
    if folder is None:
        candidates.append(DEBIAN_FASHION_MNIST)
    remedy = "run `apt-get install dataset-fashion-mnist`, or set VKGRAD_DATA to a folder that has its four IDX files"
    return _mnist_format("Fashion-MNIST", candidates, FASHION_MNIST_CLASSES, remedy)


def mnist(folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return MNIST: 60,000 + 10,000 handwritten digits, 28 by 28.

    Looked for in `folder` if given; else in `$VKGRAD_DATA` (in `mnist/`, `MNIST/raw/` or the folder itself).

    Raises:
        DataNotFoundError: it is nowhere there. No package carries all of it, so its files have to be put there.
        DataError: a file is damaged.

    Source: LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document recognition.
    """
    remedy = "set VKGRAD_DATA to a folder that has its four IDX files, or use vkgrad.data.digits()"
    return _mnist_format("MNIST", _candidates(folder, "mnist", "MNIST/raw"), DIGIT_CLASSES, remedy)


def digits() -> Dataset:
    """Return scikit-learn's digits: 1,437 + 360 real handwritten digits, 8 by 8, small enough for quick tests.

    The sixteen grey steps of the original are spread over 0 to 255, the range of every set here.

    Raises:
        DataNotFoundError: scikit-learn is not installed.

    Source: Alpaydin and Kaynak (1998), Optical recognition of handwritten digits, UCI repository.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise DataNotFoundError("the digits come with scikit-learn: run `pip install scikit-learn`") from error
    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int32)
    return Dataset(
        train=Split(images[:DIGITS_TRAIN_COUNT], labels[:DIGITS_TRAIN_COUNT]),
        test=Split(images[DIGITS_TRAIN_COUNT:], labels[DIGITS_TRAIN_COUNT:]),
        class_names=DIGIT_CLASSES,
        origin="scikit-learn",
    )


def _candidates(folder: str | os.PathLike[str] | None, *subfolders: str) -> list[Path]:
    """Return the folders to look in; one that names the set outranks one that does not."""
    root = folder if folder is not None else config.data
    if root is None:
        return []
    return [Path(root, subfolder) for subfolder in subfolders] + [Path(root)]


def _mnist_format(name: str, candidates: list[Path], class_names: tuple[str, ...], remedy: str) -> Dataset:
    """Read the first folder that has any of the four files; having only some of them is an error, not a miss."""
    stems = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    for folder in candidates:
        files = {stem: next((path for path in _spellings(folder, stem) if path.is_file()), None) for stem in stems}
        missing = [f"{stem}-ubyte" for stem, path in files.items() if path is None]
        if len(missing) == len(stems):
            continue
        if missing:
            raise DataNotFoundError(f"{folder} has a part of {name} only: put {', '.join(missing)} there too")
        train_images, train_labels, test_images, test_labels = (read_idx(path) for path in files.values() if path)
        return Dataset(
            train=Split(train_images, train_labels.astype(np.int32)),
            test=Split(test_images, test_labels.astype(np.int32)),
            class_names=class_names,
            origin=str(folder),
        )
    places = ", ".join(map(str, candidates)) or "VKGRAD_DATA, which is not set"
    raise DataNotFoundError(f"{name} was not found in {places}: {remedy}")


def _spellings(folder: Path, stem: str) -> Iterator[Path]:
    """Yield the names under which a file of the set is in circulation: `-` or `.` before `idx`, packed or not."""
    for name in (stem, stem.replace("-idx", ".idx")):
        yield folder / f"{name}-ubyte"
        yield folder / f"{name}-ubyte.gz"
