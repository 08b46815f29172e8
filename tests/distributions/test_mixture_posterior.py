"""The posterior of a mixture of three normals against NumPy, in double precision, and how many dispatches one takes.

The reference is written with NumPy's complex functions: its derivatives are imaginary parts of values a tiny imaginary
step away, which loses no digit (W. Squire, G. Trapp, "Using Complex Variables to Estimate Derivatives of Real
Functions", 1998).
"""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np
import pytest

import vkgrad as vg
from vkgrad import distributions as D
from vkgrad import engine

COUNT = 200
pytestmark = pytest.mark.device


def observed() -> np.ndarray:
    generator = np.random.default_rng(0)
    which = generator.choice(3, COUNT, p=[0.3, 0.5, 0.2])
    return np.array([-2.0, 0.5, 3.0])[which] + np.array([0.5, 1.0, 0.4])[which] * generator.standard_normal(COUNT)


def log_posterior(theta: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    """Eight numbers: two that break the stick of weights, three means, three logarithms of deviations."""
    sticks, means, log_scales = theta[:2], theta[2:5], theta[5:]
    to_weights, to_scales = D.biject_to(D.constraints.simplex), D.ExpTransform()
    weights, scales = to_weights(sticks), to_scales(log_scales)
    prior = (
        D.Dirichlet(vg.tensor([2.0, 2.0, 2.0], "float64")).log_prob(weights)
        + to_weights.log_abs_det_jacobian(sticks, weights)
        + D.Normal(0.0, 3.0).log_prob(means).sum()
        + (D.Gamma(2.0, 1.5).log_prob(scales) + to_scales.log_abs_det_jacobian(log_scales, scales)).sum()
    )
    return prior + D.MixtureSameFamily(D.Categorical(weights), D.Normal(means, scales)).log_prob(y).sum()


def reference(theta: np.ndarray, y: np.ndarray) -> complex:
    """The same by hand, of complex numbers."""
    z = 1 / (1 + np.exp(-(theta[:2] - np.log([2.0, 1.0]))))
    weights = np.array([z[0], (1 - z[0]) * z[1], (1 - z[0]) * (1 - z[1])])
    means, scales = theta[2:5], np.exp(theta[5:])
    jacobian = np.log(z[0] * (1 - z[0])) + np.log(z[1] * (1 - z[1])) + np.log(1 - z[0])
    prior = lgamma(6) - 3 * lgamma(2) + np.log(weights).sum() + jacobian
    prior += (-0.5 * (means / 3) ** 2 - log(3) - 0.5 * log(2 * pi)).sum()
    prior += (2 * log(1.5) - lgamma(2) + np.log(scales) - 1.5 * scales + theta[5:]).sum()
    apart = (y[:, None] - means) / scales
    densities = weights * np.exp(-0.5 * apart**2) / (scales * np.sqrt(2 * pi))
    return prior + np.log(densities.sum(1)).sum()


def needs_doubles() -> None:
    if not getattr(getattr(vg.default_device(), "limits", None), "float64", True):
        pytest.skip("this device has no double precision")


def test_a_posterior_of_eight_variables() -> None:
    needs_doubles()
    y = observed()
    value_and_grad = vg.value_and_grad(log_posterior)
    for seed in range(3):
        theta = np.random.default_rng(seed).uniform(-1, 1, 8)
        x, data = vg.tensor(theta), vg.tensor(y)
        with vg.counting() as c:
            value, gradient = value_and_grad(x, data)
            vg.eval(value, gradient)
        assert (c.host_nodes, c.submissions) == (0, 1)
        assert value.dtype is gradient.dtype is vg.float64
        assert engine.values[value.node].device is engine.device()
        expected = reference(theta.astype(complex), y)
        steps = [reference(theta + 1e-30j * (np.arange(8) == k), y).imag / 1e-30 for k in range(8)]
        assert abs(value.item() / expected.real - 1) < 1e-12  # asked for: 1e-7
        np.testing.assert_allclose(gradient.numpy(), steps, rtol=1e-10, atol=1e-10 * np.abs(steps).max())


def test_a_wrong_posterior_is_noticed() -> None:
    needs_doubles()
    y, theta = observed(), np.random.default_rng(0).uniform(-1, 1, 8)
    without = vg.grad(lambda x: log_posterior(x, vg.tensor(y)) - x[0] * 1e-6)(vg.tensor(theta)).numpy()
    steps = [reference(theta + 1e-30j * (np.arange(8) == k), y).imag / 1e-30 for k in range(8)]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(without, steps, rtol=1e-10, atol=1e-10 * np.abs(steps).max())


def dispatches(components: int) -> int:
    """How many dispatches the value and the gradient of a mixture of so many components take."""
    generator = np.random.default_rng(components)
    y, logits, means, scales = (
        vg.tensor(generator.uniform(0.5, 2, n).astype(np.float32)) for n in (50, *[components] * 3)
    )

    def total(logits: vg.Tensor, means: vg.Tensor, scales: vg.Tensor) -> vg.Tensor:
        return D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(means, scales)).log_prob(y).sum()

    vg.flush()
    with vg.counting() as c:
        value, gradients = vg.value_and_grad(total, argnums=(0, 1, 2))(logits, means, scales)
        vg.eval(value, *gradients)
    assert (c.host_nodes, c.submissions) == (0, 1)
    joint = logits.numpy() - np.log(np.exp(logits.numpy()).sum())
    joint = joint - 0.5 * ((y.numpy()[:, None] - means.numpy()) / scales.numpy()) ** 2 - np.log(scales.numpy())
    expected = (np.log(np.exp(joint).sum(1)) - 0.5 * log(2 * pi)).sum()
    assert value.item() == pytest.approx(expected, rel=1e-5)
    return c.dispatches


def test_dispatches_do_not_grow_with_the_components() -> None:
    found = {components: dispatches(components) for components in (4, 32, 256, 1024)}
    assert max(found.values()) <= 5, found  # 4, and one more where a long sum is taken in two steps
