"""ONNX's operators on images and their neighbourhoods beyond convolution and pooling, and a few others that are a line
each; with them the table is whole.
"""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.nn import functional as nnf
from vkgrad.onnx.operators import OPERATORS, Attributes, margins_of, operator, padded
from vkgrad.tensor import Tensor

__all__ = ["OPERATORS"]


@operator("LRN")
def _lrn(x: Any, a: Attributes) -> Tensor:
    return nnf.local_response_norm(x[0], a.get("size"), a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0))


@operator("LpPool")
def _norm_pool(x: Any, a: Attributes) -> Tensor:
    sizes, power = a.get("kernel_shape"), float(a.get("p", 2))
    ones = [1] * len(sizes)
    strides, dilations = a.get("strides", ones), a.get("dilations", ones)
    pool = getattr(f, f"sum_pool{len(sizes)}d", None)
    if pool is None:
        raise a.refuse(f"{len(sizes)} spatial axes")
    image = padded(x[0], margins_of(a, x[0].shape[2:], sizes, strides, dilations))
    total = pool(f.abs(image) ** power, tuple(sizes), tuple(strides), 0, tuple(dilations), bool(a.get("ceil_mode", 0)))
    return total ** (1.0 / power)


@operator("GridSample")
def _grid_sample(x: Any, a: Attributes) -> Tensor:
    mode = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest"}.get(a.get("mode", "linear"))
    if mode is None:
        raise a.refuse(f"mode {a.get('mode')}")
    return f.grid_sample(x[0], x[1], mode, a.get("padding_mode", "zeros"), bool(a.get("align_corners", 0)))


@operator("DepthToSpace")
def _depth_to_space(x: Any, a: Attributes) -> Tensor:
    size, (batch, channels, height, width) = a.get("blocksize"), x[0].shape
    depth = channels // (size * size)
    if a.get("mode", "DCR") == "CRD":
        return f.pixel_shuffle(x[0], size)
    parts = x[0].reshape((batch, size, size, depth, height, width)).permute((0, 3, 4, 1, 5, 2))
    return parts.reshape((batch, depth, height * size, width * size))


@operator("SpaceToDepth")
def _space_to_depth(x: Any, a: Attributes) -> Tensor:
    size, (batch, channels, height, width) = a.get("blocksize"), x[0].shape
    if a.get("mode", "DCR") == "CRD":
        return f.pixel_unshuffle(x[0], size)
    parts = x[0].reshape((batch, channels, height // size, size, width // size, size)).permute((0, 3, 5, 1, 2, 4))
    return parts.reshape((batch, channels * size * size, height // size, width // size))


@operator("Col2Im")
def _columns_to_image(x: Any, a: Attributes) -> Tensor:
    size, block = x.integers(1), x.integers(2)
    ones = [1] * len(size)
    pads = a.get("pads", [0] * (2 * len(size)))
    if len(size) != 2:
        raise a.refuse(f"{len(size)} spatial axes")
    wide = [extent + low + high for extent, low, high in zip(size, pads[:2], pads[2:], strict=True)]
    image = f.fold(x[0], tuple(wide), tuple(block), tuple(a.get("dilations", ones)), 0, tuple(a.get("strides", ones)))
    return image[:, :, pads[0] : pads[0] + size[0], pads[1] : pads[1] + size[1]]


@operator("AffineGrid")
def _affine_grid(x: Any, a: Attributes) -> Tensor:
    return f.affine_grid(x[0], tuple(x.integers(1)), bool(a.get("align_corners", 0)))


# ---- element-wise and normalisations
@operator("ThresholdedRelu")
def _thresholded(x: Any, a: Attributes) -> Tensor:
    return f.where(x[0] > a.get("alpha", 1.0), x[0], 0.0)


@operator("Shrink")
def _shrink(x: Any, a: Attributes) -> Tensor:
    bias, least = a.get("bias", 0.0), a.get("lambd", 0.5)
    return f.where(x[0] < -least, x[0] + bias, f.where(x[0] > least, x[0] - bias, 0.0))


@operator("Swish")
def _swish(x: Any, a: Attributes) -> Tensor:
    return x[0] * f.sigmoid(x[0] * a.get("alpha", 1.0))


@operator("LpNormalization")
def _normalised(x: Any, a: Attributes) -> Tensor:
    length = f.norm(x[0], float(a.get("p", 2)), axis=a.get("axis", -1), keepdims=True)
    return f.where(length > 0, x[0] / f.where(length > 0, length, 1.0), 0.0)


@operator("RMSNormalization")
def _rms_norm(x: Any, a: Attributes) -> Tensor:
    axis = a.get("axis", -1) % x[0].ndim
    return nnf.rms_norm(x[0], x[0].shape[axis:], x[1], a.get("epsilon", 1e-5))


@operator("MeanVarianceNormalization")
def _mean_variance(x: Any, a: Attributes) -> Tensor:
    axes = tuple(a.get("axes", (0, 2, 3)))
    centred = x[0] - f.mean(x[0], axis=axes, keepdims=True)
    return centred / (f.sqrt(f.mean(centred * centred, axis=axes, keepdims=True)) + 1e-9)


@operator("TopK")
def _top(x: Any, a: Attributes) -> tuple[Tensor, Tensor]:
    found = f.topk(x[0], x.integers(1)[0], axis=a.get("axis", -1), largest=bool(a.get("largest", 1)))
    return found.values, found.indices
