"""Save and load named tensors as safetensors files, the format that PyTorch and others exchange weights in.

A value is stored exactly or refused; loading one of a type that vkgrad does not have widens it, or narrows it where
every element fits. This module must not know modules or optimisers: they have a state dict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import safetensors

from vkgrad import engine
from vkgrad.errors import ArgumentError, DataError, DataNotFoundError, DTypeError
from vkgrad.ir.dtypes import DTYPES, DType, dtype_of, int32, uint32
from vkgrad.ops.narrow import encoded, handed_out
from vkgrad.tensor import Tensor, tensor

Array = np.ndarray[Any, np.dtype[Any]]

# The format's names of element types. Those that vkgrad lacks are refused.
NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
MOST_HEADER_BYTES = 100_000_000  # more is no header, by the format
PICKLED = (b"PK\x03\x04", b"\x80")  # how files begin that torch.save or pickle wrote
WRITTEN_AS = {name: written for written, name in NAMES.items()}


def save(state: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write named tensors, such as a state dict, to a safetensors file.

    The file is written beside its place and then moved there, so that it is never half written.

    Args:
        metadata: texts to keep in the file's header, by name; some readers of PyTorch weights ask for
            `{"format": "pt"}`.

    Raises:
        DataError: a value is not a tensor, or is a NumPy array of a type that vkgrad does not have; or the metadata is
            not text.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> vg.save({"w": vg.tensor([1.0, 2.0])}, path)
        >>> vg.load(path)["w"].tolist()
        [1.0, 2.0]
    """
    if not isinstance(state, Mapping):
        kind = type(state).__name__
        if isinstance(state, str | os.PathLike):
            raise ArgumentError(f"save: the tensors come first and the path second, got a {kind} first")
        instead = (
            "write vg.save(x.state_dict(), path)" if hasattr(state, "state_dict") else "give each a name: {'x': x}"
        )
        raise ArgumentError(f"save: takes tensors by name, not a {kind}; {instead}")
    if not all(isinstance(text, str) for item in (metadata or {}).items() for text in item):
        raise DataError(f"save: metadata maps texts to texts, not {dict(metadata or {})!r}")
    content = _file({name: _saved(name, value) for name, value in state.items()}, metadata)
    target = Path(path)
    if not target.parent.is_dir():
        raise DataNotFoundError(
            f"save: there is no folder {target.parent}; make the folder first, Path(...).mkdir() does"
        )
    # Not by `tempfile`, whose files nobody but their owner may read: others may have what the umask lets them.
    temporary = target.with_name(f".{target.name}.{token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read a safetensors file, also one that PyTorch wrote, as named tensors of the types that they were saved in.

    The tensors come in the order of the file, which `save` takes from the state. 64-bit integers, such as PyTorch's
    counter of batches, become int32 or uint32 on a device that has none.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is damaged, or a tensor is of a type or has an integer that vkgrad cannot hold.
    """
    with _reading(path):
        content = Path(path).read_bytes()
        entries = dict(safetensors.deserialize(content))  # in no order
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header.pop("__metadata__", None)
    order = sorted(header, key=lambda name: header[name]["data_offsets"])
    return {name: _loaded(f"{path}: {name}", entries[name]) for name in order}


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the texts in a safetensors file's header, without its tensors.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is damaged.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> vg.save({"w": vg.zeros((2,))}, path, metadata={"format": "pt"})
        >>> vg.load_metadata(path)
        {'format': 'pt'}
    """
    with _reading(path), safetensors.safe_open(path, framework="numpy") as file:
        return dict(file.metadata() or {})


@contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say what a safetensors file lacks, by its name."""
    try:
        yield
    except FileNotFoundError:
        raise DataNotFoundError(f"{path}: no such safetensors file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name the safetensors file in it") from None
    except safetensors.SafetensorError as error:
        raise DataError(f"{path}: {_damage(Path(path), str(error))}") from None


def _damage(path: Path, words: str) -> str:
    """What is wrong with a file that is not as it should be, and what to do."""
    again = "save or fetch it again"
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        header = file.read(min(length, size))
    if not size:
        return f"the file is empty; {again}"
    if start.startswith(PICKLED):
        return (
            "a file of torch.save, which only PyTorch reads; write it there by safetensors.torch.save_file(state, path)"
        )
    try:
        entries = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
        whole = 8 + length + max(entries, default=0)
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = 8 + length if length < MOST_HEADER_BYTES else 0
    if whole > size:
        return f"the file is cut off: it has {size} of {whole} bytes; {again}"
    return f"not a safetensors file, or damaged ({words.rpartition(': ')[2]}); {again}"


def _saved(name: str, value: Any) -> tuple[DType, Array]:
    """The element type of a value, and its elements as they lie in memory."""
    if not isinstance(value, Tensor | np.ndarray):
        kind = type(value).__name__
        raise DataError(
            f"save: {name} is a {kind}, and only tensors and NumPy arrays can be saved; vg.save_checkpoint keeps "
            "numbers, modules and optimisers too"
        )
    try:
        dtype = dtype_of(value.dtype)
    except DTypeError:
        raise DataError(f"save: {name} is of type {value.dtype}; convert it to one of {', '.join(DTYPES)}") from None
    return dtype, encoded(np.asarray(value), dtype)


def _file(state: Mapping[str, tuple[DType, Array]], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes of a safetensors file: the length of a header, the header, the data. Wide elements come first, so that
    every tensor begins at a multiple of its element's size, else the order is the state's."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    parts: list[bytes] = []
    at = 0
    for name, (dtype, array) in sorted(state.items(), key=lambda item: -item[1][1].itemsize):
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        place = [at, at + len(parts[-1])]
        header[name] = {"dtype": WRITTEN_AS[dtype.name], "shape": list(array.shape), "data_offsets": place}
        at = place[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def _loaded(place: str, entry: Mapping[str, Any]) -> Tensor:
    if entry["dtype"] not in NAMES:
        raise DataError(f"{place} is of type {entry['dtype']}; vkgrad reads {', '.join(NAMES)}")
    dtype = DTYPES[NAMES[entry["dtype"]]]
    stored = np.frombuffer(bytes(entry["data"]), dtype.memory.newbyteorder("<")).reshape(entry["shape"])
    array = handed_out(stored, dtype)
    if dtype.kind in "iu" and dtype.size_bytes == 8 and engine.default_device().lacks(dtype):
        narrow = int32 if dtype.kind == "i" else uint32
        array, wide = array.astype(narrow.numpy), array
        if not np.array_equal(array, wide):
            raise DataError(f"{place} has integers that {narrow.name} cannot hold, and this device has none wider")
        dtype = narrow
    return tensor(array, dtype)
