"""The benchmark of recurrent layers runs, with kernels for each step too, and leaves the limits as they were."""

from __future__ import annotations

import sys

import pytest

from benchmarks import recurrent
from vkgrad.ops import recurrences

pytestmark = pytest.mark.usefixtures("on_cpu")


def test_it_prints_a_line_for_each_case(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    before = recurrences.MOST_WEIGHTS
    arguments = ["recurrent", "--runs", "1", "--cases", "LSTM:5:2:4,RNN:3:1:2", "--steps"]
    monkeypatch.setattr(sys, "argv", arguments)
    recurrent.main()
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["LSTM:5:2:4", "RNN:3:1:2"]
    assert all("ours" in line and "PyTorch" in line and "by steps" in line for line in lines)
    assert before == recurrences.MOST_WEIGHTS
