"""`python -m vkgrad plan | viz | profile | report SCRIPT`: run a program of yours and look at what it submits.

The program runs as it would by itself, with the arguments behind its name, and need not be changed.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vkgrad import engine
from vkgrad.errors import ConfigError
from vkgrad.profile import profile
from vkgrad.reporting import Seen, page, watching

MOST_DRAWN = 6  # plans that `viz` draws, those that ran most often


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run a program as `python path arguments` would. What is pending at its end is computed.

    Raises: `ConfigError` where there is none.
    """
    if not path.is_file():
        raise ConfigError(f"there is no script {str(path)!r}; options of this command stand before its name")
    with _as_main(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                print(f"vkgrad: {path.name} ended with {end.code}", file=sys.stderr)
        engine.flush()


@contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, search = sys.argv, sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search


def _seen(chosen: argparse.Namespace, timed: bool, graphs: bool) -> list[Seen]:
    with watching(timed, graphs) as seen:
        run_script(chosen.script, chosen.arguments)
    if not seen:
        raise ConfigError(f"{chosen.script.name} submitted no kernels, so there is nothing to show")
    return seen


def run_plan(chosen: argparse.Namespace) -> int:
    for number, one in enumerate(_seen(chosen, timed=False, graphs=False)):
        print(f"\nplan {number}, run {one.count} time{'s' * (one.count != 1)} on {one.device}\n{one.text}")
    return 0


def run_viz(chosen: argparse.Namespace) -> int:
    seen = _seen(chosen, timed=False, graphs=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    often = sorted(seen, key=lambda one: -one.count)[:MOST_DRAWN]
    for number, one in enumerate(seen):
        if one not in often:
            continue
        if not one.graphs:
            print(f"plan {number} has no graph: {one.excuse}")
        for name, drawing in {**one.graphs, **one.drawings()}.items():
            print(drawing.save(chosen.out / f"{number}-{name.replace(' ', '-')}.{chosen.form}"))
    if len(often) < len(seen):
        print(f"{len(seen)} plans ran; these are the {len(often)} that ran most often")
    return 0


def run_profile(chosen: argparse.Namespace) -> int:
    with profile(chosen.trace) as found:
        run_script(chosen.script, chosen.arguments)
    if not found.kernels:
        raise ConfigError(f"{chosen.script.name} submitted no kernels, so there is nothing to show")
    print(found.table(_roofs(chosen)))
    if chosen.trace is not None:
        print(f"{chosen.trace}: open it in chrome://tracing or https://ui.perfetto.dev")
    return 0


def run_report(chosen: argparse.Namespace) -> int:
    if chosen.out.suffix != ".html":
        raise ConfigError(f"report: the page is one .html file; {chosen.out.name!r} is none")
    seen = _seen(chosen, timed=True, graphs=True)
    print(f"{chosen.script.name} has ended; its plans are being drawn", file=sys.stderr)
    chosen.out.write_text(page(chosen.script.name, seen, _roofs(chosen)), encoding="utf-8")
    print(f"{chosen.out}: open it in a browser")
    return 0


def _roofs(chosen: argparse.Namespace) -> Any:
    if not chosen.roofs:
        return None
    from vkgrad.bench import peaks

    return peaks.measured()


def add_to(commands: Any) -> None:
    """Add the commands that run a script to those of `python -m vkgrad`."""
    for name, run, words in (
        ("plan", run_plan, "run a script and print each plan that it submits: kernels, levels, buffers"),
        ("viz", run_viz, "run a script and draw its graphs, plans and memory maps"),
        ("profile", run_profile, "run a script and print where the device's time goes, kernel by kernel"),
        ("report", run_report, "run a script and write a page about it: graphs, plans, timeline, memory, kernels"),
    ):
        one = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        if name == "viz":
            one.add_argument("--out", type=Path, default=Path("."), metavar="FOLDER", help="where to; by default here")
            one.add_argument("--form", choices=("svg", "html"), default="svg", help="of the files; by default svg")
        if name == "profile":
            one.add_argument("--trace", type=Path, metavar="FILE", help="also write a trace for Chrome or Perfetto")
        if name == "report":
            one.add_argument(
                "--out", type=Path, default=Path("report.html"), metavar="FILE", help="by default report.html"
            )
        if name in ("profile", "report"):
            one.add_argument("--roofs", action="store_true", help="measure what the device can do, and compare with it")
        one.add_argument("script", type=Path, help="a Python program")
        one.add_argument("arguments", nargs=argparse.REMAINDER, help="what it takes itself")
        one.set_defaults(run=run)
