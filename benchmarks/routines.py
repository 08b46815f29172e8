"""Scans, sorts and scattering beside PyTorch and CuPy, with the bound that a copy of the same bytes sets.

    python benchmarks/routines.py [--runs 20]

Values are checked first, and must be the same bits in two runs. `copy` is a kernel that reads and writes as
many bytes as the function must, in all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import vkgrad as vg

ITEM_BYTES = 4
REPEATS = 20
Timer = Callable[[], float]


def device_us(f: Callable[..., Any], *tensors: vg.Tensor) -> float:
    """µs of the device for all kernels of f, each with the barrier before it."""
    vg.synchronize()
    with vg.profile() as p:
        vg.eval(f(*tensors))
    return p.device_us


def vkgrad_timer(f: Callable[..., Any], *arrays: np.ndarray) -> tuple[np.ndarray, Timer]:
    """The value of f, and a function that gives the device's µs of one run."""
    tensors = [vg.tensor(array) for array in arrays]
    value = f(*tensors).numpy()
    assert np.array_equal(value, f(*(x + 0 for x in tensors)).numpy()), "two runs differ"
    device_us(f, *tensors)
    return value, lambda: device_us(f, *tensors)


def torch_timer(f: Callable[..., Any], *arrays: np.ndarray) -> tuple[np.ndarray, Timer] | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    tensors = [
        torch.from_numpy(array.astype(np.int64) if array.dtype.kind == "i" else array).cuda() for array in arrays
    ]
    value = f(torch, *tensors).cpu().numpy()

    def once() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(REPEATS):
            f(torch, *tensors)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / REPEATS * 1e6

    once()
    return value, once


def cupy_timer(f: Callable[..., Any], *arrays: np.ndarray) -> tuple[np.ndarray, Timer] | None:
    try:
        import cupy
    except ImportError:
        return None
    moved = [cupy.asarray(array) for array in arrays]
    value = cupy.asnumpy(f(cupy, *moved))

    def once() -> float:
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(REPEATS):
            f(cupy, *moved)
        cupy.cuda.Device().synchronize()
        return (time.perf_counter() - start) / REPEATS * 1e6

    once()
    return value, once


def copy_us(words: int, runs: int) -> float:
    """Device's µs of a copy kernel that moves so many words in all."""
    x = np.zeros(words // 2, np.float32)
    _, once = vkgrad_timer(lambda x: x + 1, x)
    return median(once() for _ in range(runs))


def cases() -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)
    long, keys = draw.uniform(-1, 1, 10**7).astype("f4"), draw.uniform(-1, 1, 10**6).astype("f4")
    ten, few, many = (draw.integers(0, n, 10**6).astype("i4") for n in (10, 10**3, 10**5))
    table = draw.uniform(-1, 1, (8192, 768)).astype("f4")
    tokens = draw.integers(0, 50257, 8192).astype("i4")

    def added(n: int) -> dict[str, Any]:
        def numpy(index: np.ndarray, values: np.ndarray) -> np.ndarray:
            return np.bincount(index, values.astype("f8"), n)

        return {
            "vkgrad": lambda index, values: vg.segment_sum(values, index, n),
            "torch": lambda t, index, values: t.zeros(n, device="cuda").index_add_(0, index, values),
            "cupy": lambda c, index, values: c.bincount(index, values, n),
            "numpy": numpy,
        }

    def rows(index: np.ndarray, values: np.ndarray) -> np.ndarray:
        out = np.zeros((50257, 768))
        np.add.at(out, index, values)
        return out

    return [
        {
            "name": "cumsum 1e7", "arrays": (long,), "words": 2 * 10**7, "vkgrad": lambda x: vg.cumsum(x, 0),
            "torch": lambda t, x: t.cumsum(x, 0), "cupy": lambda c, x: c.cumsum(x),
            "numpy": lambda x: np.cumsum(x, dtype="f8"),
        },
        {
            "name": "cumsum 1000x10000 axis 1", "arrays": (long.reshape(1000, -1),), "words": 2 * 10**7,
            "vkgrad": lambda x: vg.cumsum(x, 1), "torch": lambda t, x: t.cumsum(x, 1),
            "cupy": lambda c, x: c.cumsum(x, 1), "numpy": lambda x: np.cumsum(x, 1, dtype="f8"),
        },
        {
            "name": "cumsum 10000x1000 axis 0", "arrays": (long.reshape(-1, 1000),), "words": 2 * 10**7,
            "vkgrad": lambda x: vg.cumsum(x, 0), "torch": lambda t, x: t.cumsum(x, 0),
            "cupy": lambda c, x: c.cumsum(x, 0), "numpy": lambda x: np.cumsum(x, 0, dtype="f8"),
        },
        {
            "name": "sort 1e6", "arrays": (keys,), "words": 2 * 10**6, "vkgrad": lambda x: vg.sort(x),
            "torch": lambda t, x: t.sort(x).values, "cupy": lambda c, x: c.sort(x), "numpy": np.sort, "exact": True,
        },
        {
            "name": "argsort 1000x1000", "arrays": (keys.reshape(1000, -1),), "words": 2 * 10**6,
            "vkgrad": lambda x: vg.argsort(x), "torch": lambda t, x: t.argsort(x, stable=True),
            "cupy": lambda c, x: c.argsort(x), "numpy": lambda x: np.argsort(x, -1, "stable"), "exact": True,
        },
        {"name": "scatter_add 1e6 -> 10", "arrays": (ten, keys), "words": 2 * 10**6 + 10, **added(10)},
        {"name": "scatter_add 1e6 -> 1e3", "arrays": (few, keys), "words": 2 * 10**6 + 10**3, **added(10**3)},
        {"name": "scatter_add 1e6 -> 1e5", "arrays": (many, keys), "words": 2 * 10**6 + 10**5, **added(10**5)},
        {
            "name": "embedding gradient", "arrays": (tokens, table), "words": (8192 + 50257) * 768,
            "vkgrad": lambda index, values: vg.segment_sum(values, index, 50257),
            "torch": lambda t, index, values: t.zeros(50257, 768, device="cuda").index_add_(0, index, values),
            "numpy": rows,
        },
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    print(f"{vg.default_device()}: µs of the device; torch and cupy by the host's clock over {REPEATS} calls")
    print(f"{'':26}{'dispatches':>11}{'copy':>9}{'vkgrad':>9}{'x copy':>8}{'torch':>9}{'cupy':>9}  worst error")
    for case in cases():
        wanted = case["numpy"](*case["arrays"])
        value, once = vkgrad_timer(case["vkgrad"], *case["arrays"])
        worst = float(np.abs(value.astype("f8") - wanted).max())
        assert worst == 0 if case.get("exact") else worst < 1e-2, f"{case['name']} is off by {worst}"
        dispatches = len(vg.plan(case["vkgrad"](*map(vg.tensor, case["arrays"]))).kernels)
        times = {"vkgrad": median(once() for _ in range(runs))}
        for name, timer in (("torch", torch_timer), ("cupy", cupy_timer)):
            found = timer(case[name], *case["arrays"]) if name in case else None
            times[name] = median(found[1]() for _ in range(runs)) if found else float("nan")
        copy = copy_us(case["words"], runs)
        print(
            f"{case['name']:26}{dispatches:11}{copy:9.1f}{times['vkgrad']:9.1f}{times['vkgrad'] / copy:8.1f}"
            f"{times['torch']:9.1f}{times['cupy']:9.1f}  {worst:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
