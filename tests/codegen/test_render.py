"""What rendered shaders depend on: structure makes the text, sizes and strides only the numbers. Needs no device."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2
import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE, rows_for
from tests.codegen.spirv_validation import validate
from tests.planned import plan_of
from tests.reference import graph_only  # noqa: F401  a fixture
from vkgrad.codegen.cache import spirv
from vkgrad.codegen.render import environment, render
from vkgrad.codegen.rows import Limits, dispatch_size
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DTYPES, DType, float32
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import permute
from vkgrad.schedule.kernel import Kernel

BOTH = pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])


def kernel_of(*targets: Node) -> Kernel:
    (kernel,) = plan_of(targets)[0].kernels
    return kernel


def reversed_sum(extents: Sequence[int], axes: Sequence[int], dtype: DType = float32) -> Kernel:
    x = leaf(tuple(extents), dtype)
    x = permute(x, tuple(range(len(extents)))[::-1])
    return kernel_of(b.build("sum", x, axes=tuple(axes)) if axes else b.apply("add", x, 1))


@BOTH
def test_numbers_are_no_part_of_the_text(limits: Limits):
    one, two = reversed_sum((5, 6, 3), (1,)), reversed_sum((11, 7, 4), (1,))
    first, second = render(one, limits), render(two, limits)
    assert first.source == second.source
    assert first.numbers != second.numbers
    assert render(reversed_sum((5, 6, 3), (2,)), limits).source == first.source
    assert render(reversed_sum((5, 7, 3), (0, 2)), limits).source != first.source


@BOTH
def test_rendering_twice_gives_the_same_text(limits: Limits):
    def again() -> str:
        x, w = leaf((40, 30), float32), leaf((20, 30), float32)
        return render(kernel_of(b.apply("exp", contract(x, w, (0, 1), (2, 1), (0, 2)))), limits).source

    assert again() == again()


@BOTH
@pytest.mark.parametrize("rank", range(7))
@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.kind != "b"], ids=lambda d: d.name)
def test_every_row_is_valid_at_every_rank_and_type(rank: int, dtype: DType, limits: Limits):
    extents = (2, 3, 4, 5, 6, 7)[:rank]
    for axes in {(), tuple(range(rank))[1::2], tuple(range(rank))}:
        kernel = reversed_sum(extents, axes, dtype)
        for row in rows_for(kernel, limits):
            validate(spirv(render(kernel, limits, row).source, row.name))


def test_values_are_handed_around_only_where_the_device_can():
    kernel = kernel_of(contract(leaf((64, 64), float32), leaf((64, 64), float32), (0, 1), (1, 2), (0, 2)))
    able = Limits(software=True, subgroup=8, broadcast=True)
    assert "subgroupBroadcast(" in render(kernel, able).source
    assert "GL_KHR_shader_subgroup_ballot" in render(kernel, able).source
    assert "subgroup" not in render(kernel, SOFTWARE).source
    assert "subgroup" not in render(kernel, GPU_LIKE).source


def test_a_grid_covers_its_workgroups_within_the_limits():
    narrow = Limits(software=False, max_groups=(100, 100, 100))
    for groups in (1, 99, 100, 101, 9_999, 10_000):
        width, height, depth = dispatch_size(groups, narrow)
        assert width <= 100 and height <= 100 and depth == 1
        assert groups <= width * height < groups + width


def test_a_template_that_asks_for_an_unknown_name_is_refused():
    with pytest.raises(jinja2.UndefinedError, match="lanes"):
        environment().get_template("nest.comp.j2").render(view=None, kernel=None)
