"""Normalisations as functions of a tensor, its statistics and its weights, by PyTorch's names and arguments.

This module must not know modules; `batch_norm` and `instance_norm` move running statistics that they are handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.precision import in_single
from vkgrad.tensor import Tensor, asarray


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


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel of each example to mean 0 and variance 1, then scale and shift it.

    Shapes: x (B, C, ...), all others (C,) -> like x.

    Args:
        running_mean, running_var: moved by `momentum` towards the mean over examples of what was found.
        use_input_stats: else these take the place of each example's own.

    Source: Ulyanov, Vedaldi and Lempitsky (2016), arXiv:1607.08022, equation 5.
    """
    if not use_input_stats:
        return normalised(x, running_mean, running_var, weight, bias, eps)
    x = asarray(x)
    if running_mean is not None:
        space = tuple(range(2, x.ndim))
        means, variances = f.mean(x, axis=space), f.var(x, axis=space)
        count = x.size // (x.shape[0] * x.shape[1])
        track(
            "instance_norm",
            running_mean,
            running_var,
            f.mean(means, axis=0),
            f.mean(variances, axis=0),
            count,
            momentum,
        )
    return _instance_norm(x, weight, bias, eps)


@composite
@in_single
def _instance_norm(x: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    x = asarray(x)
    y = layer_norm(x, x.shape[2:], eps=eps)
    return _scaled(y, *(_per_channel(value, x.ndim) for value in (weight, bias)))


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel to mean 0 and variance 1 over the batch, then scale and shift it.

    Shapes: x (B, C, ...), all others (C,) -> like x.

    Args:
        running_mean, running_var: take the place of the batch's own, or with `training` are moved by `momentum` towards
            its mean and unbiased variance, in place. None: the batch's own, and nothing is remembered.

    Raises:
        ShapeError: one element per channel in training.

    Source: Ioffe and Szegedy (2015), arXiv:1502.03167, Algorithms 1 and 2.
    """
    if not training:
        return normalised(x, running_mean, running_var, weight, bias, eps)
    x = asarray(x)
    axes = (0, *range(2, x.ndim))
    mean, variance = f.mean(x, axis=axes), f.var(x, axis=axes)
    if running_mean is not None:
        track("batch_norm", running_mean, running_var, mean, variance, x.size // x.shape[1], momentum)
    return normalised(x, mean, variance, weight, bias, eps)


@composite
@in_single
def normalised(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Subtract each channel's mean and divide by the root of its variance, then scale and shift it."""
    x = asarray(x)
    mean, variance, weight, bias = (_per_channel(value, x.ndim) for value in (mean, variance, weight, bias))
    return _scaled((x - mean) * f.rsqrt(variance + eps), weight, bias)


def track(
    name: str, running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, count: int, momentum: Any
) -> None:
    """Move running statistics by `momentum` towards those of `count` elements; the variance without its bias."""
    if count < 2:
        raise ShapeError(f"{name}: needs more than one element per channel in training")
    with no_grad():
        unbiased = variance.detach() * (count / (count - 1))
        running_mean.assign((1 - momentum) * running_mean + momentum * mean.detach())
        running_var.assign((1 - momentum) * running_var + momentum * unbiased)


@composite
@in_single
def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta.

    Shapes: x (B, C, ...) -> like x.

    Source: Krizhevsky, Sutskever and Hinton (2012), ImageNet classification, section 3.3, with the mean of PyTorch.
    """
    x = asarray(x)
    if x.ndim < 3 or size < 1:
        raise OptionError(f"local_response_norm: takes (B, C, ...) and a positive size, got {x.shape} and {size}")
    squares = f.moveaxis(x * x, 1, -1)
    around = [(0, 0)] * (x.ndim - 1) + [(size // 2, (size - 1) // 2)]
    near = f.moveaxis(f.avg_pool1d(f.pad(squares, around), size, 1), -1, 1)
    return x / (k + alpha * near) ** beta


def _scaled(y: Tensor, weight: Any, bias: Any) -> Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _per_channel(value: Any, ndim: int) -> Any:
    return None if value is None else f.reshape(asarray(value), (-1,) + (1,) * (ndim - 2))


def _last_axes(name: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    extents = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(extents) :] != extents:
        raise ShapeError(
            f"{name}: input {x.shape} does not end in {extents}; make normalized_shape the extents of its last axes"
        )
    return tuple(range(x.ndim - len(extents), x.ndim))
