"""What networks draw by chance, as functions of a key: dropout of elements and of whole channels, random slopes, and
samples of classes that have a derivative. This module must not know modules.
"""

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


def alpha_dropout(x: Any, p: float = 0.5, training: bool = False, *, key: Any = None) -> Tensor:
    """Set elements to the lowest value of `selu` with probability `p`, then bring mean 0 and variance 1 back.

    Source: Klambauer et al. (2017), arXiv:1706.02515, section 3, "New dropout technique".
    """
    return _alpha_dropout("alpha_dropout", x, p, training, key, asarray(x).shape)


def feature_alpha_dropout(x: Any, p: float = 0.5, training: bool = False, *, key: Any = None) -> Tensor:
    """`alpha_dropout` of whole channels of (B, C, ...)."""
    x = asarray(x)
    if x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: takes (B, C, ...), got {x.shape}")
    return _alpha_dropout("feature_alpha_dropout", x, p, training, key, (*x.shape[:2], *(1,) * (x.ndim - 2)))


def _alpha_dropout(name: str, x: Any, p: float, training: bool, key: Any, drawn: tuple[int, ...]) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise OptionError(f"{name}: p must be from 0 to 1, got {p}")
    x = asarray(x)
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return f.zeros_like(x)
    lowest = -1.7580993408473766  # scale * alpha of selu
    scale = ((1.0 - p) * (1.0 + p * lowest * lowest)) ** -0.5
    kept = random.bernoulli(random.next_key() if key is None else key, 1.0 - p, drawn)
    return f.where(kept, x, lowest) * scale - scale * p * lowest


def rrelu(x: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, *, key: Any = None) -> Tensor:
    """x where it is positive, else x times a slope drawn between two; in evaluation their mean.

    Source: Xu, Wang, Chen and Li (2015), arXiv:1505.00853, section 2.4.

    Raises:
        OptionError: the lower slope is above the upper one.
    """
    if not lower <= upper:
        raise OptionError(f"rrelu: lower must not be above upper, got {lower} and {upper}")
    x = asarray(x)
    if not training:
        return f.leaky_relu(x, (lower + upper) / 2)
    slopes = random.uniform(random.next_key() if key is None else key, x.shape, lower, upper, x.dtype)
    return f.where(x > 0, x, slopes * x)


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, key: Any = None
) -> Tensor:
    """A sample of classes that has a derivative: the softmax of (logits + Gumbel noise) / tau along an axis.

    Args:
        hard: one class each, with the derivative of the soft sample.
        eps: PyTorch's, which it ignores too.

    Source: Jang, Gu and Poole (2017), arXiv:1611.01144, equation 2 and section 2.2.
    """
    logits = asarray(logits)
    noise = random.gumbel(random.next_key() if key is None else key, logits.shape, dtype=logits.dtype)
    soft = f.softmax((logits + noise) / tau, axis=dim)
    if not hard:
        return soft
    axis = dim % logits.ndim
    chosen = f.argmax(soft, axis=axis, keepdims=True)
    numbers = f.reshape(f.arange(logits.shape[axis]), (-1, *(1,) * (logits.ndim - 1 - axis)))
    return (numbers == chosen).astype(soft.dtype) - soft.detach() + soft
