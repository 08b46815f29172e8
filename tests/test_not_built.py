"""A folder with vkgrad's source and no compiled part, in which a program is started, is named with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vkgrad
from vkgrad.codegen import render


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has."""
    folder = tmp_path_factory.mktemp("clone")
    package = Path(vkgrad.__file__).parent
    shutil.copytree(package, folder / "vkgrad", ignore=shutil.ignore_patterns("*.so", "__pycache__", "native"))
    shutil.copytree(render.template_folder(), folder / "templates")
    return folder


def started(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder with the other packages, and without what an editable installation adds at start."""
    packages = str(Path(np.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "line", ["vg.ones((2,)).numpy()", "vg.data.DataLoader", "vg.devices()", "vg.set_device('cpu')"]
)
def test_a_program_is_told(source: Path, line: str) -> None:
    done = started(source, "-c", f"import vkgrad as vg; {line}")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"NotBuiltError: vkgrad is not built in {source}" in last and "script/bootstrap" in last


def test_the_doctor_says_it_once(source: Path) -> None:
    done = started(source, "-m", "vkgrad", "doctor")
    assert done.returncode == 1, done.stderr
    broken = [line for line in done.stdout.splitlines() if line.startswith("BROKEN")]
    assert len(broken) == 1 and "native runtime" in broken[0] and str(source) in broken[0], done.stdout


def test_where_it_is_built_it_is_found(source: Path) -> None:
    from vkgrad.runtime import _native

    shutil.copy(_native.__file__, source / "vkgrad" / "runtime")
    try:
        done = started(source, "-c", "from vkgrad.runtime import _native; print(_native.__file__)")
        assert Path(done.stdout.strip()).is_relative_to(source), done.stderr
    finally:
        (source / "vkgrad" / "runtime" / Path(_native.__file__).name).unlink()
