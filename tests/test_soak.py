"""Long runs leave nothing behind, and come out the same twice. Run by `script/test --long`.

The checker of growth is checked: what keeps every result is seen to grow.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vkgrad as vg
from tests.models import losses
from vkgrad import engine
from vkgrad.ir import node as ir_node

pytestmark = [pytest.mark.device, pytest.mark.long]

FLUSHES, CHAIN = 520, 20  # 10,400 dispatches
STEPS = 2000
MOST_GROWTH = 1.05


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def live() -> dict[str, int]:
    """What a leak would add to, once everything that was submitted is over."""
    vg.synchronize()
    gc.collect()
    native = getattr(engine.device(), "native", None)
    counters = native.counters if native is not None else {}
    return {
        "values": len(engine.values),
        "nodes": ir_node.living(),
        **{name: counters[name] for name in ("buffers_live", "descriptor_sets", "sequences") if name in counters},
    }


def grown(run: Callable[[int], object], warm: int, count: int) -> list[str]:
    """What is larger after `count` more runs than after the first `warm`."""
    for number in range(warm):
        run(number)
    before, memory = live(), resident_bytes()
    for number in range(count):
        run(number)
    after = live()
    found = [f"{name}: {before[name]} -> {after[name]}" for name in before if after[name] > before[name]]
    if resident_bytes() > MOST_GROWTH * memory:
        found.append(f"resident bytes: {memory} -> {resident_bytes()}")
    return found


def chained(x: vg.Tensor, w: vg.Tensor) -> vg.Tensor:
    for _ in range(CHAIN):
        x = vg.tanh(x @ w) + 0.125 * x
    return x


def test_ten_thousand_dispatches_in_hundreds_of_flushes() -> None:
    random = np.random.default_rng(1)
    w = vg.tensor(random.normal(0, 0.3, (24, 24)).astype(np.float32))
    start = random.normal(size=(8, 24)).astype(np.float32)

    def once() -> str:
        digest = hashlib.sha256()

        def flush(number: int) -> None:
            digest.update(chained(vg.tensor(start * np.float32(1 + number % 7)), w).numpy().tobytes())

        with vg.counting() as counts:
            assert grown(flush, 20, FLUSHES) == []
        assert counts.flushes >= FLUSHES and counts.dispatches >= FLUSHES * CHAIN and counts.host_nodes == 0
        return digest.hexdigest()

    assert once() == once()


def test_growth_is_seen() -> None:
    kept = []
    w = vg.tensor(np.eye(24, dtype=np.float32))

    def flush(number: int) -> None:
        kept.append(chained(vg.tensor(np.ones((8, 24), np.float32) * number), w))
        vg.eval(kept[-1])

    assert any("values" in name for name in grown(flush, 5, 20))


def test_two_thousand_steps_of_lenet_twice() -> None:
    first = losses("lenet", STEPS, batch=4, jit=True)
    before, memory = live(), resident_bytes()
    with vg.counting() as counts:
        second = losses("lenet", STEPS, batch=4, jit=True)
    assert first == second and np.isfinite(first).all()
    assert counts.submissions - STEPS < 20 and counts.host_nodes == 0
    assert counts.plans_built <= 5 and counts.shaders_compiled == 0
    after = live()
    assert {name: count for name, count in after.items() if count > before[name]} == {}
    assert resident_bytes() <= MOST_GROWTH * memory
