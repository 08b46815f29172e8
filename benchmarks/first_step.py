"""What a new process waits for: from import to the loss of its first jitted step, with empty caches and with full ones.

    python -m benchmarks.first_step

Every run is a process of its own. The exit status is 1 when a process that finds full caches compiles a shader.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Nothing of vkgrad is imported up here: the child times its import.
ROOT = Path(__file__).resolve().parents[1]
BATCH = 32


def child(model: str) -> None:
    """Take the first step of `model` and print how long that took."""
    assert "vkgrad" not in sys.modules, "the import is part of what is timed"
    start = time.perf_counter()
    import vkgrad as vg

    imported = time.perf_counter()
    from vkgrad.bench import cases
    from vkgrad.bench.training import Training, driver

    data = cases.make(cases.Case(model, BATCH))
    made = time.perf_counter()
    name = vg.default_device().name
    opened = time.perf_counter()
    loss = float(vg.jit(Training(model, data).step)(data.images[0], data.labels[0]))
    ended = time.perf_counter()
    stats = vg.stats()
    facts = {
        "device": name, "driver": driver(), "loss": loss,
        "import_us": (imported - start) * 1e6, "open_us": (opened - made) * 1e6, "step_us": (ended - opened) * 1e6,
        "total_us": (ended - start - (made - imported)) * 1e6,  # without making up the data
        "shaders": stats.shaders_compiled, "pipelines": stats.pipelines_created,
    }  # fmt: skip
    print(json.dumps(facts))


def run(model: str, caches: Path) -> dict[str, Any]:
    """One process; the driver's own caches are in the same folder, so that empty is empty where drivers can be told."""
    own = {
        "VKGRAD_CACHE_DIR": caches / "vkgrad",
        "MESA_SHADER_CACHE_DIR": caches,
        "__GL_SHADER_DISK_CACHE_PATH": caches,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.first_step", "--child", model],
        env={**with_bytecode(), **{name: str(path) for name, path in own.items()}},
        stdout=subprocess.PIPE,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def with_bytecode() -> dict[str, str]:
    """This environment, but Python keeps what it compiled. An installer compiles a package once; a source tree in which
    Python may not write would be compiled by every process."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "vkgrad-first-step-bytecode")}


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_step", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default="mlp,lenet")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "bench_results")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    if chosen.child:
        child(chosen.child)
        return 0
    from vkgrad.bench import results
    from vkgrad.bench.results import Spread

    commit, rows, compiled = results.commit(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        run(chosen.models.split(",")[0], Path(folder))  # for the bytecode
    for model in chosen.models.split(","):
        found: dict[str, list[dict[str, Any]]] = {"cold": [], "warm": []}
        for _ in range(chosen.runs):
            with tempfile.TemporaryDirectory() as folder:
                for state in found:
                    found[state].append(run(model, Path(folder)))
        for state, runs in found.items():
            parts = {
                part: Spread.of([one[f"{part}_us"] for one in runs]) for part in ("import", "open", "step", "total")
            }
            shaders = max(one["shaders"] for one in runs)
            compiled += shaders if state == "warm" else 0
            rows.append(
                [
                    f"{model} {BATCH} {state}",
                    *(f"{spread.median_us / 1e6:.3f}" for spread in parts.values()),
                    str(shaders),
                ]
            )
            line = {
                "commit": commit, "device": runs[0]["device"], "driver": runs[0]["driver"], "model": model,
                "shape": [BATCH], "dtype": "float32", "arm": f"first step, {state}", **parts["total"].fields(),
                **{f"{part}_us": round(spread.median_us) for part, spread in parts.items()},
                "shaders_compiled": shaders,
            }  # fmt: skip
            results.append(chosen.out, runs[0]["device"], [line])
    print(results.table(["first step, s (median)", "import", "open", "step", "total", "shaders compiled"], rows))
    if compiled:
        print(f"first_step: {compiled} shaders compiled by a process with full caches", file=sys.stderr)
    return int(compiled > 0)


if __name__ == "__main__":
    sys.exit(main())
