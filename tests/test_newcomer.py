"""A newcomer's first hour: train, keep the weights, read them without vkgrad, predict the same, go on another day.

The reader takes PyTorch's part: it knows the file's names and layouts as PyTorch has them, and NumPy. That PyTorch
itself reads such files is shown by `tests/test_pytorch_files.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.numpy import load_file

import vkgrad as vg
from vkgrad import nn

pytestmark = pytest.mark.device
README = Path(__file__).parents[1] / "README.md"

Weights = dict[str, np.ndarray]


def test_the_readme_from_its_first_line_to_the_same_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in re.findall(r"^```python\n(.*?)^```", README.read_text(), re.S | re.M):
        exec(compile(code, str(README), "exec", dont_inherit=True), names)
    weights = load_file("spirals.safetensors")
    hidden = names["points"]
    for layer in (0, 2):
        hidden = np.tanh(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    scores = hidden @ weights["4.weight"].T + weights["4.bias"]
    with vg.counting() as counts:
        predicted = names["model"](names["points"]).argmax(axis=1).numpy()
    assert np.array_equal(scores.argmax(1), predicted)
    assert np.mean(predicted == names["classes"]) > 0.99  # the spirals' first points are one
    assert counts.submissions == 1 and counts.host_nodes == 0


class LeNet(nn.Module):
    """As one writes it in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, padding=2)
        self.conv2 = nn.Conv2d(4, 8, 5)
        self.fc1 = nn.Linear(32, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x: Any) -> vg.Tensor:
        x = nn.functional.max_pool2d(nn.functional.relu(self.conv1(x), inplace=True), 2)
        x = nn.functional.max_pool2d(nn.functional.relu(self.conv2(x)), 2)
        return self.fc2(nn.functional.relu(self.fc1(x.flatten(1))))


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, padding: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(x, weight.shape[2:], (2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, weight) + bias[:, None, None]


def halved(x: np.ndarray) -> np.ndarray:
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).max((3, 5))


def elsewhere(weights: Weights, x: np.ndarray) -> np.ndarray:
    """The scores by the file alone."""
    x = halved(np.maximum(convolved(x, weights["conv1.weight"], weights["conv1.bias"], 2), 0))
    x = halved(np.maximum(convolved(x, weights["conv2.weight"], weights["conv2.bias"], 0), 0))
    x = np.maximum(x.reshape(len(x), -1) @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
    return x @ weights["fc2.weight"].T + weights["fc2.bias"]


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Stripes that lie and stripes that stand, (B, 1, 16, 16), in noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count).astype(np.int32)
    lines = np.sin(np.arange(16) * 1.5 + random.uniform(0, 6, (count, 1)))
    lying = np.broadcast_to(lines[:, :, None], (count, 16, 16))
    stripes = np.where(labels[:, None, None] == 0, lying, lying.swapaxes(1, 2))
    return (stripes + random.normal(0, 0.3, stripes.shape)).astype(np.float32)[:, None], labels


def test_a_lenet_is_trained_kept_read_elsewhere_and_goes_on(tmp_path: Path) -> None:
    images, labels = pictures(192, seed=0)
    shown, answers = pictures(40, seed=1)

    def run(epochs: int, checkpoint: Path) -> tuple[Any, LeNet]:
        vg.manual_seed(0)
        model = LeNet()
        optimizer = vg.optim.Adam(model.parameters(), lr=5e-3)
        history = vg.fit(
            model, optimizer, nn.CrossEntropyLoss(), vg.data.DataLoader(images, labels, batch_size=32),
            epochs=epochs, validation=vg.data.DataLoader(shown, answers, batch_size=40, shuffle=False),
            metrics=vg.metrics.accuracy, checkpoint=checkpoint, resume=True,
        )  # fmt: skip
        return history, model

    with vg.counting() as counts:
        history, model = run(4, tmp_path / "whole")
    assert counts.host_nodes == 0
    assert history[-1]["accuracy"] > 0.9 and history[-1]["validation_loss"] < history[0]["validation_loss"]
    run(2, tmp_path / "part")  # this day
    resumed, same = run(4, tmp_path / "part")  # and the next
    assert resumed.column("loss") == history.column("loss")

    vg.save(model.state_dict(), tmp_path / "lenet.safetensors", metadata={"format": "pt"})
    weights = load_file(tmp_path / "lenet.safetensors")
    assert set(weights) == set(same.state_dict())
    model.eval()
    with vg.counting() as counts, vg.no_grad():
        scores = model(shown)
        predicted = scores.argmax(1).numpy()
    assert counts.submissions == 1 and counts.host_nodes == 0
    assert np.array_equal(elsewhere(weights, shown).argmax(1), predicted)
    assert np.allclose(elsewhere(weights, shown), scores.numpy(), atol=1e-4)
    assert np.mean(predicted == answers) == pytest.approx(history[-1]["accuracy"])

    theirs = LeNet()  # and back, from what another program wrote
    theirs.load_state_dict(vg.load(tmp_path / "lenet.safetensors"))
    assert np.array_equal(theirs(shown).argmax(1).numpy(), predicted)
    weights["conv1.weight"] = weights["conv1.weight"][:, :, ::-1, ::-1]  # the reader is no judge unless it can say no
    assert not np.allclose(elsewhere(weights, shown), scores.numpy(), atol=1e-4)
