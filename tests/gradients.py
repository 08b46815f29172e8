"""The gradient checker for graphs: rules against central differences of the NumPy meanings, in double precision.

An order above 1 checks the gradient graph in its turn, with respect to the operands and to the cotangents, since a
second derivative runs through both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.reference import evaluate, variable
from vkgrad.autodiff import vjp
from vkgrad.ir.node import Node

# A four-point stencil: its error is h**4 times a fifth derivative, rounding adds 1e-16 / h. Both stay under 1e-9 here,
# so the tolerance has room for steep functions and still sees a rule that is wrong by 1e-3.
STEP = 1e-3
STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
TOLERANCE = 1e-6


def check(function: Callable[..., Node], arrays: Sequence[np.ndarray], order: int = 1, seed: int = 0) -> None:
    """Raise `AssertionError` unless the derivatives of `function` up to `order` are right at `arrays`.

    `function` takes nodes and returns one. Float64 arrays are differentiated; others are given as they are.
    """
    values: dict[Node, np.ndarray] = {}
    operands = [variable(array, values) for array in arrays]
    inputs = [node for node in operands if node.dtype.name == "float64"]
    assert inputs, "nothing to differentiate"
    outputs = [function(*operands)]
    generator = np.random.default_rng(seed)
    for level in range(1, order + 1):
        cotangents = [variable(generator.uniform(0.5, 1.5, node.shape), values) for node in outputs]
        gradients = vjp(outputs, inputs, cotangents)
        _compare(outputs, inputs, cotangents, gradients, values, level)
        inputs = [*inputs, *cotangents]
        outputs = [node for node in gradients if node is not None]


def _compare(
    outputs: Sequence[Node],
    inputs: Sequence[Node],
    cotangents: Sequence[Node],
    gradients: Sequence[Node | None],
    values: dict[Node, np.ndarray],
    level: int,
) -> None:
    weights = [values[node] for node in cotangents]

    def weighted(changed: dict[Node, np.ndarray]) -> float:
        results = evaluate(outputs, {**values, **changed})
        return float(sum(np.sum(w * r) for w, r in zip(weights, results, strict=True)))

    found = iter(evaluate([node for node in gradients if node is not None], values))
    for number, (node, gradient) in enumerate(zip(inputs, gradients, strict=True)):
        rule = np.zeros(node.shape) if gradient is None else next(found)
        assert rule.shape == node.shape, f"order {level}, operand {number}: gradient of shape {rule.shape}"
        base = values[node]
        for place in np.ndindex(*node.shape):
            numeric = 0.0
            for steps, weight in STENCIL:
                moved = np.array(base)
                moved[place] += steps * STEP
                numeric += weight * weighted({node: moved}) / STEP
            off = abs(numeric - rule[place])
            assert off <= TOLERANCE * max(1.0, abs(numeric)), (
                f"order {level}, operand {number} at {place} = {base[place]}: rule {rule[place]}, numeric {numeric}"
            )
