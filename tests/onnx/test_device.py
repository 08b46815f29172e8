"""A network goes out from the device and comes back to it. All else is tested on the CPU device, which is quicker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import vkgrad as vg
from tests.onnx.test_exporting import RESULTS, TOLERANCE, error_of, evaluated, network
from tests.onnx.test_loading import _model, stepped
from vkgrad.onnx.loading import Loaded


@pytest.mark.device
def test_lenet_goes_out_comes_back_and_trains(tmp_path: Path) -> None:
    model, x = network("lenet"), RESULTS["lenet/x"]
    y = np.asarray(model(vg.tensor(x)))
    written = vg.onnx.export(model, [x], tmp_path / "f.onnx")
    for outputs in evaluated(written, [x]).values():
        assert error_of(outputs[0], y) <= TOLERANCE
    again = vg.onnx.load(tmp_path / "f.onnx")
    assert np.array_equal(again(vg.tensor(x)), y)
    assert stepped(again, x)[0] == stepped(model, x)[0]


@pytest.mark.device
def test_a_cast_to_integers_of_64_bits() -> None:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=7)]
    assert np.asarray(Loaded(_model(*nodes, shape=(3,)))(vg.tensor([1.5, -2.5, 3.0]))).tolist() == [1, -2, 3]
