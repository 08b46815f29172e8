"""Recurrent layers beside PyTorch's (cuDNN): a pass, and loss with gradients, over kinds, steps, batches and widths.

    python -m benchmarks.recurrent [--runs 20] [--cases LSTM:64:8:128,GRU:256:64:64] [--steps]

A case is KIND:STEPS:BATCH:HIDDEN, as many inputs as hidden units. Values are compared with PyTorch's first. Times are
of the device: ours between its timestamps, all kernels with their barriers; PyTorch's between two events around many
runs of a CUDA graph. `--steps` also times ours with kernels for each step, which is what large weights get.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad import engine
from vkgrad.ops import recurrences

CASES = (
    "LSTM:64:8:32", "LSTM:64:8:128", "LSTM:256:8:128", "LSTM:64:64:64", "LSTM:64:64:128", "LSTM:64:64:256",
    "LSTM:64:64:512", "GRU:64:64:128", "GRU:256:32:64", "RNN:256:32:128", "LSTM:1024:8:64",
)  # fmt: skip
REPEATS = 20  # calls between two events


def ours(kind: str, steps: int, batch: int, hidden: int, runs: int) -> tuple[Any, Any, list[float], list[int]]:
    """The layer, its input, the device's µs of a pass and of a step, and their dispatches."""
    vg.manual_seed(0)
    layer = getattr(vg.nn, kind)(hidden, hidden)
    x = vg.tensor(np.random.default_rng(1).standard_normal((steps, batch, hidden)).astype(np.float32))
    vg.eval(*layer.parameters(), x)

    def step() -> list[vg.Tensor]:
        loss, gradients = vg.value_and_grad(lambda m: (m(x)[0] ** 2).sum())(layer)
        return [loss, *gradients.values()]

    times, counts = [], []
    for work in (lambda: [layer(x)[0]], step):
        counts.append(len(vg.plan(*work()).kernels))
        times.append(_ours_us(work, runs))
    return layer, x, times, counts


def _ours_us(work: Callable[[], list[vg.Tensor]], runs: int) -> float:
    found = []
    for _ in range(runs + 2):
        vg.synchronize()
        with vg.profile() as profile:
            vg.eval(*work())
        found.append(profile.device_us)
    return statistics.median(found[2:])


def theirs(kind: str, layer: Any, x: Any, runs: int) -> tuple[float, list[float]] | str:
    """How far our outputs and gradients are from PyTorch's, of the largest, and its µs of a pass and a step.

    Both are CUDA graphs, so that no time of the host is in them, and in single precision throughout, as ours are.
    """
    try:
        import torch
    except ImportError:
        return "not installed"
    if not torch.cuda.is_available():
        return "no GPU of its own here"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    module = getattr(torch.nn, kind)(x.shape[-1], x.shape[-1]).cuda()
    module.load_state_dict({name: torch.from_numpy(w.numpy()) for name, w in layer.state_dict().items()})
    given = torch.from_numpy(x.numpy()).cuda()

    def forwards() -> None:
        with torch.no_grad():
            module(given)

    def step() -> None:
        module.zero_grad(set_to_none=True)
        (module(given)[0] ** 2).sum().backward()

    step()
    outputs = module(given)[0].detach().cpu().numpy()
    _, gradients = vg.value_and_grad(lambda m: (m(x)[0] ** 2).sum())(layer)
    errors = [_error(layer(x)[0].numpy(), outputs)]
    errors += [_error(gradients[name].numpy(), w.grad.cpu().numpy()) for name, w in module.named_parameters()]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for work in (forwards, step):
        beside = torch.cuda.Stream()
        with torch.cuda.stream(beside):
            for _ in range(3):
                work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        found = []
        for _ in range(max(runs // 4, 3)):
            start.record()
            for _ in range(REPEATS):
                graph.replay()
            end.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end) * 1e3 / REPEATS)
        times.append(statistics.median(found))
    return max(errors), times


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--steps", action="store_true")
    chosen = parser.parse_args()
    print(f"{vg.default_device()}: µs of the device: a pass | loss and gradients (dispatches)")
    for case in chosen.cases.split(","):
        kind, *sizes = case.split(":")
        steps, batch, hidden = map(int, sizes)
        layer, x, times, counts = ours(kind, steps, batch, hidden, chosen.runs)
        line = f"{case:18} ours {times[0]:8.0f} ({counts[0]}) | {times[1]:8.0f} ({counts[1]})"
        beside = theirs(kind, layer, x, chosen.runs)
        if isinstance(beside, str):
            line += f"  PyTorch: {beside}"
        else:
            line += f"  PyTorch {beside[1][0]:8.0f} | {beside[1][1]:8.0f}  error {beside[0]:.1e}"
        if chosen.steps:
            most, recurrences.MOST_WEIGHTS = recurrences.MOST_WEIGHTS, 0
            engine.clear_caches()
            _, _, times, counts = ours(kind, steps, batch, hidden, chosen.runs)
            line += f"  by steps {times[0]:8.0f} ({counts[0]}) | {times[1]:8.0f} ({counts[1]})"
            recurrences.MOST_WEIGHTS = most
            engine.clear_caches()
        print(line, flush=True)


if __name__ == "__main__":
    main()
