"""ONNX's recurrent operators, in terms of the recurrence that vkgrad's own layers are.

Gates stand in another order there: i, o, f, c for LSTM and z, r, h for GRU.
"""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.nn.recurrent import recurrence
from vkgrad.onnx.imaging import OPERATORS
from vkgrad.onnx.operators import Attributes, operator
from vkgrad.tensor import Tensor

__all__ = ["OPERATORS"]

# Where vkgrad's gates stand in ONNX's order.
_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


@operator("RNN", "GRU", "LSTM")
def _recurrent(x: Any, a: Attributes) -> tuple[Tensor, ...]:
    """Operands: input (T, B, I), W (directions, G H, I), R (directions, G H, H), and optionally B, lengths, h and c."""
    kind = a.node.op_type
    given: list[Any] = [x[n] if n < len(a.node.input) and a.node.input[n] else None for n in range(8)]
    inputs, w, r, bias, lengths, h, c, peepholes = given
    directions, hidden = w.shape[0], r.shape[2]
    step = _step(kind, a, directions)
    if peepholes is not None or a.get("clip") or a.get("input_forget", 0):
        raise a.refuse("peepholes, clip or input_forget")
    batch_first = bool(a.get("layout", 0))
    if batch_first:
        inputs = f.swapaxes(inputs, 0, 1)
        h, c = (None if t is None else f.swapaxes(t, 0, 1) for t in (h, c))
    outputs, last = [], []
    for n in range(directions):
        reverse = n == 1 or a.get("direction", "forward") == "reverse"
        zeros = f.zeros((inputs.shape[1], hidden), dtype=inputs.dtype)
        first = tuple(zeros if t is None else t[n] for t in ((h, c) if kind == "LSTM" else (h,)))
        both = None if bias is None else f.reshape(bias[n], (2, -1))
        weights = [w[n], r[n], *((None, None) if both is None else (both[0], both[1]))]
        ordered = tuple(None if t is None else _in_our_order(t, kind) for t in weights)
        y, state = recurrence(step, inputs, first, (*ordered, None), reverse, lengths)
        outputs.append(y)
        last.append(state)
    whole = f.stack(outputs, axis=1)
    ends = [f.stack([state[k] for state in last]) for k in range(len(last[0]))]
    if batch_first:
        return f.permute_dims(whole, (2, 0, 1, 3)), *(f.swapaxes(end, 0, 1) for end in ends)
    return whole, *ends


def _step(kind: str, a: Attributes, directions: int) -> str:
    """What vkgrad calls a step with these activations."""
    activations = [str(name.decode() if isinstance(name, bytes) else name) for name in a.get("activations", [])]
    if kind == "RNN" and activations == ["Relu"] * directions:
        return "relu"
    if activations and activations != _USUAL[kind] * directions:
        raise a.refuse(f"activations {', '.join(activations)}")
    if kind == "GRU" and not a.get("linear_before_reset", 0):
        raise a.refuse("reset gate before the product; export with linear_before_reset=1, as PyTorch does")
    return "tanh" if kind == "RNN" else kind.lower()


def _in_our_order(weight: Tensor, kind: str) -> Tensor:
    order = _ORDER[kind]
    parts = f.reshape(weight, (len(order), -1, *weight.shape[1:]))
    return f.reshape(f.stack([parts[place] for place in order]), weight.shape)
