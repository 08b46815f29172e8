"""The examples run to their end, where each asserts what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vkgrad.data import fashion_mnist
from vkgrad.errors import DataNotFoundError

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.device
@pytest.mark.parametrize("name", ["regression.py", "mlp.py"])
def test_example(name: str, tmp_path: Path) -> None:
    assert run(name, folder=tmp_path).strip()


def test_lenet_on_a_few_images(tmp_path: Path) -> None:
    try:
        fashion_mnist()
    except DataNotFoundError as error:
        pytest.skip(str(error))
    printed = run("lenet.py", "--subset", "3200", folder=tmp_path, VKGRAD_DEVICE="cpu")
    accuracy = re.fullmatch(r"test accuracy: (0\.\d{4})", printed.strip().splitlines()[-1])
    assert accuracy is not None, printed
    assert float(accuracy[1]) > 0.5


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"regression.py", "mlp.py", "lenet.py"}
