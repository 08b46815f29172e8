"""What functions of elements add to the primitives: names, promotion, weak numbers, mixed operands, activations."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw, layouts
from vkgrad.config import config
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.ir.op import OPS, Family

# Primitives that have no public function of their own, with the reason.
INTERNAL = {
    "cast": "it is .astype",
    "multiply_no_nan": "gradient rules only",
    "multiply_or_zero": "gradient rules only",
    "polygamma": "the derivative of digamma",
    "threefry": "it is vg.random",
}


def test_every_primitive_has_a_public_name() -> None:
    names = {name for name, op in OPS.items() if op.family is Family.ELEMENTWISE}
    assert names - set(vars(vg.functions)) == set(INTERNAL)


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "sigmoid", "isfinite", "reciprocal"])
def test_integers_and_masks_become_float32(name: str) -> None:
    reference = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "reciprocal": lambda x: 1 / x}.get(name) or getattr(
        np, name
    )
    whole = np.array([1, 2, 3], np.int32)
    close(getattr(vg, name)(vg.tensor(whole)), reference(whole.astype(np.float32)))
    close(getattr(vg, name)(vg.tensor([True])), reference(np.ones(1, np.float32)))


BINARY = {
    "add": (operator.add, np.add),
    "subtract": (operator.sub, np.subtract),
    "multiply": (operator.mul, np.multiply),
    "divide": (operator.truediv, np.divide),
    "floor_divide": (operator.floordiv, np.floor_divide),
    "remainder": (operator.mod, np.remainder),
    "pow": (operator.pow, np.power),
    "less": (operator.lt, np.less),
    "less_equal": (operator.le, np.less_equal),
    "greater": (operator.gt, np.greater),
    "greater_equal": (operator.ge, np.greater_equal),
    "equal": (operator.eq, np.equal),
    "not_equal": (operator.ne, np.not_equal),
}


@pytest.mark.parametrize("name", BINARY)
def test_operators_take_arrays_and_numbers_on_either_side(name: str) -> None:
    operate, reference = BINARY[name]
    x, y = draw(2, 3, low=0.5), draw(3, seed=1, low=0.5)
    tensors = (vg.tensor(x), vg.tensor(y))
    expected = reference(x, y)
    results = [operate(tensors[0], tensors[1]), operate(tensors[0], y), operate(x, tensors[1]), getattr(vg, name)(x, y)]
    # A NumPy scalar and a 0-d array are as weak as the Python number.
    for number in (1.5, np.float64(1.5), np.array(1.5)):
        results += [operate(tensors[0], number), operate(number, tensors[0])]
    vg.eval(results)
    for result in results[:4]:
        close(result, expected, cost=4)
    for right, left in zip(results[4::2], results[5::2], strict=True):
        close(right, reference(x, np.float32(1.5)), cost=4)
        close(left, reference(np.float32(1.5), x), cost=4)


def test_an_array_on_the_left_keeps_the_gradient() -> None:
    x = vg.tensor(draw(3), requires_grad=True)
    loss = (draw(3, seed=1) * x).sum()
    assert isinstance(loss, vg.Tensor)
    loss.backward()
    close(x.grad, draw(3, seed=1))


PROMOTIONS = [
    ("int32", "float32", "float32"),
    ("float32", "float64", "float64"),
    ("bool", "int32", "int32"),
    ("bool", "uint32", "uint32"),
    ("bool", "float32", "float32"),
    ("int32", 2, "int32"),
    ("int32", 2.5, "float32"),
    ("bool", 2, "int32"),
    ("bool", True, "bool"),
    ("float32", 2, "float32"),
    ("float32", True, "float32"),
    ("float64", 0.1, "float64"),
]


@pytest.mark.parametrize(("left", "right", "expected"), PROMOTIONS)
@pytest.mark.usefixtures("on_cpu")
def test_promotion(left: str, right: Any, expected: str) -> None:
    x = vg.ones((2,), dtype=left)
    y = vg.ones((2,), dtype=right) if isinstance(right, str) else right
    assert vg.maximum(x, y).dtype.name == expected if expected != "bool" else vg.bitwise_and(x, y).dtype.name == "bool"
    assert vg.where(vg.tensor([True, False]), y, x).dtype.name == expected


def test_promotion_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(DTypeError, match="add: no integer type holds both uint64 and int32"):
        vg.ones((2,), vg.int32) + vg.ones((2,), vg.uint64)
    with pytest.raises(DTypeError, match="no complex numbers: a complex tensor is"):
        vg.ones((2,)) + np.zeros(2, np.complex64)
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(4,\)"):
        vg.ones((2, 3)) + vg.ones((4,))


def test_other_types_are_left_to_python() -> None:
    x = vg.ones((2,))
    assert (x == "word") is False
    with pytest.raises(TypeError):
        x + "word"
    with pytest.raises(TypeError, match="'word' is neither"):
        vg.exp("word")


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.0, np.int64(2)])
def test_simple_powers_need_no_pow(exponent: float) -> None:
    x = draw(4, low=0.5)
    power = vg.tensor(x) ** exponent
    assert "pow" not in {node.op.name for node in _graph(power)}
    close(power, x**exponent, cost=2)


def test_other_powers() -> None:
    x = draw(4, low=0.5)
    assert "pow" in {node.op.name for node in _graph(vg.tensor(x) ** 2.5)}
    close(vg.tensor(x) ** 2.5, x**2.5, cost=2)
    close(2 ** vg.tensor(x), np.float32(2) ** x, cost=2)
    whole = np.array([-2, 0, 3], np.int32)
    close(vg.tensor(whole) ** 3, whole**3)


def _graph(tensor: vg.Tensor) -> list:
    from vkgrad.ir.node import walk

    return walk([tensor.node])


def test_bit_operators() -> None:
    x, y = np.array([12, -7, 5], np.int32), np.array([10, 3, -1], np.int32)
    a, b = vg.tensor(x), vg.tensor(y)
    for result, expected in [
        (a & b, x & y), (a | b, x | y), (a ^ b, x ^ y), (~a, ~x), (a << 2, x << 2), (a >> 1, x >> 1), (6 & a, 6 & x),
        (-a, -x), (abs(a), abs(x)), (+a, x), (1 << vg.tensor([3]), np.array([8])),
    ]:  # fmt: skip
        close(result, expected)
    mask = np.array([True, False])
    close(~vg.tensor(mask) | mask, ~mask | mask)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x).astype(x.dtype)


ACTIVATIONS = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    for layout, array, tensor in layouts(draw(3, 5, high=4, low=-4)):
        expected = ACTIVATIONS[name](array.astype(np.float64)).astype(np.float32)
        close(getattr(vg, name)(tensor), expected, name=layout)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_activations(name: str) -> None:
    vg.testing.check_grads(getattr(vg, name), (vg.tensor(draw(5, dtype=np.float64)),))


@pytest.mark.usefixtures("on_cpu")
def test_gelu_by_tanh_is_near_gelu() -> None:
    x = np.linspace(-4, 4, 33)
    difference = np.abs(vg.gelu(x, approximate="tanh").numpy() - vg.gelu(x).numpy())
    assert 1e-6 < difference.max() < 1e-3
    vg.testing.check_grads(lambda x: vg.gelu(x, "tanh"), (vg.tensor(x),))
    with pytest.raises(OptionError, match="approximate"):
        vg.gelu(x, approximate="sigmoid")  # type: ignore[arg-type]


def test_logaddexp_at_the_edges() -> None:
    inf = math.inf
    x = np.array([0.0, 100.0, -inf, inf, -inf, inf, 1.0], np.float32)
    y = np.array([0.0, -100.0, -inf, inf, 1.0, -inf, math.nan], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(x, y)
    close(vg.logaddexp(x, y), expected)
    close(vg.grad(lambda x: vg.logaddexp(x, 0.0))(0.0), np.float32(0.5))


def test_clip() -> None:
    x = np.array([-2, -1, 0.5, 3, math.nan], np.float32)
    close(vg.clip(x, -1, 1), np.clip(x, -1, 1))
    close(vg.tensor(x).clip(max=0), np.minimum(x, 0))
    close(vg.clip(x, min=np.zeros(5, np.float32)), np.maximum(x, 0))
    close(vg.clip(x), x)
    close(vg.clip(np.array([1, 5], np.int32), 2, 3), np.array([2, 3]))


def test_where_takes_any_condition_and_leaks_no_nan() -> None:
    x = draw(2, 3)
    close(vg.where(np.array([2, 0, -1], np.int32), x, 0.0), np.where([True, False, True], x, 0))
    slope = vg.grad(lambda x: vg.where(x > 0, vg.log(x), x).sum())(vg.tensor([0.0, -1.0, 2.0]))
    close(slope, np.array([1.0, 1.0, 0.5], np.float32))


def test_rounding_leaves_integers_alone() -> None:
    x = np.array([-1.5, 2.5, 0.5], np.float32)
    for name in ("floor", "ceil", "trunc", "round"):
        close(getattr(vg, name)(x), getattr(np, name)(x))
        close(getattr(vg, name)(np.array([3, -2], np.int32)), np.array([3, -2]))


def test_division_by_a_literal_zero() -> None:
    x = np.array([1, -1, 0, math.nan, math.inf], np.float32)
    with np.errstate(all="ignore"):
        close(vg.tensor(x) / 0, x / np.float32(0))
        close(vg.tensor(x) / -0.0, x / np.float32(-0.0))


def test_rounding_to_decimals() -> None:
    x = np.array([1.25, -2.345, 1234.5678, np.inf, np.nan], np.float64)
    with config.override(device="cpu"):
        for decimals in (0, 1, 2, -2):
            np.testing.assert_allclose(vg.round(vg.tensor(x), decimals).numpy(), np.round(x, decimals), rtol=1e-15)
    assert vg.tensor([125.0, -15.0]).round(-1).tolist() == [120.0, -20.0]
    assert vg.round(vg.tensor([7]), 2).tolist() == [7]
    with pytest.raises(OptionError, match="integers are not rounded to 10"):
        vg.round(vg.tensor([7]), -1)


def test_quotient_and_remainder_together() -> None:
    assert [t.tolist() for t in divmod(vg.tensor([7, -7]), 2)] == [[3, -4], [1, 1]]
    assert [t.tolist() for t in divmod(7.5, vg.tensor([2.0, -2.0]))] == [[3.0, -4.0], [1.5, -0.5]]
    with pytest.raises(TypeError):
        divmod(vg.tensor([1]), "2")
