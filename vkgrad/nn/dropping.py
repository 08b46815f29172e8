"""Dropout as functions of a key: elements, or whole channels, set to 0 by chance. This module must not know modules."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad import random
from vkgrad.errors import OptionError, ShapeError
from vkgrad.tensor import Tensor, asarray


def dropout(x: Any, p: float = 0.5, training: bool = True, *, key: Any = None) -> Tensor:
    """Set each element to 0 with probability `p` and divide the others by 1 - p, so that the mean stays.

    Args:
        key: decides the mask; the next one of the sequence that `vkgrad.manual_seed` starts if None.

    Raises:
        OptionError: `p` is not a probability.
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"dropout: p must be from 0 to 1, got {p}")
    x = asarray(x)
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return f.zeros_like(x)
    kept = random.bernoulli(random.next_key() if key is None else key, 1.0 - p, x.shape)
    return f.where(kept, x * (1.0 / (1.0 - p)), 0.0)


def dropout1d(x: Any, p: float = 0.5, training: bool = True, *, key: Any = None) -> Tensor:
    """`dropout` of whole channels of (B, C, T) or (C, T)."""
    return _channel_dropout("dropout1d", x, p, training, key, 1)


def dropout2d(x: Any, p: float = 0.5, training: bool = True, *, key: Any = None) -> Tensor:
    """`dropout` of whole channels of (B, C, H, W) or (C, H, W)."""
    return _channel_dropout("dropout2d", x, p, training, key, 2)


def dropout3d(x: Any, p: float = 0.5, training: bool = True, *, key: Any = None) -> Tensor:
    """`dropout` of whole channels of (B, C, D, H, W) or (C, D, H, W)."""
    return _channel_dropout("dropout3d", x, p, training, key, 3)


def _channel_dropout(name: str, x: Any, p: float, training: bool, key: Any, dimensions: int) -> Tensor:
    x = asarray(x)
    if x.ndim not in (dimensions + 1, dimensions + 2):
        raise ShapeError(f"{name}: takes (B, C, {dimensions} spatial axes) or one without B, got {x.shape}")
    whole = (*x.shape[:-dimensions], *(1,) * dimensions)
    return x if not training or p == 0.0 else x * dropout(f.ones(whole, dtype=x.dtype), p, True, key=key)


def alpha_dropout(x: Any, p: float = 0.5, training: bool = True, *, key: Any = None) -> Tensor:
    """Set elements to the lowest value of `selu` with probability `p`, then bring mean 0 and variance 1 back.

    Source: Klambauer et al. (2017), arXiv:1706.02515, section 3, "New dropout technique".
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"alpha_dropout: p must be from 0 to 1, got {p}")
    x = asarray(x)
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return f.zeros_like(x)
    lowest = -1.7580993408473766  # scale * alpha of selu
    scale = ((1.0 - p) * (1.0 + p * lowest * lowest)) ** -0.5
    kept = random.bernoulli(random.next_key() if key is None else key, 1.0 - p, x.shape)
    return f.where(kept, x, lowest) * scale - scale * p * lowest
