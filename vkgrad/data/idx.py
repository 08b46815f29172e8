"""Read and write IDX files, the format in which MNIST and its relatives are published.

An IDX file is two zero bytes, one byte naming the element type, one byte giving the rank, one big-endian uint32 per
axis, and then the elements in row-major order, big-endian. This module knows bytes and NumPy arrays; it must not know
data sets, batches or tensors.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.errors import DataError, DataNotFoundError

Array = np.ndarray[Any, np.dtype[Any]]

# The element types of the format, by the code in byte 2, as they lie in the file.
DTYPE_BY_CODE: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
CODE_BY_DTYPE = {dtype.newbyteorder("="): code for code, dtype in DTYPE_BY_CODE.items()}

GZIP_MAGIC = b"\x1f\x8b"
RANK_MAX = 32  # NumPy 1.26 holds no more axes; a larger rank byte means that the file is something else.
EXTENT_MAX = 2**32 - 1


def read_idx(path: str | os.PathLike[str]) -> Array:
    """Return the array in an IDX file, in this machine's byte order and free to be written to.

    A gzip file is recognised by its first bytes, whatever its name.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is not IDX, is damaged, or holds fewer or more bytes than its header says.

    Example:
        >>> import numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "labels-idx1-ubyte.gz")
        >>> write_idx(path, np.array([3, 1, 4], np.uint8))
        >>> read_idx(path)
        array([3, 1, 4], dtype=uint8)
    """
    content = _read_bytes(Path(path))
    dtype, shape = _parse_header(content, path)
    offset = 4 + 4 * len(shape)
    expected_bytes = math.prod(shape) * dtype.itemsize
    found_bytes = len(content) - offset
    if found_bytes != expected_bytes:
        trouble = "truncated" if found_bytes < expected_bytes else "followed by something else"
        raise DataError(
            f"{path}: the data is {trouble}: {shape} of {dtype.newbyteorder('=')} needs {expected_bytes} bytes after "
            f"the header, the file has {found_bytes}; fetch it again"
        )
    return np.frombuffer(content, dtype, offset=offset).reshape(shape).astype(dtype.newbyteorder("="))


def write_idx(path: str | os.PathLike[str], array: Array) -> None:
    """Write an array as an IDX file, compressed when the name ends in `.gz`.

    Equal arrays give equal files: no time stamp or file name is stored.

    Raises:
        DataError: the element type or the rank is one that the format does not have.
    """
    array = np.asarray(array)
    code = CODE_BY_DTYPE.get(array.dtype.newbyteorder("="))
    if code is None:
        known = ", ".join(str(dtype) for dtype in CODE_BY_DTYPE)
        raise DataError(f"{path}: IDX has no element type for {array.dtype}; convert to one of {known}")
    if array.ndim > RANK_MAX or max(array.shape, default=0) > EXTENT_MAX:
        raise DataError(f"{path}: IDX holds at most {RANK_MAX} axes of at most {EXTENT_MAX}, not {array.shape}")
    header = bytes((0, 0, code, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    content = header + array.astype(DTYPE_BY_CODE[code]).tobytes()
    if Path(path).suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    Path(path).write_bytes(content)


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataNotFoundError(f"{path}: no such IDX file") from None
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged or truncated ({error}); fetch it again") from error


def _parse_header(content: bytes, path: str | os.PathLike[str]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if len(content) < 4:
        raise DataError(f"{path}: not an IDX file: {len(content)} bytes are fewer than the 4 of its magic number")
    if content[:2] != b"\0\0":
        raise DataError(f"{path}: not an IDX file: it starts with {content[:4].hex(' ')}, IDX starts with 00 00")
    code, rank = content[2], content[3]
    if code not in DTYPE_BY_CODE:
        known = ", ".join(f"{known_code:#04x}" for known_code in DTYPE_BY_CODE)
        raise DataError(f"{path}: unknown IDX element type {code:#04x}; the format has {known}")
    if rank > RANK_MAX:
        raise DataError(f"{path}: not an IDX file: its rank byte says {rank} axes, more than {RANK_MAX}")
    if len(content) < 4 + 4 * rank:
        raise DataError(f"{path}: the header is truncated: {rank} axes need {4 + 4 * rank} bytes, not {len(content)}")
    return DTYPE_BY_CODE[code], tuple(int(extent) for extent in np.frombuffer(content, ">u4", rank, 4))
