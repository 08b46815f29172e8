"""The tables in the pages are what the lines in `bench_results/` make, with every contender and every lost race."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import routine_table, tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "benchmarks.md"]


def line(time_us: float, *, model="mlp", batch=32, arm="pipelined", **peers: float | str) -> dict:
    return {
        "commit": "abc", "device": "GPU", "driver": "D 1", "model": model, "shape": [batch, 784], "dtype": "float32",
        "contender": "vkgrad_jit", "arm": arm, "median_us": time_us,
        "peers": {
            name.replace("again", "vkgrad_jit (again)"): {"torch": "2", "none_because": found}
            if isinstance(found, str)
            else {"torch": "2", "median_us": found}
            for name, found in peers.items()
        },
    }  # fmt: skip


def test_pages_are_what_the_script_makes():
    assert tables.main(["--check", *map(str, PAGES)]) == 0
    for page in PAGES:
        assert tables.MARK.search(page.read_text()), page


def test_every_race_that_was_recorded_is_in_the_pages():
    races = tables.newest(tables.read(ROOT / "bench_results"))
    for device, arms in races.items():
        for page in PAGES:
            assert device in page.read_text()
        for arm in arms:
            assert f"`{arm}`" in PAGES[1].read_text()


def test_a_page_changed_by_hand_is_stale_and_is_written_again(tmp_path, capsys):
    (tmp_path / "r").mkdir()
    lines = [line(30.0, torch_cuda_graph=60.0), line(90.0, batch=2048, jax_jit=60.0, torch_cuda_graph=100.0)]
    (tmp_path / "r" / "2026-01-01-gpu.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: races -->\n<!-- end measured -->\nafter\n")
    given = ["--from", str(tmp_path / "r")]
    assert tables.main([*given, "--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err
    assert tables.main([*given, "--write", str(page)]) == 0
    assert tables.main([*given, "--check", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    page.write_text(text.replace("30.0", "29.0"))
    assert tables.main([*given, "--check", str(page)]) == 1


def test_ratios_are_to_the_cuda_graph_and_the_fastest_is_bold():
    text = tables.full(tables.newest([line(30.0, torch_cuda_graph=60.0, jax_jit=90.0, again=33.0)]))
    assert "| **vkgrad**, `vg.jit` | **30.0** (0.50) |" in text
    assert "| PyTorch, CUDA graph | 60.0 (1.00) |" in text
    assert "| JAX, `jax.jit` | 90.0 (1.50) |" in text
    assert "| the same twice | 1.10 |" in text
    assert "Lost 0 of 1." in text


def test_lost_races_are_told_with_who_won():
    text = tables.full(tables.newest([line(90.0, batch=2048, torch_cuda_graph=100.0, jax_jit=60.0)]))
    assert "| **vkgrad**, `vg.jit` | 90.0 (0.90) |" in text and "| JAX, `jax.jit` | **60.0** (0.60) |" in text
    assert "Lost 1 of 1: MLP 2048: 90.0 µs against 60.0 of JAX, `jax.jit`." in text


def test_without_a_cuda_graph_ratios_are_to_eager_and_who_has_no_time_is_told_why():
    text = tables.full(tables.newest([line(40.0, torch_eager=20.0, torch_cuda_graph="absent: no CUDA device")]))
    assert "µs (ratio to PyTorch, eager)" in text and "(2.00)" in text
    assert "| PyTorch, CUDA graph | no time |" in text
    assert "No time: PyTorch, CUDA graph, absent: no CUDA device." in text


def test_the_newest_race_counts_even_if_it_is_the_worse_one():
    lines = [line(30.0, torch_cuda_graph=60.0), line(70.0, torch_cuda_graph=60.0)]
    text = tables.full(tables.newest(lines))
    assert "70.0" in text and "30.0" not in text and "Lost 1 of 1" in text


def test_other_measurements_are_no_races():
    alone = line(30.0)
    kernel = {"device": "GPU", "op": "exp", "median_us": 1.0}
    assert tables.newest([alone, kernel]) == {}
    assert tables.short({}) == tables.full({}) == "No race has been recorded yet."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_marks_are_well_formed(page):
    text = page.read_text()
    marks = [len(re.findall(mark, text)) for mark in ("<!-- measured: ", "<!-- end measured")]
    assert marks == [len(tables.MARK.findall(text))] * 2 and marks[0] >= 1


def test_routines_show_peers_reasons_and_bounds_that_were_missed():
    def of(case: str, times: float, **peers: dict) -> dict:
        return {
            "benchmark": "routines", "device": "GPU", "driver": "D 1", "commit": "abc", "case": case, "dispatches": 2,
            "median_us": 30.0, "p10_us": 29.0, "p90_us": 31.0, "copy_us": 10.0, "times_copy": times, "within": 3.0,
            "error": 1e-7, "peers": {"torch": {"median_us": 44.0}, "cupy": {"none_because": "not installed"}, **peers},
        }  # fmt: skip

    made = routine_table.table([of("cumsum", 9.0), of("cumsum", 2.5), of("scatter", 3.4)])
    assert "| cumsum | 2 | 30.0 | 29.0-31.0 | 10.0 | 2.50 | 44.0 |  | 1e-07 |" in made, "the newest counts"
    assert "| **3.40** |" in made and "No time of cupy: not installed." in made
    assert "1 of 2 scans and scatters that should stay within 3 copies do; not scatter." in made
