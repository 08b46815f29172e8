"""What the pages say is so: their code runs, their generated parts are up to date, what they point at exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FEATURE_COUNTS = {"D": 10, "B": 23, "N": 12, "O": 13, "F": 9, "G": 6, "W": 10}


def names(path: object) -> str:
    return path.relative_to(ROOT).as_posix() if isinstance(path, Path) else str(path)


def blocks(text: str) -> list[tuple[int, str]]:
    """The Python blocks of a page with the line each begins on."""
    found = re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


@pytest.mark.device
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text())], ids=names)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "page"}
    for line, code in blocks(page.read_text()):
        # Empty lines before it, so that a failure names the line of the page.
        exec(compile("\n" * line + code, str(page), "exec", dont_inherit=True), space)


PRINTED = re.compile(r"    print\(error\)\n# (.+)\n")


@pytest.mark.device
def test_errors_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, object] = {"__name__": "page"}
    seen = 0
    for _, code in blocks((ROOT / "docs" / "errors.md").read_text()):
        exec(compile(code, "errors.md", "exec", dont_inherit=True), space)
        assert capsys.readouterr().out.strip() == PRINTED.search(code)[1]  # type: ignore[index]
        seen += 1
    assert seen == 6


def test_blocks_are_found_and_can_fail() -> None:
    page = "# a\n\n```python\nassert 1 == 2\n```\n\n```sh\nfalse\n```\n"
    assert blocks(page) == [(3, "assert 1 == 2\n")]
    with pytest.raises(AssertionError):
        exec(blocks(page)[0][1], {})


def test_the_readme_trains_something_in_twenty_lines() -> None:
    (_, code), *_ = blocks((ROOT / "README.md").read_text())
    written = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(written) <= 20


@pytest.mark.device
def test_what_the_readme_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    exec(blocks(text)[0][1], {"__name__": "page"})
    printed = capsys.readouterr().out.strip().splitlines()[-1]
    assert re.fullmatch(r"loss 0\.0\d\d, right 100%, on the host: \d+ nodes", printed), printed
    assert re.search(r"It prints `loss 0\.0\d\d, right 100%, on the host: 0 nodes`", text)


def test_generated_parts_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    seen = 0
    for page in PAGES:
        text = page.read_text()
        seen += text.count("<!-- begin ")
        assert generate["filled"](text) == text, f"{names(page)} is stale: python docs/generate.py"
    assert seen == len(generate["PARTS"])
    stale = "<!-- begin switches -->\nold\n<!-- end switches -->"
    assert generate["filled"](stale) != stale


def broken_links(page: Path, text: str) -> list[str]:
    """Links of a page that lead to no file, or to no heading in it."""
    broken = []
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if "://" in target:
            continue
        heads = re.findall(r"^#+ (.*)$", linked.read_text(), re.M) if linked.is_file() and anchor else []
        anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
        if not linked.exists() or (anchor and anchor not in anchors):
            broken.append(target)
    return broken


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        assert broken_links(page, page.read_text()) == [], names(page)
    here = ROOT / "README.md"
    text = "[a](docs/nothing.md) [b](docs/numerics.md#nan) [c](docs/numerics.md#nonsense) [d](https://example.org/x)"
    assert broken_links(here, text) == ["docs/nothing.md", "docs/numerics.md#nonsense"]


def feature_rows() -> list[list[str]]:
    rows = re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", (ROOT / "docs" / "FEATURES.md").read_text(), re.M)
    return [[row[0], *[cell.strip() for cell in row[1].split(" | ")]] for row in rows]


def test_every_feature_is_listed_once() -> None:
    expected = [f"{letter}{number}" for letter, count in FEATURE_COUNTS.items() for number in range(1, count + 1)]
    assert [row[0] for row in feature_rows()] == expected


def trouble(row: list[str]) -> str | None:
    """What is wrong with a row: no command where there should be one, or one that names what is not there."""
    _, _, state, *shown = row
    commands = re.findall(r"`([^`]+)`", " ".join(shown))
    if state.startswith("not yet"):
        return "shown although it is not there" if commands else None
    if not (state == "yes" or state.startswith("part")):
        return f"unknown state {state!r}"
    if not commands:
        return "shown by nothing"
    for word in " ".join(commands).split():
        path, _, test = word.partition("::")
        if path.startswith(("tests/", "examples/", "script/")) and not (ROOT / path).exists():
            return f"{path} is not there"
        if test and not re.search(rf"^def {test}\(", (ROOT / path).read_text(), re.M):
            return f"{path} has no {test}"
    return None


@pytest.mark.parametrize("row", feature_rows(), ids=lambda row: row[0])
def test_a_feature_is_shown_by_something_that_exists(row: list[str]) -> None:
    assert trouble(row) is None


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("yes", ""),
        ("not yet", "`pytest tests`"),
        ("maybe", "`pytest tests`"),
        ("yes", "`pytest tests/test_nothing.py`"),
        ("part: x", "`pytest tests/test_cli.py::test_that_nobody_wrote`"),
    ],
)
def test_a_stale_row_is_noticed(state: str, shown: str) -> None:
    assert trouble(["D1", "something", state, shown])


def test_pages_name_no_machine() -> None:
    for page in PAGES:
        assert not re.search(r"/(root|home|work|tmp)/", page.read_text()), names(page)
