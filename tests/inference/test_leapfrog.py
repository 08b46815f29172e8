"""Trajectories keep their energy, can be walked back, and are one submission; on a GPU few dispatches, or one."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import vkgrad as vg
from tests.inference.targets import begin, correlated, sampler
from tests.schedule.test_stack import H200, WIDE, beside_for, stacking_for
from vkgrad import engine
from vkgrad.inference import HMC, Phase, energy, leapfrog
from vkgrad.inference.density import Density
from vkgrad.schedule.kernel import parts
from vkgrad.schedule.plan import Plan, build_plan

CHAINS = 5


def phase(d: int, dtype: str = "float32") -> tuple[Density, Phase]:
    start = begin(d, CHAINS, dtype)
    density = Density(correlated(d, dtype), start)
    momentum = vg.tensor(np.random.default_rng(d).standard_normal((CHAINS, d)), dtype)
    found = Phase(start, momentum, *density.value_and_grad(start))
    vg.eval(*found)
    return density, found


def error(density: Density, start: Phase, step: float, steps: int) -> float:
    end = leapfrog(density.value_and_grad, start, step, 1.0, steps)
    return float(np.abs((energy(end, 1.0) - energy(start, 1.0)).numpy()).max())


@pytest.mark.parametrize("d", [2, 13, 50])
@pytest.mark.usefixtures("on_cpu")
def test_energy_stays(d: int) -> None:
    """Within 1e-3 over 32 steps, and by the square of the step; Euler's method loses it."""
    density, start = phase(d, "float64")
    errors = [error(density, start, 0.004, 32), error(density, start, 0.002, 64)]  # to the same time
    assert errors[0] < 1e-3
    assert 3.5 < errors[0] / errors[1] < 4.5
    position, momentum, _, gradient = start
    for _ in range(32):
        position, momentum = position + 0.004 * momentum, momentum + 0.004 * gradient
        value, gradient = density.value_and_grad(position)
    euler = energy(Phase(position, momentum, value, gradient), 1.0) - energy(start, 1.0)
    assert np.abs(euler.numpy()).max() > 1e-3


@pytest.mark.usefixtures("on_cpu")
def test_a_trajectory_is_walked_back() -> None:
    density, start = phase(13, "float64")
    scale = vg.tensor(np.linspace(0.5, 2, 13))
    end = leapfrog(density.value_and_grad, start, 0.05, scale, 20)
    back = leapfrog(density.value_and_grad, end._replace(momentum=-end.momentum), 0.05, scale, 20)
    np.testing.assert_allclose(back.position.numpy(), start.position.numpy(), rtol=1e-10)
    assert np.abs(end.position.numpy() - start.position.numpy()).max() > 0.1


@pytest.mark.device
@pytest.mark.parametrize("d", [2, 50])
def test_a_trajectory_is_one_submission(d: int) -> None:
    density, start = phase(d)

    @vg.jit
    def run(*start: vg.Tensor) -> tuple[vg.Tensor, ...]:
        return tuple(leapfrog(density.value_and_grad, Phase(*start), 0.02, 1.0, 16))

    run(*start)
    with vg.counting() as c:
        end = run(*start)
        found = Phase(*end).position.numpy()
    assert (c.submissions, c.host_nodes, c.plans_built) == (1, 0, 0)
    assert c.dispatches <= 2 * 16 + 2
    apart = energy(Phase(*end), 1.0).numpy() - energy(start, 1.0).numpy()
    assert np.abs(apart).max() < 1e-3 * max(1.0, np.abs(energy(start, 1.0).numpy()).max())
    expected, precision = _by_numpy(d, start, 0.02, 16), 1e-4
    np.testing.assert_allclose(found, expected, atol=precision * np.abs(expected).max())


def _by_numpy(d: int, start: Phase, step: float, steps: int) -> np.ndarray:
    from tests.inference.targets import covariance

    precision, mean = np.linalg.inv(covariance(d)), np.arange(1, d + 1)
    q, p = (x.numpy().astype(float) for x in start[:2])
    for _ in range(steps):
        p = p - 0.5 * step * (q - mean) @ precision
        q = q + step * p
        p = p - 0.5 * step * (q - mean) @ precision
    return q


def plan_on_a_gpu(d: int, steps: int) -> Plan:
    """The plan of a draw of 64 chains for a GPU, which need not be here."""
    plans: list[Plan] = []

    def recorded(*arguments, **options):  # type: ignore[no-untyped-def]
        own = {
            "width": WIDE, "max_buffers": H200.max_buffers, "stacking": stacking_for(H200, lambda kernel: None),
            "beside": beside_for(H200, lambda kernel: None),
        }  # fmt: skip
        plans.append(build_plan(*arguments, **{**options, **own}))
        return build_plan(*arguments, **options)

    moves = sampler(HMC(steps=steps), correlated(d), begin(d, 64), 0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "build_plan", recorded)
        patch.setattr(engine, "_plans", OrderedDict())
        moves.draw(0)
    return plans[-1]


@pytest.mark.parametrize("d", [2, 13, 50])
@pytest.mark.usefixtures("on_cpu")
def test_a_trajectory_on_a_gpu(d: int) -> None:
    """A workgroup takes a chain through all of a short trajectory: two dispatches, of which one makes the chance.

    A longer one is cut where a dispatch has `stack.MOST_MEMBERS` kernels.
    """
    short = plan_on_a_gpu(d, 4)
    assert len(short.kernels) <= 2
    assert max(len(parts(dispatch)) for dispatch in short.kernels) >= 2 * 4
    assert len(plan_on_a_gpu(d, 16).kernels) <= 5
