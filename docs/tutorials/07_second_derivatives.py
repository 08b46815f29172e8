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
# # Second derivatives: solve an equation with a network
#
# Find u with u″(x) + u(x) = 0, u(0) = 0, u′(0) = 1. You know the answer, the network does not: it sees the equation
# alone. The loss holds u″, and training differentiates the loss by the weights, so three derivatives are nested.
# Nothing about that is special.

# %%
import math
import warnings

import numpy as np

import vkgrad as vg
from vkgrad import nn

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that

# %% [markdown]
# ## Derivatives of a function of one number
#
# `vg.grad` is enough, twice. `vg.jvp` of itself is the other way to the same; going forward suits a function of one
# number.

# %%
point = vg.tensor(0.7)
backward = vg.grad(vg.grad(vg.sin))(point)


def derivative(f):
    return lambda x: vg.jvp(f, (x,), (vg.ones_like(x),))[1]


forward = derivative(derivative(vg.sin))(point)
assert abs(backward.item() + math.sin(0.7)) < 1e-6
assert abs(forward.item() + math.sin(0.7)) < 1e-6

# %% [markdown]
# With `ones_like` as the tangent, `derivative` takes a whole array of points at once, since each output depends on its
# own point alone.

# %%
points = vg.linspace(0, math.pi, 24)
assert np.allclose(derivative(vg.sin)(points).numpy(), np.cos(points.numpy()), atol=1e-6)

# %% [markdown]
# ## The network and the equation
#
# u(x) = x + x² · network(x) meets both conditions at 0 whatever the network says.

# %%
vg.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimiser = vg.optim.Adam(model, lr=1e-2)


def solution(model):
    return lambda x: x + x**2 * model(x[:, None])[:, 0]


def residual(model):
    u = solution(model)
    return derivative(derivative(u))(points) + u(points)


assert solution(model)(vg.zeros((1,))).item() == 0.0
assert derivative(solution(model))(vg.zeros((1,))).item() == 1.0

# %% [markdown]
# ## Train
#
# Recorded, a step with all its derivatives is one submission.


# %%
@vg.jit
def step():
    loss, gradients = vg.value_and_grad(lambda m: (residual(m) ** 2).mean())(model)
    optimiser.update(model, gradients)
    return loss


for number in range(300):
    loss = step()
    if number % 75 == 0:
        print(f"step {number:3}: mean square of the residual {loss.item():.6f}")
with vg.counting() as counts:
    step().item()
print(counts)
assert counts.submissions == 1 and counts.host_nodes == 0 and counts.plans_built == 0

# %% [markdown]
# ## Is it the sine?

# %%
between = vg.linspace(0.05, 3.1, 50)
found = solution(model)(between)
error = abs(found - vg.sin(between)).max().item()
print(f"largest error between the points: {error:.4f}")
assert error < 0.05

# %% [markdown]
# `examples/pinn.py` and `examples/neural_ode.py` go on from here. Next: [files and PyTorch](08_files.py).
