"""Transforms of functions: values against closed forms, nestings, composition, and that nothing leaks out of them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad import functional, history
from vkgrad.errors import DifferentiationError, ShapeError
from vkgrad.ir.node import Node, walk


class Affine:
    """A module is anything with `named_parameters`."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self.weight = vg.tensor(draw(2, 3, dtype=dtype), requires_grad=True)
        self.bias = vg.tensor(draw(2, seed=1, dtype=dtype), requires_grad=True)

    def named_parameters(self) -> list[tuple[str, vg.Tensor]]:
        return [("weight", self.weight), ("bias", self.bias)]

    def __call__(self, x: Any) -> vg.Tensor:
        return self.weight @ x + self.bias


# ---- grad and value_and_grad
def test_orders_of_derivative() -> None:
    def f(x: vg.Tensor) -> vg.Tensor:
        return x * x * x * x

    derivatives: list[Any] = [f]
    for expected in (32.0, 48.0, 48.0, 24.0):
        derivatives.append(vg.grad(derivatives[-1]))
        assert derivatives[-1](2.0).item() == expected


def test_an_equal_expression_elsewhere_is_not_the_argument() -> None:
    u = vg.tensor(3.0)
    slope = vg.grad(lambda x: x + 2 * u)(2 * u)
    assert slope.item() == 1
    assert vg.grad(lambda x: x * vg.grad(lambda y: x * y)(x))(3.0).item() == 6


def test_without_aliases_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "alias", lambda node: node)
    u = vg.tensor(3.0)
    assert vg.grad(lambda x: x + 2 * u)(2 * u).item() == 2


def test_gradients_come_back_in_the_nesting_of_the_argument() -> None:
    params = {"w": [vg.tensor([1.0, 2.0]), (vg.tensor(3.0), None)], "unused": vg.ones((2,))}
    value, gradient = vg.value_and_grad(lambda p, k: (p["w"][0] * p["w"][1][0]).sum() * k)(params, 2.0)
    assert value.item() == 18
    close(gradient["w"][0], np.array([6, 6], np.float32))
    assert gradient["w"][1][0].item() == 6 and gradient["w"][1][1] is None
    close(gradient["unused"], np.zeros(2, np.float32))


def test_argnums_and_aux_and_keywords() -> None:
    def f(x: Any, y: Any, scale: float = 1.0) -> tuple:
        return x * y * scale, {"sum": x + y}

    (first, second), aux = vg.grad(f, argnums=(0, -1), has_aux=True)(3.0, 4.0, scale=10.0)
    assert (first.item(), second.item(), aux["sum"].item()) == (40, 30, 7)
    (value, aux), slope = vg.value_and_grad(f, argnums=1, has_aux=True)(3.0, 4.0)
    assert (value.item(), slope.item(), aux["sum"].item()) == (12, 3, 7)


def test_arrays_and_numbers_are_arguments() -> None:
    close(vg.grad(lambda x: (x * x).sum())(draw(3)), 2 * draw(3))
    assert vg.grad(lambda x: x * x)(np.float64(3.0)).item() == 6


def test_modules() -> None:
    model, x = Affine(), draw(3, seed=2)
    before = (model.weight.node, model.bias.node)
    value, gradient = vg.value_and_grad(lambda m: (m(x) ** 2).sum())(model)
    assert (model.weight.node, model.bias.node) == before
    y = draw(2, 3) @ x + draw(2, seed=1)
    close(value, np.float32((y * y).sum()))
    assert set(gradient) == {"weight", "bias"}
    close(gradient["weight"], 2 * np.outer(y, x))
    close(gradient["bias"], 2 * y)
    nested = vg.grad(lambda p: (p["m"](x) * p["k"]).sum())({"m": model, "k": 2.0})
    close(nested["m"]["bias"], np.full(2, 2, np.float32))
    assert model.weight.grad is None


def test_a_module_is_whole_again_after_an_error() -> None:
    model = Affine()
    before = model.weight.node

    def broken(m: Affine) -> vg.Tensor:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        vg.grad(broken)(model)
    assert model.weight.node is before and not model.weight.keeps_history


def test_reading_inside_the_function_does_not_cut_the_gradient() -> None:
    model, x = Affine(), draw(3, seed=2)
    seen = []

    def loss(m: Affine, scale: vg.Tensor) -> vg.Tensor:
        y = m(x) * scale
        seen.append(y.tolist())
        vg.flush()
        return (y * m.bias.sum()).sum()

    found = vg.grad(loss, argnums=(0, 1))(model, 2.0)
    w, b = draw(2, 3), draw(2, seed=1)
    y = w @ x + b
    np.testing.assert_allclose(seen[0], 2 * y, rtol=1e-5)
    close(found[0]["weight"], np.outer(np.full(2, 2 * b.sum()), x), cost=4)
    close(found[0]["bias"], 2 * b.sum() + np.full(2, 2 * y.sum()), cost=4)
    close(found[1], np.float32(y.sum() * b.sum()), cost=4)


def test_a_pending_parameter_read_inside_the_function() -> None:
    """The flush inside must neither turn the alias into a leaf nor lose the parameter's own value."""
    model = Affine()
    model.weight = vg.tensor(draw(2, 3)) * 1.0
    model.weight.requires_grad = True

    def loss(m: Affine) -> vg.Tensor:
        float(m.weight.sum())
        return (m.weight * m.weight).sum()

    close(vg.grad(loss)(model)["weight"], 2 * draw(2, 3))
    close(model.weight, draw(2, 3))
    vg.flush()
    assert len(walk([model.weight.node])) == 1


def test_results_do_not_drag_the_graph_along() -> None:
    model, x = Affine(), draw(3, seed=2)
    value, gradient = vg.value_and_grad(lambda m: (m(x) ** 2).sum())(model)
    vg.flush()
    assert len(walk([value.node, gradient["weight"].node])) == 2
    slope = vg.grad(lambda t: t * t)(vg.tensor(2.0))
    assert not slope.keeps_history
    del value, gradient, slope
    gc.collect()
    assert not list(history._traced)


def test_results_keep_the_graph_where_backward_may_come() -> None:
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    slope = vg.grad(lambda x: (x * x * w).sum())(vg.tensor([3.0, 4.0]))
    slope.sum().item()
    slope.sum().backward()
    close(w.grad, np.array([6, 8], np.float32))
    w.grad = None
    value, _ = vg.value_and_grad(lambda x: (x * x).sum())(w * 2)
    vg.flush()
    value.backward()
    close(w.grad, np.array([8, 16], np.float32))


def test_mistakes_are_named() -> None:
    cases: list[tuple[str, Any]] = [
        (
            r"grad: the function must return one float, it returned float32\[2\]",
            lambda: vg.grad(lambda x: x)(vg.ones(2)),
        ),
        ("it returned int32", lambda: vg.grad(lambda x: x.astype(vg.int32))(1.0)),
        ("it returned a float, which knows no history", lambda: vg.grad(lambda x: 1.0)(1.0)),
        (r"argument 0\['w'\]\[1\] is of type int32", lambda: vg.grad(lambda p: p)({"w": [1.0, vg.tensor([1])]})),
        (r"argument 1 is a str", lambda: vg.grad(lambda x, y: x, argnums=1)(1.0, "a")),
        ("argnums 2 names none of 1", lambda: vg.grad(lambda x: x, argnums=2)(1.0)),
        ("names an argument twice", lambda: vg.grad(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0)),
        (r"must return \(output, aux\)", lambda: vg.grad(lambda x: x, has_aux=True)(1.0)),
        ("the function must return tensors, output is a float", lambda: vg.vjp(lambda x: 1.0, 1.0)),
        (
            r"vjp: the cotangents are nested as \(x,\), what they belong to as x",
            lambda: vg.vjp(lambda x: x, 1.0)[1]((1.0,)),
        ),
        (
            r"jvp: the tangents are nested as \(x, x\), what they belong to as \(x,\)",
            lambda: vg.jvp(lambda x: x, (1.0,), (1.0, 2.0)),
        ),
    ]
    for message, mistake in cases:
        with pytest.raises(DifferentiationError, match=message):
            mistake()
    with pytest.raises(ShapeError, match="vjp: one of the cotangents has shape"):
        vg.vjp(lambda x: x, vg.ones(2))[1](vg.ones(3))


# ---- products with the Jacobian
def _f(x: vg.Tensor, y: vg.Tensor) -> dict[str, vg.Tensor]:
    return {"product": vg.sin(x) * y, "sum": (x * x).sum()}


@pytest.mark.usefixtures("on_cpu")
def test_vjp_and_jvp_are_each_others_transpose() -> None:
    x, y, u, v = (vg.tensor(draw(3, seed=k, dtype=np.float64)) for k in range(4))
    value, pushed = vg.jvp(_f, (x, y), (u, v))
    weights = {"product": vg.tensor(draw(3, seed=5, dtype=np.float64)), "sum": 2.0}
    again, pull = vg.vjp(_f, x, y)
    gx, gy = pull(weights)
    left = (pushed["product"] * weights["product"]).sum() + pushed["sum"] * 2.0
    right = (gx * u).sum() + (gy * v).sum()
    assert left.item() == pytest.approx(right.item(), rel=1e-12)
    a, b, c, d = (tensor.numpy() for tensor in (x, y, u, v))
    close(pushed["product"], np.cos(a) * c * b + np.sin(a) * d)
    close(value["product"], again["product"].numpy())


def test_aux_of_vjp() -> None:
    value, pull, aux = vg.vjp(lambda x: (x * 2, x + 1), 3.0, has_aux=True)
    assert (value.item(), aux.item(), pull(1.0)[0].item()) == (6, 4, 2)


def test_a_pull_may_be_used_again_and_later() -> None:
    value, pull = vg.vjp(lambda x: vg.sin(x), vg.tensor([0.0, 1.0]))
    value.numpy()
    vg.flush()
    for scale in (1.0, 3.0):
        close(pull(vg.full((2,), scale))[0], scale * np.cos(np.array([0, 1], np.float32)))


def test_jvp_where_cotangents_would_cancel() -> None:
    """Forward derivatives come from two reverse passes; no zero of the first may blank the second."""
    for f, slope in [
        (lambda x: vg.sqrt(x) - vg.sqrt(x) + x, 1.0),
        (lambda x: vg.log(x) * 0.0, 0.0),
        (lambda x: vg.where(x > 0, vg.sqrt(x), x), 0.25),
    ]:
        assert vg.jvp(f, (4.0,), (1.0,))[1].item() == pytest.approx(slope)


def test_linearize_evaluates_once() -> None:
    calls = []

    def f(x: vg.Tensor) -> vg.Tensor:
        calls.append(1)
        return x * x

    value, push = vg.linearize(f, 3.0)
    assert (value.item(), push(1.0).item(), push(2.0).item(), len(calls)) == (9, 6, 12, 1)


# ---- matrices
@pytest.mark.usefixtures("on_cpu")
def test_jacobian_and_hessian() -> None:
    a, x = draw(3, 4, dtype=np.float64), draw(4, dtype=np.float64)
    close(vg.jacobian(lambda x: a @ x)(x), a)
    close(vg.jacobian(lambda s, x: s * x, argnums=1)(2.0, x), 2 * np.eye(4))
    h = draw(4, 4, dtype=np.float64)
    close(vg.hessian(lambda x: 0.5 * (x @ (vg.tensor(h) @ x)))(x), (h + h.T) / 2)
    blocks = vg.jacobian(lambda p: {"out": p["a"] * p["b"]})({"a": x, "b": 3.0})
    close(blocks["out"]["a"], 3 * np.eye(4))
    close(blocks["out"]["b"], x)
    nested = vg.hessian(lambda p: (p["a"] ** 2).sum() * p["b"])({"a": x[:2], "b": vg.tensor(np.array(3.0))})
    close(nested["a"]["a"], 6 * np.eye(2))
    close(nested["a"]["b"], 2 * x[:2])
    close(nested["b"]["a"], 2 * x[:2])
    assert nested["b"]["b"].item() == 0
    assert vg.jacobian(lambda x: x)(np.zeros((0,))).shape == (0, 0)


@pytest.mark.usefixtures("on_cpu")
def test_hvp() -> None:
    x, v, h = draw(4, dtype=np.float64), draw(4, seed=1, dtype=np.float64), draw(4, 4, dtype=np.float64)
    close(vg.hvp(lambda x: 0.5 * (x @ (vg.tensor(h) @ x)), (x,), (v,)), (h + h.T) / 2 @ v)
    first, second = vg.hvp(lambda x, y: (x * x * y).sum(), (x, v), (v, x))
    close(first, 2 * v * v + 2 * x * x)
    close(second, 2 * x * v)


@pytest.mark.usefixtures("on_cpu")
def test_composition() -> None:
    x = vg.tensor(np.array(0.7))

    def slope_forward(f: Any) -> Any:
        return lambda x: vg.jvp(f, (x,), (1.0,))[1]

    def reference(order: int) -> float:
        return float([np.sin(0.7), np.cos(0.7), -np.sin(0.7), -np.cos(0.7)][order % 4])

    chains: list[tuple[Any, ...]] = [
        (vg.grad, vg.grad, vg.grad),
        (slope_forward, slope_forward, slope_forward),
        (vg.grad, slope_forward, vg.grad),
        (slope_forward, vg.grad, slope_forward),
    ]
    for transforms in chains:
        f: Any = vg.sin
        for order, transform in enumerate(transforms):
            f = transform(f)
            assert f(x).item() == pytest.approx(reference(order + 1), rel=1e-12)


def test_gradients_are_made_of_primitives() -> None:
    def f(x: vg.Tensor) -> vg.Tensor:
        return vg.softmax(vg.tanh(x @ x.T)).max(0).sum() + vg.prod(x)

    from vkgrad.ir.op import OPS

    made: list[Node] = walk([vg.grad(f)(vg.ones((2, 2))).node])
    assert len(made) > 20
    assert all(OPS[node.op.name] is node.op for node in made)


def test_second_gradient_of_a_module() -> None:
    model, x = Affine(), draw(3, seed=2)

    def squared_slope(m: Affine) -> vg.Tensor:
        inner = vg.grad(lambda m: (m(x) ** 2).sum())(m)
        return (inner["bias"] ** 2).sum()

    y = draw(2, 3) @ x + draw(2, seed=1)
    close(vg.grad(squared_slope)(model)["bias"], 8 * y)
