"""Filters that are used often are copied first, in the order in which products read them; nothing else is copied."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planned import run
from tests.reference import evaluate
from vkgrad.autodiff import vjp
from vkgrad.ir.dtypes import float32
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import pad, window
from vkgrad.schedule import packing, split
from vkgrad.schedule.kernel import Load
from vkgrad.schedule.plan import Plan, build_plan
from vkgrad.schedule.split import Width

GPU = Width(1 << 16, 256, 16, 132)


def convolution(x: Node, w: Node, stride: int = 1, padding: int = 1) -> Node:
    margin, (kh, kw) = (0, 0, padding, padding), w.shape[2:]
    windows = window(window(pad(x, margin, margin), 2, kh, stride, 1), 3, kw, stride, 1)
    return contract(windows, w, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3))


def planned(targets: list[Node], leaves: list[Node], width: Width = GPU) -> Plan:
    return build_plan(targets, leaves, max_buffers=16, width=width)


def copies(plan: Plan) -> int:
    return sum(kernel.product is None for kernel in plan.kernels)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORTH_USES", 1), ("WORTH_PACKING", 0), ("NARROW", 1)):
        monkeypatch.setattr(packing, name, value)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("taps", "stride", "padding"), [((3, 3), 1, 1), ((3, 3), 2, 1), ((2, 5), 1, 2)], ids=str)
def test_values_are_the_same_and_filters_lie_side_by_side(taps: tuple[int, int], stride: int, padding: int):
    x, w = leaf((2, 3, 9, 8), float32), leaf((5, 3, *taps), float32)
    y = convolution(x, w, stride, padding)
    g = leaf(y.shape, float32)
    rng = np.random.default_rng(1)
    for target, leaves in ((y, [x, w]), (vjp([y], [x], [g])[0], [w, g])):
        values = {node: rng.integers(-3, 4, node.shape).astype("f4") for node in leaves}
        plan = planned([target], leaves)
        assert copies(plan) == 1
        for kernel in plan.kernels:
            if kernel.product is not None:
                load = kernel.code[kernel.product.right]
                assert isinstance(load, Load) and abs(load.layout.strides[kernel.parallel - 1]) == 1
        np.testing.assert_array_equal(run(plan, leaves, values)[0], evaluate([target], values)[0].ravel())


@pytest.mark.usefixtures("always")
def test_only_filters_of_several_taps_are_packed():
    x, g = leaf((2, 3, 9, 8), float32), leaf((2, 5, 9, 8), float32)
    one = leaf((5, 3, 1, 1), float32)
    assert copies(planned([convolution(x, one, padding=0)], [x, one])) == 0
    a, c = leaf((40, 30), float32), leaf((30, 20), float32)
    assert copies(planned([contract(a, c, (0, 1), (1, 2), (0, 2))], [a, c])) == 0
    w = leaf((5, 3, 3, 3), float32)
    assert copies(planned([vjp([convolution(x, w)], [w], [g])[0]], [x, g])) == 0


def test_a_copy_must_be_worth_its_kernel():
    """Large layers on a device that works in tiles; no small ones, and nothing elsewhere."""

    def made(batch: int, channels: int, width: Width) -> int:
        x, w = leaf((batch, channels, 28, 28), float32), leaf((channels, channels, 3, 3), float32)
        return copies(planned([convolution(x, w)], [x, w], width))

    assert made(32, 128, GPU) == 1
    assert made(8, 64, GPU) == made(32, 16, GPU) == made(32, 128, GPU._replace(tiles=0)) == 0


def test_of_gradients_of_3x3_filters_the_batch_is_cut(monkeypatch: pytest.MonkeyPatch):
    """Images stay whole, so that tiles of them do; values as before. Gradients of other filters are cut as ever."""
    monkeypatch.setattr(split, "WORTH_SPLITTING", 0)
    monkeypatch.setattr(split, "JOIN_US", -1e6)  # as often as may be
    rng = np.random.default_rng(2)
    for taps in (3, 5):
        x, w = leaf((4, 32, 12, 12), float32), leaf((32, 32, taps, taps), float32)
        y = convolution(x, w, padding=taps // 2)
        g = leaf(y.shape, float32)
        target = vjp([y], [w], [g])[0]
        plan = planned([target], [x, g])
        (kernel,) = [kernel for kernel in plan.kernels if kernel.product]
        if taps == 3:
            assert kernel.extents[kernel.parallel :] in ((12, 12), (1, 12, 12))
            values = {node: rng.integers(-2, 3, node.shape).astype("f4") for node in (x, g)}
            np.testing.assert_array_equal(run(plan, [x, g], values)[0], evaluate([target], values)[0].ravel())
        else:
            assert kernel.extents[kernel.parallel :] not in ((12, 12), (1, 12, 12))


def test_a_convolution_that_fills_a_device_in_tiles_of_results_is_not_cut():
    x = leaf((32, 512, 7, 7), float32)
    for taps, kernels in ((3, 2), (5, 3)):  # with the copy, and what joins parts
        w = leaf((512, 512, taps, taps), float32)
        assert len(planned([convolution(x, w, padding=taps // 2)], [x, w]).kernels) == kernels
