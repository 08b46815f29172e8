"""Scans, sorts, scattering, Fourier transforms and factorisations beside PyTorch and CuPy.

    python -m benchmarks.routines [--runs 20] [--cases cumsum,fft] [--out build/routines.jsonl]

Values are compared with double precision first, and must be the same bits in two runs. `copy` is a kernel that reads
and writes as many words as the function must, in all. Times are of the device: ours between its timestamps, each kernel
with the barrier before it; PyTorch's and CuPy's between two events around many calls. At the end it says which scans
and scatters stay near a copy; on a GPU the exit status is 1 where one does not, and everywhere where values are wrong:
such a line says WRONG, and the next case follows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vkgrad as vg
from benchmarks.routine_cases import Case, cases
from vkgrad.bench.results import Spread, digits
from vkgrad.errors import VkgradError

REPEATS, LONG_US = 20, 5e3  # calls between two events, but only two of them where one call takes long
NO_SUCH = "no such function"
SECONDS = 0.7  # of samples for one contender in one case
Timer = Callable[[], float]


def several(value: Any) -> list[Any]:
    """What a function gave: one array, or some of them."""
    return [value] if hasattr(value, "shape") else list(value)


def as_numpy(arrays: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in arrays]


# ---- contenders: the values of a case, and a function that gives the device's µs of one run
def ours(case: Case) -> tuple[list[np.ndarray], Timer, int]:
    """The dispatches of one run, too."""
    tensors = [vg.tensor(array) for array in case.arrays]
    vg.eval(*tensors)
    dispatches = len(vg.plan(*several(case.ours(*tensors))).kernels)

    def once() -> float:
        vg.synchronize()
        with vg.profile() as p:
            vg.eval(*several(case.ours(*tensors)))
        return p.device_us

    values = as_numpy(several(case.ours(*tensors)))
    again = as_numpy(several(case.ours(*(x + 0 for x in tensors))))
    for one, other in zip(values, again, strict=True):
        assert np.array_equal(one, other, equal_nan=True), "two runs differ"
    once()
    return values, once, dispatches


def repeated(several_times: Callable[[int], float]) -> Timer:
    """The µs of a call among enough of them; one, before, says how many are enough, and warms up."""
    calls = 2 if several_times(1) > LONG_US and several_times(1) > LONG_US else REPEATS
    several_times(calls)
    return lambda: several_times(calls)


def torch_timer(case: Case) -> tuple[list[np.ndarray], Timer] | str:
    theirs = case.torch
    if theirs is None:
        return NO_SUCH
    try:
        import torch
    except ImportError:
        return "not installed"
    if not torch.cuda.is_available():
        return "no GPU of its own here"
    tensors = [torch.from_numpy(x.astype(np.int64) if x.dtype.kind == "i" else x).cuda() for x in case.arrays]
    values = [x.cpu().numpy() for x in several(theirs(torch, *tensors))]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def several_times(calls: int) -> float:
        start.record()
        for _ in range(calls):
            theirs(torch, *tensors)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / calls * 1e3

    return values, repeated(several_times)


def cupy_timer(case: Case) -> tuple[list[np.ndarray], Timer] | str:
    theirs = case.cupy
    if theirs is None:
        return NO_SUCH
    try:
        import cupy
    except ImportError:
        return "not installed"
    moved = [cupy.asarray(array) for array in case.arrays]
    found = several(theirs(cupy, *moved))
    start, end = cupy.cuda.Event(), cupy.cuda.Event()

    def several_times(calls: int) -> float:
        start.record()
        for _ in range(calls):
            theirs(cupy, *moved)
        end.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(start, end) / calls * 1e3

    return [cupy.asnumpy(x) for x in found], repeated(several_times)


def sampled(once: Timer, runs: int) -> Spread:
    samples, until = [once()], time.perf_counter() + SECONDS
    while len(samples) < runs and time.perf_counter() < until:
        samples.append(once())
    return Spread.of(samples)


def copy_us(words: int, runs: int) -> float:
    """Device's µs of a copy kernel that moves so many words in all."""
    x = np.zeros(max(words // 2, 1), np.float32)
    copy = Case("copy", (x,), lambda x: x + 1, None, lambda found, arrays: 0.0)
    return sampled(ours(copy)[1], runs).median_us


def measure(case: Case, runs: int) -> dict[str, Any]:
    """One line: ours, a copy, and the peers or why they have no time."""
    values, once, dispatches = ours(case)
    line: dict[str, Any] = {
        "case": case.name, "shape": [list(x.shape) for x in case.arrays], "dispatches": dispatches,
        "error": case.error(values, case.arrays), **sampled(once, runs).fields(), "peers": {},
    }  # fmt: skip
    if not line["error"] <= case.tolerance:
        line["wrong"] = f"off by {line['error']:.1e}, more than {case.tolerance:.0e}"
    if case.words:
        line["copy_us"] = round(copy_us(case.words, runs), 3)
        line["times_copy"] = round(line["median_us"] / line["copy_us"], 2)
    if case.within:
        line["within"] = case.within
    for name, timer in (("torch", torch_timer), ("cupy", cupy_timer)):
        found = timer(case)
        if isinstance(found, str):
            line["peers"][name] = {"none_because": found}
        else:
            error = case.error(found[0], case.arrays)
            line["peers"][name] = {"error": error, **sampled(found[1], runs).fields()}
    return line


HEADER = f"{'':36}{'kernels':>8}{'vkgrad µs':>22}{'copy':>8}{'x copy':>7}{'torch':>9}{'cupy':>9}  error"


def shown(line: dict[str, Any]) -> str:
    spread = f"{digits(line['median_us'])} [{digits(line['p10_us'])}-{digits(line['p90_us'])}]"
    copy, times = (digits(line[name]) if name in line else "" for name in ("copy_us", "times_copy"))
    peers = [digits(p["median_us"]) if "median_us" in p else "-" for p in line["peers"].values()]
    return (
        f"{line['case']:36}{line['dispatches']:8}{spread:>22}{copy:>8}{times:>7}{peers[0]:>9}{peers[1]:>9}"
        f"  {line['error']:.1e}{' WRONG' if 'wrong' in line else ''}"
    )


def verdict(lines: Sequence[dict[str, Any]]) -> tuple[str, bool]:
    """What of the bounds was kept, in words, and whether all of them were."""
    bounded = [line for line in lines if "within" in line]
    over = [line for line in bounded if line["times_copy"] > line["within"]]
    words = f"bound: {len(bounded) - len(over)} of {len(bounded)} scans and scatters take no longer than " + (
        f"{bounded[0]['within']:.0f} copies" if bounded else "they may"
    )
    return words + "".join(f"; not {line['case']}: {line['times_copy']}" for line in over), not over


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.routines", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cases", default="", help="cases whose names hold one of these words, with commas")
    parser.add_argument("--million", type=int, default=10**6, help="how large cases are that have a million elements")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--out", type=Path, help="a file for everything measured, a line of JSON each")
    chosen = parser.parse_args(given)
    words, began = chosen.cases.split(","), time.monotonic()
    device: Any = vg.default_device()
    print(f"{device}: µs of the device")
    print(HEADER)
    lines: list[dict[str, Any]] = []
    left = [case for case in cases(chosen.million) if any(word in case.name for word in words)]
    wrong: list[str] = []
    while left and time.monotonic() - began < chosen.seconds:
        case = left.pop(0)
        try:
            lines.append(measure(case, chosen.runs))
        except (AssertionError, VkgradError) as failure:
            wrong.append(f"{case.name}: {failure}")
            print(f"{case.name:36} WRONG", flush=True)
            continue
        if "wrong" in lines[-1]:
            wrong.append(f"{case.name}: {lines[-1]['wrong']}")
        print(shown(lines[-1]), flush=True)
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reasons = {(name, peer.get("none_because")) for line in lines for name, peer in line["peers"].items()}
    for name, why in sorted((name, why) for name, why in reasons if why not in (None, NO_SUCH)):
        print(f"no time of {name}: {why}")
    if left:
        print(f"not reached: {', '.join(case.name for case in left)}")
    said, kept = verdict(lines)
    print(said)
    for what in wrong:
        print(f"WRONG: {what}")
    is_gpu = device.width is not None and not device.software
    return int(bool(wrong) or (is_gpu and not kept))


if __name__ == "__main__":
    sys.exit(main())
