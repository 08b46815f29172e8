"""CSV files, folders of images, and data sets whose examples threads take one by one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vkgrad as vg
from vkgrad.data import DataLoader, ImageFolder, read_csv
from vkgrad.errors import DataError, DataNotFoundError, OptionError

pytestmark = pytest.mark.usefixtures("on_cpu")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", '\ufeffa, b,"c, d"\r\n1,2.5,-3\r\n\r\n4,,1e3\r\n')
    assert np.array_equal(read_csv(path), [[1, 2.5, -3], [4, np.nan, 1000]], equal_nan=True)
    assert np.array_equal(read_csv(path, ["c, d", 0]), [[-3, 1], [1000, 4]]) and read_csv(path).dtype == np.float32
    plain = written(tmp_path / "p.tsv", "1\t2\n3\t4\n")
    assert np.array_equal(read_csv(plain, delimiter="\t", header=False), [[1, 2], [3, 4]])
    assert read_csv(written(tmp_path / "e.csv", "a,b\n")).shape == (0, 2)
    assert read_csv(written(tmp_path / "n.csv", "")).shape == (0, 0)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,x\n", None, r"line 2, column 1 \(b\): 'x' is not a number"),
        ("a,b\n1,2\n3\n", None, "line 3: 1 fields where the first line has 2"),
        ("a,b\n1,2\n", ["c"], "no column 'c'; there are a, b"),
        ("a,b\n1,2\n", [2], "no column 2; there are 2"),
    ],
)
def test_csv_says_where_it_is_wrong(tmp_path: Path, text: str, columns: list | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(written(tmp_path / "t.csv", text), columns)


def test_csv_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no such CSV file"):
        read_csv(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not a CSV file in UTF-8"):
        read_csv(tmp_path / "t.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven grey images in two folders, each of the grey that its number says."""
    for number in range(7):
        place = tmp_path / ("odd" if number % 2 else "even")
        place.mkdir(exist_ok=True)
        Image.new("RGB", (6, 4), (number * 30,) * 3).save(place / f"{number}.png")
    (tmp_path / "even" / "notes.txt").write_text("no image")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_image_folder(folder: Path) -> None:
    images = ImageFolder(folder)
    assert images.class_names == ("even", "odd") and len(images) == 7 and images.labels.tolist() == [0] * 4 + [1] * 3
    image, label = images[5]
    assert image.shape == (3, 4, 6) and image.dtype == np.uint8 and (image == 90).all() and label == 1
    grey = ImageFolder(folder, size=(8, 2), channels=1)[1][0]
    assert grey.shape == (1, 8, 2) and (grey == 60).all()


def test_image_folders_that_are_none(folder: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no images"):
        ImageFolder(folder / "even")
    with pytest.raises(DataNotFoundError, match="no such folder"):
        ImageFolder(folder / "nowhere")
    with pytest.raises(OptionError, match="channels must be 1 or 3"):
        ImageFolder(folder, channels=2)
    content = (folder / "odd" / "3.png").read_bytes()
    (folder / "odd" / "3.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"3\.png: not an image, or damaged"):
        list(DataLoader(ImageFolder(folder), batch_size=4, workers=2))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_any_number_of_workers_gives_the_same_batches(folder: Path, prefetch: int) -> None:
    expected = None
    for workers in (1, 3):
        loader = DataLoader(ImageFolder(folder), batch_size=3, seed=4, workers=workers, prefetch=prefetch)
        found = [(x.numpy(), y.tolist()) for x, y in loader]
        assert [len(y) for _, y in found] == [3, 3, 1] and found[0][0].shape == (3, 3, 4, 6)
        assert all(((x[:, 0, 0, 0] // 30) % 2 == y).all() for x, y in found)
        expected = expected or found
        assert all(np.array_equal(a, b) and y == z for (a, y), (b, z) in zip(found, expected, strict=True))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("vkgrad-data")]


class Slow:
    """Examples that take a while, in which the interpreter is free, and that note who waited at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < 8:
            raise IndexError(index)
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)
        with self.lock:
            self.now -= 1
        return np.full(2, index, np.float32)


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_work_at_the_same_time(workers: int) -> None:
    slow = Slow()
    (batch,) = next(iter(DataLoader(slow, batch_size=8, workers=workers, shuffle=False)))
    assert batch.numpy()[:, 0].tolist() == list(range(8))
    assert (slow.most > 1) is (workers > 1)


def test_collate_and_transform() -> None:
    class Sequences:
        lengths = (1, 3, 2)

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> np.ndarray:
            return np.ones(self.lengths[index], np.float32)

    def padded(examples: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        longest = max(map(len, examples))
        lengths = np.array([len(e) for e in examples], np.int32)
        return np.stack([np.pad(e, (0, longest - len(e))) for e in examples]), lengths

    options = {"batch_size": 3, "shuffle": False}
    ((x, lengths),) = DataLoader(Sequences(), collate=padded, transform=lambda x, n: (x * 2, n), **options)
    assert x.tolist() == [[2, 0, 0], [2, 2, 2], [2, 2, 0]] and lengths.tolist() == [1, 3, 2]
    with pytest.raises(DataError, match=r"do not stack; give them one size, .* or pass collate"):
        list(DataLoader(Sequences(), **options))
    with pytest.raises(DataError, match="are for a data set"):
        DataLoader(np.zeros(3), batch_size=1, workers=2)
    with pytest.raises(DataError, match="are for a data set"):
        DataLoader(Sequences(), batch_size=1, workers=0)


def test_a_data_set_trains_and_resumes(folder: Path) -> None:
    def loader() -> DataLoader:
        return DataLoader(
            ImageFolder(folder, size=(4, 4)), batch_size=3, seed=1, workers=2, drop_last=True,
            transform=lambda x, y: (x.astype(np.float32) / 255, y),
        )  # fmt: skip

    first = loader()
    batches = [y.tolist() for _ in range(2) for _, y in first]
    half = iter(second := loader())
    next(half)
    third = loader()
    third.load_state_dict(second.state_dict())
    assert [y.tolist() for _ in range(2) for _, y in third] == batches[1:] and len(batches) == 4
    vg.manual_seed(0)
    model = vg.nn.Sequential(vg.nn.Flatten(), vg.nn.Linear(48, 2))
    assert len(vg.fit(model, vg.optim.SGD(model, lr=0.1), vg.nn.cross_entropy, loader(), epochs=2)) == 2
