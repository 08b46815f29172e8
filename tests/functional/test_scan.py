"""`scan`: what a loop written out gives, in every direction and under every transform; what is refused is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from vkgrad.errors import DTypeError, ShapeError
from vkgrad.testing import check_grads

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def leaky(h: Any, x: Any) -> tuple[Any, Any]:
    new = 0.5 * h + vg.tanh(x)
    return new, {"new": new, "old": h}


def written_out(reverse: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    h, news, olds = np.ones(3, np.float32), np.empty_like(X), np.empty_like(X)
    for t in range(4)[:: -1 if reverse else 1]:
        olds[t] = h
        h = news[t] = 0.5 * h + np.tanh(X[t])
    return h, {"new": news, "old": olds}


@pytest.mark.parametrize("reverse", [False, True])
def test_it_is_the_loop_written_out(reverse: bool) -> None:
    last, ys = vg.scan(leaky, vg.ones(3), X, reverse=reverse)
    expected, stacked = written_out(reverse)
    np.testing.assert_allclose(last, expected, rtol=1e-6)
    assert list(ys) == ["new", "old"]
    for name, y in ys.items():
        np.testing.assert_allclose(y, stacked[name], rtol=1e-6)


def test_derivatives_of_states_slices_and_what_is_closed_over() -> None:
    def loss(h: Any, x: Any, w: Any) -> Any:
        last, ys = vg.scan(lambda h, v: (vg.tanh(w * h + v), h * v), h, x)
        return last.sum() + (ys**2).sum()

    check_grads(loss, (np.ones(3), X.astype("f8"), np.float64(0.7)), order=2)


def test_it_is_recorded_and_mapped() -> None:
    run = lambda x: vg.scan(leaky, vg.ones(3), x)[1]["new"]  # noqa: E731
    np.testing.assert_array_equal(vg.jit(run)(vg.tensor(X)), run(vg.tensor(X)))
    both = vg.tensor(np.stack([X, -X]))
    np.testing.assert_array_equal(vg.vmap(run)(both)[1], run(both[1]))


def test_many_steps_are_one_submission() -> None:
    x = vg.tensor(np.ones((100, 3), np.float32))
    vg.eval(x)
    vg.flush()
    with vg.counting() as counted:
        vg.scan(leaky, vg.ones(3), x)[0].numpy()
    assert counted.submissions == 1


def test_without_xs_length_says_how_many() -> None:
    last, ys = vg.scan(lambda n, _: (n * 2, None), vg.tensor(1), length=5)
    assert last.item() == 32
    assert ys is None


def test_no_steps_stack_nothing() -> None:
    last, ys = vg.scan(leaky, vg.ones(3), vg.zeros((0, 3)))
    assert last.tolist() == [1, 1, 1]
    assert ys["new"].shape == (0, 3)


Bad = tuple[tuple, dict[str, Any], type[Exception], str]
BAD: dict[str, Bad] = {
    "shape": ((lambda h, x: (vg.concat([h, x]), None), vg.ones(3), X), {}, ShapeError, r"of shape \(3,\) into \(6,\)"),
    "type": ((lambda n, x: (n + x, None), 0, X[:, 0]), {}, DTypeError, "int32 into float32; begin with float32"),
    "nesting": ((lambda h, x: ((h, h), None), vg.ones(3), X), {}, ShapeError, "another nesting"),
    "no pair": ((lambda h, x: h, vg.ones(()), X), {}, ShapeError, "must return a pair"),
    "lengths": ((leaky, vg.ones(3), {"a": X, "b": X[:2]}), {}, ShapeError, r"xs\['a'\] 4, xs\['b'\] 2"),
    "length": ((leaky, vg.ones(3), X), {"length": 5}, ShapeError, "length 5, xs 4"),
    "no length": ((leaky, vg.ones(3)), {}, ShapeError, "give xs, or say with length"),
    "no axis": ((leaky, vg.ones(3), 2.0), {}, ShapeError, "no leading axis"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_said(name: str) -> None:
    arguments, options, error, words = BAD[name]
    with pytest.raises(error, match=words):
        vg.scan(*arguments, **options)
