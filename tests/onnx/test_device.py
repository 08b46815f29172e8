"""A network goes out from the device and comes back to it. All else is tested on the CPU device, which is quicker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from tests.onnx.test_exporting import RESULTS, TOLERANCE, error_of, evaluated, network
from tests.onnx.test_loading import stepped


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
