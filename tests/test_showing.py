"""What notebooks show of tensors, modules and plans is well-formed, whole where small, short where not."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import vkgrad as vg
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
