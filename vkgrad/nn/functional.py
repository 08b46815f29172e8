"""Layers without their parameters: functions that take weights as arguments, and all others by PyTorch's names.

This module must not know modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkgrad import functions as f
from vkgrad import random
from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions import (
    avg_pool2d,
    conv1d,
    conv2d,
    conv_transpose2d,
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    max_pool2d,
    one_hot,
    pad,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from vkgrad.functions.lookup import as_index
from vkgrad.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
)
from vkgrad.precision import for_product, in_single
from vkgrad.tensor import Tensor, asarray

__all__ = [
    "avg_pool2d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


@composite
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias.

    Shapes: x (..., in), weight (out, in), bias (out,) -> (..., out).

    Raises:
        ShapeError: the inner extents differ.
    """
    x, weight = asarray(x), asarray(weight)
    if x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(f"linear: input {x.shape} needs a last axis of extent {weight.shape[-1]}")
    y = x @ weight.T
    return y if bias is None else y + _beside(y, bias)


def _beside(product: Tensor, bias: Any) -> Tensor:
    """`bias` in the type of the product, where autocast has chosen that."""
    added = asarray(bias)
    return added.astype(product.dtype) if for_product(added.dtype) else added


@composite
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> Tensor:
    """The sum over i and j of x1[i] * weight[o, i, j] * x2[j], plus bias[o].

    Shapes: x1 (..., in1), x2 (..., in2), weight (out, in1, in2), bias (out,) -> (..., out).

    Raises:
        ShapeError: the inner extents differ.
    """
    x1, x2, weight = asarray(x1), asarray(x2), asarray(weight)
    outputs, in1, in2 = weight.shape
    if x1.shape[-1:] != (in1,) or x2.shape[-1:] != (in2,):
        raise ShapeError(f"bilinear: inputs {x1.shape} and {x2.shape} need last axes of extents {in1} and {in2}")
    # One matrix product over i for all o and j; the sum over j is then a row of it.
    by_input = f.reshape(f.permute_dims(weight, (1, 0, 2)), (in1, outputs * in2))
    partial = f.reshape(x1 @ by_input, (*x1.shape[:-1], outputs, in2))
    y = f.sum(partial * f.expand_dims(x2, axis=-2), axis=-1)
    return y if bias is None else y + bias


def embedding(positions: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` at integer positions; row `padding_idx` gets no gradient.

    Shapes: positions (...), weight (N, D) -> (..., D).

    Raises:
        ShapeError: a position in a NumPy array or list is outside 0..N-1.
    """
    weight = asarray(weight)
    positions = as_index("embedding", positions, weight.shape[0])
    rows = f.take(weight, positions, axis=0)
    if padding_idx is None:
        return rows
    return f.where(f.expand_dims(positions, axis=-1) == padding_idx, rows.detach(), rows)


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


@composite
@in_single
def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Bring the last axes, of extents `normalized_shape`, to mean 0 and variance 1, then scale and shift them."""
    x = asarray(x)
    axes = _last_axes("layer_norm", x, normalized_shape)
    centred = x - f.mean(x, axis=axes, keepdims=True)
    y = centred * f.rsqrt(f.mean(centred * centred, axis=axes, keepdims=True) + eps)
    return _scaled(y, weight, bias)


@composite
@in_single
def rms_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """Divide the last axes, of extents `normalized_shape`, by their root mean square, then scale them.

    `eps` is added to the mean square; the smallest step from 1 in the element type if None.
    """
    x = asarray(x)
    axes = _last_axes("rms_norm", x, normalized_shape)
    floor = {"float64": 2.0**-52}.get(x.dtype.name, 2.0**-23) if eps is None else eps
    return _scaled(x * f.rsqrt(f.mean(x * x, axis=axes, keepdims=True) + floor), weight, None)


@composite
@in_single
def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Bring each group of channels of each example to mean 0 and variance 1, then scale and shift each channel.

    Shapes: x (B, C, ...), weight and bias (C,) -> like x.

    Raises:
        ShapeError: C is not a multiple of `num_groups`.
    """
    x = asarray(x)
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: input {x.shape} has no axis 1 that divides into {num_groups} groups")
    grouped = f.reshape(x, (x.shape[0], num_groups, -1))
    y = f.reshape(layer_norm(grouped, grouped.shape[2], eps=eps), x.shape)
    return _scaled(y, *(_per_channel(value, x.ndim) for value in (weight, bias)))


@composite
@in_single
def batch_norm(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Subtract each channel's mean and divide by the root of its variance, then scale and shift it.

    Shapes: x (B, C, ...); mean, variance, weight and bias (C,) -> like x.
    """
    x = asarray(x)
    mean, variance, weight, bias = (_per_channel(value, x.ndim) for value in (mean, variance, weight, bias))
    return _scaled((x - mean) * f.rsqrt(variance + eps), weight, bias)


def _scaled(y: Tensor, weight: Any, bias: Any) -> Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _per_channel(value: Any, ndim: int) -> Any:
    return None if value is None else f.reshape(asarray(value), (-1,) + (1,) * (ndim - 2))


def _last_axes(name: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    extents = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(extents) :] != extents:
        raise ShapeError(f"{name}: input {x.shape} does not end in {extents}")
    return tuple(range(x.ndim - len(extents), x.ndim))
