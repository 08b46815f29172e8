"""More than a hundred functions, each written for PyTorch and for vkgrad, with the inputs it is looked at on.

`make_golden.py` runs the first of each pair in float64 and freezes value, gradient and second derivative;
`tests/functional/test_golden_functions.py` runs the second. Neither needs the other's framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from tests.golden.patterns import Array


@dataclass(frozen=True)
class Input:
    """Uniform numbers between low and high; `apart` makes all of them differ by at least a hundredth."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    apart: bool = False


@dataclass(frozen=True)
class Function:
    """`torch(T, *inputs)` and `vkgrad(V, *inputs)` are the same function of these inputs.

    flat   it has no second derivative anywhere: PyTorch's is not asked for
    """

    torch: Callable[..., Any]
    vkgrad: Callable[..., Any]
    inputs: tuple[Input, ...]
    flat: bool = False


FUNCTIONS: dict[str, Function] = {}


def _case(name: str, torch: Callable, vkgrad: Callable | None, *inputs: Any, flat: bool = False) -> None:
    given = tuple(i if isinstance(i, Input) else Input(i) for i in inputs)
    FUNCTIONS[name] = Function(torch, vkgrad or torch, given, flat)


def draw(name: str) -> list[Array]:
    """The inputs of a function: float32 numbers, the same at every call, exact in float64 too."""
    generator = np.random.default_rng(crc32(name.encode()))
    arrays = []
    for given in FUNCTIONS[name].inputs:
        if given.apart:
            count = int(np.prod(given.shape))
            numbers = given.low + (given.high - given.low) * (generator.permutation(count) + 0.5) / count
            arrays.append(numbers.reshape(given.shape).astype(np.float32))
        else:
            arrays.append(generator.uniform(given.low, given.high, given.shape).astype(np.float32))
    return arrays


def weights(shape: tuple[int, ...], number: int) -> Array:
    """What a value, or a gradient, is multiplied by before it is added up and differentiated."""
    k = np.arange(int(np.prod(shape)))
    return np.cos(0.7 * k + number).reshape(shape).astype(np.float32)


# ---- element-wise, one operand
_POSITIVE, _UNIT = Input((3, 4), 0.2, 4.0), Input((2, 5), -0.9, 0.9)
for _name, _given in {
    "exp": (3, 4), "expm1": (3, 4), "exp2": (2, 3, 2), "log": _POSITIVE, "log1p": Input((5,), -0.6, 3.0),
    "log2": _POSITIVE, "log10": _POSITIVE, "sqrt": _POSITIVE, "rsqrt": _POSITIVE, "abs": Input((7,), apart=True),
    "sin": (3, 4), "cos": (4, 3), "tan": Input((6,), -1.2, 1.2), "asin": _UNIT, "acos": _UNIT, "atan": (2, 3),
    "sinh": (3, 2), "cosh": (3, 2), "tanh": (3, 4), "asinh": (5,), "acosh": Input((5,), 1.2, 4.0), "atanh": _UNIT,
    "erf": (3, 4), "erfc": (3, 4), "erfinv": _UNIT, "lgamma": _POSITIVE, "digamma": _POSITIVE, "sigmoid": (3, 4),
    "reciprocal": _POSITIVE, "square": (3, 4), "negative": (3,), "relu": Input((3, 4), apart=True),
}.items():  # fmt: skip
    _case(_name, lambda T, x, n=_name: getattr(T, n)(x), None, _given)
for _name in ("floor", "ceil", "trunc", "round", "sign"):
    _case(_name, lambda T, x, n=_name: getattr(T, n)(x) * x, None, Input((2, 4), -1.9, 1.9, apart=True))
_case("cbrt", lambda T, x: T.sign(x) * T.abs(x) ** (1 / 3), lambda V, x: V.cbrt(x), Input((6,), 0.3, 3.0))
for _name in ("softplus", "gelu", "silu", "elu", "leaky_relu"):
    _case(
        _name,
        lambda T, x, n=_name: getattr(T.nn.functional, n)(x),
        lambda V, x, n=_name: getattr(V, n)(x),
        Input((3, 5), -3, 3.1, apart=True),
    )
_case("log_sigmoid", lambda T, x: T.nn.functional.logsigmoid(x), lambda V, x: V.log_sigmoid(x), Input((3, 4), -20, 20))

# ---- element-wise, more operands, which broadcast
_case("add", lambda T, x, y: x + y, None, (3, 4), (4,))
_case("subtract", lambda T, x, y: x - y, None, (3, 1), (1, 4))
_case("multiply", lambda T, x, y: x * y, None, (2, 3, 4), (3, 1))
_case("divide", lambda T, x, y: x / y, None, (3, 4), Input((3, 1), 0.5, 2))
_case("power", lambda T, x, y: x**y, None, Input((3, 4), 0.3, 3), (4,))
_case("integer power", lambda T, x: x**3 + x**2 - x**-1, None, Input((6,), 0.4, 2))
_case("half power", lambda T, x: x**1.5 + x**-0.5, None, _POSITIVE)
_case("scalar to a power", lambda T, x: 2.5**x, None, (3, 4))
_case("atan2", lambda T, x, y: T.atan2(x, y), None, Input((3, 4), 0.2, 2), Input((4,), 0.2, 2))
_case("logaddexp", lambda T, x, y: T.logaddexp(x, y), None, (3, 4), (3, 1))
_case("maximum", lambda T, x, y: T.maximum(x, y), None, Input((3, 4), apart=True), Input((4,), -1.9, 2.1, apart=True))
_case("minimum", lambda T, x, y: T.minimum(x, y), None, Input((3, 4), apart=True), Input((4,), -1.9, 2.1, apart=True))
_case("remainder", lambda T, x, y: T.remainder(x, y), None, Input((5,), 2.2, 2.8), Input((5,), 0.7, 0.75))
_case("where", lambda T, x, y: T.where(x > 0, T.sin(x), y * y), None, Input((3, 4), apart=True), (4,))
_case("guarded root", lambda T, x: T.where(x >= 0, x, T.sqrt(T.abs(x) + 1)), None, Input((6,), apart=True))
_case(
    "clip", lambda T, x: T.clip(x, -1.0, 0.5) * x, None, Input((3, 4), -1.9, 2.2, apart=True)
)  # fmt: skip
_case("lerp", lambda T, x, y: x + (y - x) * 0.3, None, (3, 4), (3, 4))
_case("rational", lambda T, x, y: (x * y + 1) / (x * x + y * y + 1), None, (3, 4), (3, 4))
_case("deep chain", lambda T, x: T.tanh(T.sin(T.exp(-x * x) * x) + T.cos(x) ** 2), None, (3, 4))
_case("shared", lambda T, x, y: (x * y) * T.sin(x * y) + T.exp(-x * y), None, (3, 4), (3, 4))

# ---- reductions
_AXES: dict[str, Any] = {"all": None, "0": 0, "last": -1, "0 and 2": (0, 2)}
for _label, _axis in _AXES.items():
    _over = {} if _axis is None else {"axis": _axis}
    _case(f"sum {_label}", lambda T, x, o=_over: T.sum(x * x, **o), None, (2, 3, 4))
    _case(f"mean {_label}", lambda T, x, o=_over: T.mean(x * x, **o), None, (2, 3, 4))
    _case(
        f"variance {_label}",
        lambda T, x, a=_axis: T.var(x, dim=a, unbiased=False),
        lambda V, x, a=_axis: V.var(x, axis=a),
        (2, 3, 4),
    )
    _case(
        f"deviation {_label}",
        lambda T, x, a=_axis: T.std(x, dim=a, unbiased=True),
        lambda V, x, a=_axis: V.std(x, axis=a, correction=1),
        (2, 3, 4),
    )
    _case(
        f"logsumexp {_label}",
        lambda T, x, a=_axis: T.logsumexp(x, dim=tuple(range(3)) if a is None else a),
        lambda V, x, a=_axis: V.logsumexp(x, axis=a),
        Input((2, 3, 4), -4, 4),
    )
    _case(
        f"max {_label}",
        lambda T, x, a=_axis: T.amax(x, dim=() if a is None else a) ** 2,
        lambda V, x, a=_axis: V.max(x, axis=a) ** 2,
        Input((2, 3, 4), apart=True),
    )
_case("min 1", lambda T, x: T.amin(x, dim=1), lambda V, x: V.min(x, axis=1), Input((2, 3, 4), apart=True), flat=True)
_case("prod", lambda T, x: T.prod(x, 1), lambda V, x: V.prod(x, axis=1), (3, 4))
_case("keepdims", lambda T, x: x / T.sum(x, 1, keepdim=True), lambda V, x: x / V.sum(x, 1, keepdims=True), _POSITIVE)
_case("norm", lambda T, x: T.linalg.norm(x), lambda V, x: V.norm(x), (3, 4))
_case("softmax", lambda T, x: T.softmax(x, -1), lambda V, x: V.softmax(x, -1), (3, 5))
_case("softmax 0", lambda T, x: T.softmax(x, 0), lambda V, x: V.softmax(x, 0), (4, 3, 2))
_case("log_softmax", lambda T, x: T.log_softmax(x, -1), lambda V, x: V.log_softmax(x, -1), Input((3, 5), -9, 9))
_case(
    "layer norm",
    lambda T, x, w, b: T.nn.functional.layer_norm(x, (5,), w, b),
    lambda V, x, w, b: V.nn.functional.layer_norm(x, (5,), w, b),
    (2, 3, 5), (5,), (5,),
)  # fmt: skip

# ---- shapes
_case("transpose", lambda T, x: x.T @ x, None, (3, 4))
_case("permute", lambda T, x: x.permute(2, 0, 1) ** 2, lambda V, x: V.permute_dims(x, (2, 0, 1)) ** 2, (2, 3, 4))
_case("reshape", lambda T, x: (T.reshape(x, (4, 6)) ** 2).T, lambda V, x: (V.reshape(x, (4, 6)) ** 2).T, (2, 3, 4))
_case("flip", lambda T, x: T.flip(x, (0, 2)) * x, lambda V, x: V.flip(x, axis=(0, 2)) * x, (2, 3, 4))
_case("roll", lambda T, x: T.roll(x, 2, 1) * x, lambda V, x: V.roll(x, 2, axis=1) * x, (2, 5))
_case("slices", lambda T, x: x[1:, ::2] * x[:-1, 1::2], None, (4, 6))
_case("one index", lambda T, x: x[1] * x[-1, 2], None, (3, 4))
_case(
    "concatenate", lambda T, x, y: T.concat([x, y * y], 1), lambda V, x, y: V.concat([x, y * y], axis=1), (2, 3), (2, 2)
)
_case("stack", lambda T, x, y: T.stack([x, x * y], 1), lambda V, x, y: V.stack([x, x * y], axis=1), (2, 3), (2, 3))
_case("split", lambda T, x: T.split(x, 2, 1)[1] ** 2, lambda V, x: V.split(x, 2, axis=1)[1] ** 2, (3, 4))
_case(
    "pad", lambda T, x: T.nn.functional.pad(x, (1, 2, 0, 1)) ** 2, lambda V, x: V.pad(x, ((0, 1), (1, 2))) ** 2, (2, 3)
)
_case("tile", lambda T, x: T.tile(x, (2, 3)) ** 2, lambda V, x: V.tile(x, (2, 3)) ** 2, (2, 3))
_case("repeat", lambda T, x: T.repeat_interleave(x, 3, 0) ** 2, lambda V, x: V.repeat(x, 3, axis=0) ** 2, (3, 2))
_case("broadcast", lambda T, x: T.broadcast_to(x, (4, 3, 2)) ** 2, None, (3, 1))
_case("triangles", lambda T, x: T.tril(x) @ T.triu(x, 1), None, (4, 4))
_case("diagonal", lambda T, x: T.diagonal(x) ** 2, None, (4, 4))
_case("trace", lambda T, x: T.trace(x @ x), None, (4, 4))
_case(
    "take",
    lambda T, x: T.index_select(x, 1, T.tensor([2, 0, 2])) ** 2,
    lambda V, x: V.take(x, [2, 0, 2], axis=1) ** 2,
    (3, 4),
)
_case(
    "take along",
    lambda T, x: T.take_along_dim(x, T.tensor([[1, 1], [0, 3], [2, 0]]), 1) ** 2,
    lambda V, x: V.take_along_axis(x, np.array([[1, 1], [0, 3], [2, 0]], np.int32), axis=1) ** 2,
    (3, 4),
)

# ---- scans, sorts and sending
_ROW = np.array([2, 0, 2, 1, 0, 2, 2, 1, 0, 1, 2, 0])
_case("cumsum", lambda T, x: T.cumsum(x, 1) ** 2, lambda V, x: V.cumsum(x, 1) ** 2, (3, 5))
_case("cumprod", lambda T, x: T.cumprod(x, 1), lambda V, x: V.cumprod(x, 1), (3, 5))
_case("cummax", lambda T, x: T.cummax(x, 0).values ** 2, lambda V, x: V.cummax(x, 0) ** 2, Input((5, 3), apart=True))
_case("cummin", lambda T, x: T.cummin(x, 1).values ** 2, lambda V, x: V.cummin(x, 1) ** 2, Input((3, 5), apart=True))
_case("logcumsumexp", lambda T, x: T.logcumsumexp(x, 1), lambda V, x: V.logcumsumexp(x, 1), Input((3, 6), -9, 9))
_case("sort", lambda T, x: T.sort(x, 1).values ** 3, lambda V, x: V.sort(x, 1) ** 3, Input((3, 6), apart=True))
_case(
    "sort descending",
    lambda T, x: T.sort(x, 0, descending=True).values ** 3,
    lambda V, x: V.sort(x, 0, descending=True) ** 3,
    Input((6, 3), apart=True),
)
_case("topk", lambda T, x: T.topk(x, 3).values ** 3, lambda V, x: V.topk(x, 3).values ** 3, Input((4, 7), apart=True))
_case(
    "kthvalue", lambda T, x: T.kthvalue(x, 3, 1).values ** 3, lambda V, x: V.kthvalue(x, 3, 1).values ** 3,
    Input((4, 7), apart=True),
)  # fmt: skip
_case(
    "quantile",
    lambda T, x: T.quantile(x, T.tensor([0.1, 0.5, 0.9], dtype=x.dtype), 1) ** 2,
    lambda V, x: V.quantile(x, [0.1, 0.5, 0.9], 1) ** 2,
    Input((3, 8), apart=True),
)
_case(
    "index_add",
    lambda T, x, y: T.index_add(x, 0, T.tensor(_ROW), y) ** 2,
    lambda V, x, y: V.index_add(x, 0, _ROW, y) ** 2,
    (4, 2), (12, 2),
)  # fmt: skip
_case(
    "scatter_add",
    lambda T, x, y: T.scatter_add(x, 1, T.tensor(_ROW.reshape(2, 6)), y) ** 2,
    lambda V, x, y: V.scatter_add(x, 1, _ROW.reshape(2, 6), y) ** 2,
    (2, 4), (2, 6),
)  # fmt: skip
_case(
    "segment_max",
    lambda T, x: T.stack([x[T.tensor(_ROW) == i].amax(0) for i in range(3)]) ** 2,
    lambda V, x: V.segment_max(x, _ROW, 3) ** 2,
    Input((12, 2), apart=True),
)
_case(
    "segment_prod",
    lambda T, x: T.stack([x[T.tensor(_ROW) == i].prod(0) for i in range(3)]),
    lambda V, x: V.segment_prod(x, _ROW, 3),
    (12, 2),
)
_case(
    "x.at add",
    lambda T, x, y: x.index_put((T.tensor(_ROW),), y, accumulate=True) ** 2,
    lambda V, x, y: x.at[_ROW].add(y) ** 2,
    (4, 2), (12, 2),
)  # fmt: skip

# ---- products
_case("matmul", lambda T, x, y: x @ y, None, (3, 4), (4, 5))
_case("matmul transposed", lambda T, x, y: x.T @ y.T, None, (4, 3), (5, 4))
_case("matmul batched", lambda T, x, y: x @ y, None, (2, 3, 4), (2, 4, 3))
_case("matmul broadcast", lambda T, x, y: x @ y, None, (2, 1, 3, 4), (3, 4, 2))
_case("matrix and vector", lambda T, x, y: x @ y, None, (3, 4), (4,))
_case("vector and matrix", lambda T, x, y: x @ y, None, (4,), (4, 3))
_case("dot", lambda T, x, y: x @ y, None, (5,), (5,))
_case("outer", lambda T, x, y: T.outer(x, y), None, (3,), (4,))
_case("einsum", lambda T, x, y: T.einsum("bij,bjk->bki", x, y), None, (2, 3, 4), (2, 4, 2))
_case("einsum trace", lambda T, x: T.einsum("ii->i", x) ** 2, None, (4, 4))
_case("tensordot", lambda T, x, y: T.tensordot(x, y, 2), None, (2, 3, 4), (3, 4, 2))
_case("quadratic form", lambda T, x, a: T.sum(x * (a @ x)), None, (4,), (4, 4))
_case("two layers", lambda T, x, w, v: T.tanh(x @ w) @ v, None, (3, 4), (4, 5), (5, 2))
_case(
    "attention",
    lambda T, q, k, v: T.softmax(q @ k.mT / 2.0, -1) @ v,
    lambda V, q, k, v: V.softmax(q @ k.mT / 2.0, -1) @ v,
    (2, 3, 4), (2, 5, 4), (2, 5, 3),
)  # fmt: skip

# ---- convolution and pooling
_case(
    "conv1d",
    lambda T, x, w: T.nn.functional.conv1d(x, w, stride=2, padding=1),
    lambda V, x, w: V.conv1d(x, w, stride=2, padding=1),
    (2, 2, 7), (3, 2, 3),
)  # fmt: skip
_case(
    "conv2d",
    lambda T, x, w: T.nn.functional.conv2d(x, w, padding=(1, 0), dilation=(1, 2)),
    lambda V, x, w: V.conv2d(x, w, padding=(1, 0), dilation=(1, 2)),
    (2, 2, 5, 6), (3, 2, 3, 2),
)  # fmt: skip
_case(
    "conv2d groups",
    lambda T, x, w: T.nn.functional.conv2d(x, w, stride=2, groups=2),
    lambda V, x, w: V.conv2d(x, w, stride=2, groups=2),
    (1, 4, 5, 5), (4, 2, 2, 2),
)  # fmt: skip
_case(
    "conv3d",
    lambda T, x, w: T.nn.functional.conv3d(x, w, padding=1, stride=2),
    lambda V, x, w: V.conv3d(x, w, padding=1, stride=2),
    (1, 2, 3, 4, 5), (2, 2, 2, 3, 2),
)  # fmt: skip
_case(
    "conv_transpose2d",
    lambda T, x, w: T.nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
    lambda V, x, w: V.conv_transpose2d(x, w, stride=2, padding=1),
    (1, 2, 3, 4), (2, 3, 3, 3),
)  # fmt: skip
_case(
    "max_pool2d",
    lambda T, x: T.nn.functional.max_pool2d(x, 3, 2, 1) ** 2,
    lambda V, x: V.max_pool2d(x, 3, 2, 1) ** 2,
    Input((1, 2, 5, 6), apart=True),
)
_case(
    "avg_pool2d",
    lambda T, x: T.nn.functional.avg_pool2d(x, 2, 1) ** 2,
    lambda V, x: V.avg_pool2d(x, 2, 1) ** 2,
    (1, 2, 4, 5),
)

# ---- whole models
_case("gaussian mixture", lambda T, x, m: -T.sum(T.log(T.sum(T.exp(-((x[:, None] - m) ** 2)), 1))), None, (6,), (3,))
_case("rosenbrock", lambda T, x: T.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), None, Input((5,), -1, 1))
_case("kepler energy", lambda T, q, p: T.sum(p * p) / 2 - 1 / T.sqrt(T.sum(q * q)), None, Input((3,), 0.5, 1), (3,))
_case(
    "cross entropy",
    lambda T, x: T.nn.functional.cross_entropy(x, T.tensor([1, 0, 3])),
    lambda V, x: V.nn.functional.cross_entropy(x, V.tensor(np.array([1, 0, 3], np.int32))),
    (3, 4),
)
