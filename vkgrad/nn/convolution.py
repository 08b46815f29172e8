"""Convolution layers. A convolution here is a cross-correlation, as everywhere in deep learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.convolution import MARGINS, sizes_of, unknown_margins
from vkgrad.nn import init
from vkgrad.nn.functional import pad
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor

Extents = int | tuple[int, ...]
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What the convolution layers share: their arguments, their parameters and how they look."""

    rank: int  # axes of the image
    transposed = False
    padding: Any  # numbers; also "same" or "valid" where the layer takes them

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        if padding_mode not in PADDING_MODES or (self.transposed and padding_mode != "zeros"):
            known = PADDING_MODES[:1] if self.transposed else PADDING_MODES
            raise OptionError(f"{type(self).__name__}: padding_mode must be {' or '.join(known)}, got {padding_mode!r}")
        name = type(self).__name__
        for what, value, least in (("kernel_size", kernel_size, 1), ("stride", stride, 1), ("dilation", dilation, 1)):
            sizes_of(name, what, value, self.rank, least)
        if not isinstance(padding, str):
            sizes_of(name, "padding", padding, self.rank, 0)
        elif padding not in MARGINS:
            raise unknown_margins(name, padding)
        if in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{type(self).__name__}: {in_channels} and {out_channels} channels do not divide into {groups} groups"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = (kernel_size,) * self.rank if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = parameter(init.default_weight(shape, dtype))
        self.bias = parameter(init.default_bias((out_channels,), shape, dtype)) if bias else None

    def _convolved(self, function: Callable[..., Tensor], x: Any) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = pad(x, self._widths(), self.padding_mode), 0
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _widths(self) -> list[int]:
        """What surrounds the spatial axes, in pairs from the last axis on."""
        if self.padding == "same":
            spread = (self.dilation,) * self.rank if isinstance(self.dilation, int) else self.dilation
            reach = [d * (k - 1) for d, k in zip(spread, self.kernel_size, strict=True)]
            pairs = [(r // 2, r - r // 2) for r in reach]
        else:
            margin = 0 if self.padding == "valid" else self.padding
            pairs = [(m, m) for m in ((margin,) * self.rank if isinstance(margin, int) else margin)]
        return [width for pair in reversed(pairs) for width in pair]

    def extra_repr(self) -> str:
        said = [str(self.in_channels), str(self.out_channels), f"kernel_size={self.kernel_size}"]
        defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "padding_mode": "zeros"}
        said += [f"{name}={getattr(self, name)}" for name, usual in defaults.items() if getattr(self, name) != usual]
        return ", ".join(said + ["bias=False"] * (self.bias is None))


class Conv1d(_Convolution):
    """Slide a window along a line.

    Shapes: (B, in_channels, T) -> (B, out_channels, T'); weight (out_channels, in_channels / groups, K),
    bias (out_channels,). T' = (T + 2 * padding - dilation * (K - 1) - 1) // stride + 1.

    Args:
        padding: how many zeros surround the line; "valid" for none, "same" for as many as keep T.
        padding_mode: "zeros", or what `nn.functional.pad` surrounds with: "reflect", "replicate" or "circular".
        groups: into how many parts the channels are divided; a part of the output sees the same part of the input.
    """

    rank = 1

    def forward(self, x: Any) -> Tensor:
        return self._convolved(f.conv1d, x)


class Conv2d(_Convolution):
    """Slide a window over an image.

    Shapes: (B, in_channels, H, W) -> (B, out_channels, H', W'); weight (out_channels, in_channels / groups, kH, kW),
    bias (out_channels,). H' = (H + 2 * padding - dilation * (kH - 1) - 1) // stride + 1, and W' likewise.

    Args:
        kernel_size, stride, padding, dilation: one number for both axes, or a pair.
        padding: how many zeros surround the image; "valid" for none, "same" for as many as keep H and W.
        groups: into how many parts the channels are divided; a part of the output sees the same part of the input.

    Example:
        >>> import vkgrad as vg
        >>> vg.nn.Conv2d(3, 8, 5, padding=2)(vg.ones((1, 3, 28, 28))).shape
        (1, 8, 28, 28)
    """

    rank = 2

    def forward(self, x: Any) -> Tensor:
        return self._convolved(f.conv2d, x)


class Conv3d(_Convolution):
    """Slide a window over a volume.

    Shapes: (B, in_channels, D, H, W) -> (B, out_channels, D', H', W');
    weight (out_channels, in_channels / groups, kD, kH, kW), bias (out_channels,). Arguments as for `Conv2d`.
    """

    rank = 3

    def forward(self, x: Any) -> Tensor:
        return self._convolved(f.conv3d, x)


class _Transposed(_Convolution):
    """What the transposed convolutions share."""

    transposed = True
    function: ClassVar[Any]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype
        )
        self.output_padding = output_padding

    def forward(self, x: Any) -> Tensor:
        return type(self).function(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_Transposed):
    """`ConvTranspose2d` along a line.

    Shapes: (B, in_channels, T) -> (B, out_channels, T'); weight (in_channels, out_channels / groups, K).
    """

    rank = 1
    function = staticmethod(f.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """The transpose of a convolution as a linear map: puts a window at each place of the input and adds them up.

    Shapes: (B, in_channels, H, W) -> (B, out_channels, H', W'); weight (in_channels, out_channels / groups, kH, kW),
    bias (out_channels,). H' = (H - 1) * stride - 2 * padding + dilation * (kH - 1) + output_padding + 1.

    Args:
        padding: how many places are cut off each side of the output.
        output_padding: how many places are added at the end, to choose among the sizes that a stride rounds off.
    """

    rank = 2
    function = staticmethod(f.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """`ConvTranspose2d` in a volume.

    Shapes: (B, in_channels, D, H, W) -> (B, out_channels, D', H', W');
    weight (in_channels, out_channels / groups, kD, kH, kW).
    """

    rank = 3
    function = staticmethod(f.conv_transpose3d)
