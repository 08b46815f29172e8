"""Hooks, containers by name, and what else a module offers under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import DataError, DTypeError, ShapeError


def test_forward_hooks_see_and_replace() -> None:
    model = vg.nn.Sequential(vg.nn.Identity(), vg.nn.Identity())
    seen: list[Any] = []
    before = model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    after = model.register_forward_hook(lambda module, inputs, output: output * 2)
    model[1].register_forward_hook(lambda module, inputs, output: seen.append((module, inputs, output)))
    assert model(vg.tensor([1.0])).tolist() == [4.0]
    assert seen[0][0] is model[1] and seen[0][1][0].tolist() == [2.0] and seen[0][2].tolist() == [2.0]
    before.remove()
    assert model(vg.tensor([1.0])).tolist() == [2.0]
    after.remove()
    assert model(vg.tensor([1.0])).tolist() == [1.0]
    with model.register_forward_pre_hook(lambda m, inputs, options: ((inputs[0] * 3,), options), with_kwargs=True):
        assert model(vg.tensor([1.0])).tolist() == [3.0]
    assert model(vg.tensor([1.0])).tolist() == [1.0]


@pytest.mark.parametrize("wanted", [False, True])
def test_backward_hooks_see_gradients(wanted: bool) -> None:
    layer = vg.nn.Linear(3, 2, bias=False)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    for _ in range(2):  # what is remembered of the first must not leave the second out
        x = vg.tensor(np.ones((1, 3), np.float32), requires_grad=wanted)
        (layer(x) * vg.tensor([[2.0, 3.0]])).sum().backward()
        ((given,), (output,)) = seen.pop()
        assert output.tolist() == [[2.0, 3.0]] and not seen
        if wanted:
            assert np.allclose(given, np.array([[2.0, 3.0]]) @ layer.weight.numpy())
        else:
            assert given is None


def test_a_backward_hook_replaces_the_gradient() -> None:
    layer = vg.nn.Tanh()
    handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,))
    gradient = vg.grad(lambda x: layer(x).sum())
    assert gradient(vg.tensor([0.0])).tolist() == [10.0]
    handle.remove()
    assert gradient(vg.tensor([0.0])).tolist() == [1.0]


def test_a_new_hook_records_a_step_anew() -> None:
    layer = vg.nn.Identity()
    step = vg.jit(lambda layer, x: layer(x) + 1)
    assert step(layer, vg.tensor([1.0])).tolist() == [2.0]
    handle = layer.register_forward_hook(lambda module, inputs, output: output * 5)
    assert step(layer, vg.tensor([1.0])).tolist() == [6.0]
    handle.remove()
    assert step(layer, vg.tensor([1.0])).tolist() == [2.0]


def test_containers_by_name() -> None:
    class Model(vg.nn.Module):
        def __init__(self) -> None:
            self.layers = vg.nn.ModuleDict({"first": vg.nn.Linear(2, 2), "second": vg.nn.Tanh()})
            self.scales = vg.nn.ParameterList([vg.ones((2,)), vg.zeros((3,))])
            self.named = vg.nn.ParameterDict({"shift": vg.zeros((1,))})

    model = Model()
    names = ["layers.first.weight", "layers.first.bias", "scales.0", "scales.1", "named.shift"]
    assert [name for name, _ in model.named_parameters()] == names == list(model.state_dict())
    assert "first" in model.layers and list(model.layers.keys()) == ["first", "second"] and len(model.scales) == 2
    model.scales.append(vg.ones((1,)))
    assert len(list(model.parameters())) == 6
    named = vg.nn.Sequential({"body": vg.nn.Linear(2, 3), "head": vg.nn.Linear(3, 1)})
    assert list(named.state_dict()) == ["body.weight", "body.bias", "head.weight", "head.bias"]
    assert named(vg.ones((1, 2))).shape == (1, 1)
    plain = vg.nn.Sequential(vg.nn.Linear(2, 3), vg.nn.Tanh(), vg.nn.Linear(3, 1))
    assert plain[:2](vg.ones((1, 2))).shape == (1, 3) and isinstance(plain[:2], vg.nn.Sequential)


def test_members_by_name() -> None:
    model = vg.nn.Sequential(vg.nn.Linear(2, 3), vg.nn.BatchNorm1d(3))
    assert model.get_submodule("1") is model[1] and model.get_submodule("") is model
    assert model.get_parameter("0.weight") is model[0].weight
    assert model.get_buffer("1.running_mean") is model[1].running_mean
    assert [name for name, _ in model.named_children()] == ["0", "1"] and len(list(model.modules())) == 3
    with pytest.raises(DataError, match="no module '7'"):
        model.get_submodule("7")


def test_buffers_that_are_not_saved() -> None:
    module = vg.nn.Module()
    module.register_buffer("table", np.ones(3, np.float32))
    module.register_buffer("cache", np.ones(3, np.float32), persistent=False)
    module.register_parameter("scale", vg.ones((1,)))
    outer = vg.nn.Sequential(module)
    assert list(outer.state_dict()) == ["0.table", "0.scale"]
    assert [name for name, _ in outer.named_buffers()] == ["0.table", "0.cache"]


def test_freezing_and_types() -> None:
    model = vg.nn.Linear(2, 3).requires_grad_(False)
    assert not list(model.parameters())
    model.requires_grad_()
    assert len(list(model.parameters())) == 2
    model.double()
    assert model.weight.dtype is vg.float64 and model(np.ones((1, 2))).dtype is vg.float64
    model.half()
    assert model.weight.dtype is vg.float16 and model.weight.requires_grad
    assert len(list(model.parameters())) == 2
    with pytest.raises(DTypeError, match="float type"):
        model.to("int32")


def test_first_values_in_place() -> None:
    init = vg.nn.init
    vg.manual_seed(3)
    weight = vg.nn.parameter(vg.zeros((40, 60)))
    for call, std in (
        (lambda: init.kaiming_normal_(weight, nonlinearity="relu"), np.sqrt(2 / 60)),
        (lambda: init.kaiming_uniform_(weight, a=1.0, mode="fan_out"), np.sqrt(1 / 40)),
        (lambda: init.xavier_normal_(weight, gain=2.0), 2 * np.sqrt(2 / 100)),
        (lambda: init.trunc_normal_(weight, std=0.5), 0.5),
        (lambda: init.uniform_(weight, -1.0, 1.0), 1 / np.sqrt(3)),
    ):
        assert call() is weight and weight.requires_grad
        assert abs(weight.numpy().std() / std - 1) < 0.05 and abs(weight.numpy().mean()) < 0.1 * std
    init.trunc_normal_(weight, mean=1.0, std=2.0, a=0.0, b=1.5)
    assert 0.0 <= weight.numpy().min() < 0.1 and 1.4 < weight.numpy().max() <= 1.5
    init.orthogonal_(weight, gain=2.0)
    assert np.allclose(weight.numpy() @ weight.numpy().T, 4 * np.eye(40), atol=1e-4)
    tall = init.orthogonal_(vg.zeros((9, 2, 2)))
    assert np.allclose(tall.numpy().reshape(9, 4).T @ tall.numpy().reshape(9, 4), np.eye(4), atol=1e-5)
    init.sparse_(weight, 0.25)
    assert np.all((weight.numpy() == 0).sum(0) == 10)
    assert np.array_equal(init.eye_(vg.zeros((3, 2))), np.eye(3, 2, dtype=np.float32))
    x = vg.tensor(np.arange(24, dtype=np.float32).reshape(1, 4, 6))
    assert np.array_equal(vg.conv1d(x, init.dirac_(vg.zeros((4, 2, 3)), groups=2), padding=1, groups=2), x)
    assert init.calculate_gain("leaky_relu", 1.0) == pytest.approx(1.0)
    with pytest.raises(ShapeError, match="needs a matrix"):
        init.eye_(vg.zeros((3,)))
