"""Twenty steps of SGD of every layer by itself: what it has learnt then is what PyTorch's has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from tests.golden.patterns import chirp
from vkgrad import nn, optim

GOLDEN = golden("layer_steps")


class Trained(nn.Module):
    """A layer, and its input where that is trained too."""

    def __init__(self, name: str) -> None:
        kind, arguments, inputs, call = cases.trained(name)
        self.call = lambda: call
        self.layer = getattr(nn, kind)(**arguments)
        for number, parameter in enumerate(self.layer.parameters()):
            parameter.assign(chirp(parameter.shape, 0.8, 0.5 + number))
        self.repeated = [x is inputs[0] for x in inputs]
        given = [tuple(map(vg.tensor, x)) if isinstance(x, tuple) else vg.tensor(x) for x in inputs]
        self.given = lambda: given  # tensors held by a module would be trained
        if name in cases.LAYERS or not list(self.layer.parameters()):
            self.input = nn.Parameter(vg.tensor(inputs[0]))

    def forward(self) -> vg.Tensor:
        given = self.given()
        if hasattr(self, "input"):
            given = [self.input if first else x for first, x in zip(self.repeated, given, strict=True)]
        outputs = [y for y in cases.flat(self.layer(*given, **self.call())) if y.dtype.kind == "f"]
        return sum(((y * y).mean() for y in outputs[1:]), (outputs[0] * outputs[0]).mean())


def learnt(name: str, rate: float = cases.LAYER_RATE) -> dict[str, Any]:
    """What twenty steps leave; nothing of them ran on the host."""
    model = Trained(name)
    optimiser = optim.SGD(model, lr=rate)
    step_of = vg.value_and_grad(lambda model: model())
    with vg.counting() as census:
        for _ in range(cases.STEP_COUNT):
            optimiser.update(model, step_of(model)[1])
        found = {key.removeprefix("layer."): value for key, value in model.state_dict().items()}
        vg.eval(found)
    assert census.host_nodes == 0
    return found


def expected(name: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(f"{name}/"): value for key, value in GOLDEN.items() if key.startswith(f"{name}/")}


@pytest.mark.parametrize("name", cases.TRAINED_LAYERS)
def test_twenty_steps_are_those_of_pytorch(name: str, on_cpu: None) -> None:
    found, wanted = learnt(name), expected(name)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert_close(found[key], value, "training", f"{name} {key}")


@pytest.mark.parametrize("name", ["linear", "max_pool2d", "lstm"])
def test_another_rate_is_noticed(name: str, on_cpu: None) -> None:
    found = learnt(name, rate=cases.LAYER_RATE * 1.01)
    with pytest.raises(AssertionError):
        for key, value in expected(name).items():
            assert_close(found[key], value, "training", key)
