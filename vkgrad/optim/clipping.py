"""Gradients kept below a length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vkgrad import functions as f
from vkgrad import tree
from vkgrad.errors import DifferentiationError
from vkgrad.history import no_grad
from vkgrad.tensor import Tensor


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, Tensor]:
    """Return gradients scaled down so that all of them together are no longer than `max_norm`, and their length before.

    `grads` is any nesting, as `value_and_grad` returns it. Nothing is read back from the device.

    Source: Pascanu, Mikolov and Bengio (2013), arXiv:1211.5063, Algorithm 1; 1e-6 is added to the length as in PyTorch.

    Example:
        >>> import vkgrad as vg
        >>> grads, norm = vg.optim.clip_grad_norm({"w": vg.tensor([3.0, 4.0])}, max_norm=1.0)
        >>> round(float(norm), 4), [round(x, 4) for x in grads["w"].tolist()]
        (5.0, [0.6, 0.8])
    """
    leaves, structure = tree.flatten(grads)
    if not leaves:
        raise DifferentiationError("clip_grad_norm: there are no gradients")
    squares = [f.sum(f.square(g.astype(g.dtype.computed))) for g in leaves]  # a half may not hold its own square
    norm = f.sqrt(sum(squares[1:], squares[0]))
    factor = f.minimum(max_norm / (norm + 1e-6), 1.0)
    return structure.unflatten([g * factor.astype(g.dtype) for g in leaves]), norm


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients that `backward` has left in `.grad`, and return their length before."""
    with_gradient = [p for p in parameters if p.grad is not None]
    with no_grad():
        clipped, norm = clip_grad_norm([p.grad for p in with_gradient], max_norm)
    for p, gradient in zip(with_gradient, clipped, strict=True):
        p.grad = gradient
    return norm
