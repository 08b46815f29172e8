"""Clipping by the length of all gradients together."""

from __future__ import annotations

import numpy as np
import pytest

import vkgrad as vg
from tests.golden.patterns import chirp
from vkgrad.errors import DifferentiationError


def test_long_gradients_are_shortened_and_short_ones_stay() -> None:
    gradients = {"w": vg.tensor(chirp((3, 4), 2.0, 0.1)), "b": [vg.tensor(chirp((5,), 3.0, 0.7))]}
    flat = np.concatenate([gradients["w"].numpy().ravel(), gradients["b"][0].numpy()]).astype(np.float64)
    length = np.sqrt((flat**2).sum())
    clipped, norm = vg.optim.clip_grad_norm(gradients, 0.5)
    assert float(norm) == pytest.approx(length, rel=1e-6)
    assert np.allclose(clipped["b"][0], flat[12:] * 0.5 / length, rtol=1e-5)
    same, _ = vg.optim.clip_grad_norm(gradients, 100.0)
    assert np.array_equal(same["w"], gradients["w"])


def test_gradients_left_by_backward_are_clipped_in_place() -> None:
    model = vg.nn.Linear(3, 2)
    (model(chirp((4, 3), 1.0, 0.2)) * 100).sum().backward()
    before = model.weight.grad.numpy()
    norm = vg.optim.clip_grad_norm_(model.parameters(), 1.0)
    length = np.sqrt(sum((p.grad.numpy().astype(np.float64) ** 2).sum() for p in model.parameters()))
    assert length == pytest.approx(1.0, rel=1e-5)
    assert np.allclose(model.weight.grad, before / float(norm), rtol=1e-5)


def test_nothing_to_clip_is_refused() -> None:
    with pytest.raises(DifferentiationError, match="no gradients"):
        vg.optim.clip_grad_norm([], 1.0)
    with pytest.raises(DifferentiationError, match="no gradients"):
        vg.optim.clip_grad_norm_(vg.nn.Linear(2, 2).parameters(), 1.0)


def test_a_length_that_is_no_number_is_refused_where_that_is_asked() -> None:
    w = vg.tensor([1.0, 2.0], requires_grad=True)
    w.grad = vg.tensor([np.nan, 1.0])
    assert np.isnan(float(vg.optim.get_total_norm(w.grad)))
    with pytest.raises(DifferentiationError, match="length of the gradients is nan"):
        vg.optim.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
    assert vg.optim.get_total_norm([vg.tensor([3.0]), vg.tensor([[-4.0]])]).item() == 5.0
