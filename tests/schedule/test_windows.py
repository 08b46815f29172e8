"""Sums over windows: those that do not overlap become one term, all others stay what they are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planned import plan_of, run
from tests.reference import evaluate, variable
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.views import overlap_add
from vkgrad.schedule import windows
from vkgrad.schedule.kernel import Guarded, Kernel, Reduce
from vkgrad.schedule.split import Width


def put_back(size: int, stride: int, extent: int) -> tuple[Node, dict[Node, np.ndarray]]:
    """Windows along two axes, put back as the gradient of pooling does, with the place in the window in play."""
    values: dict[Node, np.ndarray] = {}
    count = (extent - size) // stride + 1
    x = variable(np.arange(3 * count * count, dtype="f4").reshape(3, count, count) - 7, values)
    place = b.cast(b.build("iota", extent=size), x.dtype)
    row, column = b.reshape(place, (1, 1, 1, size, 1)), b.reshape(place, (1, 1, 1, 1, size))
    shape = (3, count, count, size, size)
    wide = b.expand(b.reshape(x, (3, count, count, 1, 1)), shape)
    wide = b.apply(
        "multiply", wide, b.apply("add", b.expand(row, shape), b.apply("multiply", b.expand(column, shape), 3.0))
    )
    once = overlap_add(wide, 2, extent, stride, 1)
    return b.apply("relu", overlap_add(once, 1, extent, stride, 1)), values


def kernel_of(size: int, stride: int, extent: int) -> Kernel:
    output, values = put_back(size, stride, extent)
    plan, leaves = plan_of([output], width=Width(1, 1, 1 << 20))
    (found,) = run(plan, leaves, values)
    assert found is not None
    np.testing.assert_array_equal(found.reshape(output.shape), evaluate([output], values)[0])
    (kernel,) = plan.kernels
    assert isinstance(kernel, Kernel)
    return kernel


@pytest.mark.parametrize(("size", "extent"), [(2, 6), (3, 9), (4, 4)])
def test_windows_that_tile_are_no_loop(size: int, extent: int) -> None:
    kernel = kernel_of(size, size, extent)
    assert kernel.terms == 1
    assert not any(isinstance(instruction, (Guarded, Reduce)) for instruction in kernel.code)


@pytest.mark.parametrize(("size", "stride", "extent"), [(3, 2, 9), (2, 1, 6), (2, 3, 8), (2, 2, 7)])
def test_others_are_loops(size: int, stride: int, extent: int) -> None:
    """Windows that overlap or leave gaps, or an axis that they do not fill."""
    assert kernel_of(size, stride, extent).terms > 1


def test_a_wrong_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arm: with the place taken from the other end the values differ."""
    honest = windows._from_guard

    def mirrored(kernel, guard):  # type: ignore[no-untyped-def]
        window = honest(kernel, guard)
        return window and windows.Window(
            window.position, window.place, window.step, -window.sign, window.step - 1 - window.first
        )

    monkeypatch.setattr(windows, "_from_guard", mirrored)
    with pytest.raises(AssertionError):
        kernel_of(2, 2, 6)
