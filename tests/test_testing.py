"""The checkers are checked: they pass what is right and fail on what is wrong by little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from tests.ops.test_gradients import ELEMENTWISE, OTHER_OPS, OTHERS, elementwise_cases, replaced_rule
from vkgrad.counters import count_host
from vkgrad.errors import DifferentiationError
from vkgrad.ir.node import Node
from vkgrad.ir.op import ZERO, Family, Op
from vkgrad.tensor import derived
from vkgrad.testing import check_grads

X, Y = chirp((2, 3), 0.9, 0.3), chirp((2, 3), 0.9, 1.7)


def _scaled(factor: float, power: int = 0):
    """tanh with a derivative that is wrong by a factor; with `power`, only as a function of x at the second order."""

    @vg.custom_vjp
    def wrong(x):
        return vg.tanh(x)

    def backward(x, g):
        slope = 1 - vg.tanh(x) * vg.tanh(x)
        return (g * factor * slope,)

    wrong.defvjp(lambda x: (vg.tanh(x), x), backward)
    return wrong


@pytest.mark.parametrize("mode", ["rev", "fwd"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: vg.tanh(x) * y,
        lambda x, y: (x @ y.T, vg.exp(-x * x)),
        lambda x, y: {"a": vg.sin(3 * x + y).sum(axis=1), "count": vg.arange(3)},
        lambda x, y: vg.log_softmax(x * y, axis=1),
        lambda x, y: x,
    ],
)
def test_right_derivatives_pass_to_order_two(f, mode: str) -> None:
    check_grads(f, (vg.tensor(X), vg.tensor(Y)), order=2, modes=(mode,))


@pytest.mark.parametrize("order", [1, 2])
def test_double_precision_sees_smaller_errors(order: int) -> None:
    x = vg.tensor(X.astype(np.float64))
    check_grads(lambda x: x * x * x / (2 + x), x, order=order)
    cubed = vg.custom_vjp(lambda x: x * x * x)
    cubed.defvjp(lambda x: (x * x * x, x), lambda x, g: (g * 3.00001 * x * x,))
    with pytest.raises(AssertionError, match="rev, order 1"):
        check_grads(cubed, x, order=order, modes=("rev",))


@pytest.mark.parametrize("mode", ["rev", "fwd"])
@pytest.mark.parametrize("factor", [1.001, 0.999, -1.0, 0.0])
def test_a_rule_that_is_off_by_a_thousandth_fails(factor: float, mode: str) -> None:
    with pytest.raises(AssertionError, match=rf"{mode}, order 1, argument \[0\] at \[\d, \d\]: the derivative is"):
        check_grads(_scaled(factor), X, modes=(mode,))
    check_grads(_scaled(1.0), X, modes=(mode,))


def test_a_rule_that_is_right_once_and_wrong_twice_fails() -> None:
    inner = _scaled(1.001)
    outer = vg.custom_vjp(lambda x: x * 1)
    # The integral of tanh is not needed: only the derivative, whose own derivative is off, is looked at.
    outer.defvjp(lambda x: (vg.log(vg.cosh(x)), x), lambda x, g: (g * inner(x),))
    check_grads(outer, X, order=1, modes=("rev",))
    with pytest.raises(AssertionError, match="rev, order 2"):
        check_grads(outer, X, order=2, modes=("rev",))


def test_one_wrong_element_among_many_fails() -> None:
    wrong = vg.custom_vjp(lambda x: x * 1)
    mask = np.ones(500, np.float32)
    mask[371] = 1.5
    wrong.defvjp(lambda x: (x * 1, ()), lambda _, g: (g * mask,))
    with pytest.raises(AssertionError, match="all together"):
        check_grads(wrong, np.ones(500, np.float32), order=1, modes=("rev",))


def test_a_wrong_argument_is_named() -> None:
    product = vg.custom_vjp(lambda p, n: p["w"] * p["b"][0] * n)
    product.defvjp(
        lambda p, n: (p["w"] * p["b"][0] * n, (p, n)),
        lambda r, g: ({"w": g * r[0]["b"][0] * r[1], "b": [g * r[0]["w"] * r[1] * 1.002]}, None),
    )
    with pytest.raises(AssertionError, match=r"argument \[0\]\['b'\]\[0\] at \[2\]"):
        check_grads(
            lambda p, n: product(p, n),
            ({"w": chirp((3,), 1, 0), "b": [chirp((3,), 1, 2)]}, np.array([2, 0, 3], np.int32)),
        )


def test_not_a_number_fails() -> None:
    with pytest.raises(AssertionError, match="nan"):
        check_grads(vg.sqrt, vg.tensor([-1.0, 4.0]), order=1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: check_grads(lambda n: n * 1.0, vg.arange(3)), DifferentiationError, "none of the arguments"),
        (lambda: check_grads(lambda x: x > 0, vg.tensor([1.0])), DifferentiationError, "returns no float"),
        (lambda: check_grads(lambda x: x, vg.tensor([1.0]), modes=("back",)), ValueError, "not 'back'"),
        (lambda: check_grads(lambda m: m, (vg.nn.Linear(2, 2),)), DifferentiationError, "named_parameters"),
    ],
)
def test_mistakes_are_refused(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_what_runs_on_the_device_passes_and_comes_back() -> None:
    result = vg.testing.assert_on_device(lambda x: {"sum": x.sum(), "count": 3}, vg.tensor(X))
    assert float(result["sum"]) == pytest.approx(float(X.sum()), rel=1e-5) and result["count"] == 3


def test_host_work_fails() -> None:
    def partly(x: vg.Tensor) -> vg.Tensor:
        count_host("exp", 2, "float64", 48)  # what the engine calls for an operation that the host computes
        return x + 1

    with pytest.raises(AssertionError, match="partly ran partly on the host"):
        vg.testing.assert_on_device(partly, vg.tensor(X))


def test_computing_nothing_fails() -> None:
    with pytest.raises(AssertionError, match="computed nothing on the device"):
        vg.testing.assert_on_device(lambda x: x, vg.tensor(X))


# ---- every primitive
def _thousandth_off(op: Op) -> Callable[..., tuple]:
    """The rule of `op`, wrong by a thousandth; one that is zero cannot be off by a factor, so something is added."""
    rule: Any = op.grad
    if rule is ZERO:
        return lambda g, *_, **__: (g * 1e-3,) * op.arity
    return lambda *nodes, **attributes: tuple(
        part * 1.001 if isinstance(part, Node) else part for part in rule(*nodes, **attributes)
    )


@pytest.mark.parametrize("op", ELEMENTWISE + OTHER_OPS, ids=lambda op: op.name)
@pytest.mark.usefixtures("on_cpu")
def test_every_primitive_passes_to_order_two_and_fails_when_off_by_a_thousandth(op: Op) -> None:
    cases = list(elementwise_cases(op, ["plain"])) if op.family is Family.ELEMENTWISE else OTHERS[op.name]
    functions = [lambda *x, case=case: derived(case.function(*(t.node for t in x)), *x) for case in cases]
    for function, case in zip(functions, cases, strict=True):
        check_grads(function, case.arrays, order=2)
    with replaced_rule(op, _thousandth_off(op)), pytest.raises(AssertionError, match="rev, order 1"):
        check_grads(functions[0], cases[0].arrays, order=1, modes=("rev",))
