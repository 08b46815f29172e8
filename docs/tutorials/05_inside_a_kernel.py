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
# # Inside a kernel
#
# From one line of Python to the words that a GPU runs, stage by stage: a nest of loops as data, a template, GLSL,
# SPIR-V, and the time it took. [Architecture](../architecture.md) has what comes before: nodes and gradients.

# %%
import tempfile
import warnings
from pathlib import Path

import numpy as np

import vkgrad as vg
from vkgrad import engine
from vkgrad.codegen import cache
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import ROWS, Limits
from vkgrad.schedule.explain import explain
from vkgrad.schedule.plan import build_plan, structure

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
print(vg.default_device().name)

# %% [markdown]
# ## The expression and its plan
#
# A transposed view, scaled, and the sum of each row.

# %%
x = vg.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
vg.eval(x)
result = vg.sum(x.T * 0.5 + 1, axis=1)

key, leaves = structure([result.node], engine.has_value)
plan = build_plan([result.node], leaves, max_buffers=32)
print(explain(plan))
assert len(plan.kernels) == 1

# %% [markdown]
# ## The kernel
#
# It is data: axes, of which the first `parallel` each have an invocation and the others are summed over, and a list of
# instructions. The transposition is gone: it became the strides by which `x` is loaded.

# %%
(kernel,) = plan.kernels
print(kernel.extents, kernel.parallel)
for instruction in kernel.code:
    print(" ", instruction)
assert kernel.extents == (4, 3) and kernel.parallel == 1

# %% [markdown]
# ## The row and the template
#
# A table says which template computes what kernel: the first row that applies is taken, and the last applies always.

# %%
for row in ROWS:
    print(f"{row.name:24} {row.template}")
shader = render(kernel, Limits(software=True))
print("taken:", shader.row)
assert shader.row in {row.name for row in ROWS}
assert ROWS[-1].applies(None, None)

# %% [markdown]
# ## GLSL
#
# The template has the loops; what is between them was written from the instructions. Numbers of the layout are
# specialisation constants (`constant_id`), so that other sizes need no new shader.

# %%
print(shader.source)
assert "constant_id" in shader.source and "void main()" in shader.source


def shader_of(*shape):
    leaf = vg.tensor(np.ones(shape, np.float32))
    vg.eval(leaf)
    other = vg.sum(leaf.T * 0.5 + 1, axis=1)
    _, leaves = structure([other.node], engine.has_value)
    return render(build_plan([other.node], leaves, max_buffers=32).kernels[0], Limits(software=True))


assert shader_of(5, 7).source == shader.source
assert shader_of(5, 7).numbers != shader.numbers

# %% [markdown]
# ## SPIR-V
#
# Compiled once and kept on disk under a hash of all that it depends on. Its first word is a magic number.

# %%
words = np.frombuffer(cache.spirv(shader.source, shader.row), np.uint32)
print(f"{len(words)} words, the first {words[0]:#x}")
assert words[0] == 0x07230203

# %% [markdown]
# ## The timeline
#
# `vg.profile` times every kernel that its block submits, by the device's own clock (the CPU device has the host's). The
# file opens in Perfetto.

# %%
large = vg.tensor(np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32))
vg.eval(large)
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "trace.json"
    with vg.profile(trace) as profile:
        vg.eval(vg.softmax(vg.tanh(large @ large)))
    assert "traceEvents" in trace.read_text()
print(profile.table())
assert len(profile.kernels) == len(vg.plan(vg.softmax(vg.tanh(large @ large))).kernels)
assert profile.device_us > 0

# %% [markdown]
# ## And it is right
#
# The value that the device computes, beside the CPU device, which runs the same kernel in NumPy.

# %%
on_device = result.numpy()
assert np.array_equal(on_device, (x.numpy().T * 0.5 + 1).sum(axis=1))

# %% [markdown]
# Next: [write your own op, template and layer](06_write_your_own.py).
