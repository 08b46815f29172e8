"""The raced models and their training step in vkgrad, jitted and not."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad import engine, nn, optim
from vkgrad.bench import cases, guards, results
from vkgrad.bench.contender import Contender
from vkgrad.counters import counting
from vkgrad.execution import synchronize
from vkgrad.functional import value_and_grad
from vkgrad.jit import jit
from vkgrad.tensor import Tensor, eval, tensor


def model(name: str) -> nn.Sequential:
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class Training:
    """A model with its weights from `data`, an optimiser, and one step of both as a function."""

    def __init__(self, name: str, data: cases.Data) -> None:
        self.model = model(name)
        for parameter, weight in zip(self.model.parameters(), data.weights, strict=True):
            parameter.assign(tensor(weight))
        self.optimizer = optim.SGD(self.model, lr=cases.LEARNING_RATE)
        self.loss_and_gradients = value_and_grad(self._loss)

    @staticmethod
    def _loss(model: nn.Module, images: Any, labels: Any) -> Tensor:
        return nn.functional.cross_entropy(model(images), labels)

    def step(self, images: Any, labels: Any) -> Tensor:
        loss, gradients = self.loss_and_gradients(self.model, images, labels)
        self.optimizer.update(self.model, gradients)
        return loss


def is_resident(tensor: Tensor) -> bool:
    """Whether the elements are in memory of the device, with nothing left to upload."""
    value = engine.values.get(tensor.node)
    return value is not None and value.source is None and value.memory is not None


class VkgradContender(Contender):
    """What both ways of running vkgrad share. A subclass says how a step runs."""

    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        self.training = Training(case.model, data)
        self.batches = [
            (np.ascontiguousarray(images), np.ascontiguousarray(labels))
            for images, labels in zip(data.images, data.labels, strict=True)
        ]
        self.images, self.labels = tensor(data.images[0]), tensor(data.labels[0])
        eval(self.images, self.labels, self.training.model)
        self.last: Any = None
        self.device = engine.values[self.images.node].device.name  # where the batch is, not where it was meant to be
        self.versions = {"vkgrad": results.version()}

    def loss(self) -> float:
        return float(self.last)

    def wait(self) -> None:
        synchronize()

    def placement(self, steps: int) -> dict[str, Any]:
        with counting() as counts:
            for number in range(steps):
                if number % 2:
                    self.feed(number % cases.BATCH_COUNT)
                else:
                    self.step()
            self.wait()
        tensors = {"images": self.images, "labels": self.labels, "loss": self.last}
        named = {f"parameter {name}": tensor for name, tensor in self.training.model.named_parameters()}
        resident = {name: is_resident(tensor) for name, tensor in {**tensors, **named}.items()}
        plan, executable = self.plan()
        shaders = getattr(executable, "shaders", ())
        return {
            "resident": resident,
            "layers": guards.loaded_layers(),
            "counts": {name: value for name, value in vars(counts).items() if isinstance(value, int)},
            "dispatches": len(plan.kernels),
            "levels": plan.depth,
            "rows": sorted({shader.row for shader in shaders}),
            "driver": driver(),
        }

    def plan(self) -> tuple[Any, Any]:
        """The plan of a step on the resident batch and its executable, seen as the engine submits it."""
        seen: list[tuple[Any, Any]] = []

        def watch(plan: Any, recording: Any) -> None:
            if plan is not None:
                seen.append((plan, recording.job.executable))

        engine.on_flush.append(watch)
        try:
            self.step()
            self.wait()
        finally:
            engine.on_flush.remove(watch)
        return seen[-1]


class VkgradEager(VkgradContender):
    """The graph is built and flushed anew at every step."""

    def _run(self, images: Any, labels: Any) -> None:
        self.last = self.training.step(images, labels)
        eval(self.last, self.training.model)

    def step(self) -> None:
        self._run(self.images, self.labels)

    def feed(self, number: int) -> None:
        images, labels = self.batches[number]
        self._run(tensor(images), tensor(labels))


class VkgradJit(VkgradContender):
    """The step is recorded by `jit`."""

    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        super().__init__(case, data)
        self.fed_step = jit(self.training.step)
        from vkgrad.data import pin_memory  # here, so that the command line opens where vkgrad is not built

        self.batches = [(pin_memory(images), pin_memory(labels)) for images, labels in self.batches]
        # The resident batch is a tensor from outside, read in place: as an argument it would be copied at each call.
        self.resident_step = jit(lambda: self.training.step(self.images, self.labels))

    def step(self) -> None:
        self.last = self.resident_step()

    def feed(self, number: int) -> None:
        self.last = self.fed_step(*self.batches[number])


def driver() -> str:
    """The driver of the default device with its version, as the driver says it."""
    info = getattr(engine.default_device(), "info", None)
    return f"{info['driver_name']} {info['driver_info']}" if info else f"NumPy {np.__version__}"
