"""`vmap` as users meet it: against loops, in few kernels, composed with every other transform, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad import engine
from vkgrad.errors import ShapeError, VkgradError


def _loop(f: Any, *arrays: np.ndarray) -> np.ndarray:
    return np.stack([f(*(vg.tensor(a) for a in row)).numpy() for row in zip(*arrays, strict=True)])


def _net(w: vg.Tensor, x: vg.Tensor) -> vg.Tensor:
    return vg.logsumexp(vg.tanh(w @ x), 0)


def test_a_batch_takes_the_dispatches_of_one_example() -> None:
    w, x = vg.tensor(draw(3, 4)), vg.tensor(draw(5, 4, seed=1))
    with vg.counting() as one:
        _net(w, x[0]).numpy()
    with vg.counting() as many:
        found = vg.vmap(_net, in_axes=(None, 0))(w, x)
        found.numpy()
    assert many.dispatches <= one.dispatches
    assert many.host_nodes == 0
    assert many.submissions == 1
    close(found, _loop(lambda r: _net(w, r), x.numpy()), cost=4)


def test_gradients_of_each_example() -> None:
    w, x = vg.tensor(draw(3, 4)), vg.tensor(draw(5, 4, seed=1))
    found = vg.vmap(vg.grad(_net), in_axes=(None, 0))(w, x)
    assert found.shape == (5, 3, 4)
    close(found, _loop(lambda r: vg.grad(_net)(w, r), x.numpy()), cost=8)


def test_the_gradient_of_a_mapped_function_adds_up_what_is_shared() -> None:
    w, x = vg.tensor(draw(3, 4)), vg.tensor(draw(5, 4, seed=1))
    found = vg.grad(lambda w, x: vg.vmap(_net, in_axes=(None, 0))(w, x).sum(), argnums=(0, 1))(w, x)
    each = [vg.grad(_net, argnums=(0, 1))(w, x[i]) for i in range(5)]
    close(found[0], np.sum([g[0].numpy() for g in each], axis=0), cost=8)
    close(found[1], np.stack([g[1].numpy() for g in each]), cost=8)


def test_axes_nestings_and_results() -> None:
    x, y = draw(4, 3), draw(3, 4, seed=2)
    both = vg.vmap(
        lambda p, s: {"sum": p["x"] + p["y"], "same": s * 2},
        in_axes=({"x": 1, "y": -2}, None),
        out_axes={"sum": 1, "same": 0},
    )
    found = both({"x": vg.tensor(x), "y": y}, 3.0)
    close(found["sum"], (x + y.T), cost=1)
    close(found["same"], np.full(3, 6, np.float32))
    close(vg.vmap(lambda *, k: k * k)(k=vg.tensor(x)), x * x)
    close(vg.vmap(lambda: vg.ones(2), axis_size=3)(), np.ones((3, 2), np.float32))


def test_nested_maps_make_outer_products() -> None:
    a, b = draw(3), draw(4, seed=1)
    outer = vg.vmap(vg.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    close(outer(vg.tensor(a), vg.tensor(b)), np.outer(a, b))


def test_with_jit_jvp_and_hessian() -> None:
    x = vg.tensor(draw(5, 3))
    f = lambda r: vg.sin(r).sum() * r[0]  # noqa: E731
    expected = _loop(f, x.numpy())
    recorded = vg.jit(vg.vmap(f))
    close(recorded(x), expected, cost=4)
    close(recorded(x), expected, cost=4)
    close(vg.vmap(vg.jit(f))(x), expected, cost=4)
    close(vg.vmap(vg.hessian(f))(x), _loop(vg.hessian(f), x.numpy()), cost=8)
    _, slopes = vg.jvp(vg.vmap(f), (x,), (vg.ones_like(x),))
    close(slopes, _loop(lambda r: vg.jvp(f, (r,), (vg.ones_like(r),))[1], x.numpy()), cost=8)


def test_a_derivative_of_the_users_own() -> None:
    @vg.custom_vjp
    def doubled(x: vg.Tensor, k: vg.Tensor) -> vg.Tensor:
        return x * k

    doubled.defvjp(lambda x, k: (x * k, (x, k)), lambda saved, g: (g * saved[1] * 10, (g * saved[0]).sum() * 100))
    x, k = vg.tensor(draw(4, 3)), vg.tensor(2.0)
    each = vg.vmap(vg.grad(lambda x: doubled(x, k).sum()))(x)
    close(each, np.full((4, 3), 20, np.float32))
    shared = vg.grad(lambda k: vg.vmap(lambda r: doubled(r, k))(x).sum())(k)
    close(shared, np.float32(100 * x.numpy().sum()), cost=16)


def test_modules_close_over_or_stack() -> None:
    layer = vg.nn.Linear(3, 2)
    x = vg.tensor(draw(5, 3))
    close(vg.vmap(layer)(x), layer(x).numpy(), cost=4)
    weights = {"weight": vg.tensor(draw(4, 2, 3)), "bias": vg.tensor(draw(4, 2))}
    stacked = vg.nn.Linear(3, 2)
    for name, parameter in stacked.named_parameters():
        parameter.node = weights[name].node  # parameters of four layers in one
    outputs = vg.vmap(lambda module, x: module(x), in_axes=(0, None))(stacked, x)
    expected = np.einsum("koi,bi->kbo", weights["weight"].numpy(), x.numpy()) + weights["bias"].numpy()[:, None]
    close(outputs, expected, cost=8)


def test_a_jacobian_is_one_batched_pass() -> None:
    a = vg.tensor(draw(6, 6))
    with vg.counting() as c:
        found = vg.jacobian(lambda x: vg.tanh(a @ x))(vg.tensor(draw(6, seed=3)))
        found.numpy()
    assert c.dispatches <= 5, "a Jacobian of six rows is not six passes"
    assert c.host_nodes == 0
    x = draw(6, seed=3)
    close(found, (1 - np.tanh(a.numpy() @ x) ** 2)[:, None] * a.numpy(), cost=8)


def test_reading_a_mapped_value_is_refused_and_loses_nothing() -> None:
    x, outside = vg.tensor(draw(3, 2)), vg.tensor(draw(2)) * 2
    with pytest.raises(VkgradError, match="vmap"):
        vg.vmap(lambda r: r if r.sum().item() > 0 else -r)(x)
    made: list[vg.Tensor] = []

    def reads_outside(r: vg.Tensor) -> vg.Tensor:
        made.append(outside + 1)
        return r * float(outside.sum())

    found = vg.vmap(reads_outside)(x)
    assert any(handle is made[0] for handle in engine.waiting()), (
        "what the function made of values from outside is pending again afterwards"
    )
    close(found, x.numpy() * float(outside.numpy().sum()), cost=4)
    close(made[0], outside.numpy() + 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vg.vmap(lambda x, y: x + y)(vg.ones(3), vg.ones(4)), "extents differ"),
        (lambda: vg.vmap(lambda x: x)(vg.tensor(1.0)), "no axis 0"),
        (lambda: vg.vmap(lambda x: x, in_axes=None)(vg.ones(3)), "no argument is mapped"),
        (lambda: vg.vmap(lambda x: x, in_axes=(0, 0))(vg.ones(3)), "does not fit"),
        (lambda: vg.vmap(lambda x: x, out_axes=2)(vg.ones(3)), "out_axes"),
        (lambda: vg.vmap(lambda x: x, out_axes=None)(vg.ones(3)), "differs between the examples"),
        (lambda: vg.vmap(lambda x: x)("text"), "in_axes=None"),
    ],
)
def test_mistakes_are_named(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call()


def test_a_result_that_is_the_same_for_all_need_not_be_repeated() -> None:
    shared = vg.tensor([1.0, 2.0])
    both = vg.vmap(lambda x: (x + shared, shared * 2), out_axes=(0, None))(vg.ones((3, 2)))
    assert (both[0].shape, both[1].tolist()) == ((3, 2), [2, 4])
