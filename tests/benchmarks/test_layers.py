"""Whatever the benchmarks' layers are planned as on a GPU becomes a shader. Rendering one needs no such device."""

from __future__ import annotations

import pytest

from benchmarks.convolutions import LAYERS
from tests.codegen.run_kernel import GPU_LIKE
from vkgrad.codegen.render import render
from vkgrad.schedule.plan import build_plan
from vkgrad.schedule.split import Width


@pytest.mark.parametrize("part", ["fwd", "dgrad", "wgrad"])
def test_every_kernel_of_every_layer_is_rendered(part: str) -> None:
    for layer in (*LAYERS["resnet"], *LAYERS["small"]):
        if layer.part != part:
            continue
        target, leaves = layer.node()
        plan = build_plan([target], leaves, max_buffers=16, width=Width(1 << 16, 256, 16, 132))
        assert all(render(kernel, GPU_LIKE).source for kernel in plan.kernels), layer.name
