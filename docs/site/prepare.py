"""Lay out what the site is made of: the pages of docs/, and a reference of every public name.

    python docs/site/prepare.py FOLDER

Links to files of the repository that are no pages become their names; tables of contents are added.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import vkgrad

DOCS = Path(__file__).resolve().parents[1]
SPACES = {
    "nn": "layers and losses",
    "nn.functional": "layers as functions",
    "nn.init": "first weights",
    "nn.utils": "what is done to parameters and gradients",
    "nn.utils.parametrize": "parameters that are computed from others",
    "nn.utils.parametrizations": "weight norm and spectral norm",
    "nn.utils.rnn": "sequences of different lengths",
    "optim": "optimisers and schedules",
    "optim.swa_utils": "averages of weights",
    "data": "data sets and loaders",
    "random": "random numbers and distributions",
    "distributions": "densities and samples of probability distributions",
    "inference": "Hamiltonian Monte Carlo",
    "linalg": "linear algebra",
    "fft": "Fourier transforms",
    "metrics": "how well it does",
    "onnx": "ONNX files, both ways",
    "sklearn": "estimators for scikit-learn",
    "viz": "drawings",
    "testing": "checks of gradients and values",
    "errors": "what can be raised",
}
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]*)(#[^)]*)?\)")


def public(module: ModuleType) -> dict[str, Any]:
    """The functions and classes that a module hands out."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {
        name: value
        for name, value in sorted(found.items())
        if (inspect.isclass(value) or callable(value))
        and getattr(value, "__module__", "").startswith("vkgrad")
        and value.__doc__
        and (module is vkgrad or value.__module__.startswith(module.__name__) or hasattr(module, "__all__"))
    }


def entries(space: str, names: dict[str, Any]) -> Iterator[str]:
    """A table of these names, then each with its docstring."""
    yield ".. autosummary::\n   :nosignatures:\n"
    yield from (f"   {space}.{name}" for name in names)
    yield ""
    for name, value in names.items():
        if inspect.isclass(value):
            yield f".. autoclass:: {space}.{name}\n   :members:\n"
        elif inspect.isfunction(value):
            yield f".. autofunction:: {space}.{name}\n"
        else:
            yield f".. autodata:: {space}.{name}\n   :no-value:\n"


def titled(words: str, line: str = "=") -> str:
    return f"{words}\n{line * len(words)}\n"


def reference(folder: Path) -> None:
    """Write a page for each name space, that of the package in sections by where things are defined."""
    folder.mkdir(parents=True)
    groups: dict[str, dict[str, Any]] = {}
    for name, value in public(vkgrad).items():
        groups.setdefault(value.__module__, {})[name] = value
    parts = [titled("vkgrad")]
    for module in sorted(groups, key=lambda name: (not name.startswith("vkgrad.functions"), name)):
        first = (import_module(module).__doc__ or module).strip().split("\n\n")[0].replace("\n", " ")
        parts += [titled(module.rpartition(".")[2].replace("_", " "), "-"), first.replace("`", "``"), ""]
        parts += entries("vkgrad", groups[module])
    (folder / "vkgrad.rst").write_text("\n".join(parts))
    for space, words in SPACES.items():
        module = import_module(f"vkgrad.{space}")
        lines = [titled(f"vkgrad.{space}: {words}"), *entries(f"vkgrad.{space}", public(module))]
        (folder / f"{space}.rst").write_text("\n".join(lines))
    (folder / "index.md").write_text(
        "# Reference\n\nEvery public name, from its docstring.\n\n```{toctree}\nvkgrad\n"
        + "\n".join(SPACES)
        + "\n```\n"
    )


def pages(folder: Path) -> None:
    """Copy the pages, with links that lead somewhere on the site."""
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.glob("tutorials/*.py")]):
        target = folder / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = LINK.sub(partial(_inside, path), path.read_text())
        target.write_text(text.replace("](decisions)", "](decisions/index.md)"))
    for picture in DOCS.glob("*.png"):
        shutil.copy(picture, folder)
    numbers = sorted(path.stem for path in (DOCS / "decisions").glob("*.md"))
    (folder / "decisions" / "index.md").write_text(
        "# Decisions\n\nWhy it is like this, and what would change it.\n\n```{toctree}\n"
        + "\n".join(numbers)
        + "\n```\n"
    )
    operations = folder / "operations.md"
    families = sorted(f"ops/{path.stem}" for path in (folder / "ops").glob("*.md"))
    operations.write_text(operations.read_text() + _contents("Families", families))
    index = folder / "index.md"
    top = [path.stem for path in sorted(folder.glob("*.md")) if path.stem != "index"]
    tutorials = [f"tutorials/{path.stem}" for path in sorted((folder / "tutorials").glob("*.py"))]
    index.write_text(
        index.read_text()
        + _contents("Tutorials", tutorials)
        + _contents("Pages", [*top, "decisions/index"])
        + _contents("Reference", ["api/index"])
    )


def _inside(page: Path, link: re.Match[str]) -> str:
    """A link to what is a page stays; of anything else its name is left."""
    target = (page.parent / link[2]).resolve()
    if target.suffix == ".md" and target.is_relative_to(DOCS):
        return link[0]
    return f"{link[1]} (`{target.relative_to(DOCS.parent)}`)"


def _contents(caption: str, names: list[str]) -> str:
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n" + "\n".join(names) + "\n```\n"


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages(folder)
    reference(folder / "api")
    for name in ("conf.py", "docstrings.py"):
        shutil.copy(Path(__file__).with_name(name), folder)
    shutil.copytree(Path(__file__).with_name("templates"), folder / "templates")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
