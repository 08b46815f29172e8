"""Layers that join the elements of windows over images."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor

Pair = int | tuple[int, int]


class MaxPool2d(Module):
    """The largest element of each window. Ties give the gradient to the first in row-major order.

    Shapes: (B, C, H, W) or (C, H, W) -> the same with H and W replaced by the number of windows.

    Args:
        kernel_size: the extent of the window.
        stride: how far apart windows are; as far as they are large if None.
        padding: how many places, which never are the largest, surround the image.
        dilation: how far apart the elements of a window are.
    """

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: Any) -> Tensor:
        return f.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}"


class AvgPool2d(Module):
    """The mean of each window.

    Shapes: (B, C, H, W) or (C, H, W) -> the same with H and W replaced by the number of windows.

    Args:
        kernel_size: the extent of the window.
        stride: how far apart windows are; as far as they are large if None.
        padding: how many zeros surround the image.
        count_include_pad: whether these zeros count in the divisor.
    """

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, count_include_pad: bool = True
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.count_include_pad = count_include_pad

    def forward(self, x: Any) -> Tensor:
        return f.avg_pool2d(x, self.kernel_size, self.stride, self.padding, count_include_pad=self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
