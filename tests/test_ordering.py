"""What synchronization validation looks at: every family of kernels, in place, replayed and several in flight.

`script/validation` runs these under the Khronos layer, once as shipped (no hazard may be reported) and once with every
barrier left out (hazards must be). Without the layer they check values and counters like any other test.
"""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, losses, mlp, sgd_step
from vkgrad import nn, optim
from vkgrad.config import config

pytestmark = [pytest.mark.validation, pytest.mark.swiftshader]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.Generator(np.random.Philox(seed)).normal(size=shape).astype("f4")


def test_a_chain_of_dependent_kernels() -> None:
    a = array(32, 32) * 0.2
    x, expected = vg.tensor(a), a.astype("f8")
    y = x
    for _ in range(6):
        y = vg.tanh(y @ x)
        expected = np.tanh(expected @ a)
    with vg.counting() as c:
        np.testing.assert_allclose(y.numpy(), expected, rtol=2e-5, atol=1e-6)
    assert (c.dispatches, c.submissions) == (6, 1)
    assert c.barriers == 5 + 3  # between levels, after the upload, before the download and before the host reads


def test_independent_kernels_share_a_level() -> None:
    a = vg.tensor(array(16, 16))
    results = [(a * float(i)) @ a for i in range(1, 5)]
    total = results[0] @ results[1] + results[2] @ results[3]
    report = vg.plan(total)
    assert report.plan.depth <= 4
    x = array(16, 16).astype("f8")
    np.testing.assert_allclose(total.numpy(), (x @ x @ (2 * x) @ x) + (3 * x @ x @ (4 * x) @ x), rtol=1e-4, atol=1e-3)


def test_rows_reductions_and_wide_sums() -> None:
    a = array(33, 70)
    x = vg.tensor(a)
    soft = vg.softmax(x, axis=1)
    result = (soft.sum(axis=0) * vg.var(x, axis=0)).max()
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(
        float(result), ((e / e.sum(1, keepdims=True)).sum(0) * a.astype("f8").var(0)).max(), rtol=1e-5
    )


def test_gather_and_scatter() -> None:
    table = vg.tensor(array(10, 4))
    index = vg.tensor(np.array([3, 3, 0, 9], "i4"))
    gradient = vg.grad(lambda t: (vg.take(t, index, axis=0) ** 2).sum())(table)
    expected = np.zeros((10, 4), "f4")
    for i in (3, 3, 0, 9):
        expected[i] += 2 * array(10, 4)[i]
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6)


def test_convolution_and_overlapping_pooling_with_gradients() -> None:
    conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
    x = vg.tensor(array(2, 3, 9, 9))
    gradients = vg.grad(lambda x: (nn.MaxPool2d(3, stride=2)(conv(x)) ** 2).sum())(x)
    assert np.isfinite(gradients.numpy()).all()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_in_place_and_replayed(optimizer: str) -> None:
    assert losses("mlp", 5, jit=True, optimizer=optimizer) == losses("mlp", 5, optimizer=optimizer)


def test_lenet_replayed() -> None:
    assert losses("lenet", 4, batch=2, jit=True) == losses("lenet", 4, batch=2)


def test_many_replays_in_flight() -> None:
    model = mlp(16)
    step = vg.jit(sgd_step(model, optim.SGD(model, lr=0.01)))
    kept = [step(x, y) for x, y in batches(10, 4, False)]
    values = [float(loss) for loss in kept]
    assert len(values) == 10 and np.isfinite(values).all()


def test_many_flushes_in_flight() -> None:
    x = vg.tensor(array(64))
    y = x
    for _ in range(20):
        y = y * 0.5 + x
        vg.eval(y)
    expected = array(64)
    for _ in range(20):
        expected = expected * np.float32(0.5) + array(64)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_small_submissions() -> None:
    with config.override(batch_max=2):
        assert np.isfinite(losses("lenet", 2, batch=2)).all()


def test_inference_beside_training() -> None:
    model = LeNet5()
    optimizer = optim.SGD(model, lr=0.01)
    step, classify = vg.jit(sgd_step(model, optimizer)), vg.jit(lambda x: vg.argmax(model(x), axis=1))
    for x, y in batches(3, 2, True):
        loss = step(x, y)
        assert classify(x).shape == (2,)
        assert np.isfinite(float(loss))
