"""The notebooks run from top to bottom, and a cell that fails fails the test."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    return NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()


@pytest.mark.device
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path) -> None:
    notebook = jupytext.read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert sum("assert " in cell.source for cell in cells) >= 5
    execute(notebook, tmp_path)
    if path.stem == "01_ten_minutes":
        pictures = [
            out.data["image/svg+xml"]
            for cell in cells
            for out in cell.outputs
            if "image/svg+xml" in out.get("data", {})
        ]
        assert len(pictures) == 2 and all("<svg" in picture for picture in pictures)


def test_there_are_notebooks() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, 10)]


def test_a_failing_cell_is_noticed(tmp_path: Path) -> None:
    notebook = jupytext.reads("# %%\nassert 1 == 2\n", fmt="py:percent")
    with pytest.raises(CellExecutionError):
        execute(notebook, tmp_path)
