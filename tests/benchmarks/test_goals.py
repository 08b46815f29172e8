"""Goals are judged by the newest numbers, and a number on the wrong side of its limit is a goal missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import collect, convolutions, goals, products, tables, ulps
from benchmarks.goals import DEVICE

ROOT = Path(__file__).parents[2]


def everything(slower: float = 1.0) -> list[dict]:
    """Lines by which every goal is met, or, `slower`, none."""
    device = {"device": DEVICE, "commit": "abc"}

    def race(model, batch, arm, us, contender="vkgrad_jit"):
        peers = {"torch_eager": {"median_us": 100.0}}
        counts = {"dispatches": int(4 * slower), "levels": int(3 * slower)}
        return device | counts | {
            "model": model, "shape": [batch, 784], "arm": arm, "contender": contender, "median_us": us * slower,
            "peers": peers,
        }  # fmt: skip

    lines = [
        *(race("mlp", batch, "pipelined", 25.0) for batch in (32, 256, 2048)),
        *(race("lenet", batch, "pipelined", 90.0) for batch in (32, 256, 2048)),
        *(race("mlp", 32, arm, us) for arm, us in (("waiting", 35.0), ("fed", 40.0), ("host", 5.0))),
        race("mlp", 32, "pipelined", 50.0, "vkgrad_eager"),
        device | {"model": "mlp", "arm": "first step, warm", "total_us": 3e5 * slower},
    ]
    shapes = [("products", s) for name in ("gemm", "odd", "half") for s in products.SHAPES[name]]
    shapes += [("convolutions", s) for name in ("resnet", "small") for s in convolutions.LAYERS[name]]
    lines += [
        device | {"benchmark": name, "shape": s.name, "torch_us": 100.0, "plan_us": 90.0 * slower} for name, s in shapes
    ]
    cases = ("a * b + a", "softmax of 64", "layer norm of 64", "sum over axis 0", "sum over axis 1", "transpose")
    return lines + [
        device | {"benchmark": "bandwidth", "case": name, "shape": [8192, 8192], "gb_s": 95 / slower, "roof_gb_s": 100}
        for name in cases
    ]


def test_all_are_met_or_all_are_missed_by_the_same_lines_with_other_numbers() -> None:
    assert all(one.is_met for one in goals.judged(everything()))
    missed = goals.judged(everything(slower=10))
    assert all(one.is_measured and not one.is_met for one in missed)
    assert not any(one.is_measured for one in goals.judged([]))
    text = goals.table(everything(slower=10))
    assert text.count("| missed |") == len(goals.GOALS) and text.count("\n* *") == len(goals.GOALS)


def test_each_number_alone_can_miss_its_goal() -> None:
    """Mutation: one line made slower. What it belongs to is missed, and its number is bold."""
    for number, line in enumerate(everything()):
        if line.get("shape") in [s.name for s in products.SHAPES["half"]] or "benchmark" not in line:
            continue
        lines = everything()
        key = "gb_s" if "gb_s" in line else "torch_us"
        lines[number][key] = line[key] / 1e9
        results = goals.judged(lines)
        assert sum(not one.is_met for one in results) == 1, line
        assert "**" in next(one for one in results if not one.is_met).measured


def test_newer_lines_count_and_other_devices_do_not() -> None:
    lines = everything(slower=10) + everything()
    assert all(one.is_met for one in goals.judged(lines))
    others = [line | {"device": "llvmpipe"} for line in everything(slower=10)]
    assert all(one.is_met for one in goals.judged(lines + others))


def test_a_mean_over_some_of_its_shapes_is_no_measurement() -> None:
    gone = products.SHAPES["odd"][3].name
    results = goals.judged(line for line in everything() if line.get("shape") != gone)
    assert [one.goal.key for one in results if not one.is_measured] == ["odd"]


def test_every_goal_that_is_missed_says_why() -> None:
    words = json.loads(goals.WORDS.read_text())
    known = {goal.key for goal in goals.GOALS}
    assert set(words) <= known
    missed = {
        one.goal.key for one in goals.judged(tables.read(ROOT / "bench_results")) if one.is_measured and not one.is_met
    }
    assert missed <= set(words)


@pytest.mark.device
def test_lines_become_records_with_their_conditions(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"shape": "gemm", "plan_us": 2.0}\n')
    assert collect.main(["products", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "out")]) == 0
    (line,) = tables.read(tmp_path / "out")
    assert line["benchmark"] == "products" and line["plan_us"] == 2.0
    assert line["device"] and line["driver"] and line["commit"]
    (tmp_path / "empty.jsonl").write_text("")
    assert collect.main(["products", str(tmp_path / "empty.jsonl"), "--out", str(tmp_path / "out")]) == 1


@pytest.mark.device
def test_errors_of_functions_are_kept_when_a_later_function_fails(tmp_path: Path, monkeypatch) -> None:
    honest = ulps.measure

    def measure(name, dtype, blocks):
        if name == "cos":
            raise KeyboardInterrupt
        return honest(name, dtype, blocks)

    monkeypatch.setattr(ulps, "measure", measure)
    path = tmp_path / "ulps.json"
    monkeypatch.setattr("sys.argv", ["ulps", "sin", "cos", "--blocks", "1", "--slow-blocks", "1", "--out", str(path)])
    with pytest.raises(KeyboardInterrupt):
        ulps.main()
    assert list(json.loads(path.read_text())["float32"]["functions"]) == ["sin"]
