"""Each guard passes what is right and trips on the smallest thing that is not."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.bench import guards
from vkgrad.bench.guards import Refused
from vkgrad.config import config

RIGHT = {
    "submissions": 8, "host_nodes": 0, "plans_built": 0, "shaders_compiled": 0, "pipelines_created": 0,
    "buffers_allocated": 0, "dispatches": 72,
}  # fmt: skip


def test_right_counts_pass():
    guards.right_counts(RIGHT, 8, recorded=True)
    guards.right_counts({**RIGHT, "buffers_allocated": 16}, 8, recorded=False)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_each_wrong_count_is_refused_by_name(name):
    wrong = 0 if name == "dispatches" else RIGHT[name] + 1
    with pytest.raises(Refused, match="no dispatches" if name == "dispatches" else name):
        guards.right_counts({**RIGHT, name: wrong}, 8, recorded=True)


@pytest.mark.device
def test_a_host_node_counted_by_vkgrad_trips_the_guard():
    x = vg.tensor(np.array([0.5, 1.5]))
    with config.override(f64=False), vg.host_policy("allow"), vg.counting() as counts:
        vg.eval(vg.exp(x))  # doubles are switched off, so this one runs on the host
    assert counts.host_nodes == 1
    found = {name: value for name, value in vars(counts).items() if isinstance(value, int)}
    with pytest.raises(Refused, match="host_nodes 1 instead of 0"):
        guards.right_counts({**RIGHT, "host_nodes": found["host_nodes"]}, 8, recorded=True)


def test_losses_are_held_to_one_in_a_hundred_thousand():
    assert guards.right_losses([2.0, 1.0], [2.0, 1.000001]) == pytest.approx(1e-6, rel=1e-3)
    for wrong in ([2.0, 1.00002], [2.0, float("nan")], [2.0, float("inf")], [2.0]):
        with pytest.raises(Refused, match=r"step 1|losses"):
            guards.right_losses(wrong, [2.0, 1.0])


def test_a_loss_that_is_not_finite_is_refused():
    guards.finite_loss(0.1)
    with pytest.raises(Refused):
        guards.finite_loss(float("nan"))


def test_another_device_than_asked_is_refused():
    guards.right_device("NVIDIA H200", "nvidia")
    with pytest.raises(Refused, match="asked for 'NVIDIA'"):
        guards.right_device("llvmpipe (LLVM 15)", "NVIDIA")


def test_what_is_not_resident_is_refused_by_name():
    guards.resident({"images": True})
    with pytest.raises(Refused, match="images"):
        guards.resident({"images": False, "loss": True})
    with pytest.raises(Refused, match="nothing"):
        guards.resident({})


@pytest.mark.parametrize("name", guards.LAYER_VARIABLES)
def test_an_environment_that_asks_for_layers_is_refused(name):
    guards.no_layers_asked({name: " "})
    with pytest.raises(Refused, match=name):
        guards.no_layers_asked({name: "VK_LAYER_KHRONOS_validation"})


def test_a_mapped_validation_layer_is_found_and_a_harmless_one_is_not():
    line = "7f00-7f01 r-xp 00000000 00:00 1 /usr/lib/libVkLayer_{}.so\n"
    maps = line.format("MESA_device_select") + line.format("khronos_validation") * 2
    assert guards.loaded_layers(maps) == ["libVkLayer_khronos_validation.so"]
    with pytest.raises(Refused, match="khronos_validation"):
        guards.no_layers_loaded(guards.loaded_layers(maps))
