"""Attempts to break the steady state of a recorded step, where results are handed out again and nothing is looked at.

Each program first runs long enough to be in that state, which a counter of `Step.again` shows, and then does something
that must end it, or that must not.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine, nn, optim
from vkgrad.config import config
from vkgrad.step import MISSED, RING, Step


@pytest.fixture(autouse=True, params=["cpu", ""], ids=["cpu", "vulkan"])
def each_device(request: pytest.FixtureRequest) -> Iterator[None]:
    with config.override(device=request.param):
        yield


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call since then was one of the steady state."""
    found: list[bool] = []
    again = Step.again

    def watched(self: Step, arguments: tuple) -> Any:
        result = again(self, arguments)
        found.append(result is not MISSED)
        return result

    monkeypatch.setattr(Step, "again", watched)
    return found


def t(*values: float) -> vg.Tensor:
    return vg.tensor(array(*values))


def array(*values: float) -> np.ndarray:
    return np.array(values, "f4")


def settle(step: Callable[..., Any], *arguments: Any) -> None:
    for _ in range(2 * RING + 1):
        step(*arguments)


@pytest.mark.parametrize("kind", ["array", "tensor", "resident", "none", "constant", "module"])
def test_the_steady_state_is_reached(kind: str, hits: list[bool]) -> None:
    resident, model = t(1, 2), nn.Linear(2, 1)
    vg.eval(resident)
    arguments: dict[str, Callable[[], tuple]] = {
        "array": lambda: (array(1, 2),),
        "tensor": lambda: (t(1, 2),),
        "resident": lambda: (resident,),
        "none": lambda: (),
        "constant": lambda: (array(1, 2), 3, None, "text", True),
        "module": lambda: (array(1, 2), model),
    }
    w = t(0, 0)
    step = vg.jit(lambda *given: w.assign(w + (given[0] if given else 1.0)))
    for _ in range(2 * RING):
        step(*arguments[kind]())
    del hits[:]
    with vg.counting() as c:
        for _ in range(5):
            step(*arguments[kind]())
    assert hits == [True] * 5
    assert (c.submissions, c.flushes, c.buffers_allocated, c.plans_built) == (5, 5, 0, 0)
    assert c.bytes_uploaded == (0 if kind in ("resident", "none") else 5 * 8)
    runs = 2 * RING + 5
    assert w.tolist() == [runs, runs if kind == "none" else 2 * runs]


def test_results_that_somebody_has_are_not_handed_out_again(hits: list[bool]) -> None:
    step = vg.jit(lambda x: (x * 2, x + 1))
    kept: list[tuple[float, Any]] = []
    copy = t(0, 0)
    ways: list[Callable[[vg.Tensor], Any]] = [
        lambda r: r,
        lambda r: r.reshape(2),  # another tensor of the same leaf
        lambda r: r.astype("float32"),
        lambda r: r.detach(),
        lambda r: r * 1.0,  # an operation that is not computed yet
        lambda r: r.node,
        lambda r: vg.eval(r * 1.0) or r,
        lambda r: copy.assign(r) or r,
    ]
    for i in range(60):
        double, _ = step(array(i, -i))
        if i % 3 == 0:
            kept.append((2.0 * i, ways[i // 3 % len(ways)](double)))
    for value, held in kept:
        tensor = held if isinstance(held, vg.Tensor) else vg.Tensor(held)
        assert tensor.tolist() == [value, -value]
    assert any(hits)


def test_a_copy_of_a_result_stays_when_later_ones_take_its_memory() -> None:
    step = vg.jit(lambda x: x * 2)
    copies = [t(0, 0) for _ in range(4)]
    for i in range(40):
        result = step(array(i, -i))
        if i % 10 == 9:
            copies[i // 10].assign(result)
        del result
    assert [c.tolist() for c in copies] == [[2.0 * i, -2.0 * i] for i in (9, 19, 29, 39)]


@pytest.mark.filterwarnings("ignore:.*was recorded")
def test_a_dropped_result_is_gone() -> None:
    """Another step may rely on it; were its tensor kept for reuse, that step would not notice."""
    step = vg.jit(lambda x: x * 2)
    held: dict[str, vg.Tensor] = {}
    reader = vg.jit(lambda: held["a"] + 1)
    for i in range(5 * RING):
        held["a"] = step(array(i, i))
        assert reader().tolist() == [2 * i + 1] * 2
    result = step(array(1, 1))
    gone = weakref.ref(result)
    del result
    gc.collect()
    assert gone() is None


def test_a_result_read_late_and_twice(hits: list[bool]) -> None:
    step = vg.jit(lambda x: (x.sum(), x * 2))
    settle(step, array(1, 2))
    for i in range(12):
        total, double = step(array(i, i))
        if i % 4 == 0:
            assert float(total) == float(total) == 2 * i
            assert double.tolist() == double.tolist() == [2 * i, 2 * i]
    assert hits[-12:] == [True] * 12


def test_another_shape_type_or_constant_in_between() -> None:
    step = vg.jit(lambda x, factor: x * factor)
    settle(step, array(1, 2), 2)
    for i in range(4):
        assert step(array(1, 2), 2).tolist() == [2, 4]
        assert step(array(1, 2, 3), 2).tolist() == [2, 4, 6]
        assert step(np.array([1, 2], "i4"), 2).tolist() == [2, 4]
        assert step(array(1, 2), 2).tolist() == [2, 4]
        assert step(array(1, 2), 2.5).tolist() == [2.5, 5]
        assert step(array(1, 2)[::-1], 2).tolist() == [4, 2]
        assert step(array(1, 2).astype(">f4"), 2).tolist() == [2, 4]
        assert step(t(i, 2), 2).tolist() == [2 * i, 4]
        assert step(x=array(1, 2), factor=2).tolist() == [2, 4]
    assert step(array(1, 2), True).dtype is vg.float32


def test_the_world_changes_between_calls(hits: list[bool]) -> None:
    w, model = t(1, 2), nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    factor = t(0.5, 0.5)

    @vg.jit
    def step(x: vg.Tensor) -> vg.Tensor:
        w.assign(w + x * factor)
        return w * (1.0 if model.training else -1.0)

    settle(step, array(1, 1))
    value = w.numpy()

    def run(rate: float = 0.5, sign: float = 1.0) -> None:
        nonlocal value
        for _ in range(RING + 2):
            value = value + np.float32(rate)
            np.testing.assert_array_equal(step(array(1, 1)).numpy(), value * np.float32(sign))

    run()
    w.assign(t(10, 20))
    value = array(10, 20)
    run()
    w.assign(w * 2)
    value = value * 2
    run()
    factor.assign(t(0.25, 0.25))
    run(0.25)
    model.eval()
    run(0.25, -1)
    model.train()
    run(0.25)
    old = w * 1.0
    before = value
    run(0.25)
    np.testing.assert_array_equal(old.numpy(), before)
    assert hits[-1] and not all(hits)


def test_it_waits_its_turn_among_other_work() -> None:
    w = t(1, 1)
    add, double = vg.jit(lambda x: w.assign(w + x)), vg.jit(lambda: w.assign(w * 2))
    plain = 1.0
    for i in range(30):
        add(array(i % 3, i % 3))
        plain += i % 3
        if i % 2:
            double()
            plain *= 2
        if i % 5 == 4:
            w.assign(w / 4.0)
            plain /= 4
        if i % 7 == 6:
            assert w.tolist() == [plain, plain]
    assert w.tolist() == [plain, plain]


# ---- arguments read where they are
def test_arguments_on_the_device_that_change_die_and_come_back(hits: list[bool]) -> None:
    step = vg.jit(lambda x, y: x * 10 + y)
    for i in range(8):
        x, y = t(i, i + 1), t(1, 2)
        vg.eval(x, y)
        for _ in range(2 * RING):
            assert step(x, y).tolist() == [10 * i + 1, 10 * i + 12]
            assert step(y, x).tolist() == [10 + i, 20 + i + 1]
            assert step(x, x).tolist() == [11 * i, 11 * (i + 1)]
        x.assign(x + 1)
        assert step(x, y).tolist() == [10 * i + 11, 10 * i + 22]
        del x, y  # what comes next may get their ids, and their memory
        gc.collect()
    assert any(hits)
    recording = step.latest
    assert recording is not None and len(recording.bound) <= 8


def test_more_arguments_on_the_device_than_it_reads_in_place() -> None:
    step = vg.jit(lambda x: x + 1)
    many = [t(i, i) for i in range(20)]
    vg.eval(many)
    for _ in range(5):
        for i, x in enumerate(many):
            assert step(x).tolist() == [i + 1, i + 1]
    assert step.latest is not None and len(step.latest.bound) == 8


def test_an_argument_that_another_step_updates(hits: list[bool]) -> None:
    w, expected = t(1, 2), array(1, 2)
    vg.eval(w)
    read = vg.jit(lambda x: x * 10)
    settle(read, w)
    write = vg.jit(lambda: w.assign(w + 1))
    for _ in range(3 * RING):
        write()
        expected = expected + 1
        assert read(w).tolist() == (expected * 10).tolist()
    assert any(hits)


@pytest.mark.parametrize("often", [1, 2, 5])
def test_an_argument_that_the_step_itself_updates_under_another_name(often: int) -> None:
    w, x = t(1, 2), t(0, 0)
    vg.eval(w, x)

    @vg.jit
    def step(given: vg.Tensor) -> vg.Tensor:
        w.assign(w + 1)
        return given * w.sum()  # reads the argument after the update, which is in place

    expected = array(1, 2)
    for i in range(6 * RING):
        given = x if i % often else w
        before = given.numpy()
        expected = expected + 1
        assert step(given).tolist() == (before * expected.sum()).tolist()
    assert w.tolist() == expected.tolist()


def test_a_result_given_to_another_step_again_and_again() -> None:
    make, use = vg.jit(lambda x: x * 2), vg.jit(lambda r: r + 1)
    result = make(array(1, 2))
    for i in range(3 * RING):
        assert use(result).tolist() == [3, 5]
        make(array(i, i))  # takes back the memory that the result was in


def test_a_new_argument_with_the_id_of_an_old_one() -> None:
    step = vg.jit(lambda x: x * 10)
    seen: set[int] = set()
    met_again = 0
    for i in range(300):
        x = t(i, -i)
        vg.eval(x)
        number = id(engine.values[x.node])
        met_again += number in seen
        seen.add(number)
        for _ in range(3):
            assert step(x).tolist() == [10 * i, -10 * i]
        assert step.latest is not None and all(value() is not None for value in step.latest.bound.values())
        del x
    assert met_again > 10  # else this test shows nothing
    assert len(step.latest.rings) < 4


def test_results_that_come_back_as_arguments(hits: list[bool]) -> None:
    """As in functional style: parameters go in, new ones come out."""
    step = vg.jit(lambda state, other, x: (state * 0.5 + x, other + state))
    state, other = t(0, 0), t(1, 1)
    a, b = array(0, 0), array(1, 1)
    kept = []
    for i in range(12 * RING):
        x = array(i % 5, -i % 3)
        state, other = step(state, other, x)
        a, b = a * np.float32(0.5) + x, b + a
        if i % 8 == 7:
            kept.append((state, a))
    np.testing.assert_array_equal(other.numpy(), b)
    for tensor, right in kept:
        np.testing.assert_array_equal(tensor.numpy(), right)
    for _ in range(2 * RING):
        state, other = step(state, other, array(0, 0))
    with vg.counting() as c:
        state, other = step(state, other, array(0, 0))
    assert hits[-3:] == [True] * 3
    assert (c.submissions, c.buffers_allocated, c.bytes_uploaded) == (1, 0, 8)


# ---- what else is about
def test_a_settled_step_inside_a_function_that_is_recorded() -> None:
    w = t(0, 0)
    inner = vg.jit(lambda: w.assign(w + 1))
    settle(inner)
    outer = vg.jit(lambda x: (inner(), x * 2)[1])
    before = w.numpy()
    for i in range(1, 2 * RING):
        assert outer(array(1, 2)).tolist() == [2, 4]
        np.testing.assert_array_equal(w.numpy(), before + i)


def test_autocast_around_a_settled_step() -> None:
    x = vg.tensor(np.random.default_rng(0).random((8, 8), "f4"))
    product = vg.jit(lambda a: a @ x)
    settle(product, x)
    exact = product(x).tolist()
    with vg.autocast(vg.bfloat16):
        rough = product(x)
        assert rough.dtype is vg.bfloat16 or rough.tolist() != exact
    assert product(x).tolist() == exact


def test_a_read_that_was_broken_off_leaves_nothing_behind(hits: list[bool]) -> None:
    w = t(1, 2)
    step = vg.jit(lambda x: w.assign(w + x))
    settle(step, array(0, 0))
    engine.evaluate([], read=[w.node])  # its bytes are on their way when the reader is interrupted
    step(array(1, 1))
    assert w.tolist() == [2, 3] and hits[-1]


# ---- gradients
def test_gradients_are_right_in_the_steady_state_and_seen_by_others(hits: list[bool]) -> None:
    def trained(jit: bool) -> list[list[float]]:
        vg.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model, lr=0.1, momentum=0.9)

        def step(x: vg.Tensor) -> vg.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        def size() -> vg.Tensor:
            return sum((vg.norm(p.grad) for p in model.parameters()), vg.tensor(0.0))

        run, measure = (vg.jit(step), vg.jit(size)) if jit else (step, size)
        found, kept = [], []
        for i in range(24):
            loss = run(np.full((2, 3), i % 4, "f4"))
            if i % 6 == 5:
                kept.append(model.weight.grad)
                found.append([float(loss), float(measure()), *model.weight.grad.numpy().reshape(-1).tolist()])
        found += [k.numpy().reshape(-1).tolist() for k in kept]
        return found

    expected = trained(False)
    del hits[:]
    for found, right in zip(trained(True), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=1e-7)
    assert sum(hits) > 6


def test_threads_in_the_steady_state() -> None:
    import threading

    w = t(0)
    step = vg.jit(lambda x: w.assign(w + x))
    settle(step, array(0))

    def work() -> None:
        for _ in range(50):
            step(array(1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.item() == 200
