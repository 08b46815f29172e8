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
# # Gradients and transforms
#
# Functions that take a function and give another: its gradient, its derivative along a direction, the same function
# over a batch. They compose in any order, because each turns a graph of primitives into a graph of primitives.

# %%
import warnings

import numpy as np

import vkgrad as vg
from vkgrad import nn
from vkgrad.testing import check_grads

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that

# %% [markdown]
# ## Gradients
#
# `vg.grad` differentiates by the first argument, or by those that `argnums` names. Arguments may be dicts, lists and
# tuples; the gradient has the same nesting. Of a module, it is a dict with the names of its parameters.


# %%
def loss_of(parameters, x):
    return ((x @ parameters["weight"] + parameters["bias"]) ** 2).sum()


parameters = {"weight": vg.tensor([1.0, -2.0]), "bias": vg.tensor(0.5)}
x = vg.tensor([[3.0, 1.0], [0.0, 1.0]])
gradients = vg.grad(loss_of)(parameters, x)
print(gradients)
assert gradients["weight"].tolist() == [9.0, 0.0]
assert vg.grad(loss_of, argnums=1)(parameters, x).shape == x.shape

model = nn.Linear(2, 1)
assert set(vg.grad(lambda m: m(x).sum())(model)) == {"weight", "bias"}

# %% [markdown]
# The habit of PyTorch works too, on the same engine.

# %%
w = vg.tensor([1.0, -2.0], requires_grad=True)
((x @ w + 0.5) ** 2).sum().backward()
assert w.grad.tolist() == [9.0, 0.0]

# %% [markdown]
# ## Along a direction
#
# `vg.jvp(f, primals, tangents)` goes forward: the value, and how it changes when the arguments move along the tangents.
# It is the cheap way where there are few inputs and many outputs. `vg.vjp` goes backward, and `grad` is that with a
# cotangent of 1.


# %%
def path(t):
    return vg.stack([vg.cos(t), vg.sin(t), t])


place, speed = vg.jvp(path, (vg.tensor(0.0),), (vg.tensor(1.0),))
assert place.tolist() == [1.0, 0.0, 0.0] and speed.tolist() == [0.0, 1.0, 1.0]

value, pull = vg.vjp(path, vg.tensor(0.0))
(slope,) = pull(vg.tensor([0.0, 0.0, 1.0]))
assert slope.item() == 1.0

# %% [markdown]
# ## Second derivatives
#
# `hessian` is all of them. `hvp` is the Hessian times a vector without ever making the Hessian: the derivative of the
# gradient along a direction, and you can write it yourself.


# %%
def energy(x):
    return vg.sum(x**4) / 12 + x[0] * x[1]


point, direction = vg.tensor([1.0, 2.0]), vg.tensor([1.0, 1.0])
curvature = vg.hessian(energy)(point)
print(curvature)
assert curvature.tolist() == [[1.0, 1.0], [1.0, 4.0]]

by_hand = vg.jvp(vg.grad(energy), (point,), (direction,))[1]
assert by_hand.tolist() == (curvature @ direction).tolist() == [2.0, 5.0]
assert vg.hvp(energy, (point,), (direction,)).tolist() == [2.0, 5.0]

# %% [markdown]
# ## A batch, without writing it
#
# Write a function of one example; `vg.vmap` makes it one of a batch, computed as a whole, not in a loop. `in_axes` says
# which arguments have a batch and on which axis. A gradient for *each* example, which other ways make hard, is two
# words.


# %%
def error(weight, x, y):
    return (x @ weight - y) ** 2


rows = vg.tensor(np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32))
targets = vg.ones((5,))
weight = vg.tensor([0.5, -0.5])
each = vg.vmap(vg.grad(error), in_axes=(None, 0, 0))(weight, rows, targets)
assert each.shape == (5, 2)
together = vg.grad(lambda w: vg.vmap(error, in_axes=(None, 0, 0))(w, rows, targets).sum())(weight)
assert np.allclose(each.sum(axis=0).numpy(), together.numpy(), atol=1e-5)

with vg.counting() as counts:
    vg.eval(vg.vmap(vg.grad(error), in_axes=(None, 0, 0))(weight + 1, rows, targets))
print(f"{counts.dispatches} dispatches, {counts.submissions} submission for all five")
assert counts.submissions == 1

# %% [markdown]
# ## Memory for time
#
# A gradient needs what the forward pass computed, so all of that is kept. `vg.checkpoint(f)` keeps only what goes into
# `f`, and computes the inside again when the gradient needs it. The numbers are the same.


# %%
def deep(x):
    for _ in range(4):
        x = vg.tanh(1.1 * x + 0.1)
    return x


plain = vg.grad(lambda x: deep(deep(x)).sum())(point)
checkpointed = vg.grad(lambda x: vg.checkpoint(deep)(vg.checkpoint(deep)(x)).sum())(point)
assert np.array_equal(plain.numpy(), checkpointed.numpy())

# %% [markdown]
# ## Say it yourself
#
# `vg.stop_gradient` makes a value a constant. `vg.custom_vjp` gives a function a derivative that you choose: here
# rounding, whose true derivative is 0 and teaches nothing, passes the gradient straight through.


# %%
@vg.custom_vjp
def rounded(x):
    return vg.round(x)


rounded.defvjp(lambda x: (vg.round(x), ()), lambda residuals, g: (g,))
assert vg.grad(lambda x: vg.round(x).sum())(point).tolist() == [0.0, 0.0]
assert vg.grad(lambda x: rounded(3 * x).sum())(point).tolist() == [3.0, 3.0]
assert vg.grad(lambda x: (x * vg.stop_gradient(x)).sum())(point).tolist() == point.tolist()

# %% [markdown]
# ## Where there is a kink
#
# A gradient at a corner is a choice, and [numerics](../numerics.md) lists each. The branch that `where` did not take
# sends nothing back, not even when its own derivative is infinite.

# %%
zero = vg.tensor(0.0)
assert vg.grad(vg.relu)(zero).item() == vg.grad(vg.abs)(zero).item() == 0.0
assert vg.grad(lambda x: vg.max(x))(vg.tensor([2.0, 2.0, 1.0])).tolist() == [0.5, 0.5, 0.0]
assert vg.grad(lambda x: vg.where(x > 0, vg.sqrt(x), 0.0))(zero).item() == 0.0

# %% [markdown]
# ## Check it
#
# `check_grads` compares derivatives of any function with difference quotients, forward and backward, to second order.

# %%
check_grads(lambda x: vg.tanh(x) * vg.sin(x), (point,), order=2)
try:
    check_grads(lambda x: rounded(3 * x), (point,), order=1)
except AssertionError as refusal:
    print(str(refusal).splitlines()[0])
else:
    raise AssertionError("a made-up derivative passed")

# %% [markdown]
# Next: [laziness, flush and the plan](04_laziness.py).
