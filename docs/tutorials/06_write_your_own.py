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
# # Write your own
#
# Ways to add something, from the cheapest to the deepest: a function of what there is, an operation of one record, a
# kernel with a template of its own, a row for kernels that exist; and a layer, which uses them.

# %%
import warnings
from dataclasses import replace

import numpy as np

import vkgrad as vg
from vkgrad import engine, nn
from vkgrad.codegen import cache
from vkgrad.codegen.render import render
from vkgrad.codegen.rows import ROWS, Limits
from vkgrad.ir.build import apply, build
from vkgrad.ir.op import OPS
from vkgrad.ops.families import elementwise, floating
from vkgrad.ops.samples import uniform
from vkgrad.schedule.plan import build_plan, structure
from vkgrad.tensor import derived
from vkgrad.testing import check_grads

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
x = vg.tensor(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))

# %% [markdown]
# ## A function
#
# Try this first. It has gradients, fuses into one kernel, maps and records, and no more was written than its formula.


# %%
def softsign(x):
    return x / (1 + vg.abs(x))


assert len(vg.plan(softsign(x) * 2).kernels) == 1
check_grads(softsign, (x,), order=2)

# %% [markdown]
# ## An operation
#
# A primitive is a record: what it means in NumPy, its fragment of GLSL, its gradient in primitives, where tests should
# look. It is worth it where a formula has a better kernel than the sum of its parts. A record is made once in a
# process, so this cell asks whether that was done.

# %%
if "bell" not in OPS:
    elementwise(
        "bell",
        dtype=floating,
        numpy=lambda x: 1 / (1 + x * x),
        glsl="{type}(1) / ({type}(1) + {x} * {x})",
        grad=lambda g, out, x: (g * (-2 * x * apply("square", out)),),
        samples=uniform(-4, 4),
        doc="1 / (1 + x^2).",
    )


def bell(x):
    return derived(build("bell", x.node), x)  # a tensor that remembers x, for `backward`


assert np.allclose(bell(x).numpy(), 1 / (1 + x.numpy() ** 2), atol=1e-6)
seen = vg.tensor([1.0, 2.0], requires_grad=True)
top = bell(seen).sum()
print(top.item())
top.backward()
assert np.allclose(seen.grad.numpy(), [-0.5, -0.16])
assert len(vg.plan(vg.tanh(bell(x)) + 1).kernels) == 1  # it fuses like any other
check_grads(bell, (x,), order=2)

# %% [markdown]
# ## A kernel
#
# Where elements depend on each other, bring a template. `vg.custom_kernel` needs the GLSL, how many workgroups it
# takes, the shape and type that come out, its meaning in NumPy, and its gradient. This one finds the largest distance
# of neighbours in each row; an invocation does a row.

# %%
TEMPLATE = """
layout(local_size_x = 32) in;
void main() {
    int row = {{ group }} * 32 + int(gl_LocalInvocationID.x);
    if (row >= {{ number.rows }}) return;
    {{ output.type }} widest = {{ output.literal(0) }};
    for (int column = 1; column < {{ number.columns }}; column++) {
        int here = row * {{ number.columns }} + column;
        widest = max(widest, abs({{ inputs[0].at("here") }} - {{ inputs[0].at("here - 1") }}));
    }
    {{ output.put("row", "widest") }}
}
"""


def geometry(shapes, dtypes, limits):
    rows, columns = shapes[0]
    return vg.Geometry(groups=-(-rows // 32), numbers={"rows": rows, "columns": columns})


def gradient(g, out, x):
    """Only the widest gap of a row moves when its two ends do."""
    gaps = x[:, 1:] - x[:, :-1]
    widest = abs(gaps) == out[:, None]
    pushed = vg.where(widest, vg.sign(gaps) * g[:, None], 0.0) / widest.astype(gaps.dtype).sum(axis=1, keepdims=True)
    return (vg.pad(pushed, [(0, 0), (1, 0)]) - vg.pad(pushed, [(0, 0), (0, 1)]),)


widest_gap = vg.custom_kernel(
    "widest_gap",
    template=TEMPLATE,
    geometry=geometry,
    shape=lambda shapes: shapes[0][:1],
    dtype=lambda dtypes: dtypes[0],
    numpy=lambda x: np.abs(np.diff(x, axis=1)).max(1),
    grad=gradient,
    replace=True,  # a name is taken once; this lets the cell be run again
)

rows = vg.tensor([[0.0, 1.0, 5.0, 4.0], [3.0, 0.0, 1.0, 1.5]])
assert widest_gap(rows).tolist() == [4.0, 3.0]
assert vg.grad(lambda x: widest_gap(x).sum())(rows).tolist() == [[0, -1, 1, 0], [1, -1, 0, 0]]
check_grads(widest_gap, (rows,), order=1)
print(vg.plan(widest_gap(vg.exp(rows)) * 2))

# %% [markdown]
# [Writing your own kernel](../adding-a-kernel.md) has all that a template sees.
#
# ## A row
#
# A faster way to compute kernels that exist is a row of a table: when it applies, a template, its parameters, and the
# measurement that justified it. Here is the plain row with workgroups of 32, rendered and compiled for one kernel. In
# the table, `vkgrad/codegen/rows`, the first row that applies is taken, and the tests compare each with the others
# ([how](../adding-a-template.md)).

# %%
plain = next(row for row in ROWS if row.name == "nest_serial")
print("why there is one:", plain.reason)
wide = replace(
    plain,
    name="nest_wide",
    applies=lambda kernel, limits: kernel.terms == 1,
    parameters=lambda kernel, limits: {"lanes": 1, "local": 32, "each": 1},
    reason="none but this notebook",
)
vg.eval(x)
waiting = vg.tanh(x) + 1
_, leaves = structure([waiting.node], engine.has_value)
(kernel,) = build_plan([waiting.node], leaves, max_buffers=8).kernels
shader = render(kernel, Limits(software=True), wide)
assert wide.applies(kernel, Limits(software=True)) and shader.row == "nest_wide"
assert "local_size_x = 32" in shader.source
assert np.frombuffer(cache.spirv(shader.source, shader.row), np.uint32)[0] == 0x07230203

# %% [markdown]
# ## A layer
#
# A `Module` finds the tensors and modules that are its attributes. `nn.parameter` marks what training changes.


# %%
class Bell(nn.Module):
    """A bump of learned place and width for each channel. Shapes: (B, C) -> (B, C)."""

    def __init__(self, channels):
        self.place = nn.parameter(vg.zeros((channels,)))
        self.width = nn.parameter(vg.ones((channels,)))

    def forward(self, x):
        return bell((x - self.place) / self.width)


vg.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 8), Bell(8), nn.Linear(8, 1))
print(model)
assert [name for name, _ in model.named_parameters()][2:4] == ["1.place", "1.width"]

points = vg.linspace(-2, 2, 40).reshape(-1, 1)
wanted = vg.sin(2 * points)
optimiser = vg.optim.Adam(model, lr=0.03)


@vg.jit
def step():
    loss, gradients = vg.value_and_grad(lambda m: nn.mse_loss(m(points), wanted))(model)
    optimiser.update(model, gradients)
    return loss


first = step().item()
for _ in range(150):
    last = step()
print(f"loss {first:.3f} -> {last.item():.4f}")
assert last.item() < 0.1 * first

# %% [markdown]
# Next: [second derivatives](07_second_derivatives.py).
