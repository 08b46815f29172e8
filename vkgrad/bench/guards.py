"""What must hold before a time may be printed. Each guard raises `Refused` with what was wrong.

The order is the order of trust: no layer that slows everything, right losses, the right device, the right counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vkgrad.errors import VkgradError

LOSS_TOLERANCE = 1e-5  # relative to float64; f32 sums of 784 terms stay below 1e-6, TF32 (10 bits) does not
SLOWING_LAYERS = ("validation", "api_dump", "gfxreconstruct", "monitor")
LAYER_VARIABLES = ("VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_ADD_LAYER_PATH", "VK_LAYER_PATH")


class Refused(VkgradError):
    """A guard has tripped: what it guards gets no time."""


def no_layers_asked(environment: Mapping[str, str] = os.environ) -> None:
    """The environment asks the Vulkan loader for no layer that would be timed along with the driver."""
    for name in LAYER_VARIABLES:
        if environment.get(name, "").strip():
            raise Refused(f"{name} is set: unset it, a Vulkan layer would be timed along with the driver")


def loaded_layers(maps: str | None = None) -> list[str]:
    """Libraries of slowing Vulkan layers that are mapped into this process."""
    if maps is None:
        file = Path("/proc/self/maps")
        maps = file.read_text() if file.exists() else ""
    names = {Path(line.split()[-1]).name for line in maps.splitlines() if "VkLayer" in line}
    return sorted(name for name in names if any(layer in name.lower() for layer in SLOWING_LAYERS))


def no_layers_loaded(layers: Sequence[str]) -> None:
    if layers:
        raise Refused(f"{', '.join(layers)} is loaded: start again without this Vulkan layer")


def right_losses(found: Sequence[float], expected: Sequence[float]) -> float:
    """Every loss agrees with the float64 reference. Returns the largest relative difference."""
    if len(found) != len(expected):
        raise Refused(f"{len(found)} losses where {len(expected)} steps were asked for")
    largest = 0.0
    for step, (own, true) in enumerate(zip(found, expected, strict=True)):
        difference = abs(own - true) / abs(true) if math.isfinite(own) else math.inf
        if not difference <= LOSS_TOLERANCE:
            raise Refused(f"the loss of step {step} is {own:.9g} and should be {true:.9g}, {difference:.1e} off")
        largest = max(largest, difference)
    return largest


def finite_loss(loss: float) -> None:
    if not math.isfinite(loss):
        raise Refused(f"the loss after the timed steps is {loss}")


def right_device(name: str, asked: str) -> None:
    if asked.lower() not in name.lower():
        raise Refused(f"ran on {name!r}, asked for {asked!r}")


def resident(where: Mapping[str, bool]) -> None:
    """Inputs, parameters and results are in device memory. `where` maps what was looked at to whether it is."""
    elsewhere = [name for name, on_device in where.items() if not on_device]
    if elsewhere or not where:
        raise Refused(f"not in device memory: {', '.join(elsewhere) or 'nothing was looked at'}")


def right_counts(counts: Mapping[str, int], steps: int, recorded: bool) -> None:
    """After warm-up every step is one submission without host work; a recorded step also makes nothing new."""
    wanted = {"submissions": steps, "host_nodes": 0, "plans_built": 0, "shaders_compiled": 0, "pipelines_created": 0}
    if recorded:
        wanted["buffers_allocated"] = 0
    wrong = [f"{name} {counts[name]} instead of {want}" for name, want in wanted.items() if counts[name] != want]
    if not counts["dispatches"]:
        wrong.append("no dispatches")
    if wrong:
        raise Refused(f"counted over {steps} steps: {', '.join(wrong)}")
