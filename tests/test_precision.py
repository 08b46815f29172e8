"""`autocast`, loss scaling, and questions about types, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.config import config
from vkgrad.errors import DifferentiationError, DTypeError, OptionError
from vkgrad.ir.dtypes import DType
from vkgrad.ops.narrow import narrowed

HALVES = [vg.float16, vg.bfloat16]
A, B = (np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in ((0, (5, 7)), (1, (7, 3))))


# ---- autocast
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_products_round_their_operands_and_their_result(dtype: DType) -> None:
    with vg.autocast(dtype):
        products = [
            vg.tensor(A) @ vg.tensor(B),
            vg.einsum("ij,jk->ik", vg.tensor(A), vg.tensor(B)),
            vg.tensordot(vg.tensor(A), vg.tensor(B), 1),
            vg.nn.functional.linear(vg.tensor(A), vg.tensor(B.T.copy())),
        ]
    expected = narrowed(narrowed(A, dtype).astype("f8") @ narrowed(B, dtype).astype("f8"), dtype)
    for product in products:
        assert product.dtype is dtype
        np.testing.assert_allclose(product.numpy(), expected, rtol=float(vg.finfo(dtype).eps))
    assert (vg.tensor(A) @ vg.tensor(B)).dtype is vg.float32


def test_convolutions_and_biases_take_the_half_type() -> None:
    with vg.autocast():
        y = vg.conv2d(vg.ones((1, 2, 5, 5)), vg.ones((3, 2, 3, 3)), vg.ones(3))
        z = vg.nn.functional.linear(vg.ones((2, 4)), vg.ones((3, 4)), vg.ones(3))
    assert y.dtype is z.dtype is vg.float16
    assert y.numpy().min() == y.numpy().max() == 19 and z.numpy().max() == 5


@pytest.mark.parametrize(
    "function",
    [vg.sum, vg.mean, vg.var, vg.norm, vg.softmax, vg.log_softmax, vg.logsumexp, vg.exp, vg.log, lambda x: x**2.5,
     lambda x: vg.nn.mse_loss(x, vg.zeros_like(x)), lambda x: vg.nn.functional.layer_norm(x, 4),
     lambda x: vg.nn.cross_entropy(x, np.zeros(3, np.int32))],
)  # fmt: skip
def test_what_must_be_exact_gives_float32(function) -> None:
    x = vg.full((3, 4), 1.5, vg.float16)
    assert function(x).dtype is vg.float16
    with vg.autocast():
        assert function(x).dtype is vg.float32


def test_everything_else_promotes_as_usual_and_doubles_stay() -> None:
    with vg.autocast():
        half = vg.ones((2, 2)) @ vg.ones((2, 2))
        assert vg.relu(half).dtype is vg.float16
        assert (half + vg.ones((2, 2))).dtype is vg.float32
        assert (vg.ones((2, 2), vg.int32) @ vg.ones((2, 2), vg.int32)).dtype is vg.int32
        with config.override(device="cpu"):
            assert (vg.ones((2, 2), vg.float64) @ vg.ones((2, 2), vg.float64)).dtype is vg.float64
        with vg.autocast(enabled=False):
            assert (vg.ones((2, 2)) @ vg.ones((2, 2))).dtype is vg.float32


def test_gradients_of_parameters_stay_float32_and_are_those_of_the_rounded_operands() -> None:
    def loss(w):
        with vg.autocast():
            return vg.sum(vg.tensor(A) @ w)

    gradient = vg.grad(loss)(vg.tensor(B))
    assert gradient.dtype is vg.float32
    expected = narrowed(np.repeat(narrowed(A, vg.float16).sum(0)[:, None], 3, 1), vg.float16)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=2e-3)


def test_it_decorates_nests_and_is_refused_other_types() -> None:
    @vg.autocast(vg.bfloat16)
    def product(x):
        return x @ x

    assert product(vg.ones((2, 2))).dtype is vg.bfloat16
    assert config.autocast == "off"
    with pytest.raises(DTypeError, match="autocast: takes float16 or bfloat16, got float32"):
        vg.autocast(vg.float32)


def test_a_recorded_function_is_recorded_again_under_autocast() -> None:
    product = vg.jit(lambda x: x @ x)
    x = vg.ones((2, 2))
    assert product(x).dtype is vg.float32
    with vg.autocast():
        assert product(x).dtype is vg.float16
    assert product(x).dtype is vg.float32


# ---- loss scaling
def test_small_gradients_survive_half_precision() -> None:
    w = vg.tensor([1.0])

    def loss(w, factor):
        return ((w.astype(vg.float16) * 1e-4).astype(vg.float32) * 1e-4 * factor).sum()

    assert vg.grad(loss)(w, 1.0).item() == 0.0  # 1e-8 is nothing to a float16
    scaler = vg.optim.GradScaler(2.0**16)
    scaled = vg.grad(lambda w: scaler.scale(loss(w, 1.0)))(w)
    assert scaler.unscale(scaled).item() == pytest.approx(1e-8, rel=2e-3)


@pytest.mark.parametrize("recorded", [False, True])
def test_the_factor_grows_and_backs_off_as_defined(recorded: bool) -> None:
    w = vg.tensor([1.0, 2.0])
    optimizer = vg.optim.Adam({"w": w}, lr=0.1)
    scaler = vg.optim.GradScaler(8.0, growth_interval=2)

    def step(x):
        gradient = vg.grad(lambda w: scaler.scale((w * x).sum()))(w)
        scaler.step(optimizer, {"w": w}, {"w": scaler.unscale(gradient)})
        scaler.update()

    run = vg.jit(step) if recorded else step
    factor, good, factors = 8.0, 0, []
    for x in (1.0, 1.0, np.inf, 1.0, np.nan, 1.0, 1.0):
        before = w.numpy(), {k: v.numpy() for k, v in optimizer.state_dict().items()}
        run(np.full(2, x, np.float32))
        if np.isfinite(x):
            good += 1
            factor, good = (factor * 2, 0) if good == 2 else (factor, good)
            assert not np.array_equal(w.numpy(), before[0])
        else:
            factor, good = factor / 2, 0
            np.testing.assert_array_equal(w.numpy(), before[0])
            for name, value in optimizer.state_dict().items():
                np.testing.assert_array_equal(value.numpy(), before[1][name])
        factors.append(factor)
        assert scaler.get_scale() == factor
    assert factors == [8, 16, 8, 8, 4, 4, 8]


def test_the_pytorch_way() -> None:
    w = vg.tensor([3.0, 4.0], requires_grad=True)
    optimizer, scaler = vg.optim.SGD(w, lr=0.5), vg.optim.GradScaler(1024.0)
    scaler.scale((w * w).sum() / 2).backward()
    scaler.unscale_(optimizer)
    np.testing.assert_array_equal(w.grad.numpy(), [3, 4])
    with pytest.raises(DifferentiationError, match="since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_array_equal(w.numpy(), [1.5, 2.0])
    other = vg.optim.GradScaler(2.0)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024.0
    off = vg.optim.GradScaler(enabled=False)
    assert off.scale(w) is w and off.get_scale() == 1.0
    with pytest.raises(OptionError, match="GradScaler"):
        vg.optim.GradScaler(0.0)


# ---- questions about types
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_limits_of_floats_are_numpy_s(name: str) -> None:
    ours, theirs = vg.finfo(name), np.finfo(name)
    assert (ours.bits, ours.eps, ours.max, ours.min) == (theirs.bits, theirs.eps, theirs.max, theirs.min)
    assert ours.smallest_normal == theirs.smallest_normal


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_limits_of_integers_are_numpy_s(name: str) -> None:
    ours, theirs = vg.iinfo(vg.zeros(1, name) if name == "int8" else name), np.iinfo(name)
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)


def test_questions() -> None:
    assert vg.finfo(vg.bfloat16).max == narrowed(np.float32(3.39e38), vg.bfloat16)
    assert vg.result_type(vg.int32, vg.uint8, 3) is vg.int32
    assert vg.result_type(vg.int8, 2.5) is vg.float32 and vg.result_type(True) is vg.bool_
    assert vg.result_type(vg.ones(2, vg.float16), vg.bfloat16) is vg.float32
    assert vg.can_cast(vg.uint8, vg.int16) and not vg.can_cast(vg.int16, vg.int8)
    assert not vg.can_cast(vg.float32, vg.int32) and vg.can_cast(vg.bool_, vg.int8)
    assert vg.isdtype(vg.int8, "integral") and vg.isdtype(vg.bfloat16, ("bool", "real floating"))
    assert not vg.isdtype(vg.float32, "complex floating") and vg.isdtype(vg.uint8, vg.uint8)
    assert vg.astype(vg.ones(2), vg.int8).dtype is vg.int8
    with pytest.raises(OptionError, match="no kind 'half'"):
        vg.isdtype(vg.float16, "half")
    for wrong, question in ((vg.int8, vg.finfo), (vg.float16, vg.iinfo)):
        with pytest.raises(DTypeError):
            question(wrong)
    with pytest.raises(OptionError):
        vg.result_type()


def test_random_halves_are_spread_as_they_should_be() -> None:
    for dtype, step in ((vg.float16, 2.0**-11), (vg.bfloat16, 2.0**-8)):
        x = vg.random.uniform(vg.random.key(1), (20_000,), dtype=dtype).numpy().astype(np.float64)
        assert np.all(x / step % 1 == 0) and x.min() >= 0 and x.max() < 1
        assert abs(x.mean() - 0.5) < 0.02
        z = vg.random.normal(vg.random.key(2), (20_000,), dtype=dtype).numpy()
        assert abs(z.astype(np.float64).mean()) < 0.03 and abs(z.astype(np.float64).std() - 1) < 0.03


def test_bfloat16_leaves_as_float32_and_not_by_dlpack() -> None:
    x = vg.tensor([1.0, 2.5], vg.bfloat16)
    assert x.numpy().dtype == np.float32 and x.tolist() == [1.0, 2.5]
    with pytest.raises(BufferError, match="bfloat16"):
        np.from_dlpack(x)
    assert vg.tensor(np.from_dlpack(x.astype(vg.float16))).dtype is vg.float16
