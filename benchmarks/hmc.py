"""A draw of Hamiltonian Monte Carlo beside JAX and PyTorch: a normal distribution in d dimensions, correlated.

    python -m benchmarks.hmc [--runs 9] [--cases 13:64:16,50:1024:4] [--out build/hmc.jsonl]

A draw is momenta, K leapfrog steps and the choice, for all chains; cases are d:chains:K. JAX's is one jitted function
with a loop inside; PyTorch's is a CUDA graph, and runs op by op. Draws follow each other, and the host waits for the
last one. Everybody begins in the distribution, and is held to its variance after many draws.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vkgrad as vg
from vkgrad.bench.results import Spread, digits
from vkgrad.inference.adapting import Adaptation
from vkgrad.inference.chains import Chains
from vkgrad.inference.density import Density

RHO, STEP, JITTER = 0.5, 0.25, 0.2
BATCH = 50  # draws between two looks at the clock
CASES = "2:64:4,2:64:32,13:64:16,50:64:4,50:64:16,50:64:32,50:1024:16"
Draws = Callable[[int], np.ndarray]  # makes so many draws, and reads where the last one is
Contender = Callable[[int, int, int], "Draws | str"]  # or says why there is none


def covariance(d: int) -> np.ndarray:
    return (1 - RHO) * np.eye(d) + RHO


def precision(d: int) -> np.ndarray:
    return np.linalg.inv(covariance(d)).astype(np.float32)


def begin(chains: int, d: int) -> np.ndarray:
    even = np.random.default_rng(0).standard_normal((chains, d))
    return (even @ np.linalg.cholesky(covariance(d)).T).astype(np.float32)


def ours(d: int, chains: int, steps: int) -> tuple[Draws, Callable[[], int]]:
    """Our draws; and how many dispatches one takes, of which there must be one submission."""
    matrix, start = vg.tensor(precision(d)), vg.tensor(begin(chains, d))
    density = Density(lambda x: -0.5 * (x * (matrix @ x)).sum(), start)
    state, adaptation = Chains(density, density.rows(start)), Adaptation(d, density.dtype, 0.8)
    adaptation.start_at(STEP)
    sampler = vg.inference.HMC(steps, jitter=JITTER).sampler(state, adaptation, vg.random.key(1))
    numbers = itertools.count()

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            latest = sampler.draw(next(numbers))
        return latest.position.numpy()

    def dispatches() -> int:
        with vg.counting() as c:
            sampler.draw(next(numbers))
        assert (c.submissions, c.host_nodes, c.plans_built) == (1, 0, 0), c
        return c.dispatches

    return draws, dispatches


def jax_jit(d: int, chains: int, steps: int) -> Draws | str:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return "not installed"
    matrix = jnp.asarray(precision(d))
    value_and_grad = jax.vmap(jax.value_and_grad(lambda x: -0.5 * (x * (matrix @ x)).sum()))

    @jax.jit
    def draw(x, key, number):  # type: ignore[no-untyped-def]
        moment, accept, size = jax.random.split(jax.random.fold_in(key, number), 3)
        step = STEP * (1 + JITTER * (2 * jax.random.uniform(size) - 1))
        p0 = jax.random.normal(moment, x.shape)
        value0, g = value_and_grad(x)

        def leap(_, state):  # type: ignore[no-untyped-def]
            q, p, _, g = state
            p = p + 0.5 * step * g
            q = q + step * p
            value, g = value_and_grad(q)
            return q, p + 0.5 * step * g, value, g

        q, p, value, _ = jax.lax.fori_loop(0, steps, leap, (x, p0, value0, g))
        gain = value - 0.5 * (p * p).sum(-1) - value0 + 0.5 * (p0 * p0).sum(-1)
        return jnp.where((jnp.log(jax.random.uniform(accept, gain.shape)) < gain)[:, None], q, x)

    key, state, numbers = jax.random.key(1), [jnp.asarray(begin(chains, d))], itertools.count()

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            state[0] = draw(state[0], key, next(numbers))
        return np.asarray(state[0])

    return draws


def _torch_step(torch: Any, d: int, chains: int, steps: int, device: str) -> tuple[Any, Callable[[], None]]:
    """Where PyTorch's chains are, and what moves them in place."""
    matrix, x = torch.from_numpy(precision(d)).to(device), torch.from_numpy(begin(chains, d)).to(device)

    def value_and_grad(x: Any) -> tuple[Any, Any]:
        x = x.detach().requires_grad_()
        value = -0.5 * (x * (x @ matrix)).sum(-1)
        return value.detach(), torch.autograd.grad(value.sum(), x)[0]

    def draw() -> None:
        step = STEP * (1 + JITTER * (2 * torch.rand((), device=device) - 1))
        p0 = torch.randn_like(x)
        value0, g = value_and_grad(x)
        q, p = x, p0 + 0.5 * step * g
        for number in range(steps):
            q = q + step * p
            value, g = value_and_grad(q)
            p = p + (step if number < steps - 1 else 0.5 * step) * g
        gain = value - 0.5 * (p * p).sum(-1) - value0 + 0.5 * (p0 * p0).sum(-1)
        x.copy_(torch.where((torch.rand_like(gain).log() < gain)[:, None], q, x))

    return x, draw


def torch_eager(d: int, chains: int, steps: int) -> Draws | str:
    try:
        import torch
    except ImportError:
        return "not installed"
    x, draw = _torch_step(torch, d, chains, steps, "cuda" if torch.cuda.is_available() else "cpu")

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            draw()
        return x.cpu().numpy()

    return draws


def torch_cuda_graph(d: int, chains: int, steps: int) -> Draws | str:
    try:
        import torch
    except ImportError:
        return "not installed"
    if not torch.cuda.is_available():
        return "no CUDA device"
    x, draw = _torch_step(torch, d, chains, steps, "cuda")
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            draw()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        draw()

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            graph.replay()
        return x.cpu().numpy()

    return draws


PEERS: dict[str, Contender] = {
    "jax_jit": jax_jit, "torch_cuda_graph": torch_cuda_graph, "torch_eager": torch_eager
}  # fmt: skip


def checked(draws: Draws, chains: int, d: int) -> None:
    """Raise `AssertionError` unless the variance along the ones and across them is that of the distribution."""
    found = [draws(2) for _ in range(max(12, 1500 // chains))]
    along = np.var([x.sum(-1) / np.sqrt(d) for x in found]) / (1 + (d - 1) * RHO)
    across = np.var([(x[:, 0] - x[:, 1]) / np.sqrt(2) for x in found]) / (1 - RHO)
    # 770 draws of different chains at least, and more that are alike: five standard errors.
    assert abs(along - 1) < 0.25 and abs(across - 1) < 0.25, f"variances are {along:.2f} and {across:.2f} times right"


def timed(draws: Draws, runs: int) -> Spread:
    draws(3)
    samples = []
    for _ in range(runs):
        start = time.perf_counter()
        draws(BATCH)
        samples.append((time.perf_counter() - start) / BATCH * 1e6)
    return Spread.of(samples)


def measure(d: int, chains: int, steps: int, runs: int, peers: Sequence[str] = tuple(PEERS)) -> dict[str, Any]:
    """One line: ours, and the peers or why they have no time."""
    draws, dispatches = ours(d, chains, steps)
    began = time.perf_counter()
    draws(1)
    first_s = time.perf_counter() - began
    checked(draws, chains, d)
    line: dict[str, Any] = {
        "case": f"d = {d}, {chains} chains, {steps} steps", "dispatches": dispatches(), "first_s": round(first_s, 3),
        **timed(draws, runs).fields(), "peers": {},
    }  # fmt: skip
    for name in peers:
        found = PEERS[name](d, chains, steps)
        if isinstance(found, str):
            line["peers"][name] = {"none_because": found}
        else:
            checked(found, chains, d)
            line["peers"][name] = timed(found, runs).fields()
    return line


def shown(line: dict[str, Any]) -> str:
    peers = [digits(p["median_us"]) if "median_us" in p else "-" for p in line["peers"].values()]
    spread = f"{digits(line['median_us'])} [{digits(line['p10_us'])}-{digits(line['p90_us'])}]"
    return f"{line['case']:34}{line['dispatches']:8}{spread:>22}" + "".join(f"{time:>18}" for time in peers)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hmc", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--cases", default=CASES, help="d:chains:K, with commas")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--out", type=Path, help="a file for everything measured, a line of JSON each")
    chosen = parser.parse_args(given)
    began = time.monotonic()
    print(f"{vg.default_device()}: µs a draw")
    print(f"{'':34}{'kernels':>8}{'vkgrad':>22}" + "".join(f"{name:>18}" for name in PEERS))
    lines, left = [], chosen.cases.split(",")
    while left and time.monotonic() - began < chosen.seconds:
        d, chains, steps = map(int, left.pop(0).split(":"))
        lines.append(measure(d, chains, steps, chosen.runs))
        print(shown(lines[-1]), flush=True)
    if chosen.out:
        chosen.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if left:
        print(f"not reached: {', '.join(left)}")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
