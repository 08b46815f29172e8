"""A draw of Hamiltonian Monte Carlo beside JAX and PyTorch: one normal distribution, correlated, in d dimensions.

    python benchmarks/hmc.py [--draws 300] [--members 16 64]

A draw is momenta, K leapfrog steps and the choice, for all chains. JAX's is one jitted function with a loop inside,
PyTorch's runs op by op. Each is first held to the variance that the distribution has. `--members` also tries other
numbers of kernels that may share a dispatch, with the time that the first draw takes, which compiles them.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

import vkgrad as vg
from vkgrad import engine
from vkgrad.inference.adapting import Adaptation
from vkgrad.inference.chains import Chains
from vkgrad.inference.density import Density
from vkgrad.schedule import stack

RHO, STEP = 0.5, 0.25
Draw = Callable[[int], np.ndarray]


def precision(d: int) -> np.ndarray:
    return np.linalg.inv((1 - RHO) * np.eye(d) + RHO).astype(np.float32)


def begin(chains: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((chains, d)).astype(np.float32)


def vkgrad_draws(d: int, chains: int, steps: int) -> tuple[Draw, Callable[[], str]]:
    matrix = vg.tensor(precision(d))
    start = vg.tensor(begin(chains, d))
    density = Density(lambda x: -0.5 * (x * (matrix @ x)).sum(), start)
    state, adaptation = Chains(density, density.rows(start)), Adaptation(d, density.dtype, 0.8)
    adaptation.start_at(STEP)
    sampler = vg.inference.HMC(steps=steps).sampler(state, adaptation, vg.random.key(1))
    numbers = itertools.count()

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            latest = sampler.draw(next(numbers))
        return latest.position.numpy()

    draws(1)

    def counts() -> str:
        with vg.counting() as c:
            draws(1)
        return f"{c.submissions} submission, {c.dispatches} dispatches"

    return draws, counts


def jax_draws(d: int, chains: int, steps: int) -> Draw | None:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    matrix = jnp.asarray(precision(d))
    value_and_grad = jax.vmap(jax.value_and_grad(lambda x: -0.5 * (x * (matrix @ x)).sum()))

    @jax.jit
    def draw(x, key, number):  # type: ignore[no-untyped-def]
        moment, accept, size = jax.random.split(jax.random.fold_in(key, number), 3)
        step = STEP * (1 + 0.2 * (2 * jax.random.uniform(size) - 1))
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

    draws(1)
    return draws


def torch_draws(d: int, chains: int, steps: int) -> Draw | None:
    try:
        import torch
    except ImportError:
        return None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    matrix, state = torch.from_numpy(precision(d)).to(device), [torch.from_numpy(begin(chains, d)).to(device)]

    def value_and_grad(x):  # type: ignore[no-untyped-def]
        x = x.detach().requires_grad_()
        value = -0.5 * (x * (x @ matrix)).sum(-1)
        return value.detach(), torch.autograd.grad(value.sum(), x)[0]

    def draws(count: int) -> np.ndarray:
        for _ in range(count):
            x = state[0]
            step = STEP * (1 + 0.2 * (2 * torch.rand((), device=device) - 1))
            p0 = torch.randn_like(x)
            value0, g = value_and_grad(x)
            q, p = x, p0 + 0.5 * step * g
            for number in range(steps):
                q = q + step * p
                value, g = value_and_grad(q)
                p = p + (step if number < steps - 1 else 0.5 * step) * g
            gain = value - 0.5 * (p * p).sum(-1) - value0 + 0.5 * (p0 * p0).sum(-1)
            state[0] = torch.where((torch.rand_like(gain).log() < gain)[:, None], q, x)
        return state[0].cpu().numpy()

    draws(1)
    return draws


def time_us(draws: Draw, count: int) -> tuple[float, float, float]:
    """µs a draw when many follow each other: the median of nine goes, with the least and the most."""
    goes = []
    for _ in range(9):
        start = time.perf_counter()
        draws(count)
        goes.append((time.perf_counter() - start) / count * 1e6)
    return median(goes), min(goes), max(goes)


def checked(draws: Draw, d: int, chains: int) -> None:
    """Raise `AssertionError` unless variances over many draws are near 1."""
    found = np.mean([draws(3).var(0).mean() for _ in range(max(10, 4000 // chains))])
    assert abs(found - 1) < 0.15, f"variance {found}"


def cases() -> Iterator[tuple[int, int, int]]:
    for d, chains in ((2, 64), (13, 64), (50, 64), (50, 1024)):
        for steps in (4, 16, 32):
            yield d, chains, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--members", type=int, nargs="+", default=[stack.MOST_MEMBERS])
    parser.add_argument("--alone", action="store_true", help="without JAX and PyTorch")
    options = parser.parse_args()
    print(f"{vg.default_device()}; µs a draw, median (least to most)")
    for d, chains, steps in cases():
        print(f"d = {d}, {chains} chains, {steps} steps")
        for members in options.members:
            stack.MOST_MEMBERS, stack.MOST_CODE = members, members * 38
            engine._plans.clear()  # else the plan for other numbers would be found again
            start = time.perf_counter()
            draws, counts = vkgrad_draws(d, chains, steps)
            first = time.perf_counter() - start
            checked(draws, d, chains)
            print("  vkgrad {:4} members: {:8.1f} ({:.1f} to {:.1f})".format(members, *time_us(draws, options.draws)),
                  f"{counts()}, first draw {first:.2f} s", flush=True)  # fmt: skip
        for name, make in (("JAX", jax_draws), ("PyTorch", torch_draws)) if not options.alone else ():
            peer = make(d, chains, steps)
            if peer is not None:
                checked(peer, d, chains)
                print("  {:20} {:8.1f} ({:.1f} to {:.1f})".format(name, *time_us(peer, options.draws)), flush=True)


if __name__ == "__main__":
    main()
