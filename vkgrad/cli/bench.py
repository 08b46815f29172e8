"""`python -m vkgrad bench`: how fast it is here. A number is printed only after every guard before it has held.

The exit status is 1 when one trips. With `--out FOLDER` each number also becomes a line of JSON there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vkgrad import engine
from vkgrad.bench import costs, guards, kernels, memory, models, peaks, results
from vkgrad.bench.cases import INPUT_SHAPES, Case
from vkgrad.bench.training import driver
from vkgrad.config import config

Line = Mapping[str, Any]


def bench_models(chosen: argparse.Namespace) -> Iterator[Line]:
    roofs = peaks.measured()
    print(f"at most: {roofs}\n")
    found = []
    for case in _cases(chosen):
        found.append(models.measured(case, chosen.seconds))
        yield from models.as_lines(found[-1])
    print(models.table(found, roofs))


def bench_kernels(chosen: argparse.Namespace) -> Iterator[Line]:
    roofs = peaks.measured()
    print(f"at most: {roofs}")
    for case in _cases(chosen):
        found = kernels.measured(case, chosen.runs)
        print("\n" + kernels.tables(found, roofs))
        yield from kernels.as_lines(found, roofs, chosen.runs)


def bench_costs(chosen: argparse.Namespace) -> Iterator[Line]:
    chains, pipelines = costs.measured(engine.default_device(), chosen.lengths, chosen.runs)
    print(costs.tables(chains, pipelines))
    yield from costs.as_lines([*chains, *pipelines])


def bench_memory(chosen: argparse.Namespace) -> Iterator[Line]:
    roofs = peaks.measured()
    found = memory.measured(engine.default_device(), chosen.mebibytes, max(chosen.runs // 5, 3))
    print(memory.table(found))
    print(f"\nat most: {roofs}")
    yield from memory.as_lines(found)
    yield {
        "op": "peaks",
        "dtype": "float32",
        "gb_s": round(roofs.copy_gb_s, 2),
        "copy_kernel_gb_s": round(roofs.copy_kernel_gb_s, 2),
        "gflop_s": round(roofs.fma_gflop_s, 2),
    }


def _cases(chosen: argparse.Namespace) -> list[Case]:
    return [Case(model, batch) for batch in chosen.batches for model in chosen.models]


def run(chosen: argparse.Namespace) -> int:
    guards.no_layers_asked()
    with config.override(device=config.device if chosen.device is None else chosen.device):
        device: Any = engine.default_device()
        guards.no_layers_loaded(guards.loaded_layers())
        print(f"{device.name}, {driver()}")
        _keep(chosen, device.name, chosen.measure(chosen))
    return 0


def _keep(chosen: argparse.Namespace, device: str, lines: Iterable[Line]) -> None:
    names = {"commit": results.commit(), "device": device, "driver": driver()}
    for line in lines:
        if chosen.out is not None:
            results.append(chosen.out, device, [{**names, **line}])


def add_to(commands: Any) -> None:
    """Add `bench` with its own subcommands to those of `python -m vkgrad`."""
    bench = commands.add_parser("bench", help="measure steps, kernels, costs of submission, and memory on this machine")
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="what")
    for name, measure, words in (
        ("models", bench_models, "training steps of two models: pipelined, waiting, fed, and the host's part"),
        ("kernels", bench_kernels, "their kernels one by one against what the device can do, and the step by parts"),
        ("costs", bench_costs, "recording, submitting, waiting, replaying, making pipelines"),
        ("memory", bench_memory, "copies, uploads, downloads in GB/s"),
    ):
        one = kinds.add_parser(name, help=words)
        one.add_argument("--device", help="an index, part of a name, or cpu; by default VKGRAD_DEVICE")
        one.add_argument("--out", type=Path, metavar="FOLDER", help="also append what was measured to a file there")
        one.set_defaults(run=run, measure=measure)
        if name in ("models", "kernels"):
            one.add_argument("--models", type=_models, default=list(INPUT_SHAPES), help="mlp,lenet")
            one.add_argument("--batches", type=_numbers, default=[32], help="for example 32,256,2048")
        if name == "models":
            one.add_argument("--seconds", type=float, default=0.5, help="for each model, batch size and arm")
        else:
            one.add_argument("--runs", type=int, default=50, help="how often each thing is measured")
        if name == "costs":
            one.add_argument("--lengths", type=_numbers, default=costs.LENGTHS, help="dispatches in a submission")
        if name == "memory":
            one.add_argument("--mebibytes", type=float, nargs="*", default=(), help="sizes to move")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _models(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in INPUT_SHAPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no model {unknown[0]!r}; there are {', '.join(INPUT_SHAPES)}")
    return names
