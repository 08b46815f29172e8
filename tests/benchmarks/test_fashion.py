"""Training to an accuracy: reached on both devices, refused where nothing can be learned, recorded and drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import curves, fashion, tables
from benchmarks.fashion_networks import network
from tests.stripes import write_stripes
from vkgrad.config import config

NEEDED = {
    "commit", "device", "driver", "benchmark", "model", "shape", "dtype", "contender", "arm", "run", "seed", "recipe",
    "train", "test", "epoch", "epochs", "loss", "accuracy", "epoch_s", "test_s", "processors",
}  # fmt: skip


def train(folder: Path, *arguments: str, device: str = "cpu") -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, on the data set in `folder`; lines go to `folder`."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.fashion", "--batch", "32", "--out", str(folder)]
    environment = {**os.environ, "VKGRAD_DATA": str(folder), "VKGRAD_DEVICE": device, "VKGRAD_HOST": "raise"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, cwd=curves.ROOT, timeout=300
    )


@pytest.mark.device
@pytest.mark.parametrize(("model", "device"), [("mlp", "cpu"), ("mlp", ""), ("lenet", "cpu"), ("lenet", "")])
def test_the_goal_is_reached_and_every_epoch_is_a_line(tmp_path: Path, model: str, device: str) -> None:
    done = train(write_stripes(tmp_path), "--model", model, "--epochs", "3", device=device)
    assert done.returncode == 0, done.stderr
    lines = tables.read(tmp_path)
    assert [line["epoch"] for line in lines] == [1, 2, 3] and len({line["run"] for line in lines}) == 1
    for line in lines:
        assert set(line) >= NEEDED and line["host_nodes"] == 0 and line["epoch_s"] > 0
        assert (line["train"], line["test"], line["shape"]) == (640, 500, [32, 28, 28])
    assert lines[-1]["accuracy"] >= fashion.RECIPES[model].goal
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert f"accuracy {lines[-1]['accuracy']}" in done.stdout


def test_a_residual_network_trains(tmp_path: Path) -> None:
    more = ("--width", "4", "--epochs", "2", "--goal", "0.5", "--augment", "no")
    done = train(write_stripes(tmp_path), "--model", "resnet18", *more)
    assert done.returncode == 0, done.stderr
    assert tables.read(tmp_path)[-1]["recipe"]["width"] == 4
    assert fashion.RECIPES["resnet18"].augment


def test_what_cannot_be_learned_fails_the_goal_and_is_recorded_all_the_same(tmp_path: Path) -> None:
    done = train(write_stripes(tmp_path, shuffled=True), "--model", "mlp", "--epochs", "3")
    assert done.returncode == 1
    assert "after epoch 3, the goal is 0.88" in done.stderr
    assert [line["accuracy"] < 0.3 for line in tables.read(tmp_path)] == [True] * 3


def test_held_out_images_leave_no_line(tmp_path: Path) -> None:
    moved = ("--augment", "yes", "--goal", "0.2")
    done = train(write_stripes(tmp_path), "--model", "mlp", "--epochs", "3", "--held-out", "100", *moved)
    assert done.returncode == 0, done.stderr
    assert "540 images, 100 to test on" in done.stdout and not list(tmp_path.glob("*.jsonl"))


def test_what_is_complained_about() -> None:
    good = {"epoch": 9, "accuracy": 0.9, "host_nodes": 0}
    assert fashion.complaints(good, 0.9) == []
    assert "the goal is 0.9" in fashion.complaints({**good, "accuracy": 0.8999}, 0.9)[0]
    assert fashion.complaints({**good, "accuracy": float("nan")}, 0.9)
    assert fashion.complaints({**good, "host_nodes": 1}, 0.9) == ["1 nodes were computed on the host"]


def test_images_are_moved_by_two_pixels_at_most_and_every_other_one_is_mirrored() -> None:
    images = np.random.default_rng(0).integers(1, 256, (64, 6, 6)).astype(np.uint8)
    labels = np.arange(64, dtype=np.int32)
    moved, kept = fashion.Augmentation(5)(images, labels)
    assert kept is labels and moved.shape == images.shape and moved.dtype == np.uint8
    around = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    found = []
    for number in range(64):
        places = [
            (down, across, step)
            for down in range(5)
            for across in range(5)
            for step in (1, -1)
            if np.array_equal(moved[number][:, ::step], around[number, down : down + 6, across : across + 6])
        ]
        assert len(places) == 1
        found += places
    assert {place[0] for place in found} == {place[1] for place in found} == set(range(5))
    assert 16 < sum(place[2] < 0 for place in found) < 48
    again, other = (fashion.Augmentation(seed)(images, labels)[0] for seed in (5, 6))
    assert np.array_equal(again, moved) and not np.array_equal(other, moved)


def test_the_residual_network_has_the_parameters_of_resnet_18() -> None:
    with config.override(device="cpu"):
        state = network("resnet18", 64).state_dict()
        small = network("resnet18", 4)(np.zeros((2, 1, 28, 28), np.float32))
    learned = [value for name, value in state.items() if "running" not in name and "num_batches" not in name]
    # 11,173,962 for three channels, as the networks for CIFAR-10 have; two fewer save 2 * 64 * 3 * 3.
    assert sum(value.size for value in learned) == 11_173_962 - 2 * 64 * 9
    assert small.shape == (2, 10)


@pytest.mark.parametrize(("model", "width"), [("mlp", 0), ("resnet18", 4)])
def test_pytorch_trains_the_same_network(model: str, width: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is a peer, which the suite does without")
    from benchmarks.fashion_torch import Torch

    recipe = replace(fashion.RECIPES[model], width=width, batch=16)
    generator = np.random.default_rng(1)
    batches = [
        (generator.integers(0, 256, (16, 28, 28)).astype(np.uint8), generator.integers(0, 10, 16).astype(np.int32))
        for _ in range(3)
    ]
    with config.override(device="cpu"):
        ours = fashion.Vkgrad(model, recipe, 0, 10)
        theirs = Torch(model, recipe, ours.initial, 10, on_gpu=False)
        # PyTorch's gradients in float32 are off by 1e-2 on some processors where channels are few.
        theirs.dtype = torch.float64
        theirs.model.double()
        for images, labels in batches:
            ours.step(images, labels)
            theirs.step(images, labels)
            np.testing.assert_allclose(ours.mean_loss(), theirs.mean_loss(), rtol=1e-4)


# ---- what is made of the lines
def line(accuracy: float, epoch: int = 1, epochs: int = 1, **more: object) -> dict[str, object]:
    recipe = {"goal": 0.9, "width": 0}
    return {
        "benchmark": "fashion", "commit": "abc", "device": "GPU", "model": "lenet", "contender": "vkgrad_jit",
        "shape": [128, 28, 28], "run": "1", "train": 60000, "test": 10000, "recipe": recipe, "epoch": epoch,
        "epochs": epochs, "accuracy": accuracy, "epoch_s": 10.0 / epoch, "host_nodes": 0, **more,
    }  # fmt: skip


def test_the_table_tells_what_was_missed_and_what_was_not_finished() -> None:
    assert "| LeNet-5 | GPU | **vkgrad** | 1 | 128 | 0.9100 | 0.9 met |" in curves.table([line(0.91)])
    assert "| **0.8900** | 0.9 missed |" in curves.table([line(0.89)])
    assert "| 0.9 missed |" in curves.table([line(0.91, host_nodes=1)])
    assert "| 1 of 2 | 128 | 0.9100 | 0.9 missed |" in curves.table([line(0.91, epochs=2)])
    assert "(the goal of 0.9 is missed)" in curves.sentence([line(0.89)])
    assert "LeNet-5 0.910 on GPU." in curves.sentence([line(0.91), line(0.95, contender="torch_eager")])


def test_the_newest_run_counts_even_if_it_is_the_worse_one_and_trials_do_not() -> None:
    (run,) = curves.newest([line(0.95), line(0.5, run="2"), line(0.99, train=640), {"benchmark": "products"}])
    assert run.last["accuracy"] == 0.5
    assert curves.table([]) == curves.sentence([]) == "No training has been recorded yet."


def test_time_is_that_of_the_epochs_after_the_first() -> None:
    (run,) = curves.newest([line(0.8, 1, 3), line(0.85, 2, 3), line(0.91, 3, 3)])
    assert run.epoch_s == pytest.approx((10 / 2 + 10 / 3) / 2) and run.is_met


def test_the_picture_is_of_the_lines_that_it_was_drawn_from(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("matplotlib", reason="pictures are an extra")
    path, picture = tmp_path / "2026-01-01-gpu.jsonl", tmp_path / "curve.png"
    given = ["--from", str(tmp_path), "--picture", str(picture)]
    lines = [line(0.8, 1, 2), line(0.91, 2, 2), line(0.9, 1, 2, contender="torch_eager"), line(0.88, model="mlp")]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert curves.main([*given, "--draw"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 100_000
    assert curves.main([*given, "--check"]) == 0
    path.write_text(path.read_text().replace("0.91", "0.92"))
    assert curves.main([*given, "--check"]) == 1
    assert "is stale" in capsys.readouterr().err


def test_the_picture_in_the_pages_is_of_what_was_recorded() -> None:
    assert curves.main(["--check"]) == 0
    assert curves.PICTURE.stat().st_size < 100_000
