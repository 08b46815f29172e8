"""One of each layer that has a state: PyTorch's own file is read, and the file written from it is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import vkgrad as vg
from tests.golden import cases
from tests.golden.patterns import chirp

FILE = Path(cases.__file__).with_name("state.safetensors")


def everything() -> vg.nn.Module:
    model = vg.nn.Module()
    for name, (kind, arguments) in cases.STATEFUL.items():
        setattr(model, name, getattr(vg.nn, kind)(**arguments))
    for name, (kind, arguments, norm, options, _) in cases.PARAMETRISED.items():
        layer = getattr(vg.nn.utils.parametrizations, norm)(getattr(vg.nn, kind)(**arguments), **options)
        setattr(model, name.replace(" ", "_"), layer)
    return model


def test_the_file_of_pytorch_is_read_and_written_without_a_key_renamed(tmp_path: Path) -> None:
    model, written_there = everything(), load_file(FILE)
    model.load_state_dict(vg.load(FILE))  # strict: no key is missing or left over
    state = model.state_dict()
    assert sorted(state) == sorted(written_there)
    vg.save(state, tmp_path / "state.safetensors")
    written_here = load_file(tmp_path / "state.safetensors")
    for name, value in written_there.items():
        assert written_here[name].shape == value.shape and np.array_equal(written_here[name], value), name
        assert written_here[name].dtype == value.dtype or value.dtype == np.int64  # counters, which fit either


def test_the_values_are_where_they_belong() -> None:
    model = everything()
    model.load_state_dict(vg.load(FILE))
    assert len(list(model.children())) == len(cases.STATEFUL) + len(cases.PARAMETRISED) > 30
    weight = model.get_submodule("lstm_both_ways").weight_ih_l1_reverse
    place = list(load_file(FILE)).index("lstm_both_ways.weight_ih_l1_reverse")
    assert place >= 0 and weight.shape == (16, 8)
    first = model.get_parameter("linear.weight")
    assert np.array_equal(first, chirp(first.shape, 1.0, 0.0))
