"""The NumPy twin against the plain interpreter, one family of kernels at a time, fused and not.

Where an op is exact on whole numbers, small whole numbers are drawn and results compared bit for bit, so neither the
order of a sum nor a tolerance can hide a wrong address.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.planned import plan_of, planned, run
from tests.reference import evaluate, variable
from vkgrad.autodiff import vjp
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DTYPES, bool_, dtype_of, float32, int32
from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.ops.contraction import contract
from vkgrad.ops.indexed import gather, scatter_add
from vkgrad.runtime import access, blas, calls, lanes, one_thread, overlap, padding, twin
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Kernel, Load, Store

Values = dict[Node, np.ndarray]

# Sums of n float32 terms in any order agree to about sqrt(n) roundings of the largest partial sum; n is below 1000.
RELATIVE = float(64 * np.finfo(np.float32).eps)

fused = pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> Values:
    """Of the leaves. Nothing watches the graph: the twin has every type, whatever the default device lacks."""
    monkeypatch.setattr(b, "on_rare", [])
    return {}


def whole(values: Values, shape: Sequence[int], name: str = "float32", seed: int = 0) -> Node:
    """A leaf of small whole numbers."""
    generator = np.random.default_rng(seed + len(values))
    dtype = DTYPES[name]
    low = 0 if dtype.kind in "ub" else -3
    numbers = generator.integers(low, 2 if name == "bool" else 4, tuple(shape))
    return variable(numbers.astype(dtype.numpy), values, dtype)


def real(values: Values, shape: Sequence[int], name: str = "float32") -> Node:
    return variable(np.random.default_rng(len(values)).standard_normal(tuple(shape)).astype(name), values)


def agree(outputs: Sequence[Node], values: Values, relative: float = 0.0, **options: Any) -> None:
    want = evaluate(outputs, values)
    have = planned(outputs, values, **options)
    for node, w, h in zip(outputs, want, have, strict=True):
        assert h.dtype == node.dtype.numpy and h.shape == w.shape
        if relative:
            largest = float(np.max(np.abs(w), initial=0))
            np.testing.assert_allclose(h, w, relative, relative * largest, err_msg=str(node))
        else:
            np.testing.assert_array_equal(h, w, err_msg=str(node))


def gradients(output: Node, wrt: Sequence[Node], values: Values, seed: int = 7) -> list[Node]:
    cotangent = whole(values, output.shape, output.dtype.name, seed)
    found = [g for g in vjp([output], wrt, [cotangent]) if g is not None]
    assert len(found) == len(wrt)
    return found


# ---- element-wise kernels and views
@fused
def test_broadcast_flip_permute_slice_and_pad(values: Values, fuse: bool) -> None:
    x, y, z = whole(values, (3, 4, 5)), whole(values, (4, 1)), whole(values, (5, 4, 3))
    flipped = views.flip(x, [0, 2])
    turned = views.permute(z, (2, 1, 0))
    cut = views.slice_(x, (2, 3, 4), (2, 2, 3), (-2, -1, -2))
    padded = views.pad(views.slice_(x, (0, 0, 1), (3, 4, 3), (1, 1, 1)), (1, 0, 2), (0, 2, 0), (1, 0, 1), 2)
    agree([b.apply("add", flipped, y) * turned, b.apply("abs", cut), padded * 2, b.reshape(turned, (12, 5)) + 1],
          values, fuse=fuse)  # fmt: skip


@fused
@pytest.mark.parametrize("name", list(DTYPES))
def test_every_type(values: Values, name: str, fuse: bool) -> None:
    x, y = whole(values, (4, 6), name), whole(values, (6,), name)
    equal = b.apply("equal", x, y)
    chosen = b.apply("where", equal, x, b.expand(y, x.shape))
    outputs = [equal, chosen, b.cast(x, int32), b.cast(b.cast(x, bool_), float32)]
    if name == "bool":
        outputs += [b.build(op, x, axes=(0,)) for op in ("any", "all")] + [b.apply("logical_xor", x, y)]
    else:
        product = contract(x, views.permute(x, (1, 0)), (0, 1), (1, 2), (0, 2))
        outputs += [b.build(op, x * y, axes=(1,)) for op in ("sum", "prod")] + [product, x - y]
        outputs += [b.build(op, x, axes=(0, 1), ties="share") for op in ("max", "min")]
    agree(outputs, values, fuse=fuse)


@fused
def test_no_axes(values: Values, fuse: bool) -> None:
    x, y = whole(values, ()), whole(values, ())
    agree([x * y + 2, b.apply("where", x > y, x, y), contract(x, y, (), (), ())], values, fuse=fuse)
    agree([b.apply("relu", x), b.cast(x, int32), b.apply("rsqrt", b.apply("abs", x) + 1)], values, fuse=fuse)


@fused
def test_counters(values: Values, fuse: bool) -> None:
    x = whole(values, (3, 5), "int32")
    count = b.build("iota", extent=5)
    spread = views.pad(views.flip(count, [0]), (1,), (1,), (1,), -1)
    agree([x + count, b.expand(spread, (2, spread.size)) * 3, views.window(count, 0, 2, 2, 2) + 0], values, fuse=fuse)


def test_in_place_updates_take_over_the_old_memory(values: Values) -> None:
    x, g = whole(values, (6, 5)), whole(values, (5, 6))
    new = x - views.permute(g, (1, 0)) * 2
    plan, leaves = plan_of([new], replaces={new: x})
    assert plan.in_place
    (have,) = run(plan, leaves, values)
    assert have is not None
    np.testing.assert_array_equal(have.reshape(6, 5), evaluate([new], values)[0])


# ---- reductions
@fused
@pytest.mark.parametrize("axes", [s for n in range(1, 5) for s in itertools.combinations(range(4), n)], ids=str)
def test_sum_over_axes(values: Values, axes: tuple[int, ...], fuse: bool) -> None:
    x = whole(values, (3, 4, 5, 6))
    y = views.permute(whole(values, (6, 3, 5, 4)), (1, 3, 2, 0))
    total = b.build("sum", x * y, axes=axes)
    agree([total, b.build("max", y, axes=axes, ties="share"), x - b.expand(total, x.shape)], values, fuse=fuse)


def softmax(x: Node) -> Node:
    axes = (x.ndim - 1,)
    exp = b.apply("exp", x - b.expand(b.build("max", x, axes=axes, ties="share"), x.shape))
    return exp / b.expand(b.build("sum", exp, axes=axes), x.shape)


def normalised(x: Node, axes: tuple[int, ...]) -> Node:
    count = float(np.prod([x.shape[a] for a in axes]))
    centred = x - b.expand(b.build("sum", x, axes=axes) * (1 / count), x.shape)
    variance = b.build("sum", centred * centred, axes=axes) * (1 / count)
    return centred * b.expand(b.apply("rsqrt", variance + 1e-5), x.shape)


@fused
@pytest.mark.parametrize("shape", [(7, 10), (4, 3, 100), (2, 300)], ids=str)
def test_rows(values: Values, shape: tuple[int, ...], fuse: bool) -> None:
    x = real(values, shape)
    for rows in (softmax(x), normalised(x, (x.ndim - 1,)), normalised(x, (0,))):
        agree([rows, *gradients(rows, [x], values)], values, RELATIVE, fuse=fuse)


def test_long_float32_sums_stay_accurate(values: Values) -> None:
    x = real(values, (3, 100_000))
    (have,) = planned([b.build("sum", x, axes=(1,))], values)
    exact = values[x].astype(np.float64).sum(1, keepdims=True)
    np.testing.assert_allclose(have, exact, 0, 1e-3)


# ---- contractions
@fused
@pytest.mark.parametrize("name", ["float32", "float64", "int32", "uint32"])
@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
@pytest.mark.parametrize("batch", [(), (2, 3)], ids=["plain", "batched"])
def test_matrix_products(values: Values, name: str, left: str, right: str, batch: tuple[int, ...], fuse: bool) -> None:
    sizes = {"m": 5, "n": 7, "k": 33}
    label = {"m": 2, "n": 3, "k": 4}
    x = whole(values, (*batch, *(sizes[a] for a in left)), name)
    y = whole(values, (*batch, *(sizes[a] for a in right)), name)
    lead = (0, 1) if batch else ()
    z = contract(x, y, (*lead, *(label[a] for a in left)), (*lead, *(label[a] for a in right)), (*lead, 2, 3))
    bias = whole(values, (7,), name)
    agree([z + bias, *gradients(z, [x, y], values)] if z.dtype.kind == "f" else [z + bias], values, fuse=fuse)


@fused
def test_products_of_views(values: Values, fuse: bool) -> None:
    x, y = whole(values, (6, 8)), whole(values, (8, 3))
    sliced = views.slice_(x, (5, 7), (3, 4), (-2, -2))
    row = b.reshape(views.slice_(y, (0, 1), (8, 1), (1, 1)), (8,))
    agree([
        contract(b.apply("relu", sliced), views.slice_(y, (0, 0), (4, 3), (2, 1)), (0, 1), (1, 2), (0, 2)),
        contract(b.expand(b.reshape(row, (1, 8)), (6, 8)), y, (0, 1), (1, 2), (2, 0)),
        contract(row, row, (0,), (0,), ()),
        contract(x, x, (0, 1), (0, 1), (1, 0)),
        contract(row, y, (0,), (1, 2), (2, 0, 1)),
        contract(x, x, (0, 1), (0, 2), (1, 2)),
    ], values, fuse=fuse)  # fmt: skip


def convolution(x: Node, w: Node, stride: int, padding: int, dilation: int, groups: int) -> Node:
    x = views.pad(x, (0, 0, padding, padding), (0, 0, padding, padding))
    x = b.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    w = b.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
    for axis, size in ((3, w.shape[3]), (4, w.shape[4])):
        x = views.window(x, axis, size, stride, dilation)
    z = contract(x, w, (0, 1, 2, 3, 4, 5, 6), (1, 7, 2, 5, 6), (0, 1, 7, 3, 4))
    return b.reshape(z, (z.shape[0], z.shape[1] * z.shape[2], *z.shape[3:]))


CONVOLUTIONS = [(1, 0, 1, 1), (1, 2, 1, 1), (2, 1, 1, 2), (2, 0, 2, 1), (3, 4, 2, 2), (1, 1, 1, 4)]


@fused
@pytest.mark.parametrize("stride, padding, dilation, groups", CONVOLUTIONS, ids=str)
def test_convolutions_and_their_gradients(
    values: Values, stride: int, padding: int, dilation: int, groups: int, fuse: bool
) -> None:
    x, w = whole(values, (3, 4, 9, 11)), whole(values, (8, 4 // groups, 3, 2))
    z = convolution(x, w, stride, padding, dilation, groups)
    agree([b.apply("relu", z), *gradients(z, [x, w], values)], values, fuse=fuse)


@pytest.mark.parametrize("way", ["by element", "by window"])
@pytest.mark.parametrize("stride, padding, dilation, groups", CONVOLUTIONS, ids=str)
def test_input_gradients_by_either_way(
    values: Values, stride: int, padding: int, dilation: int, groups: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few input channels, multiplying each element once pays; the other way must give the same."""
    used = []

    def spy(kernel: Kernel, scratch: Scratch, threads: int) -> Any:
        used.append(found := overlap.overlapping(kernel, scratch, threads) if way == "by element" else None)
        return found

    monkeypatch.setattr(twin, "overlapping", spy)
    x, w = whole(values, (2, groups, 9, 11)), whole(values, (8 * groups, 1, 3, 2))
    (gradient,) = gradients(convolution(x, w, stride, padding, dilation, groups), [x], values)
    agree([b.apply("relu", gradient) + 1], values)
    assert any(used) == (way == "by element")


@fused
@pytest.mark.parametrize("size, stride", [(2, 2), (3, 2), (3, 1), (2, 3)])
def test_pooling_and_its_gradient(values: Values, size: int, stride: int, fuse: bool) -> None:
    x = whole(values, (4, 3, 16, 17))
    windows = views.window(views.window(b.apply("relu", x), 2, size, stride), 3, size, stride)
    most = b.build("max", windows, axes=(4, 5), ties="first")
    total = b.build("sum", windows, axes=(4, 5))
    agree([most, *gradients(most, [x], values), *gradients(total, [x], values)], values, fuse=fuse)


# ---- lookups
@fused
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["float32", "bool", "uint32"])
def test_lookups(values: Values, axis: int, name: str, fuse: bool) -> None:
    x = whole(values, (4, 5, 6), name)
    index = variable(np.array([[0, 3, -1], [2, 2, 99]], np.int32), values)
    taken = gather(views.flip(x, [1]), index, axis)
    outputs = [taken, gather(x, b.cast(index, dtype_of("uint32")), axis)]
    if name == "float32":
        source = whole(values, taken.shape)
        outputs.append(scatter_add(source, index, axis, x.shape[axis]))
    agree(outputs, values, fuse=fuse)


# ---- work in parts
@pytest.mark.parametrize("kept", [0, 1000], ids=["remade", "kept"])
def test_parts_change_nothing(values: Values, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin, "LARGEST_VALUE", 40)
    monkeypatch.setattr(twin, "MOST_KEPT", kept)
    limits = {"LARGEST_COPY": 100, "LARGEST_RESULT": 50, "LARGEST_PRODUCTS": 100, "LEAST_PRODUCT": 1, "MOST_KEPT": kept}
    for name, limit in limits.items():
        for module in (blas, overlap):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, limit)
    x, w = whole(values, (3, 4, 6, 7)), whole(values, (4, 2, 3, 2))
    z = convolution(x, w, 2, 1, 1, 2)
    rows = b.build("sum", x * views.flip(x, [3]), axes=(1, 3))
    index = variable(np.array([1, 1, 0, 2], np.int32), values)
    agree([b.apply("relu", z) + 1, *gradients(z, [x, w], values), x - b.expand(rows, x.shape),
           scatter_add(b.reshape(x, (3, 4, 42)), index, 1, 3)], values)  # fmt: skip


def test_unequal_parts_of_a_long_sum(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights' gradient adds up over images: five of them in parts of two."""
    for name, limit in {"LARGEST_COPY": 1800, "LEAST_PRODUCT": 1, "LONGEST_SUM": 10, "SHORT_RUN": 0}.items():
        monkeypatch.setattr(blas, name, limit)
    x, w = whole(values, (5, 1, 12, 12)), whole(values, (3, 1, 3, 3))
    agree(gradients(convolution(x, w, 1, 0, 1, 1), [w], values), values)


@pytest.mark.parametrize("least", [0, 1 << 60], ids=["by term", "at once"])
def test_guarded_sums_by_either_way(values: Values, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "LEAST_BY_TERM", least)
    y = whole(values, (5, 2, 3))
    outputs = [views.overlap_add(y, 0, extent, stride, dilation) + 1
               for stride, dilation, extent in ((1, 1, 8), (2, 1, 12), (2, 2, 14), (3, 1, 16))]  # fmt: skip
    agree(outputs, values)


# ---- shares of a kernel in lanes
@pytest.mark.parametrize("count", [2, 3])
def test_lanes_change_nothing(values: Values, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over = []

    class Counted(lanes.Lanes):
        def together(self, shares: Sequence[Any]) -> Any:
            handed_over.append(len(shares))
            return super().together(shares)

    monkeypatch.setattr(lanes, "LEAST_SHARED", 1)
    monkeypatch.setattr(lanes, "LEAST_SHARED_PRODUCTS", 1)
    pool = Counted(count)
    monkeypatch.setattr("tests.planned.prepare", lambda kernel: twin.prepare(kernel, pool))
    x, w = whole(values, (9, 4, 9, 8)), whole(values, (8, 4, 3, 2))
    z = convolution(x, w, 1, 1, 1, 1)
    windows = views.window(views.window(b.apply("relu", z), 2, 2, 2), 3, 2, 2)
    most = b.build("max", windows, axes=(4, 5), ties="first")
    rows = b.build("sum", x * views.flip(x, [3]), axes=(1, 3))
    agree([most, *gradients(most, [x, w], values), x - b.expand(rows, x.shape)], values)
    assert max(handed_over) == count
    pool.close()


def test_a_failure_in_a_lane_is_raised_where_the_run_was_asked_for() -> None:
    def fail(buffers: access.Buffers) -> None:
        raise FloatingPointError("in the second lane")

    done = []
    pool = lanes.Lanes(2)
    run_both = pool.together([done.append, fail])
    for _ in range(2):  # and the lanes are fit for work again
        with pytest.raises(FloatingPointError, match="second lane"):
            run_both([])
    assert len(done) == 2
    pool.close()


def test_blas_has_one_thread_within_a_run_and_its_own_number_after_it() -> None:
    if one_thread.OneThread.functions is None:
        pytest.skip("NumPy has another BLAS than OpenBLAS here, whose threads are left alone")
    threads, before = one_thread.OneThread.functions[0], one_thread.OneThread.functions[0]()
    with one_thread.OneThread():
        assert threads() == 1
    assert threads() == before


def test_selection_gives_the_bits_of_where() -> None:
    """Signed zeros, NaN payloads and infinities included, over the second operand and elsewhere."""
    generator = np.random.default_rng(0)
    for name in ("float32", "float64", "int32"):
        x, y = (generator.integers(-(1 << 30), 1 << 30, (3, 5000)).astype(name) for _ in range(2))
        if name != "int32":
            x[0, :4], y[0, :4] = (-0.0, np.nan, np.inf, -np.inf), (np.nan, -0.0, 0.0, 1.0)
        mask = generator.integers(0, 2, (1, 5000)).astype(bool)
        for other in (y, np.zeros((1, 1), name), np.full((1, 1), -0.0).astype(name)):
            select = calls.selection(mask.shape, calls.BITS[x.itemsize], Scratch())
            want = np.where(mask, x, other)
            assert want.tobytes() == select(mask, x, other, np.empty_like(x)).tobytes()
            over = x.copy()
            assert want.tobytes() == select(mask, over, other, over).tobytes()


# ---- reading through layouts
LAYOUTS = [
    Layout.contiguous((4, 6)).pad((1, 2), (0, 1), (0, 2)),
    Layout.contiguous((24,)).pad((3,), (2,), (0,)),
    Layout.contiguous((4, 6)).slice((3, 5), (4, 6), (-1, -1)).pad((1, 1), (1, 1), (1, 0)),
    Layout.contiguous((1, 24)).expand((3, 24)).pad((1, 1), (0, 0), (0, 0)),
    Layout.contiguous((4, 4)).pad((1, 0), (0, 1), (0, 0)),
]


@pytest.mark.parametrize("base", LAYOUTS, ids=range(len(LAYOUTS)))
@pytest.mark.parametrize("way", ["as chosen", "looked up"])
def test_reading_padding(base: Layout | None, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert base is not None
    if way == "looked up":
        monkeypatch.setattr(access, "_padded", lambda *_: None)
    memory = np.arange(24, dtype=np.float32) + 1
    cases = [base, base.window(0, 2, 1, 1), base.window(base.rank - 1, 2, 2, 2)]
    cases.append(cases[1].window(0, 3, 1, 1))
    if base.extents[0] == base.extents[-1] and base.rank == 2:
        cases.append(base.diagonal(0, 1))
    for layout in cases:
        read = access.reader(0, layout, memory.dtype, -7)
        for _ in range(2):
            have = np.broadcast_to(read([memory]), layout.extents)
            for place in np.ndindex(*layout.extents):
                address = layout.address(place)
                assert have[place] == (-7 if address is None else memory[address]), (layout, place)
            memory += 100


# ---- the comparison itself
def test_a_wrong_offset_is_noticed(values: Values) -> None:
    x = whole(values, (4, 6))
    half = views.slice_(x, (0, 0), (2, 6), (1, 1))

    def spoil(kernel: Kernel) -> Kernel:
        def move(item: Any) -> Any:
            moved = isinstance(item, (Load, Store))
            return replace(item, layout=replace(item.layout, offset=item.layout.offset + 1)) if moved else item

        return replace(kernel, code=tuple(map(move, kernel.code)))

    agree([half * 2], values)
    with pytest.raises(AssertionError, match="not equal"):
        agree([half * 2], values, change=spoil)
