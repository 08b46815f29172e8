"""The command line, `python -m vkgrad`: what is here (`info`), whether it works (`doctor`), what is kept (`cache`),
where it runs (`residency`), how fast it is (`bench`), and what a program of yours does (`plan viz profile report`).

Each subcommand is a function from parsed arguments to an exit status. This folder prints; it must hold no knowledge
that the library needs, so nothing imports it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vkgrad.cli import bench, caches, doctor, info, residency, scripts
from vkgrad.cli.versions import version_of
from vkgrad.errors import VkgradError


def parser() -> argparse.ArgumentParser:
    """The commands and what they take."""
    top = argparse.ArgumentParser(prog="python -m vkgrad", description="Look after vkgrad on this machine.")
    top.add_argument("--version", action="version", version=f"vkgrad {version_of('vkgrad')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    one = commands.add_parser("info", help="show the devices here, their limits and features, and every switch")
    one.add_argument("--json", action="store_true", help="print it as one JSON object")
    one.set_defaults(run=info.run)

    one = commands.add_parser(
        "doctor", help="check that vkgrad works here; exit status 1 if not, with the command that mends it"
    )
    one.set_defaults(run=doctor.run)

    one = commands.add_parser("cache", help="show or clear what is kept on disk between processes")
    one.add_argument("action", nargs="?", choices=("show", "clear"), default="show")
    one.set_defaults(run=caches.run)
    residency.add_to(commands)
    bench.add_to(commands)
    scripts.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` are those of the process by default. Returns the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        return chosen.run(chosen)
    except VkgradError as error:
        print(f"vkgrad: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has read enough
        sys.stderr.close()  # or the interpreter complains that it cannot flush
        return 0
