"""The raced models and their training step in PyTorch: shared by the three contenders that use it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from vkgrad.bench import cases
from vkgrad.bench.contender import Contender


def model(name: str) -> nn.Sequential:
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class TorchContender(Contender):
    """A model with its weights from `data` on the GPU if there is one. A subclass says how a step runs.

    The batches on the host are page-locked, so that their upload runs beside the host.
    """

    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True  # the fastest convolution it has for these shapes
        self.on_gpu = torch.cuda.is_available()
        self.place = torch.device("cuda" if self.on_gpu else "cpu")
        self.model = model(case.model).to(self.place)
        with torch.no_grad():
            for parameter, weight in zip(self.model.parameters(), data.weights, strict=True):
                parameter.copy_(torch.from_numpy(weight))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cases.LEARNING_RATE)
        host = [
            (torch.from_numpy(images.copy()), torch.from_numpy(labels.astype("int64")))
            for images, labels in zip(data.images, data.labels, strict=True)
        ]
        self.batches = [(x.pin_memory(), y.pin_memory()) for x, y in host] if self.on_gpu else host
        self.images, self.labels = (part.to(self.place, copy=True) for part in host[0])
        self.last = torch.zeros(())
        self.device = torch.cuda.get_device_name() if self.on_gpu else "cpu"
        self.versions = {"torch": torch.__version__}

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(images), labels)

    def train(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(images, labels)
        loss.backward()
        self.optimizer.step()
        self.last = loss.detach()

    def step(self) -> None:
        self.train(self.images, self.labels)

    def feed(self, number: int) -> None:
        images, labels = self.batches[number]
        self.train(images.to(self.place, non_blocking=True), labels.to(self.place, non_blocking=True))

    def loss(self) -> float:
        return float(self.last)

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()
