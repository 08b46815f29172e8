"""Every element type on every device: each op's record against its meaning, rounding, packing, fusing, refusals."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.ops.op_cases import ATTRIBUTES, ELEMENTWISE, operand_dtypes, takes
from tests.tolerances import ulps_of
from vkgrad import engine
from vkgrad.config import config
from vkgrad.errors import DTypeError, UnsupportedError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DTYPES, DType
from vkgrad.ir.op import Op
from vkgrad.ops.narrow import decoded, encoded, meaning_of, narrowed
from vkgrad.tensor import Tensor

NARROW = [dtype for dtype in ANY if dtype.narrow]
HALVES = [vg.float16, vg.bfloat16]


@pytest.fixture(params=["vulkan", "cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    with config.override(device="" if request.param == "vulkan" else "cpu"):
        yield engine.default_device()


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The Vulkan device as one whose shaders reach no less than 32 bits."""
    with config.override(device=""):
        own = engine.default_device()
        monkeypatch.setattr(engine, "_plans", OrderedDict())
        monkeypatch.setattr(own, "limits", replace(own.limits, packing=frozenset((1, 2))))
        yield


def places_apart(found: np.ndarray, expected: np.ndarray, dtype: DType) -> np.ndarray:
    """How many values of `dtype` lie between; 0 between two NaNs and between zeros of either sign."""

    def place(values: np.ndarray) -> np.ndarray:
        bits = encoded(values, dtype).view(np.uint16).astype(np.int64)
        return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)

    both = np.isnan(found) & np.isnan(expected)
    return np.where(both, 0, np.abs(place(found) - place(expected)))


CASES = [
    pytest.param(op, dtype, attributes, id="-".join([op.name, dtype.name, *map(str, attributes.values())]))
    for op in ELEMENTWISE
    for dtype in NARROW
    for attributes in ATTRIBUTES.get(op.name, [{}])
    if takes(op, dtype)
]


@pytest.mark.device
@pytest.mark.parametrize(("op", "dtype", "attributes"), CASES)
def test_an_op_on_a_narrow_type_is_its_meaning_rounded(op: Op, dtype: DType, attributes: dict[str, Any]) -> None:
    wide = DTYPES.get(attributes.get("type", ""), dtype)
    limits = getattr(engine.default_device(), "limits", None)
    if limits and wide.size_bytes == 8 and not (limits.float64 if wide.kind == "f" else limits.int64):
        pytest.skip(f"this device has no {wide.name}")
    dtypes = operand_dtypes(op, dtype)
    drawn = [op.samples.draw((61,), d.numpy, 5, i, special=True) for i, d in enumerate(dtypes)]
    with np.errstate(all="ignore"):
        stored = [narrowed(x, d) if d.narrow else x for x, d in zip(drawn, dtypes, strict=True)]
        result = op.dtype(dtypes, **attributes)
        expected = np.asarray(meaning_of(op, result)(*stored, **attributes)).astype(result.numpy)
    inputs = [vg.tensor(x, d).node for x, d in zip(stored, dtypes, strict=True)]
    found = Tensor(b.build(op, *inputs, **attributes)).numpy()
    assert found.dtype == expected.dtype == result.numpy
    if result.narrow and result.kind == "f":
        # The float32 results differ by a few ulps at most, which moves a half to its neighbour where they straddle.
        allowed = 1 if ulps_of(op.name).shader32 else 0
        with np.errstate(all="ignore"):
            apart = places_apart(found, expected, result)
        tiny = np.abs(expected) < 2.0**-126  # which drivers may flush before they round
        assert np.all(np.where(tiny, 0, apart) <= allowed), (op.name, stored, found, expected)
    else:
        np.testing.assert_array_equal(found, expected)


# ---- rounding
def halves(dtype: DType) -> np.ndarray:
    """Every value of a 16-bit float."""
    return decoded(np.arange(65536, dtype=np.uint16).view(dtype.memory), dtype)


@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_half_survives_a_kernel(device: Any, dtype: DType) -> None:
    values = halves(dtype)
    normal = (np.abs(values) >= 2.0**-126) | (values == 0) | np.isnan(values)  # a subnormal float32 may be flushed
    found = vg.flip(vg.tensor(values, dtype).astype(vg.float32)).numpy()[::-1]
    np.testing.assert_array_equal(found[normal], values[normal])


@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_casts_round_to_the_nearest_and_ties_to_even(device: Any, dtype: DType) -> None:
    values = halves(dtype)
    values = np.sort(values[np.isfinite(values) & (np.abs(values) >= 2.0**-24)]).astype(np.float64)
    middle = (values[1:] + values[:-1]) / 2
    step = (values[1:] - values[:-1]) / 64
    around = np.concatenate([middle, middle - step, middle + step]).astype(np.float32)
    around = around[np.abs(around) >= 2.0**-126]
    with np.errstate(all="ignore"):
        expected = narrowed(around, dtype)
        if dtype is vg.float16:
            np.testing.assert_array_equal(expected, around.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(vg.tensor(around).astype(dtype).astype(vg.float32).numpy(), expected)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is an independent bfloat16, where installed")
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    theirs = values.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(narrowed(values, vg.bfloat16), theirs.astype(np.float32))
    x = vg.tensor(theirs[:100])
    assert x.dtype is vg.bfloat16
    np.testing.assert_array_equal(x.numpy(), theirs[:100].astype(np.float32))


def test_the_comparison_of_halves_notices_a_neighbour() -> None:
    one = np.ones(1, np.float16)
    assert places_apart(np.nextafter(one, np.float16(2)), one, vg.float16) == 1
    assert places_apart(np.float16([0.0]), np.float16([-0.0]), vg.float16) == 0


@pytest.mark.device
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_fusing_and_devices_change_no_bit(dtype: DType) -> None:
    x, y = (np.random.default_rng(i).normal(size=(37, 53)) for i in (1, 2))

    def chain(**switches: Any) -> np.ndarray:
        with config.override(**switches):
            p, q = vg.tensor(x, dtype), vg.tensor(y, dtype)
            return ((p * q + 0.1) / (q * q + 1) - p).relu().numpy()

    fused = chain(fuse=True)
    np.testing.assert_array_equal(fused, chain(fuse=False))
    np.testing.assert_array_equal(fused, chain(device="cpu"))
    in_double = np.maximum((x * y + 0.1) / (y * y + 1) - x, 0)
    assert np.abs(fused - in_double).max() > 1e-4  # it is rounded, after every operation


# ---- memory without 8- and 16-bit access
@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 257])
def test_packed_words_hold_every_element(packed: None, dtype: DType, count: int) -> None:
    x = np.arange(count) % 101
    found = vg.flip(vg.tensor(x, dtype) + 1)
    _, executable, _ = engine.plan_for([found.node], engine.default_device())
    assert all("atomicOr(" in shader.source for shader in executable.shaders)
    np.testing.assert_array_equal(found.numpy(), narrowed((x + 1)[::-1], dtype))
    table = vg.tensor(x, dtype)
    np.testing.assert_array_equal(table[vg.tensor([count - 1, 0])].numpy(), narrowed(x[[count - 1, 0]], dtype))


# ---- sums and products
@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_and_products_are_added_up_in_single_precision(device: Any, dtype: DType) -> None:
    ones = vg.ones((4096, 3), dtype)
    total = ones.sum(0)
    assert total.dtype is dtype
    np.testing.assert_array_equal(total.numpy(), [4096] * 3)  # in bfloat16 itself it would stop at 256
    generator = np.random.default_rng(3)
    x, y = (narrowed(generator.normal(size=shape), dtype) for shape in ((33, 300), (300, 17)))
    product = vg.tensor(x, dtype) @ vg.tensor(y, dtype)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    assert product.dtype is dtype
    half_step = vg.finfo(dtype).eps / 2
    assert np.all(np.abs(product.numpy() - exact) <= np.abs(exact) * half_step + 1e-4)
    wide = vg.matmul(vg.tensor(x, dtype), vg.tensor(y, dtype), dtype=vg.float32)
    assert wide.dtype is vg.float32
    np.testing.assert_allclose(wide.numpy(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.device
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_convolutions_of_halves_take_no_more_kernels(device: Any, dtype: DType) -> None:
    """Padding and windows stay views of what is stored: the widened operands are never in memory."""
    generator = np.random.default_rng(4)
    x, w = (narrowed(generator.normal(size=shape), dtype) for shape in ((2, 3, 8, 8), (4, 3, 3, 3)))

    def convolved(kind: DType) -> tuple[vg.Tensor, vg.Tensor]:
        image, kernel = vg.tensor(x, kind), vg.tensor(w, kind)
        function = lambda w: vg.conv2d(vg.relu(image * 2) * image, w, padding=1)  # noqa: E731
        return function(kernel), vg.grad(lambda w: vg.sum(function(w), dtype=vg.float32))(kernel)

    halves, singles = convolved(dtype), convolved(vg.float32)
    plans = [engine.plan_for([r.node for r in results], device)[0] for results in (halves, singles)]
    assert len(plans[0].kernels) == len(plans[1].kernels)
    stored = [[buffer.size_bytes for buffer in plan.buffers] for plan in plans]
    assert 2 * sum(stored[0]) == sum(stored[1])
    for half, single in zip(halves, singles, strict=True):
        assert half.dtype is dtype
        largest = np.abs(single.numpy()).max()
        np.testing.assert_allclose(half.numpy(), single.numpy(), rtol=0, atol=2 * largest * vg.finfo(dtype).eps)


@pytest.mark.device
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_seventy_thousand_ties_share_one_gradient(dtype: DType) -> None:
    shares = vg.grad(lambda x: x.max())(vg.ones(70_000, dtype)).numpy().astype(np.float64)
    assert abs(shares.sum() - 1) < 0.01 and np.all(shares == shares[0])


@pytest.mark.device
def test_means_of_halves_do_not_overflow(device: Any) -> None:
    x = vg.full((100_000,), 3, vg.float16)
    assert x.mean().item() == 3 and x.mean().dtype is vg.float16
    assert x.var().item() == 0
    assert vg.softmax(vg.full((4000,), 10, vg.float16)).sum().item() == pytest.approx(1, abs=2e-2)


@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("name", ["int8", "int16", "uint8", "uint16"])
def test_sums_of_small_integers_have_the_default_type(device: Any, name: str) -> None:
    x = vg.full((300,), 100, name)
    assert x.sum().dtype is (vg.int32 if name[0] == "i" else vg.uint32)
    assert x.sum().item() == 30_000
    assert x.max().dtype is DTYPES[name]


# ---- 64 bits, and what a device lacks
@pytest.mark.device
def test_wide_integers(device: Any) -> None:
    if not getattr(getattr(device, "limits", None), "int64", True):
        pytest.skip("this device has no 64-bit integers")
    x = np.array([2**53 + 1, -(2**62), 2**63 - 1, -(2**63), 5], np.int64)
    t = vg.tensor(x)
    assert t.dtype is vg.int64
    np.testing.assert_array_equal((t * 3 + 1).numpy(), x * 3 + 1)
    np.testing.assert_array_equal((t // 7).numpy(), x // 7)
    np.testing.assert_array_equal(t.astype(vg.float32).numpy(), x.astype(np.float32))
    assert t.sum().item() == x.sum() and t.max().item() == x.max() and t.min().item() == x.min()
    assert (vg.tensor([1, 2], vg.int32) + vg.tensor([3, 4], vg.uint32)).dtype is vg.int64
    table = vg.tensor([10.0, 20.0, 30.0])
    index = vg.tensor(np.array([2, 0, 2**32 + 1], np.int64))
    vg.eval(index)  # on the device nobody looks whether it is in range
    found = vg.take(table, index).numpy()
    np.testing.assert_array_equal(found[:2], [30.0, 10.0])
    assert np.isnan(found[2])  # not element 1, which is what its lower half says
    assert vg.tensor([2**40], vg.int64).item() == 2**40


@pytest.mark.device
def test_what_the_device_lacks_is_refused_by_the_name_of_the_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(device=""):
        own = engine.default_device()
        monkeypatch.setattr(own, "limits", replace(own.limits, int64=False, float64=False))
        with pytest.raises(UnsupportedError, match=r"int64.*shaderInt64.*int32.*, the cpu device"):
            vg.tensor(np.arange(3)) + 1
        with pytest.raises(UnsupportedError, match=r"uint64.*shaderInt64"):
            vg.tensor(np.arange(3, dtype=np.int32)).astype(vg.uint64)
        with pytest.raises(UnsupportedError, match=r"float64.*shaderFloat64.*float32"):
            vg.tensor(np.ones(3)) * 2


# ---- recorded steps
@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("name", ["float16", "int8", "uint16", "bool"])
@pytest.mark.parametrize("count", [1, 3, 257])
def test_a_recorded_step_takes_arrays_of_any_type(device: Any, name: str, count: int) -> None:
    step = vg.jit(lambda x: vg.where(x == 0, x, x))
    for turn in range(4):
        x = (np.arange(count) + turn).astype(name)
        np.testing.assert_array_equal(step(x).numpy(), x)


def test_finite_differences_of_halves_are_refused() -> None:
    with pytest.raises(DTypeError, match="check_grads: finite differences of float16"):
        vg.testing.check_grads(lambda x: x * x, vg.ones(2, vg.float16))


# ---- gradients
DIFFERENTIABLE = [
    op
    for op in ELEMENTWISE
    if callable(op.grad) and takes(op, vg.float16) and op.name not in ("cast", "multiply_no_nan", "multiply_or_zero")
]


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_gradients_of_halves_are_halves_near_the_exact_ones(op: Op, dtype: DType) -> None:
    """Against the same rule in double precision; a rule of some ten operations rounds each of them."""
    attributes = ATTRIBUTES.get(op.name, [{}])[0]
    dtypes = operand_dtypes(op, dtype)
    with config.override(device="cpu"), np.errstate(all="ignore"):
        drawn = [
            op.samples.draw((50,), np.dtype("f8") if d.kind == "f" else d.numpy, 3, i) for i, d in enumerate(dtypes)
        ]
        stored = [narrowed(x, d) if d.narrow else x for x, d in zip(drawn, dtypes, strict=True)]
        wrt = tuple(i for i, d in enumerate(dtypes) if d.kind == "f")

        def gradients(floats: DType) -> list[vg.Tensor]:
            tensors = [vg.tensor(x, floats if d.kind == "f" else d) for x, d in zip(stored, dtypes, strict=True)]
            function = lambda *xs: vg.sum(Tensor(b.build(op, *(x.node for x in xs), **attributes)))  # noqa: E731
            return list(vg.grad(function, argnums=wrt)(*tensors))

        for half, exact in zip(gradients(dtype), gradients(vg.float64), strict=True):
            assert half.dtype is dtype
            found, expected = half.numpy().astype(np.float64), exact.numpy()
            inside = np.isfinite(expected) & (np.abs(expected) < vg.finfo(dtype).max)
            tolerance = 40 * vg.finfo(dtype).eps * np.maximum(np.abs(expected), 1)
            # A tenth may be further off: where an intermediate of a steep rule leaves the range of a half.
            assert np.mean(np.abs(found - expected)[inside] <= tolerance[inside]) > 0.9, op.name
