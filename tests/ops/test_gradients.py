"""Every op's gradient rule against differences of its own meaning, to second order; kinks, ties and NaN as built.

The element-wise cases are derived from the records. A rule that is off by a thousandth fails for every op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest

import vkgrad.ops  # noqa: F401  fills OPS
from tests.gradients import check
from tests.reference import evaluate, variable
from vkgrad import autodiff
from vkgrad.autodiff import vjp
from vkgrad.cli import residency
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DTYPES, dtype_of
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op
from vkgrad.ops import factorisations
from vkgrad.ops.contraction import contract
from vkgrad.ops.fourier import dft
from vkgrad.ops.indexed import along, gather, scatter
from vkgrad.ops.scans import linear_scan, scan
from vkgrad.ops.views import after, alias, diagonal, flip, pad, permute, slice_, window

# ---- how an operand of shape (2, 3) may come about: (shape of the leaf, the views on it)
VIEWS: dict[str, tuple[tuple[int, ...], Callable[[Node], Node]]] = {
    "plain": ((2, 3), lambda x: x),
    "permuted": ((3, 2), lambda x: permute(x, (1, 0))),
    "sliced": ((3, 5), lambda x: slice_(x, (1, 0), (2, 3), (1, 2))),
    "flipped": ((2, 3), lambda x: flip(x, (0, 1))),
    "broadcast": ((3,), lambda x: b.expand(x, (2, 3))),
    "reshaped": ((6,), lambda x: b.reshape(x, (2, 3))),
}
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {"polygamma": [{"order": 1}, {"order": 2}]}


def _differentiable(op: Op) -> bool:
    # stop_gradient is the one op whose rule is not its derivative, on purpose.
    return op.grad is not NOT_DIFFERENTIABLE and op.name != "stop_gradient" and bool(op.arity)


def _takes_float64(op: Op) -> bool:
    attributes = {"type": "float64"} if op.name == "cast" else ATTRIBUTES.get(op.name, [{}])[0]
    dtypes = [DTYPES["bool"], *[DTYPES["float64"]] * 2] if op.name == "where" else [DTYPES["float64"]] * op.arity
    return op.dtype(dtypes, **attributes).name == "float64"


# `cast` has a test of its own: in single precision, differences say nothing.
ELEMENTWISE = [
    op for op in OPS.values() if op.family is Family.ELEMENTWISE and _differentiable(op) and op.name != "cast"
]


def draw(op: Op, operand: int, shape: Sequence[int], seed: int) -> np.ndarray:
    dtype = np.dtype(bool if op.name == "where" and operand == 0 else "float64")
    return np.asarray(op.samples.draw(shape, dtype, seed, operand))


@dataclass
class Case:
    function: Callable[..., Node]
    arrays: list[np.ndarray]


def elementwise_cases(op: Op, views: Sequence[str], seed: int = 1) -> Iterator[Case]:
    """One case for each set of attributes; operand i comes about by views[i], cyclically."""
    for attributes in ATTRIBUTES.get(op.name, [{}]):
        ways = [VIEWS[views[i % len(views)]] for i in range(op.arity)]

        def function(*leaves: Node, ways: Any = ways, attributes: Any = attributes) -> Node:
            return b.build(op, *(way(leaf) for (_, way), leaf in zip(ways, leaves, strict=True)), **attributes)

        yield Case(function, [draw(op, i, shape, seed) for i, (shape, _) in enumerate(ways)])


def _distinct(*shape: int) -> np.ndarray:
    """Values far enough apart that no step makes a tie."""
    return np.random.default_rng(3).permutation(int(np.prod(shape))).reshape(shape) * 0.3 - 1.0


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(-1.5, 1.5, shape)


def _case(function: Callable[..., Node], *arrays: np.ndarray) -> Case:
    return Case(function, list(arrays))


_ROWS = np.array([[2, 0], [0, 3]], np.int32)  # with a duplicate, and one out of range for extent 3

_SENT = np.array([2, 0, 0, 2, 5, 1, -1, 0, 2, 1, 0, 1], np.int32)


def _sent(values: Node, index: Node, extent: int, join: str) -> Node:
    return b.build("scatter", values, index, extent=extent, join=join, chunk=0)


OTHERS: dict[str, list[Case]] = {
    "reshape": [_case(lambda x: b.reshape(x, (3, 2)), _random(2, 3))],
    "permute": [_case(lambda x: permute(x, (2, 0, 1)), _random(2, 3, 2))],
    "expand": [
        _case(lambda x: b.expand(x, (3, 2, 2)), _random(2, 1)),
        _case(lambda x: b.expand(x, (2, 3)), _random()),
    ],
    "slice": [
        _case(lambda x: slice_(x, (1, 4), (2, 2), (2, -3)), _random(4, 5)),
        _case(lambda x: slice_(x, (0, 1), (0, 2), (1, 1)), _random(2, 3)),
    ],
    "pad": [
        _case(lambda x: pad(x, (1, 0), (0, 2), (0, 1), value=2.0), _random(2, 3)),
        _case(lambda x: pad(x, (1, 1), (0, 1)), _random(0, 2)),
    ],
    "window": [
        _case(lambda x: window(x, 0, 3, 2, 1), _random(6, 2)),
        _case(lambda x: window(x, 1, 2, 1, 2), _random(2, 5)),
        _case(lambda x: window(window(x, 0, 2), 1, 2), _random(3, 3)),
    ],
    "diagonal": [
        _case(lambda x: diagonal(x, 0, 1), _random(3, 3)),
        _case(lambda x: diagonal(x, 2, 0), _random(2, 3, 2)),
    ],
    "after": [_case(after, _random(2, 2), _random(3))],
    "alias": [_case(alias, _random(2, 2))],
    "sum": [_case(lambda x: b.build("sum", x, axes=(0, 2)), _random(2, 2, 2))],
    "prod": [
        _case(lambda x: b.build("prod", x, axes=(1,)), np.array([[0.5, -1.2, 2.0], [0.0, 1.5, -0.7], [0.0, 1.1, 0.0]])),
        _case(lambda x: b.build("prod", x, axes=(0, 2)), _random(2, 2, 2)),
        _case(lambda x: b.build("prod", x, axes=(0,)), _random(0, 2)),
    ],
    "max": [_case(lambda x, t=t: b.build("max", x, axes=(1,), ties=t), _distinct(2, 4)) for t in ("share", "first")],
    "min": [
        _case(lambda x, t=t: b.build("min", x, axes=(0, 2), ties=t), _distinct(2, 2, 2)) for t in ("share", "first")
    ],
    "contract": [
        _case(lambda x, y: contract(x, y, (0, 1), (1, 2), (0, 2)), _random(2, 3), _random(3, 2)),
        _case(lambda x, y: contract(x, y, (1, 0, 3), (2, 1, 0), (3, 0, 2)), _random(2, 2, 2), _random(1, 2, 2)),
        _case(lambda x, y: contract(x, y, (0,), (0,), ()), _random(3), _random(3)),
        _case(lambda x: contract(x, x, (0, 1), (2, 1), (0, 2)), _random(2, 2)),
    ],
    "gather": [
        _case(lambda x, i: gather(x, i, 1), _random(2, 3, 2), np.clip(_ROWS, 0, 2)),
        _case(along, _random(2, 3), np.array([[2, 0, 2, 1], [0, 0, 1, 0]], np.int32)),
        _case(lambda x, i: along(x, i, permutes=True), _random(2, 3), np.array([[2, 0, 1], [0, 2, 1]], np.int32)),
    ],
    "scan": [
        *(_case(lambda x, r=r: scan(x, "prod", r), np.array([[0.5, 0, 2, -1.1], [0, 1.5, 0, 0.7]])) for r in (0, 1)),
        *(
            _case(lambda x, r=r, j=j: scan(x, j, r, r - 1), _distinct(2, 3))
            for r in (0, 1)
            for j in ("sum", "max", "min")
        ),
    ],
    "linear_scan": [
        _case(lambda a, x, r=r: linear_scan(a, x, bool(r), r - 1), _random(2, 3), _random(2, 3) - 0.1) for r in (0, 1)
    ],
    "dft": [
        *(_case(lambda x, i=i: dft(x, i), _random(2, 3, 2)) for i in (False, True)),
        _case(lambda x: dft(x, real=True), _random(2, 4)),
    ],
    "scatter": [
        *(_case(lambda x, i, j=j: _sent(x, i, 3, j), _distinct(12, 2), _SENT) for j in ("sum", "prod", "max", "min")),
        _case(lambda x, i: scatter(x, i, 3), _random(2, 2, 1), np.array([[2, 0], [0, 3]], np.int32)),
        _case(lambda x, i: _sent(x, i, 3, "prod"), _distinct(12, 1) * (np.arange(12) % 3 > 0)[:, None], _SENT),
    ],
}
_SQUARE = np.array([[2.0, 0.3, -0.5], [0.3, 1.5, 0.2], [-0.5, 0.2, 1.0]])


def _even(x: Node) -> Node:
    return x + permute(x, (1, 0))


OTHERS |= {
    "cholesky": [_case(lambda x: factorisations.cholesky(_even(x)), _SQUARE)],
    "substitute": [
        _case(lambda a, y, lo=lo, u=u: factorisations.substitute(a, y, lower=lo, unit=u), _SQUARE, _random(3, 2))
        for lo in (True, False)
        for u in (True, False)
    ],
    "lu": [
        _case(factorisations.lu, _SQUARE + np.array([[0, 0, 0], [3, 0, 0], [0, 1, 0.0]])),
        _case(factorisations.lu, np.array([[0.2, 1.1], [-0.7, 0.4], [1.9, 0.3], [0.5, 1.4]])),
    ],
    "qr": [_case(factorisations.qr, _SQUARE), _case(factorisations.qr, _random(4, 2))],
    "svd": [_case(lambda x: factorisations.svd_parts(factorisations.svd(x))[1], _random(4, 3))],
    "eigh": [_case(lambda x: factorisations.eigh_parts(factorisations.eigh(_even(x)))[0], _SQUARE)],
}


def _of_the_record(op: Op) -> Iterator[Case]:
    for record in residency.cases_of(op, DTYPES["float64"]):
        if all(map(prod, record.shapes)):
            built = lambda *x, attributes=record.attributes: b.build(op, *x, **attributes)  # noqa: E731
            yield _case(built, *residency.drawn(op, record, DTYPES["float64"]))


_RECURRENT = ("recurrent", "rnn_adjoint", "gru_adjoint", "lstm_adjoint")
OTHERS |= {name: list(_of_the_record(OPS[name]))[::2] for name in _RECURRENT}  # the others are longer
OTHER_OPS = [op for op in OPS.values() if op.family is not Family.ELEMENTWISE and _differentiable(op)]


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_elementwise_to_second_order(op: Op) -> None:
    for views in [("plain", "permuted", "flipped"), ("sliced", "broadcast"), ("flipped", "reshaped", "sliced")]:
        for case in elementwise_cases(op, views):
            check(case.function, case.arrays, order=2 if "permuted" in views else 1)


@pytest.mark.parametrize("shape", [(), (0, 3)], ids=["0-d", "empty"])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_elementwise_without_axes_or_elements(op: Op, shape: tuple[int, ...]) -> None:
    attributes = ATTRIBUTES.get(op.name, [{}])[0]
    check(lambda *x: b.build(op, *x, **attributes), [draw(op, i, shape, 5) for i in range(op.arity)], order=2)


@pytest.mark.parametrize("op", OTHER_OPS, ids=lambda op: op.name)
def test_other_families_to_second_order(op: Op) -> None:
    for case in OTHERS[op.name]:
        check(case.function, case.arrays, order=2)


@contextmanager
def replaced_rule(op: Op, rule: Callable) -> Iterator[None]:
    kept = op.grad
    object.__setattr__(op, "grad", rule)
    autodiff._programs.clear()  # rules do not change, so what they built is remembered
    try:
        yield
    finally:
        object.__setattr__(op, "grad", kept)
        autodiff._programs.clear()


@pytest.mark.parametrize("op", ELEMENTWISE + OTHER_OPS, ids=lambda op: op.name)
def test_a_rule_off_by_a_thousandth_fails(op: Op) -> None:
    """The null arm: the checks above see an error of 1e-3 in any rule."""
    if op.grad is ZERO:
        scaled = lambda g, *_, **__: (g * 0.001,) * op.arity  # noqa: E731
    else:

        def scaled(*arguments: Any, **attributes: Any) -> tuple:
            parts = rule(*arguments, **attributes)
            return tuple(part * 1.001 if isinstance(part, Node) else part for part in parts)

        rule: Any = op.grad
    case = next(elementwise_cases(op, ["plain"])) if op.family is Family.ELEMENTWISE else OTHERS[op.name][0]
    check(case.function, case.arrays)
    with replaced_rule(op, scaled), pytest.raises(AssertionError, match="rule"):
        check(case.function, case.arrays)


def test_a_wrong_second_derivative_fails() -> None:
    """Right to first order is not enough: sin with the derivative of cos off by a thousandth."""
    case = next(elementwise_cases(OPS["sin"], ["plain"]))
    wrong = lambda g, out, x: (g * b.apply("sin", x) * -1.001,)  # noqa: E731
    with replaced_rule(OPS["cos"], wrong):
        check(case.function, case.arrays, order=1)
        with pytest.raises(AssertionError, match="order 2"):
            check(case.function, case.arrays, order=2)


# ---- by construction
def gradients(function: Callable[..., Node], *arrays: Any, order: int = 1) -> list[np.ndarray]:
    """The gradients of the sum of `function` (of the sum of its gradients, for order 2)."""
    values: dict[Node, np.ndarray] = {}
    leaves = [variable(np.asarray(array), values) for array in arrays]
    inputs = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    outputs = [function(*leaves)]
    for _ in range(order):
        found = vjp(outputs, inputs, [b.constant(1, node.dtype, node.shape) for node in outputs])
        outputs = [g if g is not None else b.constant(0, x.dtype, x.shape) for g, x in zip(found, inputs, strict=True)]
    return evaluate(outputs, values)


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("relu", [[-1.0, 0.0, -0.0, 2.0]], [[0, 0, 0, 1]]),
        ("abs", [[-1.0, 0.0, -0.0, 2.0]], [[-1, 0, 0, 1]]),
        ("maximum", [[1.0, 2.0, 0.0], [1.0, 1.0, -0.0]], [[0.5, 1, 0.5], [0.5, 0, 0.5]]),
        ("minimum", [[1.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [[0.5, 0, 1], [0.5, 1, 0]]),
        # x**0 is constant; 0**y is constant for y > 0
        (
            "pow",
            [[0.0, 0.0, 0.0, 2.0, -2.0], [0.0, 1.0, 2.0, 0.0, 3.0]],
            [[0, 1, 0, 0, 12], [0, 0, 0, np.log(2), np.nan]],
        ),
        ("multiply_no_nan", [[np.inf, 3.0], [0.0, 2.0]], [[0, 2], [np.inf, 3]]),
        ("sqrt", [[0.0, 4.0]], [[np.inf, 0.25]]),
    ],
)
def test_kinks_and_ties(name: str, operands: list, expected: list) -> None:
    found = gradients(lambda *x: b.apply(name, *x), *map(np.array, operands))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("ties", "expected"), [("share", [[0, 0.5, 0.5], [1, 0, 0]]), ("first", [[0, 1, 0], [1, 0, 0]])]
)
@pytest.mark.parametrize(("name", "sign"), [("max", 1), ("min", -1)])
def test_ties_along_an_axis(name: str, sign: int, ties: str, expected: list) -> None:
    x = sign * np.array([[1.0, 5.0, 5.0], [2.0, 1.0, 0.0]])
    (found,) = gradients(lambda x: b.build(name, x, axes=(1,), ties=ties), x)
    np.testing.assert_array_equal(found, expected)


def test_first_tie_is_first_in_row_major_order_over_several_axes() -> None:
    x = np.zeros((2, 2, 2))
    (found,) = gradients(lambda x: b.build("max", x, axes=(0, 2), ties="first"), x)
    np.testing.assert_array_equal(found, [[[1, 0], [1, 0]], [[0, 0], [0, 0]]])


def test_duplicate_and_outside_indices() -> None:
    (found,) = gradients(lambda x, i: gather(x, i, 0), np.ones(3), _ROWS)
    np.testing.assert_array_equal(found, [2, 0, 1])


@pytest.mark.parametrize(("source", "target"), [("float32", "float64"), ("float64", "float32")])
def test_cast_casts_back(source: str, target: str) -> None:
    (found,) = gradients(lambda x: b.cast(x, dtype_of(target)), np.ones(2, source))
    assert found.dtype == source
    np.testing.assert_array_equal(found, [1, 1])


def test_stop_gradient() -> None:
    (found,) = gradients(lambda x: b.build("stop_gradient", x) * x, np.array([3.0]))
    np.testing.assert_array_equal(found, [3])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if op.name != "where"], ids=lambda op: op.name)
def test_the_branch_not_taken_sends_back_zero(op: Op, dtype: str, order: int) -> None:
    """`where(mask, f(x), 0)` has gradient 0 where the mask does not hold, whatever f and its derivatives are there."""
    edges = np.array([*op.samples.edges, np.inf, -np.inf, np.nan], dtype)
    grid = [part.ravel() for part in np.meshgrid(*[edges] * op.arity)]

    def masked(mask: Node, *operands: Node) -> Node:
        return b.apply("where", mask, b.build(op, *operands, **ATTRIBUTES.get(op.name, [{}])[0]), 0)

    for found in gradients(masked, np.zeros(grid[0].shape, bool), *grid, order=order):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.zeros_like(found))


# These add up products of whole rows: one NaN in a row is in all sums, whatever it is multiplied by.
_SUMS_OF_PRODUCTS = {"contract", "cholesky", "substitute", "lu", "qr", "svd", "eigh", *_RECURRENT}


@pytest.mark.parametrize("op", [op for op in OTHER_OPS if op.name not in _SUMS_OF_PRODUCTS], ids=lambda op: op.name)
def test_no_gradient_comes_from_none(op: Op) -> None:
    """Of every family, and with infinities and NaN among the operands: where nothing is sent back, 0 arrives."""
    generator = np.random.default_rng(2)
    for case in OTHERS[op.name]:
        for _ in range(4):
            arrays = [
                np.where(generator.random(x.shape) < 0.5, generator.choice([0, np.inf, -np.inf, np.nan], x.shape), x)
                if x.dtype.kind == "f" else x
                for x in case.arrays
            ]  # fmt: skip
            for order in (1, 2):
                hidden = lambda *x, f=case.function: b.apply("where", np.False_, f(*x), 0)  # noqa: E731
                for found in gradients(hidden, *arrays, order=order):
                    np.testing.assert_array_equal(found, np.zeros_like(found))


def test_without_the_guard_nan_leaks() -> None:
    """The null arm of the test above."""
    plain = lambda g, out, x: (g * (0.5 / out),)  # noqa: E731
    with replaced_rule(OPS["sqrt"], plain), pytest.raises(AssertionError):
        test_the_branch_not_taken_sends_back_zero(OPS["sqrt"], "float64", 1)


def test_second_derivative_survives_where_g_is_zero() -> None:
    """(sqrt(x) - 2)**2 at x = 4: g is 0 there, and the second derivative is 2 (1 / (2 sqrt x))**2 = 1/8 even so."""
    (found,) = gradients(lambda x: b.apply("square", b.apply("sqrt", x) - 2), np.array([4.0]), order=2)
    np.testing.assert_allclose(found, [0.125], rtol=1e-14)


def test_every_differentiable_op_is_covered() -> None:
    assert all(_takes_float64(op) for op in ELEMENTWISE)
    assert {op.name for op in OTHER_OPS} == set(OTHERS)
