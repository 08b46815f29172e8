"""The benchmark of kernels that move memory: all its cases are right at a small size, and a wrong value is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from benchmarks import bandwidth

pytestmark = pytest.mark.device


def test_every_case_is_right_and_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "lines.jsonl"
    assert bandwidth.main(["--log2", "14", "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["case"] for line in lines] == [case.name for case in bandwidth.cases(14)]
    assert all(line["us"] > 0 and line["gb_s"] > 0 and line["roof_gb_s"] > 0 for line in lines)
    assert "of the copy" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a * b + a", "softmax of 64", "sum over axis 0", "transpose"])
def test_a_wrong_value_is_noticed(name: str):
    case = next(case for case in bandwidth.cases(12) if case.name == name)
    arrays = [np.random.default_rng(n).uniform(-1, 1, case.shape).astype("f4") for n in range(case.inputs)]
    value = case.ours(*map(vg.tensor, arrays))
    assert bandwidth.check(case, value, arrays) < 3e-5
    off = replace(case, numpy=lambda *given: case.numpy(*given) * 1.001)
    assert bandwidth.check(off, value, arrays) > 3e-5
