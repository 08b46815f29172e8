"""How many dispatches things take: pinned, because a fusion that stops happening changes no value."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.models import LeNet5, batches, mlp, sgd_step
from vkgrad import nn, optim
from vkgrad.config import config


def array(*shape: int, seed: int = 0) -> vg.Tensor:
    return vg.tensor(np.random.Generator(np.random.Philox(seed)).normal(size=shape).astype("f4"))


def dispatches(*tensors: vg.Tensor) -> int:
    return len(vg.plan(*tensors).kernels)


A, B = (lambda: array(5, 7, seed=1)), (lambda: array(5, 7, seed=2))

ONE = {
    "element-wise region with fan-out": lambda a, b: vg.tanh(vg.sigmoid(a * b + a) * b - a) + vg.sqrt(a * a + b * b),
    "operand order": lambda a, b: 3.0 - vg.exp(a),
    "literals and masks": lambda a, b: vg.where(a > 0.5, a * 2, vg.where(b != 0, b, 1.0)),
    "relu": lambda a, b: vg.relu(a),
    "mixed types": lambda a, b: (a > b).astype(vg.int32) * 3 + 1,
    "broadcast": lambda a, b: a * b[0] + a[:, :1],
    "flip, permute, slice with a negative step": lambda a, b: (a.T + b.T[:, ::-1])[1:, ::-2],
    "padding": lambda a, b: vg.pad(a, ((1, 2), (0, 3))) * 2,
    "sum with prologue and epilogue": lambda a, b: vg.sqrt((a * b).sum(axis=1) + 10) * 2,
    "softmax": lambda a, b: vg.softmax(a, axis=1),
    "log softmax of a sum": lambda a, b: vg.log_softmax(a + b, axis=-1),
    "layer norm": lambda a, b: (a - a.mean(axis=1, keepdims=True)) / vg.sqrt(a.var(axis=1, keepdims=True) + 1e-5),
    "matmul of transposes": lambda a, b: a.T @ b,
    "dense layer": lambda a, b: vg.relu(a @ b.T + b[:, 0]),
    "argmax": lambda a, b: vg.argmax(a, axis=1),
    "arange": lambda a, b: vg.arange(12).reshape((3, 4)).T * 2,
}


@pytest.mark.parametrize("name", ONE)
def test_one_dispatch(name: str) -> None:
    vg.flush()  # what other tests have left pending would be counted too
    result = ONE[name](A(), B())
    assert dispatches(result) == 1
    with vg.counting() as c:
        result.numpy()
    assert (c.dispatches, c.submissions, c.host_nodes) == (1, 1, 0)


def test_unfused_takes_more() -> None:
    """The null arm: with fusion off the same region is one dispatch per operation."""
    with config.override(fuse=False):
        assert dispatches(ONE["element-wise region with fan-out"](A(), B())) >= 9


def test_shared_subexpression_is_computed_once() -> None:
    x = array(6)
    for _ in range(8):
        x = x * x
    (kernel,) = vg.plan(x).plan.kernels
    assert sum(getattr(i, "op", None) is not None for i in kernel.code) == 8


def test_several_outputs_share_a_dispatch() -> None:
    a = A()
    x, y = vg.exp(a), a * 2
    assert dispatches(x, y) == 1


def test_long_chain_and_deep_graph() -> None:
    """10,000 operations in a row neither overflow the stack nor make one enormous kernel."""
    x = start = array(4)
    for _ in range(10_000):
        x = x * 0.5 + 1.0
    with vg.counting() as c:
        value = x.numpy()
    assert c.submissions == 1 and c.dispatches < 300
    expected = start.numpy()
    for _ in range(100):
        expected = expected * np.float32(0.5) + np.float32(1)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize(("kind", "most", "levels"), [("mlp", 9, 5), ("lenet", 29, 16)])
def test_training_step(kind: str, most: int, levels: int) -> None:
    model = LeNet5() if kind == "lenet" else mlp()
    step = sgd_step(model, optim.SGD(model, lr=0.1))
    vg.flush()
    ((x, y),) = batches(1, 4, kind == "lenet")
    loss = step(vg.tensor(x), vg.tensor(y))
    report = vg.plan(loss, *model.parameters())
    assert len(report.kernels) <= most
    assert report.plan.depth <= levels
    assert {where for _, where in report.placement} <= {"device", "view", "leaf"}


def test_mlp_forward_is_two_dispatches_and_the_loss_one() -> None:
    model = mlp()
    vg.flush()
    ((x, y),) = batches(1, 4, False)
    logits = model(vg.tensor(x))
    assert dispatches(logits) == 2
    assert dispatches(nn.cross_entropy(logits, vg.tensor(y), reduction="none")) <= 3


def test_every_node_of_a_plan_is_accounted_for() -> None:
    a = A()
    report = vg.plan(vg.softmax(a @ a.T, axis=0))
    kernels = report.kernels
    assert [k.level for k in kernels] == [0, 1]
    assert len(report.placement) >= report.plan.nodes
    assert "2 dispatches in 2 levels" in str(report)
