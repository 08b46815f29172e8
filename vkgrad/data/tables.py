"""Numbers from CSV files, as arrays. This module must not know batches or tensors."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.errors import DataError, DataNotFoundError
from vkgrad.spelling import meant

Array = np.ndarray[Any, np.dtype[Any]]


def read_csv(
    path: str | os.PathLike[str], columns: Sequence[str | int] | None = None, delimiter: str = ",", header: bool = True
) -> Array:
    """Return columns of a CSV file of numbers, as an (N, columns) float32 array. An empty field is NaN.

    Args:
        columns: names from the first line, or numbers from 0; all of them unless given.
        header: whether the first line has names.

    Raises:
        DataNotFoundError: there is no such file.
        DataError: a field is no number, a line is too short or too long, or a column is not there; the text says where.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "houses.csv")
        >>> _ = open(path, "w").write("rooms,price\\n3,1.5\\n5,2.5\\n")
        >>> read_csv(path, ["price"]).tolist()
        [[1.5], [2.5]]
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=delimiter)
            lines = [(reader.line_num, fields) for fields in reader if fields]
    except FileNotFoundError:
        raise DataNotFoundError(f"{path}: no such CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a CSV file in UTF-8 ({error}); write it anew") from None
    names = [name.strip() for name in lines.pop(0)[1]] if header and lines else []
    width = len(names) if names else len(lines[0][1]) if lines else 0
    chosen = [_place(path, column, names, width) for column in (range(width) if columns is None else columns)]
    rows = []
    for number, fields in lines:
        if len(fields) != width:
            raise DataError(f"{path}, line {number}: {len(fields)} fields where the first line has {width}")
        rows.append([_number(path, number, names, place, fields[place]) for place in chosen])
    return np.array(rows, np.float32).reshape(len(rows), len(chosen))


def _place(path: str | os.PathLike[str], column: str | int, names: list[str], width: int) -> int:
    if isinstance(column, str):
        if column not in names:
            known = f"there are {', '.join(names)}" if names else "the first line has no names"
            raise DataError(f"{path}: no column {column!r}; {meant(column, names) or known}")
        return names.index(column)
    if not 0 <= column < width:
        raise DataError(f"{path}: no column {column}; there are {width}")
    return column


def _number(path: str | os.PathLike[str], line: int, names: list[str], place: int, text: str) -> float:
    if not text.strip():
        return float("nan")
    try:
        return float(text)
    except ValueError:
        name = f" ({names[place]})" if names else ""
        raise DataError(
            f"{Path(path)}, line {line}, column {place}{name}: {text!r} is not a number; columns=[...] reads others"
        ) from None
