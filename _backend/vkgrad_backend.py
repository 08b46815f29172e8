"""The PEP 517 backend: scikit-build-core, with Kompute's C++ source brought in first.

Kompute is on the package index as the sdist `kp`, so pip itself fetches it, from wherever pip is set up to look, and
this file names no host. Its digest is checked. Our own sdist carries the source: building from that fetches nothing.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403  -- the hooks that are not wrapped below

NAME, VERSION = "kp", "0.9.0"
SHA256 = "98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949"
THIRD_PARTY = Path(__file__).resolve().parents[1] / "third_party"
SOURCE = THIRD_PARTY / f"{NAME}-{VERSION}"

Settings = dict[str, Any] | None


def download(folder: Path) -> Path:
    """Let pip fetch the sdist into `folder`; returns its path after checking the digest."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", NAME, "--dest", str(folder), f"{NAME}=={VERSION}"]
    # An outer pip hands its backend-path on in these variables (the second name is that of pip before 23.3); the inner
    # one would look for kp's backend in there.
    outer = ("_PYPROJECT_HOOKS_", "PEP517_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(outer)}
    try:
        subprocess.run(command, env=environment, check=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(
            f"pip could not download Kompute's source ({NAME}=={VERSION}), which vkgrad is built on: "
            f"check the connection or pip's index settings, or unpack that sdist into {SOURCE} yourself"
        ) from error
    sdist = folder / f"{NAME}-{VERSION}.tar.gz"
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    if digest != SHA256:
        raise RuntimeError(f"{sdist.name} has sha256 {digest}, not {SHA256}: it is not the release vkgrad was made for")
    return sdist


def bring_in_kompute() -> None:
    """Make sure that `third_party/kp-0.9.0` holds Kompute's source."""
    if (SOURCE / "src" / "Sequence.cpp").exists():
        return
    THIRD_PARTY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=THIRD_PARTY) as folder:
        with tarfile.open(download(Path(folder))) as sdist:
            # Early patch releases of Python 3.11 have no filter; the digest vouches for the archive there.
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            sdist.extractall(folder, **safe)
        try:
            os.replace(Path(folder) / SOURCE.name, SOURCE)  # whole or not at all
        except OSError:
            if not (SOURCE / "src" / "Sequence.cpp").exists():  # another build was first
                raise


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    bring_in_kompute()
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    bring_in_kompute()
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    bring_in_kompute()
    return _build.build_sdist(sdist_directory, config_settings)
