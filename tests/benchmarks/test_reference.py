"""The float64 reference against finite differences, and the numbers that the cases promise."""

from __future__ import annotations

import numpy as np
import pytest

from vkgrad.bench import cases, reference
from vkgrad.bench.cases import Case


@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_gradients_agree_with_finite_differences(model):
    data = cases.make(Case(model, 4))
    random = np.random.default_rng(7)
    weights = [weight.astype(np.float64) for weight in data.weights]
    images, labels = data.images[1].astype(np.float64), data.labels[1]
    _, gradients = reference.PASSES[model](weights, images, labels)
    for weight, gradient in zip(weights, gradients, strict=True):
        direction = random.standard_normal(weight.shape)
        losses = []
        for shift in (1e-6, -1e-6):
            moved = [w + shift * direction if w is weight else w for w in weights]
            losses.append(reference.PASSES[model](moved, images, labels)[0])
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx((gradient * direction).sum(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("model", ["mlp", "lenet"])
def test_losses_do_not_depend_on_the_chunk(model, monkeypatch):
    data = cases.make(Case(model, 10))
    whole = reference.losses(model, data, (0, 1))
    monkeypatch.setattr(reference, "CHUNK", 3)
    assert reference.losses(model, data, (0, 1)) == pytest.approx(whole, rel=1e-12)


def test_data_survives_its_file_and_differs_between_cases(tmp_path):
    data = cases.make(Case("lenet", 2))
    cases.save(tmp_path / "data.npz", data)
    back = cases.load(tmp_path / "data.npz")
    assert all((a == b).all() for a, b in zip(data.weights, back.weights, strict=True))
    assert [w.shape for w in back.weights] == list(cases.SHAPES["lenet"])
    assert (back.images == data.images).all() and (back.labels == data.labels).all()
    assert (cases.make(Case("mlp", 2)).images[0, 0] != cases.make(Case("mlp", 3)).images[0, 0]).any()


def test_flops_of_the_mlp_are_those_of_its_five_products():
    # Two forward, two for the weights, one for the hidden layer: 3 * 784 * 128 would count the images' gradient.
    assert Case("mlp", 1).flops == 2 * (2 * 784 * 128 + 3 * 128 * 10)
