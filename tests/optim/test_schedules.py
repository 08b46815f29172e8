"""Learning rates over time, against PyTorch's."""

from __future__ import annotations

import pytest

import vkgrad as vg
from tests.golden import cases
from tests.golden.compare import assert_close, golden
from vkgrad.errors import OptionError

GOLDEN = golden("optimisers")


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_rates_are_those_of_pytorch(name: str) -> None:
    kind, arguments = cases.SCHEDULES[name]
    optimiser = vg.optim.SGD(vg.zeros((1,)), lr=0.5)
    schedule = getattr(vg.optim, kind)(optimiser, **arguments)
    on_host, on_device = [], []
    for _ in range(cases.EPOCH_COUNT):
        on_host.append(optimiser.lr)
        on_device.append(float(optimiser.state_tensors()[0]))
        schedule.step()
    # The cosine goes on beyond T_max there as here: it comes back.
    assert_close(on_host, GOLDEN[f"schedule {name}"], "schedule", name)
    assert_close(on_device, GOLDEN[f"schedule {name}"], "schedule", name)


def test_a_step_size_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="step_size"):
        vg.optim.StepLR(vg.optim.SGD(vg.zeros((1,))), step_size=0)
