"""Functions without parameters as modules, for `Sequential`; the functions are in `vkgrad.functions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkgrad import functions as f
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor, asarray


class _Elementwise(Module):
    """A module that is one function of each element."""

    function: Callable[[Any], Tensor]

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x)


class ReLU(_Elementwise):
    """max(x, 0); the derivative at 0 is 0."""

    function = staticmethod(f.relu)


class Tanh(_Elementwise):
    """tanh(x)."""

    function = staticmethod(f.tanh)


class Sigmoid(_Elementwise):
    """1 / (1 + exp(-x))."""

    function = staticmethod(f.sigmoid)


class SiLU(_Elementwise):
    """x * sigmoid(x)."""

    function = staticmethod(f.silu)


class Softplus(_Elementwise):
    """log(1 + exp(x))."""

    function = staticmethod(f.softplus)


class Identity(Module):
    """The input as it is."""

    def forward(self, x: Any) -> Tensor:
        return asarray(x)


class GELU(Module):
    """x times the normal distribution function of x; `approximate="tanh"` for the formula with tanh."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Tensor:
        return f.gelu(x, approximate=self.approximate)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x where it is positive, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        return f.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where it is positive, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return f.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Softmax(Module):
    """exp(x), divided by its sum along axis `dim`."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return f.softmax(x, axis=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of `Softmax`, without overflow."""

    def forward(self, x: Any) -> Tensor:
        return f.log_softmax(x, axis=self.dim)


class Flatten(Module):
    """Join the axes from `start_dim` to `end_dim` into one: (B, C, H, W) -> (B, C*H*W)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Any) -> Tensor:
        return f.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
