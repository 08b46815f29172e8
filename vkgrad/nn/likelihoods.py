"""Losses that are the negative logarithm of a likelihood other than that of classes; PyTorch's names and values.

This module must not know modules or devices.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.custom_rules import stop_gradient
from vkgrad.errors import OptionError, ShapeError
from vkgrad.ir.dtypes import bfloat16
from vkgrad.nn.losses import as_floating, looking, pair, reduced
from vkgrad.precision import single
from vkgrad.tensor import Tensor, asarray, host_elements


def _probabilities(input: Any, target: Any, *_: Any, **__: Any) -> None:
    """Refuse what is no probability, as far as it is on the host."""
    for what, value in (("input", input), ("target", target)):
        known = host_elements(value) if isinstance(value, Tensor) else np.asarray(value)
        if known is None or known.dtype.kind not in "iuf" or (isinstance(value, Tensor) and value.dtype is bfloat16):
            continue
        if (wrong := known[(known < 0) | (known > 1)]).size:
            instead = "; binary_cross_entropy_with_logits takes logits" if what == "input" else ""
            raise OptionError(f"binary_cross_entropy: {what} must be from 0 to 1, got {float(wrong[0]):g}{instead}")


@looking(_probabilities)
@composite
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """The cross entropy of probabilities `input` with probabilities `target`; a logarithm is at least -100.

    Shapes: input and target alike; `weight` broadcasts to them. `binary_cross_entropy_with_logits` is more exact.

    Raises:
        ShapeError: the shapes differ.
        OptionError: an element that is still on the host is outside of 0 to 1.
    """
    x, y = pair("binary_cross_entropy", input, target)
    values = (y - 1.0) * f.maximum(f.log1p(-x), -100.0) - y * f.maximum(f.log(x), -100.0)
    if weight is not None:
        values = values * asarray(weight)
    return reduced("binary_cross_entropy", values, reduction)


@composite
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of counts `target` under Poisson distributions of rates exp(input), or `input`.

    Args:
        log_input: `input` is the logarithm of the rate; else the rate, to which `eps` is added under the logarithm.
        full: add Stirling's approximation of log(target!), for targets above 1.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("poisson_nll_loss", input, target)
    values = f.exp(x) - y * x if log_input else x - y * f.log(x + eps)
    if full:
        large = f.where(y > 1, y, 1.0)
        values = values + f.where(y > 1, large * f.log(large) - large + 0.5 * f.log(2 * pi * large), 0.0)
    return reduced("poisson_nll_loss", values, reduction)


@composite
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of `target` under normal distributions of means `input` and variances `var`.

    Shapes: input and target alike; `var` like them, or with a last axis of extent 1 or none (one for all).

    Args:
        full: add the constant log(2 pi) / 2.
        eps: the least variance; the gradient passes through this bound as if there were none.

    Raises:
        ShapeError: the shapes do not fit.
    """
    x, y = pair("gaussian_nll_loss", input, target)
    variance = single(asarray(var))
    if variance.shape == x.shape[:-1] and variance.shape != x.shape:
        variance = f.expand_dims(variance, axis=-1)
    if variance.shape not in (x.shape, (*x.shape[:-1], 1), ()):
        raise ShapeError(f"gaussian_nll_loss: var {variance.shape} fits no input of shape {x.shape}")
    if eps <= 0:
        raise OptionError(f"gaussian_nll_loss: eps must be positive, got {eps}")
    bounded = variance + stop_gradient(f.maximum(eps - variance, 0.0))
    values = 0.5 * (f.log(bounded) + (x - y) * (x - y) / bounded) + (0.5 * log(2 * pi) if full else 0.0)
    return reduced("gaussian_nll_loss", values, reduction)


@composite
def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), for targets of 1 and -1.

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("soft_margin_loss", input, target)
    return reduced("soft_margin_loss", f.softplus(-y * x), reduction)


@composite
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """The mean over classes of the cross entropy of sigmoid(input) with `target`, each class for itself.

    Shapes: input and target (..., C); the result (...) with `reduction="none"`; weight (C,).

    Raises:
        ShapeError: the shapes differ.
    """
    x, y = pair("multilabel_soft_margin_loss", input, target)
    values = f.softplus(-x) + (1.0 - y) * x
    if weight is not None:
        values = values * asarray(weight)
    return reduced("multilabel_soft_margin_loss", f.mean(values, axis=-1), reduction)


@composite
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log likelihood of label sequences, over all their alignments with the steps of `log_probs`.

    Shapes: log_probs (T, B, C), after log_softmax; targets (B, S) integers; both lengths (B,) integers.

    Args:
        blank: the class that stands for no label.
        reduction: "mean" divides each loss by its target's length before the mean over the batch, as PyTorch does.
        zero_infinity: a loss of a target that no alignment can give counts 0; else it is infinite.

    Source: Graves, Fernández, Gomez and Schmidhuber (2006), Connectionist temporal classification, equations 5 to 8.

    Raises:
        ShapeError: the shapes do not fit.
    """
    x, labels = as_floating("ctc_loss", log_probs), asarray(targets)
    if x.ndim != 3 or labels.ndim != 2 or labels.shape[0] != x.shape[1]:
        raise ShapeError(f"ctc_loss: needs log_probs (T, B, C) and targets (B, S), got {x.shape} and {labels.shape}")
    steps, batch, classes = x.shape
    places = 2 * labels.shape[1] + 1
    lengths, sizes = f.reshape(asarray(input_lengths), (-1, 1)), f.reshape(asarray(target_lengths), (-1, 1))
    # The labels with blanks around them, (B, 2 S + 1), and the log probability of each at each step.
    between = f.full((batch, labels.shape[1]), blank, dtype=labels.dtype)
    around = f.reshape(f.stack([between, labels], axis=2), (batch, places - 1))
    around = f.concat([around, f.full((batch, 1), blank, dtype=labels.dtype)], axis=1)
    is_class = f.expand_dims(around, axis=1) == f.reshape(f.arange(classes, dtype=labels.dtype), (-1, 1))
    scores = f.permute_dims(x, (1, 0, 2)) @ is_class.astype(x.dtype)  # (B, T, 2 S + 1)
    never = -1e30  # minus infinity would leave NaN in the gradient of logaddexp
    differs = f.concat([f.zeros((batch, 2), dtype=x.dtype), (around[:, 2:] != around[:, :-2]).astype(x.dtype)], axis=1)
    skips = (differs > 0) & (around != blank)
    counter = f.arange(places)
    alpha = f.where(counter < 2, scores[:, 0], never)
    for step in range(1, steps):
        one = f.pad(alpha, ((0, 0), (1, 0)), never)[:, :-1]
        two = f.where(skips, f.pad(alpha, ((0, 0), (2, 0)), never)[:, :-2], never)
        after = f.logaddexp(f.logaddexp(alpha, one), two) + scores[:, step]
        alpha = f.where(lengths > step, after, alpha)
    ends = (counter == 2 * sizes) | (counter == 2 * sizes - 1)
    values = -f.logsumexp(f.where(ends, alpha, never), axis=1)
    possible = values < 1e29
    values = f.where(possible, values, 0.0 if zero_infinity else float("inf"))
    if reduction == "mean":
        return f.mean(values / f.maximum(sizes[:, 0], 1).astype(x.dtype))
    return reduced("ctc_loss", values, reduction)
