"""Write the weights of three networks as PyTorch saves them, with what it computes by them in double precision.

Run like `make_golden.py`, with the packages safetensors and onnx beside PyTorch:

    golden/bin/python -m tests.golden.make_networks                  writes tests/golden/networks/
    golden/bin/python -m tests.golden.make_networks check FOLDER     lets PyTorch read what vkgrad has written there

Each NAME.safetensors is a state dict, each NAME.onnx the network as PyTorch exports it. `networks.npz` has for each
network an input `NAME/x` and its output `NAME/y`, and `resnet18/keys`, names and shapes of the full-sized ResNet-18,
a line each. The classes here have the names of torchvision's ResNet and of the usual small GPT.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from tests.golden.patterns import waves

FOLDER = Path(__file__).parent / "networks"


class LeNet5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, num_classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        for number, (before, after) in enumerate(pairwise(channels), 1):
            blocks = BasicBlock(before, after, 1 + (before != after)), BasicBlock(after, after, 1)
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(8 * width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(features, 3 * features)
        self.c_proj = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, features = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(features, 2)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, time, features))


class Block(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.attn = Attention(features, heads)
        self.mlp = nn.Module()
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 65, context: int = 16, layers: int = 2, heads: int = 4, features: int = 32):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(vocabulary, features)
        self.transformer.wpe = nn.Embedding(context, features)
        self.transformer.h = nn.ModuleList([Block(features, heads) for _ in range(layers)])
        self.transformer.ln_f = nn.LayerNorm(features)
        self.lm_head = nn.Linear(features, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        parts = self.transformer
        x = parts.wte(tokens) + parts.wpe(torch.arange(tokens.shape[1]))
        for block in parts.h:
            x = block(x)
        return self.lm_head(parts.ln_f(x))


NETWORKS = {
    "lenet": (LeNet5, waves((2, 1, 28, 28), 1.0, 0.2)),
    "resnet18": (lambda: ResNet18(10, width=4), waves((2, 3, 32, 32), 1.0, 0.4)),
    "gpt": (GPT, (np.arange(24) ** 2 % 65).astype(np.int32).reshape(2, 12)),
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
    full = ResNet18().state_dict()
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
