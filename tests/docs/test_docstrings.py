"""Examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import vkgrad

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(vkgrad.__path__, "vkgrad.")
    if module.name not in ("vkgrad.__main__", "vkgrad.runtime._native")
)


def with_examples() -> list[str]:
    folder = Path(vkgrad.__file__).parent
    paths = {name: folder.joinpath(*name.split(".")[1:]) for name in MODULES}
    return [
        name
        for name, path in paths.items()
        if ">>> " in (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    ]


@pytest.mark.device
@pytest.mark.parametrize("name", with_examples())
def test_examples_in(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples() -> None:
    assert len(with_examples()) > 5
