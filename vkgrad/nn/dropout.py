"""Dropout, with a mask that is drawn on the device and is another one at every step."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad import random
from vkgrad.errors import OptionError
from vkgrad.nn.functional import dropout
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor, asarray, tensor


class Dropout(Module):
    """In training, set each element to 0 with probability `p` and divide the others by 1 - p; else do nothing.

    The mask depends on the seed of `vkgrad.manual_seed` at construction and on how many masks this layer has drawn,
    a counter on the device: the same under `vkgrad.jit` as without. Neither is saved in the state dict.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise OptionError(f"Dropout: p must be from 0 to 1, got {p}")
        self.p = p
        self._key = random.next_key()
        self._count = tensor(np.zeros((), np.uint32))

    def forward(self, x: Any) -> Tensor:
        if not self.training or self.p == 0.0:
            return asarray(x)
        key = random.fold_in(self._key, self._count)
        self._count.assign(self._count + 1)
        return dropout(x, self.p, key=key)

    def extra_repr(self) -> str:
        return f"p={self.p}"
