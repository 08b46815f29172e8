# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Bayesian inference with Hamiltonian Monte Carlo
#
# A model says how data come about if its parameters are known. Inference is the way back: what do the data say of the
# parameters? The answer is a density, known up to a constant, and `vg.inference` draws from it. It needs a gradient,
# which is what vkgrad has.

# %%
import math
import warnings

import numpy as np

import vkgrad as vg
from vkgrad.inference import HMC, NUTS, Phase, energy, leapfrog, sample

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
D = vg.distributions

# %% [markdown]
# ## A density is a ball on a hill
#
# Take minus the logarithm of a density as the height of a landscape, put a ball on it, push it in a random direction
# and let it roll. Where it is after a while is a new draw, far from the last one. Energy stays, so nearly every such
# draw is as likely as the one before. This landscape is a long valley: two numbers that are alike.

# %%
precision = vg.tensor(np.linalg.inv([[1.0, 0.9], [0.9, 1.0]]).astype(np.float32))


def valley(x):
    return -0.5 * (x * (precision @ x)).sum()


value_and_grad = vg.vmap(vg.value_and_grad(valley))
start = vg.tensor([[1.0, 1.0]])
ball = Phase(start, vg.tensor([[0.5, -1.0]]), *value_and_grad(start))
path = [ball]
for _ in range(30):
    path.append(leapfrog(value_and_grad, path[-1], step_size=0.1, inverse_mass=1.0, steps=1))
heights = vg.concat([energy(place, 1.0) for place in path]).numpy()
print(f"energy between {heights.min():.3f} and {heights.max():.3f}")
assert np.ptp(heights) < 0.05
assert np.abs(path[-1].position.numpy() - start.numpy()).max() > 0.5

# %% [markdown]
# Halve the step, and the error of the energy is a quarter.

# %%
errors = []
for step, count in ((0.1, 8), (0.05, 16)):
    end = leapfrog(value_and_grad, ball, step, 1.0, count)
    errors.append(abs(energy(end, 1.0) - energy(ball, 1.0)).item())
print("errors", errors)
assert 3 < errors[0] / errors[1] < 5

# %% [markdown]
# ## Many chains at once
#
# `sample` starts a chain from each row, finds a step size, learns the scales, and draws. Recorded, a draw is one
# submission for all chains and all steps.

# %%
with vg.counting() as counts:
    run = sample(valley, vg.zeros((32, 2)), vg.random.key(0), draws=100, warmup=100, kernel=HMC(steps=8))
print(run.summary())
print(f"{counts.submissions} submissions for 200 draws, {counts.host_nodes} nodes on the host")
assert counts.host_nodes == 0 and counts.submissions < 260
draws = run.draws.numpy().reshape(-1, 2)
assert np.abs(draws.mean(0)).max() < 0.1
assert abs(np.corrcoef(draws.T)[0, 1] - 0.9) < 0.03
assert run.r_hat().numpy().max() < 1.1

# %% [markdown]
# ## A regression whose noise is not known
#
# Data on a line, with a few that are far off. Student's t lets them be far off. Three unknowns: intercept, slope and
# the scale of the noise, which is positive. A sampler knows no bounds, so it moves the logarithm of the scale, and
# `biject_to` gives the correction of the density that this needs.

# %%
generator = np.random.default_rng(3)
x = np.linspace(-1, 1, 40).astype(np.float32)
y = (0.5 + 2.0 * x + 0.2 * generator.standard_normal(40)).astype(np.float32)
y[[4, 17, 33]] += (4.0, -3.0, 5.0)
x, y = vg.tensor(x), vg.tensor(y)
to_positive = D.biject_to(D.constraints.positive)


def posterior(unknown):
    scale = to_positive(unknown["log_scale"])
    return (
        D.Normal(0.0, 5.0).log_prob(unknown["line"]).sum()
        + D.HalfNormal(1.0).log_prob(scale)
        + to_positive.log_abs_det_jacobian(unknown["log_scale"], scale)
        + D.StudentT(2.0, unknown["line"][0] + unknown["line"][1] * x, scale).log_prob(y).sum()
    )


initial = {"line": vg.zeros((16, 2)), "log_scale": vg.zeros(16)}
run = sample(posterior, initial, vg.random.key(1), draws=150, warmup=150, kernel=HMC(steps=8))
print(run.summary())
line = run.draws["line"].numpy().reshape(-1, 2)
least_squares = np.polyfit(x.numpy(), y.numpy(), 1)[::-1]
print("least squares:", least_squares, " posterior mean:", line.mean(0))
assert np.abs(line.mean(0) - [0.5, 2.0]).max() < 0.15
assert abs(least_squares[0] - 0.5) > abs(line[:, 0].mean() - 0.5)  # it follows what is far off
assert run.r_hat()["line"].numpy().max() < 1.1

# %% [markdown]
# The answer is not a line but all lines that fit, each as often as the data allow it. So there is an interval for
# everything that is computed from them, such as the height at x = 2, where there are no data.

# %%
ahead = line @ [1.0, 2.0]
low, high = np.quantile(ahead, [0.05, 0.95])
print(f"at x = 2: from {low:.2f} to {high:.2f}")
assert low < 4.5 < high

# %% [markdown]
# ## A mixture, without a number of steps to choose
#
# Which of two groups each of 120 numbers belongs to is not known. Such unknowns that are whole numbers are summed over,
# which `MixtureSameFamily` does. `NUTS` doubles each trajectory until it would turn back; no number of steps is asked
# for. The second mean is the first plus something positive, or the groups could change places.

# %%
hidden = generator.random(120) < 0.3
seen = vg.tensor(np.where(hidden, -1.0, 2.0) + np.where(hidden, 0.5, 0.8) * generator.standard_normal(120), "float32")


def mixture(share, first, apart, log_scales):
    return D.MixtureSameFamily(
        D.Categorical(vg.stack([share, 1 - share])), D.Normal(vg.stack([first, first + apart]), vg.exp(log_scales))
    )


to_part = D.biject_to(D.constraints.unit_interval)


def groups(z):
    share, apart = to_part(z[0]), to_positive(z[2])
    return (
        D.Beta(2.0, 2.0).log_prob(share)
        + to_part.log_abs_det_jacobian(z[0], share)
        + D.Normal(0.0, 5.0).log_prob(z[1])
        + D.HalfNormal(5.0).log_prob(apart)
        + to_positive.log_abs_det_jacobian(z[2], apart)
        + D.Normal(0.0, 1.0).log_prob(z[3:]).sum()
        + mixture(share, z[1], apart, z[3:]).log_prob(seen).sum()
    )


# %%
run = sample(groups, vg.zeros((8, 5)), vg.random.key(2), draws=60, warmup=100, kernel=NUTS(max_depth=6))
z = run.draws.numpy().reshape(-1, 5)
share, first, second = 1 / (1 + np.exp(-z[:, 0])), z[:, 1], z[:, 1] + np.exp(z[:, 2])
print(run.summary())
print(f"share {share.mean():.2f} ± {share.std():.2f}, means {first.mean():.2f} and {second.mean():.2f}")
assert abs(share.mean() - 0.3) < 0.12 and abs(first.mean() + 1) < 0.4 and abs(second.mean() - 2) < 0.4
assert run.diverged.numpy().mean() < 0.05

# %% [markdown]
# Draws are tensors. What follows from them is computed as anything else is: the density of the next number, averaged
# over all draws.

# %%
places = vg.linspace(-4, 6, 201)
parameters = vg.tensor(z)


def density(z):
    return mixture(to_part(z[0]), z[1], to_positive(z[2]), z[3:]).prob(places)


predicted = vg.vmap(density)(parameters).mean(0).numpy()
assert abs(predicted.sum() * 0.05 - 1) < 0.01
peak = places.numpy()[predicted.argmax()]
print(f"most likely near {peak:.2f}")
assert math.isclose(peak, 2.0, abs_tol=0.4)

# %% [markdown]
# [Distributions and inference](../bayesian.md) has the rest: families, supports, what is adapted, what a draw costs.
