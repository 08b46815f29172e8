"""Train LeNet-5 on photographs of clothing (Fashion-MNIST) and measure it on the official test images.

    python examples/lenet.py                       # on software Vulkan a part of the images, a minute or two
    python examples/lenet.py --full --epochs 5     # everything, for a GPU
    python examples/lenet.py --device cpu --full   # everything, with NumPy

Writes the losses, a picture of their curve and a picture of some predictions to the folder `--out`. The last line is
the accuracy on the 10,000 test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import vkgrad as vg
from vkgrad import nn

SOFTWARE_SUBSET = 30_000  # images that software Vulkan on two cores trains on in about a minute
COUNTED_STEP = 10  # late enough that everything is compiled and allocated
TEST_BATCH = 500


def lenet() -> nn.Sequential:
    """LeNet-5, with ReLU and maximum pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def as_input(images: np.ndarray) -> np.ndarray:
    """Bytes (B, H, W) as floats (B, 1, H, W), about centred."""
    return (images[:, None].astype(np.float32) - 128) / 128


@vg.jit
def step(model: nn.Module, optimiser: vg.optim.Optimizer, images: vg.Tensor, labels: vg.Tensor) -> vg.Tensor:
    """One step of training: forward, backward and update, recorded once and replayed in one submission."""

    def loss_of(model: nn.Module) -> vg.Tensor:
        return nn.cross_entropy(model(images), labels)

    loss, gradients = vg.value_and_grad(loss_of)(model)
    optimiser.update(model, gradients)
    return loss


@vg.jit
def classify(model: nn.Module, images: vg.Tensor) -> vg.Tensor:
    """The most likely class of each image."""
    return vg.argmax(model(images), axis=1)


def train(model: nn.Module, data: vg.data.Split, epochs: int, batch: int, lr: float, seed: int) -> list[float]:
    """Train with Adam and return the loss of every step."""
    optimiser = vg.optim.Adam(model, lr=lr)
    loader = vg.data.DataLoader(
        data.images, data.labels, batch_size=batch, seed=seed, drop_last=True, progress=True,
        transform=lambda images, labels: (as_input(images), labels),
    )  # fmt: skip
    losses: list[float] = []
    counts = None
    for _ in range(epochs):
        in_flight = None  # reading a loss waits for its step, so each is read when the next step is under way
        for images, labels in loader:
            with vg.counting() as counting:
                loss = step(model, optimiser, images, labels)
                if in_flight is not None:
                    losses.append(float(in_flight))
                    loader.show(loss=round(losses[-1], 4))
            in_flight = loss
            if len(losses) <= COUNTED_STEP:
                counts = counting
        losses.append(float(in_flight))
    assert counts is not None
    print(
        f"one step: dispatches {counts.dispatches}, barriers {counts.barriers}, submissions {counts.submissions}, "
        f"bytes uploaded {counts.bytes_uploaded}, bytes downloaded {counts.bytes_downloaded}"
    )
    return losses


def predict(model: nn.Module, images: np.ndarray) -> np.ndarray:
    model.eval()
    loader = vg.data.DataLoader(images, batch_size=TEST_BATCH, shuffle=False, transform=as_input, progress="test")
    return np.concatenate([classify(model, batch).numpy() for (batch,) in loader])


def draw(losses: list[float], data: vg.data.Dataset, predicted: np.ndarray, out: Path) -> None:
    """Save the curve of the losses, and the first test images under what they were taken for."""
    try:
        import matplotlib
    except ImportError:
        print("no pictures: matplotlib is not installed; run `pip install matplotlib` to get them")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    window = max(1, len(losses) // 50)
    axes.plot(losses, color="0.8", label="each step")
    axes.plot(
        np.arange(window - 1, len(losses)), np.convolve(losses, np.ones(window) / window, "valid"), label="running mean"
    )
    axes.set(xlabel="step", ylabel="cross entropy", title="LeNet-5 on Fashion-MNIST", ylim=(0, None))
    axes.legend()
    figure.savefig(out / "lenet-loss.png", dpi=120, bbox_inches="tight")

    figure, places = pyplot.subplots(3, 8, figsize=(12, 5.5))
    for place, image, label, guess in zip(places.flat, data.test.images, data.test.labels, predicted, strict=False):
        place.imshow(image, cmap="gray_r")
        place.set_title(data.class_names[guess], fontsize=9, color="black" if guess == label else "red")
        if guess != label:
            place.set_xlabel(f"is {data.class_names[label]}", fontsize=8, color="red")
        place.set(xticks=[], yticks=[])
    figure.savefig(out / "lenet-predictions.png", dpi=120, bbox_inches="tight")
    print(f"pictures: {out / 'lenet-loss.png'} and {out / 'lenet-predictions.png'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train LeNet-5 on Fashion-MNIST.")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--full", action="store_true", help="train on all 60,000 images, whatever the device")
    amount.add_argument("--subset", type=int, metavar="N", help="train on the first N images")
    parser.add_argument("--epochs", type=int, default=1, help="how often to go through the images")
    parser.add_argument("--batch", type=int, default=64, help="images in one step")
    parser.add_argument("--device", help="cpu, or the index or a part of the name of a Vulkan device")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the order of the images")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate of Adam")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for losses and pictures")
    options = parser.parse_args()

    device = vg.default_device() if options.device is None else vg.set_device(options.device)
    data = vg.data.fashion_mnist()
    subset = options.subset
    if subset is None and device.software and not options.full:
        subset = SOFTWARE_SUBSET
        print(
            f"Vulkan runs in software here: only {subset:,} of {len(data.train):,} images are used; --full uses all. "
            "The first step compiles its shaders, which takes seconds."
        )
    images = data.train if subset is None else data.train.first(subset)
    print(f"{data.origin}: {len(images):,} images to train on, {len(data.test):,} to test on; device: {device.name}")

    vg.manual_seed(options.seed)
    model = lenet()
    print(model)
    losses = train(model, images, options.epochs, options.batch, options.lr, options.seed)
    predicted = predict(model, data.test.images)

    options.out.mkdir(parents=True, exist_ok=True)
    np.savetxt(options.out / "lenet-losses.txt", losses, fmt="%.9g")
    draw(losses, data, predicted, options.out)
    print(f"test accuracy: {(predicted == data.test.labels).mean():.4f}")


if __name__ == "__main__":
    main()
