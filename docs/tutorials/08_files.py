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
# # Files and PyTorch
#
# Weights to and from PyTorch, training that goes on where it stopped, and ONNX. Nothing is pickled, so opening a file
# runs no code.

# %%
import json
import struct
import tempfile
import warnings
from pathlib import Path

import numpy as np

import vkgrad as vg
from vkgrad import nn

warnings.filterwarnings("ignore", message="vkgrad runs on")  # the notice that there is no GPU, on a machine like that
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Weights
#
# A `state_dict` has PyTorch's names and layouts, and safetensors is a format that both read. So this file is also a
# PyTorch file: `model.load_state_dict(safetensors.torch.load_file("model.safetensors"))` is all that is needed there,
# where `model` is the same `torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), ...)`.


# %%
def network():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


vg.manual_seed(0)
model = network()
x = vg.tensor(np.linspace(0, 1, 32, dtype=np.float32).reshape(2, 1, 4, 4))
vg.save(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})

other = network()
assert not np.allclose(other(x).numpy(), model(x).numpy())
other.load_state_dict(vg.load(folder / "model.safetensors"))
assert np.array_equal(other(x).numpy(), model(x).numpy())
assert vg.load_metadata(folder / "model.safetensors") == {"format": "pt"}

# %% [markdown]
# The format is simple enough to read by hand: eight bytes say how long the header is, the header is JSON, then come the
# numbers.

# %%
raw = (folder / "model.safetensors").read_bytes()
(length,) = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8 : 8 + length])
print(json.dumps(header["3.weight"]))
begin, end = header["3.weight"]["data_offsets"]
by_hand = np.frombuffer(raw[8 + length + begin : 8 + length + end], "<f4").reshape(header["3.weight"]["shape"])
assert np.array_equal(by_hand, model.state_dict()["3.weight"].numpy())

# %% [markdown]
# Weights that do not fit are refused by name, and nothing is changed.

# %%
state = vg.load(folder / "model.safetensors")
state["3.wieght"] = state.pop("3.weight")
try:
    other.load_state_dict(state)
except vg.errors.VkgradError as error:
    print(error)
else:
    raise AssertionError("a misspelt name was taken")
assert np.array_equal(other(x).numpy(), model(x).numpy())

# %% [markdown]
# Where PyTorch runs in the same process no file is needed: `nn.from_torch_state_dict` takes a `torch.nn.Module`, or the
# arrays of one, and `rename` says what names mean here.

# %%
theirs = {f"backbone.{name}": value.numpy() for name, value in model.state_dict().items()}
third = network()
nn.from_torch_state_dict(third, theirs, rename=lambda name: name.removeprefix("backbone."))
assert np.array_equal(third(x).numpy(), model(x).numpy())

# %% [markdown]
# ## Go on where it stopped
#
# A checkpoint holds the whole run: weights, the optimiser's averages, where the loader is. Stop anywhere; what follows
# has the same bits as if nothing had happened.


# %%
class Run:
    def __init__(self):
        vg.manual_seed(1)
        images = np.random.default_rng(0).random((48, 1, 4, 4), np.float32)
        labels = (images.mean((1, 2, 3)) * 3).astype(np.int32)
        self.model = network()
        self.optimizer = vg.optim.Adam(self.model, lr=0.01)
        self.loader = vg.data.DataLoader(images, labels, batch_size=8)
        self.losses = []

    def parts(self):
        return {"model": self.model, "optimizer": self.optimizer, "loader": self.loader}

    def train(self, epochs, save_at=None):
        for _ in range(self.loader.epoch, epochs):
            for images, labels in self.loader:
                loss, gradients = vg.value_and_grad(lambda m: nn.cross_entropy(m(images), labels))(self.model)
                self.optimizer.update(self.model, gradients)
                self.losses.append(loss.item())
                if len(self.losses) == save_at:
                    vg.save_checkpoint(folder / "run.safetensors", step=save_at, **self.parts())


whole = Run()
whole.train(epochs=3, save_at=8)  # in the middle of the second epoch

resumed = Run()
step = vg.load_checkpoint(folder / "run.safetensors", **resumed.parts())["step"]
resumed.train(epochs=3)
print(f"{len(whole.losses)} steps at once; {step} and then {len(resumed.losses)}")
assert resumed.losses == whole.losses[step:]

# %% [markdown]
# ## ONNX
#
# For programs that are neither. What is written is a graph of operators; what is read is a module that trains. It needs
# the package onnx.

# %%
written = vg.onnx.export(model, [x], folder / "model.onnx")
print([node.op_type for node in written.graph.node if node.op_type != "Constant"])
again = vg.onnx.load(folder / "model.onnx")
assert np.allclose(again(x).numpy(), model(x).numpy(), atol=1e-6)
assert set(again.state_dict()) == set(model.state_dict())

# %% [markdown]
# [Files](../files.md) has the details.
