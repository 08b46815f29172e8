"""Layers whose number of inputs comes from the first input that they see; they are ordinary layers from then on.

Run one batch before the optimiser is made or weights are loaded: there are no parameters before.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from vkgrad.errors import ShapeError
from vkgrad.nn import convolution, linear, normalization
from vkgrad.nn.module import Module
from vkgrad.tensor import asarray

_ALL = {"affine": True, "track_running_stats": True}


class _Lazy(Module):
    """`becomes` without its first argument, which is the extent of the input's axis `axis`."""

    becomes: ClassVar[type[Module]]
    axis: ClassVar[int] = 1
    usual: ClassVar[dict[str, Any]] = {}  # defaults that are others than those of `becomes`, as in PyTorch

    def __init_subclass__(cls) -> None:
        _self, _counted, *others = inspect.signature(cls.becomes.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(default=cls.usual.get(p.name, p.default)) for p in others]
        )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        given = inspect.signature(type(self)).bind(
            *arguments, **options
        )  # a mistake is one now, not at the first input
        self.options = dict(given.arguments)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        shape = asarray(inputs[0]).shape
        if not -len(shape) <= self.axis < len(shape):
            raise ShapeError(f"{type(self).__name__}: the input {shape} has no axis {self.axis} to count")
        count, options = shape[self.axis], {**self.usual, **vars(self).pop("options")}
        self.__class__ = self.becomes  # type: ignore[assignment]
        self.__init__(count, **options)  # type: ignore[misc]
        return self(*inputs, **named)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


class LazyLinear(_Lazy):
    """`Linear` without `in_features`."""

    becomes = linear.Linear
    axis = -1


class LazyConv1d(_Lazy):
    """`Conv1d` without `in_channels`."""

    becomes = convolution.Conv1d


class LazyConv2d(_Lazy):
    """`Conv2d` without `in_channels`."""

    becomes = convolution.Conv2d


class LazyConv3d(_Lazy):
    """`Conv3d` without `in_channels`."""

    becomes = convolution.Conv3d


class LazyConvTranspose1d(_Lazy):
    """`ConvTranspose1d` without `in_channels`."""

    becomes = convolution.ConvTranspose1d


class LazyConvTranspose2d(_Lazy):
    """`ConvTranspose2d` without `in_channels`."""

    becomes = convolution.ConvTranspose2d


class LazyConvTranspose3d(_Lazy):
    """`ConvTranspose3d` without `in_channels`."""

    becomes = convolution.ConvTranspose3d


class LazyBatchNorm1d(_Lazy):
    """`BatchNorm1d` without `num_features`."""

    becomes = normalization.BatchNorm1d


class LazyBatchNorm2d(_Lazy):
    """`BatchNorm2d` without `num_features`."""

    becomes = normalization.BatchNorm2d


class LazyBatchNorm3d(_Lazy):
    """`BatchNorm3d` without `num_features`."""

    becomes = normalization.BatchNorm3d


class LazyInstanceNorm1d(_Lazy):
    """`InstanceNorm1d` without `num_features`, and with all that it can learn unless told otherwise."""

    becomes = normalization.InstanceNorm1d
    usual = _ALL


class LazyInstanceNorm2d(_Lazy):
    """`InstanceNorm2d` without `num_features`; see `LazyInstanceNorm1d`."""

    becomes = normalization.InstanceNorm2d
    usual = _ALL


class LazyInstanceNorm3d(_Lazy):
    """`InstanceNorm3d` without `num_features`; see `LazyInstanceNorm1d`."""

    becomes = normalization.InstanceNorm3d
    usual = _ALL
