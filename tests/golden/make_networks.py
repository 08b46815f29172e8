"""Write the weights of three networks as PyTorch saves them, with what it computes by them in double precision.

Run like `make_golden.py`, with the packages safetensors and onnx beside PyTorch:

    golden/bin/python -m tests.golden.make_networks                  writes tests/golden/networks/
    golden/bin/python -m tests.golden.make_networks check FOLDER     lets PyTorch read what vkgrad has written there

Each NAME.safetensors is a state dict, each NAME.onnx the network as PyTorch exports it. `networks.npz` has for each
network an input `NAME/x` and its output `NAME/y`, and `resnet18/keys`, names and shapes of the full-sized ResNet-18,
a line each. The networks are those of `both.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.golden.both import networks
from tests.golden.patterns import waves

FOLDER = Path(__file__).parent / "networks"
OURS = networks(nn)

NETWORKS = {
    "lenet": (OURS.LeNet5, waves((2, 1, 28, 28), 1.0, 0.2)),
    "resnet18": (lambda: OURS.ResNet18(10, width=4), waves((2, 3, 32, 32), 1.0, 0.4)),
    "gpt": (OURS.GPT, (np.arange(24) ** 2 % 65).astype(np.int32).reshape(2, 12)),
}
EXPORTED = ("resnet18", "gpt")  # to ONNX, too


def computed(model: nn.Module, x: np.ndarray) -> np.ndarray:
    given = torch.from_numpy(x)
    given = given.double() if given.is_floating_point() else given.long()
    with torch.no_grad():
        return model.double().eval()(given).numpy()


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    results: dict[str, np.ndarray] = {}
    for name, (make, x) in NETWORKS.items():
        torch.manual_seed(1)
        model = make()
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):  # as if it had been trained
                nn.init.uniform_(part.running_mean, -0.5, 0.5)
                nn.init.uniform_(part.running_var, 0.5, 2.0)
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.uniform_(part.bias, -0.5, 0.5)
                part.num_batches_tracked.fill_(7)
        save_file(model.state_dict(), FOLDER / f"{name}.safetensors", metadata={"format": "pt"})
        if name in EXPORTED:
            example = torch.from_numpy(x)
            torch.onnx.export(model.eval(), (example,), FOLDER / f"{name}.onnx", opset_version=17, dynamo=False)
        results |= {f"{name}/x": x, f"{name}/y": computed(model, x)}
    full = OURS.ResNet18().state_dict()
    results["resnet18/keys"] = np.array("\n".join(f"{name} {list(value.shape)}" for name, value in full.items()))
    np.savez_compressed(FOLDER / "networks.npz", **results)


def check(folder: Path) -> None:
    results = np.load(FOLDER / "networks.npz")
    for name, (make, x) in NETWORKS.items():
        model = make()
        model.load_state_dict(load_file(folder / f"{name}.safetensors"))
        error = np.abs(computed(model, x) - results[f"{name}/y"]).max()
        assert error < 1e-12, (name, error)
        print(f"{name}: PyTorch computes the same from vkgrad's file, within {error:.1e}")


if __name__ == "__main__":
    check(Path(sys.argv[2])) if sys.argv[1:2] == ["check"] else write()
