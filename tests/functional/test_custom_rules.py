"""`stop_gradient` and `custom_vjp`: derivatives that the author of a function states."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad import autodiff
from vkgrad.errors import DifferentiationError, ShapeError


def test_stop_gradient() -> None:
    x = vg.tensor([1.0, 2.0])
    close(vg.grad(lambda x: (x * vg.stop_gradient(x)).sum())(x), np.array([1, 2], np.float32))
    nested = vg.stop_gradient({"a": x, "b": "text"})
    close(nested["a"], np.array([1, 2], np.float32))
    assert nested["b"] == "text"
    assert vg.jvp(lambda x: vg.stop_gradient(x) * 3, (1.0,), (1.0,))[1].item() == 0
    assert vg.grad(vg.grad(lambda x: vg.stop_gradient(x) * x * x))(3.0).item() == 6


@vg.custom_vjp
def doubled(x: Any) -> Any:
    """Twice x, with a derivative that says three."""
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda residuals, g: (3 * g,))


def test_the_stated_derivative_is_used() -> None:
    assert doubled.__doc__ == "Twice x, with a derivative that says three."
    assert doubled(5.0).item() == 10
    assert vg.grad(lambda x: doubled(x) * x)(5.0).item() == 3 * 5 + 10
    assert vg.jvp(doubled, (5.0,), (2.0,))[1].item() == 6
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    y = doubled(w)
    y.sum().item()
    y.sum().backward()
    close(w.grad, np.array([3, 3], np.float32))


def test_residuals_and_second_order() -> None:
    @vg.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(lambda x: (x * x * x, x), lambda x, g: (g * 3 * x * x,))
    assert vg.grad(cube)(2.0).item() == 12
    assert vg.grad(vg.grad(cube))(2.0).item() == 12
    assert vg.grad(vg.grad(vg.grad(cube)))(2.0).item() == 6
    assert vg.hessian(lambda x: cube(x).sum())(vg.tensor([1.0, 2.0])).tolist() == [[6, 0], [0, 12]]


def test_nested_arguments_and_outputs() -> None:
    @vg.custom_vjp
    def f(params: Any, x: Any) -> Any:
        return {"product": params["w"] * x, "sum": params["w"] + x}

    def forward(params: Any, x: Any) -> Any:
        return {"product": params["w"] * x, "sum": params["w"] + x}, (params["w"], x)

    def backward(residuals: Any, g: Any) -> Any:
        _, x = residuals
        return {"w": g["product"] * x + g["sum"]}, None

    f.defvjp(forward, backward)

    def total(w: Any, x: Any) -> Any:
        out = f({"w": w}, x)
        return (out["product"] * 10 + out["sum"]).sum()

    gw, gx = vg.grad(total, argnums=(0, 1))(draw(3), draw(3, seed=1))
    close(gw, 10 * draw(3, seed=1) + 1)
    close(gx, np.zeros(3, np.float32))


def test_a_value_that_does_not_depend_on_the_argument_may_have_a_gradient() -> None:
    @vg.custom_vjp
    def straight_through(x: Any) -> Any:
        return vg.zeros_like(x)

    straight_through.defvjp(lambda x: (vg.zeros_like(x), None), lambda _, g: (g,))
    close(vg.grad(lambda x: (straight_through(x) * 5).sum())(vg.ones(2)), np.array([5, 5], np.float32))


def test_rules_are_freed() -> None:
    gc.collect()
    before = len(autodiff.custom_rules)
    for _ in range(20):
        vg.grad(doubled)(1.0).item()
    y = doubled(1.0)
    node = ref(y.node)
    del y
    vg.flush()
    gc.collect()
    assert node() is None
    assert len(autodiff.custom_rules) == before


def test_mistakes_are_named() -> None:
    @vg.custom_vjp
    def f(x: Any) -> Any:
        return x

    with pytest.raises(DifferentiationError, match=r"\.defvjp\(forward, backward\) before a call"):
        f(1.0)
    f.defvjp(lambda x: (x, None), lambda _, g: g)
    with pytest.raises(DifferentiationError, match="must return a tuple of 1 gradients"):
        vg.grad(f)(1.0)
    f.defvjp(lambda x: (x, None), lambda _, g: ([g, g],))
    with pytest.raises(DifferentiationError, match="another nesting"):
        vg.grad(f)(1.0)
    f.defvjp(lambda x: (x, None), lambda _, g: (vg.ones(2),))
    with pytest.raises(ShapeError, match=r"a gradient has shape \(2,\), its argument \(\)"):
        vg.grad(f)(1.0)


def test_arguments_by_name() -> None:
    @vg.custom_vjp
    def scaled(x: vg.Tensor, by: float = 2.0) -> vg.Tensor:
        return x * by

    scaled.defvjp(lambda x, by=2.0: (x * by, by), lambda by, g: (g * by * 10, None))
    assert vg.grad(lambda x: scaled(x, by=3.0))(1.0).item() == 30
    assert vg.grad(lambda x: scaled(by=3.0, x=x))(1.0).item() == 30

    @vg.custom_vjp
    def named(x: vg.Tensor, *, by: float) -> vg.Tensor:
        return x * by

    named.defvjp(lambda x: (x, ()), lambda residuals, g: (g,))
    with pytest.raises(DifferentiationError, match="by can only be given by name"):
        named(vg.tensor(1.0), by=2.0)
