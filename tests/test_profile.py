"""A profile sees every kernel, changes no value, and writes what viewers of traces read."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import UnsupportedError
from vkgrad.profile import clock, time_kernels

pytestmark = pytest.mark.device


@pytest.fixture(params=[None, "cpu"])
def device(request):
    with config.override(device=request.param or config.device):
        yield engine.default_device()


def training(profiled: bool, path=None) -> tuple[list[float], list[np.ndarray], list]:
    """Losses and parameters of a few jitted steps, whose parameters are updated in place, and what was seen."""
    vg.manual_seed(0)
    random = np.random.default_rng(0)
    x, y = random.random((8, 5), np.float32), random.random((8, 3), np.float32)
    model = vg.nn.Linear(5, 3)
    optimizer = vg.optim.Adam(model, lr=0.1)

    @vg.jit
    def step(x, y):
        loss, gradients = vg.value_and_grad(lambda m: vg.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return loss

    losses = [float(step(x, y)) for _ in range(2)]
    flushes: list = []
    if profiled:
        with vg.profile(path) as found:
            losses += [float(step(x, y)) for _ in range(4)]
        flushes = found.flushes
    else:
        losses += [float(step(x, y)) for _ in range(4)]
    time_kernels(step, x, y, runs=2) if profiled else step(x, y)
    losses.append(float(step(x, y)))
    return losses, [p.numpy() for p in model.parameters()], flushes


def test_values_are_those_of_a_run_without_it(device):
    """Bit for bit, with parameters and Adam's counters updated in place, also after a step was taken apart."""
    plain, watched = training(False), training(True)
    assert plain[0] == watched[0]
    assert all(np.array_equal(a, b) for a, b in zip(plain[1], watched[1], strict=True))
    assert len([flush for flush in watched[2] if flush.kernels]) == 4


def test_what_kernels_write_would_change_if_it_were_not_put_back(device, monkeypatch):
    """The mutation: nothing is put aside, so every timed run is a training step of its own."""
    plain = training(False)
    monkeypatch.setattr(clock, "_written", lambda plan: [])

    def not_saved(plan, recording, groups, runs, apart):
        for run, buffers in recording.runs:
            run(buffers)
        return [[1.0] * len(groups)] * runs

    monkeypatch.setattr(clock, "_by_host", not_saved)
    assert training(True)[0] != plain[0]


def test_it_counts_what_ran(device):
    x = vg.tensor(np.ones((16, 16), np.float32))
    vg.eval(x)
    with vg.counting() as counts, vg.profile() as p:
        vg.eval(vg.sum(x @ x))
        y = vg.exp(x)  # pending at the end
    assert len(p.kernels) == counts.dispatches and len(p.flushes) == counts.submissions == 2
    assert engine.has_value(y.node)
    assert p.device_us == pytest.approx(sum(kernel.time_us for kernel in p.kernels))
    vg.eval(x + 1)
    assert len(p.flushes) == 2  # it no longer watches


def test_what_was_pending_before_is_not_in_it(device):
    x = vg.tensor(np.ones(4, np.float32))
    y = x + 1
    with vg.profile() as p:
        pass
    assert not p.flushes and engine.has_value(y.node)
    assert "0 submissions of 0 kernels" in p.table()


def test_bytes_that_cross_are_those_of_the_submission(device):
    with vg.profile() as p:
        float(vg.sum(vg.tensor(np.ones(100, np.float32))))
    (flush,) = p.flushes
    assert flush.bytes_uploaded == 400 and flush.bytes_downloaded == 4


def test_the_table_puts_equal_kernels_together_and_the_dearest_first(device):
    x = vg.tensor(np.ones((32, 32), np.float32))
    with vg.profile() as p:
        for _ in range(3):
            vg.eval(x + 1)
        vg.eval(x @ x)
    header, *rows, total = str(p).splitlines()
    assert header.split()[0] == "total" and len(rows) == 2
    assert sorted(int(row.split()[2]) for row in rows) == [1, 3]
    assert float(rows[0].split()[0]) >= float(rows[1].split()[0])
    assert sum(float(row.split()[1].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.2)
    assert "4 submissions of 4 kernels" in total


# ---- the trace, by the Trace Event Format that Chrome and Perfetto read
REQUIRED = {"X": {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"}, "M": {"name", "ph", "pid", "tid", "args"}}


def complaints(trace: dict) -> list[str]:
    """What a viewer would not show, or would show wrongly."""
    found = []
    named = {event["pid"] for event in trace["traceEvents"] if event["ph"] == "M" and event["name"] == "process_name"}
    ends: dict = {}
    for event in trace["traceEvents"]:
        if set(event) != REQUIRED.get(event["ph"]):
            found.append(f"{event['ph']} has {sorted(event)}")
        elif event["ph"] == "X":
            track = event["pid"], event["tid"]
            if event["pid"] not in named:
                found.append(f"process {event['pid']} has no name")
            if event["dur"] < 0 or event["ts"] < ends.get(track, 0.0) - 0.002:  # rounded to ns, each
                found.append(f"{event['name']} overlaps the one before it")
            ends[track] = event["ts"] + event["dur"]
    return found


def test_the_trace_is_what_viewers_read(device, tmp_path):
    training(True, tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"} and trace["displayTimeUnit"] in ("ms", "ns")
    assert complaints(trace) == []
    kernels = [event for event in trace["traceEvents"] if "gflop_s" in event["args"]]
    assert kernels and all(event["dur"] > 0 and event["args"]["ops"] for event in kernels)
    assert {event["args"]["submission"] for event in kernels} <= set(range(20))
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    assert any(name.startswith("host") for name in names) and any(device.name in name for name in names)


def test_the_schema_is_seen_to_fail():
    good = {"ph": "X", "name": "a", "cat": "b", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0, "args": {}}
    name = {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "host"}}
    assert complaints({"traceEvents": [name, good]}) == []
    assert "no name" in complaints({"traceEvents": [good]})[0]
    assert "overlaps" in complaints({"traceEvents": [name, good, {**good, "ts": 2.0}]})[0]
    assert "X has" in complaints({"traceEvents": [name, {"ph": "X", "name": "a"}]})[0]


def test_an_exception_ends_the_watching(tmp_path):
    watching = len(engine.on_flush)
    with pytest.raises(ZeroDivisionError), vg.profile(tmp_path / "trace.json"):
        raise ZeroDivisionError
    assert len(engine.on_flush) == watching and not (tmp_path / "trace.json").exists()


# ---- a step taken apart
def test_a_step_taken_apart_has_every_kernel_and_level(device):
    x = vg.tensor(np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32))
    vg.eval(x)
    step = vg.jit(lambda: ((x @ x).sum(0), vg.exp(x)))
    step()
    found = time_kernels(step, runs=3)
    assert len(found.kernels) == len(found.levels_us) + 1  # exp runs beside the product
    assert found.whole_us > 0 and all(kernel.time_us > 0 for kernel in found.kernels)


def test_nothing_cannot_be_taken_apart():
    with pytest.raises(UnsupportedError, match="no kernels"):
        time_kernels(lambda: None)


def test_a_device_without_timestamps_is_refused(monkeypatch):
    device = engine.default_device()
    if device.kind != "vulkan":
        pytest.skip("the cpu device is timed by the host's clock")
    monkeypatch.setattr(device, "info", {**device.info, "timestamp_bits": 0})
    with pytest.raises(UnsupportedError, match="no timestamps"), vg.profile():
        vg.eval(vg.ones((4,)) * 2)
