"""Timing candidates on the device: all agree, wrong ones are found out, and a second process measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from tests.planned import plan_of
from vkgrad import engine
from vkgrad.codegen import tune
from vkgrad.codegen.kernel_class import class_of
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import ROWS, Row
from vkgrad.codegen.tune import Finding, Tuner, candidates, changed
from vkgrad.config import config
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, bool_, float32, int32
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import pad, window
from vkgrad.runtime import measure as stopwatch
from vkgrad.runtime.measure import measure, shared_bytes
from vkgrad.runtime.vulkan import VulkanDevice
from vkgrad.schedule.kernel import Kernel

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]
ROW = {row.name: row for row in ROWS}


@pytest.fixture(scope="module")
def device() -> VulkanDevice:
    found = engine.device()
    if not isinstance(found, VulkanDevice):
        pytest.skip("VKGRAD_DEVICE names no Vulkan device")
    return found


def bare(kernel: Kernel) -> Kernel:
    found = class_of(kernel)
    assert found is not None
    return found.bare


def product(m: int = 40, n: int = 24, k: int = 100, dtype: DType = float32) -> Kernel:
    x, y = leaf((m, k), dtype), leaf((k, n), dtype)
    return bare(plan_of([contract(x, y, (0, 1), (1, 2), (0, 2))])[0].kernels[0])


def total(places: int = 6, terms: int = 300, dtype: DType = float32, op: str = "sum") -> Kernel:
    return bare(plan_of([b.build(op, leaf((places, terms), dtype), axes=(1,))])[0].kernels[0])


def convolution() -> Kernel:
    x = pad(leaf((2, 3, 9, 11), float32), (0, 0, 1, 1), (0, 0, 1, 1))
    windows, w = window(window(x, 2, 3, 2, 1), 3, 3, 1, 1), leaf((5, 3, 3, 3), float32)
    return bare(plan_of([contract(windows, w, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3))])[0].kernels[0])


def refusals(device: VulkanDevice, kernel: Kernel, *rows: Row) -> list[str]:
    return [finding.refused for finding in measure(device, kernel, rows)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a way may be slow before it is wrong; the test of slow ones says otherwise."""
    monkeypatch.setattr(stopwatch, "SHORT_US", float("inf"))


# ---- what is true
@pytest.mark.validation
@pytest.mark.parametrize(
    "kernel",
    [product(), product(dtype=int32), total(), total(dtype=bool_, op="any"), convolution(),
     bare(plan_of([leaf((7, 50), float32) * 2.0])[0].kernels[0])],
    ids=["product", "integers", "sum", "any", "convolution", "map"],
)  # fmt: skip
def test_all_candidates_agree_and_have_a_time(device: VulkanDevice, kernel: Kernel):
    rows = candidates(kernel, device.limits)
    findings = measure(device, kernel, rows)
    assert [finding.row for finding in findings] == [row.name for row in rows]
    assert all(finding.time_us > 0 if not finding.refused else "too slow" in finding.refused for finding in findings)


@pytest.mark.validation
def test_large_buffers_are_filled_to_the_end(device: VulkanDevice):
    kernel = total(3, 700_001)
    scratch = stopwatch._Scratch(device.native, kernel)
    landing = device.native.buffer(scratch.buffers[0].nbytes, "download")
    plan = device.native.plan(copies=1)
    plan.copy(landing, scratch.buffers[0], landing.nbytes)
    plan.barrier("host")
    device.native.wait(device.native.submit(plan.finish()))
    values = np.frombuffer(landing.read(), np.float32)[: 3 * 700_001]
    assert np.abs(values).max() <= 1 and np.count_nonzero(values) > 0.999 * values.size
    assert values[stopwatch.BLOCK] == values[0] != values[1]


# ---- what is wrong
def test_wrong_candidates_lose(device: VulkanDevice):
    for dtype in (float32, int32):
        for row, kernel in ((ROW["contract_tiled"], product(dtype=dtype)), (ROW["nest_shared"], total(dtype=dtype))):
            half = replace(row, name="half", groups=lambda kernel, p, row=row: row.groups(kernel, p) // 2)
            first, wrong = refusals(device, kernel, row, half)
            assert not first and "elements differ from the first row's" in wrong


def test_one_wrong_term_of_many_is_noticed(device: VulkanDevice):
    """A template that leaves out the last term: the least that can be wrong with a sum."""
    kernel = total(5, 3000)
    short = replace(ROW["nest_shared"], name="short")
    real = render(kernel, device.limits, short)
    numbers = tuple(number - 1 if number == 3000 else number for number in real.numbers)
    assert numbers != real.numbers

    def shorter(kernel, limits, row=None):
        shader = render(kernel, limits, row)
        return replace(shader, numbers=numbers) if row is short else shader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopwatch, "render", shorter)
        first, wrong = refusals(device, kernel, ROW["nest_shared"], short)
    assert not first and "differ" in wrong


def test_equal_orders_must_give_equal_bits(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    rows = changed(ROW["nest_shared"], {"lanes": 8}), changed(ROW["nest_shared"], {"lanes": 64})
    assert refusals(device, total(), *rows) == ["", ""]
    monkeypatch.setattr(stopwatch, "order_of", lambda row, kernel, limits: "one order")
    assert "bits differ" in refusals(device, total(), *rows)[1]


def test_what_a_device_refuses_loses_with_the_reason(device: VulkanDevice):
    large = changed(ROW["nest_serial"], {"local": 1 << 16})
    greedy = changed(ROW["nest_shared"], {"lanes": device.limits.shared_bytes})
    first, *refused = refusals(device, total(), ROW["nest_shared"], large, greedy)
    assert not first and "refused its shader" in refused[0] and "bytes of shared memory; there are" in refused[1]


def test_shared_bytes():
    source = "shared float a[10];\n  shared vec4 b[2][3];\nshared double c[4];\nint shared_d[9];\n"
    assert shared_bytes(source) == 40 + 96 + 32


def test_slow_candidates_are_run_in_part(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stopwatch, "SHORT_US", 0.0)
    monkeypatch.setattr(stopwatch, "PART", 2)
    kernel = product(128, 128, 64)
    slow = changed(ROW["nest_shared"], {"lanes": 2})  # 16,384 workgroups of two invocations
    assert "too slow" in refusals(device, kernel, ROW["contract_tiled"], slow)[1]


# ---- fused or not
def bits_of(fuse: bool, tune_by: int) -> list[bytes]:
    draw = np.random.default_rng(3)
    with config.override(tune=tune_by, fuse=fuse):
        x = vg.tensor(draw.uniform(-1, 1, (100, 40)).astype("f4"))
        w = vg.tensor(draw.uniform(-1, 1, (100, 24)).astype("f4"))
        y = vg.relu(x * 1.5).T @ w
        return [vg.relu(y).numpy().tobytes(), vg.softmax(vg.exp(y).T, axis=1).numpy().tobytes()]


class Whim:
    """Measures nothing, and at each call favours another of the candidates."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, kernel: Kernel, rows: list[Row]) -> list[Finding]:
        self.calls += 1
        favourite = (5 * self.calls) % len(rows)
        return [Finding(row.name, 1.0 if place == favourite else 9.0) for place, row in enumerate(rows)]


@pytest.fixture
def whim(device: VulkanDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Whim]:
    chosen = Whim()
    with config.override(cache_dir=tmp_path):
        monkeypatch.setattr(device, "tuner", Tuner("whim", device.limits, chosen))
        engine._plans.clear()
        yield chosen
    engine._plans.clear()


def test_fused_and_unfused_have_the_same_bits_whatever_was_chosen(whim: Whim):
    assert bits_of(fuse=True, tune_by=2) == bits_of(fuse=False, tune_by=2)
    assert whim.calls >= 3


def test_without_orders_fused_and_unfused_would_differ(whim: Whim, monkeypatch: pytest.MonkeyPatch):
    """The null arm of the test above."""
    if not engine.device().software:
        pytest.skip("a GPU's rows add these few terms in one order anyway")
    monkeypatch.setattr(tune, "order_of", lambda row, kernel, limits: "")
    assert bits_of(fuse=True, tune_by=2) != bits_of(fuse=False, tune_by=2)


def test_off_is_as_if_nothing_had_been_chosen(device: VulkanDevice, whim: Whim):
    plain = bits_of(fuse=True, tune_by=0)
    assert whim.calls == 0
    chosen = bits_of(fuse=True, tune_by=2)
    assert bits_of(fuse=True, tune_by=0) == plain != chosen
    plan, _ = plan_of([contract(leaf((40, 100), float32), leaf((100, 24), float32), (0, 1), (1, 2), (0, 2))])
    with config.override(tune=0):
        assert device.prepare(plan).shaders == [render(kernel, device.limits) for kernel in plan.kernels]


# ---- processes
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import vkgrad as vg
from vkgrad import engine
from vkgrad.codegen import tune

device, calls = engine.device(), []
measure = device.tuner.measure
device.tuner.measure = lambda kernel, rows: calls.append(len(rows)) or measure(kernel, rows)
draw = np.random.default_rng(1)
x, w = (vg.tensor(draw.uniform(-1, 1, s).astype("f4")) for s in ((64, 50), (50, 33)))
y = vg.sum(vg.relu(x @ w), axis=0)
report = vg.plan(y)
print(json.dumps({"calls": len(calls), "rows": [k.row for k in report.kernels], "text": str(report),
                  "classes": tune.count_of_classes(), "values": y.numpy().tolist()}))
"""


def run(folder: Path, mode: int) -> dict:
    environment = {**os.environ, "VKGRAD_TUNE": str(mode), "VKGRAD_CACHE_DIR": str(folder), "VKGRAD_DEBUG": "plan"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    read = json.loads(done.stdout)
    assert all(f"[{row}]" in done.stderr and f"[{row}]" in read["text"] for row in read["rows"])
    return read


def test_one_process_measures_and_the_next_one_knows(device: VulkanDevice, tmp_path: Path):
    table, tuned, known = (run(tmp_path, mode) for mode in (0, 2, 1))
    assert (table["calls"], table["classes"]) == (0, 0)
    assert (tuned["calls"], tuned["classes"]) == (len(tuned["rows"]), len(tuned["rows"]))
    assert (known["calls"], known["rows"], known["values"]) == (0, tuned["rows"], tuned["values"])
    np.testing.assert_allclose(tuned["values"], table["values"], rtol=1e-5, atol=1e-5)
    for file in (tmp_path / "tuned").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert run(tmp_path, 1)["rows"] == table["rows"]
