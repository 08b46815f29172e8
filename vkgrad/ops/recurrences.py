"""Recurrent layers as one primitive: all steps in one kernel, whatever their number, and their gradients in another.

`recurrent` runs a cell over time. Its gradient asks for the gates of all steps again, as one product, and for the
coefficients of `vkgrad.ops.recurrent_steps`; what then has to go from step to step is a linear recurrence:
`rnn_adjoint`, `gru_adjoint`, `lstm_adjoint`. Weights get their gradient by one product over all steps.

On a GPU a workgroup does all steps of some rows. Where weights are too large for that, and where a software driver
could not count to the end of its loops, `passes` gives the same as steps, or as shorter runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from vkgrad.errors import ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import OPS, DeviceLimits, Geometry, Shape
from vkgrad.ops.families import routine, wide
from vkgrad.ops.joining import join, stacked
from vkgrad.ops.recurrent_steps import (
    ADJOINTS,
    CELLS,
    at,
    gates_of,
    moved,
    outer,
    part,
    past_gates,
    sent_back,
    states_of,
    through_gates,
    times,
    whole,
)
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.views import permute

# Weights that one workgroup reads again and again as fast as all of a GPU does two kernels (on an H200 it is faster by
# a half at 384 hidden units of an LSTM, slower by a half at 512), and hidden units whose sums fit into shared memory.
MOST_WEIGHTS, MOST_HIDDEN = 3 << 18, 512
AT_ONCE, MOST_ROWS = 132, 8  # workgroups that a GPU runs side by side; rows of one
LANES = 512  # invocations of a workgroup on a GPU
REGISTERS, OTHER, MOST_KEPT = 1 << 16, 28, 96  # of a processor; for all but weights; weights that a lane keeps there
ASKED = 16  # words that an invocation asks memory for at a time
FEWEST_TERMS = 8  # of a product that are worth a lane of their own
MOST_TRIPS = 16_384  # of an invocation's loops, all together, on a software driver; some stop at 65,535


def recurrent(kind: str, z: Node, state: Node, w: Node, bias: Node, reverse: bool = False) -> Node:
    """The states after each step.

    Shapes: z (..., T, B, G H), the input's part of all gates; state (..., S, B, H); w (..., H, G H); bias (..., G H),
    of the state's part -> (..., T, S, B, H).
    """
    return b.build("recurrent", z, state, w, bias, kind=kind, reverse=reverse)


def adjoint(kind: str, g: Node, back: Node, coefficients: Sequence[Node], reverse: bool) -> Node:
    """The whole gradients of the states after each step, given those that come from elsewhere: from the last step of
    `recurrent` to its first. Shapes: g (..., T, S, B, H); back (..., G H, H), the weights; coefficients (..., T, B, H).
    """
    return b.build(f"{kind}_adjoint", g, back, *coefficients, reverse=reverse)


def _turned(w: Node) -> Node:
    """Weights (..., H, G H) as (..., G H, H), or the other way round: as a kernel reads them, neighbours first."""
    return permute(w, [*range(w.ndim - 2), w.ndim - 1, w.ndim - 2])


def _family(kind: str) -> str:
    return kind if kind in ADJOINTS else "rnn"


# ---- meanings
def _sigmoid(x: Any) -> Any:
    """As the op has it, but in three calls: an exponential that overflows gives the 0 that it should."""
    return 1 / (1 + np.exp(-x))


def _numpy_recurrent(z: Any, state: Any, w: Any, bias: Any, *, kind: str, reverse: bool) -> Any:
    sigmoid, tanh = _sigmoid, np.tanh
    steps, size = z.shape[-3], w.shape[-2]
    out = np.empty((*z.shape[:-2], *state.shape[-3:]), z.dtype)
    h, c = state[..., 0, :, :], state[..., -1, :, :]
    wide_bias = bias[..., None, :]
    for t in range(steps)[:: -1 if reverse else 1]:
        own, x = h @ w + wide_bias, z[..., t, :, :]
        if kind == "lstm":
            gates = own + x
            in_and_forget, o = sigmoid(gates[..., : 2 * size]), sigmoid(gates[..., 3 * size :])
            c = in_and_forget[..., size:] * c + in_and_forget[..., :size] * tanh(gates[..., 2 * size : 3 * size])
            h = o * tanh(c)
            out[..., t, 1, :, :] = c
        elif kind == "gru":
            both = sigmoid(x[..., : 2 * size] + own[..., : 2 * size])
            u = both[..., size:]
            h = (1 - u) * tanh(x[..., 2 * size :] + both[..., :size] * own[..., 2 * size :]) + u * h
        else:
            h = tanh(x + own) if kind == "tanh" else np.maximum(x + own, 0)
        out[..., t, 0, :, :] = h
    return out


def _numpy_adjoint(g: Any, back: Any, *k: Any, kind: str, reverse: bool) -> Any:
    out = np.empty_like(g, order="C")
    sent: list[Any] = [0, 0]
    for t in range(g.shape[-4])[:: 1 if reverse else -1]:
        now = [x[..., t, :, :] for x in k]
        s = g[..., t, 0, :, :] + sent[0]
        out[..., t, 0, :, :] = s
        if kind == "lstm":
            c = g[..., t, 1, :, :] + sent[1] + now[4] * s
            out[..., t, 1, :, :] = c
            sent = [np.concatenate([now[0] * c, now[1] * c, now[2] * c, now[3] * s], axis=-1) @ back, now[5] * c]
        elif kind == "gru":
            sent[0] = np.concatenate([x * s for x in now[:3]], axis=-1) @ back + now[3] * s
        else:
            sent[0] = (now[0] * s) @ back
    return out


# ---- gradients
def _before(x: Node, first: Node, reverse: bool) -> Node:
    """x (..., T, B, H) one step later: `first` (..., B, H) is what the first step finds."""
    steps = x.shape[-3]
    first = b.reshape(first, (*first.shape[:-2], 1, *first.shape[-2:]))
    kept = part(x, -3, 1 if reverse else 0, steps - 1)
    return join([kept, first] if reverse else [first, kept], -3)


def _zeros(like: Node) -> Node:
    return b.constant(0, like.dtype, like.shape)


def _recurrent_grad(
    g: Node, out: Node, z: Node, state: Node, w: Node, bias: Node, *, kind: str, reverse: bool
) -> tuple:
    cell, lead = CELLS[kind], w.ndim - 2
    after = [at(out, -3, number) for number in range(cell.states)]
    before = [_before(x, x0, reverse) for x, x0 in zip(after, states_of(state, cell.states), strict=True)]
    wide_bias = b.reshape(bias, (*bias.shape[:-1], 1, 1, bias.shape[-1]))
    own = times(before[0], w)
    own = own + b.expand(wide_bias, own.shape)
    coefficients, more = cell.coefficients(gates_of(z, cell.gates), gates_of(own, cell.gates), before, after)
    family = _family(kind)
    s = adjoint(family, g, _turned(w), coefficients, reverse)
    each = [at(s, -3, number) for number in range(cell.states)]
    of_own = through_gates(family, each, coefficients)
    of_z = [*of_own[:2], more[0] * each[0]] if more else of_own
    of_gates = join(of_own, -1)
    # What the first step sends back is the gradient of the state before it.
    first = z.shape[-3] - 1 if reverse else 0
    sent = times(at(of_gates, -3, first), w, back=True)
    past = past_gates(family, [at(x, -3, first) for x in each], [at(k, -3, first) for k in coefficients])
    of_state = [sent if past[0] is None else sent + past[0], *(x for x in past[1:] if x is not None)]
    of_bias = b.reshape(b.build("sum", of_gates, axes=(lead, lead + 1)), bias.shape)
    return join(of_z, -1), stacked(of_state, -3), outer(before[0], of_gates, lead), of_bias


def _adjoint_grad(g: Node, out: Node, _: Node, back: Node, *coefficients: Node, kind: str, reverse: bool) -> tuple:
    """The transposed recurrence, step by step, since second derivatives are rare."""
    states, lead, w = CELLS[ADJOINTS[kind][0]].states, back.ndim - 2, _turned(back)
    found: list[list[Node]] = []
    times_ = range(g.shape[-4])
    for t in times_[::-1] if reverse else times_:
        now = [at(k, -3, t) for k in coefficients]
        found.append(moved(kind, states_of(at(g, -4, t), states), found[-1] if found else None, now, w))
    if reverse:
        found.reverse()
    each = [stacked([step[number] for step in found], -3) for number in range(states)]
    before = [_before(x, _zeros(at(x, -3, 0)), reverse) for x in each]
    s = [at(out, -3, number) for number in range(states)]
    q = gates_of(times(before[0], w), CELLS[ADJOINTS[kind][0]].gates)
    match kind:
        case "lstm":
            of_each = [*(x * s[1] for x in q[:3]), q[3] * s[0], each[1] * s[0], before[1] * s[1]]
        case "gru":
            of_each = [*(x * s[0] for x in q), before[0] * s[0]]
        case _:
            of_each = [q[0] * s[0]]
    of_w = outer(before[0], join(through_gates(kind, s, coefficients), -1), lead)
    return stacked(each, -3), _turned(of_w), *of_each


# ---- how they run
def _geometry(
    shapes: Sequence[Shape], dtypes: Sequence[DType], limits: DeviceLimits, *, reverse: bool, kind: str
) -> Geometry:
    """For both ways: a product of `terms` numbers gives `sums` for each hidden unit, then each unit does its own."""
    backwards = len(shapes) != 4
    hidden, columns = shapes[1][:-3:-1] if backwards else shapes[2][-2:]
    *lead, steps, batch = shapes[0][:-3] + shapes[0][-2:-1] if backwards else shapes[0][:-1]
    gates = columns // hidden
    sums, terms = (1, columns) if backwards else (gates, hidden)
    states = 2 if kind == "lstm" else 1
    across = min(hidden, limits.max_invocations)
    count = prod(lead) * batch
    if limits.software:
        parts, rows = 1, min(4, -(-count // 4))
    else:
        parts, rows = 1, min(MOST_ROWS, -(-count // AT_ONCE))
        while across * parts * 2 <= min(LANES, limits.max_invocations) and terms // (2 * parts) >= FEWEST_TERMS:
            parts *= 2
    rows = max(1, min(rows, batch))
    words = limits.shared_bytes // dtypes[0].size_bytes

    def needed() -> int:
        return rows * (parts * -(-terms // parts) + parts * sums * hidden)

    while needed() > words and rows > 1:
        rows = -(-rows // 2)
    while needed() > words and parts > 1:
        parts //= 2
    each, lanes = -(-terms // parts), across * parts
    at_once, kept = max(ASKED // sums, 1), 0
    if not limits.software and across == hidden:
        most = min(MOST_KEPT, REGISTERS // lanes - OTHER - ASKED - rows * sums) * 4 // dtypes[0].size_bytes
        kept = each if each * sums <= most + ASKED else max(0, most // sums)
        kept = max(0, each - -(-(each - kept) // at_once) * at_once)  # what is left comes in whole turns
    exact = terms == parts * each and (each - kept) % at_once == 0
    parameters = {
        "kind": kind, "backwards": backwards, "reverse": reverse != backwards, "hidden": hidden, "terms": terms,
        "sums": sums, "gates": gates, "states": states, "across": across, "parts": parts, "each": each, "rows": rows,
        "lanes": lanes, "units": -(-rows * hidden // lanes), "kept": kept, "at_once": at_once, "exact": exact,
        **{name: OPS[name].glsl for name in ("sigmoid", "tanh")},
    }  # fmt: skip
    blocks = -(-batch // rows)
    numbers = {"steps": steps, "batch": batch, "blocks": blocks, "leads": prod(lead)}
    shared_bytes = needed() * dtypes[0].size_bytes
    return Geometry(groups=prod(lead) * blocks, numbers=numbers, parameters=parameters, shared_bytes=shared_bytes)


def _most_steps(terms: int, units: int) -> int:
    """Steps of which a software driver can count all trips."""
    return max(1, MOST_TRIPS // (-(-terms // 4) + units + 8))


def _is_large(w: Node, width: Any) -> bool:
    """Whether each step should be kernels of its own, which all of a device shares."""
    hidden, columns = w.shape[-2:]
    return hidden * w.dtype.size_bytes > 4 * MOST_HIDDEN or (width.lanes > 1 and hidden * columns > MOST_WEIGHTS)


def _runs(steps: int, most: int, reverse: bool) -> list[tuple[int, int]]:
    """Where each run starts, and how many steps it has, in the order in which they are done."""
    found = [(first, min(most, steps - first)) for first in range(0, steps, most)]
    return found[::-1] if reverse else found


def unrolled(node: Node) -> Node:
    """A `recurrent` node as a product and a cell for each of its steps."""
    z, state, w, bias = node.inputs
    cell, steps = CELLS[node.attributes["kind"]], range(z.shape[-3])
    wide_bias = b.expand(b.reshape(bias, (*bias.shape[:-1], 1, bias.shape[-1])), (*state.shape[:-3], *z.shape[-2:]))
    now, found = states_of(state, cell.states), []
    for t in reversed(steps) if node.attributes["reverse"] else steps:
        own = times(now[0], w) + wide_bias
        now = cell.step(gates_of(at(z, -3, t), cell.gates), gates_of(own, cell.gates), now)
        found.append(stacked(now, -3))
    return stacked(found[::-1] if node.attributes["reverse"] else found, -4)


def _recurrent_passes(node: Node, width: Any) -> Node:
    z, state, w, bias = node.inputs
    kind, reverse, steps = node.attributes["kind"], node.attributes["reverse"], z.shape[-3]
    if _is_large(w, width):
        return unrolled(node)
    most = _most_steps(w.shape[-2], 8) if width.lanes == 1 else steps
    if steps <= most:
        return node
    found: list[Node] = []
    for first, count in _runs(steps, most, reverse):
        found.append(recurrent(kind, part(z, -3, first, count), state, w, bias, reverse))
        state = at(found[-1], -4, 0 if reverse else count - 1)
    return join(found[::-1] if reverse else found, -4)


def _adjoint_passes(node: Node, width: Any, kind: str) -> Node:
    g, back, *coefficients = node.inputs
    w = _turned(back)
    reverse, steps = node.attributes["reverse"], g.shape[-4]
    large = _is_large(w, width)
    most = 1 if large else _most_steps(w.shape[-1], 8) if width.lanes == 1 else steps
    if steps <= most and not large:
        return node
    states, found = CELLS[ADJOINTS[kind][0]].states, []
    sent: list[Node] | None = None
    for first, count in _runs(steps, most, not reverse):
        own = part(g, -4, first, count)
        end, start = (0, count - 1) if reverse else (count - 1, 0)
        now = [part(k, -3, first, count) for k in coefficients]
        if large:
            given = states_of(at(own, -4, 0), states)
            s = stacked(whole(kind, given, sent, [at(k, -3, 0) for k in now]), -3)
            found.append(b.reshape(s, (*s.shape[:-3], 1, *s.shape[-3:])))
        else:
            if sent is not None:
                last = b.reshape(stacked(sent, -3), (*own.shape[:-4], 1, *own.shape[-3:]))
                others = b.constant(0, g.dtype, (*own.shape[:-4], count - 1, *own.shape[-3:]))
                own = own + join([last, others] if end == 0 else [others, last], -4)
            found.append(adjoint(kind, own, back, now, reverse))
        sent = sent_back(kind, states_of(at(found[-1], -4, start), states), [at(k, -3, start) for k in now], w)
    return join(found if reverse else found[::-1], -4)


def _shape(shapes: Sequence[Shape], *, kind: str, reverse: bool) -> Shape:
    z, state, w, bias = shapes
    cell, hidden = CELLS[kind], w[-2]
    columns = cell.gates * hidden
    expected = ((*state[:-3], cell.states, z[-2], hidden), (*z[:-3], hidden, columns), (*z[:-3], columns))
    if (state, w, bias) != expected or z[-1] != columns:
        raise ShapeError(f"recurrent: of {kind}, {', '.join(map(str, shapes))} do not fit")
    return (*z[:-2], *state[-3:])


def _cases(kind: str) -> list[Any]:
    cell = CELLS[kind]

    def one(steps: int, batch: int, hidden: int, reverse: bool, *lead: int) -> Any:
        columns = cell.gates * hidden
        shapes = [(*lead, steps, batch, columns), (*lead, cell.states, batch, hidden)]
        return case(*shapes, (*lead, hidden, columns), (*lead, columns), kind=kind, reverse=reverse)

    return [one(3, 2, 2, False), one(2, 1, 3, True, 2)]


def _adjoint_cases(kind: str) -> list[Any]:
    name, count = ADJOINTS[kind]
    cell = CELLS[name]

    def one(steps: int, batch: int, hidden: int, reverse: bool, *lead: int) -> Any:
        own = (*lead, steps, batch, hidden)
        shapes = [(*lead, steps, cell.states, batch, hidden), (*lead, cell.gates * hidden, hidden)]
        return case(*shapes, *[own] * count, reverse=reverse)

    return [one(3, 2, 2, False), one(2, 1, 3, True, 2), one(2, 0, 2, False)]


routine(
    "recurrent", template="recurrent.comp.j2", geometry=_geometry, shape=_shape, dtype=wide("recurrent"), arity=4,
    numpy=_numpy_recurrent, grad=_recurrent_grad, passes=_recurrent_passes, batched=True,
    samples=uniform(-1, 1).on(
        *(one for kind in CELLS for one in _cases(kind)),
        case((2, 0, 4), (1, 0, 4), (4, 4), (4,), kind="tanh", reverse=False),
    ),
    doc="The states of a recurrent layer (tanh, relu, gru, lstm) after each step.",
)  # fmt: skip
for _kind, (_, _count) in ADJOINTS.items():
    routine(
        f"{_kind}_adjoint", template="recurrent.comp.j2", geometry=partial(_geometry, kind=_kind),
        shape=lambda shapes, *, reverse: shapes[0], dtype=wide(f"{_kind}_adjoint"), arity=2 + _count,
        numpy=partial(_numpy_adjoint, kind=_kind), grad=partial(_adjoint_grad, kind=_kind),
        passes=partial(_adjoint_passes, kind=_kind), batched=True, samples=uniform(-1, 1).on(*_adjoint_cases(_kind)),
        doc="The linear recurrence that the gradients of a recurrent layer's states obey, from its last step on.",
    )  # fmt: skip
