"""Convolutions, their gradients of the data and of the weights: what a user gets, and every row, beside cuDNN.

python -m benchmarks.convolutions --layers resnet,small

One line a layer and direction: our plan (all its kernels by the device's own clock), each row that can do the product
in one kernel, and PyTorch with TF32 off and cuDNN's own search on, in a process of its own, as CUDA graphs. The results
of the plan are compared with sums in double precision before its time counts; `--algorithms` names cuDNN's kernels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.products import PARTS, Convolution, Found, lenet, measure, resnet18, torch_times


def small(batch: int) -> Iterator[Convolution]:
    """Convolutions of few channels: the first layers of most networks, and all of small ones."""
    for channels, size, outputs in ((1, 28, 32), (3, 32, 32), (8, 56, 8), (16, 32, 16), (16, 56, 32), (32, 28, 32)):
        parts = PARTS if channels > 3 else ("fwd", "wgrad")
        yield from (Convolution(part, batch, channels, size, outputs, 3, 1, 1) for part in parts)
    yield from (Convolution(part, batch, 16, 32, 32, 3, 2, 1) for part in PARTS)


LAYERS: dict[str, tuple[Convolution, ...]] = {
    "resnet": tuple(resnet18(32)),
    "packed": tuple(replace(s, packed=True) for s in resnet18(32) if s.part != "wgrad" and s.channels > 3),
    "parts": tuple(
        replace(s, parts=max(1, min(32, 8 * 64**2 * 4 // (s.outputs * s.channels))))
        for s in resnet18(32)
        if s.part == "wgrad" and s.channels > 3
    ),
    "small": tuple(small(32)),
    "lenet": (*lenet(32), *lenet(256)),
    "large lenet": (
        *lenet(2048),
        *(replace(s, parts=parts) for s in lenet(2048) if s.part == "wgrad" for parts in (32, 64, 128)),
    ),
}


def algorithms(shapes: Sequence[Convolution]) -> dict[str, list[str]]:
    """The kernels that PyTorch runs for each shape, with their µs."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    out = {}
    for shape in shapes:
        call = shape.torch()
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as watched:
            call()
            torch.cuda.synchronize()
        out[shape.name] = [
            f"{event.key[:70]} {event.device_time_total:.1f}"
            for event in watched.key_averages()
            if event.device_time_total
        ]
    return out


def table(found: Sequence[Found], theirs: dict[str, float]) -> str:
    from vkgrad.bench.results import digits
    from vkgrad.bench.results import table as drawn

    lines = []
    for one in found:
        torch = theirs.get(one.shape.name)
        ranked = sorted(one.rows, key=one.rows.__getitem__)
        lines.append([
            one.shape.name, digits(one.plan_us), digits(one.shape.flops / one.plan_us / 1e6),
            digits(torch) if torch else "", digits(torch / one.plan_us) if torch else "",
            " + ".join(one.plan_rows), " ".join(one.wrong),
            ", ".join(f"{row.removeprefix('contract_')} {digits(one.rows[row])}" for row in ranked),
        ])  # fmt: skip
    header = ["layer", "plan µs", "TFLOP/s", "cuDNN µs", "cuDNN / plan", "plan", "wrong", "rows alone, µs"]
    return drawn(header, lines)


def means(found: Sequence[Found], theirs: dict[str, float]) -> str:
    """Geometric means of cuDNN's time over ours, of each direction and of all."""
    out = []
    for name in (*PARTS, ""):
        known = [one for one in found if one.shape.name in theirs and one.shape.name.startswith(name)]
        if known:
            ratio = geometric_mean([theirs[one.shape.name] / one.plan_us for one in known])
            best = [min([one.plan_us, *one.rows.values()]) for one in known]
            at_best = geometric_mean([theirs[one.shape.name] / us for one, us in zip(known, best, strict=True)])
            out.append(f"{name or 'all'} {ratio:.3f} (the fastest row each: {at_best:.3f})")
    return "cuDNN / plan, geometric mean: " + ", ".join(out)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.convolutions", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--layers", default="resnet,small", help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--rows", default="contract", help="rows whose names hold one of these words, with commas")
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--algorithms", action="store_true", help="only print which kernels cuDNN takes")
    parser.add_argument("--torch", type=Path, help="measure PyTorch alone, and write its times here")
    parser.add_argument("--times", type=Path, help="times of PyTorch that were written before")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--out", type=Path, help="a file for everything measured, as a line of JSON each")
    chosen = parser.parse_args(given)
    lists = {name: [s for s in LAYERS[name] if chosen.only in s.name] for name in chosen.layers.split(",")}
    shapes = list({shape.name: shape for group in lists.values() for shape in group}.values())
    if chosen.algorithms:
        for name, kernels in algorithms(shapes).items():
            print(name, *kernels, sep="\n    ")
        return 0
    if chosen.torch:
        chosen.torch.write_text(json.dumps(torch_times(shapes)))
        return 0
    from vkgrad.codegen.rows import ROWS

    times = chosen.times or Path(f"{chosen.out or 'convolutions'}.torch")
    theirs: dict[str, float] = {}
    process = None
    if not chosen.alone and not chosen.times:
        arguments = ["--layers", chosen.layers, "--only", chosen.only, "--torch", str(times)]
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.convolutions", *arguments])

    def ready() -> None:
        if not chosen.alone and (process is None or process.wait() == 0):
            theirs.update(json.loads(times.read_text()))

    rows: list[Any] = [row for row in ROWS if any(word in row.name for word in chosen.rows.split(","))]
    found = {one.shape.name: one for one in measure(shapes, rows, ready)}
    for group, own in lists.items():
        measured = [found[shape.name] for shape in own]
        print(f"\n{group}\n{table(measured, theirs)}\n{means(measured, theirs)}")
    if chosen.out:
        with chosen.out.open("w") as file:
            for name, one in found.items():
                line = {"shape": name, "flops": one.shape.flops, "rows_us": one.rows, "chosen": one.chosen}
                line |= {"plan_us": one.plan_us, "plan": one.plan_rows, "torch_us": theirs.get(name)}
                file.write(json.dumps(line) + "\n")
    return int(any(one.wrong for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
