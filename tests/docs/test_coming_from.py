"""Every row of the page for those who come from elsewhere runs; rows of NumPy give what NumPy gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import tree

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
pytestmark = pytest.mark.device


def rows(page: str) -> dict[str, list[tuple[str, str]]]:
    """By heading, the code of each row: theirs, and ours."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in page.split("\n## ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        found[part.splitlines()[0]] = [(_code(theirs), _code(ours)) for theirs, ours in cells]
    return found


def _code(cell: str) -> str:
    match = re.search(r"`([^`]+)`", cell)
    return match[1] if match else cell


ROWS = rows(PAGE.read_text())


def space() -> dict[str, object]:
    random = np.random.default_rng(0)
    vg.manual_seed(0)
    model = vg.nn.Linear(4, 3)
    labels = np.array([0, 1, 2, 0, 1, 2], np.int32)
    x, w = random.random((6, 4), np.float32), random.random((5, 4), np.float32)
    return {
        "vg": vg, "np": np, "x": vg.tensor(x), "w": vg.tensor(w), "a": x, "labels": vg.tensor(labels), "model": model,
        "optimiser": vg.optim.SGD(model, lr=0.1), "loss": lambda model: vg.nn.cross_entropy(model(x), labels),
    }  # fmt: skip


@pytest.mark.parametrize(("theirs", "ours"), ROWS["NumPy"], ids=[ours for _, ours in ROWS["NumPy"]])
def test_a_row_of_numpy_gives_what_numpy_gives(theirs: str, ours: str) -> None:
    names = space()
    arrays = {name: value.numpy() if isinstance(value, vg.Tensor) else value for name, value in names.items()}
    expected, got = eval(theirs, arrays), eval(ours, names)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


OTHERS = [ours for framework in ("PyTorch", "JAX") for _, ours in ROWS[framework]]


@pytest.mark.parametrize("ours", OTHERS)
def test_a_row_runs(ours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = space()
    exec(ours, names)
    vg.eval([leaf.value for name in sorted(names) if name != "__builtins__" for leaf in tree.leaves(names[name])
             if isinstance(leaf.value, vg.Tensor)])  # fmt: skip


def test_the_page_is_read_whole() -> None:
    assert set(ROWS) == {"NumPy", "PyTorch", "JAX"} and min(map(len, ROWS.values())) > 15


def test_a_wrong_row_is_noticed() -> None:
    page = "\n## NumPy\n\n| NumPy | vkgrad |\n|---|---|\n| `x + 1` | `x + 2` |\n"
    ((row,),) = rows(page).values()
    with pytest.raises(AssertionError):
        test_a_row_of_numpy_gives_what_numpy_gives(*row)
