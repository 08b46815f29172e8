"""Layers without their parameters: functions that take weights as arguments, and all others by PyTorch's names.

This module must not know modules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functions import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    affine_grid,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    gelu,
    grid_sample,
    hardshrink,
    interpolate,
    log_sigmoid,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    one_hot,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    sigmoid,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    unfold,
)
from vkgrad.functions.lookup import as_index
from vkgrad.nn import dropping
from vkgrad.nn.attending import scaled_dot_product_attention
from vkgrad.nn.dropping import gumbel_softmax
from vkgrad.nn.likelihoods import (
    binary_cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
)
from vkgrad.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from vkgrad.nn.margins import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    normalize,
    pairwise_distance,
    pdist,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from vkgrad.nn.normalizing import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm
from vkgrad.precision import for_product
from vkgrad.spelling import answer_misspellings
from vkgrad.tensor import Tensor, asarray

logsigmoid = log_sigmoid  # PyTorch's name

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_sigmoid",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def _with_inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with PyTorch's last argument `inplace`, which changes nothing: no value is overwritten here."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    place = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in own)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        named.pop("inplace", None)
        return function(*arguments[:place], *arguments[place + 1 :], **named)

    added = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool")
    call.__signature__ = signature.replace(parameters=[*own[:place], added, *own[place:]])  # type: ignore[attr-defined]
    return call


relu = _with_inplace(f.relu)
relu6 = _with_inplace(f.relu6)
silu = _with_inplace(f.silu)
mish = _with_inplace(f.mish)
selu = _with_inplace(f.selu)
hardswish = _with_inplace(f.hardswish)
hardsigmoid = _with_inplace(f.hardsigmoid)
hardtanh = _with_inplace(f.hardtanh)
elu = _with_inplace(f.elu)
celu = _with_inplace(f.celu)
leaky_relu = _with_inplace(f.leaky_relu)
threshold = _with_inplace(f.threshold)
rrelu = _with_inplace(dropping.rrelu)
dropout = _with_inplace(dropping.dropout)
dropout1d = _with_inplace(dropping.dropout1d)
dropout2d = _with_inplace(dropping.dropout2d)
dropout3d = _with_inplace(dropping.dropout3d)
alpha_dropout = _with_inplace(dropping.alpha_dropout)
feature_alpha_dropout = _with_inplace(dropping.feature_alpha_dropout)


def softmax(x: Any, dim: int = -1) -> Tensor:
    """exp(x), divided by its sum along axis `dim`."""
    return f.softmax(x, axis=dim)


def log_softmax(x: Any, dim: int = -1) -> Tensor:
    """The logarithm of `softmax`, without overflow."""
    return f.log_softmax(x, axis=dim)


def softmin(x: Any, dim: int = -1) -> Tensor:
    """`softmax` of -x."""
    return f.softmin(x, axis=dim)


def glu(x: Any, dim: int = -1) -> Tensor:
    """The first half along axis `dim` times the sigmoid of the second."""
    return f.glu(x, axis=dim)


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Surround the last axes; a negative width cuts (`mode="constant"` only).

    `pad` holds (before, after) for the last axis, then for the one before it, ...; `vkgrad.pad` takes NumPy's widths.

    Args:
        mode: "constant" (with `value`), "reflect", "replicate" or "circular".

    Raises:
        ShapeError: widths that do not fit.
    """
    x = asarray(x)
    if mode != "constant":
        return f.pad_edges(x, tuple(pad), mode)
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise ShapeError(f"pad: needs pairs of widths, at most one for each of {x.ndim} axes, got {tuple(pad)}")
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return f.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1], value)


@composite
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias.

    Shapes: x (..., in), weight (out, in), bias (out,) -> (..., out).

    Raises:
        ShapeError: the inner extents differ.
    """
    x, weight = asarray(x), asarray(weight)
    if x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: input {x.shape} needs a last axis of extent {weight.shape[-1]}; {_mended(x, weight)}"
        )
    y = x @ weight.T
    return y if bias is None else y + _beside(y, bias)


def _mended(x: Tensor, weight: Tensor) -> str:
    """What makes an input fit a weight (out, in)."""
    makes, takes = weight.shape
    if any(prod(x.shape[axis:]) == takes for axis in range(1, x.ndim - 1)):
        return "put nn.Flatten() before it, or x.flatten(1)"
    if x.ndim == 0:
        return "reshape it"
    return f"Linear({x.shape[-1]}, {makes}) takes that"


def _beside(product: Tensor, bias: Any) -> Tensor:
    """`bias` in the type of the product, where autocast has chosen that."""
    added = asarray(bias)
    return added.astype(product.dtype) if for_product(added.dtype) else added


@composite
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> Tensor:
    """The sum over i and j of x1[i] * weight[o, i, j] * x2[j], plus bias[o].

    Shapes: x1 (..., in1), x2 (..., in2), weight (out, in1, in2), bias (out,) -> (..., out).

    Raises:
        ShapeError: the inner extents differ.
    """
    x1, x2, weight = asarray(x1), asarray(x2), asarray(weight)
    outputs, in1, in2 = weight.shape
    if x1.shape[-1:] != (in1,) or x2.shape[-1:] != (in2,):
        raise ShapeError(f"bilinear: inputs {x1.shape} and {x2.shape} need last axes of extents {in1} and {in2}")
    # One matrix product over i for all o and j; the sum over j is then a row of it.
    by_input = f.reshape(f.permute_dims(weight, (1, 0, 2)), (in1, outputs * in2))
    partial = f.reshape(x1 @ by_input, (*x1.shape[:-1], outputs, in2))
    y = f.sum(partial * f.expand_dims(x2, axis=-2), axis=-1)
    return y if bias is None else y + bias


def embedding(positions: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` at integer positions; row `padding_idx` gets no gradient.

    Shapes: positions (...), weight (N, D) -> (..., D).

    Raises:
        ShapeError: a position in a NumPy array or list is outside 0..N-1.
    """
    weight = asarray(weight)
    positions = as_index("embedding", positions, weight.shape[0])
    rows = f.take(weight, positions, axis=0)
    if padding_idx is None:
        return rows
    return f.where(f.expand_dims(positions, axis=-1) == padding_idx, rows.detach(), rows)


def embedding_bag(
    positions: Any,
    weight: Any,
    offsets: Any = None,
    mode: str = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or largest of the rows of `weight` at the positions of each bag; an empty bag gives 0.

    Shapes: positions (B, L), a bag a row; or (N,) with offsets (B,), where each bag begins; weight (V, D) -> (B, D).

    Args:
        mode: "sum", "mean" or "max".
        per_sample_weights: factors of the rows, shaped like positions; `mode="sum"` only.
        padding_idx: positions with this value count nothing.

    Raises:
        OptionError: a mode that there is not, or factors with another mode than "sum".
        ShapeError: shapes that do not fit, or a position that is out of range.
    """
    weight = asarray(weight)
    if mode not in ("sum", "mean", "max"):
        raise OptionError(f'embedding_bag: mode must be "sum", "mean" or "max", not {mode!r}')
    if per_sample_weights is not None and mode != "sum":
        raise OptionError('embedding_bag: per_sample_weights go with mode="sum" only')
    positions = as_index("embedding_bag", positions, weight.shape[0])
    if (positions.ndim, offsets is None) not in ((2, True), (1, False)):
        raise ShapeError(f"embedding_bag: needs positions (B, L), or (N,) with offsets; got {positions.shape}")
    rows = f.take(weight, positions, axis=0)
    counted = f.ones(positions.shape, dtype=weight.dtype)
    if padding_idx is not None:
        counted = (positions != padding_idx).astype(weight.dtype)
    if per_sample_weights is not None:
        counted = counted * asarray(per_sample_weights)
    factors = f.expand_dims(counted, axis=-1)
    if offsets is None:
        if mode == "max":
            most = f.max(f.where(factors > 0, rows, -float("inf")), axis=1)
            return f.where(f.any(factors > 0, axis=1), most, 0.0)
        total = f.sum(rows * factors, axis=1)
        return total if mode == "sum" else total / f.maximum(f.sum(factors, axis=1), 1.0)
    starts = asarray(offsets)
    bags = f.searchsorted(starts, f.arange(positions.shape[0], dtype=starts.dtype), side="right") - 1
    count = starts.shape[0]
    sizes = f.expand_dims(f.segment_sum(counted, bags, count), axis=-1)
    if mode == "max":
        most = f.segment_max(f.where(factors > 0, rows, -float("inf")), bags, count)
        return f.where(sizes > 0, most, 0.0)
    total = f.segment_sum(rows * factors, bags, count)
    return total if mode == "sum" else total / f.maximum(sizes, 1.0)


answer_misspellings(globals())
