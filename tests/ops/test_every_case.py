"""Every op, in every type it takes, in every direction and however its operands lie in memory, from the record alone.

The cases are those of the record (`op.samples.cases`). On the CPU device's twin each is planned and run for the value,
the reverse mode, the forward mode and the second derivative, with operands that are plain, permuted, flipped,
broadcast, full of ties, and NaN or infinite; cases without elements or axes are among the record's own. Derivatives are
compared with differences in double precision. On a Vulkan device it is every case in every direction, where it ran
included. How many cases of how many ops that are is printed at the end of the run (see tests/conftest.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.planned import planned
from tests.reference import evaluate, variable
from tests.tolerances import differs
from vkgrad import autodiff, engine
from vkgrad.cli import residency
from vkgrad.counters import counting
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DTYPES, DType
from vkgrad.ir.layout import Layout
from vkgrad.ir.node import Node, rebuilt, walk
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, ZERO, Family, Op
from vkgrad.ops.samples import Case
from vkgrad.ops.views import flip, permute

OPERATIONS = residency.subjects()
Values = dict[Node, np.ndarray]

# How an operand gets to be `array`: what is in memory, and the view on it.
Way = tuple[Callable[[np.ndarray], np.ndarray], Callable[[Node, np.ndarray], Node]]
PLAIN: Way = (lambda array: array, lambda leaf, array: leaf)
WAYS: dict[str, Way] = {
    "plain": PLAIN,
    "permuted": (lambda array: array.T, lambda leaf, array: permute(leaf, range(leaf.ndim)[::-1])),
    "flipped": (lambda array: np.flip(array), lambda leaf, array: flip(leaf, range(leaf.ndim))),
    "broadcast": (
        lambda array: array[:1] if _repeats(array) else array,
        lambda leaf, array: b.expand(leaf, array.shape),
    ),
    "ties": PLAIN,
    "special": PLAIN,
}
DRAWN: dict[str, dict[str, bool]] = {
    "broadcast": {"repeated": True}, "ties": {"ties": True}, "special": {"special": True},
}  # fmt: skip


def _repeats(array: np.ndarray) -> bool:
    return bool(
        array.ndim and np.array_equal(array, np.broadcast_to(array[:1], array.shape), equal_nan=array.dtype.kind == "f")
    )


def conditions(case: Case) -> dict[str, Way]:
    """The ways that say something for this case: without elements or axes they are all one."""
    bare = not case.shapes or any(not prod(shape) for shape in case.shapes) or not any(case.shapes)
    return {"empty or 0-d": PLAIN} if bare else WAYS


def directions(
    op: Op, case: Case, dtype: DType, name: str, values: Values, seed: int = 1
) -> Iterator[tuple[str, list[Node]]]:
    """What each direction computes under one condition; the leaves' values are put into `values`."""
    dtypes = op.samples.dtypes(op.arity, dtype)
    laid_out, view = conditions(case)[name]
    operands = []
    for array, own in zip(residency.drawn(op, case, dtype, seed=seed, **DRAWN.get(name, {})), dtypes, strict=True):
        leaf = variable(np.array(laid_out(array), order="C"), values, own)
        operands.append(view(leaf, array))
    output = b.build(op, *operands, **case.attributes)
    yield "value", [output]
    if residency.directions_of(op, dtype) == residency.DIRECTIONS and output.dtype.kind == "f":
        cotangent = _leaf(output, values, 5)
        gradients = residency.reverse(output, operands, cotangent)
        yield "reverse", gradients
        tangents = [_leaf(node, values, 6 + i) for i, node in enumerate(operands) if node.dtype.kind == "f"]
        yield "forward", residency.forward(output, operands, cotangent, tangents)
        weights = [_leaf(node, values, 9 + i) for i, node in enumerate(gradients)]
        floats = [node for node in operands if node.dtype.kind == "f"]
        yield "second order", [node for node in autodiff.vjp(gradients, floats, weights) if node is not None]


def _leaf(like: Node, values: Values, seed: int) -> Node:
    drawn = np.random.default_rng(seed).uniform(0.5, 1.5, like.shape)
    return variable(residency.stored(drawn, like.dtype), values, like.dtype)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_type_direction_and_layout(op: Op, record_property: Callable[[str, Any], None]) -> None:
    count = 0
    for dtype in ANY:
        for case in residency.cases_of(op, dtype):
            values: Values = {}
            what, outputs = [], []
            for name in conditions(case):
                for direction, nodes in directions(op, case, dtype, name, values):
                    what += [(name, direction)] * len(nodes)
                    outputs += nodes
                    count += 1
            with np.errstate(all="ignore"):
                expected = evaluate(outputs, values)
            for (name, direction), node, one, other in zip(
                what, outputs, planned(outputs, values), expected, strict=True
            ):
                off = differs(one, other, node.dtype)
                assert not off, f"{op.name} {dtype.name} {case} {name} {direction}: {off}"
    record_property("cases of ops", count)
    assert count


DIFFERENTIABLE = [op for op in OPERATIONS if op.arity and op.grad not in (ZERO, NOT_DIFFERENTIABLE)]
STEP = 1e-4
STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
FLOAT64 = DTYPES["float64"]


def slope(
    nodes: Sequence[Node], weights: Sequence[np.ndarray], values: Values, moves: Mapping[Node, np.ndarray]
) -> float:
    """The derivative of the weighted sum of `nodes` where the leaves of `moves` move that way, by differences."""
    total = 0.0
    for steps, weight in STENCIL:
        moved = {leaf: values[leaf] + steps * STEP * way for leaf, way in moves.items()}
        results = evaluate(nodes, {**values, **moved})
        total += weight * float(sum(np.sum(w * r) for w, r in zip(weights, results, strict=True))) / STEP
    return total


def check_directions(op: Op, case: Case) -> None:
    """Raise `AssertionError` unless reverse, forward and second derivatives agree with differences along a direction.

    A direction keeps the symmetry of its operand: an op may look at one triangle of a symmetric matrix only.
    """
    values: Values = {}
    operands = [variable(x, values) for x in residency.drawn(op, case, FLOAT64)]
    output = b.build(op, *operands, **case.attributes)
    floats = [node for node in operands if node.dtype.kind == "f"]
    ways = {}
    for number, node in enumerate(floats):
        way, x = np.random.default_rng(number).uniform(0.5, 1.5, node.shape), values[node]
        symmetric = x.ndim > 1 and x.shape[-1] == x.shape[-2] and np.array_equal(x, x.swapaxes(-1, -2))
        ways[node] = way + way.swapaxes(-1, -2) if symmetric else way
    cotangent = _leaf(output, values, 5)
    tangents = [variable(ways[node], values) for node in floats]
    gradients = autodiff.vjp([output], floats, [cotangent])
    known = [g for g in gradients if g is not None]
    weights = [_leaf(node, values, 9) for node in known]
    seconds = autodiff.vjp(known, floats, weights)

    def along(parts: Sequence[Node | None]) -> float:
        found = iter(evaluate([part for part in parts if part is not None], values))
        return float(
            sum(np.sum(next(found) * ways[x]) for x, part in zip(floats, parts, strict=True) if part is not None)
        )

    expected = slope([output], [values[cotangent]], values, ways)
    _near(along(gradients), expected, f"{op.name} {case} reverse")
    pushed = evaluate(residency.forward(output, operands, cotangent, tangents), values)
    _near(float(sum(np.sum(values[cotangent] * x) for x in pushed)), expected, f"{op.name} {case} forward")
    expected = slope(known, [values[w] for w in weights], values, ways) if known else 0.0
    _near(along(seconds), expected, f"{op.name} {case} second order")


def _near(found: float, expected: float, what: str) -> None:
    assert abs(found - expected) <= 1e-6 * max(1.0, abs(expected)), f"{what}: rule {found}, differences {expected}"


def _sized(op: Op) -> list[Case]:
    return [case for case in residency.cases_of(op, FLOAT64) if all(map(prod, case.shapes))
            and op.dtype(op.samples.dtypes(op.arity, FLOAT64), **case.attributes) is FLOAT64]  # fmt: skip


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_derivatives_by_differences(op: Op, record_property: Callable[[str, Any], None]) -> None:
    for case in _sized(op):
        check_directions(op, case)
    record_property("cases of ops", 3 * len(_sized(op)))


def emitted(op: Op, case: Case, dtype: DType, values: Values) -> list[Node]:
    """Every node that the rules make for the first and the second derivative of a case, and what it is made of."""
    made = [node for _, nodes in directions(op, case, dtype, next(iter(conditions(case))), values) for node in nodes]
    return [node for node in walk(made) if node.op.family is not Family.LEAF]


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_primitives_at_the_shapes_that_gradients_emit(op: Op, record_property: Callable[[str, Any], None]) -> None:
    """Each node of a derivative is a primitive, and right by itself: nothing is fused, and every value is looked at."""
    count = 0
    for case in residency.cases_of(op, FLOAT64):
        values: Values = {}
        nodes = emitted(op, case, FLOAT64, values)
        assert all(OPS[node.op.name] is node.op for node in nodes)
        for node, found, wanted in zip(nodes, planned(nodes, values, fuse=False), evaluate(nodes, values), strict=True):
            off = differs(found, wanted, node.dtype)
            assert not off, f"{op.name} {case}: {node}: {off}"
        count += len(nodes)
    record_property("cases of ops", count)


@pytest.mark.parametrize("name", ["exp", "sum", "gather", "scan", "contract", "window", "cholesky"])
def test_a_rule_off_by_a_thousandth_fails(name: str) -> None:
    """The null arm of the differences, in every family."""
    op = OPS[name]
    rule: Any = op.grad
    wrong = lambda *given, **also: tuple(x * 1.001 if isinstance(x, Node) else x for x in rule(*given, **also))  # noqa: E731
    object.__setattr__(op, "grad", wrong)
    autodiff._programs.clear()
    try:
        with pytest.raises(AssertionError, match="reverse"):
            check_directions(op, _sized(op)[0])
    finally:
        object.__setattr__(op, "grad", rule)
        autodiff._programs.clear()


def test_a_wrong_view_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arm of the layouts: a scheduler that takes a flipped operand for a plain one."""
    right: Any = OPS["slice"].layout

    def wrong(layout: Layout, *, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Layout:
        return right(layout, starts=[0] * len(starts), extents=extents, steps=[1] * len(steps))

    object.__setattr__(OPS["slice"], "layout", wrong)
    try:
        with pytest.raises(AssertionError, match="flipped"):
            test_every_type_direction_and_layout(OPS["exp"], lambda *_: None)
    finally:
        object.__setattr__(OPS["slice"], "layout", right)


def test_every_op_has_cases_without_elements_and_without_axes() -> None:
    """Unless it needs an axis; `constant` has no elements to lack."""
    for op in OPERATIONS:
        shapes = [(*case.shapes, op.shape(case.shapes, **case.attributes)) for case in op.samples.cases]
        empty = any(not prod(shape) for given in shapes for shape in given)
        assert empty or op.name in ("constant", "segments"), f"{op.name} has no case without elements"
        bare = any(() in given for given in shapes)
        needs_axes = op.family is Family.ROUTINE or op.name in ("window", "diagonal", "iota")
        assert bare or needs_axes, f"{op.name} has no case without axes"


# ---- on the device
@pytest.mark.device
@pytest.mark.parametrize("op", [op for op in DIFFERENTIABLE if op.name not in ("svd", "eigh")], ids=lambda op: op.name)
def test_primitives_at_those_shapes_on_the_device(op: Op, record_property: Callable[[str, Any], None]) -> None:
    """The same on the device, in single precision."""
    dtype, count = DTYPES["float32"], 0
    for case in residency.cases_here(op, dtype):
        values: Values = {}
        put: dict[Node, Node] = {}
        nodes = emitted(op, case, dtype, values)
        for node in walk(nodes):
            own = tuple(put[source] for source in node.inputs)
            put[node] = engine.put(values[node], node.dtype) if node in values else rebuilt(node, own)
        engine.evaluate([put[node] for node in nodes])
        with np.errstate(all="ignore"):
            expected = evaluate(nodes, values)
        for node, wanted in zip(nodes, expected, strict=True):
            off = differs(engine.read_value(put[node]), wanted, node.dtype)
            assert not off, f"{op.name} {case}: {node}: {off}"
        count += len(nodes)
    record_property("cases of ops", count)


# Of v and -v, either is a singular or eigenvector, and derivatives have its sign: tests/test_linalg.py checks those.
EITHER_SIGN = ("svd", "eigh")


@pytest.mark.device
@pytest.mark.swiftshader
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_on_the_device(op: Op, record_property: Callable[[str, Any], None]) -> None:
    """Every case in every direction: what it gives, that nothing of it ran on the host, and that the register knows."""
    if engine.device().kind == "cpu":
        pytest.skip("the cpu device is the host")
    entered = residency.registered()
    count = 0
    for dtype in residency.offered():
        outputs: list[Node] = []
        for case in residency.cases_here(op, dtype):
            for direction, nodes in residency.graphs(op, case, dtype).items():
                assert (op.name, dtype.name, direction) in entered
                outputs += nodes
                count += 1
            if any(case.shapes):
                special = residency.drawn(op, case, dtype, special=True)
                dtypes = op.samples.dtypes(op.arity, dtype)
                operands = [
                    WAYS["permuted"][1](engine.put(np.array(x.T, order="C"), own), x)
                    for x, own in zip(special, dtypes, strict=True)
                ]
                outputs.append(b.build(op, *operands, **case.attributes))
                count += 1
        with counting() as census:
            engine.evaluate(outputs)
        assert census.host_nodes == 0
        leaves = {node for node in walk(outputs) if node.op.family is Family.LEAF}
        expected = evaluate(outputs, {leaf: engine.read_value(leaf) for leaf in leaves})
        for node, wanted in zip(outputs, expected, strict=True):
            found = engine.read_value(node)
            if op.name in EITHER_SIGN:
                if node.op is not op:
                    continue
                found, wanted = np.abs(found), np.abs(wanted)
            off = differs(found, wanted, node.dtype)
            assert not off, f"{op.name} {dtype.name} {node}: {off}"
    record_property("cases of ops", count)
