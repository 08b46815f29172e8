"""Modules: what they find in their attributes, state dicts, modes, and how they look."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import DataError, ShapeError


class Block(vg.nn.Module):
    """Everything that a module can hold: modules, parameters, buffers, and lists and dicts of them."""

    def __init__(self) -> None:
        self.first = vg.nn.Linear(3, 4)
        self.branches = [vg.nn.Linear(4, 2), vg.nn.Linear(4, 2, bias=False)]
        self.scales = {"up": vg.nn.parameter(vg.ones((2,))), "down": vg.nn.parameter(vg.full((2,), 0.5))}
        self.offset = vg.zeros((2,))
        self._calls = vg.tensor(0)
        self.name = "block"

    def forward(self, x):
        hidden = vg.tanh(self.first(x))
        return (
            self.branches[0](hidden) * self.scales["up"] + self.branches[1](hidden) * self.scales["down"] + self.offset
        )


KEYS = [
    "first.weight",
    "first.bias",
    "branches.0.weight",
    "branches.0.bias",
    "branches.1.weight",
    "scales.up",
    "scales.down",
]


def test_attributes_are_found_in_order() -> None:
    block = Block()
    assert [name for name, _ in block.named_parameters()] == KEYS
    assert [name for name, _ in block.named_buffers()] == ["offset", "_calls"]
    assert list(block.state_dict()) == [*KEYS, "offset"]  # private state is not saved
    assert [name for name, _ in block.named_modules()] == ["", "first", "branches.0", "branches.1"]
    assert list(block.children()) == [block.first, *block.branches]


def test_an_attribute_set_later_is_found_and_a_replaced_one_is_gone() -> None:
    block = Block()
    block.first = vg.nn.Identity()
    block.extra = vg.nn.parameter(vg.zeros((7,)))
    assert [name for name, _ in block.named_parameters()] == [*KEYS[2:], "extra"]


def test_a_shared_tensor_is_one_parameter_with_two_keys() -> None:
    block = Block()
    block.branches[1].weight = block.branches[0].weight
    assert "branches.1.weight" not in dict(block.named_parameters())
    assert "branches.1.weight" in block.state_dict()
    gradients = vg.grad(lambda block: block(np.ones((1, 3), np.float32)).sum())(block)
    assert list(gradients) == [name for name, _ in block.named_parameters()]
    hidden = np.tanh(block.first(np.ones((1, 3), np.float32)).numpy())
    assert np.allclose(gradients["branches.0.weight"], np.repeat(1.5 * hidden, 2, 0), rtol=1e-5)


def test_a_module_may_hold_the_one_that_holds_it() -> None:
    block = Block()
    block.first.parent = block
    assert len(list(block.named_parameters())) == len(KEYS)
    assert len(list(block.named_modules())) == 4
    assert "Block" in repr(block)


def test_state_goes_from_one_module_to_another_in_place() -> None:
    source, target = Block(), Block()
    kept = target.first.weight
    assert not np.array_equal(source.first.weight, target.first.weight)
    target.load_state_dict(source.state_dict())
    assert target.first.weight is kept
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(source(x), target(x))
    source.first.weight.assign(source.first.weight * 2)
    assert not np.array_equal(source(x), target(x))


def test_loading_refuses_what_does_not_fit_and_changes_nothing() -> None:
    block = Block()
    before = block.first.weight.numpy()
    state = {name: value.numpy() + 1 for name, value in block.state_dict().items()}
    with pytest.raises(DataError, match=r"misses first\.bias and does not know other"):
        block.load_state_dict({**{k: v for k, v in state.items() if k != "first.bias"}, "other": state["offset"]})
    with pytest.raises(ShapeError, match=r"offset is \(2,\), not \(3,\)"):
        block.load_state_dict({**state, "offset": np.zeros(3, np.float32)})
    assert np.array_equal(block.first.weight, before)
    mismatch = block.load_state_dict({"first.weight": state["first.weight"], "other": 0.0}, strict=False)
    assert mismatch.unexpected == ["other"] and "first.bias" in mismatch.missing and len(mismatch.missing) == 7
    assert np.array_equal(block.first.weight, before + 1)


def test_loading_keeps_the_type_of_the_module() -> None:
    layer = vg.nn.Linear(2, 1)
    layer.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": np.array([3])})
    assert layer.weight.dtype is vg.float32 and layer.weight.tolist() == [[1.0, 2.0]]


def test_modes_reach_every_module() -> None:
    model = vg.nn.Sequential(vg.nn.Linear(2, 2), vg.nn.Sequential(vg.nn.Dropout(), vg.nn.ReLU()))
    assert all(module.training for _, module in model.named_modules())
    assert model.eval() is model
    assert not any(module.training for _, module in model.named_modules())
    model.train()
    assert all(module.training for _, module in model.named_modules())


def test_apply_visits_the_inside_first() -> None:
    visited: list[str] = []
    vg.nn.Sequential(vg.nn.Linear(2, 2), vg.nn.ReLU()).apply(lambda module: visited.append(type(module).__name__))
    assert visited[-1] == "Sequential" and set(visited) == {"Linear", "ReLU", "Sequential"}


def test_frozen_parameters_get_no_gradient_until_unfrozen() -> None:
    block = Block()
    block.first.freeze()
    assert [name for name, _ in block.named_parameters()] == KEYS[2:]
    assert list(block.state_dict()) == [*KEYS, "offset"]
    gradients = vg.grad(lambda block: block(np.ones((1, 3), np.float32)).sum())(block)
    assert list(gradients) == KEYS[2:]
    block.unfreeze()
    assert [name for name, _ in block.named_parameters()] == KEYS
    assert not block.offset.requires_grad


def test_gradients_of_a_module_are_named_and_leave_it_as_it_was() -> None:
    block = Block()
    tensors = list(block.parameters())
    values = [tensor.numpy() for tensor in tensors]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    gradients = vg.grad(lambda block, x: (block(x) ** 2).mean())(block, x)
    assert list(gradients) == KEYS
    assert all(new is old for new, old in zip(block.parameters(), tensors, strict=True))
    assert all(np.array_equal(new, old) for new, old in zip(tensors, values, strict=True))
    (block(x) ** 2).mean().backward()
    for name, parameter in block.named_parameters():
        assert np.allclose(parameter.grad, gradients[name], rtol=1e-6, atol=1e-7), name
    block.zero_grad()
    assert all(parameter.grad is None for parameter in block.parameters())


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        vg.nn.Module()(1)


def test_it_shows_shapes_and_counts_as_a_tree() -> None:
    model = vg.nn.Sequential(vg.nn.Conv2d(1, 6, 5, padding=2), vg.nn.ReLU(), vg.nn.Linear(10, 3, bias=False))
    assert repr(model) == (
        "Sequential(), 186 parameters\n"
        "  0: Conv2d(1, 6, kernel_size=(5, 5), padding=2), 156 parameters: weight (6, 1, 5, 5), bias (6,)\n"
        "  1: ReLU()\n"
        "  2: Linear(10, 3, bias=False), 30 parameters: weight (3, 10)"
    )


def test_module_lists_name_their_layers_by_position() -> None:
    layers = vg.nn.ModuleList([vg.nn.Linear(2, 2) for _ in range(2)])
    layers.append(vg.nn.Linear(2, 1, bias=False))
    assert len(layers) == 3 and layers[2] is list(layers)[2]
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight"]


def test_doubles_in_a_network_of_singles_are_noticed() -> None:
    layer, x = vg.nn.Sequential(vg.nn.Linear(3, 2), vg.nn.Tanh()), np.ones((4, 3))
    with pytest.warns(UserWarning, match=r"the input is float64 and the parameters are float32") as found:
        assert layer(x).dtype is vg.float64
    assert {warning.filename for warning in found} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x.astype(np.float32))
        layer(vg.tensor(x, vg.float32))
        vg.nn.Tanh()(x)
        layer.double()(x)
        layer(np.ones((4, 3), np.int32))


def test_a_submodule_is_replaced_by_name() -> None:
    model = vg.nn.Sequential(vg.nn.ModuleDict({"a": vg.nn.Linear(2, 3)}), vg.nn.ReLU())
    model.set_submodule("0.a", vg.nn.Linear(2, 5))
    model.set_submodule("1", vg.nn.Tanh())
    assert model[0]["a"].out_features == 5 and isinstance(model[1], vg.nn.Tanh)
    with pytest.raises(DataError, match=r"has no module '0\.b'"):
        model.set_submodule("0.b", vg.nn.ReLU())
