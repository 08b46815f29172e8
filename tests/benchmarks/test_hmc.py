"""The benchmark of draws: what it measures is right, wrong draws are noticed, and its table shows who has no time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import hmc, hmc_table


@pytest.mark.usefixtures("on_cpu")
def test_a_case_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hmc, "BATCH", 2)
    out = tmp_path / "lines.jsonl"
    assert hmc.main(["--runs", "1", "--cases", "3:64:4", "--out", str(out)]) == 0
    (line,) = (json.loads(text) for text in out.read_text().splitlines())
    assert (
        line["case"] == "d = 3, 64 chains, 4 steps" and line["median_us"] > 0 and set(line["peers"]) == set(hmc.PEERS)
    )
    assert line["case"] in capsys.readouterr().out
    assert hmc.main(["--seconds", "0", "--cases", "3:64:4"]) == 1


def test_wrong_draws_are_noticed():
    random, factor = np.random.default_rng(0), np.linalg.cholesky(hmc.covariance(4))
    hmc.checked(lambda count: random.standard_normal((64, 4)) @ factor.T, 64, 4)
    with pytest.raises(AssertionError, match="times right"):
        hmc.checked(lambda count: random.standard_normal((64, 4)), 64, 4)


def test_the_table():
    peers = {"jax_jit": {"median_us": 20.0}, "torch_eager": {"none_because": "not installed"}}
    line = {
        "benchmark": "hmc", "device": "GPU", "driver": "D 1", "commit": "abc", "case": "d = 2", "dispatches": 2,
        "median_us": 10.0, "p10_us": 9.0, "p90_us": 11.0, "peers": peers,
    }  # fmt: skip
    text = hmc_table.table([line | {"median_us": 99.0}, line, {"benchmark": "other"}])
    assert "| d = 2 | 2 | **10.0** | 9.00-11.0 | 20.0 |  |  |" in text
    assert "No time of PyTorch, eager: not installed." in text and "GPU; D 1; vkgrad at abc." in text
    assert hmc_table.table([]) == "No run has been recorded yet."
