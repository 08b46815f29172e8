"""The raced models and their training step in vkgrad: shared by the jitted and the un-jitted contender."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkgrad as vg
from benchmarks import cases, guards
from benchmarks.contenders.contender import Contender
from vkgrad import engine, nn
from vkgrad.cli.versions import version_of
from vkgrad.execution import synchronize


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
            parameter.assign(vg.tensor(weight))
        self.optimizer = vg.optim.SGD(self.model, lr=cases.LEARNING_RATE)
        self.loss_and_gradients = vg.value_and_grad(self._loss)

    @staticmethod
    def _loss(model: nn.Module, images: Any, labels: Any) -> vg.Tensor:
        return nn.functional.cross_entropy(model(images), labels)

    def step(self, images: Any, labels: Any) -> vg.Tensor:
        loss, gradients = self.loss_and_gradients(self.model, images, labels)
        self.optimizer.update(self.model, gradients)
        return loss


def is_resident(tensor: vg.Tensor) -> bool:
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
        self.images, self.labels = vg.tensor(data.images[0]), vg.tensor(data.labels[0])
        vg.eval(self.images, self.labels, self.training.model)
        self.last: Any = None
        self.device = vg.default_device().name
        self.versions = {"vkgrad": version_of("vkgrad")}

    def loss(self) -> float:
        return float(self.last)

    def wait(self) -> None:
        synchronize()

    def placement(self, steps: int) -> dict[str, Any]:
        with vg.counting() as counts:
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


def driver() -> str:
    """The driver of the default device with its version, as the driver says it."""
    info = getattr(vg.default_device(), "info", None)
    return f"{info['driver_name']} {info['driver_info']}" if info else f"NumPy {np.__version__}"
