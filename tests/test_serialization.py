"""Saving and loading: what comes back, what other programs read and write, and what is refused."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
import safetensors.numpy

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad.errors import DataError, DataNotFoundError
from vkgrad.ir.dtypes import DTYPES

VALUES = {
    "matrix": chirp((3, 4), 1.0, 0.2),
    "double": chirp((2, 2), 1.0, 0.5).astype(np.float64) / 3,
    "scalar": np.array(7, np.int32),
    "words": np.array([2**32 - 1, 0], np.uint32),
    "mask": np.array([True, False, True]),
    "nothing": np.zeros((0, 3), np.float32),
}


def _file(path, header: dict, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_everything_comes_back_bit_for_bit(tmp_path) -> None:
    path = tmp_path / "state.safetensors"
    vg.save({name: vg.tensor(value) for name, value in VALUES.items()}, path)
    loaded = vg.load(path)
    assert set(loaded) == set(VALUES)
    for name, value in VALUES.items():
        assert isinstance(loaded[name], vg.Tensor)
        assert loaded[name].dtype.numpy == value.dtype and np.array_equal(loaded[name], value), name


def test_views_are_saved_as_they_look(tmp_path) -> None:
    path = tmp_path / "views.safetensors"
    matrix = chirp((3, 4), 1.0, 0.2)
    vg.save(
        {"t": matrix.T, "flipped": matrix[::-1, ::2], "tensor": vg.tensor(matrix).T, "big": matrix.astype(">f4")}, path
    )
    loaded = safetensors.numpy.load_file(path)
    assert np.array_equal(loaded["t"], matrix.T)
    assert np.array_equal(loaded["flipped"], matrix[::-1, ::2])
    assert np.array_equal(loaded["tensor"], matrix.T)
    assert np.array_equal(loaded["big"], matrix)


def test_a_model_goes_to_a_file_and_into_another(tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    models = [vg.nn.Sequential(vg.nn.Linear(3, 4), vg.nn.BatchNorm1d(4), vg.nn.Linear(4, 2)) for _ in range(2)]
    x = chirp((5, 3), 1.0, 0.4)
    models[0](x)  # moves the running mean
    vg.save(models[0].state_dict(), path)
    models[1].load_state_dict(vg.load(path))
    assert np.array_equal(models[0].eval()(x), models[1].eval()(x))


def test_an_optimiser_goes_to_a_file_too(tmp_path) -> None:
    path = tmp_path / "optimiser.safetensors"
    w = vg.tensor([1.0, 2.0])
    optimiser = vg.optim.Adam({"w": w}, lr=0.1)
    optimiser.update({"w": w}, {"w": vg.ones((2,))})
    vg.save(optimiser.state_dict(), path)
    other = vg.optim.Adam({"w": vg.zeros((2,))})
    other.load_state_dict(vg.load(path))
    assert other.lr == pytest.approx(0.1)
    for name, value in optimiser.state_dict().items():
        assert np.array_equal(other.state_dict()[name], value), name


def test_a_pytorch_state_dict_is_read(tmp_path) -> None:
    # What torch writes: half precision, bfloat16, and batch norm's counter in int64.
    path = tmp_path / "torch.safetensors"
    header = {
        "half": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]},
        "brain": {"dtype": "BF16", "shape": [2], "data_offsets": [4, 8]},
        "count": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]},
        "bytes": {"dtype": "U8", "shape": [2], "data_offsets": [16, 18]},
        "__metadata__": {"format": "pt"},
    }
    data = np.array([1.5, -2.0], "<f2").tobytes() + np.array([0x3FC0, 0xC000], "<u2").tobytes()
    _file(path, header, data + np.array(12, "<i8").tobytes() + bytes([0, 255]))
    loaded = vg.load(path)
    assert loaded["half"].tolist() == loaded["brain"].tolist() == [1.5, -2.0]
    assert loaded["half"].dtype is vg.float16 and loaded["brain"].dtype is vg.bfloat16
    assert int(loaded["count"]) == 12 and loaded["bytes"].tolist() == [0, 255]
    assert loaded["bytes"].dtype is vg.uint8


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_type_comes_back(tmp_path, name: str) -> None:
    path = tmp_path / "state.safetensors"
    values = np.arange(7).astype(DTYPES[name].numpy)
    vg.save({"x": vg.tensor(values, name), "odd": np.zeros(3, np.uint8)}, path)
    found = vg.load(path)["x"]
    expected = DTYPES[name]
    if vg.default_device().lacks(expected) and expected.kind in "iu":
        expected = vg.int32 if expected.kind == "i" else vg.uint32
    assert found.dtype is expected and np.array_equal(found, values)
    if name != "bfloat16":
        assert np.array_equal(safetensors.numpy.load_file(path)["x"], values)


def test_a_device_without_64_bit_integers_loads_what_fits_into_32(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide.safetensors"
    own = vg.default_device()
    monkeypatch.setattr(type(own), "lacks", lambda self, dtype: "it lacks them" if dtype.size_bytes == 8 else None)
    safetensors.numpy.save_file({"fits": np.array([1, 2**31 - 1]), "natural": np.array([2**32 - 1], np.uint64)}, path)
    loaded = vg.load(path)
    assert loaded["fits"].dtype is vg.int32 and loaded["natural"].dtype is vg.uint32
    safetensors.numpy.save_file({"wide": np.array([1, 2**31])}, path)
    with pytest.raises(DataError, match="wide has integers that int32 cannot hold"):
        vg.load(path)


def test_what_cannot_be_saved_is_refused_and_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "state.safetensors"
    vg.save({"a": vg.zeros((2,))}, path)
    before = path.read_bytes()
    with pytest.raises(DataError, match="n is a int"):
        vg.save({"a": vg.ones((2,)), "n": 3}, path)
    with pytest.raises(DataError, match="c is of type complex128"):
        vg.save({"c": np.zeros(2, np.complex128)}, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_damaged_and_missing_files_say_so(tmp_path) -> None:
    path = tmp_path / "state.safetensors"
    vg.save({"a": vg.zeros((20,))}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="damaged"):
        vg.load(path)
    with pytest.raises(DataNotFoundError, match="no such safetensors file"):
        vg.load(tmp_path / "other.safetensors")
    _file(path, {"a": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}}, b"\0")
    with pytest.raises(DataError, match="is of type F8_E5M2"):
        vg.load(path)


def test_names_keep_their_order(tmp_path) -> None:
    path = tmp_path / "w.safetensors"
    names = [f"layers.{n}.{part}" for n in range(12) for part in ("weight", "bias", "none")]
    vg.save({name: vg.zeros((0 if name.endswith("none") else 2,)) for name in names}, path)
    assert list(vg.load(path)) == names
    mixed = {"z": np.zeros(3, np.uint8), "b": np.zeros(2, np.float32), "a": np.zeros(2, np.float32)}
    vg.save(mixed, path, metadata={"format": "pt"})
    assert list(vg.load(path)) == ["b", "a", "z"]  # wide elements first


def test_a_file_may_be_read_by_whom_the_umask_lets(tmp_path) -> None:
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            vg.save({"w": vg.zeros((2,))}, tmp_path / f"{mask}")
        finally:
            os.umask(before)
        assert (tmp_path / f"{mask}").stat().st_mode & 0o777 == mode
    assert len(list(tmp_path.iterdir())) == 3  # nothing was left beside them
