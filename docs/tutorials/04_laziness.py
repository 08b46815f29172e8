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
# # Laziness, flush and the plan
#
# When does something run, what runs, and how can you see it? Counters answer, not stopwatches.

# %%
import warnings

import numpy as np

import vkgrad as vg
from vkgrad.config import config

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that

# %% [markdown]
# ## Operations are recorded
#
# An operation makes a node and returns. Shapes and types are known at once; mistakes are, too, at the line that made
# them.

# %%
x = vg.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
vg.eval(x)
with vg.counting() as counts:
    y = vg.softmax(vg.exp(x) * 2 + 1, axis=1)
    assert y.shape == (4, 6)
assert (counts.dispatches, counts.submissions) == (0, 0)

try:
    x @ x
except vg.errors.ShapeError as error:
    print(error)
else:
    raise AssertionError("a product of shapes that do not fit was recorded")

# %% [markdown]
# ## Reading runs
#
# `numpy()`, `item()`, `tolist()`, `float()`, `print` and their kin read, and reading is the only thing that runs
# something by itself. *Everything* that is pending runs, together, in one submission.

# %%
z = x.sum()
with vg.counting() as counts:
    y.numpy()
assert counts.submissions == 1
with vg.counting() as counts:
    z.item()  # was pending, too: already computed
assert counts.dispatches == 0

# %% [markdown]
# `vg.eval(a, b)` computes just these and leaves them on the device. `vg.flush()` runs whatever is pending.
#
# ## The plan
#
# `vg.plan` says what would run, without running it. Here all operations are one kernel: softmax and all that goes into
# it.

# %%
y = vg.softmax(vg.exp(x + 0) * 2 + 1, axis=1)
plan = vg.plan(y)
print(plan)
assert len(plan.kernels) == 1

# %% [markdown]
# Without fusion, which is a switch, each operation is a kernel that writes to memory what the next one reads.
# Element-wise work has the same bits either way.

# %%
with config.override(fuse=False):
    apart = vg.plan(y)
print(f"{len(plan.kernels)} kernel fused, {len(apart.kernels)} without")
assert len(apart.kernels) > 3

# %% [markdown]
# ## Views cost nothing
#
# Transposing, slicing, broadcasting and flipping change how a kernel reads, and are no kernels of their own.

# %%
viewed = x.T[::-1, 1:] * vg.arange(3)
assert len(vg.plan(viewed).kernels) == 1

# %% [markdown]
# ## Equal expressions are one
#
# Written twice, computed once: equal nodes are the same node.

# %%
assert (vg.tanh(x) + 1).node is (vg.tanh(x) + 1).node
assert len(vg.plan(vg.tanh(x) @ x.T, vg.tanh(x) @ x.T).kernels) == len(vg.plan(vg.tanh(x) @ x.T).kernels)

# %% [markdown]
# ## Loops
#
# Values that depend on values are a longer and longer graph until something reads. In a loop, `vg.eval` what goes on to
# the next round. The second round has the structure of the first, so its plan is found and not made.

# %%
state = vg.ones((4, 6))
vg.eval(state)
built = []
for _ in range(3):
    with vg.counting() as counts:
        state = vg.tanh(state @ x.T @ x)
        vg.eval(state)
    built.append(counts.plans_built)
print("plans built in each round:", built)
assert built == [1, 0, 0]

# %% [markdown]
# ## Recorded once
#
# `vg.jit` skips the graph too: it runs the Python function once and replays what that recorded. A Python number is part
# of what was recorded; another number records anew, and `.explain()` says why. Make it a tensor, and it is an input.


# %%
@vg.jit
def scaled(x, factor):
    return vg.tanh(x * factor)


scaled(x, 2.0)
scaled(x, 3.0)
print(scaled.explain())
assert len(scaled.steps) == 2

for factor in (vg.tensor(2.0), vg.tensor(3.0), vg.tensor(4.0)):
    assert np.allclose(scaled(x, factor).numpy(), np.tanh(x.numpy() * factor.item()), atol=1e-6)
assert len(scaled.steps) == 3

# %% [markdown]
# Inside a recorded function a value cannot be read: it does not exist yet, and the error says so.


# %%
@vg.jit
def hasty(x):
    return x * 2 if float(x.sum()) > 0 else x


try:
    hasty(x)
except vg.errors.VkgradError as error:
    print(error)
else:
    raise AssertionError("a value was read while recording")


@vg.jit
def patient(x):
    return vg.where(x.sum() > 0, x * 2, x)


assert patient(x + 1).tolist() == (2 * (x + 1)).tolist()

# %% [markdown]
# Next: [inside a kernel](05_inside_a_kernel.py).
