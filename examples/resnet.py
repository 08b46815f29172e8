"""Train a small residual network with batch normalisation on real handwritten digits.

    python examples/resnet.py

Needs scikit-learn for its digits. Takes seconds, and ends in an assertion.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg
from vkgrad import nn

EPOCHS, BATCH, TRAIN, TEST = 3, 32, 960, 200


class Block(nn.Module):
    """Two 3x3 convolutions and the shortcut around them.

    Shapes: (B, C, H, W) -> (B, outputs, H / stride, W / stride).
    Source: He, Zhang, Ren and Sun (2015), arXiv:1512.03385, figure 2.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        y = self.bn2(self.conv2(vg.relu(self.bn1(self.conv1(x)))))
        return vg.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Images (B, 1, H, W) -> logits (B, 10)."""

    def __init__(self, width: int = 8) -> None:
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(Block(width, width), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def as_input(images: np.ndarray) -> np.ndarray:
    """Bytes (B, H, W) as floats (B, 1, H, W), about centred."""
    return (images[:, None].astype(np.float32) - 128) / 128


@vg.jit
def step(model: nn.Module, optimiser: vg.optim.Optimizer, images: vg.Tensor, labels: vg.Tensor) -> vg.Tensor:
    loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(images), labels))(model)
    optimiser.update(model, gradients)
    return loss


def main() -> None:
    vg.manual_seed(0)
    data = vg.data.digits()
    model = ResNet()
    optimiser = vg.optim.SGD(model, lr=0.1, momentum=0.9, weight_decay=1e-4)
    loader = vg.data.DataLoader(
        data.train.images[:TRAIN], data.train.labels[:TRAIN], batch_size=BATCH, drop_last=True,
        transform=lambda images, labels: (as_input(images), labels),
    )  # fmt: skip
    schedule = vg.optim.CosineAnnealingLR(optimiser, T_max=EPOCHS)
    for epoch in range(EPOCHS):
        for images, labels in loader:
            loss = step(model, optimiser, images, labels)
        schedule.step()
        print(f"epoch {epoch + 1}: loss of the last batch {float(loss):.4f}")

    model.eval()  # batch normalisation now uses the averages that it kept
    predicted = vg.argmax(model(as_input(data.test.images[:TEST])), axis=1)
    accuracy = (predicted.numpy() == data.test.labels[:TEST]).mean()
    print(f"test accuracy: {accuracy:.4f}")
    assert accuracy > 0.85, "the network did not learn the digits"


if __name__ == "__main__":
    main()
