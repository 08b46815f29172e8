"""Layers that count their inputs at the first one."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad import nn
from vkgrad.errors import ShapeError

LAZY = [name for name in nn.__all__ if name.startswith("Lazy")]


def _made(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    arguments = () if "Norm" in name else (4,) if name == "LazyLinear" else (4, 2)
    space = () if name == "LazyLinear" else (3,) * int(name[-2])
    return getattr(nn, name)(*arguments), (2, 3, *space)


@pytest.mark.parametrize("name", LAZY)
def test_it_becomes_an_ordinary_layer_with_the_same_first_values(name: str) -> None:
    layer, shape = _made(name)
    assert not list(layer.parameters())
    kind = getattr(nn, name.removeprefix("Lazy"))
    x = chirp(shape, 1.0, 0.2)
    vg.manual_seed(5)
    y = layer(x)
    assert type(layer) is kind and list(layer.parameters())
    vg.manual_seed(5)
    options = {"affine": True, "track_running_stats": True} if "Instance" in name else {}
    plain = kind(3, *((4,) if name == "LazyLinear" else () if "Norm" in name else (4, 2)), **options)
    assert np.array_equal(y, plain(x)) and list(plain.state_dict()) == list(layer.state_dict())


def test_a_model_of_them_trains() -> None:
    model = nn.Sequential(
        nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2, bias=False)
    )
    assert "LazyLinear(out_features=2, bias=False)" in repr(model)
    x = chirp((3, 2, 4, 4), 1.0, 0.2)
    model.eval()(x)
    assert not model[1].training and model[3].in_features == 64
    optimiser = vg.optim.Adam(model.train(), lr=0.01)
    losses = []
    for _ in range(3):
        loss, gradients = vg.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
        optimiser.update(model, gradients)
        losses.append(float(loss))
    assert losses[2] < losses[0]


def test_an_input_without_that_axis_is_refused() -> None:
    with pytest.raises(ShapeError, match="has no axis 1 to count"):
        nn.LazyConv1d(2, 1)(vg.zeros((3,)))
    with pytest.raises(TypeError, match="out_feature"):
        nn.LazyLinear(out_feature=3)
