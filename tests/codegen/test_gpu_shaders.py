"""Every op, in every type and direction, becomes a shader for a GPU, and SPIR-V. Neither needs such a device.

A GPU has rows that no software driver chooses: cooperative matrices, stacks, wide loads. Whatever a plan for one holds
must be rendered by the row it chose, and each row that says it applies must be able to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.ops.test_every_case import OPERATIONS, conditions, directions
from tests.planned import plan_of
from vkgrad.cli import residency
from vkgrad.codegen import rows
from vkgrad.codegen.beside import beside_for, render_beside
from vkgrad.codegen.render import Shader, render
from vkgrad.codegen.rows import Limits, Row, choose
from vkgrad.codegen.stacked import render_stack, stacking_for
from vkgrad.ir.dtypes import ANY
from vkgrad.ir.op import Op
from vkgrad.schedule.kernel import Dispatch, Group, Kernel
from vkgrad.schedule.split import Width

GPU = Limits(
    software=False,
    max_groups=(2**31 - 1, 65535, 65535),
    max_invocations=1024,
    shared_bytes=49152,
    max_buffers=32,
    matrices=frozenset({"float16", "bfloat16"}),
    halves=True,
)
# What other GPUs lack.
SMALL = Limits(software=False, max_invocations=256, shared_bytes=16384, subgroup=64, max_buffers=8, int64=False,
               packing=frozenset({1, 2}))  # fmt: skip

LAYOUTS = {"plain", "permuted", "empty or 0-d"}


def shaders_of(op: Op, limits: Limits) -> list[Shader]:
    """What a device with these limits would run of every case of `op`."""

    def row_of(kernel: Kernel) -> Row | None:
        return None if kernel.routine is not None else choose(kernel, limits)

    options = {
        "max_buffers": limits.max_buffers,
        "width": Width(1 << 16, 256, 16, 132),
        "stacking": stacking_for(limits, row_of),
        "beside": beside_for(limits, row_of),
    }
    shaders = []
    for dtype in ANY:
        for case in residency.cases_of(op, dtype):
            for name in LAYOUTS & conditions(case).keys():
                for _, outputs in directions(op, case, dtype, name, {}):
                    plan, _ = plan_of(outputs, **options)
                    shaders += [shader_of(dispatch, limits, row_of) for dispatch in plan.kernels]
    return shaders


def shader_of(dispatch: Dispatch, limits: Limits, row_of: Callable[[Kernel], Row | None]) -> Shader:
    if isinstance(dispatch, Group):
        return (render_stack if dispatch.rows else render_beside)(dispatch, limits, row_of)
    return render(dispatch, limits, row_of(dispatch))


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_case_becomes_shaders_for_a_gpu(op: Op) -> None:
    for limits in (GPU, SMALL):
        shaders = shaders_of(op, limits)
        assert shaders
        for shader in shaders:
            assert "void main()" in shader.source
            assert all(0 < n <= most for n, most in zip(shader.groups, limits.max_groups, strict=True))


def test_a_row_that_cannot_keep_its_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cooperative matrices once said that they apply to products without any axis, and failed over them."""
    product = next(op for op in OPERATIONS if op.name == "contract")
    assert any(shader.row.startswith("contract") for shader in shaders_of(product, GPU))
    greedy = [replace(row, applies=lambda kernel, limits: True) for row in rows.ROWS]
    monkeypatch.setattr(rows, "ROWS", greedy)
    with pytest.raises((AssertionError, LookupError)):
        shaders_of(product, GPU)
