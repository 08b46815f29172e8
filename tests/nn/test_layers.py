"""Layers against PyTorch's: values, gradients, running state, and the keys of the state dict."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import chirp
from vkgrad.errors import OptionError, ShapeError

GOLDEN = golden("layers")


def _layer(name: str) -> vg.nn.Module:
    kind, arguments, _ = cases.LAYERS[name]
    layer = getattr(vg.nn, kind)(**arguments)
    for number, parameter in enumerate(layer.parameters()):
        parameter.assign(chirp(parameter.shape, 0.8, 0.5 + number))
    return layer


@pytest.mark.parametrize("name", cases.LAYERS)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    layer = _layer(name)
    kind, _, shape = cases.LAYERS[name]
    x = vg.tensor(chirp(shape, 1.3, 0.2), requires_grad=True)
    y = layer(*[x] * (2 if kind == "Bilinear" else 1))
    y.backward(chirp(y.shape, 1.0, 0.9))
    assert_close(y, GOLDEN[name], "layer", name)
    assert_close(x.grad, GOLDEN[f"{name}/gradient"], "layer", f"{name} gradient")
    expected = {key.rpartition(" ")[2]: value for key, value in GOLDEN.items() if key.startswith(f"{name}/gradient ")}
    assert list(expected) == [key for key, _ in layer.named_parameters()]
    for key, parameter in layer.named_parameters():
        assert_close(parameter.grad, expected[key], "layer", f"{name} {key}")
    buffers = {key.rpartition(" ")[2]: value for key, value in GOLDEN.items() if key.startswith(f"{name}/buffer ")}
    assert list(buffers) == [key for key, _ in layer.named_buffers()]
    for key, buffer in layer.named_buffers():
        assert_close(buffer, buffers[key], "layer", f"{name} {key}")


@pytest.mark.parametrize("name", ["batch_norm1d", "batch_norm2d"])
def test_batch_norm_in_evaluation_uses_what_it_has_learnt(name: str) -> None:
    layer = _layer(name)
    x = chirp(cases.LAYERS[name][2], 1.3, 0.2)
    layer(x)
    learnt = {key: buffer.numpy() for key, buffer in layer.named_buffers()}
    layer.eval()
    y = layer(x[:1]).numpy()
    column = (-1,) + (1,) * (x.ndim - 2)
    mean, variance = (learnt[key].reshape(column) for key in ("running_mean", "running_var"))
    weight, bias = (p.numpy().reshape(column) for p in layer.parameters())
    assert_close(y, (x[:1] - mean) / np.sqrt(variance + 1e-5) * weight + bias, "layer", name)
    assert all(np.array_equal(buffer, learnt[key]) for key, buffer in layer.named_buffers())


def test_embedding_picks_rows_and_sends_gradients_back_to_them() -> None:
    layer = vg.nn.Embedding(5, 3, padding_idx=1)
    assert layer.weight.numpy()[1].tolist() == [0.0, 0.0, 0.0]
    positions = np.array([[4, 1, 4], [0, 1, 2]])
    y = layer(positions)
    assert np.array_equal(y, layer.weight.numpy()[positions])
    y.sum().backward()
    assert layer.weight.grad.numpy()[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0, 2.0]


def test_embedding_refuses_a_position_out_of_range() -> None:
    with pytest.raises(ShapeError, match="out of range"):
        vg.nn.Embedding(5, 3)([5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vg.nn.Linear(3, 2)(vg.zeros((4, 5))), "last axis of extent 3"),
        (lambda: vg.nn.Conv2d(3, 4, 2, groups=2), "do not divide into 2 groups"),
        (lambda: vg.nn.BatchNorm2d(3)(vg.zeros((4, 3))), "BatchNorm2d: needs"),
        (lambda: vg.nn.BatchNorm1d(3)(vg.zeros((1, 3))), "one value per channel"),
        (lambda: vg.nn.LayerNorm(3)(vg.zeros((4, 2))), "does not end in"),
        (lambda: vg.nn.GroupNorm(2, 3), "equal groups"),
    ],
)
def test_mistakes_are_refused(make, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        make()


def test_a_probability_is_from_0_to_1() -> None:
    with pytest.raises(OptionError, match="p must be from 0 to 1"):
        vg.nn.Dropout(1.5)


def test_layers_in_double_precision_stay_there() -> None:
    layer = vg.nn.Linear(3, 2, dtype=vg.float64)
    assert layer.weight.dtype is vg.float64 and layer.bias.dtype is vg.float64
    assert layer(np.ones((1, 3))).dtype is vg.float64
