"""The race with contenders that misbehave: who is wrong gets no time, the others do, and the exit status tells."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import race
from vkgrad.bench.results import Spread, percentile

FAKE = "tests.benchmarks.fake_contender"
NUMBER = re.compile(r"\[[\d.]+-[\d.]+\]")  # the spread behind a printed time


def run(capsys, tmp_path, *more, names=FAKE):
    status = race.main(
        ["--models", "mlp", "--batches", "4", "--contenders", names, "--rounds", "2", "--budget", "0.05",
         "--read-every", "2", "--out", str(tmp_path), *more]
    )  # fmt: skip
    return status, capsys.readouterr()


def test_right_values_are_timed_in_every_arm_with_the_ratio_of_two_equal_runs(capsys, tmp_path):
    status, printed = run(capsys, tmp_path)
    assert status == 0
    assert len(NUMBER.findall(printed.out)) == 2 * len(race.ARMS)  # itself and itself again
    ratios = re.findall(r"A/A ratio +([\d.]+)$", printed.out, re.M)
    assert len(ratios) == len(race.ARMS) and all(0.01 < float(ratio) < 100 for ratio in ratios)


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("wrong", "REFUSED: the loss of step 0 is"),
        ("diverges", "REFUSED: the loss after the timed steps is nan"),
    ],
)
def test_wrong_values_get_no_time_and_a_bad_exit_status(capsys, tmp_path, monkeypatch, manner, said):
    monkeypatch.setenv("VKGRAD_FAKE", manner)
    status, printed = run(capsys, tmp_path)
    assert status == 1
    assert said in printed.out
    assert not NUMBER.findall(printed.out)


@pytest.mark.parametrize(("manner", "said"), [("crashes", "ended early"), ("absent", "absent: this machine has none")])
def test_who_cannot_race_is_reported(capsys, tmp_path, monkeypatch, manner, said):
    monkeypatch.setenv("VKGRAD_FAKE", manner)
    _, printed = run(capsys, tmp_path, "--check")
    assert f"{said}" in printed.out


def test_layers_in_the_environment_stop_the_race(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    status, printed = run(capsys, tmp_path)
    assert status == 1 and "VK_INSTANCE_LAYERS" in printed.err and not printed.out


@pytest.mark.device
def test_vkgrad_races_beside_a_peer_and_leaves_a_line(capsys, tmp_path):
    status, printed = run(capsys, tmp_path, names=f"vkgrad_jit,{FAKE},nowhere.to_be_found")
    assert status == 0, printed.out
    assert "to_be_found has no time. absent: No module named 'nowhere'" in printed.out
    lines = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert {line["arm"] for line in lines} == set(race.ARMS)
    line = next(line for line in lines if line["contender"] == "vkgrad_jit" and line["arm"] == "pipelined")
    assert line["p10_us"] <= line["median_us"] <= line["p90_us"] and line["runs"] == 6
    assert line["rows"] and line["dispatches"] and line["driver"]
    assert line["peers"]["fake_contender"]["numpy"] and "absent" in line["peers"]["to_be_found"]["none_because"]


@pytest.mark.device
def test_vkgrad_on_another_device_than_asked_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(race, "environment", lambda device, whole=race.environment: whole("cpu"))
    status, printed = run(capsys, tmp_path, "--device", "Imaginary GPU", "--check", names="vkgrad_jit")
    assert status == 1
    assert "REFUSED: ran on 'cpu', asked for 'Imaginary GPU'" in printed.out


def test_percentiles_are_linear_between_neighbours():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([0.0, 10.0], 0.1) == pytest.approx(1.0)
    assert Spread.of([5.0]) == Spread(5.0, 5.0, 5.0, 1)
