"""Least squares in closed form: normal equations, `vg.linalg.lstsq`, and the gradient of a fit by its data.

    python examples/linear_regression.py

Takes seconds, and ends in an assertion.
"""

from __future__ import annotations

import numpy as np

import vkgrad as vg


def by_normal_equations(a: vg.Tensor, y: vg.Tensor) -> vg.Tensor:
    """The x that minimises |a x - y|, from (aᵀ a) x = aᵀ y. Squares the condition number of a."""
    return vg.linalg.solve(a.T @ a, a.T @ y)


def main() -> None:
    design_key, noise_key = vg.random.split(vg.random.key(0))
    coefficients = np.array([1.5, -2.0, 0.25, 3.0], np.float32)
    features = vg.random.normal(design_key, (200, 3))
    a = vg.concat([features, vg.ones((200, 1))], axis=1)
    y = a @ coefficients + 0.01 * vg.random.normal(noise_key, (200,))

    normal = by_normal_equations(a, y)
    least = vg.linalg.lstsq(a, y).solution
    exact = np.linalg.lstsq(np.asarray(a, np.float64), np.asarray(y, np.float64))[0]
    for name, found in (("normal equations", normal), ("lstsq", least)):
        error = np.abs(found.numpy() - exact).max()
        print(f"{name:17} {found.numpy().round(4)}, {error:.1e} from NumPy in double precision")
        assert error < 2e-6, f"{name} is not the least-squares solution"
    assert np.abs(exact - coefficients).max() < 0.01

    # Polynomials of degree 7 square to a matrix that float32 cannot solve; the orthogonal factors of lstsq can.
    powers = vg.linspace(0.0, 1.0, 50)[:, None] ** vg.arange(8)
    ones = vg.ones((8,))
    lost = float(abs(by_normal_equations(powers, powers @ ones) - ones).max())
    kept = float(abs(vg.linalg.lstsq(powers, powers @ ones).solution - ones).max())
    print(f"degree 7: normal equations are wrong by {lost:.1e}, lstsq by {kept:.1e}")
    assert kept < 0.05

    # How does the first coefficient move when a measurement does? It is a row of the pseudoinverse.
    influence = vg.grad(lambda y: by_normal_equations(a, y)[0])(y)
    expected = np.linalg.pinv(a.numpy())[0]
    print(f"most influential measurement: number {int(vg.argmax(abs(influence)))}")
    assert np.allclose(influence.numpy(), expected, atol=1e-6), "the gradient is not the pseudoinverse's row"


if __name__ == "__main__":
    main()
