"""IDX files: every element type comes back as written, and damage is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from vkgrad.data import read_idx, write_idx
from vkgrad.data.idx import CODE_BY_DTYPE
from vkgrad.errors import DataError, DataNotFoundError

# Asymmetric and different from byte-swapped selves, so that a lost swap or transposed axis cannot pass.
VALUES = np.arange(2 * 3 * 5).reshape(2, 3, 5) * 4 + 1


@pytest.mark.parametrize("name", ["array.idx", "array.idx.gz"])
@pytest.mark.parametrize("dtype", CODE_BY_DTYPE, ids=str)
def test_roundtrip(tmp_path: Path, dtype: np.dtype, name: str) -> None:
    array = VALUES.astype(dtype)
    write_idx(tmp_path / name, array)
    read = read_idx(tmp_path / name)
    assert read.dtype == dtype and read.dtype.isnative and read.flags.writeable
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    "array",
    [VALUES[::-1, :, ::2], VALUES.T, np.array(7), np.zeros((0, 4))],
    ids=["flipped", "transposed", "0-d", "empty"],
)
def test_roundtrip_any_layout(tmp_path: Path, array: np.ndarray) -> None:
    write_idx(tmp_path / "array.idx", array.astype(np.int16))
    read = read_idx(tmp_path / "array.idx")
    assert read.shape == array.shape
    np.testing.assert_array_equal(read, array)


def test_big_endian_input_is_written_by_value(tmp_path: Path) -> None:
    write_idx(tmp_path / "array.idx", VALUES.astype(">i4"))
    np.testing.assert_array_equal(read_idx(tmp_path / "array.idx"), VALUES)


def test_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    """Reading back one's own writing would not notice a wrong byte order; the published layout does."""
    write_idx(tmp_path / "array.idx", np.array([[1, -2]], np.int16))
    assert (tmp_path / "array.idx").read_bytes().hex(" ") == "00 00 0b 02 00 00 00 01 00 00 00 02 00 01 ff fe"


def test_gzip_is_recognised_by_content_and_reproducible(tmp_path: Path) -> None:
    write_idx(tmp_path / "a.gz", VALUES.astype(np.uint8))
    write_idx(tmp_path / "b.gz", VALUES.astype(np.uint8))
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    (tmp_path / "a.gz").rename(tmp_path / "plain-name")
    np.testing.assert_array_equal(read_idx(tmp_path / "plain-name"), VALUES)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"absent\.idx: no such IDX file"):
        read_idx(tmp_path / "absent.idx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are fewer than the 4"),
        (b"\0\0\x08", "3 bytes are fewer than the 4"),
        (b"\x89PNG and so on", "it starts with 89 50 4e 47, IDX starts with 00 00"),
        (b"\0\0\x0a\0", "unknown IDX element type 0x0a"),
        (b"\0\0\x08\xff", "255 axes, more than 32"),
        (b"\0\0\x08\x02\0\0\0\1", "2 axes need 12 bytes, not 8"),
        (b"\0\0\x0b\1\0\0\0\2\0\0\0", r"truncated: \(2,\) of int16 needs 4 bytes after the header, the file has 3"),
        (b"\0\0\x08\1\0\0\0\2\0\0\0", "followed by something else.* needs 2 bytes .* has 3"),
        (b"\0\0\x0e\2\xff\xff\xff\xff\xff\xff\xff\xff", "truncated"),
        (gzip.compress(b"\0\0\x08\1\0\0\0\2\0\0", mtime=0)[:-9], "the gzip file is damaged or truncated"),
        (b"\x1f\x8bnonsense", "the gzip file is damaged or truncated"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "damaged.idx").write_bytes(content)
    with pytest.raises(DataError, match=f"damaged.idx.*{message}"):
        read_idx(tmp_path / "damaged.idx")


def test_what_the_format_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no element type for int64; convert to one of uint8, int8"):
        write_idx(tmp_path / "array.idx", VALUES.astype(np.int64))
    assert not (tmp_path / "array.idx").exists()
