"""ONNX's operators in terms of vkgrad's functions: a table, and what needs more than a line.

An operator takes its operands (`operands[0]` is a tensor, `operands.integers(1)` a shape or axes) and its attributes,
and returns a tensor, or several. Operators whose operands are all constants never come here.

Source: https://onnx.ai/onnx/operators, opset 7 to 21.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np
from onnx import NodeProto, numpy_helper

from vkgrad import engine, fft
from vkgrad import functions as f
from vkgrad.errors import UnsupportedError
from vkgrad.ir.dtypes import dtype_of
from vkgrad.nn import functional as nnf
from vkgrad.tensor import Tensor, tensor

TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
NARROW = {"int64": "int32", "uint64": "uint32"}


class Attributes:
    """A node's attributes, with texts as texts."""

    def __init__(self, node: NodeProto, values: dict[str, Any], opset: int) -> None:
        self.node, self.opset = node, opset
        self._values = {name: v.decode() if isinstance(v, bytes) else v for name, v in values.items()}

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.node.op_type} {self.node.name!r}: vkgrad's has no {what}")


Operator = Callable[[Any, Attributes], Any]
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


# ---- element-wise
def _plain(function: Callable[..., Tensor]) -> Operator:
    """The operator that is a function of its operands and of nothing else."""
    return lambda operands, attributes: function(*operands.tensors())


_PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": f.abs, "Acos": f.acos, "Acosh": f.acosh, "And": f.logical_and, "Asin": f.asin, "Asinh": f.asinh,
    "Atan": f.atan, "Atanh": f.atanh, "Ceil": f.ceil, "Cos": f.cos, "Cosh": f.cosh, "Equal": f.equal, "Erf": f.erf,
    "Exp": f.exp, "Floor": f.floor, "Greater": f.greater, "GreaterOrEqual": f.greater_equal, "IsNaN": f.isnan,
    "Less": f.less, "LessOrEqual": f.less_equal, "Log": f.log, "Neg": f.negative, "Not": f.logical_not,
    "Or": f.logical_or, "Reciprocal": f.reciprocal, "Relu": f.relu, "Round": f.round, "Sigmoid": f.sigmoid,
    "Sign": f.sign, "Sin": f.sin, "Sinh": f.sinh, "Softplus": f.softplus, "Sqrt": f.sqrt, "Tan": f.tan, "Tanh": f.tanh,
    "Xor": f.logical_xor, "BitwiseAnd": f.bitwise_and, "BitwiseOr": f.bitwise_or, "BitwiseXor": f.bitwise_xor,
    "BitwiseNot": f.bitwise_invert, "Add": f.add, "Sub": f.subtract, "Mul": f.multiply, "Softsign": f.softsign,
    "Mish": f.mish, "HardSwish": f.hardswish,
}  # fmt: skip
OPERATORS.update({name: _plain(function) for name, function in _PLAIN.items()})


@operator("Div")
def _div(x: Any, a: Attributes) -> Tensor:
    above, below = x[0], x[1]
    if above.dtype.kind == "f":
        return above / below
    quotient = f.floor_divide(f.abs(above), f.abs(below))  # ONNX's goes towards zero
    return (quotient * f.sign(above) * f.sign(below)).astype(above.dtype)


@operator("Pow")
def _pow(x: Any, a: Attributes) -> Tensor:
    return f.pow(x[0], x[1].astype(x[0].dtype))


@operator("Mod")
def _mod(x: Any, a: Attributes) -> Tensor:
    if not a.get("fmod", 0):
        return f.remainder(x[0], x[1])
    return f.remainder(f.abs(x[0]), f.abs(x[1])) * f.sign(x[0])


@operator("BitShift")
def _bit_shift(x: Any, a: Attributes) -> Tensor:
    return (f.bitwise_left_shift if a.get("direction") == "LEFT" else f.bitwise_right_shift)(x[0], x[1])


@operator("IsInf")
def _isinf(x: Any, a: Attributes) -> Tensor:
    found = f.isinf(x[0])
    if not a.get("detect_negative", 1):
        found = f.logical_and(found, x[0] > 0)
    return found if a.get("detect_positive", 1) else f.logical_and(found, x[0] < 0)


@operator("Where")
def _where(x: Any, a: Attributes) -> Tensor:
    return f.where(x[0], x[1], x[2])


@operator("Max", "Min", "Sum", "Mean")
def _of_many(x: Any, a: Attributes) -> Tensor:
    join = {"Max": f.maximum, "Min": f.minimum}.get(a.node.op_type, f.add)
    total = x[0]
    for number in range(1, len(x)):
        total = join(total, x[number])
    return total / len(x) if a.node.op_type == "Mean" else total


@operator("Clip")
def _clip(x: Any, a: Attributes) -> Tensor:
    low, high = a.get("min"), a.get("max")
    y = x[0]
    low, high = (x[n] if x.has(n) else attribute for n, attribute in ((1, low), (2, high)))
    y = y if low is None else f.maximum(y, low)
    return y if high is None else f.minimum(y, high)


@operator("LeakyRelu")
def _leaky_relu(x: Any, a: Attributes) -> Tensor:
    return f.leaky_relu(x[0], a.get("alpha", 0.01))


@operator("Elu")
def _elu(x: Any, a: Attributes) -> Tensor:
    return f.elu(x[0], a.get("alpha", 1.0))


@operator("Celu")
def _celu(x: Any, a: Attributes) -> Tensor:
    return f.celu(x[0], a.get("alpha", 1.0))


@operator("Selu")
def _selu(x: Any, a: Attributes) -> Tensor:
    alpha, gamma = a.get("alpha", 1.6732632423543772), a.get("gamma", 1.0507009873554805)
    return gamma * f.elu(x[0], alpha)


@operator("HardSigmoid")
def _hard_sigmoid(x: Any, a: Attributes) -> Tensor:
    return f.clip(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5), 0.0, 1.0)


@operator("Gelu")
def _gelu(x: Any, a: Attributes) -> Tensor:
    if a.get("approximate", "none") == "none":
        return f.gelu(x[0])
    inner = 0.7978845608028654 * (x[0] + 0.044715 * x[0] * x[0] * x[0])
    return 0.5 * x[0] * (1.0 + f.tanh(inner))


@operator("PRelu")
def _prelu(x: Any, a: Attributes) -> Tensor:
    return f.where(x[0] < 0, x[1] * x[0], x[0])


@operator("Cast")
def _cast(x: Any, a: Attributes) -> Tensor:
    name = TYPES.get(a.get("to"))
    if name is None:
        raise a.refuse(f"element type {a.get('to')}")
    return x[0].astype(NARROW[name] if name in NARROW and engine.default_device().lacks(dtype_of(name)) else name)


@operator("Identity")
def _identity(x: Any, a: Attributes) -> Tensor:
    return x[0]


@operator("Dropout")
def _dropout(x: Any, a: Attributes) -> Any:
    if x.has(2) and bool(x.array(2)):
        raise a.refuse("training mode; export it in evaluation")
    return (x[0], f.ones_like(x[0]) > 0) if len(a.node.output) > 1 else x[0]  # as in evaluation


# ---- products
@operator("MatMul")
def _matmul(x: Any, a: Attributes) -> Tensor:
    return x[0] @ x[1]


@operator("Gemm")
def _gemm(x: Any, a: Attributes) -> Tensor:
    left = x[0].T if a.get("transA", 0) else x[0]
    right = x[1].T if a.get("transB", 0) else x[1]
    y = left @ right
    if (alpha := a.get("alpha", 1.0)) != 1.0:
        y = alpha * y
    if not x.has(2):
        return y
    return y + (x[2] if a.get("beta", 1.0) == 1.0 else a.get("beta") * x[2])


@operator("Einsum")
def _einsum(x: Any, a: Attributes) -> Tensor:
    return f.einsum(a.get("equation").replace(" ", ""), *x.tensors())


# ---- reductions
def _axes(x: Any, a: Attributes, place: int = 1) -> tuple[int, ...] | None:
    """Axes, which newer opsets have as an input and older ones as an attribute."""
    found = x.integers(place) if x.has(place) else a.get("axes")
    return None if found is None or len(found) == 0 else tuple(int(axis) for axis in found)


_REDUCED: dict[str, Callable[..., Tensor]] = {
    "ReduceSum": f.sum, "ReduceMean": f.mean, "ReduceMax": f.max, "ReduceMin": f.min, "ReduceProd": f.prod,
    "ReduceL1": lambda x, axis, keepdims: f.sum(f.abs(x), axis, keepdims=keepdims),
    "ReduceL2": lambda x, axis, keepdims: f.sqrt(f.sum(f.square(x), axis, keepdims=keepdims)),
    "ReduceSumSquare": lambda x, axis, keepdims: f.sum(f.square(x), axis, keepdims=keepdims),
    "ReduceLogSum": lambda x, axis, keepdims: f.log(f.sum(x, axis, keepdims=keepdims)),
    "ReduceLogSumExp": f.logsumexp,
}  # fmt: skip


@operator(*_REDUCED)
def _reduce(x: Any, a: Attributes) -> Tensor:
    axes = _axes(x, a)
    if axes is None and a.get("noop_with_empty_axes", 0):
        return x[0]
    axes = tuple(range(x[0].ndim)) if axes is None else axes
    return _REDUCED[a.node.op_type](x[0], axis=axes, keepdims=bool(a.get("keepdims", 1)))


@operator("ArgMax", "ArgMin")
def _arg_extreme(x: Any, a: Attributes) -> Tensor:
    if a.get("select_last_index", 0):
        raise a.refuse("select_last_index")
    axis = a.get("axis", 0)
    found = (f.argmax if a.node.op_type == "ArgMax" else f.argmin)(x[0], axis)
    return f.expand_dims(found, axis) if a.get("keepdims", 1) else found


@operator("CumSum")
def _cumsum(x: Any, a: Attributes) -> Tensor:
    if a.get("exclusive", 0):
        raise a.refuse("exclusive sums")
    (axis,) = x.integers(1)
    return f.cumsum(x[0], axis, reverse=True) if a.get("reverse", 0) else f.cumsum(x[0], axis)


@operator("DFT")
def _dft(x: Any, a: Attributes) -> Tensor:
    given = x[0]
    length = x.integers(1)[0] if x.has(1) else None
    default = 1 if a.opset < 20 else -2
    axis = (x.integers(2)[0] if x.has(2) else a.get("axis", default)) % given.ndim
    is_real, half = given.shape[-1] == 1, a.get("onesided", 0)
    if a.get("inverse", 0):
        return fft.irfft(given, length, axis)[..., None] if half else fft.ifft(given, length, axis)
    if is_real and half:
        return fft.rfft(given[..., 0], length, axis)
    if half:
        raise a.refuse("half of a transform of complex numbers")
    return fft.fft(f.concat([given, f.zeros_like(given)], axis=-1) if is_real else given, length, axis)


@operator("Softmax", "LogSoftmax")
def _softmax(x: Any, a: Attributes) -> Tensor:
    function = f.softmax if a.node.op_type == "Softmax" else f.log_softmax
    if a.opset >= 13:
        return function(x[0], a.get("axis", -1))
    axis, shape = a.get("axis", 1) % x[0].ndim, x[0].shape  # it was over all axes from this one on
    return function(x[0].reshape((prod(shape[:axis]), -1)), -1).reshape(shape)


# ---- normalisation
@operator("BatchNormalization")
def _batch_norm(x: Any, a: Attributes) -> Tensor:
    if a.get("training_mode", 0):
        raise a.refuse("training mode; export it in evaluation")
    return nnf.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a.get("epsilon", 1e-5))


@operator("LayerNormalization")
def _layer_norm(x: Any, a: Attributes) -> Any:
    first, eps = a.get("axis", -1) % x[0].ndim, a.get("epsilon", 1e-5)
    y = nnf.layer_norm(x[0], x[0].shape[first:], x[1], x[2] if x.has(2) else None, eps)
    if len(a.node.output) == 1:
        return y
    axes = tuple(range(first, x[0].ndim))
    return y, f.mean(x[0], axes, keepdims=True), f.rsqrt(f.var(x[0], axes, keepdims=True) + eps)


@operator("InstanceNormalization")
def _instance_norm(x: Any, a: Attributes) -> Tensor:
    return nnf.instance_norm(x[0], weight=x[1], bias=x[2], eps=a.get("epsilon", 1e-5))


@operator("GroupNormalization")
def _group_norm(x: Any, a: Attributes) -> Tensor:
    groups, weight, bias = a.get("num_groups"), x[1], x[2]
    if a.opset < 21:  # a weight for each group, not for each channel
        each = x[0].shape[1] // groups
        weight, bias = f.repeat(weight, each), f.repeat(bias, each)
    return nnf.group_norm(x[0], groups, weight, bias, a.get("epsilon", 1e-5))


# ---- convolution and pooling
def margins_of(
    a: Attributes, extents: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """How much to pad each spatial axis, before and after."""
    kind = a.get("auto_pad", "NOTSET")
    count = len(sizes)
    if kind in ("NOTSET", "VALID"):
        pads = a.get("pads", [0] * (2 * count)) if kind == "NOTSET" else [0] * (2 * count)
        return list(zip(pads[:count], pads[count:], strict=True))
    found = []
    for extent, size, step, spread in zip(extents, sizes, strides, dilations, strict=True):
        total = max((-(-extent // step) - 1) * step + (size - 1) * spread + 1 - extent, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if kind == "SAME_UPPER" else (more, less))
    return found


def padded(x: Tensor, margins: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    return f.pad(x, [(0, 0), (0, 0), *margins], value) if any(map(any, margins)) else x


@operator("Conv")
def _conv(x: Any, a: Attributes) -> Tensor:
    sizes = x[1].shape[2:]
    ones = [1] * len(sizes)
    strides, dilations = a.get("strides", ones), a.get("dilations", ones)
    margins = margins_of(a, x[0].shape[2:], sizes, strides, dilations)
    convolve = {1: f.conv1d, 2: f.conv2d, 3: f.conv3d}.get(len(sizes))
    if convolve is None:
        raise a.refuse(f"{len(sizes)} spatial axes")
    image, padding = x[0], [low for low, _ in margins]
    if any(low != high for low, high in margins):
        image, padding = padded(image, margins), [0] * len(sizes)
    bias = x[2] if x.has(2) else None
    return convolve(image, x[1], bias, tuple(strides), tuple(padding), tuple(dilations), a.get("group", 1))


@operator("ConvTranspose")
def _conv_transpose(x: Any, a: Attributes) -> Tensor:
    sizes = x[1].shape[2:]
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    if a.get("output_shape") is not None or a.get("auto_pad", "NOTSET") != "NOTSET":
        raise a.refuse("output_shape or auto_pad; write pads and output_padding")
    pads = a.get("pads", zeros * 2)
    low, high = pads[: len(sizes)], pads[len(sizes) :]
    convolve = {1: f.conv_transpose1d, 2: f.conv_transpose2d, 3: f.conv_transpose3d}.get(len(sizes))
    if convolve is None or list(low) != list(high):
        raise a.refuse("such spatial axes or uneven pads")
    return convolve(
        x[0], x[1], x[2] if x.has(2) else None, tuple(a.get("strides", ones)), tuple(low),
        tuple(a.get("output_padding", zeros)), a.get("group", 1), tuple(a.get("dilations", ones)),
    )  # fmt: skip


@operator("MaxPool", "AveragePool")
def _pool(x: Any, a: Attributes) -> Tensor:
    if len(a.node.output) > 1:
        raise a.refuse("places of the largest elements")
    sizes = a.get("kernel_shape")
    ones = [1] * len(sizes)
    strides, dilations = a.get("strides", ones), a.get("dilations", ones)
    extents = x[0].shape[2:]
    margins = margins_of(a, extents, sizes, strides, dilations)
    extra = [0] * len(sizes)
    if a.get("ceil_mode", 0):
        for n, (extent, (low, high)) in enumerate(zip(extents, margins, strict=True)):
            free = extent + low + high - (sizes[n] - 1) * dilations[n] - 1
            places = -(-free // strides[n]) + 1
            places -= (places - 1) * strides[n] >= extent + low  # a window may not begin behind the end
            extra[n] = max((places - 1) * strides[n] - free, 0)
    wide = [(low, high + more) for (low, high), more in zip(margins, extra, strict=True)]
    is_max = a.node.op_type == "MaxPool"
    lowest = -inf if x[0].dtype.kind == "f" else int(np.iinfo(x[0].dtype.numpy).min)
    image = padded(x[0], wide, lowest if is_max else 0.0)
    name = f"{'max' if is_max else 'avg'}_pool{len(sizes)}d"
    pool = getattr(f, name, None)
    if pool is None:
        raise a.refuse(f"{len(sizes)} spatial axes")
    if is_max:
        return pool(image, tuple(sizes), tuple(strides), 0, tuple(dilations))
    if any(step != 1 for step in dilations):
        raise a.refuse("dilations")
    mean = pool(image, tuple(sizes), tuple(strides))
    counted = f.ones_like(x[0][:1, :1])
    if a.get("count_include_pad", 0):
        counted = padded(counted, margins, 1.0)
        wide = [(0, more) for more in extra]
    return mean if not any(map(any, wide)) else mean / pool(padded(counted, wide), tuple(sizes), tuple(strides))


@operator("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(x: Any, a: Attributes) -> Tensor:
    axes = tuple(range(2, x[0].ndim))
    return (f.mean if a.node.op_type == "GlobalAveragePool" else f.max)(x[0], axes, keepdims=True)


# ---- shapes
@operator("Shape")
def _shape(x: Any, a: Attributes) -> Any:
    return np.array(x[0].shape[a.get("start", 0) : a.get("end")], np.int64)


@operator("Size")
def _size(x: Any, a: Attributes) -> Any:
    return np.array(x[0].size, np.int64)


@operator("Reshape")
def _reshape(x: Any, a: Attributes) -> Tensor:
    wanted = x.integers(1)
    if not a.get("allowzero", 0):
        wanted = [x[0].shape[axis] if extent == 0 else extent for axis, extent in enumerate(wanted)]
    return x[0].reshape(tuple(wanted))


@operator("Flatten")
def _flatten(x: Any, a: Attributes) -> Tensor:
    axis = a.get("axis", 1)
    axis = axis + x[0].ndim if axis < 0 else axis
    return x[0].reshape((prod(x[0].shape[:axis]), prod(x[0].shape[axis:])))


@operator("Transpose")
def _transpose(x: Any, a: Attributes) -> Tensor:
    return f.permute_dims(x[0], tuple(a.get("perm", range(x[0].ndim)[::-1])))


@operator("Squeeze")
def _squeeze(x: Any, a: Attributes) -> Tensor:
    axes = _axes(x, a)
    return f.squeeze(x[0], tuple(n for n, e in enumerate(x[0].shape) if e == 1) if axes is None else axes)


@operator("Unsqueeze")
def _unsqueeze(x: Any, a: Attributes) -> Tensor:
    axes = _axes(x, a) or ()
    y, rank = x[0], x[0].ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        y = f.expand_dims(y, axis)
    return y


@operator("Expand")
def _expand(x: Any, a: Attributes) -> Tensor:
    return f.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, tuple(x.integers(1))))


@operator("Tile")
def _tile(x: Any, a: Attributes) -> Tensor:
    return f.tile(x[0], tuple(x.integers(1)))


@operator("Concat")
def _concat(x: Any, a: Attributes) -> Tensor:
    return f.concat(x.tensors(), a.get("axis"))


@operator("Split")
def _split(x: Any, a: Attributes) -> list[Tensor]:
    axis = a.get("axis", 0)
    extent = x[0].shape[axis]
    parts = x.integers(1) if x.has(1) else a.get("split")
    if parts is None:
        count = a.get("num_outputs", len(a.node.output))
        each = -(-extent // count)
        parts = [min(each, extent - each * n) for n in range(count)]
    ends = np.cumsum(parts).tolist()
    lead = (slice(None),) * (axis % x[0].ndim)
    return [x[0][(*lead, slice(end - part, end))] for end, part in zip(ends, parts, strict=True)]


@operator("Slice")
def _slice(x: Any, a: Attributes) -> Tensor:
    if a.opset < 10:
        starts, ends, axes, steps = a.get("starts"), a.get("ends"), a.get("axes"), None
    else:
        starts, ends = x.integers(1), x.integers(2)
        axes, steps = (x.integers(number) if x.has(number) else None for number in (3, 4))
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * x[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        extent = x[0].shape[axis]
        stop = end if step > 0 or end >= -extent else None
        index[axis] = slice(start, stop, step)
    return x[0][tuple(index)]


@operator("Pad")
def _pad(x: Any, a: Attributes) -> Tensor:
    if a.get("mode", "constant") != "constant":
        raise a.refuse(f"mode {a.get('mode')}")
    pads = x.integers(1) if x.has(1) else list(a.get("pads"))
    value = float(x.array(2).reshape(())) if x.has(2) else a.get("value", 0.0)
    axes = [axis % x[0].ndim for axis in (x.integers(3) if x.has(3) else range(x[0].ndim))]
    widths = [(0, 0)] * x[0].ndim
    for number, axis in enumerate(axes):
        widths[axis] = (pads[number], pads[number + len(axes)])
    return f.pad(x[0], widths, value if x[0].dtype.kind == "f" else int(value))


@operator("Gather")
def _gather(x: Any, a: Attributes) -> Tensor:
    return f.take(x[0], x[1], axis=a.get("axis", 0))


@operator("GatherElements")
def _gather_elements(x: Any, a: Attributes) -> Tensor:
    axis, index = a.get("axis", 0), x[1]
    return f.take_along_axis(x[0], f.where(index < 0, index + x[0].shape[axis], index), axis)


@operator("Trilu")
def _trilu(x: Any, a: Attributes) -> Tensor:
    k = x.integers(1)[0] if x.has(1) else 0
    return (f.triu if a.get("upper", 1) else f.tril)(x[0], k)


@operator("ConstantOfShape")
def _constant_of_shape(x: Any, a: Attributes) -> Tensor:
    value = a.get("value")
    filled = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return tensor(np.full(x.integers(0), filled.reshape(()), filled.dtype))


@operator("EyeLike")
def _eye_like(x: Any, a: Attributes) -> Tensor:
    name = TYPES[a.get("dtype")] if a.get("dtype") else x[0].dtype.name
    return f.eye(*x[0].shape, k=a.get("k", 0), dtype=name)


@operator("Constant", "Range", "OneHot")
def _only_constant(x: Any, a: Attributes) -> Tensor:
    raise a.refuse("way to compute it from the inputs' values")
