"""Losses: how far an output is from its target, with PyTorch's names, arguments and values.

A class label is compared with a counter (`iota == label`) instead of being looked up, so that cross entropy is one
kernel over the rows of the logits: maximum, sum of exponentials, pick. Labels that come as NumPy arrays or lists are
checked on the host before they are uploaded; a kernel cannot raise, so a label that is already on the device and out of
range makes the loss NaN. This module must not know modules or devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.ir.dtypes import int32
from vkgrad.precision import single
from vkgrad.tensor import Tensor, asarray, host_elements

F = TypeVar("F", bound=Callable[..., Any])


def looking(check: Callable[..., None]) -> Callable[[F], F]:
    """Let `check` look at the arguments first: at what is still on the host, since a composite looks at no values."""

    def decorated(function: F) -> F:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            check(*arguments, **named)
            return function(*arguments, **named)

        return call  # type: ignore[return-value]

    return decorated


def _labels_of(name: str) -> Callable[..., None]:
    def check(input: Any, target: Any, weight: Any = None, ignore_index: int | None = None, *_: Any, **__: Any) -> None:
        known = host_elements(target) if isinstance(target, Tensor) and isinstance(input, Tensor) else None
        if known is not None and known.dtype.kind in "iu" and input.ndim:
            refuse_outside(name, known, input.shape[class_axis(name, input)], ignore_index)

    return check


@looking(_labels_of("cross_entropy"))
@composite
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of `softmax(input)` with class labels or class probabilities.

    Shapes: input (B, C, ...) or (C,); target (B, ...) or () integers, or probabilities shaped like input. The result is
    a scalar, or (B, ...) with `reduction="none"`.

    Args:
        weight: one factor per class (C,). "mean" then divides by the sum of the factors of the labels.
        ignore_index: labels with this value count nothing. PyTorch has -100 here by default; here none is ignored
            unless asked, since it costs a count of the labels.
        reduction: "mean", "sum" or "none".
        label_smoothing: the part of the target that is spread evenly over the classes, 0 to 1.

    Raises:
        ShapeError: shapes that do not fit, or a label outside 0..C-1 in a NumPy array or list.
        DTypeError: the input is not of a float type.
        OptionError: `label_smoothing` or `reduction` is none of what they may be.

    Example:
        >>> import vkgrad as vg
        >>> round(float(vg.nn.cross_entropy(vg.tensor([[0.0, 0.0], [2.0, 0.0]]), [0, 1])), 4)
        1.41
    """
    logits = as_floating("cross_entropy", input)
    axis = class_axis("cross_entropy", logits)
    if not 0.0 <= label_smoothing <= 1.0:
        raise OptionError(f"cross_entropy: label_smoothing must be from 0 to 1, not {label_smoothing}")
    log_probabilities = f.log_softmax(logits, axis=axis)
    if _is_probabilities(target, logits):
        if ignore_index is not None:
            raise OptionError("cross_entropy: ignore_index is for integer labels; set the ignored probabilities to 0")
        return _soft_loss(log_probabilities, asarray(target), axis, weight, reduction, label_smoothing)
    return _label_loss(
        "cross_entropy", log_probabilities, target, axis, weight, ignore_index, reduction, label_smoothing
    )


@looking(_labels_of("nll_loss"))
@composite
def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """The negative of the log probability in `input` at each label: what `cross_entropy` does after `log_softmax`.

    Shapes and arguments as for `cross_entropy`; target holds integer labels.

    Raises:
        ShapeError: shapes that do not fit, or a label outside 0..C-1 in a NumPy array or list.
        DTypeError: the input is not of a float type.
    """
    log_probabilities = as_floating("nll_loss", input)
    axis = class_axis("nll_loss", log_probabilities)
    return _label_loss("nll_loss", log_probabilities, target, axis, weight, ignore_index, reduction, 0.0)


@composite
def mse_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """The squared difference, times `weight` if there is one; "mean" then divides by the sum of the weights.

    Raises:
        ShapeError: the shapes differ. They are not broadcast: (B, 1) against (B,) would give a (B, B) by mistake.
    """
    x, y = pair("mse_loss", input, target)
    return _weighted_mean("mse_loss", (x - y) * (x - y), weight, reduction)


def _weighted_mean(name: str, values: Tensor, weight: Any, reduction: str) -> Tensor:
    if weight is None:
        return reduced(name, values, reduction)
    _, factors = pair(name, values, weight)
    total = reduced(name, values * factors, "sum" if reduction == "mean" else reduction)
    return total / f.sum(factors) if reduction == "mean" else total


@composite
def l1_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """The absolute difference; its derivative is 0 where there is none. `weight` is as for `mse_loss`.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("l1_loss", input, target)
    return _weighted_mean("l1_loss", f.abs(x - y), weight, reduction)


@composite
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The squared difference over 2 * beta up to `beta`, and the absolute difference less beta / 2 beyond.

    Raises:
        ShapeError: the shapes differ.
        OptionError: `beta` is negative.
    """
    if beta < 0:
        raise OptionError(f"smooth_l1_loss: beta must not be negative, not {beta}")
    x, y = pair("smooth_l1_loss", input, target)
    distance = f.abs(x - y)
    if beta == 0:
        return reduced("smooth_l1_loss", distance, reduction)
    values = f.where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)
    return reduced("smooth_l1_loss", values, reduction)


@composite
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Tensor:
    """Half the squared difference up to `delta`, and a straight line beyond; times `weight` if there is one.

    Raises:
        ShapeError: the shapes differ.
        OptionError: `delta` is not positive.
    """
    if not delta > 0:
        raise OptionError(f"huber_loss: delta must be positive, not {delta}")
    x, y = pair("huber_loss", input, target)
    distance = f.abs(x - y)
    values = f.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return reduced("huber_loss", values if weight is None else values * pair("huber_loss", x, weight)[1], reduction)


@composite
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """The cross entropy of `sigmoid(input)` with probabilities, without overflow for any logit.

    Shapes: input and target alike; `weight` and `pos_weight` (a factor for the positive part) broadcast to them.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("binary_cross_entropy_with_logits", input, target)
    # log(1 + exp(-x)) is softplus(-x); pos_weight multiplies the part of it that belongs to the target.
    factor = 1.0 if pos_weight is None else 1.0 + (asarray(pos_weight) - 1.0) * y
    values = (1.0 - y) * x + factor * f.softplus(-x)
    if weight is not None:
        values = values * asarray(weight)
    return reduced("binary_cross_entropy_with_logits", values, reduction)


@composite
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence of the distribution `target` from the one whose logarithm is `input`.

    Shapes: input and target alike. `reduction="batchmean"` divides the sum by the extent of axis 0, which is the mean
    over the batch that the formula means; "mean" divides by the number of elements, as PyTorch does.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("kl_div", input, target)
    # y log y is 0 at 0; the inner `where` keeps log(0) out of the gradient.
    values = f.exp(y) * (y - x) if log_target else f.where(y > 0, y * (f.log(f.where(y > 0, y, 1.0)) - x), 0.0)
    if reduction == "batchmean":
        return f.sum(values) / values.shape[0]
    return reduced("kl_div", values, reduction)


def _label_loss(
    name: str,
    log_probabilities: Tensor,
    target: Any,
    axis: int,
    weight: Any,
    ignore_index: int | None,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """-sum over classes of target * log_probabilities, where the target is 1 at the label and smoothed."""
    classes = log_probabilities.shape[axis]
    labels = as_labels(name, target, classes, ignore_index)
    row_shape = (*log_probabilities.shape[:axis], *log_probabilities.shape[axis + 1 :])
    if labels.shape != row_shape:
        is_one_hot = labels.shape == log_probabilities.shape
        mended = f"; .argmax({axis}) makes labels of one-hot rows" if is_one_hot else ""
        raise ShapeError(
            f"{name}: input {log_probabilities.shape} needs labels {row_shape}, got {labels.shape}{mended}"
        )
    column = (classes,) + (1,) * (log_probabilities.ndim - axis - 1)
    is_label = f.expand_dims(labels, axis=axis) == f.reshape(f.arange(classes, dtype=labels.dtype), column)
    factors = None if weight is None else asarray(weight).astype(log_probabilities.dtype)
    if factors is not None and factors.shape != (classes,):
        raise ShapeError(f"{name}: weight needs one factor for each of {classes} classes, got shape {factors.shape}")
    weighted = log_probabilities if factors is None else log_probabilities * f.reshape(factors, column)
    rows = -f.sum(f.where(is_label, weighted, 0.0), axis=axis)
    if label_smoothing:
        rows = (1.0 - label_smoothing) * rows - (label_smoothing / classes) * f.sum(weighted, axis=axis)
    rows = f.where((labels >= 0) & (labels < classes), rows, np.nan)
    if ignore_index is not None:
        rows = f.where(labels == ignore_index, 0.0, rows)
    if reduction != "mean" or (factors is None and ignore_index is None):
        return reduced(name, rows, reduction)
    counts = f.where(is_label, 1.0 if factors is None else f.reshape(factors, column), 0.0)
    if ignore_index is not None:  # it may be one of the classes
        counts = f.where(f.expand_dims(labels, axis=axis) == ignore_index, 0.0, counts)
    return f.sum(rows) / f.sum(counts)


def _soft_loss(
    log_probabilities: Tensor, target: Tensor, axis: int, weight: Any, reduction: str, label_smoothing: float
) -> Tensor:
    classes = log_probabilities.shape[axis]
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    terms = target * log_probabilities
    if weight is not None:
        terms = terms * f.reshape(asarray(weight), (classes,) + (1,) * (log_probabilities.ndim - axis - 1))
    return reduced("cross_entropy", -f.sum(terms, axis=axis), reduction)


def _is_probabilities(target: Any, logits: Tensor) -> bool:
    dtype = getattr(target, "dtype", None)
    kind = np.asarray(target).dtype.kind if dtype is None else getattr(dtype, "kind", "")
    return kind == "f" and tuple(np.shape(target) if dtype is None else target.shape) == logits.shape


def as_labels(name: str, target: Any, classes: int, ignore_index: int | None) -> Tensor:
    """Labels as an integer tensor; those that come from the host are checked here, while they can be."""
    if isinstance(target, Tensor):
        _refuse_other(name, target.dtype)
        return target
    labels = np.asarray(target)
    _refuse_other(name, labels.dtype)
    refuse_outside(name, labels, classes, ignore_index)
    return asarray(labels.astype(int32.numpy))


def _refuse_other(name: str, dtype: Any) -> None:
    if dtype.kind not in "iu":
        raise DTypeError(
            f"{name}: labels must be integers, or probabilities shaped like the input, got {dtype.name}; convert them "
            "with .astype(vg.int32)"
        )


def refuse_outside(name: str, labels: np.ndarray, classes: int, ignore_index: int | None) -> None:
    """Refuse labels on the host that are no class. Raises: `ShapeError` with the first of them."""
    outside = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        outside &= labels != ignore_index
    if outside.any():
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ShapeError(
            f"{name}: label {labels[place]} at {list(place)} is outside 0 to {classes - 1}, the classes of the input; "
            "pass ignore_index to leave a label out"
        )


def class_axis(name: str, x: Tensor) -> int:
    if x.ndim == 0:
        raise ShapeError(f"{name}: input needs an axis of classes, (C,) or (B, C, ...), got a scalar")
    return 0 if x.ndim == 1 else 1


def as_floating(name: str, value: Any) -> Tensor:
    x = single(asarray(value))
    if x.dtype.kind != "f":
        raise DTypeError(
            f"{name}: input must be of a float type, got {x.dtype.name}; convert it with .astype(vg.float32)"
        )
    return x


def pair(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    x, y = as_floating(name, input), single(asarray(target))
    if x.shape != y.shape:
        mended = "reshape one of them"
        if x.shape == (*y.shape, 1):
            mended = "target[..., None] has it" if y.ndim != 1 else "target[:, None] has it"
        raise ShapeError(f"{name}: input {x.shape} and target {y.shape} must have one shape; {mended}")
    return x, y


def reduced(name: str, values: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return values
    if reduction == "sum":
        return f.sum(values)
    if reduction == "mean":
        return f.mean(values)
    raise OptionError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
