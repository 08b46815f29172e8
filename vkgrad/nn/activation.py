"""Activations as modules, for `Sequential`; the functions are in `vkgrad.functions`.

`inplace` is accepted where PyTorch has it and changes nothing: no value is overwritten here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from vkgrad import functions as f
from vkgrad.ir.dtypes import float32
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor, asarray


class _Elementwise(Module):
    """A module that is one function of each element."""

    function: Callable[[Any], Tensor]

    def __init__(self, inplace: bool = False) -> None:
        pass

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

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        return f.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where it is positive, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return f.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Softmax(Module):
    """exp(x), divided by its sum along axis `dim`."""

    function: ClassVar[Any] = staticmethod(f.softmax)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x, axis=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of `Softmax`, without overflow."""

    function = staticmethod(f.log_softmax)


class Softmin(Softmax):
    """`Softmax` of -x."""

    function = staticmethod(f.softmin)


class Softmax2d(Module):
    """`Softmax` over the channels of (B, C, H, W) or (C, H, W)."""

    def forward(self, x: Any) -> Tensor:
        return f.softmax(x, axis=-3)


class LogSigmoid(_Elementwise):
    """log(sigmoid(x)), without overflow."""

    function = staticmethod(f.log_sigmoid)


class ReLU6(_Elementwise):
    """x, but at least 0 and at most 6."""

    function = staticmethod(f.relu6)


class Hardsigmoid(_Elementwise):
    """x / 6 + 1/2 from -3 to 3; 0 below and 1 above."""

    function = staticmethod(f.hardsigmoid)


class Hardswish(_Elementwise):
    """x * (x + 3) / 6 from -3 to 3; 0 below and x above. Source: Howard et al. (2019), arXiv:1905.02244."""

    function = staticmethod(f.hardswish)


class Softsign(_Elementwise):
    """x / (1 + |x|)."""

    function = staticmethod(f.softsign)


class Tanhshrink(_Elementwise):
    """x - tanh(x)."""

    function = staticmethod(f.tanhshrink)


class Mish(_Elementwise):
    """x * tanh(softplus(x)). Source: Misra (2019), arXiv:1908.08681."""

    function = staticmethod(f.mish)


class SELU(_Elementwise):
    """A scaled `ELU` that brings activations towards mean 0 and variance 1. Source: arXiv:1706.02515, equation 2."""

    function = staticmethod(f.selu)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Any) -> Tensor:
        if self.beta == 1 and self.threshold == 20:  # the difference from x is below what float32 can tell there
            return f.softplus(x)
        x = asarray(x)
        scaled = self.beta * x
        return f.where(scaled > self.threshold, x, f.softplus(scaled) / self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """x, but at least `min_val` and at most `max_val`; the derivative at both is 0."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Any) -> Tensor:
        return f.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softshrink(Module):
    """x moved by `lambd` towards 0, and 0 within that distance of it."""

    function = staticmethod(f.softshrink)

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}"


class Hardshrink(Softshrink):
    """x, but 0 within `lambd` of 0."""

    function = staticmethod(f.hardshrink)


class CELU(ELU):
    """x where it is positive, else `alpha * (exp(x / alpha) - 1)`. Source: Barron (2017), arXiv:1704.07483."""

    def forward(self, x: Any) -> Tensor:
        return f.celu(x, self.alpha)


class Threshold(Module):
    """x where it is above `threshold`, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Any) -> Tensor:
        return f.threshold(x, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class PReLU(Module):
    """x where it is positive, else a learned slope times x.

    Shapes: (B, C, ...) -> the same; weight (num_parameters,), one slope for all or one per channel.

    Source: He, Zhang, Ren and Sun (2015), arXiv:1502.01852, equation 1.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        self.num_parameters = num_parameters
        self.weight = parameter(f.full((num_parameters,), init, dtype=dtype or float32))

    def forward(self, x: Any) -> Tensor:
        return f.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """The first half along axis `dim` times the sigmoid of the second. Source: arXiv:1612.08083, equation 1."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return f.glu(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
