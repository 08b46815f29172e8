"""Parameters that are computed from others: weight norm and spectral norm against PyTorch's, and one's own."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import chirp
from vkgrad import nn
from vkgrad.errors import OptionError, ShapeError
from vkgrad.nn.utils import parametrizations, parametrize

GOLDEN = golden("sequences")


class Symmetric(nn.Module):
    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return vg.triu(x) + vg.triu(x, 1).T

    def right_inverse(self, value: vg.Tensor) -> vg.Tensor:
        return vg.triu(value)


class Doubled(nn.Module):
    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return 2 * x


def _layer(name: str) -> nn.Module:
    kind, arguments, norm, options, _ = cases.PARAMETRISED[name]
    layer = getattr(parametrizations, norm)(getattr(nn, kind)(**arguments), **options)
    for number, tensor in enumerate(layer.state_dict().values()):
        tensor.assign(chirp(tensor.shape, 0.8, 0.5 + number))
    return layer


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", cases.PARAMETRISED)
def test_twenty_steps_are_those_of_pytorch(name: str, compiled: bool) -> None:
    layer, x = _layer(name), vg.tensor(chirp(cases.PARAMETRISED[name][-1], 1.3, 0.2))
    optimiser = vg.optim.SGD(layer, lr=0.05)

    def update(weights: vg.Tensor) -> vg.Tensor:
        def loss(layer: nn.Module) -> tuple[vg.Tensor, vg.Tensor]:
            y = layer(x)
            return (y * weights).sum(), y

        (_, y), gradients = vg.value_and_grad(loss, has_aux=True)(layer)
        optimiser.update(layer, gradients)
        return y

    step_once = vg.jit(update) if compiled else update
    shape = GOLDEN[f"{name}/output"].shape
    outputs = [step_once(vg.tensor(chirp(shape, 1.0, 0.9 + step))) for step in range(cases.STEP_COUNT)]
    assert_close(outputs[0], GOLDEN[f"{name}/output"], "layer", name)
    expected = {key.removeprefix(f"{name}/"): value for key, value in GOLDEN.items() if key.startswith(f"{name}/")}
    state = layer.state_dict()
    assert list(state) == [key for key in expected if key != "output"]
    for key, value in state.items():
        assert_close(value, expected[key], "optimiser", f"{name} {key}")


def test_the_largest_singular_value_is_1() -> None:
    vg.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(6, 5))
    for _ in range(30):
        layer(vg.ones((1, 6))).numpy()
    assert np.linalg.svd(layer.eval().weight.numpy())[1][0] == pytest.approx(1, abs=1e-4)
    before = layer.weight.numpy()
    assert np.array_equal(layer.weight, before)  # in evaluation nothing moves


def test_one_of_your_own_is_assigned_looked_at_and_removed() -> None:
    layer = nn.Linear(3, 3)
    plain = layer.weight.numpy()
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    assert np.array_equal(layer.weight, np.triu(plain) + np.triu(plain, 1).T)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer.weight = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    assert layer.weight.tolist() == [[0, 1, 2], [1, 4, 5], [2, 5, 8]]
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.tolist() == [[0, 2, 4], [2, 8, 10], [4, 10, 16]]
    assert np.array_equal(
        layer(np.ones((1, 3), np.float32)).numpy()[0], layer.weight.numpy().sum(1) + layer.bias.numpy()
    )
    other = nn.Linear(3, 3)
    assert not parametrize.is_parametrized(other) and other.weight.requires_grad  # the class of others stays
    copy = deepcopy(layer)
    copy.parametrizations.weight.original.assign(vg.zeros((3, 3)))
    assert layer.weight.numpy().any() and not copy.weight.numpy().any()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight.tolist()[2] == [4, 10, 16]
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"]


def test_freezing_reaches_the_originals() -> None:
    layer = parametrizations.weight_norm(nn.Linear(2, 3)).freeze()
    assert not list(layer.parameters())
    assert len(list(layer.unfreeze().parameters())) == 3


def test_an_average_of_a_model_that_has_them() -> None:
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(2, 3)), nn.Tanh())
    ema = vg.optim.swa_utils.AveragedModel(model)
    ema.update_parameters(model)
    assert np.array_equal(ema(vg.ones((1, 2))), model(vg.ones((1, 2))))
    assert "module.0.parametrizations.weight.original1" in ema.state_dict()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: parametrizations.weight_norm(nn.ReLU()), OptionError, "ReLU has no tensor 'weight'"),
        (lambda: parametrizations.spectral_norm(nn.ReLU()), OptionError, "ReLU has no tensor 'weight'"),
        (lambda: parametrizations.spectral_norm(nn.Linear(2, 2), dim=2), OptionError, "an axis of"),
        (lambda: parametrize.remove_parametrizations(nn.Linear(2, 2), "weight"), OptionError, "not parametrised"),
        (
            lambda: parametrize.remove_parametrizations(parametrizations.weight_norm(nn.Linear(2, 2)), "weight", False),
            OptionError,
            "made of 2 tensors",
        ),
        (
            lambda: parametrize.register_parametrization(nn.Linear(2, 3), "weight", nn.Flatten(0)),
            ShapeError,
            r"float32\[3, 2\] would become float32\[6\]",
        ),
    ],
)
def test_mistakes_are_refused(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
