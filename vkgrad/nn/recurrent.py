"""Recurrent layers: the input's products of all steps are one matrix product, and all steps are one primitive, whatever
their number (see `vkgrad.ops.recurrences`). So are their gradients, and that of the weights is one product again.

Weights, their names and the order of gates are PyTorch's. This module must not know how a plan is run.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.nn import init
from vkgrad.nn.dropout import Dropout
from vkgrad.nn.functional import linear
from vkgrad.nn.module import Module, parameter
from vkgrad.nn.utils.rnn import PackedSequence, is_inside, turned
from vkgrad.ops.recurrences import recurrent
from vkgrad.tensor import Tensor, asarray, derived


# ---- one step of each kind: (input's product (B, G H), state, hidden weight and bias) -> state
def _tanh_step(z: Tensor, state: tuple[Tensor, ...], w_hh: Tensor, b_hh: Any, w_hr: Any) -> tuple[Tensor, ...]:
    return (f.tanh(z + linear(state[0], w_hh, b_hh)),)


def _relu_step(z: Tensor, state: tuple[Tensor, ...], w_hh: Tensor, b_hh: Any, w_hr: Any) -> tuple[Tensor, ...]:
    return (f.relu(z + linear(state[0], w_hh, b_hh)),)


def _lstm_step(z: Tensor, state: tuple[Tensor, ...], w_hh: Tensor, b_hh: Any, w_hr: Any) -> tuple[Tensor, ...]:
    h, c = state
    i, forget, g, o = _parts(z + linear(h, w_hh, b_hh), 4)
    c = f.sigmoid(forget) * c + f.sigmoid(i) * f.tanh(g)
    h = f.sigmoid(o) * f.tanh(c)
    return (h if w_hr is None else linear(h, w_hr)), c


def _gru_step(z: Tensor, state: tuple[Tensor, ...], w_hh: Tensor, b_hh: Any, w_hr: Any) -> tuple[Tensor, ...]:
    (h,) = state
    r, u, n = _parts(z, 3)
    from_r, from_u, from_n = _parts(linear(h, w_hh, b_hh), 3)
    kept = f.sigmoid(u + from_u)
    return ((1.0 - kept) * f.tanh(n + f.sigmoid(r + from_r) * from_n) + kept * h,)


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    size = gates.shape[-1] // count
    return [gates[..., k * size : (k + 1) * size] for k in range(count)]


_STEPS = {"tanh": _tanh_step, "relu": _relu_step, "lstm": _lstm_step, "gru": _gru_step}


@composite
def recurrence(
    kind: str, x: Tensor, state: tuple[Tensor, ...], weights: tuple[Any, ...], reverse: bool, lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One layer in one direction: the outputs of all steps, and the last state.

    Shapes: x (T, B, I); state: tensors (B, H); weights w_ih (G H, I), w_hh (G H, H), the biases (G H,) or None, and
    w_hr (P, H) or None; lengths (B,) of the sequences if they differ -> (T, B, H or P), 0 beyond a sequence's end.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    products = linear(x, w_ih, b_ih)
    if w_hr is not None:
        return _unrolled(kind, products, state, w_hh, b_hh, w_hr, reverse, lengths)
    if lengths is not None and reverse:
        products = turned(products, lengths)
    dtype = promote(products.dtype, w_hh.dtype, *(part.dtype for part in state))
    bias = f.zeros(w_hh.shape[:1], dtype=w_hh.dtype) if b_hh is None else b_hh
    z, first, w, own = (b.cast(part.node, dtype.computed) for part in (products, f.stack(state), w_hh.T, bias))
    node = recurrent(kind, z, first, w, own, reverse and lengths is None)
    states = derived(b.cast(node, dtype), products, *state, w_hh, bias)
    if lengths is None:
        last, outputs = states[0 if reverse else -1], states[:, 0]
    else:  # a step looks at those before it only, so what follows a sequence's end changes nothing before it
        last = f.take_along_axis(states, f.reshape(lengths - 1, (1, 1, -1, 1)), axis=0)[0]
        outputs = turned(states[:, 0], lengths) if reverse else states[:, 0]
        outputs = f.where(f.expand_dims(is_inside(x.shape[0], lengths), axis=2), outputs, 0.0)
    return outputs, tuple(last[number] for number in range(len(state)))


def _unrolled(
    kind: str,
    products: Tensor,
    state: tuple[Tensor, ...],
    w_hh: Tensor,
    b_hh: Any,
    w_hr: Tensor,
    reverse: bool,
    lengths: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same step by step, for states that are not what goes through the gates."""
    outputs = [state[0]] * products.shape[0]
    for t in range(products.shape[0])[:: -1 if reverse else 1]:
        new = _STEPS[kind](products[t], state, w_hh, b_hh, w_hr)
        if lengths is not None:
            here = f.expand_dims(lengths > t, axis=1)
            state, outputs[t] = tuple(map(partial(f.where, here), new, state)), f.where(here, new[0], 0.0)
        else:
            state, outputs[t] = new, new[0]
    return f.stack(outputs), state


@composite
def cell(kind: str, x: Tensor, state: tuple[Tensor, ...], w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> Any:
    """One step. Shapes as for `recurrence`, with x (B, I)."""
    return _STEPS[kind](linear(x, w_ih, b_ih), state, w_hh, b_hh, None)


def _mended(x: Tensor, inputs: int) -> str:
    """What makes an input of other features fit."""
    return f"; input_size={x.shape[-1]} takes that" if x.ndim and x.shape[-1] != inputs else ""


# ---- layers
class _Recurrent(Module):
    """Base of the recurrent layers: parameters for each layer and direction, and the walk through them."""

    kind: str
    gates: int
    states: int = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        dtype: Any,
    ) -> None:
        if hidden_size < 1 or num_layers < 1:
            raise OptionError(f"{type(self).__name__}: hidden_size and num_layers must be at least 1")
        if not 0 <= proj_size < hidden_size:
            raise OptionError(f"{type(self).__name__}: proj_size must be from 0 to below hidden_size, got {proj_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._dropouts = [Dropout(dropout) for _ in range(num_layers - 1)] if dropout else []
        bound, width = 1.0 / sqrt(hidden_size), proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else width * len(self._directions)
            for direction in self._directions:
                end = f"_l{layer}{direction}"
                rows = self.gates * hidden_size
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, width)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for name, shape in shapes.items():
                    setattr(self, name + end, parameter(init.uniform(shape, -bound, bound, dtype)))

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _run(self, x: Any, states: Any) -> tuple[Any, list[Tensor]]:
        """The outputs, and the last state of each layer and direction, stacked."""
        if isinstance(x, PackedSequence):
            if x.padded.ndim != 3 or x.padded.shape[-1] != self.input_size:
                raise ShapeError(f"{type(self).__name__}: needs (T, B, {self.input_size}), packed {x.padded.shape}")
            outputs, ends = self._through(x.cleared(), self._first(x.padded, states, True), x.lengths)
            return PackedSequence(outputs, x.lengths), ends
        x = asarray(x)
        batched = x.ndim == 3
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: needs (T, B, {self.input_size}), with batch_first (B, T, {self.input_size}), "
                f"or (T, {self.input_size}); got {x.shape}{_mended(x, self.input_size)}"
            )
        if not batched:
            x = f.expand_dims(x, axis=1)
        elif self.batch_first:
            x = f.swapaxes(x, 0, 1)
        if x.shape[0] == 0:
            raise ShapeError(f"{type(self).__name__}: needs at least one step, got an input without any")
        x, ends = self._through(x, self._first(x, states, batched), None)
        if not batched:
            return f.squeeze(x, axis=1), [f.squeeze(end, axis=1) for end in ends]
        return f.swapaxes(x, 0, 1) if self.batch_first else x, ends

    def _through(self, x: Tensor, first: list[Tensor], lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """(T, B, I) through all layers and directions."""
        last: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = self._dropouts[layer - 1](x)
            outputs = []
            for direction in self._directions:
                names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
                weights = [getattr(self, f"{name}_l{layer}{direction}", None) for name in names]
                state = tuple(tensor[len(last)] for tensor in first)
                y, state = recurrence(self.kind, x, state, tuple(weights), bool(direction), lengths)
                outputs.append(y)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else f.concat(outputs, axis=-1)
        return x, [f.stack([state[k] for state in last]) for k in range(self.states)]

    def _first(self, x: Tensor, states: Any, batched: bool) -> list[Tensor]:
        """The states before the first step, (layers and directions, B, H) each: those given, or zeros."""
        count, batch = self.num_layers * len(self._directions), x.shape[1]
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        if states is None:
            return [f.zeros((count, batch, width), dtype=x.dtype) for width in widths]
        given = [asarray(state) for state in (states if self.states > 1 else (states,))]
        if len(given) != self.states:
            raise ShapeError(f"{type(self).__name__}: needs {self.states} states (h, c), got {len(given)}")
        for state, width in zip(given, widths, strict=True):
            needed = (count, batch, width) if batched else (count, width)
            if state.shape != needed:
                raise ShapeError(f"{type(self).__name__}: a state needs shape {needed}, got {state.shape}")
        return given if batched else [f.expand_dims(state, axis=1) for state in given]

    def extra_repr(self) -> str:
        said = [str(self.input_size), str(self.hidden_size)]
        usual = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False, "proj_size": 0}
        return ", ".join(said + [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v])


class RNN(_Recurrent):
    """h[t] = tanh(W_ih x[t] + b_ih + W_hh h[t-1] + b_hh), layer upon layer.

    Shapes: input (T, B, input_size), (B, T, input_size) with `batch_first`, or (T, input_size); state
    (layers * directions, B, hidden_size), zeros if left out -> outputs of the last layer (T, B, directions *
    hidden_size), and the last state of all. weight_ih_l0 (hidden_size, input_size), weight_hh_l0 (hidden_size,
    hidden_size), bias_ih_l0 and bias_hh_l0 (hidden_size,); then l1, ...; `_reverse` for the other direction.

    A `nn.utils.rnn.PackedSequence` in place of the input gives one back: sequences of different lengths, each of which
    ends at its own last step.

    Args:
        nonlinearity: "tanh" or "relu".
        dropout: of each layer's output but the last's, in training.

    Source: Elman (1990), Finding structure in time.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        self.kind = self.nonlinearity = _known(type(self).__name__, nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, dtype)

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, Tensor]:
        outputs, (last,) = self._run(x, hx)
        return outputs, last


class GRU(_Recurrent):
    """Gated recurrent units, with PyTorch's gates, in the order r, z, n:

    r, z = sigmoid(W x + b + U h + c), n = tanh(W x + b + r * (U h + c)), h' = (1 - z) * n + z * h.

    Shapes: as for `RNN`, with weights of 3 * hidden_size rows.

    Source: Cho et al. (2014), arXiv:1406.1078, section 2.3; with the reset gate after the product.
    """

    kind, gates = "gru", 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, dtype)

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, Tensor]:
        outputs, (last,) = self._run(x, hx)
        return outputs, last


class LSTM(_Recurrent):
    """Long short-term memory, with the gates in the order i, f, g, o:

    c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c'), each gate W x + b + U h + c.

    Shapes: as for `RNN`, with weights of 4 * hidden_size rows; the state is a pair (h, c).

    Args:
        proj_size: if not 0, h' is multiplied by weight_hr_l0 (proj_size, hidden_size).

    Source: Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000); projections: Sak et al.
    (2014), arXiv:1402.1128, section 2.1.
    """

    kind, gates, states = "lstm", 4, 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, dtype
        )

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        outputs, (h, c) = self._run(x, hx)
        return outputs, (h, c)


# ---- single steps
class _Cell(Module):
    """Base of the cells: one step, whose state the caller keeps."""

    kind: str
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        bound, rows = 1.0 / sqrt(hidden_size), self.gates * hidden_size
        self.weight_ih = parameter(init.uniform((rows, input_size), -bound, bound, dtype))
        self.weight_hh = parameter(init.uniform((rows, hidden_size), -bound, bound, dtype))
        self.bias_ih = parameter(init.uniform((rows,), -bound, bound, dtype)) if bias else None
        self.bias_hh = parameter(init.uniform((rows,), -bound, bound, dtype)) if bias else None

    def forward(self, x: Any, hx: Any = None) -> Any:
        x = asarray(x)
        if x.shape[-1:] != (self.input_size,):
            raise ShapeError(
                f"{type(self).__name__}: needs (B, {self.input_size}), got {x.shape}{_mended(x, self.input_size)}"
            )
        if hx is None:
            state = tuple(f.zeros((*x.shape[:-1], self.hidden_size), dtype=x.dtype) for _ in range(self.states))
        else:
            state = tuple(asarray(part) for part in (hx if self.states > 1 else (hx,)))
            needed = (*x.shape[:-1], self.hidden_size)
            if wrong := [part.shape for part in state if part.shape != needed]:
                raise ShapeError(f"{type(self).__name__}: a state needs shape {needed}, got {wrong[0]}")
            if len(state) != self.states:
                raise ShapeError(f"{type(self).__name__}: needs {self.states} states (h, c), got {len(state)}")
        new = cell(self.kind, x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return new if self.states > 1 else new[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """One step of `RNN`. Shapes: (B, input_size) and a state (B, hidden_size) -> the next state."""

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype)
        self.kind = self.nonlinearity = _known(type(self).__name__, nonlinearity)


class GRUCell(_Cell):
    """One step of `GRU`. Shapes: (B, input_size) and a state (B, hidden_size) -> the next state."""

    kind, gates = "gru", 3


class LSTMCell(_Cell):
    """One step of `LSTM`. Shapes: (B, input_size) and (h, c), (B, hidden_size) each -> the next (h, c)."""

    kind, gates, states = "lstm", 4, 2


def _known(name: str, nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise OptionError(f'{name}: nonlinearity must be "tanh" or "relu", not {nonlinearity!r}')
    return nonlinearity
