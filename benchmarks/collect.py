"""Put what one benchmark wrote into `bench_results/`, each line with its conditions.

    python -m benchmarks.collect products build/products.jsonl --out bench_results

`benchmarks.products`, `convolutions` and `bandwidth` write lines of their own while they are worked with; only a run on
purpose becomes a record. This must not measure or change a number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from vkgrad import default_device
from vkgrad.bench import results
from vkgrad.bench.training import driver

ROOT = Path(__file__).resolve().parents[1]


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("benchmark", help="its name")
    parser.add_argument("lines", type=Path, help="the file that it wrote")
    parser.add_argument("--out", type=Path, default=ROOT / "bench_results")
    chosen = parser.parse_args(given)
    device = default_device().name
    conditions = {"commit": results.commit(), "device": device, "driver": driver(), "benchmark": chosen.benchmark}
    found = [json.loads(line) for line in chosen.lines.read_text().splitlines()]
    results.append(chosen.out, device, [conditions | line for line in found])
    print(f"{chosen.benchmark}: {len(found)} lines")
    return int(not found)


if __name__ == "__main__":
    sys.exit(main())
