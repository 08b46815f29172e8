"""Layers that bring activations to mean 0 and variance 1, or to length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.errors import ShapeError
from vkgrad.history import no_grad
from vkgrad.nn import init
from vkgrad.nn.module import Module, parameter
from vkgrad.nn.normalizing import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from vkgrad.tensor import Tensor, asarray, tensor

_SPACE = {2: "", 3: ", T", 4: ", H, W", 5: ", D, H, W"}  # axes behind the channels, by how many there are in all


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
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: {num_channels} channels do not divide into {num_groups} equal groups; num_groups must "
                "divide num_channels"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = parameter(init.ones((num_channels,), dtype)) if affine else None
        self.bias = parameter(init.zeros((num_channels,), dtype)) if affine and bias else None

    def forward(self, x: Any) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class LocalResponseNorm(Module):
    """Divide by a power of the mean square of `size` neighbouring channels: x / (k + alpha * mean) ** beta.

    Shapes: (B, C, ...) -> the same.

    Source: Krizhevsky, Sutskever and Hinton (2012), ImageNet classification, section 3.3.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Any) -> Tensor:
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class _BatchNorm(Module):
    """Bring each channel to mean 0 and variance 1 over the batch, then scale and shift it.

    In evaluation the running mean and variance take the place of the batch's. They are buffers on the device that
    training moves by `momentum` towards the batch's mean and unbiased variance (None: they are the mean of all so far).

    Source: Ioffe and Szegedy (2015), arXiv:1502.03167, Algorithms 1 and 2.
    """

    ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.weight = parameter(init.ones((num_features,), dtype)) if affine else None
        self.bias = parameter(init.zeros((num_features,), dtype)) if affine and bias else None
        self.running_mean = init.zeros((num_features,), dtype) if track_running_stats else None
        self.running_var = init.ones((num_features,), dtype) if track_running_stats else None
        self.num_batches_tracked = tensor(np.zeros((), np.int32)) if track_running_stats else None

    def forward(self, x: Any) -> Tensor:
        x = asarray(x)
        self._check(x)
        learns = self.training and self.running_mean is not None
        if learns and x.size == self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: input {x.shape} has one value per channel, which has no variance to train on; "
                "call model.eval() to predict, or leave such a batch out with drop_last=True"
            )
        return batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training or self.running_mean is None,
            momentum=self._next_momentum() if learns else 0.0,
            eps=self.eps,
        )

    def _check(self, x: Tensor) -> None:
        """Refuse an input of other axes or channels, saying which layer takes it."""
        name, features = type(self).__name__, self.num_features
        if x.ndim in self.ranks and x.shape[1] == features:
            return
        axes = " or ".join(f"(B, {features}{_SPACE[rank]})" for rank in self.ranks)
        if x.ndim in self.ranks:
            mended = f"; num_features={x.shape[1]} takes that"
        else:
            fitting = {2: 1, 3: 1, 4: 2, 5: 3}.get(x.ndim)
            mended = f"; {name[:-2]}{fitting}d takes {x.ndim} axes" if fitting else ""
        raise ShapeError(f"{name}: needs {axes}, got {x.shape}{mended}")

    def _next_momentum(self) -> Any:
        """Count a batch, and say how much of it the running statistics take."""
        assert self.num_batches_tracked is not None and self.running_mean is not None
        with no_grad():
            self.num_batches_tracked.assign(self.num_batches_tracked + 1)
            if self.momentum is not None:
                return self.momentum
            return 1.0 / self.num_batches_tracked.astype(self.running_mean.dtype)

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

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype, bias=bias)

    def forward(self, x: Any) -> Tensor:
        x = asarray(x)
        if x.ndim == self.ranks[0] - 1:
            return f.squeeze(self.forward(f.expand_dims(x, axis=0)), axis=0)
        self._check(x)
        return instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_input_stats=self.training or self.running_mean is None,
            momentum=self.momentum,
            eps=self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, T) or (C, T) -> the same.\n    "
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, H, W) or (C, H, W) -> the same.\n    "
    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__}\n    Shapes: (B, C, D, H, W) or (C, D, H, W) -> the same.\n    "
    ranks = (5,)
