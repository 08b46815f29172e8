"""Every row of the table on every kernel it applies to, against NumPy in double precision.

Sums of products of small whole numbers are exact in single precision in any order, so those are compared bit for bit;
whatever is rounded has a tolerance that follows from its type and its number of terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.run_kernel import (
    GPU_LIKE,
    SOFTWARE,
    corrupted,
    evaluate_in_double,
    limits_of,
    rows_for,
    run_plan,
)
from tests.codegen.spirv_validation import validate
from tests.planned import plan_of
from tests.reference import graph_only  # noqa: F401  a fixture: double precision is refused by no device
from vkgrad.autodiff import vjp
from vkgrad.codegen.cache import spirv
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import ROWS, Limits, Row, choose
from vkgrad.codegen.rows.row import MOST_TRIPS
from vkgrad.codegen.rows.staged import shared_row
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, uint32
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import flip, pad, permute, window
from vkgrad.runtime._native import Device
from vkgrad.schedule.kernel import Kernel

pytestmark = pytest.mark.device
swiftshader = pytest.mark.swiftshader  # subgroups of four, workgroups of 256

Graph = Callable[[], tuple[list[Node], list[Node]]]  # targets and leaves


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


def whole(shape: Sequence[int], dtype: DType, seed: int) -> np.ndarray:
    """Small whole numbers, some of them zero."""
    values = np.random.default_rng(seed).integers(0 if dtype.kind in "ub" else -3, 2 if dtype.kind == "b" else 4, shape)
    return values.astype(dtype.numpy)


def real(shape: Sequence[int], dtype: DType, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype.numpy)


def check(
    device: Device,
    targets: Sequence[Node],
    leaves: Sequence[Node],
    *,
    draw: Callable[[Sequence[int], DType, int], np.ndarray] = whole,
    terms: int = 0,
    kinds: Sequence[Limits] = (),
) -> set[str]:
    """Compare `targets` by every row on software and GPU-like limits; returns the names of the rows that ran.

    Values may be off by `terms` roundings of the largest value; 0 demands equality.
    """
    values = {node: draw(node.shape, node.dtype, seed) for seed, node in enumerate(leaves)}
    wanted = evaluate_in_double(targets, values)
    plan, order = plan_of(targets)
    ran = set()
    for limits in kinds or (limits_of(device, SOFTWARE), limits_of(device, GPU_LIKE)):
        choices = [rows_for(kernel, limits) for kernel in plan.kernels]
        for turn in range(max(map(len, choices), default=0)):
            rows = {id(kernel): own[turn % len(own)] for kernel, own in zip(plan.kernels, choices, strict=True)}
            ran |= {row.name for row in rows.values()}
            got = run_plan(device, plan, [values[node] for node in order], limits, lambda k, r=rows: r[id(k)])
            for have, want in zip(got, wanted, strict=True):
                names = sorted({row.name for row in rows.values()})
                assert_close(
                    have.reshape(want.shape),
                    want,
                    terms,
                    f"{names} on {'software' if limits.software else 'GPU'} limits",
                )
    return ran


def assert_close(have: np.ndarray, want: np.ndarray, terms: int, where: str) -> None:
    if not terms or have.dtype.kind != "f":
        np.testing.assert_array_equal(have, want, err_msg=where)
    else:
        slack = terms * np.finfo(have.dtype).eps * max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(have, want, rtol=0, atol=slack, err_msg=where)


# ---- products
LEFT = {"n": (0, 1), "t": (1, 0)}
RIGHT = {"n": (1, 2), "t": (2, 1)}


def product(m: int, n: int, k: int, form: str = "nn", dtype: DType = float32) -> tuple[list[Node], list[Node]]:
    """An m x k by k x n product; `form` says which side is transposed."""
    extents = (m, k, n)
    left, right = LEFT[form[0]], RIGHT[form[1]]
    x, y = (leaf(tuple(extents[label] for label in labels), dtype) for labels in (left, right))
    return [contract(x, y, left, right, (0, 2))], [x, y]


SIZES = [
    (1, 1, 1), (1, 7, 17), (7, 1, 17), (17, 7, 1), (30, 17, 23), (255, 3, 5), (5, 256, 7), (33, 257, 31), (64, 64, 37),
    (13, 11, 701),
]  # fmt: skip


@swiftshader
@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_in_every_orientation(device: Device, size: tuple[int, int, int], form: str):
    targets, leaves = product(*size, form)
    check(device, targets, leaves)


def test_vectors(device: Device):
    x, v, w = leaf((41, 29), float32), leaf((29,), float32), leaf((41,), float32)
    check(device, [contract(x, v, (0, 1), (1,), (0,))], [x, v])
    check(device, [contract(w, x, (0,), (0, 1), (1,))], [w, x])
    check(device, [contract(w, w, (0,), (0,), ())], [w])
    check(device, [contract(w, v, (0,), (1,), (0, 1))], [w, v])


def test_batched_and_broadcast_products(device: Device):
    x, y = leaf((3, 2, 9, 14), float32), leaf((3, 14, 11), float32)
    check(device, [contract(x, y, (0, 4, 1, 2), (0, 2, 3), (0, 4, 1, 3))], [x, y])
    check(device, [contract(x, y, (0, 4, 1, 2), (0, 2, 3), (1, 0, 3, 4))], [x, y])
    check(device, [contract(flip(permute(x, (1, 0, 2, 3)), (0, 3)), y, (4, 0, 1, 2), (0, 2, 3), (0, 4, 1, 3))], [x, y])


@pytest.mark.parametrize("dtype", [int32, uint32, float64], ids=lambda d: d.name)
def test_products_of_other_types(device: Device, dtype: DType):
    if dtype is float64 and not device.info["features"].get("shaderFloat64"):
        pytest.skip("the device has no double precision")
    targets, leaves = product(19, 21, 65, dtype=dtype)
    check(device, targets, leaves)


@swiftshader
def test_a_long_sum_of_products_stays_within_the_trips_of_software_drivers(device: Device):
    targets, leaves = product(3, 5, 2 * MOST_TRIPS + 4465, "nt")
    check(device, targets, leaves)


def test_rounded_products(device: Device):
    targets, leaves = product(65, 33, 129)
    check(device, targets, leaves, draw=real, terms=12)


def test_what_is_fused_around_a_product(device: Device):
    """Prologue, epilogue, two results, and an update in place of one of its operands."""
    x, w, c = leaf((21, 34), float32), leaf((34, 18), float32), leaf((18,), float32)
    y = b.apply("add", contract(b.apply("relu", x), w, (0, 1), (1, 2), (0, 2)), c)
    check(device, [b.apply("relu", y), y], [x, w, c])
    g = contract(x, y, (0, 1), (0, 2), (1, 2))
    check(device, [w - g * 0.5], [w, x, c])


@pytest.mark.parametrize(
    ("row", "labels", "shapes"),
    [
        ("contract_shared_64x64", ((0, 1), (1, 2), (0, 2)), ((390, 37), (37, 361))),
        ("contract_shared_64x64", ((1, 0), (2, 1), (0, 2)), ((36, 388), (364, 36))),
        ("contract_shared_32x64", ((3, 0, 1), (3, 1, 2), (0, 3, 2)), ((11, 101, 34), (11, 34, 119))),
        ("contract_shared_32x32", ((0, 1), (2, 1), (0, 2)), ((260, 64), (130, 64))),
        ("contract_shared_128x64", ((1, 0), (1, 2), (2, 0)), ((32, 516), (32, 524))),
        ("contract_shared_256x64", ((0, 1), (1, 2), (0, 2)), ((1290, 17), (17, 390))),
        ("contract_shared_128x128", ((0, 1), (2, 1), (0, 2)), ((764, 12), (756, 12))),
        ("contract_shared_128x128x32", ((0, 1), (1, 2), (0, 2)), ((764, 44), (44, 756))),
        ("contract_shared_128x128x32", ((1, 0), (2, 1), (0, 2)), ((44, 764), (756, 44))),
        ("contract_shared_64x16", ((0, 1), (2, 1), (0, 2)), ((2100, 33), (15, 33))),
        ("contract_shared_128x16", ((0, 1), (2, 1), (0, 2)), ((4300, 33), (15, 33))),
        ("contract_shared_16x64", ((0, 1), (1, 2), (0, 2)), ((15, 40), (40, 2300))),
    ],
)
def test_staged_products(device: Device, row: str, labels: Sequence, shapes: Sequence):
    """Every row of a staged product on sizes that it suits, in several orientations, with and without fours."""
    x, y = (leaf(shape, float32) for shape in shapes)
    ran = check(device, [contract(x, y, *labels)], [x, y], kinds=[limits_of(device, GPU_LIKE)])
    assert row in ran


@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("tile", "padded"), [((128, 256, 8, 8, 8, 1), False), ((64, 64, 16, 8, 4, 2), True)], ids=str)
def test_tiles_that_need_more_shared_memory(device: Device, tile: tuple[int, ...], padded: bool, form: str):
    """Two rows need more shared memory than software drivers have: the same with half as deep stages."""
    row = shared_row("half as deep", *tile, 40.0, "", padded=padded)
    limits = limits_of(device, GPU_LIKE)
    targets, leaves = product(508, 1020, 28, form)
    values = {node: whole(node.shape, node.dtype, seed) for seed, node in enumerate(leaves)}
    plan, order = plan_of(targets)
    assert row.parameters(plan.kernels[0], limits)["bn"] == tile[1]
    (got,) = run_plan(device, plan, [values[node] for node in order], limits, lambda _: row)
    np.testing.assert_array_equal(got, evaluate_in_double(targets, values)[0])


def test_where_operands_are_not_orderly_a_large_tile_gives_way(device: Device):
    """Rows for which shared memory is full take other tiles where they need room, and add up in the same order."""
    limits = limits_of(device, GPU_LIKE)
    (row,) = (row for row in ROWS if row.name == "contract_shared_128x128x32")
    x, y = leaf((764, 4, 11), float32), leaf((4, 756, 11), float32)
    targets = [contract(x, y, (0, 1, 3), (1, 2, 3), (0, 2))]
    values = {node: whole(node.shape, node.dtype, seed) for seed, node in enumerate((x, y))}
    plan, order = plan_of(targets)
    (kernel,) = (kernel for kernel in plan.kernels if kernel.product)
    assert row.parameters(kernel, limits)["padded"] and row.applies(kernel, limits)
    (got,) = run_plan(device, plan, [values[node] for node in order], limits, lambda k: row if k is kernel else None)
    np.testing.assert_array_equal(got, evaluate_in_double(targets, values)[0])


@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("size", [(1, 4100, 260), (2, 3000, 361), (4097, 1, 256), (2051, 7, 513), (8, 1028, 1024)])
def test_a_large_matrix_times_few_vectors(device: Device, size: tuple[int, int, int], form: str):
    targets, leaves = product(*size, form)
    ran = check(device, targets, leaves, kinds=[limits_of(device, GPU_LIKE)])
    assert ("contract_vector" in ran) == (min(size[:2]) <= 2) and "contract_vectors" in ran


def test_large_matrices_times_vectors_in_a_batch(device: Device):
    x, y = leaf((5, 801, 264), float32), leaf((5, 3, 264), float32)
    limits = limits_of(device, GPU_LIKE)
    ran = check(device, [contract(x, y, (3, 0, 1), (3, 2, 1), (0, 3, 2))], [x, y], kinds=[limits])
    assert "contract_vectors" in ran


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
def test_cooperative_matrices_are_valid_shaders(form: str, dtype: DType):
    """No software driver multiplies these, so here they are only compiled: with eights and without, and a prologue."""
    limits = replace(GPU_LIKE, shared_bytes=49152, matrices=frozenset({"float16", "bfloat16"}))
    rows = [row for row in ROWS if row.template == "contract_cooperative.comp.j2"]
    assert rows
    for size in ((384, 512, 128), (390, 361, 71)):
        (target,), _ = product(*size, form, dtype=dtype)
        (kernel,) = plan_of([b.apply("relu", target)])[0].kernels
        for row in rows:
            assert row.applies(kernel, limits) and not row.applies(kernel, GPU_LIKE)
            shader = render(kernel, limits, row)
            assert ("_eight[" in shader.source) == (size[0] == 384)
            validate(spirv(shader.source, shader.row))


def test_half_precision_is_multiplied_in_matrices_where_they_are():
    limits = replace(GPU_LIKE, shared_bytes=49152, matrices=frozenset({"float16"}))

    def chosen(m: int, n: int, k: int, dtype: DType, limits: Limits = limits) -> str:
        (kernel,) = plan_of(product(m, n, k, dtype=dtype)[0])[0].kernels
        return choose(kernel, limits).name

    assert chosen(2048, 2048, 2048, float16) == "contract_cooperative_128x128"
    assert chosen(512, 512, 512, float16) == "contract_cooperative_64x64"
    for name in (
        chosen(2048, 2048, 2048, bfloat16),
        chosen(2048, 2048, 2048, float32),
        chosen(1, 4096, 4096, float16),
        chosen(2048, 2048, 2048, float16, GPU_LIKE),
    ):
        assert "cooperative" not in name


def test_fours_are_taken_only_where_they_lie_side_by_side():
    row = next(row for row in ROWS if row.name == "contract_shared_64x64")

    def wide(m: int, n: int, k: int, form: str) -> list:
        (kernel,) = plan_of(product(m, n, k, form)[0])[0].kernels
        found = row.parameters(kernel, GPU_LIKE)
        return [found[f"wide_{what}"] for what in ("left", "right", "store")]

    assert wide(400, 400, 40, "nn") == [True, True, "n"]
    assert wide(400, 401, 40, "nn") == [True, False, ""]
    assert wide(401, 400, 40, "nt") == [True, True, "n"]
    assert wide(401, 400, 39, "nt") == [False, False, "n"]
    assert wide(401, 400, 39, "tn") == [False, True, "n"]


def test_a_prologue_and_two_results_of_a_staged_product(device: Device):
    """What is loaded early is worked on late; results that lie side by side are stored in fours, in place too."""
    x, w, c = leaf((388, 36), float32), leaf((36, 364), float32), leaf((388, 364), float32)
    y = contract(b.apply("relu", x), w, (0, 1), (1, 2), (0, 2))
    ran = check(device, [c - y * 0.5, b.apply("greater", y, c)], [x, w, c], kinds=[limits_of(device, GPU_LIKE)])
    assert {"contract_shared_64x64", "contract_shared_32x32"} <= ran


# ---- convolutions
def convolution(x: Node, w: Node, padding: int = 0, stride: int = 1, dilation: int = 1) -> Node:
    lead = (0,) * (x.ndim - 2)
    x = pad(x, (*lead, padding, padding), (*lead, padding, padding))
    kh, kw = w.shape[2:]
    windows = window(window(x, 2, kh, stride, dilation), 3, kw, stride, dilation)
    return contract(windows, w, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3))


@swiftshader
@pytest.mark.parametrize(
    ("padding", "stride", "dilation"), [(0, 1, 1), (2, 1, 1), (1, 2, 1), (2, 1, 2), (3, 3, 2)], ids=str
)
def test_convolutions_and_their_gradients(device: Device, padding: int, stride: int, dilation: int):
    x, w = leaf((3, 4, 11, 9), float32), leaf((5, 4, 3, 2), float32)
    y = convolution(x, w, padding, stride, dilation)
    g = leaf(y.shape, float32)
    check(device, [y], [x, w])
    check(device, vjp([y], [x, w], [g]), [x, w, g])


def test_the_gradient_of_a_padded_convolution_is_one_kernel_without_the_padding():
    x, w = leaf((3, 4, 11, 9), float32), leaf((5, 4, 3, 2), float32)
    y = convolution(x, w, padding=1)
    (kernel,) = plan_of(vjp([y], [x], [leaf(y.shape, float32)]))[0].kernels
    assert kernel.product and kernel.places == x.size


def test_a_staged_convolution(device: Device):
    x, w = leaf((16, 4, 32, 33), float32), leaf((14, 4, 3, 3), float32)
    ran = check(device, [convolution(x, w, padding=1)], [x, w], kinds=[limits_of(device, GPU_LIKE)])
    assert "contract_shared_128x16" in ran


# Roundings of the largest gradient of the weights that Winograd's method with tiles of 4x4 may differ by.
GRADIENTS_BY_TILES = 60


@pytest.mark.parametrize(
    ("x_shape", "outputs", "padding", "apart"),
    [((2, 5, 9, 11), 6, 1, 1), ((1, 4, 8, 8), 33, 0, 1), ((3, 7, 10, 6), 8, 2, 1), ((2, 3, 12, 13), 5, 2, 2)],
    ids=str,
)
def test_filters_of_3x3_by_winograd(device: Device, x_shape: tuple[int, ...], outputs: int, padding: int, apart: int):
    """Odd sizes, tiles that overhang, taps as far apart as steps; a prologue and an epilogue; both gradients."""
    x, w, c = leaf(x_shape, float32), leaf((outputs, x_shape[1], 3, 3), float32), leaf((outputs, 1, 1), float32)
    kinds = [replace(limits_of(device, GPU_LIKE), shared_bytes=device.info["limits"]["max_shared_memory_bytes"])]
    plain = convolution(x, w, padding, apart, apart)
    fused = b.apply("relu", convolution(b.apply("relu", x), w, padding, apart, apart) + c)
    g = leaf(plain.shape, float32)
    to_x, to_w = (vjp([plain], [source], [g]) for source in (x, w))
    by_weights = "contract_winograd_weights_32x16"
    # Twos and fours, which is all that tiles of 2x2 divide by, round nothing.
    assert "contract_winograd_32x32" in check(device, [plain], [x, w], kinds=kinds)
    check(device, [fused], [x, w, c], kinds=kinds)
    assert ("contract_winograd_32x32" in check(device, to_x, [w, g], kinds=kinds)) == (apart == 1)
    assert by_weights in check(device, to_w, [x, g], draw=real, terms=GRADIENTS_BY_TILES, kinds=kinds)


def test_what_is_no_convolution_of_3x3_taps_has_no_row_for_it():
    """Other taps, other steps than the distance of taps, groups that share an axis with the filters."""
    x = leaf((2, 4, 9, 9), float32)
    for kernel, stride, dilation in (((2, 3), 1, 1), ((5, 5), 1, 1), ((3, 3), 2, 1), ((3, 3), 1, 2), ((1, 1), 1, 1)):
        w = leaf((6, 4, *kernel), float32)
        y = convolution(x, w, 2, stride, dilation)
        for targets in ([y], vjp([y], [w], [leaf(y.shape, float32)])):
            names = {row.name for own in plan_of(targets)[0].kernels for row in rows_for(own, GPU_LIKE)}
            assert not any("winograd" in name for name in names), (kernel, stride, dilation)


@pytest.mark.parametrize(
    ("kernel", "padding", "stride", "dilation"), [(3, 1, 2, 1), (1, 0, 2, 1), (5, 4, 1, 2)], ids=str
)
def test_filters_tap_by_tap(device: Device, kernel: int, padding: int, stride: int, dilation: int):
    """Filters that lie as (taps, channels, outputs), and those of one tap as they are; other orders are refused."""
    x = leaf((5, 16, 33, 31), float32)
    stored = leaf((kernel, kernel, 16, 72), float32)
    w, c = permute(stored, (3, 2, 0, 1)), leaf((72, 1, 1), float32)
    fused = b.apply("relu", convolution(b.apply("relu", x), w, padding, stride, dilation) + c)
    ran = check(device, [fused], [x, stored, c], kinds=[limits_of(device, GPU_LIKE)])
    assert "contract_taps_64x64" in ran
    if kernel > 1:
        plan, _ = plan_of([convolution(x, leaf((72, 16, kernel, kernel), float32), padding, stride, dilation)])
        assert not any("taps" in row.name for own in plan.kernels for row in rows_for(own, GPU_LIKE))


# ---- reductions
@swiftshader
@pytest.mark.parametrize("axes", [a for n in range(1, 5) for a in itertools.combinations(range(4), n)], ids=str)
def test_sums_over_every_choice_of_axes(device: Device, axes: tuple[int, ...]):
    x = leaf((5, 7, 3, 11), float32)
    check(device, [b.build("sum", permute(x, (2, 0, 3, 1)), axes=axes)], [x])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("prod", float32), ("max", float32), ("min", int32), ("max", uint32), ("sum", uint32), ("any", bool_),
     ("all", bool_), ("sum", float64)],
)  # fmt: skip
def test_every_reduction(device: Device, name: str, dtype: DType):
    if dtype is float64 and not device.info["features"].get("shaderFloat64"):
        pytest.skip("the device has no double precision")
    x = leaf((4, 67), dtype)
    ties = {"ties": "share"} if name in ("max", "min") else {}
    draw = (lambda s, d, n: np.sign(whole(s, d, n)) + (whole(s, d, n) == 0)) if name == "prod" else whole
    check(device, [b.build(name, x, axes=(1,), **ties)], [x], draw=draw)


@swiftshader
@pytest.mark.parametrize("count", [1, 31, 32, 255, 256, 257, 4096, 4097, 70_001])
def test_sums_of_every_length(device: Device, count: int):
    x = leaf((2, count), float32)
    check(device, [b.build("sum", x, axes=(1,))], [x])


def softmax(x: Node) -> Node:
    top = b.build("max", x, axes=(1,), ties="share")
    powers = b.apply("exp", x - b.expand(top, x.shape))
    return b.apply("divide", powers, b.expand(b.build("sum", powers, axes=(1,)), x.shape))


def layer_norm(x: Node) -> Node:
    n = float(x.shape[1])
    centred = x - b.expand(b.build("sum", x, axes=(1,)) * (1 / n), x.shape)
    variance = b.build("sum", centred * centred, axes=(1,)) * (1 / n)
    return centred * b.expand(b.apply("rsqrt", variance + 1e-5), x.shape)


@swiftshader
@pytest.mark.parametrize("columns", [1, 10, 33, 257, 9000])
def test_rows_that_are_reduced_twice(device: Device, columns: int):
    x = leaf((3, columns), float32)
    for f in (softmax, layer_norm):
        check(device, [f(x)], [x], draw=real, terms=16)


# ---- element-wise
@pytest.mark.parametrize("rank", range(7))
def test_element_wise_at_every_rank(device: Device, rank: int):
    shape = (3, 2, 5, 2, 3, 4)[:rank]
    x, y = leaf(shape, float32), leaf(tuple(1 if axis % 2 else e for axis, e in enumerate(shape)), float32)
    total = b.apply("where", b.apply("greater", x, y), x, b.apply("multiply", x, y))
    if rank:
        flipped = flip(permute(x, tuple(range(rank))[::-1]), (0, rank - 1))
        total = b.apply("add", total, permute(flipped, tuple(range(rank))[::-1]))
        total = pad(total, (1,) * rank, (0,) * rank, (0,) * (rank - 1) + (1,), value=5)
    check(device, [total, b.apply("greater", total, 1)], [x, y])


# ---- the table
def test_every_row_applies_somewhere_and_the_last_everywhere():
    kernels = [plan_of(example(row.name)[0])[0].kernels[0] for row in ROWS]
    large = replace(GPU_LIKE, shared_bytes=49152, matrices=frozenset({"float16", "bfloat16"}))
    for row, kernel in zip(ROWS, kernels, strict=True):
        assert row.applies(kernel, large)
        assert all(ROWS[-1].applies(kernel, limits) for limits in (SOFTWARE, GPU_LIKE))


ORDERING = ("lanes", "lanes_k", "bk")  # the parameters that decide the order of a sum


@pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])
def test_the_order_of_a_sum_does_not_depend_on_what_is_fused(limits: Limits):
    def order(kernel: Kernel) -> tuple:
        row = choose(kernel, limits)
        return row.name, [(k, v) for k, v in row.parameters(kernel, limits).items() if k in ORDERING]

    for rows, columns in ((4, 33), (700, 4000), (2, 9000), (5, 16000)):
        x = leaf((rows, columns), float32)
        alone = b.build("sum", x, axes=(1,))
        fused = x - b.expand(alone, x.shape)
        (first,), (second,) = (plan_of([node])[0].kernels for node in (alone, fused))
        assert second.loops() > first.loops()
        assert order(first) == order(second)
    for size in ((30, 20, 500), (3, 5, 70_000), (700, 770, 64)):
        (plain,), _ = product(*size)
        fused = b.apply("exp", plain + leaf((size[1],), float32))
        (first,), (second,) = (plan_of([node])[0].kernels for node in (plain, fused))
        assert order(first) == order(second)


@swiftshader
def test_same_sum_same_bits_alone_and_fused(device: Device):
    x = leaf((3, 9000), float32)
    total = b.build("sum", x, axes=(1,))
    fused = x - b.expand(total, x.shape)
    values = [real(x.shape, float32, 1)]
    for limits in (limits_of(device, SOFTWARE), limits_of(device, GPU_LIKE)):
        (alone,) = run_plan(device, plan_of([total])[0], values, limits)
        together = run_plan(device, plan_of([total, fused])[0], values, limits)
        np.testing.assert_array_equal(alone, together[0])
        np.testing.assert_array_equal(values[0] - alone, together[1])


# ---- the null arm
def example(row: str) -> tuple[list[Node], list[Node]]:
    """Something that `row` computes on GPU-like limits."""
    sizes = {
        "contract_vector": (2, 4100, 260), "contract_vectors": (5, 4100, 260),
        "contract_shared_128x256": (772, 1520, 20), "contract_shared_128x128": (772, 752, 17),
        "contract_shared_256x64": (1284, 388, 17),
        "contract_shared_128x64": (516, 524, 17), "contract_shared_64x64": (390, 361, 17),
        "contract_shared_128x128x32": (772, 752, 36), "contract_shared_64x64x32": (390, 361, 33),
        "contract_shared_32x64": (196, 364, 33),
        "contract_shared_32x32": (196, 190, 33), "contract_shared_128x16": (4100, 15, 17),
        "contract_shared_16x64": (15, 2100, 33), "contract_shared_64x16": (2100, 15, 33),
        "contract_tiled": (30, 17, 23),
    }  # fmt: skip
    if "cooperative" in row:
        return product(390, 361, 72, dtype=float16)
    if row in sizes:
        return product(*sizes[row])
    if "winograd" in row or "taps" in row:
        x, stored = leaf((3, 16, 37, 35), float32), leaf((3, 3, 16, 100), float32)
        y = convolution(x, permute(stored, (3, 2, 0, 1)), padding=1)
        if "weights" not in row:
            return [y], [x, stored]
        x, w = leaf((2, 5, 9, 11), float32), leaf((6, 5, 3, 3), float32)
        y = convolution(x, w, padding=1)
        g = leaf(y.shape, float32)
        return vjp([y], [w], [g]), [x, g]
    if row in ("nest_tiles", "nest_strips", "nest_lanes"):  # which are for large kernels
        x = leaf((1024, 5, 208), float32)
        axes = {"nest_tiles": (2, 1, 0), "nest_strips": (1, 0, 2), "nest_lanes": (1, 0, 2)}[row]
        turned = permute(x, axes)
        return [b.build("sum", turned, axes=(2,)) if row == "nest_lanes" else turned * 2.0], [x]
    x = leaf((2, 3, 8, 9), float32)
    if row == "nest_serial":
        return [permute(x, (3, 1, 0, 2)) * 2.0], [x]
    return [b.build("sum", permute(x, (3, 1, 0, 2)), axes=(1, 3))], [x]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_wrong_numbers_in_a_shader_are_noticed(device: Device, row: Row):
    targets, leaves = example(row.name)
    values = {node: whole(node.shape, node.dtype, seed) for seed, node in enumerate(leaves)}
    (wanted,) = evaluate_in_double(targets, values)
    plan, order = plan_of(targets)
    limits, inputs = limits_of(device, GPU_LIKE), [values[node] for node in order]
    (kernel,) = plan.kernels
    if "cooperative" in row.name:
        pytest.skip("the limits have no cooperative matrices")
    if not row.applies(kernel, limits):
        assert row.applies(kernel, replace(limits, shared_bytes=49152))
        pytest.skip("the row needs 48 KiB of shared memory, and the device has less")
    count = len(render(kernel, limits, row).numbers)
    slack = 1e-4 if "weights" in row.name else 0.0  # which alone divides by three
    (right,) = run_plan(device, plan, inputs, limits, lambda _: row)
    np.testing.assert_allclose(right.reshape(wanted.shape), wanted, rtol=0, atol=slack)
    noticed = 0
    for number in range(1, count):  # 0 is the width of the grid, which a single line of workgroups does not use
        (got,) = run_plan(device, plan, inputs, limits, lambda _: row, corrupted(number))
        noticed += not np.allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=slack)
        if noticed == 2:
            return
    pytest.fail(f"{noticed} of {count} wrong numbers were noticed")


def test_many_places_are_done_in_strips(device: Device):
    """More than a million places: four of them an invocation on a GPU, the last strips beyond the end."""
    x = leaf(((1 << 20) + 77,), float32)
    doubled = b.apply("multiply", x, 2.0)
    (kernel,) = plan_of([doubled])[0].kernels
    each = [choose(kernel, limits).parameters(kernel, limits)["each"] for limits in (SOFTWARE, GPU_LIKE)]
    assert each == [1, 4]
    assert {"nest_serial", "nest_strips"} <= check(device, [doubled], [x])
