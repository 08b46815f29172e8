"""The table of draws in docs/benchmarks.md, made from the lines of `benchmarks.hmc`. This must not measure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkgrad.bench.results import digits

Line = dict[str, Any]
NAMES = {"jax_jit": "JAX", "torch_cuda_graph": "PyTorch, CUDA graph", "torch_eager": "PyTorch, eager"}


def table(lines: Iterable[Line]) -> str:
    """A draw of Hamiltonian Monte Carlo: the newest line of each case, by device; the fastest in bold."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line.get("benchmark") == "hmc":
            found.setdefault(line["device"], {})[line["case"]] = line
    parts = []
    for device, cases in found.items():
        drivers, commits = ({line[name] for line in cases.values()} for name in ("driver", "commit"))
        parts.append(f"{device}; {', '.join(sorted(drivers))}; vkgrad at {', '.join(sorted(commits))}.")
        rows = [["µs a draw", "kernels", "vkgrad", "10 to 90 %", *NAMES.values()]]
        rows.append(["---", *("--:" for _ in rows[0][1:])])
        for case, line in cases.items():
            times = {name: line["peers"].get(name, {}).get("median_us") for name in NAMES}
            fastest = min(time for time in (line["median_us"], *times.values()) if time is not None)
            own, *others = (
                "" if time is None else f"**{digits(time)}**" if time == fastest else digits(time)
                for time in (line["median_us"], *times.values())
            )
            spread = f"{digits(line['p10_us'])}-{digits(line['p90_us'])}"
            rows.append([case, str(line["dispatches"]), own, spread, *others])
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
        reasons = {
            (NAMES[name], peer["none_because"])
            for line in cases.values()
            for name, peer in line["peers"].items()
            if "none_because" in peer
        }
        parts += [f"No time of {name}: {why}." for name, why in sorted(reasons)]
    return "\n\n".join(parts) if parts else "No run has been recorded yet."
