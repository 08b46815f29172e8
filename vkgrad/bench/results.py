"""What was measured, as data: percentiles, tables for people, and lines for `bench_results/`."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]  # of the checkout, where there is one


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which `share` of them lie, linear between neighbours."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Spread:
    """Median, tenth and ninetieth percentile of `runs` samples, in µs."""

    median_us: float
    p10_us: float
    p90_us: float
    runs: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        return cls(percentile(samples, 0.5), percentile(samples, 0.1), percentile(samples, 0.9), len(samples))

    def over(self, count: int) -> Spread:
        """The same for one of `count` equal parts."""
        return Spread(self.median_us / count, self.p10_us / count, self.p90_us / count, self.runs)

    def __str__(self) -> str:
        return f"{digits(self.median_us)} [{digits(self.p10_us)}-{digits(self.p90_us)}]"

    def fields(self) -> dict[str, float | int]:
        return {
            "median_us": round(self.median_us, 3),
            "p10_us": round(self.p10_us, 3),
            "p90_us": round(self.p90_us, 3),
            "runs": self.runs,
        }


def digits(value: float) -> str:
    """Three digits at least, and no more decimals than that takes."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text; the first to the left, the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        out.append("  ".join(cells))
    return "\n".join([out[0], "-" * len(out[0]), *out[1:]])


def version() -> str:
    """The installed version of vkgrad."""
    return metadata.version("vkgrad")


def commit() -> str:
    """The commit measured: VKGRAD_COMMIT where it is set (a copy without history), else git's, with + if changed."""
    given = os.environ.get("VKGRAD_COMMIT", "")
    if given or not (ROOT / "pyproject.toml").exists():  # an installed package may lie in somebody else's repository
        return given or "unknown"

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        except FileNotFoundError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    return (git("rev-parse", "--short", "HEAD") or "unknown") + "+" * bool(git("status", "--porcelain", "-uno"))


def append(folder: Path, device: str, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Add lines to the file of today and this device."""
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    path = folder / f"{datetime.date.today().isoformat()}-{name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path
