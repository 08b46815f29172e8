"""What is exported is what vkgrad computes, says onnxruntime and says ONNX's own reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import vkgrad as vg
from tests.golden.patterns import chirp
from tests.networks import Block
from tests.test_pytorch_files import FOLDER, NETWORKS, RESULTS
from vkgrad import nn
from vkgrad.errors import OptionError, UnsupportedError
from vkgrad.ir.op import OPS, Family
from vkgrad.onnx.primitives import PASSED_ON, REDUCTIONS, RULES, SAME
from vkgrad.tensor import apply

TOLERANCE = 1e-5  # of the largest element: other libraries add up in another order
Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.usefixtures("on_cpu")  # each case is programs of its own, which a Vulkan driver compiles


def evaluated(model: onnx.ModelProto, arrays: Sequence[Array], reference: bool = True) -> dict[str, list[Array]]:
    """The outputs of a model, by who computed them; ONNX's own reference takes long for large ones."""
    feed = {value.name: array for value, array in zip(model.graph.input, arrays, strict=True)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = {"onnxruntime": session.run(None, feed)}
    return {**found, "reference": ReferenceEvaluator(model).run(None, feed)} if reference else found


def error_of(found: Array, expected: Array) -> float:
    """The largest error in units of the largest element; infinite where shapes, types or special values differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else np.inf
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return np.inf
    return float(np.abs(found - expected)[finite].max(initial=0) / (np.abs(expected[finite]).max(initial=0) or 1))


def exported(
    function: Callable[..., Any], arrays: Sequence[Array], path: Path, tolerance: float = TOLERANCE
) -> Counter:
    """Export a function, compare, and return how often each operator is there."""
    tensors = [vg.tensor(array) for array in arrays]
    model = vg.onnx.export(function, tensors, path / "f.onnx")
    assert onnx.load(path / "f.onnx") == model
    result = function(*tensors)
    expected = [np.asarray(tensor) for tensor in (result if isinstance(result, tuple) else (result,))]
    for who, outputs in evaluated(model, arrays).items():
        for found, wanted in zip(outputs, expected, strict=True):
            assert error_of(np.asarray(found), wanted) <= tolerance, (who, found, wanted)
    return Counter(node.op_type for node in model.graph.node)


def network(name: str) -> nn.Module:
    model = NETWORKS[name]()
    model.load_state_dict(vg.load(FOLDER / f"{name}.safetensors"))
    return model.eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, tmp_path: Path) -> None:
    model, x = network(name), RESULTS[f"{name}/x"]
    counts = exported(model, [x], tmp_path)
    expected = {
        "lenet": {"Conv": 2, "Gemm": 3, "MaxPool": 2, "Add": 0},
        "resnet18": {"Conv": 20, "MaxPool": 1, "Gemm": 1, "Einsum": 0},
        "gpt": {"Softmax": 2, "MatMul": 13, "Einsum": 0},
    }[name]
    assert {operator: counts[operator] for operator in expected} == expected
    weights = {entry.name for entry in onnx.load(tmp_path / "f.onnx").graph.initializer}
    assert weights == {key for key in model.state_dict() if not key.endswith("num_batches_tracked")}


def test_a_transformer_block(tmp_path: Path) -> None:
    vg.manual_seed(3)
    exported(Block(16, 2), [chirp((2, 5, 16), 1.0, 0.1)], tmp_path)


def test_one_wrong_weight_is_noticed() -> None:
    # The comparisons would be worth nothing if they passed with another weight.
    model, x = network("lenet"), RESULTS["lenet/x"]
    state = model.state_dict()
    written = vg.onnx.export(model, [x], "/dev/null")
    entry = next(entry for entry in written.graph.initializer if entry.name == "conv2.weight")
    entry.CopyFrom(onnx.numpy_helper.from_array(np.asarray(state["conv2.weight"]) * np.float32(1.001), entry.name))
    for outputs in evaluated(written, [x]).values():
        assert error_of(outputs[0], np.asarray(model(vg.tensor(x)))) > TOLERANCE


class Outputs(nn.Module):
    """The outputs of a layer that gives its last state too."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def forward(self, x: vg.Tensor) -> vg.Tensor:
        return self.layer(x)[0]


EVEN = chirp((2, 4, 2, 2), 1.0, 0.0)
POINTS = chirp((1, 3, 3, 2), 1.2, 0.4)
LAYERS: dict[str, tuple[Callable[[], Callable[..., Any]], tuple[int, ...], str]] = {
    "convolution": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 9, 8), "Conv 1"),
    "no bias": (lambda: nn.Conv2d(4, 6, 3, bias=False), (2, 4, 9, 8), "Conv 1"),
    "dilated": (lambda: nn.Conv2d(4, 6, 3, dilation=2), (2, 4, 9, 8), "Conv 1"),
    "groups": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (2, 4, 9, 8), "Conv 1"),
    "each channel by itself": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 9, 8), "Conv 1"),
    "of one axis": (lambda: nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9), "Conv 1"),
    "uneven padding": (lambda: lambda x: vg.conv2d(x, EVEN, padding="same"), (2, 4, 5, 5), "Conv 1"),
    "transposed": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), (2, 4, 5, 6), "Conv 1"),
    "max pooling": (lambda: nn.MaxPool2d(3, 2, 1), (2, 4, 9, 8), "MaxPool 1"),
    "average pooling": (lambda: nn.AvgPool2d(2), (2, 4, 9, 8), "AveragePool 1 Mul 0 Div 0"),
    "padded average": (lambda: nn.AvgPool2d(3, 2, 1), (2, 4, 9, 8), "AveragePool 1"),
    "uncounted padding": (lambda: lambda x: vg.avg_pool2d(x, 3, 2, 1, False), (2, 4, 9, 8), "AveragePool 1"),
    "linear": (lambda: nn.Linear(5, 3), (4, 5), "Gemm 1 Add 0"),
    "linear of a stack": (lambda: nn.Linear(5, 3), (2, 4, 5), "MatMul 1 Add 1"),
    "batch norm": (lambda: nn.BatchNorm2d(4).eval(), (2, 4, 3, 3), ""),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6), ""),
    "softmax": (lambda: nn.Softmax(-1), (4, 6), "Softmax 1"),
    "softmax of an inner axis": (lambda: nn.Softmax(1), (4, 6, 2), "Softmax 1"),
    "log softmax": (lambda: nn.LogSoftmax(-1), (4, 6), ""),
    "gelu": (lambda: nn.GELU(), (4, 6), "Erf 1"),
    "silu": (lambda: nn.SiLU(), (4, 6), "Sigmoid 1"),
    "recurrent": (lambda: Outputs(nn.LSTM(4, 3, bidirectional=True)), (3, 2, 4), "Sigmoid 18"),
    "gated": (lambda: Outputs(nn.GRU(4, 3)), (3, 2, 4), "Tanh 3"),
    "masks of two conditions": (
        lambda: lambda x: vg.where((x > 0) & ~(x > 1) | (x < -1) ^ (x > 2), x, 0.0), (4, 6), "And 1 Or 1 Xor 1 Not 1",
    ),
    "points of an image": (lambda: lambda x: vg.grid_sample(x, POINTS), (1, 4, 5, 5), "GatherElements 0"),
    "indices of maxima": (lambda: nn.MaxPool2d(2, return_indices=True), (2, 4, 6, 6), ""),
    "windows as columns": (lambda: nn.Unfold(3, padding=1), (1, 4, 5, 5), ""),
    "a weight that is computed": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 6, 3)).eval(), (1, 4, 5, 5), "Conv 1",
    ),
    "dropout in evaluation": (lambda: nn.Sequential(nn.Dropout(0.5)).eval(), (4, 6), ""),
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, tmp_path: Path) -> None:
    make, shape, expected = LAYERS[layer]
    vg.manual_seed(5)
    counts = exported(make(), [chirp(shape, 1.0, 0.1)], tmp_path)
    words = expected.split()
    for operator, count in zip(words[::2], words[1::2], strict=True):
        assert counts[operator] == int(count), counts


A, B, C = chirp((3, 4), 1.0, 0.1), chirp((4, 5), 1.0, 0.2), chirp((2, 3, 4), 1.0, 0.3)
INDEX = np.array([[2, 0], [1, 1]], np.int32)

FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "matrices": (lambda a, b: a @ b, [A, B]),
    "transposed": (lambda a, b: b.T @ a.T, [A, B]),
    "vector": (lambda a, b: a @ b, [A, B[:, 0]]),
    "stacks": (lambda a, b: a @ b.swapaxes(-1, -2), [C, C]),
    "einsum": (lambda a, b: vg.einsum("bij,bkj->kib", a, b), [C, C]),
    "outer": (lambda a, b: vg.einsum("i,j->ij", a, b), [A[0], B[0]]),
    "inner": (lambda a: (a * a).sum(), [A]),
    "both ends of it": (lambda a: (a, a, a + 1), [A]),
    "nothing": (lambda a: a, [A]),
    "a constant": (lambda a: vg.ones((2, 2)), [A]),
    "slices": (lambda a: a[::-1, 1:3] + a[:, ::2][::-1], [A]),
    "reversed by twos": (lambda a: a[::-2, ::-3], [A]),
    "concatenated": (lambda a: vg.concat([a, a * 2], 1), [A]),
    "looked up": (lambda a, i: a[i], [A, INDEX]),
    "taken": (lambda a, i: vg.take(a, i, axis=1), [A, INDEX]),
    "along": (lambda a, i: vg.take_along_axis(a[:2, :2], i, 0), [A, INDEX % 2]),
    "diagonal": (lambda a: vg.diagonal(a[:3, :3]), [A]),
    "triangle": (lambda a: vg.tril(a), [A]),
    "means": (lambda a: (a.mean(0), a.var(1), a.max(1), a.min(0), vg.prod(a, 1)), [A]),
    "largest places": (lambda a: vg.argmax(a, 1), [A]),
    "masks": (lambda a: (vg.any(a > 0.9, 0), vg.all(a > -0.9, 1)), [A]),
    "running sum": (lambda a: (vg.cumsum(a, 0), vg.cumsum(a, 1, reverse=True)), [A]),
    "Fourier transforms": (lambda c: (vg.fft.rfft(c), vg.fft.ifft(c[..., :2]), vg.fft.irfft(vg.fft.rfft(c), 4)), [C]),
    "windows of a row": (lambda a: vg.avg_pool1d(a, 3, 1), [C]),
    "padded with ones": (lambda a: vg.pad(a, ((1, 0), (0, 2)), 1.0), [A]),
    "one_hot": (lambda i: vg.one_hot(i, 4), [INDEX]),
    "double precision": (lambda a, b: a @ b + vg.tanh(b[0]), [A.astype("f8"), B.astype("f8")]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, tmp_path: Path) -> None:
    function, arrays = FUNCTIONS[name]
    exported(function, arrays, tmp_path)


ELEMENTWISE = [op.name for op in OPS.values() if op.family is Family.ELEMENTWISE and op.name in {**SAME, **RULES}]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_element_wise_primitive(name: str, tmp_path: Path) -> None:
    op = OPS[name]
    if name == "cast":
        exported(lambda a: (a.astype("int32"), (a > 0).astype("float32"), a.astype("float64")), [A * 9], tmp_path)
        return
    kinds = {"where": "bff", "bitwise": "ii", "logical": "bb"}.get(name.partition("_")[0], "fff")
    if name.endswith("shift"):
        kinds = "uu"
    types = {"f": np.float32, "i": np.int32, "b": np.bool_, "u": np.uint32}
    arrays = [op.samples.draw((5, 7), np.dtype(types[kinds[n]]), 3, n) for n in range(op.arity)]
    if name.startswith("is"):
        arrays[0][0, :3] = [np.nan, np.inf, -np.inf]
    exported(lambda *tensors: apply(name, *tensors), arrays, tmp_path)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "maximum", "add", "multiply", "equal"])
def test_integers(name: str, tmp_path: Path) -> None:
    x, y = np.meshgrid(np.arange(-7, 8, dtype=np.int32), np.array([-3, -2, 2, 5], np.int32))
    exported(lambda a, b: apply(name, a, b), [x, y], tmp_path)


def test_accuracy_near_zero_is_kept(tmp_path: Path) -> None:
    x = np.geomspace(1e-8, 1e-4, 9, dtype=np.float32)
    for function in (vg.expm1, vg.log1p):
        model = vg.onnx.export(function, [x], tmp_path / "f.onnx")
        for outputs in evaluated(model, [x]).values():
            np.testing.assert_allclose(outputs[0], np.asarray(function(vg.tensor(x))), rtol=1e-5)


def test_what_has_no_operator_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"call model\.eval"):
        vg.onnx.export(nn.Dropout(0.5), [A], tmp_path / "f.onnx")
    with pytest.raises(UnsupportedError, match="no operator for argsort"):
        vg.onnx.export(lambda a: vg.sort(a, 1), [A], tmp_path / "f.onnx")
    with pytest.raises(UnsupportedError, match="sums only"):
        vg.onnx.export(lambda a: vg.cumprod(a, 1), [A], tmp_path / "f.onnx")
    assert not (tmp_path / "f.onnx").exists()


def test_every_rule_is_of_a_primitive() -> None:
    assert {*SAME, *RULES, *REDUCTIONS, *PASSED_ON} <= set(OPS)


def test_names(tmp_path: Path) -> None:
    path = tmp_path / "f.onnx"
    model = vg.onnx.export(lambda a, b: a @ b, [A, B], path, input_names=["left", "right"], output_names=["product"])
    assert [value.name for value in model.graph.input] == ["left", "right"]
    assert [value.name for value in model.graph.output] == ["product"]
    layer = nn.Linear(4, 2)
    model = vg.onnx.export(lambda a: vg.relu(layer(a)), [A], path, parameters=layer)
    assert [entry.name for entry in model.graph.initializer] == ["weight", "bias"]
    with pytest.raises(OptionError, match="1 different names"):
        vg.onnx.export(layer, [A], path, input_names=["a", "b"])
    with pytest.raises(OptionError, match="'weight' is there twice"):
        vg.onnx.export(layer, [A], path, input_names=["weight"])


def test_exporting_changes_nothing(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    before = {name: np.asarray(value) for name, value in model.state_dict().items()}
    vg.onnx.export(model, [A], tmp_path / "f.onnx")  # in training: it would move the running mean
    assert model.training
    for name, value in model.state_dict().items():
        assert np.array_equal(value, before[name]), name


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    model = network("lenet")
    for name in ("a", "b"):
        vg.onnx.export(model, [RESULTS["lenet/x"]], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
