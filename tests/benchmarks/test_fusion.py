"""The benchmark of fusion: small cases of each group have their lines, plans that differ and lost cases are noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from benchmarks import fusion
from vkgrad.config import config

pytestmark = pytest.mark.device


@pytest.mark.parametrize("device", ["", "cpu"])
def test_lines_of_small_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    out = tmp_path / "lines.jsonl"
    with config.override(device=device):
        fusion.main(["--groups", "rows,shared", "--cases", " 8x64", "--runs", "1", "--out", str(out)])
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["case"] for line in lines] == ["softmax 8x64", "norm 8x64", "sum 8x64"]
    assert all(line["dispatches"] == 1 < line["dispatches_other"] and line["ratio"] > 0 for line in lines)
    assert "of 3" in capsys.readouterr().out
    assert "softmax" in fusion.table(line | {"benchmark": "fusion", "device": "cpu"} for line in lines)


def test_the_groups() -> None:
    names = [case.name for group in (fusion.steps, fusion.shared) for case in group()]
    assert names[:3] == ["step MLP 32", "step MLP 256", "step MLP 2048"] and "shared softmax 64x64" in names


def test_plans_that_differ_are_noticed(on_cpu: None) -> None:
    x = vg.tensor(np.ones((4, 8), np.float32))
    case = fusion.Case("sum 4x8", lambda: [vg.sum(x, axis=1) * (1.0 if config.fuse else 1.01)])
    with pytest.raises(AssertionError, match="the plans differ"):
        fusion.agree(case)
    assert fusion.agree(replace(case, graph=lambda: [vg.sum(vg.exp(x), axis=1)])) == (1, 2)


def test_a_lost_case_is_one_by_more_than_the_clock() -> None:
    line = {"case": "sum", "median_us": 100.0, "other_us": 90.0, "ratio": 0.9}
    assert fusion.lost(line)
    assert not fusion.lost(line | {"other_us": 98.0, "ratio": 0.98})
    assert not fusion.lost(line | {"median_us": 5.0, "other_us": 4.5})
