"""What notebooks show of tensors, modules and plans is well-formed, whole where small, short where not."""

from __future__ import annotations

import re
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import ShapeError
from vkgrad.showing import MOST_SHOWN, html_array

pytestmark = pytest.mark.device


def cells(page: str) -> list[list[str]]:
    return [[cell.text or "" for cell in row.iter("td")] for row in ElementTree.fromstring(page).iter("tr")]


def test_a_small_matrix_is_shown_whole() -> None:
    shown = vg.tensor([[1.0, 2.5], [-3.0, np.inf]])._repr_html_()
    assert cells(shown) == [["1", "2.5"], ["-3", "inf"]]
    assert "float32 (2, 2)" in shown


def test_of_a_large_one_the_corners() -> None:
    value = np.arange(100 * 200).reshape(100, 200)
    found = cells(html_array("large", value))
    assert len(found) == len(found[0]) == 2 * MOST_SHOWN + 1
    assert (found[0][0], found[-1][-1], found[MOST_SHOWN][0], found[0][MOST_SHOWN]) == ("0", "19999", "…", "…")


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (0, 4)])
def test_every_rank_is_shown(shape: tuple[int, ...]) -> None:
    ElementTree.fromstring(vg.ones(shape)._repr_html_())


def test_a_module_has_a_row_for_each_part() -> None:
    model = vg.nn.Sequential(vg.nn.Linear(3, 4), vg.nn.ReLU(), vg.nn.Linear(4, 2))
    shown = model._repr_html_()
    rows = cells(shown)[1:]
    assert [row[0] for row in rows] == ["·", "0", "1", "2"]
    assert [row[2] for row in rows] == ["26", "16", "0", "10"]
    assert "weight (4, 3)" in rows[1][3]


def test_a_plan_has_a_row_for_each_kernel() -> None:
    x = vg.tensor(np.ones((4, 4), np.float32))
    plan = vg.plan(vg.softmax(x @ x))
    rows = cells(plan._repr_html_())[1:]
    assert len(rows) == len(plan.kernels)
    assert [int(row[1]) for row in rows] == [kernel.level for kernel in plan.kernels]


def test_tables_bring_no_colours_of_their_own() -> None:
    """A notebook may be dark: only lines that can be seen on both are drawn."""
    shown = vg.ones((2, 2))._repr_html_()
    assert not re.search(r"(?<!-)color:|background", shown)


# ---- what completion offers, and what prints as one line
@pytest.mark.parametrize(
    "module", [vg.nn, vg.nn.functional, vg.optim, vg.data, vg.viz, vg.random, vg.linalg, vg.metrics]
)
def test_completion_offers_what_is_meant_to_be_used(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in dir(module))


def test_completion_of_the_package() -> None:
    offered = set(dir(vg))
    assert {"nn", "data", "fit", "save", "tensor", "sin", "errors", "viz", "float32", "__version__"} <= offered
    assert not {"engine", "ir", "ops", "functions", "step", "NO_COMPLEX", "TYPE_CHECKING"} & offered
    assert [name for name in offered if not hasattr(vg, name)] == []
    assert vg.__version__[0].isdigit()


def test_data_shows_its_shapes_not_its_elements() -> None:
    split = vg.data.Split(np.zeros((30, 8, 8), np.uint8), np.zeros(30, np.int32))
    assert repr(split) == "Split(images (30, 8, 8) uint8, labels (30,) int32)"
    whole = vg.data.Dataset(split, split.first(2), ("a", "b"), "here")
    assert repr(whole).splitlines() == [
        "Dataset from here",
        "  train: Split(images (30, 8, 8) uint8, labels (30,) int32)",
        "  test:  Split(images (2, 8, 8) uint8, labels (2,) int32)",
        "  2 classes, a to b",
    ]
    loader = vg.data.DataLoader(split.images, split.labels, batch_size=8)
    assert repr(loader) == "DataLoader of 4 batches of 8, shuffled, from (30, 8, 8) uint8, (30,) int32"


def test_one_element_formats_as_a_number() -> None:
    loss = vg.tensor([1.23456])
    assert f"{loss:.3f}" == "1.235" and round(loss, 2) == pytest.approx(1.23) and round(loss) == 1
    assert f"{loss}" == repr(loss)
    with pytest.raises(ShapeError, match="2 elements"):
        f"{vg.ones((2,)):.3f}"


def test_schedules_and_stopping_say_where_they_are() -> None:
    optimizer = vg.optim.Adam(vg.nn.Linear(2, 2), lr=0.5)
    schedule = vg.optim.StepLR(optimizer, 1, gamma=0.5)
    schedule.step()
    assert repr(schedule) == "StepLR: lr 0.25 after 1 steps"
    stopping = vg.EarlyStopping("loss", patience=3)
    assert repr(stopping) == "EarlyStopping('loss', patience=3): best nothing yet"
    for loss in (2.0, 3.0):
        stopping({"loss": loss}, vg.nn.Linear(1, 1))
    assert repr(stopping) == "EarlyStopping('loss', patience=3): best 2, 1 epochs ago"
