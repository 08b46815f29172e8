"""Kernels that move memory and compute little: µs, GB/s and the share of what a copy reaches, beside PyTorch.

python -m benchmarks.bandwidth --cases softmax,sum

One line a case: our plan by the device's own clock, the rows of its kernels, PyTorch in the same run, and every row
that could compute a kernel alone. The bytes are those that must be read and written once; the copy is the faster one of
the driver's command and an ordinary kernel. Values are compared with double precision before a time counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad import engine
from vkgrad.bench.peaks import Peaks, copy_command_gb_s, copy_kernel_gb_s
from vkgrad.bench.results import digits
from vkgrad.bench.results import table as drawn
from vkgrad.codegen.tune import candidates
from vkgrad.profile import time_kernels
from vkgrad.schedule.kernel import Kernel

WORTH_EXPLORING = 1 << 20  # places and terms of a kernel whose rows are measured one by one
ROUNDS = 20


@dataclass(frozen=True)
class Case:
    """What is computed of random arrays of `shape`.

    ours, torch   the same function of `inputs` arrays; torch's is given the module too
    numpy         the same in double precision
    rows          whether the first axis is a batch: then only its first and last entries are compared
    moved         elements that are read and written, in all
    """

    name: str
    shape: tuple[int, ...]
    inputs: int
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    numpy: Callable[..., np.ndarray]
    moved: int
    rows: bool = False
    dtype: str = "float32"


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _ours_layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * vg.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def cases(log2: int) -> list[Case]:
    n, side = 1 << log2, 1 << log2 // 2
    square = (side, n // side)

    def total(name: str, shape: tuple[int, ...], axis: int | tuple[int, ...]) -> Case:
        axes = (axis,) if isinstance(axis, int) else axis
        out = n // int(np.prod([shape[a] for a in axes]))
        return Case(
            name, shape, 1, lambda x: vg.sum(x, axis), lambda t, x: t.sum(x, axis), lambda x: x.sum(axis), n + out
        )

    def norm(name: str, columns: int, ours: Any, torch: Any, numpy: Any) -> Case:
        return Case(f"{name} of {columns}", (n // columns, columns), 1, ours, torch, numpy, 2 * n, rows=True)

    def layer(t: Any, x: Any) -> Any:
        return t.nn.functional.layer_norm(x, x.shape[-1:])

    widths = [w for w in (64, 768, 1024, 4096, 16384) if w <= n]
    return [
        Case("a * b + a", (n,), 2, lambda a, b: a * b + a, lambda t, a, b: t.addcmul(a, a, b),
             lambda a, b: a * b + a, 3 * n, rows=True),
        Case("-a", (n,), 1, lambda a: -a, lambda t, a: -a, lambda a: -a, 2 * n, rows=True),
        Case("relu(a) of n + 3", (n + 3,), 1, lambda a: vg.relu(a), lambda t, a: t.relu(a),
             lambda a: np.maximum(a, 0), 2 * n, rows=True),
        Case("a + row", square, 1, lambda a: a + a[0], lambda t, a: a + a[0], lambda a: a + a[0], 2 * n),
        Case("a * b + a, float16", (n,), 2, lambda a, b: a * b + a, lambda t, a, b: t.addcmul(a, a, b),
             lambda a, b: a * b + a, 3 * n, rows=True, dtype="float16"),
        *(norm("softmax", w, lambda x: vg.softmax(x, -1), lambda t, x: t.softmax(x, -1), _softmax) for w in widths),
        *(norm("layer norm", w, _ours_layer_norm, layer, _layer_norm) for w in widths[1:]),
        total("sum over axis 0", square, 0),
        total("sum over axis 1", square, 1),
        total("sum over all", (n,), 0),
        total("sum over the first of (n / 64, 64)", (n // 64, 64), 0),
        total("sum over the last of (n / 64, 64)", (n // 64, 64), 1),
        total("sum over the middle", (n >> log2 // 3 * 2, 1 << log2 // 3, 1 << log2 // 3), 1),
        total("sum over both ends", (n >> log2 // 3 * 2, 1 << log2 // 3, 1 << log2 // 3), (0, 2)),
        Case("transpose", square, 1, lambda x: vg.transpose(x), lambda t, x: x.t().contiguous(), lambda x: x.T, 2 * n),
        Case("transpose, odd", (square[0] - 1, square[1] - 3), 1, lambda x: vg.transpose(x),
             lambda t, x: x.t().contiguous(), lambda x: x.T, 2 * n),
        Case("permute (0, 2, 1)", (n >> 12, 64, 64), 1, lambda x: vg.permute_dims(x, (0, 2, 1)),
             lambda t, x: x.permute(0, 2, 1).contiguous(), lambda x: x.transpose(0, 2, 1), 2 * n, rows=True),
        Case("permute (0, 2, 3, 1)", (n >> 14, 64, 16, 16), 1, lambda x: vg.permute_dims(x, (0, 2, 3, 1)),
             lambda t, x: x.permute(0, 2, 3, 1).contiguous(), lambda x: x.transpose(0, 2, 3, 1), 2 * n, rows=True),
        Case("x + x.T", square, 1, lambda x: x + vg.transpose(x), lambda t, x: x + x.t(), lambda x: x + x.T, 2 * n),
    ]  # fmt: skip


def check(case: Case, have: Any, arrays: Sequence[np.ndarray]) -> float:
    """The largest error, relative to the largest value; of a batch, in its first and last entries."""
    if case.rows:
        some = 1 << 12 if len(case.shape) == 1 else 8
        ends = [slice(None, some), slice(-some, None)]
        pairs = [(have[e].numpy(), case.numpy(*(a[e].astype("f8") for a in arrays))) for e in ends]
    else:
        exact = "transpose" in case.name
        pairs = [(have.numpy(), case.numpy(*(a if exact else a.astype("f8") for a in arrays)))]
    return max(float(np.abs(h - w).max() / np.abs(w).max()) for h, w in pairs)


def plan_of(function: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
    """The dispatches that `function` of these tensors submits."""
    seen: list[Any] = []

    def watch(plan: Any, recording: Any) -> None:
        if plan is not None:
            seen.extend(plan.kernels)

    engine.on_flush.append(watch)
    try:
        vg.eval(function(*tensors))
        vg.synchronize()
    finally:
        engine.on_flush.remove(watch)
    return seen


def torch_us(case: Case, arrays: Sequence[np.ndarray]) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    for _ in range(3):
        case.torch(torch, *tensors)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(ROUNDS):
        case.torch(torch, *tensors)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / ROUNDS * 1e3


def torch_copy_gb_s(size: int) -> float | None:
    copy = Case("copy", (size,), 1, lambda x: x, lambda t, x: x.clone(), lambda x: x, 2 * size)
    found = torch_us(copy, [np.ones(size, "f4")])
    return 8 * size / found / 1e3 if found else None


def explored(device: Any, kernels: Sequence[Any]) -> list[dict[str, Any]]:
    """Every way to compute each large kernel alone, with its µs."""
    from vkgrad.runtime.measure import measure

    out = []
    for kernel in kernels:
        small = kernel.places * kernel.terms < WORTH_EXPLORING
        if small or not isinstance(kernel, Kernel) or kernel.routine or len(kernel.stores) > 1:
            continue
        findings = measure(device, kernel, candidates(kernel, device.limits))
        out.append({f.row: f.refused or f.time_us for f in findings})
    return out


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bandwidth", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--log2", type=int, help="of the number of elements; 26 on a GPU")
    parser.add_argument("--cases", default="", help="cases whose names hold one of these words, with commas")
    parser.add_argument("--rows", action="store_true", help="measure every row too")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--out", type=Path, help="a file for everything measured, a line of JSON each")
    chosen = parser.parse_args(given)
    device: Any = vg.default_device()
    began, log2 = time.monotonic(), chosen.log2 or (18 if device.software else 26)
    size, runs = 4 << log2, 3 if device.software else ROUNDS
    kernel, command = copy_kernel_gb_s(size, runs), copy_command_gb_s(device, size, runs)
    roof = Peaks(max(kernel, command), 1.0, kernel).copy_gb_s
    theirs = torch_copy_gb_s(1 << log2)
    print(f"{device}: 2**{log2} elements; copies {kernel:.0f} GB/s by a kernel, {command:.0f} by the driver's command"
          + (f", {theirs:.0f} by torch" if theirs else ""), flush=True)  # fmt: skip
    draw = np.random.default_rng(0)
    pool = draw.uniform(-1, 1, (1 << log2) + (1 << log2 // 2)).astype("f4")
    lines, records, failed = [], [], False
    for case in cases(log2):
        if not any(word in case.name for word in chosen.cases.split(",")) or time.monotonic() - began > chosen.seconds:
            continue
        count = int(np.prod(case.shape))
        arrays = [pool[shift : shift + count].reshape(case.shape).astype(case.dtype) for shift in range(case.inputs)]
        tensors = [vg.tensor(array) for array in arrays]
        vg.eval(*tensors)
        seen = plan_of(case.ours, tensors)
        error = check(case, case.ours(*tensors), arrays)
        wrong = error > (2e-3 if case.dtype == "float16" else 3e-5)
        failed |= wrong
        times = time_kernels(vg.eval, case.ours(*tensors), runs=runs)
        torch = torch_us(case, arrays)
        moved = case.moved * arrays[0].itemsize
        rows = explored(device, seen) if chosen.rows else []
        gb_s = moved / times.whole_us / 1e3
        ways = " + ".join(f"{k.kernel.row} {digits(k.time_us)}" for k in times.kernels)
        records.append({"case": case.name, "shape": case.shape, "us": times.whole_us, "gb_s": gb_s, "roof_gb_s": roof,
                        "torch_us": torch, "error": error, "kernels": ways, "rows_us": rows})  # fmt: skip
        alone = " | ".join(
            ", ".join(f"{name} {digits(us) if not isinstance(us, str) else us}" for name, us in own.items())
            for own in rows
        )
        lines.append([case.name, digits(times.whole_us), digits(gb_s), f"{gb_s / roof:.2f}",
                      digits(torch) if torch else "", f"{torch / times.whole_us:.2f}" if torch else "",
                      f"{error:.0e}{' WRONG' if wrong else ''}", ways, alone])  # fmt: skip
        print("  ".join(lines[-1]), flush=True)
    header = ["case", "us", "GB/s", "of the copy", "torch us", "torch / ours", "error", "kernels, us", "rows alone, us"]
    print("\n" + drawn(header, [line if chosen.rows else [*line[:-1], ""] for line in lines]))
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(record) + "\n" for record in records))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
