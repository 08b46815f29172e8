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
# # Ten minutes
#
# Tensors, what lazy means, gradients, a look at what actually runs, and a training from data to a file for PyTorch.
# Every cell can be run again; the `assert`s are there so that this page cannot go wrong unnoticed.

# %%
import tempfile
import warnings
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import vkgrad as vg
from vkgrad import nn

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
print(vg.default_device().name)

# %% [markdown]
# ## Tensors
#
# From numbers, lists or NumPy arrays; made on the device where they need no data. The functions have NumPy's names.

# %%
x = vg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
print(x.shape, x.dtype, x.ndim)
print(x.T @ x)
print(vg.where(x > 2.5, x, 0))
print(x[:, ::-1], x[None, 1, 1:])

assert (x.T @ x).shape == (3, 3)
assert vg.sum(x, axis=0).tolist() == [5.0, 7.0, 9.0]
assert np.allclose(vg.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5))

# %% [markdown]
# Arrays and plain numbers work on either side of an operator. Numbers do not widen a type; arrays do.

# %%
assert (x + 1).dtype is vg.float32
assert (np.ones(3, np.float32) + x).shape == (2, 3)

# %% [markdown]
# ## Nothing runs until a value is read
#
# An operation records a node. Asking for a shape or a type computes nothing. Reading a value runs everything that is
# pending, in **one submission** to the device.

# %%
with vg.counting() as counts:
    hidden = vg.tanh(x @ x.T + 0.5)
    result = vg.softmax(hidden) * 2
    print(result.shape)
assert counts.dispatches == 0

with vg.counting() as counts:
    print(result)
print(f"{counts.submissions} submission, {counts.dispatches} dispatches, {counts.barriers} barriers")
assert counts.submissions == 1
assert counts.host_nodes == 0

# %% [markdown]
# A value that was computed stays on the device; reading it again computes nothing. Whatever the device cannot compute
# is refused when it is written, so nothing ever runs on the host behind your back.

# %%
with vg.counting() as counts:
    again = result.numpy()
assert counts.dispatches == 0

# %% [markdown]
# `vg.flush()` runs what is pending without reading; you never need it to be right, only to measure.
#
# ## Gradients
#
# `vg.grad(f)` is the function that computes the gradient of `f`. Gradients are graphs of the same primitives, so
# `grad` of `grad` is nothing special.


# %%
def cube(x):
    return vg.sum(x**3)


print(vg.grad(cube)(vg.tensor([1.0, 2.0])))
assert vg.grad(cube)(vg.tensor([1.0, 2.0])).tolist() == [3.0, 12.0]
second = vg.grad(lambda x: vg.grad(cube)(x).sum())
assert second(vg.tensor([1.0, 2.0])).tolist() == [6.0, 12.0]

# %% [markdown]
# Arguments may be nested; the gradient comes back in the same nesting. `value_and_grad` gives both.

# %%
inputs = vg.linspace(-1, 1, 40).reshape(-1, 1)
wanted = 3 * inputs - 0.5
parameters = {"slope": vg.zeros((1,)), "shift": vg.zeros((1,))}


def loss_of(parameters):
    return vg.mean((inputs * parameters["slope"] + parameters["shift"] - wanted) ** 2)


for _ in range(100):
    loss, gradients = vg.value_and_grad(loss_of)(parameters)
    parameters = {name: value - 0.3 * gradients[name] for name, value in parameters.items()}
    vg.eval(loss, parameters)
print(parameters["slope"].item(), parameters["shift"].item(), loss.item())
assert abs(parameters["slope"].item() - 3) < 1e-3
assert abs(parameters["shift"].item() + 0.5) < 1e-3

# %% [markdown]
# ## What will run
#
# Here is a small expression as a graph. Literals are written into their readers; dashed boxes are views, which never
# run.

# %%
batch = vg.tensor(np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32))
weight = vg.tensor(np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32))
bias = vg.tensor(np.zeros(8, np.float32))
output = vg.softmax(vg.tanh(batch @ weight + bias) * 0.5)

picture = vg.viz.graph(output)
picture

# %% [markdown]
# And this is the plan: what the scheduler made of it. A coloured card is one dispatch, a pill is a buffer, a dashed
# line a barrier. The matrix product is one kernel; bias, `tanh`, the scaling and the whole softmax are another.

# %%
plan = vg.viz.plan(output)
plan

# %%
print(vg.plan(output))
assert len(vg.plan(output).kernels) <= 2
assert "<svg" in picture.svg() and "barrier" in plan.svg()

# %% [markdown]
# Looking ran nothing. Now it runs, in one submission, as planned. (`vg.eval` computes what it is given; reading a value
# would also run whatever else is pending.)

# %%
planned = len(vg.plan(output).kernels)
with vg.counting() as counts:
    vg.eval(output)
assert counts.submissions == 1
assert counts.dispatches == planned
assert np.allclose(output.numpy().sum(axis=1), 1, atol=1e-6)

# %% [markdown]
# ## Record once, replay
#
# `vg.jit` keeps the recording of a function: later calls build no graph, schedule nothing, compile nothing and allocate
# nothing.


# %%
@vg.jit
def step(batch):
    return vg.softmax(vg.tanh(batch @ weight + bias) * 0.5).mean()


rows = batch.numpy()
for _ in range(5):
    step(rows)
with vg.counting() as counts:
    step(rows)
print(counts)
assert counts.submissions == 1
assert counts.plans_built == counts.shaders_compiled == counts.buffers_allocated == 0

# %% [markdown]
# ## Train, keep, and take it elsewhere
#
# Two spirals, one turned half way round, and a network that tells them apart. Layers, losses and optimisers have
# PyTorch's names and arguments; `vg.fit` is the usual loop around a jitted step. The first step takes longer than all
# others: it is recorded, and its kernels are compiled.

# %%
angle = np.linspace(0, 3 * np.pi, 200, dtype=np.float32)
arm = np.stack([np.cos(angle), np.sin(angle)], axis=1) * angle[:, None] / 10
points = np.concatenate([arm, -arm])
classes = np.repeat(np.array([0, 1], np.int32), 200)

vg.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
model

# %%
odd, even = slice(1, None, 2), slice(0, None, 2)
train = vg.data.DataLoader(points[even], classes[even], batch_size=40)
validation = vg.data.DataLoader(points[odd], classes[odd], batch_size=200, shuffle=False)
optimiser = vg.optim.Adam(model, lr=0.03)
history = vg.fit(
    model, optimiser, nn.cross_entropy, train, epochs=150,
    validation=validation, metrics=vg.metrics.accuracy, progress=False,
)  # fmt: skip
assert history[-1]["accuracy"] > 0.95
history[29::30]

# %% [markdown]
# The file that `vg.save` writes is a PyTorch file too, because names and layouts are PyTorch's:
#
# ```
# from torch import nn
# model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
# model.load_state_dict(safetensors.torch.load_file("spirals.safetensors"))
# model(torch.from_numpy(points)).argmax(1)
# ```
#
# Here NumPy takes PyTorch's part, and finds the same classes.

# %%
file = Path(tempfile.mkdtemp()) / "spirals.safetensors"
vg.save(model.state_dict(), file)

weights = load_file(file)
print({name: array.shape for name, array in weights.items()})
hidden = points
for layer in ("0", "2"):
    hidden = np.tanh(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
elsewhere = (hidden @ weights["4.weight"].T + weights["4.bias"]).argmax(1)

with vg.counting() as counts:
    predicted = model.eval()(points).argmax(axis=1).numpy()
assert np.array_equal(predicted, elsewhere)
assert counts.submissions == 1 and counts.host_nodes == 0

# %% [markdown]
# And back: a file that PyTorch wrote, into a network made anew.

# %%
again = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
again.load_state_dict(vg.load(file))
assert np.array_equal(again(points).argmax(axis=1).numpy(), predicted)

# %% [markdown]
# Next: [train a LeNet](02_train_lenet.py) on images. [Training](../training.md) has the rest of `vg.fit`,
# [files](../files.md) that of files, [debugging](../debugging.md) what to look at when something is wrong or slow.
