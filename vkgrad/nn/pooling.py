"""Layers that join the elements of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad.functions.convolution import sizes_of
from vkgrad.functions.pooling import Pooled
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor

Extents = int | tuple[int, ...]
Outputs = int | tuple[int | None, ...] | None


def _windows(layer: Module, kernel_size: Any, stride: Any, padding: Any = 0, dilation: Any = 1) -> None:
    """Refuse sizes that no window has, where the layer is made."""
    name = type(layer).__name__
    if not name[-2:-1].isdigit():  # a layer of somebody else's, who may have called it anything
        return
    given = {"kernel_size": kernel_size, "stride": kernel_size if stride is None else stride, "dilation": dilation}
    for what, value in given.items():
        sizes_of(name, what, value, int(name[-2]), 1)
    sizes_of(name, "padding", padding, int(name[-2]), 0)


def _described(what: str, base: type, shapes: str) -> str:
    return f"{what}{base.__doc__}\n    {shapes}\n    "


class _Pool(Module):
    """Base of the pooling layers: `options` are the arguments of `function` beside the input."""

    function: ClassVar[Any]
    options: ClassVar[tuple[str, ...]]

    def forward(self, x: Any) -> Pooled:
        return type(self).function(x, *(getattr(self, name) for name in self.options))

    def extra_repr(self) -> str:
        said = {name: getattr(self, name) for name in self.options}
        return ", ".join(f"{name}={value}" for name, value in said.items() if value is not None and value is not False)


class _Windowed(_Pool):
    """One over windows of one size."""

    def __init__(
        self, kernel_size: Extents, stride: Extents | None, padding: Extents = 0, dilation: Extents = 1
    ) -> None:
        _windows(self, kernel_size, stride, padding, dilation)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation


class _MaxPool(_Windowed):
    """The largest element of each window. Ties give the gradient to the first in row-major order.

    Args:
        kernel_size: the extent of the window.
        stride: how far apart windows are; as far as they are large if None.
        padding: how many places, which never are the largest, surround the input.
        dilation: how far apart the elements of a window are.
        return_indices: give also where each of them is, for `MaxUnpool`.
        ceil_mode: round the number of windows up: a last one may reach over the end.
    """

    options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation)
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode


class MaxPool1d(_MaxPool):
    __doc__ = _described("", _MaxPool, "Shapes: (B, C, T) or (C, T) -> the same with as many T as windows.")
    function = staticmethod(f.max_pool1d)


class MaxPool2d(_MaxPool):
    __doc__ = _described("", _MaxPool, "Shapes: (B, C, H, W) or (C, H, W) -> the same with as many H and W as windows.")
    function = staticmethod(f.max_pool2d)


class MaxPool3d(_MaxPool):
    __doc__ = _described("", _MaxPool, "Shapes: (B, C, D, H, W) or without B -> with as many D, H, W as windows.")
    function = staticmethod(f.max_pool3d)


class _MaxUnpool(Module):
    """Elements at the places that `MaxPool` with `return_indices` has found them at, and 0 elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.
    """

    function: ClassVar[Any]

    def __init__(self, kernel_size: Extents, stride: Extents | None = None, padding: Extents = 0) -> None:
        _windows(self, kernel_size, stride, padding)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _described("", _MaxUnpool, "Shapes: (B, C, T') or (C, T'), twice -> (..., T) or the `output_size`.")
    function = staticmethod(f.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _described("", _MaxUnpool, "Shapes: (B, C, H', W') or (C, H', W'), twice -> (..., H, W).")
    function = staticmethod(f.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _described("", _MaxUnpool, "Shapes: (B, C, D', H', W') or without B, twice -> (..., D, H, W).")
    function = staticmethod(f.max_unpool3d)


class _NormPool(_Windowed):
    """(sum of x ** norm_type) ** (1 / norm_type) of each window.

    Args:
        norm_type: the power; 1 gives sums, and a large one the largest element.
        kernel_size: the extent of the window.
        stride: how far apart windows are; as far as they are large if None.
        ceil_mode: round the number of windows up; a last one that reaches over the end counts as if it were full.
    """

    options = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride)
        self.norm_type = norm_type
        self.ceil_mode = ceil_mode


class LPPool1d(_NormPool):
    __doc__ = _described("", _NormPool, "Shapes: (B, C, T) or (C, T) -> the same with as many T as windows.")
    function = staticmethod(f.lp_pool1d)


class LPPool2d(_NormPool):
    __doc__ = _described("", _NormPool, "Shapes: (B, C, H, W) or (C, H, W) -> with as many H and W as windows.")
    function = staticmethod(f.lp_pool2d)


class LPPool3d(_NormPool):
    __doc__ = _described("", _NormPool, "Shapes: (B, C, D, H, W) or without B -> with as many D, H, W as windows.")
    function = staticmethod(f.lp_pool3d)


class AvgPool1d(_Windowed):
    """The mean of each window.

    Shapes: (B, C, T) or (C, T) -> the same with as many T as windows.

    Args:
        kernel_size: the extent of the window.
        stride: how far apart windows are; as far as they are large if None.
        padding: how many zeros surround the input.
        ceil_mode: round the number of windows up: a last one may reach over the end, and what is beyond counts nothing.
        count_include_pad: whether the zeros count in the divisor.
    """

    function = staticmethod(f.avg_pool1d)
    options: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad


class AvgPool2d(AvgPool1d):
    """The mean of each window, as `AvgPool1d`.

    Shapes: (B, C, H, W) or (C, H, W) -> the same with as many H and W as windows.

    Args:
        divisor_override: divide by this instead of the number of elements.
    """

    function = staticmethod(f.avg_pool2d)
    options = (*AvgPool1d.options, "divisor_override")

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override


class AvgPool3d(AvgPool2d):
    """The mean of each window, as `AvgPool2d`. Shapes: (B, C, D, H, W) or without B."""

    function = staticmethod(f.avg_pool3d)


class _Adaptive(_Pool):
    """One number for each of as many windows as asked for: window i of n along H begins at i * H // n and ends before
    ceil((i + 1) * H / n).

    Args:
        output_size: how many windows, one number or one for each axis; None keeps an extent.
    """

    options: ClassVar[tuple[str, ...]] = ("output_size",)

    def __init__(self, output_size: Outputs) -> None:
        self.output_size = output_size


class AdaptiveAvgPool1d(_Adaptive):
    __doc__ = _described("The mean. ", _Adaptive, "Shapes: (B, C, T) or (C, T) -> (..., output_size).")
    function = staticmethod(f.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    __doc__ = _described("The mean. ", _Adaptive, "Shapes: (B, C, H, W) or (C, H, W) -> (..., *output_size).")
    function = staticmethod(f.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    __doc__ = _described("The mean. ", _Adaptive, "Shapes: (B, C, D, H, W) or (C, D, H, W) -> (..., *output_size).")
    function = staticmethod(f.adaptive_avg_pool3d)


class _AdaptiveMax(_Adaptive):
    __doc__ = f"{_Adaptive.__doc__}    return_indices: give also where each of them is.\n    "
    options = ("output_size", "return_indices")

    def __init__(self, output_size: Outputs, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMax):
    __doc__ = _described("The largest. ", _AdaptiveMax, "Shapes: (B, C, T) or (C, T) -> (..., output_size).")
    function = staticmethod(f.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    __doc__ = _described("The largest. ", _AdaptiveMax, "Shapes: (B, C, H, W) or (C, H, W) -> (..., *output_size).")
    function = staticmethod(f.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    __doc__ = _described("The largest. ", _AdaptiveMax, "Shapes: (B, C, D, H, W) or without B.")
    function = staticmethod(f.adaptive_max_pool3d)
