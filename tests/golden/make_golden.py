"""Write the golden files from PyTorch, computed in double precision from float32 inputs.

Run it in an environment of its own, where PyTorch is; the tests need only the files:

    python -m venv golden && golden/bin/pip install torch==2.13.0 safetensors numpy
    golden/bin/python -m tests.golden.make_golden

`lenet_step.npz` is one SGD step of LeNet-5: the loss before and after, each parameter's gradient (a lattice of it
where it is large) and the gradient's norm, and two weighted sums of each updated parameter. `trainings.npz` has the
losses of the trainings in `both.py` and the state dicts that they end with. The others hold what
`cases.py` lists: parameters after some steps of each optimiser, learning rates of each schedule, values and gradients
of each loss and of each layer, and what each layer has learnt after twenty steps. `functions.npz` holds what
`functions.py` lists: for each function its value, its gradient and its second derivative, one after the other.
`state.safetensors` is the state dict of one of each layer, as PyTorch saves it. `names.json` lists PyTorch's public
names and their arguments. With a path as its argument this program reads such a file that vkgrad has written.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.golden import cases
from tests.golden import functions as listed
from tests.golden.both import TRAINING_STEPS, TRAININGS, networks, training
from tests.golden.patterns import Array, chirp, lenet_batch, lenet_weights, sampled, waves

LEARNING_RATE = 0.1


def double(array: Array) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(array))
    return tensor.double() if tensor.is_floating_point() else tensor.long()


def lenet_step() -> dict[str, Array]:
    model = networks(nn).lenet().double()
    model.load_state_dict({name: double(value) for name, value in lenet_weights().items()})
    x, y = map(double, lenet_batch())
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    results = {"loss": loss.detach().numpy(), "learning_rate": np.array(LEARNING_RATE)}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.numpy()
        results[f"gradient/{name}"] = sampled(gradient).astype(np.float32)
        results[f"norm/{name}"] = np.array(np.linalg.norm(gradient))
    optimiser.step()
    for name, parameter in model.named_parameters():
        updated = parameter.detach().numpy()
        results[f"updated/{name}"] = np.array([updated.sum(), (updated * waves(updated.shape, 1.0, 1.1)).sum()])
    results["loss_after"] = nn.functional.cross_entropy(model(x), y).detach().numpy()
    return results


def optimisers() -> dict[str, Array]:
    results = {}
    for name, (kind, arguments) in cases.OPTIMISERS.items():
        parameter = nn.Parameter(double(cases.start()))
        optimiser = getattr(torch.optim, kind)([parameter], **arguments)
        for step in range(cases.STEP_COUNT):
            parameter.grad = double(cases.gradient(step))
            optimiser.step()
        results[name] = parameter.detach().numpy()
    for name, options in cases.LBFGS.items():
        parameter = nn.Parameter(double(cases.start()))
        optimiser = torch.optim.LBFGS([parameter], **options)

        def closure(parameter=parameter, optimiser=optimiser):
            optimiser.zero_grad()
            loss = cases.valley(parameter)
            loss.backward()
            return loss

        for _ in range(cases.STEP_COUNT):
            optimiser.step(closure)
        results[name] = parameter.detach().numpy()
    for name, (kind, arguments) in cases.SCHEDULES.items():
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
        schedule = getattr(torch.optim.lr_scheduler, kind)(optimiser, **arguments)
        rates = []
        for _ in range(cases.EPOCH_COUNT):
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step()
        results[f"schedule {name}"] = np.array(rates)
    scheduler = SimpleNamespace(**vars(torch.optim.lr_scheduler), SWALR=torch.optim.swa_utils.SWALR)
    for name, composed in {**cases.COMPOSITIONS, "plateau": None}.items():
        optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
        plateau = scheduler.ReduceLROnPlateau(optimiser, **cases.PLATEAU)
        schedule = composed(scheduler, optimiser) if composed else plateau
        rates = []
        for value in cases.PLATEAU_VALUES:
            rates.append(optimiser.param_groups[0]["lr"])
            optimiser.step()
            schedule.step(*[value] * (composed is None))
        results[f"schedule {name}"] = np.array(rates)
    for name, (rule, cycle) in cases.CYCLES.items():
        (kind, arguments), (schedule_kind, options) = cases.OPTIMISERS[rule], cases.SCHEDULES[cycle]
        parameter = nn.Parameter(double(cases.start()))
        optimiser = getattr(torch.optim, kind)([parameter], **arguments)
        schedule = getattr(scheduler, schedule_kind)(optimiser, **{**options, "cycle_momentum": True})
        for step in range(cases.CYCLE_STEPS):
            parameter.grad = double(cases.gradient(step))
            optimiser.step()
            if step < cases.CYCLE_STEPS - 1:
                schedule.step()
        results[name] = parameter.detach().numpy()
    for name, (rule, own) in cases.GROUPS.items():
        kind, arguments = cases.OPTIMISERS[rule]
        both = [nn.Parameter(double(cases.start())) for _ in range(2)]
        optimiser = getattr(torch.optim, kind)([{"params": both[:1]}, {"params": both[1:], **own}], **arguments)
        for step in range(cases.STEP_COUNT):
            for parameter in both:
                parameter.grad = double(cases.gradient(step))
            optimiser.step()
        results[name] = np.stack([parameter.detach().numpy() for parameter in both])
    return results


def trainings() -> dict[str, Array]:
    results = {}
    for name in TRAININGS:
        model, step, schedule = training(name, nn, torch.optim)
        model.double()
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.copy_(double(chirp(tuple(parameter.shape), 0.5, 0.5 + number)))
        values = []
        for number in range(TRAINING_STEPS):
            values.append(step(*map(double, cases.batch(name, number))).item())
            if number < TRAINING_STEPS - 1:
                schedule.step()
        results[f"{name}/losses"] = np.array(values)
        results |= {f"{name}/{key}": tensor.numpy() for key, tensor in model.state_dict().items()}
    return {key: value.astype(np.float32) for key, value in results.items()}


def losses() -> dict[str, Array]:
    results = {}
    for name, (function, x, y, arguments) in cases.LOSSES.items():
        options = {k: double(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        inputs = double(x).requires_grad_()
        value = getattr(nn.functional, function)(inputs, double(y), **options)
        value.sum().backward()
        results[name] = value.detach().numpy()
        results[f"{name}/gradient"] = inputs.grad.numpy()
    for name, (function, differentiated, others, arguments) in cases.LOSSES_OF_MANY.items():
        options = {k: double(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        tensors = [double(x).requires_grad_() for x in differentiated]
        inputs = [tensors[0].log_softmax(-1)] if function == "ctc_loss" else tensors  # its gradient assumes that
        value = getattr(nn.functional, function)(*inputs, *map(double, others), **options)
        value.sum().backward()
        results[name] = value.detach().numpy()
        for number, tensor in enumerate(tensors):
            results[f"{name}/gradient {number}"] = tensor.grad.numpy()
    return results


def layers() -> dict[str, Array]:
    results = {}
    for name, (kind, arguments, shape) in cases.LAYERS.items():
        layer = getattr(nn, kind)(**arguments).double()
        for number, parameter in enumerate(layer.parameters()):
            parameter.data = double(chirp(tuple(parameter.shape), 0.8, 0.5 + number))
        x = double(chirp(shape, 1.3, 0.2)).requires_grad_()
        y = layer(*[x] * (2 if kind == "Bilinear" else 1))
        y.backward(double(chirp(tuple(y.shape), 1.0, 0.9)))
        results[name] = y.detach().numpy()
        results[f"{name}/gradient"] = x.grad.numpy()
        for key, parameter in layer.named_parameters():
            results[f"{name}/gradient {key}"] = parameter.grad.numpy()
        for key, buffer in layer.named_buffers():
            results[f"{name}/buffer {key}"] = buffer.numpy()
    return {key: value.astype(np.float32) for key, value in results.items()}


def sequences() -> dict[str, Array]:
    results = {}
    for name, (kind, arguments, _, call) in cases.SEQUENCES.items():
        layer = getattr(nn, kind)(**arguments).double()
        for number, parameter in enumerate(layer.parameters()):
            parameter.data = double(chirp(tuple(parameter.shape), 0.8, 0.5 + number))
        inputs = [
            tuple(map(double, given)) if isinstance(given, tuple) else double(given)
            for given in cases.sequence_inputs(name)
        ]
        differentiated = [x.requires_grad_() for x in cases.flat(inputs) if x.is_floating_point()]
        options = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
        options = {k: v.double() if torch.is_tensor(v) and v.is_floating_point() else v for k, v in options.items()}
        outputs = cases.flat(layer(*inputs, **options))
        total = sum((y * double(chirp(tuple(y.shape), 1.0, 0.9 + n))).sum() for n, y in enumerate(outputs))
        total.backward()
        for number, y in enumerate(outputs):
            results[f"{name}/output {number}"] = y.detach().numpy()
        for number, x in enumerate(differentiated):
            results[f"{name}/gradient {number}"] = x.grad.numpy()
        for key, parameter in layer.named_parameters():
            results[f"{name}/parameter {key}"] = parameter.grad.numpy()
    return {key: value.astype(np.float32) for key, value in {**results, **packed(), **parametrised()}.items()}


def layer_steps() -> dict[str, Array]:
    """A layer's parameters, buffers and input after twenty steps of SGD on the mean square of what it gives.

    The input of most layers is trained too, so that those without parameters have something to learn.
    """
    results = {}
    for name in cases.TRAINED_LAYERS:
        kind, arguments, inputs, call = cases.trained(name)
        layer = getattr(nn, kind)(**arguments).double()
        for number, parameter in enumerate(layer.parameters()):
            parameter.data = double(chirp(tuple(parameter.shape), 0.8, 0.5 + number))
        given = [tuple(map(double, x)) if isinstance(x, tuple) else double(x) for x in inputs]
        options = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
        options = {k: v.double() if torch.is_tensor(v) and v.is_floating_point() else v for k, v in options.items()}
        learnt = list(layer.parameters())
        trains_input = name in cases.LAYERS or not learnt
        if trains_input:
            x = nn.Parameter(given[0])
            given = [x if array is inputs[0] else other for array, other in zip(inputs, given, strict=True)]
            learnt.append(x)
        optimiser = torch.optim.SGD(learnt, lr=cases.LAYER_RATE)
        for _ in range(cases.STEP_COUNT):
            optimiser.zero_grad()
            sum((y * y).mean() for y in cases.flat(layer(*given, **options)) if y.is_floating_point()).backward()
            optimiser.step()
        results |= {f"{name}/{key}": value.numpy() for key, value in layer.state_dict().items()}
        if trains_input:
            results[f"{name}/input"] = x.detach().numpy()
    return {key: value.astype(np.float32) for key, value in results.items()}


def packed() -> dict[str, Array]:
    results = {}
    for name, (kind, arguments, shape, lengths) in cases.PACKED.items():
        layer = getattr(nn, kind)(**arguments).double()
        for number, parameter in enumerate(layer.parameters()):
            parameter.data = double(chirp(tuple(parameter.shape), 0.8, 0.5 + number))
        x = double(chirp(shape, 1.1, 0.2)).requires_grad_()
        batch_first = arguments.get("batch_first", False)
        given = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False)
        y, states = layer(given)
        outputs = [nn.utils.rnn.pad_packed_sequence(y, batch_first)[0], *cases.flat(states)]
        sum((y * double(chirp(tuple(y.shape), 1.0, 0.9 + n))).sum() for n, y in enumerate(outputs)).backward()
        for number, y in enumerate(outputs):
            results[f"{name}/output {number}"] = y.detach().numpy()
        results[f"{name}/gradient 0"] = x.grad.numpy()
        for key, parameter in layer.named_parameters():
            results[f"{name}/parameter {key}"] = parameter.grad.numpy()
    return results


def parametrised() -> dict[str, Array]:
    results = {}
    for name, (kind, arguments, norm, options, shape) in cases.PARAMETRISED.items():
        layer = getattr(nn, kind)(**arguments).double()
        layer = getattr(nn.utils.parametrizations, norm)(layer, **options)
        for number, tensor in enumerate(layer.state_dict().values()):
            tensor.copy_(double(chirp(tuple(tensor.shape), 0.8, 0.5 + number)))
        x = double(chirp(shape, 1.3, 0.2))
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
        for step in range(cases.STEP_COUNT):
            optimiser.zero_grad()
            y = layer(x)
            y.backward(double(chirp(tuple(y.shape), 1.0, 0.9 + step)))
            optimiser.step()
            if step == 0:
                results[f"{name}/output"] = y.detach().numpy()
        for key, tensor in layer.state_dict().items():
            results[f"{name}/{key}"] = tensor.numpy()
    return results


def everything() -> nn.Module:
    """A module with one of each layer that has a state, which holds chirps."""
    model = nn.Module()
    for name, (kind, arguments) in cases.STATEFUL.items():
        setattr(model, name, getattr(nn, kind)(**arguments))
    for name, (kind, arguments, norm, options, _) in cases.PARAMETRISED.items():
        layer = getattr(nn.utils.parametrizations, norm)(getattr(nn, kind)(**arguments), **options)
        setattr(model, name.replace(" ", "_"), layer)
    for number, tensor in enumerate(model.state_dict().values()):
        if tensor.is_floating_point():
            tensor.copy_(torch.from_numpy(chirp(tuple(tensor.shape), 1.0, 0.1 * number)))
        else:
            tensor.fill_(number)
    return model


def write_state(path: Path) -> None:
    """PyTorch's own file of the state of everything."""
    save_file(everything().state_dict(), path)


def read_state(path: str) -> None:
    """Read the file that vkgrad has written of the same state, strictly, and compare every element."""
    model, expected = everything(), everything().state_dict()
    for tensor in model.state_dict().values():
        tensor.zero_()
    model.load_state_dict(load_file(path), strict=True)
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
    print(f"{path}: {len(expected)} tensors, all equal")


def functions() -> dict[str, Array]:
    results = {}
    for name, function in listed.FUNCTIONS.items():
        inputs = [double(x).requires_grad_() for x in listed.draw(name)]
        value = function.torch(torch, *inputs)
        total = (value * double(listed.weights(tuple(value.shape), 0))).sum()
        gradients = torch.autograd.grad(total, inputs, create_graph=True)
        found = [value, *gradients]
        weighted = sum((g * double(listed.weights(tuple(g.shape), 1 + i))).sum() for i, g in enumerate(gradients))
        if not function.flat and weighted.requires_grad:
            second = torch.autograd.grad(weighted, inputs, allow_unused=True)
            found += [torch.zeros_like(x) if g is None else g for g, x in zip(second, inputs, strict=True)]
        else:
            found += [torch.zeros_like(x) for x in inputs]
        results[name] = np.concatenate([part.detach().numpy(force=True).reshape(-1) for part in found])
    return results


SPACES = {
    "nn": nn,
    "nn.functional": nn.functional,
    "nn.init": nn.init,
    "nn.utils": nn.utils,
    "nn.utils.parametrizations": nn.utils.parametrizations,
    "nn.utils.parametrize": nn.utils.parametrize,
    "nn.utils.rnn": nn.utils.rnn,
    "optim": torch.optim,
    "optim.lr_scheduler": torch.optim.lr_scheduler,
    "optim.swa_utils": torch.optim.swa_utils,
}


def names() -> dict[str, dict[str, str]]:
    """PyTorch's public names with their arguments, as one would write them, by where they are."""
    found: dict[str, dict[str, str]] = {}
    for space, module in SPACES.items():
        listed = getattr(module, "__all__", dir(module))
        public = [name for name in sorted(listed) if not name.startswith("_") and callable(getattr(module, name))]
        own = [name for name in public if getattr(getattr(module, name), "__module__", "torch").startswith("torch")]
        found[space] = {name: arguments(getattr(module, name)) for name in own}
    return found


def arguments(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # it is not written in Python
        return ""
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={_said(p.default)}" for p in plain)


def _said(default: Any) -> str:
    return getattr(default, "__name__", None) or repr(default)


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        return read_state(sys.argv[1])
    write_state(Path(__file__).with_name("state.safetensors"))
    Path(__file__).with_name("names.json").write_text(json.dumps(names(), indent=1) + "\n")
    for make in (lenet_step, trainings, optimisers, losses, layers, layer_steps, sequences, functions):
        path = Path(__file__).with_name(f"{make.__name__}.npz")
        np.savez_compressed(path, **make())
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
