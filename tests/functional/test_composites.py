"""Composites: the same graph, gradients, history and errors as by calling the function, which is called once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import engine
from vkgrad.composites import MOST_PARTS, composite
from vkgrad.config import config
from vkgrad.errors import ShapeError


def counted(function: Callable) -> tuple[Callable, list[int]]:
    calls: list[int] = []

    def counting(*arguments, **named):
        calls.append(1)
        return function(*arguments, **named)

    return composite(counting), calls


def x(*values: float) -> vg.Tensor:
    return vg.tensor(list(values))


def test_it_is_called_once_and_builds_the_same_nodes() -> None:
    plain = lambda a, b, scale=1.0: (a - b.detach()) * scale + a.sum()  # noqa: E731
    replayed, calls = counted(plain)
    for _ in range(3):
        a, b = x(1, 2, 3), x(4, 5, 6)
        assert replayed(a, b, scale=2.0).node is plain(a, b, scale=2.0).node
        assert replayed(a, a, scale=2.0).node is plain(a, a, scale=2.0).node, "one tensor may be two arguments"
    assert len(calls) == 1


def test_what_it_may_depend_on_is_told_apart() -> None:
    one = x(1.0)
    for first, second in [
        ((one, 1), (one, 1.0)), ((one, 0.0), (one, -0.0)), ((one, 1), (one, True)), ((one, (1, 2)), (one, (2, 1))),
        ((one, 2), (x(1.0, 2.0), 2)), ((one, 2), (vg.tensor([1]), 2)), ((one, 2), (2, one)), ((one, None), (one, "")),
    ]:  # fmt: skip
        replayed, calls = counted(lambda *_: one)
        for arguments in (first, second, first, second):
            replayed(*arguments)
        assert len(calls) == 4 + 2, "it returns something from outside, and is called for each key once to find out"
        replayed, calls = counted(lambda *given: next(t for t in given if isinstance(t, vg.Tensor)) * 2)
        for arguments in (first, second, first, second):
            replayed(*arguments)
        assert len(calls) == 2


def test_autocast_is_part_of_what_it_depends_on() -> None:
    replayed, calls = counted(lambda a: a @ a)
    a = vg.ones((2, 2))
    assert replayed(a).dtype is vg.float32
    with vg.autocast(vg.bfloat16):
        assert replayed(a).dtype is vg.bfloat16
    assert replayed(a).dtype is vg.float32 and len(calls) == 2


def test_several_results_come_in_their_nesting() -> None:
    replayed, _ = counted(lambda a: (a, {"twice": a * 2, "nothing": None}))
    for value in (1.0, 3.0):
        same, rest = replayed(x(value))
        assert (same.tolist(), rest["twice"].tolist(), rest["nothing"]) == ([value], [2 * value], None)


def test_gradients_and_history() -> None:
    replayed, _ = counted(lambda a, b: (a * b).sum())
    for value in (2.0, 3.0):
        w = x(value)
        w.requires_grad = True
        loss = replayed(w, x(5.0))
        assert loss.keeps_history
        loss.backward()
        assert w.grad is not None and w.grad.tolist() == [5.0]
        assert vg.grad(lambda a: replayed(a, a))(x(value)).tolist() == [2 * value]
    assert not replayed(x(1.0), x(2.0)).keeps_history
    with vg.no_grad():
        assert not replayed(w, w).keeps_history


def test_one_that_cannot_be_replayed_is_called_each_time() -> None:
    looks, seen = counted(lambda a: a * 2 if float(a.sum()) > 0 else a)
    draws, drawn = counted(lambda a: a + vg.tensor([len(drawn)]))
    assert looks(x(1.0)).tolist() == [2.0] and looks(x(-1.0)).tolist() == [-1.0]
    assert draws(x(0.0)).tolist() != draws(x(0.0)).tolist()
    taken, calls = counted(lambda a, other: a * 2)
    for _ in range(2):
        taken(x(1.0), np.ones(3))
        taken(x(1.0), [1.0] * (MOST_PARTS + 1))
    assert len(seen) == 3 and len(calls) == 4


def test_errors_are_those_of_the_function_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ShapeError, match=r"linear: input \(2, 3\)"):
            vg.nn.functional.linear(vg.ones((2, 3)), vg.ones((4, 5)))


def test_recording_leaves_nothing_pending() -> None:
    replayed, _ = counted(lambda a: a * 2 + 1)
    vg.flush()
    y = replayed(x(1.0))
    (handle,) = engine.waiting()
    assert handle is y
    assert y.tolist() == [3.0]


def test_without_sharing_it_is_called_each_time() -> None:
    replayed, calls = counted(lambda a: a * 2)
    with config.override(cse=False):
        for _ in range(2):
            replayed(x(1.0))
    assert len(calls) == 2


def test_under_jit_and_vmap() -> None:
    replayed, calls = counted(lambda a, b: (a * b).sum())
    a = vg.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert vg.vmap(lambda row: replayed(row, row))(a).tolist() == [1.0, 13.0, 41.0]
    step = vg.jit(lambda a: vg.value_and_grad(lambda a: replayed(a, a))(a))
    for scale in (1.0, 2.0):
        value, gradient = step(a * scale)
        assert float(value) == 55 * scale**2
        np.testing.assert_array_equal(gradient.numpy(), 2 * scale * a.numpy())
    assert len(calls) == 2  # by shape


def test_an_optimiser_s_rule_is_asked_once_and_anew_when_an_option_changes() -> None:
    asked: list[float] = []

    class Scaled(vg.optim.Optimizer):
        scale = 1.0

        def updated(self, p, g, state, shared, lr):
            asked.append(self.scale)
            return p - lr * g * self.scale, {}

    weights = [x(1.0, 2.0), x(3.0, 4.0), x(5.0)]
    optimiser = Scaled(weights, lr=0.5)
    ones = [vg.ones(weight.shape) for weight in weights]
    optimiser.update(weights, ones)
    optimiser.lr = 0.25
    optimiser.update(weights, ones)
    assert asked == [1.0] * 3, "once for each parameter, whatever the rate"
    assert [weight.tolist() for weight in weights] == [[0.25, 1.25], [2.25, 3.25], [4.25]]
    optimiser.scale = 2.0
    optimiser.update(weights, ones)
    assert asked == [1.0] * 3 + [2.0] * 3
    assert [weight.tolist() for weight in weights] == [[-0.25, 0.75], [1.75, 2.75], [3.75]]
