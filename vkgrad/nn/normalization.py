"""Layers that bring activations to mean 0 and variance 1, or to length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.errors import ShapeError
from vkgrad.history import no_grad
from vkgrad.nn import init
from vkgrad.nn.functional import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor, asarray, tensor


def _extents(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """Bring the last axes of each example to mean 0 and variance 1, then scale and shift them.

    Shapes: (..., *normalized_shape) -> the same; weight and bias (*normalized_shape).

    Source: Ba, Kiros and Hinton (2016), arXiv:1607.06450, equation 4.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = _extents(normalized_shape)
        self.eps = eps
        self.weight = parameter(init.ones(self.normalized_shape, dtype)) if elementwise_affine else None
        self.bias = parameter(init.zeros(self.normalized_shape, dtype)) if elementwise_affine and bias else None

    def forward(self, x: Any) -> Tensor:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Divide the last axes of each example by their root mean square, then scale them.

    Shapes: (..., *normalized_shape) -> the same; weight (*normalized_shape).

    Source: Zhang and Sennrich (2019), arXiv:1910.07467, equation 4.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = _extents(normalized_shape)
        self.eps = eps
        self.weight = parameter(init.ones(self.normalized_shape, dtype)) if elementwise_affine else None

    def forward(self, x: Any) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Bring each group of channels of each example to mean 0 and variance 1, then scale and shift each channel.

    Shapes: (B, C, ...) -> the same; weight and bias (C,).

    Source: Wu and He (2018), arXiv:1803.08494, section 3.1.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = None
    ) -> None:
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} equal groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = parameter(init.ones((num_channels,), dtype)) if affine else None
        self.bias = parameter(init.zeros((num_channels,), dtype)) if affine else None

    def forward(self, x: Any) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _BatchNorm(Module):
    """Bring each channel to mean 0 and variance 1 over the batch, then scale and shift it.

    In evaluation the running mean and variance take the place of the batch's. They are buffers on the device that
    training moves by `momentum` towards the batch's mean and unbiased variance (None: they are the mean of all so far).

    Source: Ioffe and Szegedy (2015), arXiv:1502.03167, Algorithms 1 and 2.
    """

    ranks: tuple[int, ...]
    counts_batches = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.weight = parameter(init.ones((num_features,), dtype)) if affine else None
        self.bias = parameter(init.zeros((num_features,), dtype)) if affine else None
        self.running_mean = init.zeros((num_features,), dtype) if track_running_stats else None
        self.running_var = init.ones((num_features,), dtype) if track_running_stats else None
        self.num_batches_tracked = tensor(np.zeros((), np.int32)) if track_running_stats else None

    def forward(self, x: Any) -> Tensor:
        x = asarray(x)
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: needs (B, {self.num_features}, ...) with {self.ranks} axes, got {x.shape}"
            )
        if not self.training and self.running_mean is not None:
            return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.eps)
        axes = (0, *range(2, x.ndim))
        mean, variance = f.mean(x, axis=axes), f.var(x, axis=axes)
        if self.training and self.running_mean is not None:
            self._track(mean, variance, x.size // self.num_features)
        return batch_norm(x, mean, variance, self.weight, self.bias, self.eps)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        if count < 2:
            raise ShapeError(f"{type(self).__name__}: needs more than one element per channel in training")
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        with no_grad():
            unbiased = variance.detach() * (count / (count - 1))
            if self.counts_batches:
                self.num_batches_tracked.assign(self.num_batches_tracked + 1)
            # Without a momentum it is the mean over all batches so far.
            new = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked.astype(mean.dtype)
            self.running_mean.assign((1 - new) * self.running_mean + new * mean.detach())
            self.running_var.assign((1 - new) * self.running_var + new * unbiased)

    def reset_running_stats(self) -> None:
        """Forget what was learnt: mean 0, variance 1, no batch."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.assign(f.zeros_like(self.running_mean))
            self.running_var.assign(f.ones_like(self.running_var))
            self.num_batches_tracked.assign(f.zeros_like(self.num_batches_tracked))

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    __doc__ = f"{_BatchNorm.__doc__}\n    Shapes: (B, C) or (B, C, T) -> the same; weight, bias and buffers (C,).\n    "
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = f"{_BatchNorm.__doc__}\n    Shapes: (B, C, H, W) -> the same; weight, bias and buffers (C,).\n    "
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = f"{_BatchNorm.__doc__}\n    Shapes: (B, C, D, H, W) -> the same; weight, bias and buffers (C,).\n    "
    ranks = (5,)


class _InstanceNorm(_BatchNorm):
    """Bring each channel of each example to mean 0 and variance 1, and with `affine` scale and shift it.

    With `track_running_stats` the means over examples are kept, and used in evaluation. An input without a batch axis
    is a batch of one.

    Source: Ulyanov, Vedaldi and Lempitsky (2016), arXiv:1607.08022, equation 5.
    """

    counts_batches = False  # as PyTorch, whose counter stays at 0 here

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, x: Any) -> Tensor:
        x = asarray(x)
        if x.ndim == self.ranks[0] - 1:
            return f.squeeze(self.forward(f.expand_dims(x, axis=0)), axis=0)
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: needs (B, {self.num_features}, ...) with {self.ranks} axes, got {x.shape}"
            )
        if self.running_mean is not None:
            if not self.training:
                return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.eps)
            space = tuple(range(2, x.ndim))
            means, variances = f.mean(x, axis=space), f.var(x, axis=space)
            self._track(f.mean(means, axis=0), f.mean(variances, axis=0), x.size // (x.shape[0] * x.shape[1]))
        return instance_norm(x, self.weight, self.bias, self.eps)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, T) or (C, T) -> the same.\n    "
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, H, W) or (C, H, W) -> the same.\n    "
    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, D, H, W) or (C, D, H, W) -> the same.\n    "
    ranks = (5,)
