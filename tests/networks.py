"""Networks with the names that PyTorch's versions of them have: ResNet-18 as torchvision's, and a small GPT."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

import vkgrad as vg
from vkgrad import nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and what they are added to.

    Source: He, Zhang, Ren and Sun (2015), arXiv:1512.03385, figure 2.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        y = self.bn2(self.conv2(vg.relu(self.bn1(self.conv1(x)))))
        return vg.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """ResNet-18; `width` is 64 in the paper, and every number of channels is a multiple of it."""

    def __init__(self, num_classes: int = 1000, width: int = 64) -> None:
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(BasicBlock(before, after, 1 + (before != after)), BasicBlock(after, after, 1))
            for before, after in pairwise(channels)
        )
        self.fc = nn.Linear(8 * width, num_classes)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        x = self.maxpool(vg.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Attention(nn.Module):
    """Causal self-attention with queries, keys and values from one product."""

    def __init__(self, features: int, heads: int) -> None:
        self.heads = heads
        self.c_attn = nn.Linear(features, 3 * features)
        self.c_proj = nn.Linear(features, features)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        batch, time, features = x.shape
        parts = self.c_attn(x).reshape((batch, time, 3, self.heads, features // self.heads)).permute((2, 0, 3, 1, 4))
        query, key, value = parts[0], parts[1], parts[2]
        scores = query @ key.swapaxes(-1, -2) / math.sqrt(features // self.heads)
        scores = vg.where(np.tri(time, dtype=bool), scores, -math.inf)
        mixed = (vg.softmax(scores, -1) @ value).swapaxes(1, 2).reshape((batch, time, features))
        return self.c_proj(mixed)


class Block(nn.Module):
    """A transformer block that normalises first.

    Source: Radford et al. (2019), Language models are unsupervised multitask learners, section 2.3.
    """

    def __init__(self, features: int, heads: int) -> None:
        self.ln_1 = nn.LayerNorm(features)
        self.attn = Attention(features, heads)
        self.ln_2 = nn.LayerNorm(features)
        self.mlp = MLP(features)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class MLP(nn.Module):
    def __init__(self, features: int) -> None:
        self.c_fc = nn.Linear(features, 4 * features)
        self.c_proj = nn.Linear(4 * features, features)

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return self.c_proj(vg.gelu(self.c_fc(x)))


class GPT(nn.Module):
    """A small GPT: (B, T) integers -> (B, T, vocabulary)."""

    def __init__(self, vocabulary: int = 65, context: int = 16, layers: int = 2, heads: int = 4, features: int = 32):
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(vocabulary, features)
        self.transformer.wpe = nn.Embedding(context, features)
        self.transformer.h = nn.ModuleList([Block(features, heads) for _ in range(layers)])
        self.transformer.ln_f = nn.LayerNorm(features)
        self.lm_head = nn.Linear(features, vocabulary, bias=False)

    def forward(self, tokens: vg.Tensor) -> vg.Tensor:
        parts = self.transformer
        x = parts.wte(tokens) + parts.wpe(vg.arange(tokens.shape[1]))
        for block in parts.h:
            x = block(x)
        return self.lm_head(parts.ln_f(x))
