"""Train on the 60,000 photographs of clothing of Fashion-MNIST, and be measured on its 10,000 official test images.

    python -m benchmarks.fashion --model lenet --device cpu
    python -m benchmarks.fashion --model resnet18 --peer torch            # PyTorch, eager, beside it
    python -m benchmarks.fashion --model lenet --held-out 10000           # while settings are chosen

After each epoch: the loss, the accuracy, the seconds. After the last one the exit status is 1 unless the accuracy has
reached the goal and no node was computed on the host. The accuracy that counts is that of the last epoch, not of the
best. With `--held-out` the last images of the training part take the place of the test images, which nothing is chosen
by, and nothing is recorded. Otherwise each epoch is a line in `--out`; `python -m benchmarks.curves` draws them.

The images are found by `vkgrad.data.fashion_mnist`: where Debian's package puts them, or in the folder VKGRAD_DATA.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import vkgrad as vg
from benchmarks.fashion_networks import network
from vkgrad import nn
from vkgrad.bench import results
from vkgrad.bench.training import driver

ROOT = Path(__file__).resolve().parents[1]
MEAN, DEVIATION = 72.94, 90.02  # of the pixels of the 60,000 training images
TEST_BATCH = 500
SHIFT = 2  # pixels, at most, either way

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Optimisers have PyTorch's names and arguments; the rate goes up and down in one cycle.

    goal       the accuracy on the official test images
    augment    images are shifted by up to two pixels and every other one is mirrored
    width      channels of the first layers of the residual network
    """

    goal: float
    epochs: int
    batch: int
    optimizer: str
    lr: float
    options: dict[str, Any] = field(default_factory=dict)
    augment: bool = False
    width: int = 0


RECIPES = {
    "mlp": Recipe(0.88, epochs=10, batch=128, optimizer="Adam", lr=2e-3),
    "lenet": Recipe(0.90, epochs=10, batch=128, optimizer="Adam", lr=3e-3),
    "resnet18": Recipe(
        0.92, epochs=8, batch=128, optimizer="SGD", lr=0.1, augment=True, width=64,
        options={"momentum": 0.9, "nesterov": True, "weight_decay": 5e-4},
    ),
}  # fmt: skip


class Trainer(Protocol):
    """A network that is being trained: vkgrad's, or a peer's."""

    contender: str
    device: str
    driver: str

    def step(self, images: Any, labels: Any) -> None:
        """One step of training, and of the schedule, on bytes (B, 28, 28) and labels (B,)."""

    def mean_loss(self) -> float:
        """The mean over the steps since it was asked last. It waits for the device."""

    def right(self, images: Array, labels: Array) -> int:
        """How many images the network classifies right, as it is used after training."""

    def counts(self) -> dict[str, int]:
        """What the framework counted since the beginning, if it counts."""


class Vkgrad:
    """vkgrad, with the whole step recorded."""

    contender = "vkgrad_jit"

    def __init__(self, name: str, recipe: Recipe, seed: int, steps: int) -> None:
        vg.manual_seed(seed)
        self.model = network(name, recipe.width)
        self.initial = {key: value.numpy() for key, value in self.model.state_dict().items()}
        self.optimizer = getattr(vg.optim, recipe.optimizer)(self.model, lr=recipe.lr, **recipe.options)
        self.schedule = vg.optim.OneCycleLR(self.optimizer, recipe.lr, total_steps=steps, cycle_momentum=False)
        self.loss = vg.metrics.Mean()
        self.device, self.driver = vg.default_device().name, driver()
        self.before = vg.stats()
        self._train, self._classify = vg.jit(self._step), vg.jit(self._classes)

    @staticmethod
    def _input(images: vg.Tensor) -> vg.Tensor:
        """Bytes (B, H, W) as floats (B, 1, H, W) with mean 0 and deviation 1."""
        return ((images.astype(vg.float32) - MEAN) / DEVIATION)[:, None]

    def _step(self, images: vg.Tensor, labels: vg.Tensor) -> None:
        def loss_of(model: nn.Module) -> vg.Tensor:
            return nn.cross_entropy(model(self._input(images)), labels)

        loss, gradients = vg.value_and_grad(loss_of)(self.model)
        self.optimizer.update(self.model, gradients)
        self.loss.update(loss)

    def _classes(self, images: vg.Tensor) -> vg.Tensor:
        return vg.argmax(self.model(self._input(images)), axis=1)

    def step(self, images: Any, labels: Any) -> None:
        self._train(images, labels)
        self.schedule.step()

    def mean_loss(self) -> float:
        mean = self.loss.compute()
        self.loss.reset()
        return mean

    def right(self, images: Array, labels: Array) -> int:
        self.model.eval()
        count = int((self._classify(images).numpy() == labels).sum())
        self.model.train()
        return count

    def counts(self) -> dict[str, int]:
        after = vg.stats()
        names = ("host_nodes", "submissions", "shaders_compiled", "bytes_allocated")
        return {name: getattr(after, name) - getattr(self.before, name) for name in names}


class Augmentation:
    """Images (B, H, W) shifted and mirrored at random, the same for the same seed and order of calls."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.Generator(np.random.Philox(seed))

    def __call__(self, images: Array, labels: Array) -> tuple[Array, Array]:
        count, *extents = images.shape
        padded = np.pad(images, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, extents, (1, 2))
        down, across = self.generator.integers(0, 2 * SHIFT + 1, (2, count))
        moved = windows[np.arange(count), down, across]
        mirrored = self.generator.random(count) < 0.5
        moved[mirrored] = moved[mirrored, :, ::-1]
        return moved, labels


def loader(train: vg.data.Split, recipe: Recipe, seed: int, as_numpy: bool) -> vg.data.DataLoader:
    """The batches of training, as bytes: a quarter of what floats are to move. The device makes floats of them."""
    return vg.data.DataLoader(
        train.images, train.labels, batch_size=recipe.batch, seed=seed, drop_last=True, as_numpy=as_numpy,
        transform=Augmentation(seed) if recipe.augment else None,
    )  # fmt: skip


def epochs(trainer: Trainer, batches: vg.data.DataLoader, test: vg.data.Split, count: int) -> Iterator[dict[str, Any]]:
    """Train for `count` epochs, and tell of each when it is over."""
    for number in range(1, count + 1):
        began = time.perf_counter()
        for images, labels in batches:
            trainer.step(images, labels)
        loss = trainer.mean_loss()
        trained = time.perf_counter()
        parts = (slice(first, first + TEST_BATCH) for first in range(0, len(test), TEST_BATCH))
        right = sum(trainer.right(test.images[part], test.labels[part]) for part in parts)
        yield {
            "epoch": number, "loss": round(loss, 5), "accuracy": round(right / len(test), 5),
            "epoch_s": round(trained - began, 4), "test_s": round(time.perf_counter() - trained, 4),
            **trainer.counts(),
        }  # fmt: skip


def complaints(last: dict[str, Any], goal: float) -> list[str]:
    """What the last epoch of a run must not leave behind."""
    found = []
    if not last["accuracy"] >= goal:
        found.append(f"accuracy {last['accuracy']:.4f} after epoch {last['epoch']}, the goal is {goal:.4f}")
    if last.get("host_nodes"):
        found.append(f"{last['host_nodes']} nodes were computed on the host")
    return found


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fashion", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", choices=RECIPES, default="lenet")
    parser.add_argument("--device", default="", help="cpu, or the index or a part of the name of a Vulkan device")
    parser.add_argument("--epochs", type=int, default=0, help="unless given, those of the model's recipe")
    parser.add_argument("--batch", type=int, default=0, help="images in one step; unless given, the recipe's")
    parser.add_argument("--lr", type=float, default=0.0, help="the highest learning rate; unless given, the recipe's")
    parser.add_argument("--width", type=int, default=0, help="of resnet18; unless given, 64")
    parser.add_argument("--augment", choices=("yes", "no"), help="unless given, the recipe's")
    parser.add_argument("--goal", type=float, default=0.0, help="unless given, the recipe's")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the order of the images and their shifts")
    parser.add_argument("--held-out", type=int, default=0, metavar="N", help="measure on the last N training images")
    parser.add_argument("--peer", choices=("torch",), help="then train the same network with the same batches there")
    parser.add_argument("--peer-epochs", type=int, default=0, help="stop the peer earlier, when only time is asked for")
    parser.add_argument("--out", type=Path, default=ROOT / "bench_results")
    return parser.parse_args(given)


def recipe_of(chosen: argparse.Namespace) -> Recipe:
    given = {name: getattr(chosen, name) for name in ("epochs", "batch", "lr", "width", "goal")}
    changed = {name: value for name, value in given.items() if value}
    if chosen.augment:
        changed["augment"] = chosen.augment == "yes"
    return replace(RECIPES[chosen.model], **changed)


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    recipe = recipe_of(chosen)
    if chosen.device:
        vg.set_device(chosen.device)
    data = vg.data.fashion_mnist()
    train, test = data.train, data.test
    if chosen.held_out:
        kept = len(train) - chosen.held_out
        train, test = train.first(kept), vg.data.Split(train.images[kept:], train.labels[kept:])
    steps = recipe.epochs * (len(train) // recipe.batch)
    run = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    conditions = {
        "benchmark": "fashion", "arm": "epoch", "run": run, "model": chosen.model,
        "shape": [recipe.batch, *train.images.shape[1:]], "dtype": "float32", "seed": chosen.seed,
        "train": len(train), "test": len(test), "recipe": asdict(recipe), "epochs": recipe.epochs,
        "processors": len(os.sched_getaffinity(0)),
    }  # fmt: skip
    commit = results.commit()

    def train_with(trainer: Trainer, count: int) -> dict[str, Any]:
        sizes = f"{len(train):,} images, {len(test):,} to test on"
        print(f"{chosen.model}: {trainer.contender} on {trainer.device}, {sizes}", flush=True)
        batches = loader(train, recipe, chosen.seed, as_numpy=trainer is not ours)
        last: dict[str, Any] = {}
        for last in epochs(trainer, batches, test, count):
            shown = " ".join(f"{name} {value}" for name, value in last.items())
            print(f"  {shown}", flush=True)
            who = {"contender": trainer.contender, "device": trainer.device, "driver": trainer.driver}
            if not chosen.held_out:
                results.append(chosen.out, trainer.device, [{"commit": commit, **who, **conditions, **last}])
        return last

    ours = Vkgrad(chosen.model, recipe, chosen.seed, steps)
    wrong = complaints(train_with(ours, recipe.epochs), recipe.goal)
    if chosen.peer:
        from benchmarks.fashion_torch import Torch

        peer = Torch(chosen.model, recipe, ours.initial, steps, on_gpu=ours.device != "cpu")
        train_with(peer, chosen.peer_epochs or recipe.epochs)
    for one in wrong:
        print(f"fashion: {chosen.model}: {one}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
