"""Gradients kept below a length or a size."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import inf, isfinite
from typing import Any

from vkgrad import functions as f
from vkgrad import tree
from vkgrad.errors import DifferentiationError, OptionError
from vkgrad.history import no_grad
from vkgrad.tensor import Tensor


def clip_grad_norm(grads: Any, max_norm: float, norm_type: float = 2.0) -> tuple[Any, Tensor]:
    """Return gradients scaled down so that all of them together are no longer than `max_norm`, and their length before.

    `grads` is any nesting, as `value_and_grad` returns it; `norm_type` is the length's power, or infinity for the
    largest element. Nothing is read back from the device.

    Source: Pascanu, Mikolov and Bengio (2013), arXiv:1211.5063, Algorithm 1; 1e-6 is added to the length as in PyTorch.

    Example:
        >>> import vkgrad as vg
        >>> grads, norm = vg.optim.clip_grad_norm({"w": vg.tensor([3.0, 4.0])}, max_norm=1.0)
        >>> round(float(norm), 4), [round(x, 4) for x in grads["w"].tolist()]
        (5.0, [0.6, 0.8])
    """
    leaves, structure = tree.flatten(grads)
    if not max_norm >= 0:
        raise OptionError(f"clip_grad_norm: max_norm must be at least 0, got {max_norm}")
    if not leaves:
        raise DifferentiationError("clip_grad_norm: there are no gradients")
    norm = get_total_norm(leaves, norm_type)
    return structure.unflatten(_shortened(leaves, max_norm, norm)), norm


def get_total_norm(
    tensors: Iterable[Tensor] | Tensor, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The length of all tensors together.

    Args:
        error_if_nonfinite: read it, and refuse NaN and infinity.

    Raises:
        DifferentiationError: it is not finite, if that was asked.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    wide = [g.astype(g.dtype.computed) for g in listed]  # a half may not hold its own square
    if not wide:
        return f.zeros(())
    if norm_type == inf:
        norm = reduce(f.maximum, [f.max(f.abs(g)) for g in wide])
    elif norm_type == 2:
        norm = f.sqrt(reduce(f.add, [f.sum(f.square(g)) for g in wide]))
    else:
        norm = reduce(f.add, [f.sum(f.abs(g) ** norm_type) for g in wide]) ** (1.0 / norm_type)
    if error_if_nonfinite and not isfinite(float(norm)):
        raise DifferentiationError(f"the length of the gradients is {float(norm)}; look for the layer where it begins")
    return norm


def _shortened(grads: list[Tensor], max_norm: float, norm: Tensor) -> list[Tensor]:
    factor = f.minimum(max_norm / (norm + 1e-6), 1.0)
    return [g * factor.astype(g.dtype) for g in grads]


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale the gradients that `backward` has left in `.grad`, and return their length before."""
    with_gradient = _with_gradient(parameters)
    if not with_gradient:
        raise DifferentiationError("clip_grad_norm_: there are no gradients; call backward() on the loss first")
    with no_grad():
        norm = get_total_norm(_gradients(with_gradient), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(with_gradient, max_norm, norm)
    return norm


def clip_grads_with_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float, total_norm: Tensor) -> None:
    """Scale the gradients in `.grad`, whose length all together is `total_norm`, to at most `max_norm`."""
    with_gradient = _with_gradient(parameters)
    with no_grad():
        clipped = _shortened(_gradients(with_gradient), max_norm, total_norm)
    for p, gradient in zip(with_gradient, clipped, strict=True):
        p.grad = gradient


def clip_grad_value(grads: Any, clip_value: float) -> Any:
    """Return gradients with every element between -clip_value and clip_value."""
    return tree.transform(lambda g: f.clip(g, -clip_value, clip_value), grads)


def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Bring every element of the gradients in `.grad` between -clip_value and clip_value."""
    for p in _with_gradient(parameters):
        with no_grad():
            p.grad = clip_grad_value(p.grad, clip_value)


def _with_gradient(parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    listed = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p for p in listed if p.grad is not None]


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]
