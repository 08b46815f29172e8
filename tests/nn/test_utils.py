"""Sequences of different lengths, parameters as one vector, and batch norm folded into the layer before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import chirp
from vkgrad import nn
from vkgrad.errors import OptionError, ShapeError
from vkgrad.nn import utils
from vkgrad.nn.utils import rnn

GOLDEN = golden("sequences")


def _layer(name: str) -> nn.Module:
    kind, arguments, _, _ = cases.PACKED[name]
    layer = getattr(nn, kind)(**arguments)
    for number, parameter in enumerate(layer.parameters()):
        parameter.assign(chirp(parameter.shape, 0.8, 0.5 + number))
    return layer


@pytest.mark.parametrize("name", cases.PACKED)
def test_packed_sequences_give_what_pytorch_gives(name: str) -> None:
    layer, (_, arguments, shape, lengths) = _layer(name), cases.PACKED[name]
    batch_first = arguments.get("batch_first", False)
    x = vg.tensor(chirp(shape, 1.1, 0.2), requires_grad=True)
    y, states = layer(rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False))
    padded, found = rnn.pad_packed_sequence(y, batch_first)
    assert found.tolist() == lengths
    outputs = cases.flat([padded, states])
    parts = [(y * chirp(y.shape, 1.0, 0.9 + n)).sum() for n, y in enumerate(outputs)]
    sum(parts[1:], parts[0]).backward()
    for number, output in enumerate(outputs):
        assert_close(output, GOLDEN[f"{name}/output {number}"], "sequence", name)
    assert_close(x.grad, GOLDEN[f"{name}/gradient 0"], "sequence", name)
    for key, parameter in layer.named_parameters():
        assert_close(parameter.grad, GOLDEN[f"{name}/parameter {key}"], "sequence", f"{name} {key}")


def test_each_sequence_is_as_if_it_were_alone_and_one_plan_serves_all_lengths() -> None:
    vg.manual_seed(1)
    lstm = nn.LSTM(3, 4, bidirectional=True)
    x = chirp((6, 3, 3), 1.0, 0.3)

    @vg.jit
    def run(x: vg.Tensor, lengths: vg.Tensor) -> tuple[vg.Tensor, vg.Tensor]:
        y, (h, _) = lstm(rnn.pack_padded_sequence(x, lengths))
        return rnn.pad_packed_sequence(y, padding_value=-7.0)[0], h

    built = []
    for lengths in ([6, 2, 3], [1, 5, 4]):
        with vg.counting() as census:
            y, h = run(vg.tensor(x), vg.tensor(np.array(lengths, np.int32)))
            y.numpy()
        built.append(census.plans_built)
        for b, length in enumerate(lengths):
            alone, (last, _) = lstm(x[:length, b : b + 1])
            assert np.allclose(y[:length, b], alone[:, 0], atol=1e-6) and np.allclose(h[:, b], last[:, 0], atol=1e-6)
            assert (y.numpy()[length:, b] == -7.0).all()
    assert built[1] == 0


def test_padding_is_not_looked_at_whatever_it_is() -> None:
    gru = nn.GRU(3, 2, num_layers=2, bidirectional=True)
    x = chirp((4, 2, 3), 1.0, 0.3)
    spoilt = np.where(np.arange(4)[:, None, None] < np.array([2, 4])[:, None], x, np.nan)
    results = []
    for given in (x, spoilt):
        loss, gradients = vg.value_and_grad(
            lambda m, given=given: rnn.pad_packed_sequence(m(rnn.pack_padded_sequence(given, [2, 4]))[0])[0].sum()
        )(gru)
        results.append([float(loss), *(g.numpy().sum() for g in gradients.values())])
    assert np.isfinite(results).all() and np.array_equal(*results)


def test_padding_and_taking_it_away() -> None:
    parts = [chirp((length, 2), 1.0, 0.1 * length) for length in (2, 4, 1)]
    padded = rnn.pad_sequence(parts, batch_first=True, padding_value=9.0)
    assert padded.shape == (3, 4, 2) and (padded.numpy()[2, 1:] == 9.0).all()
    left = rnn.pad_sequence(parts, padding_side="left")
    assert np.array_equal(left[3, 2], parts[2][0]) and not left.numpy()[:3, 2].any()
    for found in (
        rnn.unpad_sequence(padded, [2, 4, 1], batch_first=True),
        rnn.unpack_sequence(rnn.pack_sequence(parts)),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(found, parts, strict=True))
    longer, _ = rnn.pad_packed_sequence(rnn.pack_sequence(parts), batch_first=True, total_length=6)
    assert longer.shape == (3, 6, 2)


def test_parameters_as_a_vector() -> None:
    model = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,) and np.array_equal(vector[:6], model.weight.numpy().ravel())
    kept = list(model.parameters())
    utils.vector_to_parameters(np.arange(9, dtype=np.float32), model.parameters())
    assert model.bias.tolist() == [6.0, 7.0, 8.0] and all(a is b for a, b in zip(model.parameters(), kept, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_in_the_layer_before_it(bias: bool) -> None:
    vg.manual_seed(2)
    for layer, norm, fuse, shape in (
        (nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4), utils.fuse_conv_bn_eval, (5, 3, 6, 6)),
        (nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(4), utils.fuse_linear_bn_eval, (5, 3)),
        (
            nn.ConvTranspose2d(3, 4, 3, bias=bias),
            nn.BatchNorm2d(4, affine=False),
            lambda a, b: utils.fuse_conv_bn_eval(a, b, transpose=True),
            (5, 3, 6, 6),
        ),
    ):
        x = chirp(shape, 2.0, 0.1)
        norm(layer(x)).numpy()  # statistics to fold
        layer.eval(), norm.eval()
        fused = fuse(layer, norm)
        assert np.allclose(fused(x), norm(layer(x)), rtol=1e-4, atol=1e-5)
        assert [name for name, _ in fused.named_parameters()] == ["weight", "bias"] and fused is not layer
    with pytest.raises(OptionError, match="must be in evaluation"):
        utils.fuse_linear_bn_eval(nn.Linear(3, 4), nn.BatchNorm1d(4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rnn.pack_padded_sequence(vg.zeros((4, 2, 3)), [1, 5]), ShapeError, "2 lengths from 1 to 4"),
        (lambda: rnn.pack_padded_sequence(vg.zeros((4, 2, 3)), vg.tensor([1])), ShapeError, "needs 2 lengths"),
        (lambda: rnn.pad_sequence([]), OptionError, "needs sequences"),
        (lambda: nn.GRU(4, 2)(rnn.pack_sequence([vg.zeros((2, 3))])), ShapeError, r"needs \(T, B, 4\), packed"),
        (lambda: utils.vector_to_parameters(vg.zeros((3,)), nn.Linear(2, 3).parameters()), ShapeError, "9 elements"),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_sequence([vg.zeros((2, 3))]), total_length=1),
            ShapeError,
            "total_length 1 is less than 2 steps",
        ),
    ],
)
def test_mistakes_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
