"""Weights come out of another framework's objects, here stand-ins with what PyTorch's have."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import nn
from vkgrad.errors import DataError, ShapeError

pytestmark = pytest.mark.usefixtures("on_cpu")


class Foreign:
    """Like a `torch.Tensor` with a gradient: it must be detached, and brought to the host, before it is an array."""

    def __init__(self, array: np.ndarray, stage: int = 0, brain: bool = False) -> None:
        self.array, self.stage, self.brain = array, stage, brain

    def detach(self) -> Foreign:
        return Foreign(self.array, max(self.stage, 1), self.brain)

    def cpu(self) -> Foreign:
        return Foreign(self.array, self.stage + 1, self.brain)

    def float(self) -> Foreign:
        return Foreign(self.array, self.stage)

    def numpy(self) -> np.ndarray:
        if self.brain:
            raise TypeError("Got unsupported ScalarType BFloat16")
        assert self.stage == 2
        return self.array


class ForeignModule:
    def __init__(self, **state: Foreign) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Foreign]:
        return self.state


WEIGHT, BIAS = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.0, -1.0], np.float32)


@pytest.mark.parametrize("brain", [False, True])
def test_a_module_of_pytorch(brain: bool) -> None:
    layer = nn.Linear(3, 2)
    source = ForeignModule(weight=Foreign(WEIGHT, brain=brain), bias=Foreign(BIAS))
    assert nn.from_torch_state_dict(layer, source) == ([], [])
    assert np.array_equal(layer.weight, WEIGHT) and np.array_equal(layer.bias, BIAS)
    assert np.array_equal(layer(vg.ones((1, 3))), [[4.0, 11.0]])


def test_names_change_and_weights_are_left_out() -> None:
    layer = nn.Linear(3, 2)
    state = {"head.weight": Foreign(WEIGHT), "head.bias": BIAS, "other.scale": Foreign(BIAS)}
    nn.from_torch_state_dict(layer, state, lambda name: name[5:] if name.startswith("head.") else None)
    assert np.array_equal(layer.weight, WEIGHT)
    mismatch = nn.from_torch_state_dict(layer, {"weight": Foreign(WEIGHT), "more": Foreign(BIAS)}, strict=False)
    assert mismatch == (["bias"], ["more"])


def test_what_does_not_fit() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(DataError, match="misses bias"):
        nn.from_torch_state_dict(layer, {"weight": Foreign(WEIGHT)})
    with pytest.raises(ShapeError, match=r"weight is .* not"):
        nn.from_torch_state_dict(layer, {"weight": Foreign(WEIGHT.T), "bias": Foreign(BIAS)})
    with pytest.raises(DataError, match="weight is a list, which has no numpy"):
        nn.from_torch_state_dict(layer, {"weight": [1.0], "bias": Foreign(BIAS)})
    with pytest.raises(DataError, match="renamed to 'weight'"):
        nn.from_torch_state_dict(layer, {"a": Foreign(WEIGHT), "b": Foreign(WEIGHT)}, lambda name: "weight")
