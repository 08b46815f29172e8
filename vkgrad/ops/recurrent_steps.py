"""What one step of a recurrent layer is, as nodes: its new state, and its derivative as a linear map.

The derivative is stated by *coefficients*: of each state's gradient, how much goes into each gate (and so through the
weights into the step before), and how much goes on without. With them the gradients of all steps are a linear
recurrence, whose own derivative is the same, transposed. Here are the pieces of both; loops and kernels are in
`vkgrad.ops.recurrences`.

Shapes: a state is a list of nodes (..., B, H); weights are (..., H, G H), whose columns are the gates in PyTorch's
order. What holds for all steps at once has an axis T before B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.joining import join
from vkgrad.ops.views import slice_

Nodes = Sequence[Node]


@dataclass(frozen=True)
class Cell:
    """A kind of cell.

    gates, states   how many parts its weights and its state have
    step            (gates of the input, gates of the state, state) -> the new state
    coefficients    (gates of the input, gates of the state, state before, state) -> what the adjoint multiplies by,
                    and of the gates of the input, where these differ, the coefficients that it does not need
    """

    gates: int
    states: int
    step: Callable[[Nodes, Nodes, Nodes], list[Node]]
    coefficients: Callable[[Nodes, Nodes, Nodes, Nodes], tuple[list[Node], list[Node]]]


def _of(name: str) -> Callable[[Node], Node]:
    return lambda x: b.apply(name, x)


sigmoid, tanh, relu = map(_of, ("sigmoid", "tanh", "relu"))


def _plain(activation: Callable[[Node], Node]) -> Callable[[Nodes, Nodes, Nodes], list[Node]]:
    return lambda z, own, state: [activation(z[0] + own[0])]


def _slope_of_relu(z: Nodes, own: Nodes, before: Nodes, after: Nodes) -> tuple[list[Node], list[Node]]:
    y = after[0]
    return [b.apply("where", b.apply("greater", y, 0.0), b.constant(1.0, y.dtype, y.shape), 0.0)], []


def _lstm(z: Nodes, own: Nodes, state: Nodes) -> list[Node]:
    i, f, g, o = (x + y for x, y in zip(z, own, strict=True))
    c = sigmoid(f) * state[1] + sigmoid(i) * tanh(g)
    return [sigmoid(o) * tanh(c), c]


def _slopes_of_lstm(z: Nodes, own: Nodes, before: Nodes, after: Nodes) -> tuple[list[Node], list[Node]]:
    """Of the gates i, f, g (times the gradient of c) and o (times that of h), then from h to c, and from c to c."""
    i, f, g, o = (x + y for x, y in zip(z, own, strict=True))
    i, f, g, o, c = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o), tanh(after[1])
    slopes = [g * (i * (1 - i)), before[1] * (f * (1 - f)), i * (1 - g * g), c * (o * (1 - o))]
    return [*slopes, o * (1 - c * c), f], []


def _gru(z: Nodes, own: Nodes, state: Nodes) -> list[Node]:
    r, u = (sigmoid(x + y) for x, y in zip(z[:2], own[:2], strict=True))
    return [(1.0 - u) * tanh(z[2] + r * own[2]) + u * state[0]]


def _slopes_of_gru(z: Nodes, own: Nodes, before: Nodes, after: Nodes) -> tuple[list[Node], list[Node]]:
    """Of the state's gates r, u, n, then from h to h; beside these, of the input's gate n."""
    r, u = (sigmoid(x + y) for x, y in zip(z[:2], own[:2], strict=True))
    n = tanh(z[2] + r * own[2])
    of_n = (1 - u) * (1 - n * n)
    return [of_n * own[2] * (r * (1 - r)), (before[0] - n) * (u * (1 - u)), of_n * r, u], [of_n]


CELLS = {
    "tanh": Cell(1, 1, _plain(tanh), lambda z, own, before, after: ([1 - after[0] * after[0]], [])),
    "relu": Cell(1, 1, _plain(relu), _slope_of_relu),
    "gru": Cell(3, 1, _gru, _slopes_of_gru),
    "lstm": Cell(4, 2, _lstm, _slopes_of_lstm),
}
ADJOINTS = {"rnn": ("tanh", 1), "gru": ("gru", 4), "lstm": ("lstm", 6)}  # a cell of each, and its coefficients


# ---- parts of a node, and products
def part(x: Node, axis: int, start: int, extent: int = 1) -> Node:
    """`extent` places along an axis, which stays."""
    axis %= x.ndim
    starts = [start if a == axis else 0 for a in range(x.ndim)]
    return slice_(x, starts, [extent if a == axis else e for a, e in enumerate(x.shape)], [1] * x.ndim)


def at(x: Node, axis: int, place: int) -> Node:
    """One place along an axis, without it."""
    axis %= x.ndim
    return b.reshape(part(x, axis, place), (*x.shape[:axis], *x.shape[axis + 1 :]))


def gates_of(x: Node, count: int) -> list[Node]:
    size = x.shape[-1] // count
    return [part(x, -1, gate * size, size) for gate in range(count)]


def states_of(x: Node, count: int) -> list[Node]:
    """The parts of a state (..., S, B, H)."""
    return [at(x, -3, number) for number in range(count)]


def times(x: Node, w: Node, back: bool = False) -> Node:
    """x (..., B, H) by weights (..., H, G H), or with `back` x (..., B, G H) by the same transposed.

    x may have more axes than w before B.
    """
    lead = tuple(range(w.ndim - 2))
    rows = tuple(range(len(lead), x.ndim - 1))
    h, g = x.ndim, x.ndim + 1
    own, new = (g, h) if back else (h, g)
    return contract(x, w, (*lead, *rows, own), (*lead, h, g), (*lead, *rows, new))


def outer(x: Node, y: Node, lead: int) -> Node:
    """The gradient of weights: x (..., H) and y (..., G H), added up over all axes but the first `lead`."""
    axes = tuple(range(x.ndim - 1))
    return contract(x, y, (*axes, x.ndim), (*axes, x.ndim + 1), (*axes[:lead], x.ndim, x.ndim + 1))


# ---- the linear map of one step, and of all at once
def through_gates(kind: str, s: Nodes, coefficients: Nodes) -> list[Node]:
    """The gradient of each of the state's gates."""
    match kind:
        case "lstm":
            return [*(k * s[1] for k in coefficients[:3]), coefficients[3] * s[0]]
        case "gru":
            return [k * s[0] for k in coefficients[:3]]
        case _:
            return [coefficients[0] * s[0]]


def past_gates(kind: str, s: Nodes, coefficients: Nodes) -> list[Node | None]:
    """What reaches each part of the state before without the weights."""
    match kind:
        case "lstm":
            return [None, coefficients[5] * s[1]]
        case "gru":
            return [coefficients[3] * s[0]]
        case _:
            return [None]


def sent_back(kind: str, s: Nodes, coefficients: Nodes, w: Node) -> list[Node]:
    """The gradient of the state before a step, given the whole gradient `s` of the state after it."""
    found = times(join(through_gates(kind, s, coefficients), -1), w, back=True)
    past = past_gates(kind, s, coefficients)
    first = found if past[0] is None else found + past[0]
    return [first, *(x for x in past[1:] if x is not None)]


def whole(kind: str, g: Nodes, sent: Nodes | None, coefficients: Nodes) -> list[Node]:
    """The whole gradient of a state: `g` of its own, what the step after `sent`, and what one part gives another."""
    s = list(g) if sent is None else [x + y for x, y in zip(g, sent, strict=True)]
    return [s[0], s[1] + coefficients[4] * s[0]] if kind == "lstm" else s


def moved(kind: str, g: Nodes, before: Nodes | None, coefficients: Nodes, w: Node) -> list[Node]:
    """`whole` of `sent_back`, transposed: how a step's state moves by `g` of its own, and `before` that of the last."""
    if before is None:
        s = list(g)
        return [s[0] + coefficients[4] * s[1], s[1]] if kind == "lstm" else s
    q = gates_of(times(before[0], w), CELLS[ADJOINTS[kind][0]].gates)
    if kind == "lstm":
        inner = sum((k * x for k, x in zip(coefficients[:3], q[:3], strict=True)), coefficients[5] * before[1])
        c = g[1] + inner
        return [g[0] + coefficients[4] * c + coefficients[3] * q[3], c]
    direct = coefficients[3] * before[0] + g[0] if kind == "gru" else g[0]
    return [sum((k * x for k, x in zip(coefficients, q, strict=False)), direct)]
