"""vkgrad's versions of the networks that are written once for it and PyTorch, in `tests.golden.both`."""

from __future__ import annotations

from tests.golden.both import networks
from vkgrad import nn

_MADE = networks(nn)
lenet, LeNet5, ResNet18, Block, GPT = _MADE.lenet, _MADE.LeNet5, _MADE.ResNet18, _MADE.Block, _MADE.GPT
