"""Rows for large nests on small kernels: against NumPy, against each other bit for bit, and what they leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE, evaluate_in_double, limits_of, run_plan
from tests.codegen.test_rows import assert_close, layer_norm, real, softmax, whole
from tests.planned import plan_of
from tests.reference import graph_only  # noqa: F401  a fixture: double precision is refused by no device
from vkgrad.codegen import nests
from vkgrad.codegen.elements import Packing
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import Limits, Row, choose, rows_for
from vkgrad.codegen.tune import candidates, order_of
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, bool_, float16, float32, float64, int8, int16, int32, uint8
from vkgrad.ir.node import Node
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import flip, pad, permute, window
from vkgrad.runtime._native import Device
from vkgrad.schedule.kernel import Kernel
from vkgrad.schedule.plan import build_plan
from vkgrad.schedule.split import Width

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]

LARGE = nests.LARGE


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel counts as large."""
    monkeypatch.setattr(nests, "LARGE", 1)


def check(
    device: Device,
    target: Node,
    leaves: Sequence[Node],
    draw=whole,
    terms: int = 0,
    packing: Packing = frozenset(),
) -> set[str]:
    """Compare `target` by every way of every kernel; ways of one order must agree bit for bit. Returns their names."""
    limits = replace(limits_of(device, GPU_LIKE), packing=packing)
    values = {node: draw(node.shape, node.dtype, seed) for seed, node in enumerate(leaves)}
    (wanted,) = evaluate_in_double([target], values)
    plan, order = plan_of([target])
    ways = [candidates(kernel, limits) for kernel in plan.kernels]
    names: set[str] = set()
    known: dict[tuple[str, ...], bytes] = {}
    for turn in range(max(map(len, ways))):
        rows = {id(kernel): own[turn % len(own)] for kernel, own in zip(plan.kernels, ways, strict=True)}
        (got,) = run_plan(device, plan, [values[node] for node in order], limits, lambda k, r=rows: r[id(k)])
        where = str([row.name for row in rows.values()])
        assert_close(got.reshape(wanted.shape), wanted, terms, where)
        orders = tuple(order_of(rows[id(kernel)], kernel, limits) for kernel in plan.kernels)
        assert known.setdefault(orders, got.tobytes()) == got.tobytes(), f"{where} has other bits"
        names |= {row.name for row in rows.values()}
    return names


# ---- element-wise
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", [float32, int32, bool_, float16, uint8, int8, int16, float64], ids=str)
@pytest.mark.parametrize("shape", [(64,), (1003,), (7, 64), (5, 3, 8), (6, 7)], ids=str)
def test_fours_of_every_type(device: Device, shape: tuple[int, ...], dtype: DType):
    if dtype is float64 and not device.info["features"].get("shaderFloat64"):
        pytest.skip("the device has no double precision")
    x, y = leaf(shape, dtype), leaf(shape[-1:], dtype)
    target = b.apply("logical_and", x, y) if dtype is bool_ else b.apply("add", x, y)
    has = device.info["features"]
    packed = {s for s, f in ((1, "storageBuffer8BitAccess"), (2, "storageBuffer16BitAccess")) if not has.get(f)}
    assert any(name.startswith("nest_strips") for name in check(device, target, [x, y], packing=frozenset(packed)))


@pytest.mark.usefixtures("small")
def test_padding_flips_windows_and_shared_operands(device: Device):
    """Guards that neighbours share and that they do not, addresses that run backwards, and a rank of four."""
    x, row = leaf((6, 5, 8), float32), leaf((8,), float32)
    check(device, b.apply("add", flip(x, (2,)), row), [x, row])
    check(device, b.apply("multiply", pad(x, (1, 0, 0), (1, 0, 0), value=3), row), [x, row])
    check(device, b.apply("multiply", pad(x, (0, 0, 3), (0, 0, 1), value=3), 2.0), [x])
    check(device, b.apply("negative", window(x, 2, 4, 2, 1)), [x])
    check(device, b.apply("where", b.apply("greater", x, row), x, 0.0), [x, row])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", [float32, float16, bool_], ids=str)
@pytest.mark.parametrize("shape", [(68, 132), (37, 52), (52, 37), (16, 17), (130, 64)], ids=str)
def test_what_lies_across_is_turned(device: Device, shape: tuple[int, int], dtype: DType):
    if dtype is float16 and not device.info["features"].get("storageBuffer16BitAccess"):
        pytest.skip("the device packs halves, and packed ones are not turned")
    x, y = leaf(shape, dtype), leaf(shape[::-1], dtype)
    turned = permute(x, (1, 0))
    target = b.apply("logical_or", turned, y) if dtype is bool_ else b.apply("subtract", turned, y)
    assert any(name.startswith("nest_tiles") for name in check(device, target, [x, y]))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (3, 0, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)], ids=str)
def test_permutations_of_four_axes(device: Device, order: tuple[int, ...]):
    x = leaf((17, 3, 20, 18), float32)
    check(device, b.apply("negative", permute(x, order)), [x])


# ---- reductions
SUMS = [
    ((40, 64), (1,)), ((40, 64), (0,)), ((8, 33), (1,)), ((40, 33), (0,)), ((4, 48, 16), (1,)), ((4, 12, 16), (0, 2)),
    ((4096,), (0,)), ((4099,), (0,)), ((3, 5000), (1,)), ((5000, 8), (0,)), ((5001, 3), (0,)), ((20, 35), (1,)),
    ((20, 40), (1,)), ((300, 4), (0,)), ((2, 130, 4), (1,)), ((2, 20000), (1,)), ((20000, 4), (0,)), ((37, 1), (0,)),
]  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("shape", "axes"), SUMS, ids=str)
def test_sums_in_every_direction(device: Device, shape: tuple[int, ...], axes: tuple[int, ...]):
    x = leaf(shape, float32)
    ran = check(device, b.build("sum", x, axes=axes), [x], real, terms=400)
    assert any(name.startswith("nest_lanes") for name in ran)
    y = leaf(shape, int32)
    check(device, b.build("max", y, axes=axes, ties="share"), [y])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("f", [softmax, layer_norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("columns", [2, 4, 10, 33, 64, 257, 512, 2048, 9000, 20_000])
def test_rows_that_stay_in_registers(device: Device, f, columns: int):
    x = leaf((3, columns), float32)
    check(device, f(x), [x], real, terms=16)
    if columns <= 64:  # the same of what lies across
        x = leaf((columns, 12), float32)
        check(device, f(permute(x, (1, 0))), [x], real, terms=16)


@pytest.mark.usefixtures("small")
def test_a_sum_has_one_order_however_its_terms_lie(device: Device):
    limits = limits_of(device, GPU_LIKE)
    x, y = leaf((24, 3000), float32), leaf((3000, 24), float32)
    across = b.build("sum", permute(y, (1, 0)), axes=(1,))
    alone, fused = b.build("sum", x, axes=(1,)), x - b.expand(b.build("sum", x, axes=(1,)), x.shape)
    values = real((24, 3000), float32, 3)
    kernels = [plan_of([node])[0] for node in (alone, across, fused)]
    orders = {order_of(choose(plan.kernels[0], limits), plan.kernels[0], limits) for plan in kernels}
    assert len(orders) == 1
    (first,), (second,), (third,) = (
        run_plan(device, plan, [array], limits) for plan, array in zip(kernels, (values, values.T, values), strict=True)
    )
    assert first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(values - first, third)


# ---- what is chosen
def chosen(target: Node, limits: Limits = GPU_LIKE) -> tuple[Kernel, Row]:
    (kernel,) = plan_of([target])[0].kernels
    return kernel, choose(kernel, limits)


def test_only_large_kernels_of_a_gpu_are_gone_through_so():
    side = 1 << LARGE.bit_length() // 2
    for rows in (side, side // 4):
        x = leaf((rows, side), float32)
        for target, name in (
            (b.apply("negative", x), "nest_strips"),
            (b.apply("negative", permute(x, (1, 0))), "nest_tiles"),
            (b.build("sum", x, axes=(1,)), "nest_lanes"),
            (softmax(x), "nest_lanes"),
        ):
            assert (chosen(target)[1].name == name) == (rows == side)
            (kernel,) = plan_of([target])[0].kernels
            assert not any(row.template.startswith("nest_") for row in rows_for(kernel, SOFTWARE))


def test_what_is_reduced_twice_is_read_once():
    side = 1 << LARGE.bit_length() // 2
    kernel, row = chosen(softmax(leaf((side, side), float32)))
    source = render(kernel, GPU_LIKE, row).source
    assert source.count("= b0_four[") == side // row.parameters(kernel, GPU_LIKE)["lanes"]
    assert "b0[" not in source.split("void main")[1]


def test_sums_over_leading_axes_have_workgroups_enough():
    wide = Width(1 << 16, 256, 16, 132)
    x = leaf((1 << 20, 64), float32)

    def first(node: Node) -> tuple[int, ...]:
        return build_plan([node], [x], max_buffers=16, width=wide).kernels[0].extents

    assert first(b.build("sum", x, axes=(0,))) == (256, 64, 4096)
    assert first(b.build("sum", permute(x, (1, 0)), axes=(1,))) == (64, 16, 65536)
