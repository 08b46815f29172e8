"""Save and load named tensors as safetensors files, the format that PyTorch and others exchange weights in.

A value is stored exactly or refused; loading one of a type that vkgrad does not have widens it, or narrows it where
every element fits. This module must not know modules or optimisers: they have a state dict.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from vkgrad.errors import DataError, DataNotFoundError
from vkgrad.ir.dtypes import DTYPES
from vkgrad.tensor import Tensor, tensor

Array = np.ndarray[Any, np.dtype[Any]]

# The format's element types that NumPy has, and as what each is handed out. BF16 is the upper half of a float32.
LOADED_AS: dict[str, tuple[str, str]] = {
    "BOOL": ("?", "bool"),
    "U8": ("<u1", "int32"),
    "I8": ("<i1", "int32"),
    "U16": ("<u2", "int32"),
    "I16": ("<i2", "int32"),
    "U32": ("<u4", "uint32"),
    "I32": ("<i4", "int32"),
    "U64": ("<u8", "uint32"),
    "I64": ("<i8", "int32"),
    "F16": ("<f2", "float32"),
    "BF16": ("<u2", "float32"),
    "F32": ("<f4", "float32"),
    "F64": ("<f8", "float64"),
}


def save(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write named tensors, such as a state dict, to a safetensors file.

    The file is written beside its place and then moved there, so that it is never half written.

    Raises:
        DataError: a value is not a tensor, or is a NumPy array of a type that vkgrad does not have.

    Example:
        >>> import os, tempfile, vkgrad as vg
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> vg.save({"w": vg.tensor([1.0, 2.0])}, path)
        >>> vg.load(path)["w"].tolist()
        [1.0, 2.0]
    """
    content = safetensors.numpy.save({name: _saved(name, value) for name, value in state.items()})
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent or None, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read a safetensors file, also one that PyTorch wrote, as named tensors.

    float16 and bfloat16 become float32, which holds them exactly; small and 64-bit integers become int32 or uint32.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: the file is damaged, or a tensor is of a type or has an integer that vkgrad cannot hold.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise DataNotFoundError(f"{path}: no such safetensors file") from None
    try:
        entries = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"{path}: not a safetensors file, or damaged: {error}") from error
    return {name: tensor(_array(f"{path}: {name}", entry)) for name, entry in entries}


def _saved(name: str, value: Any) -> Array:
    if not isinstance(value, Tensor | np.ndarray):
        raise DataError(f"save: {name} is a {type(value).__name__}; only tensors and NumPy arrays can be saved")
    array = np.asarray(value)
    if array.dtype.name not in DTYPES:
        raise DataError(f"save: {name} is of type {array.dtype}; convert it to one of {', '.join(DTYPES)}")
    # safetensors 0.8 writes an array that is not contiguous as its memory lies, so wrongly, and without an error.
    return np.ascontiguousarray(array).reshape(array.shape)


def _array(place: str, entry: Mapping[str, Any]) -> Array:
    if entry["dtype"] not in LOADED_AS:
        raise DataError(f"{place} is of type {entry['dtype']}; vkgrad reads {', '.join(LOADED_AS)}")
    stored, wanted = LOADED_AS[entry["dtype"]]
    array = np.frombuffer(bytes(entry["data"]), stored).reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    loaded = array.astype(wanted)
    if array.dtype.kind in "iu" and not np.array_equal(loaded, array):
        raise DataError(f"{place} has integers that {wanted} cannot hold")
    return loaded
