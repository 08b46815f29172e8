"""The networks that `benchmarks.fashion` trains, in vkgrad. The MLP and LeNet-5 are those of the races.

`benchmarks.fashion_torch` has the same ones in PyTorch, with the same names in their `state_dict`.
"""

from __future__ import annotations

from itertools import pairwise

import vkgrad as vg
from vkgrad import nn
from vkgrad.bench import training

CLASSES = 10


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and what they are added to.

    Shapes: (B, inputs, H, W) -> (B, outputs, H / stride, W / stride).
    Source: He, Zhang, Ren and Sun (2015), arXiv:1512.03385, figure 2.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        y = self.bn2(self.conv2(vg.relu(self.bn1(self.conv1(x)))))
        return vg.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """ResNet-18 for small images: its first convolution is 3x3 and keeps every pixel, and nothing is pooled after it.

    Shapes: (B, 1, H, W) -> (B, 10). `width` channels, then twice as many and half the pixels, and so on.
    Source: He, Zhang, Ren and Sun (2015), sections 4.1 (18 layers, a width of 64) and 4.2 (the beginning).
    """

    def __init__(self, width: int) -> None:
        self.conv1 = nn.Conv2d(1, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(BasicBlock(before, after, 1 + (before != after)), BasicBlock(after, after, 1))
            for before, after in pairwise(channels)
        )
        self.fc = nn.Linear(8 * width, CLASSES)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        x = vg.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def network(name: str, width: int) -> nn.Module:
    """A new network for images (B, 1, 28, 28). `width` is that of the residual one."""
    if name == "resnet18":
        return ResNet18(width)
    return nn.Sequential(nn.Flatten(), *training.model(name)) if name == "mlp" else training.model(name)
