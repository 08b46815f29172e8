"""What the site is laid out from: every page and every public name is there, and what a page would fetch is found."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import vkgrad

SITE = Path(__file__).parents[2] / "docs" / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepare = imported("prepare")
    folder = tmp_path_factory.mktemp("site") / "source"
    prepare.main(folder)
    return folder


def imported(name: str):
    """A module of docs/site, which is no package."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_there_and_in_a_table_of_contents(site: Path) -> None:
    contents = "\n".join(path.read_text() for path in [*site.rglob("index.md"), site / "operations.md"])
    for path in SITE.parent.rglob("*.md"):
        assert (site / path.relative_to(SITE.parent)).is_file()
        if path.name != "index.md":
            assert re.search(rf"^(\w+/)?{re.escape(path.stem)}$", contents, re.M), path


def test_links_lead_to_pages_or_became_names(site: Path) -> None:
    for path in site.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:\s]+)[^):]*\)", path.read_text()):
            assert (path.parent / target).is_file(), (path.name, target)


def test_every_public_function_and_class_is_in_the_reference(site: Path) -> None:
    text = "\n".join(path.read_text() for path in (site / "api").glob("*.rst"))
    listed = set(re.findall(r"\.\. auto(?:function|class|data):: vkgrad\.([\w.]+)", text))
    wanted = {
        name
        for name in dir(vkgrad)
        if not name.startswith("_")
        and callable(value := getattr(vkgrad, name))
        and value.__module__.startswith("vkgrad")
        and value.__doc__
    }
    assert wanted <= listed and len(wanted) > 250
    assert {"nn.Linear", "nn.functional.relu", "optim.Adam", "data.DataLoader", "random.normal", "viz.memory"} <= listed


def test_docstrings_become_text_that_means_what_it_says() -> None:
    as_rst = imported("docstrings").as_rst
    assert as_rst(["A `b` of **kwargs."]) == ["A ``b`` of \\*\\*kwargs."]
    assert as_rst(["Text:", "    x   what", "more"]) == ["**Text**", "", "::", "", "    x   what", "", "more"]
    assert as_rst(["Example:", "    >>> 1", "    1"]) == ["**Example**", "", ">>> 1", "1"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://a.example/a.js"></script>', 1),
        ('<link rel="stylesheet" href="//a.example/a.css">', 1),
        ('<img alt="" src="http://a.example/a.png">', 1),
        ("@import url('https://a.example/a.css');", 1),
        ("body { background: url(https://a.example/a.png) }", 1),
        ('<a href="https://a.example">a</a> <svg xmlns="http://www.w3.org/2000/svg">', 0),
        ('<script src="_static/a.js"></script>', 0),
    ],
)
def test_what_would_be_fetched_is_found(text: str, count: int, tmp_path: Path) -> None:
    check = imported("check")
    assert len(check.fetched(text)) == bool(count)
    (tmp_path / "page.html").write_text(text)
    assert check.main(tmp_path) == bool(count)


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert imported("check").main(tmp_path) == 1
    assert str(SITE) not in sys.path
