"""Every example runs and its own assertion holds; LeNet also writes what it promises, here from a made-up data set."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.stripes import write_stripes
from vkgrad.data import fashion_mnist
from vkgrad.errors import DataNotFoundError

EXAMPLES = Path(__file__).parent.parent / "examples"
SHORT = (
    "gan.py",
    "linear_regression.py",
    "logistic_regression.py",
    "mlp.py",
    "neural_ode.py",
    "pinn.py",
    "recommender.py",
    "regression.py",
    "reinforce.py",
    "resnet.py",
    "transformer.py",
    "vae.py",
)
ON_VULKAN = ("linear_regression.py", "mlp.py", "recommender.py", "regression.py")  # the rest is long in software


def _run(name: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SHORT)
def test_it_runs(name: str) -> None:
    assert _run(name, VKGRAD_DEVICE="cpu")


UNTRAINED = """
import runpy, sys
from vkgrad.optim import Optimizer
Optimizer.update = Optimizer.step = lambda self, *arguments: None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("name", ["mlp.py", "pinn.py", "recommender.py", "transformer.py"])
def test_it_fails_where_nothing_is_learned(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", UNTRAINED, str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VKGRAD_DEVICE": "cpu"})
    assert "AssertionError: the " in done.stderr


@pytest.mark.device
@pytest.mark.parametrize("name", ON_VULKAN)
def test_it_runs_on_vulkan(name: str) -> None:
    assert _run(name)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SHORT, "lenet.py"}


@pytest.fixture
def stripes(tmp_path: Path) -> Path:
    return write_stripes(tmp_path)


def test_lenet_trains_and_shows_what_it_did(stripes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    printed = _run("lenet.py", "--full", "--epochs", "3", "--batch", "32", "--out", str(out), VKGRAD_DATA=str(stripes))
    lines = printed.splitlines()
    found = re.fullmatch(r"test accuracy: (0\.\d{4}|1\.0000)", lines[-1])
    assert found and float(found[1]) > 0.9, lines[-1]
    assert re.search(
        r"one step: dispatches \d+, barriers \d+, submissions 1, bytes uploaded \d+, bytes downloaded 4$", printed, re.M
    )
    assert len(np.loadtxt(out / "lenet-losses.txt")) == 3 * 640 // 32
    assert {path.name for path in out.iterdir()} == {"lenet-losses.txt", "lenet-loss.png", "lenet-predictions.png"}


def test_lenet_takes_a_part_and_repeats_itself(stripes: Path, tmp_path: Path) -> None:
    losses = []
    for run in ("first", "second"):
        arguments = ("--subset", "256", "--seed", "3", "--out", str(tmp_path / run))
        assert "256 images to train on" in _run("lenet.py", *arguments, VKGRAD_DATA=str(stripes))
        losses.append((tmp_path / run / "lenet-losses.txt").read_text())
    assert losses[0] == losses[1]
    assert len(losses[0].splitlines()) == 4


def test_lenet_has_the_same_losses_on_both_devices(stripes: Path, tmp_path: Path) -> None:
    def losses(device: str, seed: str) -> np.ndarray:
        out = tmp_path / f"{device}{seed}"
        _run(
            "lenet.py",
            "--full",
            "--batch",
            "32",
            "--seed",
            seed,
            "--out",
            str(out),
            VKGRAD_DATA=str(stripes),
            VKGRAD_DEVICE=device,
        )
        return np.loadtxt(out / "lenet-losses.txt")

    on_cpu = losses("cpu", "0")
    assert len(on_cpu) == 20
    np.testing.assert_allclose(losses("", "0"), on_cpu, rtol=1e-4)
    assert np.abs(losses("cpu", "1") / on_cpu - 1).max() > 1e-2  # what another beginning looks like


def test_lenet_on_photographs(tmp_path: Path) -> None:
    try:
        fashion_mnist()
    except DataNotFoundError as error:
        pytest.skip(str(error))
    printed = _run("lenet.py", "--subset", "3200", "--out", str(tmp_path), VKGRAD_DEVICE="cpu")
    assert float(printed.split()[-1]) > 0.5


def test_lenet_without_matplotlib_says_so(stripes: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('hidden by the test')")
    arguments = ("--subset", "64", "--out", str(tmp_path / "out"))
    printed = _run(
        "lenet.py",
        *arguments,
        VKGRAD_DATA=str(stripes),
        PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    )
    assert "no pictures: matplotlib is not installed" in printed
    assert printed.splitlines()[-1].startswith("test accuracy: ")
