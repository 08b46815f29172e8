"""Weights divided by a norm of themselves, with PyTorch's keys."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.history import no_grad
from vkgrad.nn import init
from vkgrad.nn.margins import normalize
from vkgrad.nn.module import Module
from vkgrad.nn.utils.parametrize import register_parametrization
from vkgrad.tensor import Tensor

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A length for each slice along an axis, times a direction."""

    def __init__(self, dim: int | None) -> None:
        self.dim = dim

    def _lengths(self, weight: Tensor) -> Tensor:
        if self.dim is None:
            return f.sqrt(f.sum(weight * weight))
        axes = tuple(a for a in range(weight.ndim) if a != self.dim % weight.ndim)
        return f.sqrt(f.sum(weight * weight, axis=axes, keepdims=True))

    def forward(self, lengths: Tensor, direction: Tensor) -> Tensor:
        return direction * (lengths / self._lengths(direction))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self._lengths(weight), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a weight be its length times its direction, which training changes apart; and return the module.

    Keys: `parametrizations.weight.original0`, the lengths, and `original1`, the direction.

    Args:
        dim: the axis along which each slice has a length of its own; None for one length of all.

    Source: Salimans and Kingma (2016), arXiv:1602.07868, equation 2.

    Example:
        >>> import vkgrad as vg
        >>> layer = vg.nn.utils.parametrizations.weight_norm(vg.nn.Linear(20, 40))
        >>> {name: p.shape for name, p in layer.parametrizations.weight.named_parameters()}
        {'original0': (40, 1), 'original1': (40, 20)}
    """
    return register_parametrization(module, name, _WeightNorm(dim))


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which a step of power iteration follows at each call."""

    _kept = ("_u", "_v")

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations < 1 or not -weight.ndim <= dim < weight.ndim:
            raise OptionError(
                f"spectral_norm: needs at least one iteration and an axis of {weight.shape}, got {n_power_iterations} "
                f"and {dim}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            rows, columns = self._matrix(weight).shape
            self._u = normalize(init.normal((rows,), dtype=weight.dtype), dim=0, eps=eps)
            self._v = normalize(init.normal((columns,), dtype=weight.dtype), dim=0, eps=eps)
            self._iterate(self._matrix(weight), 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return f.flatten(f.moveaxis(weight, self.dim, 0), 1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.assign(normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.assign(normalize(matrix.T @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.detach(), self._v.detach()
        return weight / f.sum(u * (matrix @ v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value, as a matrix of one row per output; and return the module.

    Keys: `parametrizations.weight.original`, and `parametrizations.weight.0._u` and `_v`, the singular vectors.

    Args:
        n_power_iterations: how many steps of power iteration each look at the weight takes in training.
        dim: the axis of the outputs; 0, or 1 for transposed convolutions, if None.

    Source: Miyato et al. (2018), arXiv:1802.05957, Algorithm 1.
    """
    if not isinstance(weight := vars(module).get(name), Tensor):
        raise OptionError(f"spectral_norm: {type(module).__name__} has no tensor {name!r}")
    axis = int(getattr(module, "transposed", False)) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight.detach(), n_power_iterations, axis, eps))
