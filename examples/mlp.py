"""Train a small network on real handwritten digits, the PyTorch way: modules, `backward`, `step`.

    python examples/mlp.py

Needs scikit-learn for its digits. Takes seconds, and ends in an assertion.
"""

from __future__ import annotations

import vkgrad as vg
from vkgrad import nn

EPOCHS = 12


def main() -> None:
    vg.manual_seed(0)
    data = vg.data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimiser = vg.optim.Adam(model.parameters(), lr=0.005)
    loader = vg.data.DataLoader(
        data.train.images, data.train.labels, batch_size=64, drop_last=True,
        transform=lambda images, labels: (images.astype("float32") / 255, labels),
    )  # fmt: skip

    @vg.jit
    def step(images: vg.Tensor, labels: vg.Tensor) -> vg.Tensor:
        loss = nn.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    for epoch in range(EPOCHS):
        for images, labels in loader:
            loss = step(images, labels)
        print(f"epoch {epoch + 1:2}: loss of the last batch {float(loss):.4f}")

    predicted = vg.argmax(model(data.test.images.astype("float32") / 255), axis=1)
    accuracy = (predicted.numpy() == data.test.labels).mean()
    print(f"test accuracy: {accuracy:.4f}")
    assert accuracy > 0.85, "the network did not learn the digits"


if __name__ == "__main__":
    main()
