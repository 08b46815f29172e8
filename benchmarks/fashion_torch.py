"""The networks of `benchmarks.fashion` in PyTorch, eager: the same weights, batches, optimiser and rates."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.contenders import torch_models
from benchmarks.fashion_networks import CLASSES

if TYPE_CHECKING:
    from benchmarks.fashion import Array, Recipe


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(BasicBlock(before, after, 1 + (before != after)), BasicBlock(after, after, 1))
            for before, after in pairwise(channels)
        )
        self.fc = nn.Linear(8 * width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def network(name: str, width: int) -> nn.Module:
    if name == "resnet18":
        return ResNet18(width)
    return nn.Sequential(nn.Flatten(), *torch_models.model(name)) if name == "mlp" else torch_models.model(name)


class Torch:
    """PyTorch on the GPU, without TF32 and with cuDNN's own search, or on the processor."""

    contender = "torch_eager"

    def __init__(self, name: str, recipe: Recipe, initial: dict[str, Array], steps: int, on_gpu: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.place = torch.device("cuda" if on_gpu and torch.cuda.is_available() else "cpu")
        self.device = torch.cuda.get_device_name() if self.place.type == "cuda" else "cpu"
        self.driver = f"torch {torch.__version__}"
        self.model = network(name, recipe.width)
        self.model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in initial.items()})
        self.model.to(self.place)
        self.optimizer = getattr(torch.optim, recipe.optimizer)(self.model.parameters(), lr=recipe.lr, **recipe.options)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, recipe.lr, total_steps=steps, cycle_momentum=False
        )
        self.dtype = torch.float32
        self.losses: list[torch.Tensor] = []

    def _on_device(self, array: Array) -> torch.Tensor:
        host = torch.from_numpy(array)
        return host.pin_memory().to(self.place, non_blocking=True) if self.place.type == "cuda" else host

    def _input(self, images: Array) -> torch.Tensor:
        from benchmarks.fashion import DEVIATION, MEAN

        return ((self._on_device(images).to(self.dtype) - MEAN) / DEVIATION)[:, None]

    def step(self, images: Array, labels: Array) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self._input(images)), self._on_device(labels).to(torch.int64))
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss.detach())

    def mean_loss(self) -> float:
        mean = torch.stack(self.losses).mean().item()
        self.losses.clear()
        return mean

    def right(self, images: Array, labels: Array) -> int:
        self.model.eval()
        with torch.no_grad():
            classes = self.model(self._input(images)).argmax(1).cpu().numpy()
        self.model.train()
        return int((classes == labels).sum())

    def counts(self) -> dict[str, Any]:
        return {}
