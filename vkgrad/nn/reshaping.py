"""Layers that change the shape of their input, or surround it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import ShapeError
from vkgrad.functions.shapes import along_axis
from vkgrad.nn.functional import pad
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor, asarray

Widths = int | Sequence[int]


class Identity(Module):
    """The input as it is. It takes any arguments, so that it can stand in for any layer."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def forward(self, x: Any) -> Tensor:
        return asarray(x)


class Flatten(Module):
    """Join the axes from `start_dim` to `end_dim` into one: (B, C, H, W) -> (B, C*H*W)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Any) -> Tensor:
        return f.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Divide axis `dim` into axes of extents `unflattened_size`, of which one may be -1: (B, 12) -> (B, 3, 4)."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Any) -> Tensor:
        x = asarray(x)
        axis = along_axis("Unflatten", self.dim, x.ndim)
        if -1 not in self.unflattened_size and prod(self.unflattened_size) != x.shape[axis]:
            raise ShapeError(f"Unflatten: axis {axis} of {x.shape} does not divide into {self.unflattened_size}")
        return f.reshape(x, (*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class _Padding(Module):
    """Surround the last axes.

    Args:
        padding: one width for all sides, or (left, right), (left, right, top, bottom), ..., from the last axis on.
    """

    dimensions: int
    mode: str

    def __init__(self, padding: Widths) -> None:
        self.padding = (padding,) * (2 * self.dimensions) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.dimensions:
            raise ShapeError(f"{type(self).__name__}: needs {2 * self.dimensions} widths, got {self.padding}")

    def forward(self, x: Any) -> Tensor:
        return pad(x, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _Constant(_Padding):
    """With one number."""

    mode = "constant"

    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, x: Any) -> Tensor:
        return pad(x, self.padding, self.mode, self.value)


class ConstantPad1d(_Constant):
    """Surround the last axis with `value`; `padding` is a width or (left, right). Shapes: (..., T) -> (..., T')."""

    dimensions = 1


class ConstantPad2d(_Constant):
    """Surround the last two axes with `value`; `padding` is a width or (left, right, top, bottom)."""

    dimensions = 2


class ConstantPad3d(_Constant):
    """Surround the last three axes with `value`; `padding` is a width or six."""

    dimensions = 3


class _Zero(_Padding):
    mode = "constant"


class ZeroPad1d(_Zero):
    """Surround the last axis with zeros; `padding` is a width or (left, right)."""

    dimensions = 1


class ZeroPad2d(_Zero):
    """Surround the last two axes with zeros; `padding` is a width or (left, right, top, bottom)."""

    dimensions = 2


class ZeroPad3d(_Zero):
    """Surround the last three axes with zeros; `padding` is a width or six."""

    dimensions = 3


class ReflectionPad1d(_Padding):
    """Mirror the last axis at its outermost elements, which are not repeated."""

    dimensions, mode = 1, "reflect"


class ReflectionPad2d(_Padding):
    """Mirror the last two axes at their outermost elements, which are not repeated."""

    dimensions, mode = 2, "reflect"


class ReflectionPad3d(_Padding):
    """Mirror the last three axes at their outermost elements, which are not repeated."""

    dimensions, mode = 3, "reflect"


class ReplicationPad1d(_Padding):
    """Repeat the outermost elements of the last axis."""

    dimensions, mode = 1, "replicate"


class ReplicationPad2d(_Padding):
    """Repeat the outermost elements of the last two axes."""

    dimensions, mode = 2, "replicate"


class ReplicationPad3d(_Padding):
    """Repeat the outermost elements of the last three axes."""

    dimensions, mode = 3, "replicate"


class CircularPad1d(_Padding):
    """Surround the last axis with what is on its other side."""

    dimensions, mode = 1, "circular"


class CircularPad2d(_Padding):
    """Surround the last two axes with what is on their other sides."""

    dimensions, mode = 2, "circular"


class CircularPad3d(_Padding):
    """Surround the last three axes with what is on their other sides."""

    dimensions, mode = 3, "circular"


class PixelShuffle(Module):
    """Spread channels over space. Shapes: (..., C * r * r, H, W) -> (..., C, H * r, W * r).

    Source: Shi et al. (2016), arXiv:1609.05158, equation 4.
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Any) -> Tensor:
        return f.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """Gather space into channels: `PixelShuffle` reversed. Shapes: (..., C, H * r, W * r) -> (..., C * r * r, H, W)."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: Any) -> Tensor:
        return f.pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(Module):
    """Deal the channels of `groups` groups out in turn. Shapes: (B, C, ...) -> the same.

    Source: Zhang et al. (2018), arXiv:1707.01083, section 3.1.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, x: Any) -> Tensor:
        return f.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Windows(Module):
    """Base of `Unfold` and `Fold`: the windows of an image."""

    def __init__(self, kernel_size: Widths, dilation: Widths = 1, padding: Widths = 0, stride: Widths = 1) -> None:
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def _options(self) -> tuple[Widths, ...]:
        return self.kernel_size, self.dilation, self.padding, self.stride

    def extra_repr(self) -> str:
        return "kernel_size={}, dilation={}, padding={}, stride={}".format(*self._options())


class Unfold(_Windows):
    """The windows of images as columns. Shapes: (B, C, H, W) -> (B, C * KH * KW, windows)."""

    def forward(self, x: Any) -> Tensor:
        return f.unfold(x, *self._options())


class Fold(_Windows):
    """Columns put back to the windows that they are; where these overlap, they add up.

    Shapes: (B, C * KH * KW, windows) -> (B, C, *output_size).
    """

    def __init__(
        self,
        output_size: Widths,
        kernel_size: Widths,
        dilation: Widths = 1,
        padding: Widths = 0,
        stride: Widths = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, x: Any) -> Tensor:
        return f.fold(x, self.output_size, *self._options())

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Upsample(Module):
    """Resize the spatial axes: `interpolate` with these arguments. Shapes: (B, C, ...) -> (B, C, *size)."""

    def __init__(
        self,
        size: Widths | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Any) -> Tensor:
        return f.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        how = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{how}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` to the nearest element."""

    def __init__(self, size: Widths | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` between the nearest elements, with aligned corners."""

    def __init__(self, size: Widths | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
