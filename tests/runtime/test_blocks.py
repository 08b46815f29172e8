"""Native blocks against NumPy's calls for the same kernels, bit for bit, in one thread and in several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.planned import plan_of, run
from tests.reference import variable
from vkgrad.autodiff import vjp
from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.runtime import _native, blocks, twin
from vkgrad.runtime.lanes import Lanes
from vkgrad.runtime.nest import Space
from vkgrad.runtime.one_thread import GEMM

Values = dict[Node, np.ndarray]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3e38, 1e-45], np.float32)


def numbers(values: Values, shape: tuple[int, ...], seed: int) -> Node:
    """A leaf with zeros of both signs, infinities, NaN and ties among its elements."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(-3, 4, shape).astype(np.float32) * np.float32(0.3)
    return variable(np.where(generator.random(shape) < 0.2, generator.choice(SPECIAL, shape), drawn), values)


def relu_of_sum(x: Node, y: Node) -> Node:
    return b.apply("relu", b.apply("add", x, y))


def chain(x: Node, y: Node) -> Node:
    product = b.apply("multiply", b.apply("subtract", x, y), b.apply("maximum", x, 0.5))
    return b.apply("where", b.apply("less_equal", x, y), b.apply("negative", product), b.apply("minimum", x, y))


def pooled(x: Node, y: Node) -> Node:
    windows = views.window(views.window(relu_of_sum(x, y), axis=1, size=2, stride=2), axis=2, size=2, stride=2)
    return b.build("max", windows, axes=(3, 4), ties="first")


def pooled_gradient(x: Node, y: Node) -> Node:
    out = pooled(x, y)
    (gradient,) = vjp([out], [x], [b.expand(b.constant(0.5, out.dtype), out.shape)])
    return gradient


@pytest.mark.parametrize("function", [relu_of_sum, chain, pooled, pooled_gradient])
@pytest.mark.parametrize("shape", [(3, 8, 14), (1, 2, 4), (5, 6, 10), (2, 40, 600)])
@pytest.mark.parametrize("threads", [1, 3])
def test_bits_of_numpy(
    function: Callable[[Node, Node], Node], shape: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: Values = {}
    x, y = numbers(values, shape, 1), numbers(values, shape, 2)
    plan, leaves = plan_of([function(x, y)])
    taken = []

    def spy(space: Any, _: int) -> Any:
        taken.append(found := blocks.blockwise(space, threads))
        return found

    monkeypatch.setattr(blocks, "LEAST_SHARED", 0)
    monkeypatch.setattr(twin, "blockwise", spy)
    (native,) = run(plan, leaves, values)
    assert taken and all(taken)
    monkeypatch.setattr(twin, "blockwise", lambda space, threads: None)
    (plain,) = run(plan, leaves, values)
    assert native is not None and plain is not None
    assert np.array_equal(native.view(np.uint32), plain.view(np.uint32))


@pytest.mark.parametrize(
    ("shape", "axes", "taken"), [((20,), (0,), False), ((20, 3), (0,), True), ((200, 3), (0,), False)]
)
def test_sums_that_numpy_takes_apart_are_left_to_it(shape: tuple[int, ...], axes: tuple[int, ...], taken: bool) -> None:
    """Those of one place and long ones: NumPy adds several of their terms at a time."""
    plan, _ = plan_of([b.build("sum", numbers({}, shape, 1), axes=axes)])
    assert [blocks.blockwise(Space.of(kernel), 1) is not None for kernel in plan.kernels] == [taken]


def test_a_wrong_loop_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    values: Values = {}
    x, y = numbers(values, (3, 8, 14), 1), numbers(values, (3, 8, 14), 2)
    plan, leaves = plan_of([relu_of_sum(x, y)])
    (right,) = run(plan, leaves, values)
    loop = blocks._Description._loop
    monkeypatch.setattr(
        blocks._Description, "_loop", lambda self, name, i: loop(self, {"add": "subtract"}.get(name, name), i)
    )
    (wrong,) = run(plan, leaves, values)
    assert right is not None and wrong is not None and not np.array_equal(right, wrong, equal_nan=True)


@pytest.mark.parametrize("turn", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("stack", [(), (5,), (2, 3)])
@pytest.mark.parametrize("threads", [1, 4])
def test_products_in_parts(turn: tuple[bool, bool], stack: tuple[int, ...], threads: int) -> None:
    if not GEMM:
        pytest.skip("NumPy here has a BLAS whose product is not found by name")
    generator = np.random.default_rng(0)

    def whole(*shape: int, turned: bool) -> np.ndarray:
        shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
        drawn = generator.integers(-3, 4, shape).astype(np.float32)
        return drawn.swapaxes(-1, -2) if turned else drawn

    left, right = whole(*stack, 190, 70, turned=turn[0]), whole(*(1 for _ in stack), 70, 130, turned=turn[1])
    out = np.full((*stack, 190, 130), np.nan, np.float32)
    assert _native.multiply(GEMM, left, right, out, threads)
    assert np.array_equal(out, left @ right)
    scattered = np.zeros((*stack, 380, 140), np.float32)[..., ::2, ::2]  # no matrix that BLAS can read
    assert not _native.multiply(GEMM, scattered, right, out, threads)


def test_lanes_do_not_matter() -> None:
    """The twin runs with as many threads as the machine has, and the bits of element-wise kernels are the same."""
    values: Values = {}
    x, y = numbers(values, (64, 64, 64), 1), numbers(values, (64, 64, 64), 2)
    plan, leaves = plan_of([chain(x, y)])
    (kernel,) = plan.kernels
    results = []
    for count in (1, 4):
        arrays = [values[leaf].copy().reshape(-1) for leaf in leaves] + [np.zeros(64**3, np.float32)]
        twin.prepare(kernel, Lanes(count))([arrays[slot] for slot in kernel.slots])
        results.append(arrays[-1])
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
