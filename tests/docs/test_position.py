"""The table beside other libraries is whole, and every cell has a source: their pages at a commit, ours, or a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "position.md"
COLUMNS = ["vkgrad", "NumPy", "PyTorch", "JAX", "tinygrad", "MLX", "nx_vulkan"]
ROWS = {
    "Where it runs": [
        "GPUs", "without a GPU", "to be installed beside it", "operating systems", "several devices in one training",
    ],
    "How it runs": [
        "lazy or eager", "fusion", "a whole training step in one submission", "recorded or compiled functions",
        "shapes that change from call to call", "results whose size depends on values", "branches and loops on values",
        "kernels of your own", "what the device cannot compute", "profiler",
    ],
    "Derivatives": ["reverse mode, of any order", "forward mode", "`vmap`"],
    "Numbers": [
        "float64 on the GPU", "half precision, matrix units", "complex numbers", "quantisation", "random numbers",
        "the same bits in two runs",
    ],
    "What is in it": [
        "layers and optimisers", "linear algebra", "Fourier transforms", "sparse arrays", "distributions, Monte Carlo",
    ],
    "Around it": ["array API standard", "DLPack", "files", "age and company", "language", "licence"],
}  # fmt: skip

# Whose word counts for whom. A backend of Nx has what Nx has.
COMMIT = "[0-9a-f]{40}/"
OWN = {
    "NumPy": [f"https://github.com/numpy/numpy/blob/{COMMIT}"],
    "PyTorch": [
        f"https://github.com/pytorch/pytorch/blob/{COMMIT}",
        r"https://github\.com/pytorch/pytorch/issues/\d+$",
        r"https://pytorch\.org/",
    ],
    "JAX": [f"https://github.com/jax-ml/jax/blob/{COMMIT}"],
    "tinygrad": [f"https://github.com/tinygrad/tinygrad/blob/{COMMIT}"],
    "MLX": [f"https://github.com/ml-explore/mlx/blob/{COMMIT}"],
    "nx_vulkan": [
        f"https://github.com/borodark/nx_vulkan/blob/{COMMIT}",
        f"https://github.com/elixir-nx/nx/blob/{COMMIT}",
        r"https://hex\.pm/packages/nx_vulkan/[\d.]+$",
    ],
}


def tables(page: str) -> dict[str, list[list[str]]]:
    """By heading, the rows of the tables that have a column for each library, their head first."""
    found = {}
    for part in page.split("\n## ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
        if rows and "vkgrad" in rows[0]:
            found[part.splitlines()[0]] = [rows[0], *rows[2:]]
    return found


def references(page: str) -> dict[str, str]:
    return dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", page, re.M))


def trouble(column: str, cell: str, known: dict[str, str]) -> str | None:
    """What is wrong with a cell: no source, a source that is not the library's own, or one that is not there."""
    if cell == "not stated":
        return "vkgrad can say what it has" if column == "vkgrad" else None
    inline = re.findall(r"\]\(([^)]+)\)", cell)
    named = re.findall(r"\]\[([^\]]+)\]", cell)
    if not inline and not named:
        return "no source"
    if column == "vkgrad":
        missing = [target for target in inline if not (PAGE.parent / target.partition("#")[0]).exists()]
        return f"not in the repository: {missing}" if missing or named else None
    if unknown := [name for name in named if name not in known]:
        return f"leads nowhere: {unknown}"
    addresses = [*inline, *[known[name] for name in named]]
    foreign = [address for address in addresses if not any(re.match(own, address) for own in OWN[column])]
    return f"not {column}'s own word at a commit: {foreign}" if foreign else None


TEXT = PAGE.read_text()
CELLS = [
    pytest.param(column, cell, id=f"{row[0]}-{column}")
    for rows in tables(TEXT).values()
    for row in rows[1:]
    for column, cell in zip(COLUMNS, row[1:], strict=True)
]


def test_every_row_and_every_column_is_there() -> None:
    found = tables(TEXT)
    assert {heading: [row[0] for row in rows[1:]] for heading, rows in found.items()} == ROWS
    assert all(rows[0] == ["", *COLUMNS] for rows in found.values())
    assert len(CELLS) == sum(map(len, ROWS.values())) * len(COLUMNS)


@pytest.mark.parametrize(("column", "cell"), CELLS)
def test_a_cell_says_where_it_comes_from(column: str, cell: str) -> None:
    assert trouble(column, cell, references(TEXT)) is None


def test_every_source_is_used_and_named_once() -> None:
    names = re.findall(r"^\[([^\]]+)\]: ", TEXT, re.M)
    used = set(re.findall(r"\]\[([^\]]+)\]", TEXT))
    assert len(names) == len(set(names)) and set(names) == used
    assert len(set(references(TEXT).values())) == len(names)


def test_what_is_not_stated_is_the_smaller_part() -> None:
    cells = [cell for rows in tables(TEXT).values() for row in rows[1:] for cell in row[2:]]
    assert cells.count("not stated") < len(cells) / 5


def test_the_day_and_the_versions_are_said() -> None:
    assert re.search(r"looked at on \d{1,2} [A-Z][a-z]+ 20\d\d", TEXT)
    versions = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|$", TEXT, re.M))
    assert list(versions)[-len(COLUMNS) :] == COLUMNS
    for name, version in versions.items():
        for commit in re.findall(r"`([0-9a-f]{7})`", version):
            assert f"/blob/{commit}" in TEXT, (name, commit)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("JAX", "yes"),
        ("JAX", ""),
        ("JAX", "[yes][jax-nowhere]"),
        ("JAX", "[yes][mlx-ops]"),
        ("JAX", "[yes](https://github.com/jax-ml/jax/blob/main/README.md)"),
        ("MLX", "[yes](https://example.org/mlx)"),
        ("vkgrad", "yes"),
        ("vkgrad", "not stated"),
        ("vkgrad", "[yes](numerous.md)"),
        ("vkgrad", "[yes](../tests/test_that_nobody_wrote.py)"),
        ("vkgrad", "[yes][mlx-ops]"),
    ],
)
def test_a_cell_without_a_source_of_its_own_fails(column: str, cell: str) -> None:
    assert trouble(column, cell, references(TEXT))


def test_a_row_or_column_that_is_missing_fails() -> None:
    shorter = TEXT.replace("\n| licence |", "\n| license |", 1)
    assert tables(shorter)["Around it"][-1][0] not in ROWS["Around it"]
    assert tables("\n## A\n\n|  | vkgrad |\n|---|---|\n| x | y |\n") == {"A": [["", "vkgrad"], ["x", "y"]]}
