"""Losses that ask for a distance between scores or embeddings, and the distances; PyTorch's names and values.

This module must not know modules or devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import OptionError, ShapeError
from vkgrad.nn.losses import as_floating, as_labels, pair, reduced
from vkgrad.precision import single
from vkgrad.tensor import Tensor, asarray

Distance = Callable[..., Tensor]


@composite
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; lengths are at least `eps`."""
    x1, x2 = as_floating("cosine_similarity", x1), as_floating("cosine_similarity", x2)
    lengths = [f.sqrt(f.maximum(f.sum(x * x, axis=dim), eps * eps)) for x in (x1, x2)]
    return f.sum(x1 * x2, axis=dim) / (lengths[0] * lengths[1])


@composite
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return _norm(as_floating("pairwise_distance", x1) - as_floating("pairwise_distance", x2) + eps, p, keepdim)


def _norm(difference: Tensor, p: float, keepdim: bool) -> Tensor:
    size = f.abs(difference)
    if p == 1:
        return f.sum(size, axis=-1, keepdims=keepdim)
    if p == 2:
        return f.sqrt(f.sum(size * size, axis=-1, keepdims=keepdim))
    return f.sum(size**p, axis=-1, keepdims=keepdim) ** (1.0 / p)


@composite
def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, in the order (0, 1), (0, 2), ..., (1, 2), ...

    Shapes: (N, D) -> (N * (N - 1) / 2,).

    Raises:
        ShapeError: the input is no matrix.
    """
    x = as_floating("pdist", input)
    if x.ndim != 2:
        raise ShapeError(f"pdist: takes rows (N, D), got {x.shape}")
    pairs = list(combinations(range(x.shape[0]), 2))
    first, second = (f.take(x, [pair[k] for pair in pairs], axis=0) for k in (0, 1))
    return _norm(first - second, p, False)


@composite
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide vectors along an axis by their p-norm, which is at least `eps`."""
    x = as_floating("normalize", input)
    return x / f.maximum(f.norm(x, p, axis=dim, keepdims=True), eps)


@composite
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos for pairs whose target is 1; max(0, cos - margin) for those whose target is -1.

    Shapes: inputs (B, D) or (D,), target (B,) or ().

    Raises:
        ShapeError: the shapes do not fit.
    """
    x1, x2 = pair("cosine_embedding_loss", input1, input2)
    y = asarray(target)
    if y.shape != x1.shape[:-1]:
        raise ShapeError(f"cosine_embedding_loss: inputs {x1.shape} need a target {x1.shape[:-1]}, got {y.shape}")
    squares = [f.sum(x * x, axis=-1) + 1e-12 for x in (x1, x2)]
    cosine = f.sum(x1 * x2, axis=-1) / f.sqrt(squares[0] * squares[1])
    values = f.where(y > 0, 1.0 - cosine, f.relu(cosine - margin))
    return reduced("cosine_embedding_loss", values, reduction)


@composite
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin - target * (input1 - input2)): the first shall be larger where the target is 1, smaller where -1.

    Raises:
        ShapeError: the shapes differ.
    """
    x1, x2 = pair("margin_ranking_loss", input1, input2)
    _, y = pair("margin_ranking_loss", x1, target)
    return reduced("margin_ranking_loss", f.relu(margin - y * (x1 - x2)), reduction)


@composite
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The input where the target is 1; max(0, margin - input) where it is -1.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("hinge_embedding_loss", input, target)
    return reduced("hinge_embedding_loss", f.where(y > 0, x, f.relu(margin - x)), reduction)


@composite
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance to the positive - distance to the negative), the distance being `pairwise_distance`.

    Shapes: all (B, D) or (D,).

    Args:
        swap: take the negative's distance to the positive where that is smaller.

    Source: Balntas et al. (2016), Learning local feature descriptors with triplets, section 2.

    Raises:
        ShapeError: the shapes differ.
    """
    a, near = pair("triplet_margin_loss", anchor, positive)
    _, far = pair("triplet_margin_loss", a, negative)
    distance = partial(pairwise_distance, p=p, eps=eps)
    return _of_triplets("triplet_margin_loss", a, near, far, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` by a distance of your own: a function of two tensors (`pairwise_distance` if None)."""
    if not margin > 0:
        raise OptionError(f"triplet_margin_with_distance_loss: margin must be positive, got {margin}")
    tensors = asarray(anchor), asarray(positive), asarray(negative)
    distance = pairwise_distance if distance_function is None else distance_function
    return _of_triplets("triplet_margin_with_distance_loss", *tensors, distance, margin, swap, reduction)


def _of_triplets(
    name: str, a: Tensor, near: Tensor, far: Tensor, distance: Distance, margin: float, swap: bool, reduction: str
) -> Tensor:
    away = distance(a, far)
    if swap:
        away = f.minimum(away, distance(near, far))
    return reduced(name, f.relu(margin + distance(a, near) - away), reduction)


@composite
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes other than the label's of max(0, margin - score of the label + score) ** p.

    Shapes: input (B, C), target (B,) integers; weight (C,).

    Raises:
        OptionError: p is neither 1 nor 2.
        ShapeError: shapes that do not fit, or a label outside 0..C-1 in a NumPy array or list.
    """
    if p not in (1, 2):
        raise OptionError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    x = as_floating("multi_margin_loss", input)
    labels = as_labels("multi_margin_loss", target, x.shape[-1], None)
    if labels.shape != x.shape[:-1]:
        raise ShapeError(f"multi_margin_loss: input {x.shape} needs labels {x.shape[:-1]}, got {labels.shape}")
    is_label = f.expand_dims(labels, axis=-1) == f.arange(x.shape[-1], dtype=labels.dtype)
    own = f.sum(f.where(is_label, x, 0.0), axis=-1, keepdims=True)
    hinge = f.where(is_label, 0.0, f.relu(margin - own + x))
    values = f.sum(hinge * hinge if p == 2 else hinge, axis=-1) / x.shape[-1]
    if weight is not None:
        values = values * f.sum(f.where(is_label, single(asarray(weight)), 0.0), axis=-1)
    return reduced("multi_margin_loss", values, reduction)


@composite
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """The sum over labels and over classes that are none of max(0, 1 - score of the label + score of the other) / C.

    Shapes: input (B, C) or (C,), target like it: an example's labels, then -1.

    Raises:
        ShapeError: the shapes differ, or a label above C-1 in a NumPy array or list.
    """
    x = as_floating("multilabel_margin_loss", input)
    classes = x.shape[-1]
    labels = as_labels("multilabel_margin_loss", target, classes, -1)
    if labels.shape != x.shape:
        raise ShapeError(f"multilabel_margin_loss: input {x.shape} needs as many labels, got {labels.shape}")
    counts = f.cumprod((labels >= 0).astype(x.dtype), axis=-1)  # those before the first -1
    is_label = (f.expand_dims(labels, axis=-1) == f.arange(classes, dtype=labels.dtype)) & (
        f.expand_dims(counts, axis=-1) > 0
    )
    others = f.expand_dims(f.logical_not(f.any(is_label, axis=-2)), axis=-2)
    own = f.sum(f.where(is_label, f.expand_dims(x, axis=-2), 0.0), axis=-1, keepdims=True)
    hinge = f.relu(1.0 - own + f.expand_dims(x, axis=-2)) * others * f.expand_dims(counts, axis=-1)
    return reduced("multilabel_margin_loss", f.sum(hinge, axis=(-2, -1)) / classes, reduction)
