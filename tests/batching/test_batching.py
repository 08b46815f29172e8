"""Every op's batching rule against a loop over the examples: values, gradients, and each set of mapped operands.

The cases are those of the gradient tests, so an op that is registered without any is seen there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
import pytest

from tests.ops.test_gradients import ELEMENTWISE, OTHER_OPS, OTHERS, Case, elementwise_cases
from tests.reference import evaluate, variable
from vkgrad import autodiff, batching
from vkgrad.batching import batch
from vkgrad.cli import residency
from vkgrad.errors import ShapeError, UnsupportedError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import ANY, DTYPES, dtype_of
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, OPS, Family, Op
from vkgrad.ops.indexed import gather
from vkgrad.ops.samples import Case as Record
from vkgrad.ops.sources import leaf

EXAMPLES = 3


def _variations(array: np.ndarray) -> np.ndarray:
    """`array` and others like it, in one array with a leading axis: its rows rolled,
    so that each is in the op's range, and a permutation stays one."""
    return np.stack([np.roll(array, n, axis=-1) if array.ndim else array for n in range(EXAMPLES)])


def _outputs(case: Case, leaves: Sequence[Node]) -> list[Node]:
    """The case's value and, where it has one, its gradient with respect to each operand."""
    value = case.function(*leaves)
    floats = [x for x in leaves if x.dtype.kind == "f"]
    if value.dtype.kind != "f" or not floats or value.op.grad is NOT_DIFFERENTIABLE:
        return [value]
    weight = b.expand(b.constant(0.75, value.dtype), value.shape)
    return [value, *(g for g in autodiff.vjp([value], floats, [weight]) if g is not None)]


def check(case: Case, mapped: Sequence[bool]) -> None:
    """Raise `AssertionError` where the batched graph gives anything else than one example after the other."""
    whole = [_variations(x) if m else x for x, m in zip(case.arrays, mapped, strict=True)]
    values: dict[Node, np.ndarray] = {}
    examples: dict[Node, Node] = {}
    leaves: list[Node] = []
    for array, is_mapped in zip(whole, mapped, strict=True):
        if is_mapped:
            leaves.append(leaf(array.shape[1:], dtype_of(array.dtype)))
            examples[leaves[-1]] = variable(array, values)
        else:
            leaves.append(variable(array, values))
    outputs = _outputs(case, leaves)
    with np.errstate(all="ignore"):
        for output, every in zip(outputs, batch(outputs, examples, EXAMPLES), strict=True):
            alone = []
            for number in range(EXAMPLES):
                slices = {x: whole[i][number] if mapped[i] else whole[i] for i, x in enumerate(leaves)}
                alone.append(evaluate([output], slices)[0])
            (found,) = evaluate([b.expand(output, (EXAMPLES, *output.shape)) if every is None else every], values)
            np.testing.assert_allclose(found, np.stack(alone), rtol=1e-12, atol=1e-12)


def _choices(case: Case) -> Iterator[tuple[bool, ...]]:
    count = len(case.arrays)
    every = (choice for choice in product((True, False), repeat=count) if any(choice))
    return (choice for choice in every if count < 6 or sum(choice) in (1, count - 1, count))


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_elementwise(op: Op) -> None:
    for case in elementwise_cases(op, ("sliced", "broadcast", "permuted")):
        for mapped in _choices(case):
            check(case, mapped)


@pytest.mark.parametrize("op", OTHER_OPS, ids=lambda op: op.name)
def test_other_families(op: Op) -> None:
    for case in OTHERS[op.name]:
        if all(array.size for array in case.arrays):
            for mapped in _choices(case):
                check(case, mapped)


# Steps of another op's passes, which are taken after its batch is known.
UNBATCHED = {
    "segments", "digit_counts", "digit_move", "dft_stage", "scan_totals", "scan_from", "linear_scan_totals",
    "linear_scan_from",
}  # fmt: skip


@pytest.mark.parametrize("op", [op for op in residency.subjects() if op.arity], ids=lambda op: op.name)
def test_every_case_of_the_record(op: Op) -> None:
    """With all operands mapped, and only the first."""
    dtype = next(d for d in (DTYPES["float64"], *ANY) if residency.cases_of(op, d))
    for record in residency.cases_of(op, dtype):
        if not all(map(prod, record.shapes)):
            continue

        def function(*nodes: Node, record: Record = record) -> Node:
            return b.build(op, *nodes, **record.attributes)

        case = Case(function, residency.drawn(op, record, dtype))
        for mapped in {(True,) * op.arity, (True, *(False,) * (op.arity - 1))}:
            if op.name in UNBATCHED:
                with pytest.raises(UnsupportedError, match=rf"vmap: {op.name}"):
                    check(case, mapped)
            else:
                check(case, mapped)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("mapped", [(True, True), (True, False), (False, True)], ids=["both", "x", "index"])
def test_lookups_out_of_range_do_not_read_a_neighbour(axis: int, rank: int, mapped: tuple[bool, bool]) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    index = np.array([[-1, 0, 1, 2, 3, 5]], np.int32)[:, : x.shape[axis] + 2]
    shaped = {0: index[0, -1], 1: index[0], 2: index}[rank]
    check(Case(lambda x, i: gather(x, i, axis), [x, np.asarray(shaped)]), mapped)


def test_a_rule_that_forgets_the_new_axis_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: int) -> Node:
        return b.build(node.op, inputs[0], **node.attributes)

    monkeypatch.setitem(batching._FAMILIES, Family.REDUCTION, forgetful)
    with pytest.raises((AssertionError, ShapeError)):
        check(OTHERS["sum"][0], (True,))


def test_an_op_without_a_rule_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(batching._VIEWS, "window")
    x = leaf((4,), dtype_of("float64"))
    with pytest.raises(UnsupportedError, match="vmap: window has no batching rule"):
        batch([b.build("window", x, axis=0, size=2, stride=1, dilation=1)], {x: leaf((2, 4), x.dtype)}, 2)


def test_every_view_has_a_rule() -> None:
    assert {op.name for op in OPS.values() if op.family is Family.VIEW} == set(batching._VIEWS)
