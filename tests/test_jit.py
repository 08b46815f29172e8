"""Recorded steps: no work but the submission, and the same bits as the function itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, losses, mlp, sgd_step
from vkgrad import optim
from vkgrad.config import config
from vkgrad.errors import VkgradError


@pytest.mark.validation
@pytest.mark.parametrize(("kind", "most"), [("mlp", 12), ("lenet", 30)])
def test_a_step_after_warm_up_does_nothing_but_run(kind: str, most: int) -> None:
    model = LeNet5() if kind == "lenet" else mlp()
    step = vg.jit(sgd_step(model, optim.SGD(model, lr=0.05)))
    data = batches(6, 32, kind == "lenet")
    for x, y in data[:4]:
        float(step(vg.tensor(x), vg.tensor(y)))
    for x, y in data[4:]:
        with vg.counting() as c:
            loss = float(step(vg.tensor(x), vg.tensor(y)))
        assert np.isfinite(loss)
        assert (c.submissions, c.flushes, c.host_nodes) == (1, 1, 0)
        assert c.plans_built == c.shaders_compiled == c.pipelines_created == c.buffers_allocated == 0
        assert c.bytes_uploaded == x.nbytes + y.nbytes
        assert c.bytes_downloaded == 4
        assert c.dispatches <= most


@pytest.mark.parametrize("kind", ["mlp", "lenet"])
def test_fifty_steps_have_the_same_bits_recorded_or_not(kind: str) -> None:
    steps = 50
    expected = losses(kind, steps)
    assert losses(kind, steps, jit=True) == expected
    for cap in (0, 4, 64, 256):
        with config.override(batch_max=cap):
            assert losses(kind, steps, jit=True) == expected


def test_another_process_computes_the_same_bits() -> None:
    root = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)]),
        "PYTHONWARNINGS": "ignore",
    }
    texts = [
        subprocess.run(
            [sys.executable, "-m", "tests.models", "mlp", "10", mode],
            cwd=root, env=environment, check=True, capture_output=True, text=True,
        ).stdout.split()
        for mode in ("jit", "plain")
    ]  # fmt: skip
    assert texts[0] == texts[1] == [value.hex() for value in losses("mlp", 10)]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_optimisers_update_in_place(optimizer: str) -> None:
    assert losses("mlp", 6, jit=True, optimizer=optimizer) == losses("mlp", 6, optimizer=optimizer)


@pytest.mark.validation
def test_results_that_are_kept_survive_later_steps() -> None:
    step = vg.jit(lambda x: x * 2 + 1)
    kept = [step(vg.tensor([float(i), -float(i)])) for i in range(12)]
    for i, result in enumerate(kept):
        assert result.tolist() == [2.0 * i + 1, -2.0 * i + 1]


def test_large_results_survive_too() -> None:
    step = vg.jit(lambda x: x + 1)
    arrays = [np.full((200, 200), i, "f4") for i in range(8)]
    kept = [step(vg.tensor(a)) for a in arrays]
    for a, result in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(result.numpy(), a + 1)


def test_arguments_from_host_device_and_pending() -> None:
    step = vg.jit(lambda x, y: x @ y.T)
    a = np.arange(6, dtype="f4").reshape(2, 3)
    on_device = vg.tensor(a)
    vg.eval(on_device)
    pending = vg.tensor(a) * 1.0 + 0.0
    for x in (a, vg.tensor(a), on_device, pending):
        for y in (a, on_device):
            np.testing.assert_array_equal(step(x, y).numpy(), a @ a.T)


def test_assigning_outside_is_seen_by_the_next_step() -> None:
    w = vg.tensor([1.0, 2.0])
    step = vg.jit(lambda x: x * w)
    assert step(vg.tensor([1.0, 1.0])).tolist() == [1.0, 2.0]
    w.assign(vg.tensor([3.0, 4.0]))
    assert step(vg.tensor([1.0, 1.0])).tolist() == [3.0, 4.0]
    w.assign(w * 2)
    assert step(vg.tensor([1.0, 1.0])).tolist() == [6.0, 8.0]


@pytest.mark.validation
def test_what_was_computed_from_an_old_parameter_keeps_its_value() -> None:
    w = vg.tensor([1.0, 2.0])

    @vg.jit
    def step(x: vg.Tensor) -> vg.Tensor:
        w.assign(w + x)
        return w.sum()

    before, copy = w * 10, w.detach()
    assert float(step(vg.tensor([1.0, 1.0]))) == 5.0
    assert before.tolist() == [10.0, 20.0] and copy.tolist() == [1.0, 2.0]
    after = w * 10
    assert float(step(vg.tensor([1.0, 1.0]))) == 7.0
    assert after.tolist() == [20.0, 30.0]
    assert w.tolist() == [3.0, 4.0]


def test_two_functions_on_the_same_parameters_keep_order() -> None:
    w = vg.tensor([0.0])

    @vg.jit
    def add(x: vg.Tensor) -> None:
        w.assign(w + x)

    @vg.jit
    def double() -> vg.Tensor:
        w.assign(w * 2)
        return w + 0

    value = 0.0
    for i in range(6):
        add(vg.tensor([float(i)]))
        value = (value + i) * 2
        assert double().tolist() == [value]


def test_a_new_learning_rate_needs_no_new_recording() -> None:
    model = mlp(8)
    optimizer = optim.SGD(model, lr=0.1)
    step = vg.jit(sgd_step(model, optimizer))
    data = batches(4, 4, False)
    for x, y in data[:3]:
        step(vg.tensor(x), vg.tensor(y))
    before = [p.numpy() for p in model.parameters()]
    optimizer.lr = 0.0
    with vg.counting() as c:
        step(vg.tensor(data[3][0]), vg.tensor(data[3][1]))
    assert c.plans_built == c.shaders_compiled == 0
    for p, old in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.numpy(), old)


def test_recorded_again_only_for_another_structure_and_it_says_why() -> None:
    step = vg.jit(lambda x, factor: x * factor)
    step(vg.tensor([1.0]), 2.0)
    step(vg.tensor([3.0]), 2.0)
    assert len(step.steps) == 1
    assert step(vg.tensor([1.0]), 3.0).tolist() == [3.0]
    assert "2.0" in step.explain() and "3.0" in step.explain()
    assert step(vg.tensor([1.0, 2.0]), 3.0).tolist() == [3.0, 6.0]
    assert len(step.steps) == 3


def test_reading_an_argument_inside_is_refused() -> None:
    @vg.jit
    def branch(x: vg.Tensor) -> vg.Tensor:
        return x if float(x.sum()) > 0 else -x

    with pytest.raises(VkgradError, match=r"vg\.jit is recording"):
        branch(vg.tensor([1.0]))
    assert vg.tensor([1.0]).tolist() == [1.0]


def test_gradient_through_a_recorded_function() -> None:
    square = vg.jit(lambda x: (x * x).sum())
    assert vg.grad(square)(vg.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]


def test_nested_results_and_inputs() -> None:
    step = vg.jit(lambda inputs: {"sum": inputs["a"] + inputs["b"][0], "shape": 3})
    result = step({"a": vg.tensor([1.0]), "b": [vg.tensor([2.0])]})
    assert result["sum"].tolist() == [3.0] and result["shape"] == 3


@pytest.mark.validation
def test_an_argument_on_the_device_rides_in_the_same_submission() -> None:
    step = vg.jit(lambda x, y: x * 2 + y)
    x, y = vg.tensor([1.0, 2.0]), vg.tensor([3.0, 4.0])
    vg.eval(x, y)
    for _ in range(4):
        step(x, y).tolist()
    with vg.counting() as c:
        assert step(x, y).tolist() == [5.0, 8.0]
    assert (c.submissions, c.buffers_allocated, c.bytes_uploaded) == (1, 0, 0)


class Foreign:
    """An array of another framework, as far as vkgrad can know: it hands out its memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def test_arrays_of_another_framework_are_arguments() -> None:
    """Neither part of the structure, so that another would record anew, nor read once and for all."""
    step = vg.jit(lambda x, more: (x * 2 + more["y"]).sum())
    values = np.ones(3, np.float32)
    same = Foreign(values)
    for number in range(6):
        values[:] = number
        assert step(same, {"y": Foreign(values)}).item() == 9 * number
    assert step(values, {"y": Foreign(values)}).item() == 45
    flat = vg.jit(lambda x: x.sum())
    for number in range(8):  # past the point where calls are looked at no more
        values[:] = number
        assert flat(values).item() == flat(same).item() == 3 * number
    assert len(step.steps) == len(flat.steps) == 1
