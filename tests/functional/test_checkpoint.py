"""`checkpoint`: the same values and derivatives, in less memory and more kernels, as the plan shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad import checkpointing
from vkgrad.ir.node import Node
from vkgrad.testing import check_grads

DEPTH = 6
WEIGHTS = [draw(8, 8, seed=n) * 0.3 for n in range(2 * DEPTH)]


def block(x: vg.Tensor, first: vg.Tensor, second: vg.Tensor) -> vg.Tensor:
    return vg.tanh(vg.tanh(x @ first) @ second)


def network(wrap: Callable[[Callable], Callable]) -> Callable[..., vg.Tensor]:
    layer = wrap(block)

    def loss(x: vg.Tensor, *weights: vg.Tensor) -> vg.Tensor:
        for first, second in zip(weights[::2], weights[1::2], strict=True):
            x = layer(x, first, second)
        return (x * x).sum()

    return loss


def gradient(wrap: Callable[[Callable], Callable], x: vg.Tensor) -> tuple[vg.Tensor, ...]:
    return vg.grad(network(wrap), argnums=tuple(range(1 + len(WEIGHTS))))(x, *map(vg.tensor, WEIGHTS))


def test_the_same_gradients_in_less_memory_and_more_kernels() -> None:
    x = vg.tensor(draw(512, 8))
    kept, again = gradient(lambda f: f, x), gradient(vg.checkpoint, x)
    whole, small = vg.plan(*kept), vg.plan(*again)
    assert len(small.kernels) > len(whole.kernels), "what is not kept is computed once more"
    assert small.plan.arena_bytes < 0.8 * whole.plan.arena_bytes
    with vg.counting() as c:
        vg.eval(*again)
    assert c.submissions == 1
    assert c.host_nodes == 0
    for one, other in zip(kept, again, strict=True):
        close(other, one.numpy(), cost=8)


def test_without_waiting_nothing_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arm: it is the order that saves memory."""
    x = vg.tensor(draw(512, 8))
    waited = vg.plan(*gradient(vg.checkpoint, x)).plan.arena_bytes

    def at_once(node: Node, other: Node) -> Node:
        return checkpointing.alias(node)

    monkeypatch.setattr(checkpointing, "after", at_once)
    assert vg.plan(*gradient(vg.checkpoint, x)).plan.arena_bytes > waited


def test_closures_modules_and_backward() -> None:
    layer = vg.nn.Linear(3, 2)
    x = vg.tensor(draw(4, 3))
    vg.tanh(layer(x)).sum().backward()
    expected = [parameter.grad.numpy() for parameter in layer.parameters()]
    for parameter in layer.parameters():
        parameter.grad = None
    vg.checkpoint(lambda x: vg.tanh(layer(x)).sum())(x).backward()
    for parameter, array in zip(layer.parameters(), expected, strict=True):
        close(parameter.grad, array, cost=4)


def test_several_outputs_share_one_recomputation() -> None:
    x = vg.tensor(draw(300))

    def pair(x: vg.Tensor) -> dict[str, Any]:
        inner = vg.exp(vg.sin(x))
        return {"a": inner * 2, "b": vg.cumulative_sum(inner, axis=0), "count": 3}

    def loss(f: Any, x: vg.Tensor) -> vg.Tensor:
        found = f(x)
        assert found["count"] == 3
        return (found["a"] * found["b"]).sum()

    close(vg.grad(lambda x: loss(vg.checkpoint(pair), x))(x), vg.grad(lambda x: loss(pair, x))(x).numpy(), cost=64)


def test_any_order_and_other_transforms(on_cpu: None) -> None:
    f = vg.checkpoint(lambda x: vg.sin(x * x).sum() * x[0])
    check_grads(f, [draw(3, dtype=np.float64)], order=2)
    nested = vg.checkpoint(lambda x: f(vg.checkpoint(vg.exp)(x)))
    check_grads(nested, [draw(3, dtype=np.float64)], order=2)
    x = vg.tensor(draw(4, 3, dtype=np.float64))
    plain = lambda x: vg.sin(x * x).sum() * x[0]  # noqa: E731
    close(vg.vmap(vg.grad(f))(x), vg.vmap(vg.grad(plain))(x).numpy(), cost=4)
    close(vg.jit(vg.grad(f))(x[0]), vg.grad(plain)(x[0]).numpy(), cost=4)
    close(vg.hessian(f)(x[0]), vg.hessian(plain)(x[0]).numpy(), cost=16)


def test_without_gradients_it_is_the_function() -> None:
    with vg.no_grad():
        assert vg.plan(vg.checkpoint(vg.exp)(vg.ones(3))).kernels
    assert len(vg.plan(vg.checkpoint(lambda x: vg.exp(x) * 2)(vg.ones(3))).kernels) == 1
