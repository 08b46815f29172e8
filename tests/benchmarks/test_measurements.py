"""The other benchmarks run, prove what they measure, and see a warm cache."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vkgrad as vg
from benchmarks import costs, first_step, kernels
from vkgrad.errors import UnsupportedError
from vkgrad.profile import profile

pytestmark = pytest.mark.device


def test_kernels_of_a_step_are_timed_one_by_one(capsys, tmp_path):
    assert kernels.main(["--models", "mlp", "--batches", "4", "--runs", "3", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    lines = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == sum(line.startswith("mlp 4 #") for line in printed.splitlines()) > 3
    assert all(line["median_us"] > 0 and line["row"] for line in lines)


def test_a_profile_sees_every_kernel_and_level():
    x = vg.tensor(np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32))
    vg.eval(x)
    step = vg.jit(lambda: ((x @ x).sum(0), vg.exp(x)))
    step()
    found = profile(step, runs=3)
    assert len(found.kernels) == len(found.levels_us) + 1  # exp runs beside the product
    assert found.whole_us > 0 and all(kernel.time_us > 0 for kernel in found.kernels)


def test_a_profile_of_nothing_is_refused():
    with pytest.raises(UnsupportedError, match="no kernels"):
        profile(lambda: None)


def test_costs_of_the_runtime(capsys, tmp_path):
    given = ["--runs", "2", "--lengths", "1,3", "--mebibytes", "0.01", "--out", str(tmp_path)]
    assert costs.main(given) == 0
    printed = capsys.readouterr().out
    for what in ("record", "submit", "wait", "replay", "pipeline, cold", "from the cache file", "upload", "download"):
        assert what in printed


def test_a_second_process_compiles_nothing(capsys, tmp_path):
    assert first_step.main(["--models", "mlp", "--runs", "1", "--out", str(tmp_path)]) == 0
    cold, warm = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert cold["shaders_compiled"] > 0 and warm["shaders_compiled"] == 0


def test_a_second_process_that_compiles_is_noticed(capsys, tmp_path, monkeypatch):
    """The mutation: each process finds an empty folder."""
    run, folders = first_step.run, iter(range(9))
    monkeypatch.setattr(first_step, "run", lambda model, caches: run(model, caches / str(next(folders))))
    assert first_step.main(["--models", "mlp", "--runs", "1", "--out", str(tmp_path)]) == 1
