"""Learning rates over time, against PyTorch's."""

from __future__ import annotations

from types import SimpleNamespace

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


@pytest.mark.parametrize("name", [*cases.COMPOSITIONS, "plateau"])
def test_compositions_are_those_of_pytorch(name: str) -> None:
    optimiser = vg.optim.SGD(vg.zeros((1,)), lr=0.5)
    composed = cases.COMPOSITIONS.get(name)
    schedules = SimpleNamespace(**vars(vg.optim.lr_scheduler), SWALR=vg.optim.swa_utils.SWALR)
    schedule = composed(schedules, optimiser) if composed else schedules.ReduceLROnPlateau(optimiser, **cases.PLATEAU)
    rates = []
    for value in cases.PLATEAU_VALUES:
        rates.append(optimiser.lr)
        schedule.step(*[] if composed else [vg.tensor(value)])
    assert_close(rates, GOLDEN[f"schedule {name}"], "schedule", name)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", cases.CYCLES)
def test_momentum_goes_round_as_in_pytorch(name: str, compiled: bool) -> None:
    (kind, arguments), (schedule_kind, options) = (
        table[case] for table, case in zip((cases.OPTIMISERS, cases.SCHEDULES), cases.CYCLES[name], strict=True)
    )
    p = vg.tensor(cases.start())
    optimiser = getattr(vg.optim, kind)({"w": p}, **arguments)
    schedule = getattr(vg.optim, schedule_kind)(optimiser, **{**options, "cycle_momentum": True})

    def update(optimiser: vg.optim.Optimizer, g: vg.Tensor) -> None:
        optimiser.update({"w": p}, {"w": g})

    step_once = vg.jit(update) if compiled else update
    for step in range(cases.CYCLE_STEPS):
        step_once(optimiser, vg.tensor(cases.gradient(step)))
        if step < cases.CYCLE_STEPS - 1:
            schedule.step()
    assert_close(p, GOLDEN[name], "optimiser", name)


def test_each_group_has_its_rate() -> None:
    a, b = vg.zeros((1,)), vg.zeros((1,))
    optimiser = vg.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=1.0)
    schedule = vg.optim.ExponentialLR(optimiser, 0.5)
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 0.25]
    other = vg.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=1.0)
    resumed = vg.optim.ExponentialLR(other, 0.5)
    resumed.load_state_dict(schedule.state_dict())
    assert [group["lr"] for group in other.param_groups] == [0.5, 0.25]


def test_mistakes_are_refused() -> None:
    optimiser = vg.optim.Rprop(vg.zeros((1,)))
    with pytest.raises(OptionError, match="no momentum to cycle"):
        vg.optim.OneCycleLR(optimiser, 1.0, total_steps=3)
    with pytest.raises(OptionError, match="total_steps, or epochs"):
        vg.optim.OneCycleLR(optimiser, 1.0)
    schedule = vg.optim.OneCycleLR(optimiser, 1.0, total_steps=2, cycle_momentum=False)
    schedule.step()
    schedule.step()
    with pytest.raises(OptionError, match="a cycle of 2"):
        schedule.step()


def test_a_step_size_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="step_size"):
        vg.optim.StepLR(vg.optim.SGD(vg.zeros((1,))), step_size=0)
