"""Draws of HMC and NUTS: moments of known distributions, bits that do not change, submissions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.inference.targets import begin, correlated, covariance, sampler
from vkgrad import distributions as D
from vkgrad import inference
from vkgrad.config import config
from vkgrad.errors import DTypeError, OptionError, ShapeError, VkgradError
from vkgrad.inference import HMC, NUTS, nuts
from vkgrad.inference.adapting import Duty, duties, first_step_size
from vkgrad.inference.sampling import Run

KERNELS = {"HMC": HMC(steps=8), "NUTS": NUTS(max_depth=6)}


def moments_fit(run: Run, d: int) -> None:
    """Raise `AssertionError` unless means and variances are within four standard errors, by the effective draws."""
    x = run.draws.numpy().reshape(-1, d).astype(float)
    draws = np.minimum(run.ess().numpy(), x.shape[0])
    deviation = np.sqrt(np.diag(covariance(d)))
    apart = np.abs(x.mean(0) - np.arange(1, d + 1)) / (deviation / np.sqrt(draws))
    assert apart.max() < 4, f"means are {apart.max():.1f} standard errors off"
    squares = inference.ess((run.draws - vg.tensor(x.mean(0), run.draws.dtype)) ** 2).numpy()
    apart = np.abs(x.var(0) / deviation**2 - 1) / np.sqrt(2 / np.minimum(squares, x.shape[0]))
    assert apart.max() < 4, f"variances are {apart.max():.1f} standard errors off"
    alike = np.corrcoef(x.T) - covariance(d) / (deviation * deviation[:, None])
    assert np.abs(alike).max() < 5 / np.sqrt(min(draws.min(), squares.min()))


@pytest.mark.parametrize(("name", "d", "chains"), [
    ("HMC", 2, 64), ("HMC", 13, 64), ("HMC", 50, 64), ("NUTS", 2, 64), ("NUTS", 13, 32), ("NUTS", 50, 32),
])  # fmt: skip
@pytest.mark.usefixtures("on_cpu")
def test_moments(name: str, d: int, chains: int) -> None:
    draws, warmup = 60 if name == "HMC" else 30, 120
    start = vg.tensor(np.random.default_rng(1).standard_normal((chains, d)).astype(np.float32))
    run = inference.sample(correlated(d), start, vg.random.key(d), draws=draws, warmup=warmup, kernel=KERNELS[name])
    assert run.draws.shape == (chains, draws, d) and run.diverged.numpy().mean() < 0.01
    assert 0.7 < run.accepted.numpy().mean() < 0.99
    assert np.abs(np.log(run.inverse_mass.numpy() / np.diag(covariance(d)))).max() < 0.5  # scales were learned
    assert run.r_hat().numpy().max() < 1.2  # halves of chains are 15 draws
    moments_fit(run, d)


@pytest.mark.usefixtures("on_cpu")
def test_wrong_samplers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null arms: trajectories with large steps that are always taken, and trees whose later half always is."""
    start = begin(2, 64)

    def run_of(kernel: Any, step: float) -> Run:
        return inference.sample(
            correlated(2), start, vg.random.key(0), draws=100, warmup=0, kernel=kernel(step_size=step)
        )

    hmc, tree = (lambda step_size: HMC(4, step_size)), (lambda step_size: NUTS(5, step_size))
    moments_fit(run_of(hmc, 0.55), 2)
    moments_fit(run_of(tree, 0.55), 2)
    with monkeypatch.context() as patch:
        patch.setattr("vkgrad.inference.hmc.energy", lambda phase, mass: 0.0 * phase.log_density)
        with pytest.raises(AssertionError, match="standard errors off"):
            moments_fit(run_of(hmc, 0.55), 2)
    merged = nuts.merged
    with monkeypatch.context() as patch:
        patch.setattr(nuts, "merged", lambda a, b, log_u, mass: merged(a, b, log_u - 1e9, mass))
        with pytest.raises(AssertionError, match="standard errors off"):
            moments_fit(run_of(tree, 0.55), 2)


@pytest.mark.usefixtures("on_cpu")
def test_long_trees_of_small_steps() -> None:
    """Trees of more levels than one recorded step has: trajectories as long, and the same moments."""
    start = begin(2, 64)
    run = inference.sample(
        correlated(2), start, vg.random.key(0), draws=60, warmup=0, kernel=NUTS(max_depth=8, step_size=0.05)
    )
    steps = run.steps.numpy()
    assert np.log2(np.median(steps + 1)) > nuts.UNROLLED + 1 and steps.max() < 2**8
    moments_fit(run, 2)
    shallow = inference.sample(
        correlated(2), start, vg.random.key(0), draws=5, warmup=0, kernel=NUTS(max_depth=5, step_size=0.01)
    )
    assert (shallow.steps.numpy() == 2**5 - 1).mean() > 0.95  # as far as it may, but near turns
    assert np.abs(shallow.accepted.numpy() - 1).max() < 1e-2


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.usefixtures("on_cpu")
def test_the_first_draws_of_a_longer_run(name: str) -> None:
    start = begin(3, 4)

    def draws(count: int, seed: int = 0) -> Run:
        return inference.sample(correlated(3), start, vg.random.key(seed), draws=count, warmup=30, kernel=KERNELS[name])

    long, short = draws(25), draws(10)
    for what in ("draws", "log_density", "accepted", "steps", "diverged"):
        np.testing.assert_array_equal(getattr(long, what).numpy()[:, :10], getattr(short, what).numpy())
    assert long.step_size == short.step_size
    assert not np.array_equal(draws(10, seed=1).draws.numpy(), short.draws.numpy())  # the null arm


def first_draws(kernel: Any) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Positions and steps of four draws on the device of the day, and how many submissions each took."""
    moves = sampler(kernel, correlated(2), begin(2, 3), 0.3)
    for number in range(1000, 1020):  # all of it is recorded
        moves.draw(number)
    positions, steps, submissions = [], [], []
    for number in range(4):
        with vg.counting() as c:
            outcome = moves.draw(number)
            positions.append(outcome.position.numpy())
        assert c.host_nodes == 0
        steps.append(outcome.steps.numpy())
        submissions.append(c.submissions)
        del outcome  # else its memory is moved out of the recording's before that is written again
    return np.array(positions), np.array(steps), submissions


@pytest.mark.device
@pytest.mark.parametrize("name", KERNELS)
def test_a_draw_is_one_submission(name: str) -> None:
    """Of HMC; of NUTS one for each doubling of up to 8 steps. Draws are those of the cpu device."""
    kernel = {"HMC": HMC(steps=8), "NUTS": NUTS(max_depth=nuts.UNROLLED + 1)}[name]
    positions, steps, submissions = first_draws(kernel)
    if name == "HMC":
        assert submissions == [1] * 4
    else:
        doublings = np.ceil(np.log2(steps.max(1) + 1)).astype(int)
        assert all(count <= most for count, most in zip(submissions, doublings, strict=True)), (submissions, doublings)
    with config.override(device="cpu"):
        expected = first_draws(kernel)
    np.testing.assert_array_equal(steps, expected[1])
    np.testing.assert_allclose(positions, expected[0], atol=1e-3)


@pytest.mark.usefixtures("on_cpu")
def test_positions_of_any_nesting() -> None:
    """A regression in double precision: a dict of a vector and a number, against its exact posterior."""
    generator = np.random.default_rng(0)
    x = np.column_stack([np.ones(40), generator.standard_normal(40)])
    y = x @ [0.5, -1.0] + 0.3 * generator.standard_normal(40)
    data, seen = vg.tensor(x), vg.tensor(y)

    def log_density(position: dict) -> vg.Tensor:
        weights, log_scale = position["weights"], position["inner"][0]
        scale = vg.exp(log_scale)
        return (
            D.Normal(0.0, 10.0).log_prob(weights).sum()
            + D.Gamma(2.0, 2.0).log_prob(scale)
            + log_scale
            + D.Normal(data @ weights, scale).log_prob(seen).sum()
        )

    initial = {"weights": vg.zeros((32, 2), dtype="float64"), "inner": (vg.zeros(32, dtype="float64"),)}
    run = inference.sample(log_density, initial, vg.random.key(0), draws=80, warmup=150, kernel=HMC(steps=6))
    assert run.draws["weights"].shape == (32, 80, 2) and run.draws["inner"][0].shape == (32, 80)
    assert run.draws["weights"].dtype is vg.float64 and run.log_density.dtype is vg.float64
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    found = run.draws["weights"].numpy().mean((0, 1))
    assert np.abs(found - expected).max() < 0.02
    again = vg.vmap(vg.vmap(log_density))(run.draws).numpy()
    np.testing.assert_allclose(run.log_density.numpy(), again, rtol=1e-10)
    table = run.summary().splitlines()
    assert len(table) == 4 and table[1].startswith("['weights'][0]") and table[3].startswith("['inner'][0]")


# ---- the warm-up
def test_windows_are_stans() -> None:
    found = duties(1000)
    assert len(found) == 1000
    assert [number for number, duty in enumerate(found, 1) if duty.closes] == [100, 150, 250, 450, 950]
    assert {number for number, duty in enumerate(found) if duty.collects} == set(range(75, 950))
    for count in range(160):
        short = duties(count)
        assert len(short) == count
        assert count < 3 or any(duty.closes for duty in short)
    assert duties(0) == [] and duties(1) in ([Duty(True, True)], [Duty(False, False)])


def test_the_first_step_size() -> None:
    asked: list[float] = []

    def accepted_at(step: float) -> float:
        asked.append(step)
        return 1.0 if step <= 0.03 else 0.1

    assert first_step_size(accepted_at) == 2**-6
    assert first_step_size(lambda step: 1.0 if step <= 5 else 0.0) == 4.0
    assert len(asked) < 10


# ---- what is refused
NORMAL: Callable[[Any], Any] = lambda x: -0.5 * (x * x).sum()  # noqa: E731


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: inference.sample(NORMAL, vg.zeros(()), vg.random.key(0)), ShapeError, "first axis of every part"),
        (lambda: inference.sample(NORMAL, [vg.zeros((2, 3)), vg.zeros((3, 3))], vg.random.key(0)), ShapeError, "chain"),
        (lambda: inference.sample(NORMAL, vg.zeros((2, 3), dtype="int32"), vg.random.key(0)), DTypeError, "int32"),
        (lambda: inference.sample(NORMAL, [], vg.random.key(0)), OptionError, "got none"),
        (lambda: inference.sample(lambda x: x, vg.zeros((2, 3)), vg.random.key(0)), ShapeError, "is one float"),
        (
            lambda: inference.sample(lambda x: vg.log(x).sum(), vg.tensor([[1.0], [-1.0]]), vg.random.key(0)),
            OptionError,
            "chain 1 begins where the log density is nan",
        ),
        (lambda: inference.sample(NORMAL, vg.zeros((2, 3)), vg.random.key(0), draws=0), OptionError, "1 draw or more"),
        (lambda: inference.HMC(steps=0), OptionError, "1 step or more, got steps=0"),
        (lambda: inference.HMC(step_size=-1.0), OptionError, "step_size must be positive"),
        (lambda: inference.HMC(jitter=1.0), OptionError, "jitter is a part"),
        (lambda: inference.NUTS(target=1.0), OptionError, "target is a probability"),
        (lambda: inference.NUTS(max_depth=0), OptionError, "max_depth is from 1 to 20"),
    ],
)
@pytest.mark.usefixtures("on_cpu")
def test_one_sentence(call: Callable[[], Any], kind: type, words: str) -> None:
    with pytest.raises(VkgradError, match=words) as error:
        call()
    assert isinstance(error.value, kind)
