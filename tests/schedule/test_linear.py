"""Planning is linear: of a loop written in Python, twice the steps are about twice the work, by the calls it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.schedule.test_stack import EAGER, WIDE
from vkgrad import autodiff, engine
from vkgrad.ir.node import Node
from vkgrad.schedule import memory, plan
from vkgrad.schedule.depth import Depths
from vkgrad.schedule.memory import Lifetime
from vkgrad.schedule.plan import build_plan, structure

MOST = 2.2
DEVICES: dict[str, dict[str, Any]] = {"cpu": {}, "gpu": {"width": WIDE, "stacking": EAGER}}


def gradients_of_loop(steps: int, stacked: bool) -> list[Node]:
    """A loop over a cell and the gradients of its weights, with the states stacked, or each used by itself."""
    cell = vg.nn.LSTMCell(3, 4)
    weights = [weight.node for weight in cell.parameters()]
    x = vg.tensor(np.ones((steps, 2, 3), np.float32))
    vg.eval(*cell.parameters())
    with engine.aside():
        h = c = vg.zeros((2, 4))
        states = []
        for t in range(steps):
            h, c = cell(x[t], (h, c))
            states.append(h)
        loss = (vg.stack(states) ** 2).sum() if stacked else sum((state * state).sum() for state in states)
        found = autodiff.vjp([loss.node], weights, [vg.ones(()).node])
    return [loss.node, *(node for node in found if node is not None)]


def calls(function: Callable[[], Any]) -> int:
    """How many functions are called, be they written in Python or in C."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def growth(steps: int, stacked: bool, options: dict[str, Any]) -> float:
    """How many times the work of planning `steps` it is to plan twice as many."""
    counts = []
    for count in (steps, 2 * steps):
        targets = gradients_of_loop(count, stacked)
        leaves = structure(targets, engine.has_value)[1]
        counts.append(calls(lambda: build_plan(targets, leaves, max_buffers=32, **options)))  # noqa: B023 called here
    return counts[1] / counts[0]


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_twice_the_steps_are_twice_the_work(device: str, stacked: bool) -> None:
    assert growth(24, stacked, DEVICES[device]) < MOST


def test_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass that compares every kernel with every other one is noticed."""
    levels = plan._levels

    def compared(units: Any, after: Any) -> list[int]:
        for one in after:
            for other in after:
                one.isdisjoint(other)
        return levels(units, after)

    monkeypatch.setattr(plan, "_levels", compared)
    assert growth(96, False, {}) > MOST


def test_depths_answer_as_a_search_does() -> None:
    generator = np.random.default_rng(5)
    depths: Depths[int] = Depths()
    needs: dict[int, set[int]] = {n: set() for n in range(60)}

    def needed(item: int) -> set[int]:
        found, stack = {item}, [item]
        while stack:
            fresh = needs[stack.pop()] - found
            found |= fresh
            stack.extend(fresh)
        return found

    for item in needs:
        depths.add(item, ())
    answers = set()
    for item, other in generator.integers(0, 60, (600, 2)).tolist():
        answer = depths.reaches(other, (item,))
        assert answer == (item in needed(other))
        answers.add(answer)
        if not answer:  # else there would be a cycle
            needs[item].add(other)
            depths.add(item, (other,))
    assert answers == {True, False}


@pytest.mark.parametrize("place", [memory._by_size, memory._in_turn])
def test_no_two_that_live_at_once_overlap(place: Callable) -> None:
    generator = np.random.default_rng(6)
    lives = [
        Lifetime(int(size), int(first), int(first + length))
        for size, first, length in generator.integers((0, 0, 0), (4000, 200, 30), (400, 3))
    ]
    sizes = [-(-life.size_bytes // 256) * 256 for life in lives]
    offsets, arena = place(lives, sizes)
    assert all(offset % 256 == 0 and offset + size <= arena for offset, size in zip(offsets, sizes, strict=True))
    for i, one in enumerate(lives):
        for j, other in enumerate(lives[:i]):
            together = one.first <= other.last and other.first <= one.last
            apart = offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
            assert apart or not together or 0 in (sizes[i], sizes[j])
    at_once = max(
        sum(s for life, s in zip(lives, sizes, strict=True) if life.first <= t <= life.last) for t in range(230)
    )
    assert at_once <= arena <= 1.5 * at_once
