"""The very files that PyTorch writes are read, give its results, and go back to it unchanged."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import vkgrad as vg
from tests.golden.compare import assert_close
from tests.models import LeNet5
from tests.networks import GPT, ResNet18
from vkgrad.errors import DataError, ShapeError

FOLDER = Path(__file__).parent / "golden" / "networks"
RESULTS = np.load(FOLDER / "networks.npz")
NETWORKS: dict[str, Callable[[], vg.nn.Module]] = {
    "lenet": LeNet5,
    "resnet18": lambda: ResNet18(10, width=4),
    "gpt": GPT,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_of_pytorch_gives_its_results(name: str) -> None:
    model = NETWORKS[name]()
    model.load_state_dict(vg.load(FOLDER / f"{name}.safetensors"))
    y = model.eval()(vg.tensor(RESULTS[f"{name}/x"]))
    assert_close(y, RESULTS[f"{name}/y"], "network")
    assert vg.load_metadata(FOLDER / f"{name}.safetensors") == {"format": "pt"}


@pytest.mark.parametrize("name", NETWORKS)
def test_it_goes_back_with_the_same_names_and_bits(name: str, tmp_path: Path) -> None:
    model = NETWORKS[name]()
    model.load_state_dict(vg.load(FOLDER / f"{name}.safetensors"))
    vg.save(model.state_dict(), tmp_path / "own.safetensors", metadata={"format": "pt"})
    theirs = safetensors.numpy.load_file(FOLDER / f"{name}.safetensors")
    own = safetensors.numpy.load_file(tmp_path / "own.safetensors")
    assert own.keys() == theirs.keys()
    for key, value in theirs.items():
        assert np.array_equal(own[key], value), key
        assert own[key].dtype == value.dtype or key.endswith("num_batches_tracked"), key


def test_the_full_resnet_has_torchvisions_names_and_shapes() -> None:
    model = ResNet18()
    own = {f"{name} {list(tensor.shape)}" for name, tensor in model.state_dict().items()}
    assert own == set(str(RESULTS["resnet18/keys"]).splitlines())
    assert sum(p.size for p in model.parameters()) == 11_689_512  # as torchvision documents it


@pytest.mark.parametrize("name", NETWORKS)
def test_one_wrong_weight_is_noticed(name: str) -> None:
    # The comparison has to fail where one tensor is not the file's.
    state = vg.load(FOLDER / f"{name}.safetensors")
    last = {"lenet": "fc3.weight", "resnet18": "fc.weight", "gpt": "lm_head.weight"}[name]
    model = NETWORKS[name]()
    model.load_state_dict({**state, last: state[last] * 1.001})
    with pytest.raises(AssertionError):
        assert_close(model.eval()(vg.tensor(RESULTS[f"{name}/x"])), RESULTS[f"{name}/y"], "network")


def test_a_file_that_does_not_fit_says_where() -> None:
    state = vg.load(FOLDER / "lenet.safetensors")
    model = LeNet5()
    before = model.fc1.weight.numpy()
    with pytest.raises(DataError, match=r"misses fc3\.bias"):
        model.load_state_dict({name: value for name, value in state.items() if name != "fc3.bias"})
    with pytest.raises(ShapeError, match=r"fc3.bias is \(10,\), not \(4,\)"):
        model.load_state_dict({**state, "fc3.bias": np.zeros(4, "f4")})
    assert np.array_equal(model.fc1.weight, before)


def _cut(content: bytes) -> dict[str, bytes]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    name = next(name for name in header if name != "__metadata__")
    far = json.dumps({**header, name: {**header[name], "shape": [2**40]}}).encode()
    return {
        "nothing": b"",
        "half a length": content[:4],
        "half a header": content[: 8 + length // 2],
        "no data": content[: 8 + length],
        "a byte less": content[:-1],
        "a byte more": content + b"\0",
        "a huge header": (2**60).to_bytes(8, "little") + content[8:],
        "no JSON": content[:8] + b"?" * length + content[8 + length :],
        "a shape that does not fit": len(far).to_bytes(8, "little") + far + content[8 + length :],
        "a pickle": b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x05hello\x94.",
        "a zip of PyTorch's older format": b"PK\x03\x04" + content[:200],
    }


SAID = {
    "nothing": "the file is empty",
    "half a length": "the file is cut off",
    "half a header": "the file is cut off",
    "no data": "the file is cut off",
    "a byte less": "the file is cut off",
    "a pickle": r"a file of torch\.save",
    "a zip of PyTorch's older format": r"a file of torch\.save",
}


@pytest.mark.parametrize("damage", _cut((FOLDER / "gpt.safetensors").read_bytes()))
def test_damaged_files_are_refused_by_name(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(_cut((FOLDER / "gpt.safetensors").read_bytes())[damage])
    said = SAID.get(damage, "not a safetensors file, or damaged")
    for read in (vg.load, vg.load_metadata):
        with pytest.raises(DataError, match=rf"bad\.safetensors: {said}"):
            read(path)


def _pickling(source: str) -> set[str]:
    """Modules that a source imports and that would run a file's code."""
    unsafe = {"pickle", "marshal", "shelve", "joblib", "dill", "torch"}
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
    return imported & unsafe | ({"allow_pickle"} if "allow_pickle=True" in source else set())


def test_nothing_in_the_package_pickles() -> None:
    assert _pickling("def f():\n    from pickle import loads") == {"pickle"}  # the check can fail
    assert _pickling("np.load(p, allow_pickle=True)") == {"allow_pickle"}
    for path in Path(vg.__file__).parent.rglob("*.py"):
        if "bench" not in path.parts:  # which races against PyTorch
            assert not _pickling(path.read_text()), path
