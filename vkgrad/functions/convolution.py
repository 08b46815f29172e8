"""Convolution in one, two and three dimensions, in PyTorch's layout: batch, channels, then space.

It reads windows, which are views of the padded input, and contracts them with the weights. Strides, dilations, groups
and overlap change only the view, and the gradients follow. This module must not know how a contraction is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions.joining import padded
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import promote
from vkgrad.ir.node import Node
from vkgrad.ir.op import Shape
from vkgrad.ops.contraction import contract
from vkgrad.ops.views import flip, window
from vkgrad.precision import for_product
from vkgrad.spelling import meant, suggested
from vkgrad.tensor import Operand, Tensor, derived, lift

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Sizes = int | Sequence[int]
MARGINS = ("same", "valid")
AXES = {1: "W", 2: "H, W", 3: "D, H, W"}


def sizes_of(name: str, what: str, value: Sizes, dimensions: int, least: int) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,) * dimensions
    if len(sizes) != dimensions or any(not isinstance(s, int) or s < least for s in sizes):
        count = "an integer" if dimensions == 1 else f"an integer or {dimensions} of them,"
        raise ShapeError(f"{name}: {what} must be {count} at least {least}, got {value!r}")
    return sizes


def unknown_margins(name: str, padding: str) -> OptionError:
    text = f"{name}: padding must be numbers, 'same' or 'valid', got {padding!r}"
    return OptionError(suggested(text, meant(padding, MARGINS)))


def windows(name: str, node: Node, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Node:
    """Windows over the last axes: (..., *positions, *kernel)."""
    first = node.ndim - len(kernel)
    for k, (size, step, spread) in enumerate(zip(kernel, stride, dilation, strict=True)):
        extent, reach = node.shape[first + k], (size - 1) * spread + 1
        if reach > extent:
            raise ShapeError(
                f"{name}: a window of {reach} does not fit extent {extent}, axis {first + k} of the padded input "
                f"{node.shape}; take a smaller window or more padding"
            )
        node = window(node, first + k, size, step, spread)
    return node


# ---- convolution
def _convolution(
    name: str, x: Operand, weight: Operand, bias: Operand | None, stride: Sizes, padding: Sizes | str, dilation: Sizes,
    groups: int, dimensions: int,
) -> Tensor:  # fmt: skip
    image, kernel = _operands(name, x, weight, dimensions)
    strides = sizes_of(name, "stride", stride, dimensions, 1)
    dilations = sizes_of(name, "dilation", dilation, dimensions, 1)
    outputs, inputs, *sizes = kernel.shape
    batch, channels = image.shape[:2]
    if groups < 1 or channels != inputs * groups or outputs % groups:
        raise ShapeError(
            f"{name}: weight {kernel.shape} {'' if groups == 1 else f'with groups={groups} '}takes "
            f"{inputs * groups} channels, input (B, C, {AXES[dimensions]}) is {image.shape}; "
            + _mended(image.shape, inputs * groups, dimensions)
        )
    low, high = _margins(name, padding, sizes, strides, dilations)
    node = padded(image, (0, 0, *low), (0, 0, *high))
    positions = windows(name, node, sizes, strides, dilations)
    out = _contract_windows(positions, kernel, groups)
    return _with_bias(name, b.reshape(out, (batch, outputs, *out.shape[-dimensions:])), bias, (x, weight, bias))


def _operands(name: str, x: Operand, weight: Operand, dimensions: int) -> tuple[Node, Node]:
    image, kernel = lift(x), lift(weight)
    if image.ndim != dimensions + 2 or kernel.ndim != dimensions + 2:
        if kernel.ndim != dimensions + 2:
            raise ShapeError(f"{name}: needs a weight (O, C, {AXES[dimensions]}) of the kernel, got {kernel.shape}")
        channels = kernel.shape[0 if "transpose" in name else 1]
        raise ShapeError(
            f"{name}: needs an input (B, {channels}, {AXES[dimensions]}), got {image.shape}"
            + _missing(image.shape, channels, dimensions)
        )
    dtype = for_product(image.dtype, kernel.dtype) or promote(image.dtype, kernel.dtype)
    return b.cast(image.node, dtype), b.cast(kernel.node, dtype)


def _mended(shape: Shape, channels: int, dimensions: int) -> str:
    """What makes an input of other channels fit."""
    if shape[-1] == channels < shape[1]:
        order = (0, dimensions + 1, *range(1, dimensions + 1))
        return f"channels come first: x.permute{order}"
    return f"in_channels={shape[1]} takes that"


def _missing(shape: Shape, channels: int, dimensions: int) -> str:
    """Which axis is to be added to an input that has one too few."""
    if len(shape) != dimensions + 1:
        return ""
    if shape[0] != channels and channels == 1:
        return "; x[:, None] adds the axis of channels"
    return "; x[None] adds the axis of the batch"


def _margins(
    name: str, padding: Sizes | str, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much to pad before and after each spatial axis."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        if any(step != 1 for step in strides):
            raise ShapeError(f"{name}: padding='same' keeps the extents, which a stride of {tuple(strides)} cannot")
        reach = [(size - 1) * spread for size, spread in zip(sizes, dilations, strict=True)]
        return tuple(r // 2 for r in reach), tuple(r - r // 2 for r in reach)
    if isinstance(padding, str):
        raise unknown_margins(name, padding)
    margin = sizes_of(name, "padding", padding, len(sizes), 0)
    return margin, margin


def _contract_windows(positions: Node, kernel: Node, groups: int) -> Node:
    """(B, G*I, *positions, *kernel) with (G*O, I, *kernel) -> (B, [G,] O, *positions)."""
    dimensions = kernel.ndim - 2
    outputs, inputs, *sizes = kernel.shape
    batch, group, make, take = range(4)
    place = tuple(range(4, 4 + dimensions))
    inside = tuple(range(4 + dimensions, 4 + 2 * dimensions))
    grouped = (group,) if groups > 1 else ()
    if groups > 1:
        positions = b.reshape(positions, (positions.shape[0], groups, inputs, *positions.shape[2:]))
        kernel = b.reshape(kernel, (groups, outputs // groups, inputs, *sizes))
    return contract(
        positions, kernel, (batch, *grouped, take, *place, *inside), (*grouped, make, take, *inside),
        (batch, *grouped, make, *place),
    )  # fmt: skip


def _with_bias(name: str, node: Node, bias: Operand | None, sources: Sequence[object]) -> Tensor:
    out = derived(node, *sources)
    if bias is None:
        return out
    added = lift(bias)
    if added.shape != node.shape[1:2]:
        raise ShapeError(
            f"{name}: bias must have shape {node.shape[1:2]}, one number per output channel, got {added.shape}"
        )
    added = added.astype(out.dtype) if for_product(added.dtype) else added
    return out + added.reshape(-1, *(1 for _ in node.shape[2:]))


@composite
def conv1d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve along the last axis; as `conv2d`. Shapes: x (B, C, W), weight (O, C / groups, K) -> (B, O, W')."""
    return _convolution("conv1d", x, weight, bias, stride, padding, dilation, groups, 1)


@composite
def conv2d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve (without flipping the kernel, as all of deep learning does) along the last two axes.

    Shapes: x (B, C, H, W); weight (O, C / groups, KH, KW); bias (O,); the result (B, O, H', W') with
    H' = (H + 2 * padding - (KH - 1) * dilation - 1) // stride + 1.

    Args:
        padding: numbers, "valid" (none) or "same" (H' = H, stride 1 only; an odd rest is padded at the end).
        groups: output channels see only the input channels of their group.

    Raises: `ShapeError` when channels, groups or sizes do not fit.
    """
    return _convolution("conv2d", x, weight, bias, stride, padding, dilation, groups, 2)


@composite
def conv3d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve along the last three axes; as `conv2d`.

    Shapes: x (B, C, D, H, W), weight (O, C / groups, KD, KH, KW) -> (B, O, D', H', W').
    """
    return _convolution("conv3d", x, weight, bias, stride, padding, dilation, groups, 3)


def _transposed(
    name: str, x: Operand, weight: Operand, bias: Operand | None, stride: Sizes, padding: Sizes, output_padding: Sizes,
    groups: int, dilation: Sizes, dimensions: int,
) -> Tensor:  # fmt: skip
    image, kernel = _operands(name, x, weight, dimensions)
    strides = sizes_of(name, "stride", stride, dimensions, 1)
    dilations = sizes_of(name, "dilation", dilation, dimensions, 1)
    margin = sizes_of(name, "padding", padding, dimensions, 0)
    extra = sizes_of(name, "output_padding", output_padding, dimensions, 0)
    channels, outputs, *sizes = kernel.shape
    if groups < 1 or channels != image.shape[1] or channels % groups:
        raise ShapeError(
            f"{name}: weight {kernel.shape} with groups={groups} does not fit an input of shape {image.shape}"
        )
    # A convolution of the input with its elements `stride` apart, by the kernel turned around.
    low = [(size - 1) * spread - m for size, spread, m in zip(sizes, dilations, margin, strict=True)]
    spread_out = padded(
        image, (0, 0, *low), (0, 0, *(before + e for before, e in zip(low, extra, strict=True))), 0,
        (0, 0, *(step - 1 for step in strides)),
    )  # fmt: skip
    turned = flip(kernel, range(2, 2 + dimensions))
    turned = b.reshape(turned, (groups, channels // groups, outputs, *sizes))
    swapped = b.build("permute", turned, axes=(0, 2, 1, *range(3, 3 + dimensions)))
    swapped = b.reshape(swapped, (groups * outputs, channels // groups, *sizes))
    out = _contract_windows(windows(name, spread_out, sizes, (1,) * dimensions, dilations), swapped, groups)
    out = b.reshape(out, (image.shape[0], groups * outputs, *out.shape[-dimensions:]))
    return _with_bias(name, out, bias, (x, weight, bias))


@composite
def conv_transpose1d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """As `conv_transpose2d`, along the last axis. Shapes: x (B, C, W), weight (C, O / groups, K) -> (B, O, W')."""
    return _transposed("conv_transpose1d", x, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@composite
def conv_transpose2d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """What the gradient of `conv2d` does to its input: every element spreads the kernel over the result.

    Shapes: x (B, C, H, W); weight (C, O / groups, KH, KW); bias (O,); the result (B, O, H', W') with
    H' = (H - 1) * stride - 2 * padding + (KH - 1) * dilation + output_padding + 1.

    Raises: `ShapeError` when channels, groups or sizes do not fit.
    """
    return _transposed("conv_transpose2d", x, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@composite
def conv_transpose3d(
    x: Operand, weight: Operand, bias: Operand | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """As `conv_transpose2d`, along the last three axes."""
    return _transposed("conv_transpose3d", x, weight, bias, stride, padding, output_padding, groups, dilation, 3)
