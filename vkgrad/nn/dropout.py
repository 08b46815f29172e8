"""Layers that draw in training, on the device, other numbers at every step: dropout and random slopes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vkgrad import random
from vkgrad.draws.keys import of_example
from vkgrad.errors import OptionError
from vkgrad.nn import functional
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor, asarray, tensor


class _Drawing(Module):
    """Base of the layers that draw: the key that they draw with, and how often they have."""

    def reseed(self) -> None:
        """Draw other numbers from now on: the next of those that `vkgrad.manual_seed` starts."""
        self._key = random.next_key()
        self._count = tensor(np.zeros((), np.uint32))

    def _next_key(self) -> Tensor:
        key = of_example(random.fold_in(self._key, self._count))
        self._count.assign(self._count + 1)
        return key


class Dropout(_Drawing):
    """In training, set each element to 0 with probability `p` and divide the others by 1 - p; else do nothing.

    The mask depends on the seed of `vkgrad.manual_seed` at construction and on how many masks this layer has drawn,
    a counter on the device: the same under `vkgrad.jit` as without. Neither is saved in the state dict. `inplace` is
    accepted and changes nothing.
    """

    function: ClassVar[Any] = staticmethod(functional.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0.0 <= p <= 1.0:
            raise OptionError(f"{type(self).__name__}: p must be from 0 to 1, got {p}")
        self.p = p
        self.reseed()

    def forward(self, x: Any) -> Tensor:
        if not self.training or self.p == 0.0:
            return asarray(x)
        return type(self).function(x, self.p, True, key=self._next_key())

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout1d(Dropout):
    """`Dropout` of whole channels of (B, C, T) or (C, T)."""

    function = staticmethod(functional.dropout1d)


class Dropout2d(Dropout):
    """`Dropout` of whole channels of (B, C, H, W) or (C, H, W).

    Source: Tompson et al. (2015), arXiv:1411.4280, section 3.2.
    """

    function = staticmethod(functional.dropout2d)


class Dropout3d(Dropout):
    """`Dropout` of whole channels of (B, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(functional.dropout3d)


class AlphaDropout(Dropout):
    """Dropout that keeps mean 0 and variance 1 behind `SELU`. Source: Klambauer et al. (2017), arXiv:1706.02515."""

    function = staticmethod(functional.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels of (B, C, ...)."""

    function = staticmethod(functional.feature_alpha_dropout)


class RReLU(_Drawing):
    """x where it is positive, else x times a slope that training draws between two; evaluation takes their mean.

    Source: Xu, Wang, Chen and Li (2015), arXiv:1505.00853, section 2.4.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        self.lower = lower
        self.upper = upper
        self.reseed()

    def forward(self, x: Any) -> Tensor:
        return functional.rrelu(
            x, self.lower, self.upper, self.training, key=self._next_key() if self.training else None
        )

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"
