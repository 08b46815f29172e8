"""Layers of several inputs and outputs (recurrent, attention, transformers, tables) against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import chirp
from vkgrad.errors import DTypeError, OptionError, ShapeError

GOLDEN = golden("sequences")


def _layer(name: str) -> vg.nn.Module:
    kind, arguments, _, _ = cases.SEQUENCES[name]
    layer = getattr(vg.nn, kind)(**arguments)
    for number, parameter in enumerate(layer.parameters()):
        parameter.assign(chirp(parameter.shape, 0.8, 0.5 + number))
    return layer


def _tensors(given: Any) -> Any:
    if isinstance(given, tuple):
        return tuple(_tensors(part) for part in given)
    return vg.tensor(given, requires_grad=given.dtype.kind == "f")


def _of(name: str, what: str) -> dict[str, np.ndarray]:
    prefix = f"{name}/{what} "
    return {key.removeprefix(prefix): value for key, value in GOLDEN.items() if key.startswith(prefix)}


def _weighted(outputs: list[vg.Tensor]) -> vg.Tensor:
    parts = [(y * chirp(y.shape, 1.0, 0.9 + n)).sum() for n, y in enumerate(outputs)]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("name", cases.SEQUENCES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    layer = _layer(name)
    inputs = [_tensors(given) for given in cases.sequence_inputs(name)]
    outputs = cases.flat(layer(*inputs, **cases.SEQUENCES[name][3]))
    _weighted(outputs).backward()
    assert len(outputs) == len(_of(name, "output"))
    for number, y in enumerate(outputs):
        assert_close(y, GOLDEN[f"{name}/output {number}"], "sequence", f"{name} output {number}")
    differentiated = [x for x in cases.flat(inputs) if x.dtype.kind == "f"]
    for number, x in enumerate(differentiated):
        assert_close(x.grad, GOLDEN[f"{name}/gradient {number}"], "sequence", f"{name} input {number}")
    expected = _of(name, "parameter")
    assert list(expected) == [key for key, _ in layer.named_parameters()]
    for key, parameter in layer.named_parameters():
        assert_close(parameter.grad, expected[key], "sequence", f"{name} {key}")


@pytest.mark.parametrize("name", ["gru both ways", "lstm projected", "attention", "encoder_layer"])
def test_a_recorded_step_trains_like_an_unrecorded_one(name: str) -> None:
    inputs = [given for given in cases.sequence_inputs(name) if not isinstance(given, tuple)][:3]
    models, losses = [_layer(name), _layer(name)], []
    for model, wrap in zip(models, (vg.jit, lambda f: f), strict=True):
        optimiser = vg.optim.Adam(model, lr=0.01)

        @wrap
        def step(model: Any, optimiser: Any, *inputs: Any) -> vg.Tensor:
            loss, gradients = vg.value_and_grad(lambda m: _weighted(cases.flat(m(*inputs))[:1]))(model)
            optimiser.update(model, gradients)
            return loss

        tensors = [vg.tensor(x) for x in (inputs if name == "attention" else inputs[:1])]
        losses.append([float(step(model, optimiser, *tensors)) for _ in range(4)])
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert np.array_equal(one, other)


def test_a_sequence_is_one_submission() -> None:
    layer = _layer("lstm")
    x = vg.tensor(chirp((5, 2, 3), 1.0, 0.1))
    vg.eval(*layer.parameters(), x)
    with vg.counting() as counted:
        layer(x)[0].numpy()
    assert counted.submissions == 1


# Dispatches of a pass, and of a training step (values, gradients of all weights): of any number of steps.
RECURRENT = {
    "RNN": (lambda **more: vg.nn.RNN(3, 4, **more), 5, 13),
    "LSTM": (lambda **more: vg.nn.LSTM(3, 4, **more), 5, 20),
    "GRU": (lambda **more: vg.nn.GRU(3, 4, **more), 5, 20),
}


def _training_step(layer: Any, steps: int) -> list[vg.Tensor]:
    x = vg.tensor(chirp((steps, 2, 3), 1.0, 0.1))
    loss, gradients = vg.value_and_grad(lambda m: (m(x)[0] ** 2).sum())(layer)
    return [loss, *gradients.values()]


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_plan_does_not_grow_with_steps(kind: str) -> None:
    make, of_pass, of_step = RECURRENT[kind]
    layer = make()
    vg.eval(*layer.parameters())
    for steps in (6, 300):
        plan = vg.plan(layer(vg.tensor(chirp((steps, 2, 3), 1.0, 0.1)))[0])
        assert len(plan.kernels) <= of_pass
        plan = vg.plan(*_training_step(layer, steps))
        assert len(plan.kernels) <= of_step
        products = [kernel for kernel in plan.kernels if kernel.kind == "contraction"]
        # x by w, h by w, and the gradients of both weights, of all steps at once; a GPU's plan has some side by side.
        assert len(products) <= 4


def test_a_cell_in_a_loop_grows_with_its_steps() -> None:
    """The null arm: where Python counts the steps, kernels grow with them."""
    cell = vg.nn.LSTMCell(3, 4)

    def dispatches(steps: int) -> int:
        state, x = None, vg.tensor(chirp((steps, 2, 3), 1.0, 0.1))
        for t in range(steps):
            state = cell(x[t], state)
        return len(vg.plan(state[0]).kernels)

    assert dispatches(12) > dispatches(6) + 6


def test_a_second_layer_of_the_same_kind_is_planned_already() -> None:
    x = vg.tensor(chirp((7, 2, 3), 1.0, 0.1))
    vg.flush()  # what other tests left behind
    with vg.counting() as counted:
        for expected in (1, 0):
            layer = vg.nn.LSTM(3, 4)
            vg.eval(*layer.parameters(), x)
            before = counted.plans_built
            layer(x)[0].numpy()
            assert counted.plans_built - before <= expected


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("both", [False, True])
def test_a_layer_is_its_cell_step_by_step(kind: str, both: bool) -> None:
    """Values, gradients, and second derivatives, in both directions."""
    layer = getattr(vg.nn, kind)(3, 4, bidirectional=both)
    x = vg.tensor(chirp((5, 2, 3), 1.0, 0.1))
    ends = ("", "_reverse") if both else ("",)

    def by_cell(x: vg.Tensor, *weights: vg.Tensor) -> vg.Tensor:
        outputs = []
        for number in range(len(ends)):
            cell = getattr(vg.nn, kind + "Cell")(3, 4)
            for name, weight in zip(
                ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights[4 * number :], strict=False
            ):
                vars(cell)[name] = weight  # it is to be no parameter here
            state, found = None, []
            for t in range(5)[:: -1 if number else 1]:
                state = cell(x[t], state)
                found.append(state[0] if kind == "LSTM" else state)
            outputs.append(vg.stack(found[:: -1 if number else 1]))
        return vg.concat(outputs, axis=-1)

    names = [f"{name}_l0{end}" for end in ends for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

    def by_layer(x: vg.Tensor, *weights: vg.Tensor) -> vg.Tensor:
        for name, weight in zip(names, weights, strict=True):
            vars(layer)[name] = weight
        return layer(x)[0]

    given = (x, *[getattr(layer, name).detach() for name in names])
    every = tuple(range(len(given)))
    results = []
    for function in (by_cell, by_layer):
        first = vg.grad(lambda *a, function=function: (function(*a) ** 2).sum(), argnums=every)
        second = vg.grad(lambda *a, first=first: sum((g**2).sum() for g in first(*a)), argnums=every)
        results.append([function(*given), *first(*given), *second(*given)])
    for one, other in zip(*results, strict=True):
        assert_close(one, np.asarray(other), "sequence", kind)


def test_a_layer_is_mapped_over_examples() -> None:
    layer = vg.nn.GRU(3, 4)
    x = vg.tensor(chirp((3, 5, 2, 3), 1.0, 0.1))
    mapped = vg.vmap(lambda one: layer(one)[0])(x)
    for number in range(3):
        assert_close(mapped[number], np.asarray(layer(x[number])[0]), "sequence", "mapped")


def test_dropout_between_layers_is_only_in_training() -> None:
    layer = vg.nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    x = chirp((5, 2, 3), 1.0, 0.1)
    assert not np.array_equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert np.array_equal(layer(x)[0], layer(x)[0])
    assert all(not name.startswith("_") for name in layer.state_dict())


def test_copies_of_a_layer_draw_other_masks() -> None:
    encoder = vg.nn.TransformerEncoder(vg.nn.TransformerEncoderLayer(4, 2, 8), 2)
    keys = [module._key.tolist() for _, module in encoder.named_modules() if isinstance(module, vg.nn.Dropout)]
    assert len({tuple(key) for key in keys}) == len(keys)
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert first is not second and np.array_equal(first, second)


def test_attention_by_its_parts() -> None:
    q, k, v = (vg.tensor(chirp((2, 3, 4, 5), 1.0, phase)) for phase in (0.1, 0.5, 0.9))
    scores = np.einsum("bhld,bhsd->bhls", q.numpy(), k.numpy()) / np.sqrt(5)
    scores = np.where(np.tril(np.ones((4, 4), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.numpy()
    found = vg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(found, expected, "layer")
    mask = vg.tensor(np.tril(np.ones((4, 4), bool)))
    assert_close(vg.nn.scaled_dot_product_attention(q, k, v, mask), expected, "layer")
    fewer = vg.nn.scaled_dot_product_attention(q, k[:, :1], v[:, :1], mask, enable_gqa=True)
    repeated = vg.nn.scaled_dot_product_attention(q, k[:, :1].repeat(3, 1), v[:, :1].repeat(3, 1), mask)
    assert np.array_equal(fewer, repeated)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: vg.nn.RNN(3, 4, nonlinearity="sin"), OptionError, "nonlinearity"),
        (lambda: vg.nn.LSTM(3, 4)(vg.zeros((5, 2, 4))), ShapeError, r"needs \(T, B, 3\)"),
        (lambda: vg.nn.GRU(3, 4)(vg.zeros((5, 2, 3)), vg.zeros((2, 2, 4))), ShapeError, "a state needs shape"),
        (lambda: vg.nn.LSTM(3, 4, proj_size=4), OptionError, "proj_size"),
        (lambda: vg.nn.MultiheadAttention(5, 2), ShapeError, "must be a multiple of num_heads 2"),
        (lambda: vg.nn.MultiheadAttention(4, 2)(*[vg.zeros((3, 2, 5))] * 3), ShapeError, "E = 4"),
        (lambda: vg.nn.Embedding(5, 3, max_norm=1.0), OptionError, "max_norm is not there"),
        (lambda: vg.nn.EmbeddingBag(5, 3, mode="median")([[1]]), OptionError, "mode must be"),
        (lambda: vg.nn.TransformerEncoderLayer(4, 2, activation="sin"), OptionError, "activation"),
    ],
)
def test_mistakes_are_refused(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_masks_of_integers_are_refused() -> None:
    x, mask = vg.ones((1, 3, 4)), np.triu(np.ones((3, 3), np.int32), 1)
    attention = vg.nn.MultiheadAttention(4, 2, batch_first=True)
    with pytest.raises(DTypeError, match="attn_mask must be bools, or floats to add to the scores, got int32"):
        attention(x, x, x, attn_mask=mask)
    with pytest.raises(DTypeError, match="key_padding_mask must be bools"):
        attention(x, x, x, key_padding_mask=mask[:1])
    with pytest.raises(DTypeError, match="scaled_dot_product_attention: attn_mask must be bools"):
        vg.nn.scaled_dot_product_attention(x, x, x, mask)
    attention(x, x, x, attn_mask=mask.astype(bool))
