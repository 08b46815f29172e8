"""`python -m vkgrad bench` proves what it measures, refuses what it cannot prove, and its parts add up."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import numpy as np
import pytest

import vkgrad as vg
from benchmarks import first_step
from vkgrad.bench import cases, contender, guards, kernels, models, peaks, step, training
from vkgrad.bench.cases import Case
from vkgrad.cli import main
from vkgrad.schedule.kernel import parts

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def small_copies(monkeypatch):
    monkeypatch.setattr(peaks, "COPY_BYTES", dict.fromkeys(peaks.COPY_BYTES, 1 << 18))


def bench(*arguments: str, device: str | None = None) -> int:
    return main(["bench", *arguments, *(["--device", device] if device else [])])


def lines_in(folder):
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_kernels_stand_below_a_roof_and_the_parts_add_up_to_the_step(capsys, tmp_path, device):
    given = ["--models", "mlp", "--batches", "4", "--runs", "3", "--out", str(tmp_path)]
    assert bench("kernels", *given, device=device) == 0
    printed = capsys.readouterr().out
    lines = lines_in(tmp_path)
    timed = [line for line in lines if "roof" in line]
    assert len(timed) == len(re.findall(r"^mlp 4 #", printed, re.M)) > 3
    assert all(line["median_us"] > 0 and line["row"] and line["of_roof"] >= 0 for line in timed)
    apart = [line for line in lines if line["op"] == "step, taken apart"]
    assert {line["arm"] for line in apart} == {"resident", "fed", "eager, fed"}
    for line in apart:
        parts = {part.name: line[f"{part.name}_us"] for part in fields(step.Parts)}
        assert sum(parts.values()) == pytest.approx(line["mean_us"], abs=0.01)
        assert (parts["record"] > 0) == (line["arm"] == "eager, fed")  # a recorded step records nothing
        assert (parts["write"] > 0) == (line["arm"] != "resident")
        assert parts["host"] > 0 and parts["device"] > 0


def test_the_parts_of_a_step_are_seen_where_they_are_spent(monkeypatch):
    """Mutations: time added to one part shows up in that part."""
    from time import perf_counter

    def busy(us: float) -> None:
        end = perf_counter() + us / 1e6
        while perf_counter() < end:
            pass

    x = vg.tensor(np.ones(16, np.float32))
    double = vg.jit(lambda: vg.sum(x * 2))
    made = []

    def parts(before=0.0, reading=0.0, device_us=1.0):
        def run():
            busy(before)
            made[:] = [double()]

        def read():
            busy(reading)
            float(made[0])

        return step.decompose(run, read, device_us, 8)

    double(), double(), double()
    assert parts(before=5000).host > 4900 > parts().host
    assert parts(reading=5000).read > 4900 > parts().read
    slow = parts(device_us=1e9)  # a device that was slow a moment before cannot have taken longer than there was time
    assert slow.step < 1e8 and min(vars(slow).values()) >= 0


def test_wrapped_methods_are_put_back():
    x = vg.tensor(np.ones(4, np.float32))
    double = vg.jit(lambda: x * 2)
    recording = step._last_recording(double)

    def methods():
        replay = getattr(recording, "replay", recording)
        owners = (type(replay), "run"), *((type(recording), name) for name in ("run", "submit", "write"))
        return [getattr(owner, name) for owner, name in (*owners, (type(recording.device), "record"))]

    honest = methods()
    with pytest.raises(ZeroDivisionError), step._watching(recording):
        assert methods()[0] is not honest[0] and methods()[2] is not honest[2]
        raise ZeroDivisionError
    assert methods() == honest


def test_what_brings_a_batch_over_is_seen_as_writing():
    total = vg.jit(lambda x: vg.sum(x))

    def write_us(count):
        batch = np.ones(count, np.float32)
        for _ in range(4):  # a recording each of the ring, then the steady state
            float(total(batch))
        made = {}
        found = step.decompose(lambda: made.update(loss=total(batch)), lambda: float(made["loss"]), 1.0, 8)
        assert found.submit > 0 and found.record == 0
        return found.write

    assert write_us(1 << 20) > 50 > write_us(16) > 0


@pytest.mark.parametrize("device", [None, "cpu"])
def test_models_are_timed_in_every_arm(capsys, tmp_path, device):
    given = ["--models", "mlp", "--batches", "4", "--seconds", "0.01", "--out", str(tmp_path)]
    assert bench("models", *given, device=device) == 0
    assert "of peak" in capsys.readouterr().out
    lines = lines_in(tmp_path)
    recorded, anew = (
        [line["arm"] for line in lines if line["contender"] == name] for name in ("vkgrad_jit", "vkgrad_eager")
    )
    assert recorded == list(contender.ARMS) and anew == list(models.UNJITTED)
    assert len(lines) == len(recorded) + len(anew)
    assert all(line["median_us"] > 0 and line["gflop_s"] > 0 and line["dispatches"] for line in lines)


@pytest.mark.parametrize("kind", ["models", "kernels"])
def test_a_wrong_loss_gets_no_time_and_a_bad_exit_status(capsys, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(training.VkgradContender, "loss", lambda self: float(self.last) * (1 + 2e-5))
    assert bench(kind, "--models", "mlp", "--batches", "4", "--out", str(tmp_path)) == 1
    printed = capsys.readouterr()
    assert "the loss of step 0 is" in printed.err
    assert "mlp 4" not in printed.out and not lines_in(tmp_path)


def test_a_parameter_outside_the_device_gets_no_time(capsys, monkeypatch):
    monkeypatch.setattr(training, "is_resident", lambda tensor: tensor.shape != (128,))
    assert bench("models", "--models", "mlp", "--batches", "4") == 1
    assert "not in device memory: parameter 0.bias" in capsys.readouterr().err


def test_a_step_that_allocates_gets_no_time(capsys, monkeypatch):
    honest = training.VkgradContender.placement

    def placement(self, steps):
        found = honest(self, steps)
        found["counts"]["buffers_allocated"] += 1
        return found

    monkeypatch.setattr(training.VkgradContender, "placement", placement)
    assert bench("models", "--models", "mlp", "--batches", "4") == 1
    assert "buffers_allocated 1 instead of 0" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["models", "kernels", "costs", "memory"])
def test_every_bench_refuses_to_run_under_a_layer(capsys, monkeypatch, kind):
    monkeypatch.setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    assert bench(kind) == 1
    assert "VK_INSTANCE_LAYERS" in capsys.readouterr().err


def test_peaks_are_refused_where_values_are_wrong(monkeypatch):
    wrong = peaks.MULTIPLY_ADD.replace("a, b)", "a, a * b)")
    monkeypatch.setattr(peaks, "MULTIPLY_ADD", wrong)
    device = vg.default_device()
    if device.kind != "vulkan":
        pytest.skip("the cpu device has no shaders")
    with pytest.raises(guards.Refused, match="multiply-adds"):
        peaks.multiply_adds_gflop_s(device, 1)


def test_the_nearer_roof_is_named():
    roofs = peaks.Peaks(copy_gb_s=100, fma_gflop_s=1000, copy_kernel_gb_s=90)
    x = vg.tensor(np.ones((8, 8), np.float32))
    (one,) = kernels.time_kernels(lambda: vg.eval(x @ x), runs=1).kernels
    share, roof = roofs.share(one)
    assert share == max(one.gb_s / 100, one.gflop_s / 1000) and roof in ("memory", "arithmetic")


def test_costs_of_the_runtime(capsys, tmp_path):
    if vg.default_device().kind != "vulkan":
        pytest.skip("the cpu device submits nothing")
    assert bench("costs", "--runs", "2", "--lengths", "1,3", "--out", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    for what in ("record", "submit", "wait", "replay", "each more", "pipeline, cold", "from the cache file"):
        assert what in printed
    assert len(lines_in(tmp_path)) == 2 * 6 + 4


def test_costs_of_a_device_without_submissions_are_refused(capsys):
    assert bench("costs", device="cpu") == 1
    assert "submits nothing" in capsys.readouterr().err


@pytest.mark.parametrize("device", [None, "cpu"])
def test_memory_moves_both_ways(capsys, tmp_path, device):
    assert bench("memory", "--runs", "2", "--mebibytes", "0.01", "0.1", "--out", str(tmp_path), device=device) == 0
    printed = capsys.readouterr().out
    assert "upload" in printed and "download" in printed and "at most: copies" in printed
    assert all(line["gb_s"] > 0 for line in lines_in(tmp_path))


def test_a_second_process_compiles_nothing(capsys, tmp_path):
    assert first_step.main(["--models", "mlp", "--runs", "1", "--out", str(tmp_path)]) == 0
    cold, warm = lines_in(tmp_path)
    assert cold["shaders_compiled"] > 0 and warm["shaders_compiled"] == 0
    assert min(cold["import_us"], warm["import_us"]) > 1000  # an import that is over in no time was done before


def test_a_second_process_that_compiles_is_noticed(capsys, tmp_path, monkeypatch):
    """The mutation: each process finds an empty folder."""
    run, folders = first_step.run, iter(range(9))
    monkeypatch.setattr(first_step, "run", lambda model, caches: run(model, caches / str(next(folders))))
    assert first_step.main(["--models", "mlp", "--runs", "1", "--out", str(tmp_path)]) == 1


def test_flops_of_a_step_are_those_of_the_contractions_of_its_plan():
    """The formula against the plan: what is not a product is left out of both."""
    case = Case("mlp", 4)
    one = training.VkgradJit(case, cases.make(case))
    plan, _ = one.plan()
    products = [kernel for dispatch in plan.kernels for kernel in parts(dispatch) if kernel.product]
    assert sum(2 * kernel.places * kernel.terms for kernel in products) == case.flops
