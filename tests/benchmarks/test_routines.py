"""The benchmark of routines: its cases are right at a small size, a wrong value is noticed, a bound can be missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import routines
from benchmarks.routine_cases import cases
from vkgrad.config import config

pytestmark = pytest.mark.device


@pytest.mark.parametrize("device", ["", "cpu"])
def test_every_case_is_right_and_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str):
    out = tmp_path / "lines.jsonl"
    with config.override(device=device):
        assert routines.main(["--million", "1500", "--runs", "1", "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["case"] for line in lines] == [case.name for case in cases(1500)]
    assert all(line["median_us"] > 0 and set(line["peers"]) == {"torch", "cupy"} for line in lines)
    printed = capsys.readouterr().out
    assert "bound:" in printed and len(printed.splitlines()) > len(lines)


@pytest.mark.parametrize("name", ["cumsum 1e7", "scatter_add 1e6 -> 10", "fft 2^20", "eigh 128x128", "svd 1024x128"])
def test_a_wrong_value_is_noticed(name: str):
    (case,) = (case for case in cases(1500) if case.name == name)
    with config.override(device="cpu"):
        found = routines.as_numpy(routines.several(case.ours(*case.arrays)))
        assert case.error(found, case.arrays) <= case.tolerance
        off = [found[0] * np.float32(1.01), *found[1:]]
        assert case.error(off, case.arrays) > case.tolerance
        off_too = replace(case, ours=lambda *x: [y * 1.01 for y in routines.several(case.ours(*x))])
        assert "off by" in routines.measure(off_too, 1)["wrong"] and "wrong" not in routines.measure(case, 1)


def test_after_a_wrong_case_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    sums, unequal, last = cases(1500)[:3]
    runs, out = iter(range(9)), tmp_path / "lines.jsonl"
    off = replace(sums, ours=lambda x: sums.ours(x) * 1.01)
    unequal = replace(unequal, ours=lambda x: cases(1500)[1].ours(x) + next(runs))
    monkeypatch.setattr(routines, "cases", lambda million: [off, unequal, last])
    with config.override(device="cpu"):
        assert routines.main(["--million", "1500", "--runs", "1", "--out", str(out)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("WRONG: ") == 2 and "two runs differ" in printed and "off by" in printed
    assert [json.loads(line)["case"] for line in out.read_text().splitlines()] == [off.name, last.name]


def test_two_runs_that_differ_are_noticed():
    (case,) = (case for case in cases(1500) if case.name == "sort 1e6")
    runs = iter(range(9))
    with config.override(device="cpu"), pytest.raises(AssertionError, match="two runs differ"):
        routines.ours(replace(case, ours=lambda x: case.ours(x) + next(runs)))


def test_a_bound_that_is_missed_is_said():
    line = {"case": "cumsum", "times_copy": 2.5, "within": 3.0}
    assert routines.verdict([line]) == ("bound: 1 of 1 scans and scatters take no longer than 3 copies", True)
    said, kept = routines.verdict([line, line | {"times_copy": 3.5}])
    assert not kept and said.endswith("; not cumsum: 3.5")
