"""Matrices of bfloat16: a marked module is rewritten and valid; one without the mark is not touched."""

from __future__ import annotations

import pytest

from tests.codegen.spirv_validation import validate
from vkgrad.codegen.bfloat16 import MARK, with_bfloat16
from vkgrad.codegen.compilers import compile_glsl
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import Limits
from vkgrad.codegen.rows.staged import cooperative_row
from vkgrad.ir.dtypes import DType, bfloat16, float16
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.schedule.plan import build_plan

LIMITS = Limits(
    software=False, max_invocations=1024, shared_bytes=49152, matrices=frozenset({"float16", "bfloat16"})
)  # fmt: skip
ROW = cooperative_row("cooperative", 128, 128, 32, 64, 32, 2, 0.0, "")


def source(dtype: DType, n: int = 256) -> str:
    x, y = leaf((n, n), dtype), leaf((n, n), dtype)
    product = contract(x, y, (0, 1), (1, 2), (0, 2))
    (kernel,) = build_plan([product], [x, y], max_buffers=16).kernels
    assert ROW.applies(kernel, LIMITS)
    return render(kernel, LIMITS, ROW).source


@pytest.mark.parametrize("n", [256, 77])  # loaded eight at a time, and one by one
def test_a_product_of_bfloat16_is_a_valid_module_of_bfloat16(n: int) -> None:
    module = compile_glsl(source(bfloat16, n), name="bfloat16")
    validate(module)
    assert b"SPV_KHR_bfloat16" in module


@pytest.mark.parametrize("n", [256, 77])
def test_a_product_of_float16_is_left_alone(n: int) -> None:
    text = source(float16, n)
    module = compile_glsl(text, name="float16")
    validate(module)
    assert MARK not in text and b"SPV_KHR_bfloat16" not in module
    assert len(with_bfloat16(module)) > len(module)
