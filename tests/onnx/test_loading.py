"""ONNX files become modules that compute what others compute of them, and that train."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import vkgrad as vg
from tests.golden.compare import assert_close
from tests.golden.patterns import chirp
from tests.networks import Block, ResNet18
from tests.onnx.test_exporting import FOLDER, NETWORKS, RESULTS, TOLERANCE, error_of, evaluated, network
from vkgrad import nn, optim
from vkgrad.errors import DataError, DataNotFoundError, ShapeError, UnsupportedError, VkgradError
from vkgrad.onnx.loading import Loaded
from vkgrad.onnx.recurrent import OPERATORS

pytestmark = pytest.mark.usefixtures("on_cpu")  # each file is programs of its own, which a Vulkan driver compiles


def stepped(model: nn.Module, x: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """The loss of one step of SGD with momentum, and the parameters after it."""
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9)
    loss, gradients = vg.value_and_grad(lambda m: (m(vg.tensor(x)) ** 2).mean())(model)
    optimizer.update(model, gradients)
    return float(loss), {name: np.asarray(p) for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", [*NETWORKS, "block"])
def test_an_exported_network_comes_back_and_trains(name: str, tmp_path: Path) -> None:
    vg.manual_seed(2)
    original = Block(16, 2) if name == "block" else network(name)
    x = chirp((2, 5, 16), 1.0, 0.2) if name == "block" else RESULTS[f"{name}/x"]
    vg.onnx.export(original, [x], tmp_path / "f.onnx")
    model = vg.onnx.load(tmp_path / "f.onnx")
    assert dict(model.named_parameters()).keys() == dict(original.named_parameters()).keys()
    np.testing.assert_allclose(model(vg.tensor(x)), original(vg.tensor(x)), rtol=1e-5, atol=1e-6)
    before = {key: np.asarray(p) for key, p in model.named_parameters()}
    loss, after = stepped(model, x)
    expected_loss, expected = stepped(original, x)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for key, value in expected.items():
        assert not np.array_equal(after[key], before[key]) or not np.any(value - before[key]), key
        assert_close(after[key], value, "network", key)
    state = dict(original.state_dict())
    original.load_state_dict({**state, **model.state_dict()})  # and the weights go back


def test_resnet18_of_full_size(tmp_path: Path) -> None:
    """As it is used, 64 channels wide with 1000 classes, on small images: out, evaluated elsewhere, back, one step."""
    vg.manual_seed(3)
    original = ResNet18()
    x = chirp((2, 3, 32, 32), 1.0, 0.2)
    original(vg.tensor(x)).numpy()  # statistics that keep activations at their usual size
    written = vg.onnx.export(original.eval(), [x], tmp_path / "f.onnx")
    model = vg.onnx.load(tmp_path / "f.onnx")
    assert sum(p.size for p in model.parameters()) == 11_689_512
    y = original(vg.tensor(x)).numpy()
    assert error_of(model(vg.tensor(x)).numpy(), y) <= TOLERANCE
    assert error_of(evaluated(written, [x], reference=False)["onnxruntime"][0], y) <= TOLERANCE
    loss, after = stepped(model, x)
    expected_loss, expected = stepped(original, x)
    assert loss == pytest.approx(expected_loss, rel=1e-5) and after.keys() == expected.keys()
    for key, value in expected.items():
        assert_close(after[key], value, "network", key)
    assert float((model(vg.tensor(x)) ** 2).mean()) < loss


def test_a_step_under_jit(tmp_path: Path) -> None:
    x = RESULTS["lenet/x"]
    vg.onnx.export(network("lenet"), [x], tmp_path / "f.onnx")
    losses = []
    for wrap in (lambda f: f, vg.jit):
        model = vg.onnx.load(tmp_path / "f.onnx")
        optimizer = optim.SGD(model, lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            loss, gradients = vg.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
            optimizer.update(model, gradients)
            return loss

        run = wrap(step)
        losses.append([float(run(vg.tensor(x))) for _ in range(3)])
    assert losses[0] == losses[1] and losses[0][2] < losses[0][0]


@pytest.mark.parametrize("name", ["resnet18", "gpt"])
def test_files_of_pytorch(name: str) -> None:
    model = vg.onnx.load(FOLDER / f"{name}.onnx")
    x = RESULTS[f"{name}/x"]
    assert_close(model(vg.tensor(x)), RESULTS[f"{name}/y"], "network")
    assert len(list(model.parameters())) > 20 and not any("running" in key for key, _ in model.named_parameters())
    first, _ = stepped(model, x)
    second, _ = stepped(model, x)
    assert second < first


# ---- ONNX's own examples of each operator
def _refused(case: str) -> bool:
    """What vkgrad refuses by design, so that a refusal of anything else fails the test."""
    parts = (
        "select_last_index", "averagepool_2d_dilations", "averagepool_3d_dilations", "training_mode",
        "training_dropout", "convtranspose_output_shape", "convtranspose_kernel_shape", "convtranspose_autopad",
        "maxpool_with_argmax", "edge_pad", "reflect_pad", "wrap_pad", "reduce_max_empty_set", "reduce_min_empty_set",
        "equal_string", "exclusive", "col2im_5d", "gridsample_bicubic",
        "test_gru_", "lstm_with_peepholes",  # the reset gate before the product, which PyTorch has not either
    )  # fmt: skip
    return any(part in case for part in parts)


@cache
def _examples() -> dict[str, list]:
    """The examples by operator, those of one node whose operator is in the table."""
    found: dict[str, list] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its makers divide by zero to show what comes out
        for case in collect_testcases(None):
            nodes = () if case.model is None else case.model.graph.node
            if len(nodes) == 1 and nodes[0].domain == "" and nodes[0].op_type in OPERATORS:
                found.setdefault(nodes[0].op_type, []).append(case)
    return found


ALL_TENSORS = {"Concat", "Where", "Max", "Min", "Sum", "Mean", "Gather", "GatherElements"}
ALL_CONSTANT = {"Constant", "ConstantOfShape", "Range", "OneHot"}


def _as_loaded(case, inputs: list[np.ndarray]) -> tuple[Loaded, list[np.ndarray]]:
    """An example with its shapes, axes and such as constants, which they are in real files."""
    node, names = case.model.graph.node[0], [value.name for value in case.model.graph.input]
    tensors = {name for name, array in zip(names, inputs, strict=True) if array.dtype.kind == "f" and array.ndim}
    tensors |= set(names) if node.op_type in ALL_TENSORS else {node.input[0]} if node.input else set()
    tensors -= {name for name in names if node.op_type in ALL_CONSTANT}
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for name, array in zip(names, inputs, strict=True):
        if name not in tensors:
            model.graph.initializer.append(
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
    loaded = Loaded(model)
    for name in [name for name in loaded._weights if name not in tensors]:
        loaded._constants[name] = inputs[names.index(name)]
        del loaded._weights[name]
    return loaded, [array for name, array in zip(names, inputs, strict=True) if name in tensors]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_onnx_says_the_same(name: str) -> None:
    seen = 0
    for case in _examples().get(name, []):
        for inputs, outputs in case.data_sets:
            if any(isinstance(array, list) or np.asarray(array).dtype.kind in "OV" for array in (*inputs, *outputs)):
                continue  # sequences, texts and types that NumPy has not
            seen += 1
            try:
                model, given = _as_loaded(case, [np.asarray(array) for array in inputs])
                found = model(*[vg.tensor(array) for array in given])
            except VkgradError:
                assert _refused(case.name), case.name
                continue
            assert not _refused(case.name), case.name
            for value, expected in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
                value, expected = np.asarray(value), np.asarray(expected)
                assert value.shape == expected.shape, case.name
                tight = {"rtol": 1e-3, "atol": 1e-5}  # ONNX's own measure, for all types
                np.testing.assert_allclose(value.astype("f8"), expected.astype("f8"), err_msg=case.name, **tight)
    assert seen or name == "Cast", name  # whose examples are not arrays


@pytest.mark.parametrize("ending", ["whole", "lengths"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_operators(kind: str, direction: str, ending: str) -> None:
    """As PyTorch writes them, against onnxruntime, and trained."""
    gates, count = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 1 + (direction == "bidirectional")
    arrays = {
        "w": chirp((count, gates * 4, 3), 0.6, 0.1), "r": chirp((count, gates * 4, 4), 0.6, 0.2),
        "b": chirp((count, gates * 8), 0.6, 0.3), "lengths": np.array([5, 2], np.int32),
        "h": chirp((count, 2, 4), 0.6, 0.4), "c": chirp((count, 2, 4), 0.6, 0.5),
    }  # fmt: skip
    names = ["w", "r", "b", "lengths" if ending == "lengths" else "", "h", *["c"] * (kind == "LSTM")]
    outputs = ["y", "y_h", *["y_c"] * (kind == "LSTM")]
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", *names], outputs, hidden_size=4, direction=direction, **more)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", TensorProto.FLOAT, (5, 2, 3))],
        [value(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(arrays[name], name) for name in names if name],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = chirp((5, 2, 3), 1.0, 0.6)
    model, expected = Loaded(file), evaluated(file, [x], reference=False)["onnxruntime"]
    for found, wanted in zip(model(vg.tensor(x)), expected, strict=True):
        assert_close(found, wanted, "sequence", f"{kind} {direction}")
    gradients = vg.grad(lambda m: (m(vg.tensor(x))[0] ** 2).sum())(model)
    assert {"w", "r", "b"} <= gradients.keys() and all(np.abs(g.numpy()).max() > 0 for g in gradients.values())


def test_casts() -> None:
    x = np.array([-1.5, 0.0, 2.7], np.float32)
    for code, wanted in ((6, np.int32), (9, np.bool_), (11, np.float64), (10, np.float16)):
        model = Loaded(_model(helper.make_node("Cast", ["x"], ["y"], to=code), shape=(3,)))
        assert np.array_equal(model(vg.tensor(x)), x.astype(wanted))
    with pytest.raises(UnsupportedError, match="no element type 14"):
        Loaded(_model(helper.make_node("Cast", ["x"], ["y"], to=14), shape=(3,)))(vg.tensor(x))


def test_a_wrong_operator_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = OPERATORS["Selu"]
    monkeypatch.setitem(OPERATORS, "Selu", lambda x, a: right(x, a) * 1.01)
    with pytest.raises(AssertionError):
        test_onnx_says_the_same("Selu")


# ---- what is wrong with a file
def _model(*nodes: onnx.NodeProto, shape=(2, 3), initializers=()) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "g",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, ["m", "n"])],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "f.onnx"
    with pytest.raises(DataNotFoundError, match="no such ONNX file"):
        vg.onnx.load(path)
    vg.onnx.export(nn.Linear(3, 2), [np.zeros((4, 3), "f4")], path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"not a model", b"", b"\x80\x04\x95hello\x94."):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="not an ONNX model, or damaged"):
            vg.onnx.load(path)


def test_operators_that_are_unknown_are_all_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Hardmax", ["x"], ["h"]), helper.make_node("NonZero", ["h"], ["y"])]
    onnx.save(_model(*nodes), tmp_path / "f.onnx")
    with pytest.raises(UnsupportedError, match="vkgrad has no Hardmax, NonZero; it reads Abs, "):
        vg.onnx.load(tmp_path / "f.onnx")


def test_shapes_that_depend_on_values_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["s"], to=7), helper.make_node("Reshape", ["x", "s"], ["y"])]
    onnx.save(_model(*nodes, shape=(2,)), tmp_path / "f.onnx")
    with pytest.raises(UnsupportedError, match=r"Reshape.*'s' depends on values"):
        vg.onnx.load(tmp_path / "f.onnx")(vg.tensor([2.0, 1.0]))


def test_inputs_by_name_and_other_extents(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    vg.onnx.export(layer, [np.zeros((4, 3), "f4")], tmp_path / "f.onnx")
    model = vg.onnx.load(tmp_path / "f.onnx")
    x = vg.tensor(chirp((7, 3), 1.0, 0.1))
    assert np.array_equal(model(x=x), layer(x)) and np.array_equal(model(x), layer(x))
    with pytest.raises(ShapeError, match="takes x, got none"):
        model()
    with pytest.raises(ShapeError, match="takes x"):
        model(x, x)


def test_shapes_are_computed_on_the_host(tmp_path: Path) -> None:
    # What PyTorch writes for x.view(x.shape[0], -1): the extent travels through the graph.
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "first"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    entries = {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1])}
    onnx.save(
        _model(*nodes, shape=("n", 2, 3), initializers=[numpy_helper.from_array(v, k) for k, v in entries.items()]),
        tmp_path / "f.onnx",
    )
    model = vg.onnx.load(tmp_path / "f.onnx")
    for rows in (1, 5):
        assert model(vg.ones((rows, 2, 3))).shape == (rows, 6)
    assert not list(model.parameters())


def test_importing_vkgrad_needs_no_onnx() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import vkgrad as vg\n"
        "assert vg.ones(2).sum().item() == 2\n"
        "try: vg.onnx\n"
        "except vg.errors.UnsupportedError as error: print(error)\n"
    )
    environment = {**os.environ, "VKGRAD_DEVICE": "cpu"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "pip install vkgrad[onnx]" in found.stdout
