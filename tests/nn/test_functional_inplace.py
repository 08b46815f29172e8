"""`inplace` is taken where PyTorch has it, by name and by place, and changes nothing."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("on_cpu")
X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
NAMES = (
    "relu", "relu6", "silu", "mish", "selu", "hardswish", "hardsigmoid", "hardtanh", "elu", "celu", "leaky_relu",
    "rrelu", "threshold", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
)  # fmt: skip
NEEDED = {"threshold": (0.5, -1.0)}
X_OF = {"dropout2d": X[None, None], "dropout1d": X[None], "dropout3d": X[None, None, None]}


@pytest.mark.parametrize("name", NAMES)
def test_it_changes_nothing(name: str) -> None:
    function, given = getattr(F, name), (X_OF.get(name, X), *NEEDED.get(name, ()))
    x = vg.tensor(given[0])
    quiet = {"training": False} if "training" in inspect.signature(function).parameters else {}
    expected = function(x, *given[1:], **quiet).numpy()
    assert np.array_equal(function(x, *given[1:], inplace=True, **quiet).numpy(), expected)
    positional = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional[-1].name == "inplace" and function.__doc__
    every = [quiet.get(p.name, p.default) for p in positional[1 + len(given[1:]) : -1]]
    assert np.array_equal(function(x, *given[1:], *every, True).numpy(), expected)
    assert np.array_equal(x.numpy(), given[0])
    with pytest.raises(TypeError):
        function(x, *given[1:], *every, True, True)
    with pytest.raises(TypeError):
        function(x, *given[1:], in_place=True)
