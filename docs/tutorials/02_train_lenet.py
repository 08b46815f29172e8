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
# # Train a LeNet
#
# A convolutional network on real images: photographs of clothing (Fashion-MNIST) where they are installed
# (`apt-get install dataset-fashion-mnist`), else scikit-learn's handwritten digits. Only a small part of them, so that
# this page takes seconds on a machine without a GPU; `examples/lenet.py` trains on everything.

# %%
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import vkgrad as vg
from vkgrad import nn
from vkgrad.errors import DataNotFoundError

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
print(vg.default_device().name)

# %%
TRAIN, TEST, BATCH = 1280, 200, 32

try:
    data = vg.data.fashion_mnist()
except DataNotFoundError:
    data = vg.data.digits()
print(data.origin, data.train.images.shape, data.class_names)


def prepared(images):
    """Bytes (B, H, W) as floats (B, 1, 28, 28), about centred."""
    images = (images.astype(np.float32) - 128) / 128
    margin = 28 - images.shape[1]
    sides = (margin // 2, margin - margin // 2)
    return np.pad(images, ((0, 0), sides, sides), constant_values=-1)[:, None]


# %% [markdown]
# ## The model
#
# Layers have PyTorch's names, arguments and weight layouts. A `Module` prints as a tree.

# %%
vg.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
)  # fmt: skip
print(model)
assert sum(parameter.size for parameter in model.parameters()) == 61_706

# %% [markdown]
# ## One step
#
# Forward, backward and the update of all parameters. `vg.jit` records it at the first call; from then on a step is one
# submission. The parameters and the optimiser's state stay on the device and are updated in place.

# %%
optimiser = vg.optim.Adam(model, lr=2e-3)


@vg.jit
def step(images, labels):
    loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(images), labels))(model)
    optimiser.update(model, gradients)
    return loss


loader = vg.data.DataLoader(
    data.train.images[:TRAIN], data.train.labels[:TRAIN], batch_size=BATCH, seed=0, drop_last=True,
    transform=lambda images, labels: (prepared(images), labels),
)  # fmt: skip

# %% [markdown]
# ## Train

# %%
losses = []
started = time.perf_counter()
for epoch in range(2):
    for images, labels in loader:
        losses.append(float(step(images, labels)))
    print(f"epoch {epoch + 1}: mean loss {np.mean(losses[-len(loader) :]):.3f}")
print(f"{1000 * (time.perf_counter() - started) / len(losses):.0f} ms a step, the first and its compiling included")

assert all(np.isfinite(losses))
assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])

# %% [markdown]
# ## What a step costs
#
# Counters, before any stopwatch: one submission, nothing on the host, nothing built or allocated, and exactly the batch
# crosses to the device.

# %%
images, labels = vg.tensor(prepared(data.train.images[:BATCH])), vg.tensor(data.train.labels[:BATCH])
with vg.counting() as counts:
    loss = float(step(images, labels))
print(counts)
assert counts.submissions == 1
assert counts.host_nodes == 0
assert counts.plans_built == counts.shaders_compiled == counts.pipelines_created == counts.buffers_allocated == 0
assert counts.bytes_uploaded == 4 * (images.size + labels.size)
assert counts.bytes_downloaded == 4

# %% [markdown]
# ## How good is it?

# %%
model.eval()
predicted = vg.argmax(model(prepared(data.test.images[:TEST])), axis=1).numpy()
accuracy = (predicted == data.test.labels[:TEST]).mean()
print(f"accuracy on {TEST} test images: {accuracy:.2f}")
assert accuracy > 0.5

# %% [markdown]
# ## Keep it
#
# In safetensors, with PyTorch's names.

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "lenet.safetensors"
    vg.save(model.state_dict(), file)
    state = vg.load(file)
print({name: value.shape for name, value in state.items()})
before = model(prepared(data.test.images[:4])).numpy()
model.load_state_dict(state)
assert np.array_equal(before, model(prepared(data.test.images[:4])).numpy())

# %% [markdown]
# Next: [gradients and transforms](03_gradients.py).
