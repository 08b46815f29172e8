"""The table of routines in docs/benchmarks.md, made from the lines of `benchmarks.routines`. This must not measure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkgrad.bench.results import digits

Line = dict[str, Any]


def table(lines: Iterable[Line]) -> str:
    """Scans, sorts, scattering, transforms and factorisations: the newest line of each case, by device."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line.get("benchmark") == "routines":
            found.setdefault(line["device"], {})[line["case"]] = line

    def peer(line: Line, name: str) -> str:
        time = line["peers"].get(name, {})
        return digits(time["median_us"]) if "median_us" in time else ""

    parts = []
    for device, cases in found.items():
        drivers, commits = ({line[name] for line in cases.values()} for name in ("driver", "commit"))
        parts.append(f"{device}; {', '.join(sorted(drivers))}; vkgrad at {', '.join(sorted(commits))}.")
        rows = [["µs of the device", "kernels", "vkgrad", "10 to 90 %", "a copy", "x copy", "PyTorch", "CuPy", "error"]]
        rows.append(["---", *("--:" for _ in rows[0][1:])])
        for case, line in cases.items():
            copy, times = (digits(line[name]) if name in line else "" for name in ("copy_us", "times_copy"))
            if "within" in line and line["times_copy"] > line["within"]:
                times = f"**{times}**"
            spread = f"{digits(line['p10_us'])}-{digits(line['p90_us'])}"
            rows.append(
                [case, str(line["dispatches"]), digits(line["median_us"]), spread, copy, times, peer(line, "torch"),
                 peer(line, "cupy"), f"{line['error']:.0e}" + " **wrong**" * ("wrong" in line)]
            )  # fmt: skip
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
        reasons = {
            (name, found["none_because"])
            for line in cases.values()
            for name, found in line["peers"].items()
            if "none_because" in found and found["none_because"] != "no such function"
        }
        parts += [f"No time of {name}: {why}." for name, why in sorted(reasons)]
        bounded = [line for line in cases.values() if "within" in line]
        over = [line["case"] for line in bounded if line["times_copy"] > line["within"]]
        parts.append(
            f"{len(bounded) - len(over)} of {len(bounded)} scans and scatters that should stay within 3 copies do"
            + "".join(f"; not {case}" for case in over)
            + "."
        )
    return "\n\n".join(parts) if parts else "No run has been recorded yet."
