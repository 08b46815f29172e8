"""Asking a device for its conversions of half precision: it must notice each kind of mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, limits_of, run_plan
from tests.planned import plan_of
from vkgrad.codegen.render import render, used_functions
from vkgrad.codegen.rows import choose
from vkgrad.config import config
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import float16
from vkgrad.ops.sources import leaf
from vkgrad.runtime import halves
from vkgrad.runtime._native import Device

pytestmark = pytest.mark.device

OWN = "packHalf2x16(vec2(x, x))"


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        ("(to_float16(x) * 65537u)", 0),
        ("packHalf2x16(vec2(uintBitsToFloat(floatBitsToUint(x) & ~0x1fffu)))", 1000),  # rounds towards zero
        ("((to_float16(abs(x)) < 0x400u ? to_float16(x * 0.0) : to_float16(x)) * 65537u)", 1000),  # no subnormals
        ("(min(to_float16(x), 0xfbffu) * 65537u)", 1),  # no negative infinity
    ],
)
def test_mistakes_are_counted(device: Device, mistake: str, wrong: int):
    """In what is written; with none, what is read must be right by integers."""
    text = halves.source()
    main = text.index("void write")
    text = text[:main] + text[main:].replace(OWN, mistake)
    text = text.replace("unpackHalf2x16(half_bits | half_bits << 16)", "vec2(from_float16(half_bits))")
    found = halves.wrong_count(device, text)
    assert found >= wrong if wrong else found == 0


def test_what_is_read_wrong_is_counted(device: Device):
    text = halves.source().replace(
        "unpackHalf2x16(half_bits | half_bits << 16)", "vec2(from_float16(max(half_bits, 1u)))"
    )
    assert halves.wrong_count(device, text.replace(OWN, "(to_float16(x) * 65537u)")) >= 1  # 0


def test_the_answer_is_kept(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with config.override(cache_dir=tmp_path):
        monkeypatch.setattr(halves, "wrong_count", lambda native, text: 7)
        assert not halves.are_exact(device, "one")
        monkeypatch.setattr(halves, "wrong_count", lambda native, text: 0)
        assert not halves.are_exact(device, "one") and halves.are_exact(device, "another")


def test_exact_conversions_take_the_place_of_those_by_integers(device: Device):
    x = leaf((300,), float16)
    plan, _ = plan_of([b.apply("multiply", x, x)])
    (kernel,) = plan.kernels
    limits = replace(limits_of(device, GPU_LIKE), halves=True)
    source = render(kernel, limits, choose(kernel, limits)).source
    assert "unpackHalf2x16" in source and "mix(" not in source
    assert "unpackHalf2x16" not in render(kernel, replace(limits, halves=False), choose(kernel, limits)).source
    assert "unpackHalf2x16" not in "\n".join(used_functions("from_float16(x)"))
    if halves.wrong_count(device, halves.source()) == 0:
        values = np.random.default_rng(0).uniform(-300, 300, 300).astype("f2")
        with np.errstate(over="ignore"):
            wanted = values * values
        (got,) = run_plan(device, plan, [values], limits)
        np.testing.assert_array_equal(got, wanted)
