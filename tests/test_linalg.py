"""Linear algebra against NumPy in double precision: what the parts multiply to, where it ran, derivatives, and edges.

The sizes are on both sides of a block, so that one dispatch and the composition of several are both seen. A bound is in
units of rounding of the type; it grows with the size of the matrix, as the published bounds do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.ops.test_gradients import replaced_rule
from tests.variants import close, draw
from vkgrad.errors import DTypeError, OptionError, ShapeError, UnsupportedError
from vkgrad.ir.op import OPS
from vkgrad.ops import factorisations
from vkgrad.ops.factorisations import BLOCK
from vkgrad.testing import check_grads

SIZES = (1, 3, BLOCK, BLOCK + 5)


def general(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return draw(*shape, dtype=dtype)


def definite(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    a = draw(*shape, dtype=np.float64)
    return (a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def near(found: Any, expected: Any, units: float, name: str = "") -> None:
    """Raise `AssertionError` where an error is above `units` roundings of the largest element, for each row of it."""
    array = found.numpy() if isinstance(found, vg.Tensor) else found
    scale = max(float(np.abs(expected).max(initial=0)), 1e-30)
    error = np.abs(array.astype(np.float64) - expected).max(initial=0) / scale
    limit = units * np.finfo(array.dtype).eps
    assert error <= limit, f"{name}: {error:.2e} of the largest, allowed {limit:.2e}"


def on_device(*results: vg.Tensor, most: int) -> None:
    """Compute `results`, and raise `AssertionError` unless that took one submission and nothing ran on the host."""
    with vg.counting() as c:
        vg.eval(*results)
    assert c.host_nodes == 0
    assert c.submissions == 1
    assert 0 < c.dispatches <= most, c.dispatches


@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n: int) -> None:
    a = definite(n, n)
    found = vg.linalg.cholesky(vg.tensor(a))
    on_device(found, most=1 if n <= BLOCK else 12)
    lower = found.numpy().astype(np.float64)
    assert not np.triu(lower, 1).any()
    near((lower @ lower.T).astype(np.float32), a.astype(np.float64), 4 + n)
    close(vg.linalg.cholesky(a, upper=True), found.numpy().T)


def test_cholesky_looks_at_the_lower_triangle_and_says_nan() -> None:
    a = definite(3, 3)
    close(vg.linalg.cholesky(np.tril(a)), vg.linalg.cholesky(a).numpy())
    found = vg.linalg.cholesky(np.diag([1.0, -1.0, 4.0]).astype(np.float32)).numpy()
    assert found[0, 0] == 1
    assert np.isnan(found[1, 1])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(n: int, lower: bool, unit: bool) -> None:
    a, y = general(n, n), general(n, 18)
    a = (a / n + 2 * np.eye(n)).astype(np.float32)
    triangle = (np.tril if lower else np.triu)(a).astype(np.float64)
    if unit:
        np.fill_diagonal(triangle, 1)
    found = vg.linalg.triangular_solve(vg.tensor(a), vg.tensor(y), lower=lower, unit=unit)
    on_device(found, most=1 if n <= BLOCK else 8)
    near(found, np.linalg.solve(triangle, y), 16 + 4 * n)
    close(vg.linalg.triangular_solve(a, y[:, 0], lower=lower, unit=unit), found.numpy()[:, 0])


@pytest.mark.parametrize("n", SIZES)
def test_lu_and_what_follows_from_it(n: int) -> None:
    a, y = general(n, n), general(n, 3)
    rows, lower, upper = vg.linalg.lu(vg.tensor(a))
    on_device(rows, lower, upper, most=4 if n <= BLOCK else 24)
    assert sorted(rows.tolist()) == list(range(n))
    near(lower @ upper, a[rows.numpy()].astype(np.float64), 4 + n)
    assert float(vg.abs(lower).max()) <= 1
    exact = a.astype(np.float64)
    condition = np.linalg.cond(exact)
    near(vg.linalg.solve(a, y), np.linalg.solve(exact, y), 8 * condition)
    near(vg.linalg.inv(a), np.linalg.inv(exact), 8 * condition)
    near(vg.linalg.det(a), np.linalg.det(exact), 8 * condition)
    sign, size = vg.linalg.slogdet(a)
    assert float(sign) == np.linalg.slogdet(exact)[0]
    near(size, np.linalg.slogdet(exact)[1], 8 * condition)


@pytest.mark.parametrize("shape", [(5, 2), (2, 5), (2, 3, 4), (3, 0), (0, 3)])
def test_lu_of_tall_and_wide_matrices(shape: tuple[int, ...]) -> None:
    a = general(*shape)
    rows, lower, upper = vg.linalg.lu(vg.tensor(a))
    least = min(shape[-2:])
    assert (lower.shape, upper.shape) == ((*shape[:-1], least), (*shape[:-2], least, shape[-1]))
    near(lower @ upper, np.take_along_axis(a, rows.numpy()[..., None], -2).astype(np.float64), 16)


def test_pivots_are_needed_and_the_first_of_equals_is_taken() -> None:
    a = np.array([[0, 1, 2], [1, 2, 3], [-1, 0, 1]], np.float32)
    assert vg.linalg.lu(a).rows.tolist() == [1, 2, 0]
    assert float(vg.linalg.det(a)) == pytest.approx(np.linalg.det(a.astype(np.float64)), abs=1e-6)
    assert not np.isfinite(vg.linalg.solve(np.zeros((2, 2), np.float32), np.ones(2, np.float32)).numpy()).any()


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (BLOCK, BLOCK), (70, BLOCK + 5), (3, 5)])
def test_qr(shape: tuple[int, int]) -> None:
    a = general(*shape)
    q, r = vg.linalg.qr(vg.tensor(a))
    on_device(q, r, most=10 if min(shape) <= BLOCK else 30)
    k = min(shape)
    near(q.mT @ q, np.eye(k), 16 + k)
    near(q @ r, a.astype(np.float64), 8 + k)
    assert not np.tril(r.numpy(), -1).any()
    whole = vg.linalg.qr(a, mode="complete")
    assert whole.Q.shape == (shape[0], shape[0])
    near(whole.Q.mT @ whole.Q, np.eye(shape[0]), 32 + 2 * shape[0])
    near(whole.Q @ whole.R, a.astype(np.float64), 8 + 2 * k)


def test_qr_of_equal_columns_is_orthonormal() -> None:
    a = np.repeat(general(50, 1), BLOCK + 8, axis=1)
    q, r = vg.linalg.qr(a)
    near(q.mT @ q, np.eye(BLOCK + 8), 100)
    near(q @ r, a.astype(np.float64), 100)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (12, 12), (3, 7)])
def test_svd(shape: tuple[int, int]) -> None:
    a = general(*shape)
    u, s, vh = vg.linalg.svd(vg.tensor(a), full_matrices=False)
    on_device(u, s, vh, most=60)
    k = min(shape)
    near(s, np.linalg.svd(a.astype(np.float64), compute_uv=False), 16 + k)
    near(u.mT @ u, np.eye(k), 32 + k)
    near(vh @ vh.mT, np.eye(k), 32 + k)
    near((u * s) @ vh, a.astype(np.float64), 32 + k)
    full = vg.linalg.svd(a)
    assert (full.U.shape, full.Vh.shape) == ((shape[0],) * 2, (shape[1],) * 2)
    near(full.U @ full.U.mT, np.eye(shape[0]), 64 + k)


def test_svd_without_full_rank() -> None:
    a = np.outer(general(6), general(4)).astype(np.float32)
    u, s, vh = vg.linalg.svd(a, full_matrices=False)
    near(u.mT @ u, np.eye(4), 64)
    near((u * s) @ vh, a.astype(np.float64), 64)
    assert int(vg.linalg.matrix_rank(a)) == 1
    near(vg.linalg.pinv(a), np.linalg.pinv(a.astype(np.float64), rcond=1e-5), 64)


@pytest.mark.parametrize("n", [1, 4, 13])
def test_eigh(n: int) -> None:
    a = general(n, n)
    symmetric = np.tril(a).astype(np.float64) + np.tril(a, -1).T
    values, vectors = vg.linalg.eigh(vg.tensor(a))
    on_device(values, vectors, most=60)
    near(values, np.linalg.eigvalsh(symmetric), 32 + n)
    near(vectors.mT @ vectors, np.eye(n), 64 + n)
    near(symmetric.astype(np.float32) @ vectors, vectors.numpy().astype(np.float64) * values.numpy(), 64 + n)


@pytest.mark.parametrize("n", [96, 128])
def test_large_spectra_are_as_right_as_small_ones(n: int) -> None:
    """Rows are turned by hundreds of others, which keeps them as long as they were."""
    a = np.random.default_rng([0, n, n]).uniform(-1, 1, (n, n)).astype(np.float32)
    symmetric = a + a.T
    w, v = vg.linalg.eigh(symmetric)
    largest = np.abs(np.linalg.eigvalsh(symmetric.astype(np.float64))).max()
    w, v = w.numpy().astype(np.float64), v.numpy().astype(np.float64)
    assert np.abs(symmetric @ v - v * w).max() < 5e-6 * largest
    assert np.abs(v.T @ v - np.eye(n)).max() < 5e-6
    u, s, vh = (x.numpy().astype(np.float64) for x in vg.linalg.svd(a))
    assert np.abs((u * s) @ vh - a).max() < 5e-6 * s.max()
    assert max(np.abs(x @ x.T - np.eye(n)).max() for x in (u, vh)) < 5e-6


def test_batches_views_and_jit() -> None:
    a, y = general(2, 3, 4, 4), general(3, 4, 2)
    expected = np.linalg.solve(a.astype(np.float64), y.astype(np.float64))
    near(vg.linalg.solve(vg.tensor(a), vg.tensor(y)), expected, 2000)
    flipped = vg.flip(vg.tensor(np.ascontiguousarray(a[..., ::-1, :])), axis=-2)
    near(vg.jit(vg.linalg.solve)(flipped, vg.tensor(y)), expected, 2000)
    near(
        vg.linalg.solve(vg.tensor(a).mT, vg.tensor(y)), np.linalg.solve(a.swapaxes(-1, -2).astype(np.float64), y), 2000
    )
    assert vg.linalg.cholesky(vg.zeros((0, 3, 3))).shape == (0, 3, 3)


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "svd", "eigh", "substitute"])
def test_double_precision_on_vulkan(name: str) -> None:
    n = BLOCK + 3 if name in ("cholesky", "lu", "qr", "substitute") else 6
    a = definite(n, n, dtype=np.float64)
    la = vg.linalg
    calls: dict[str, Callable[[vg.Tensor], vg.Tensor]] = {
        "cholesky": lambda x: la.cholesky(x) @ la.cholesky(x).mT,
        "lu": lambda x: la.lu(x).L @ la.lu(x).U,
        "qr": lambda x: la.qr(x).Q @ la.qr(x).R,
        "svd": lambda x: (la.svd(x).U * la.svd(x).S) @ la.svd(x).Vh,
        "eigh": lambda x: (la.eigh(x).eigenvectors * la.eigh(x).eigenvalues) @ la.eigh(x).eigenvectors.mT,
        "substitute": lambda x: vg.tril(x) @ la.triangular_solve(x, x),
    }
    rows = vg.linalg.lu(vg.tensor(a)).rows.numpy() if name == "lu" else np.arange(n)
    near(calls[name](vg.tensor(a)), a[rows], 200)


# ---- derivatives: the meaning on the cpu device, to second order, and the device's composition to first
def _weighted(*parts: vg.Tensor) -> vg.Tensor:
    total = vg.tensor(0.0, parts[0].dtype)
    for number, part in enumerate(parts):
        weights = np.cos(0.7 * np.arange(part.size) + number).reshape(part.shape)
        total = total + (part * vg.tensor(weights, part.dtype)).sum()
    return total


DERIVATIVES: dict[str, tuple[Callable[..., vg.Tensor], Callable[[], list[np.ndarray]]]] = {
    "cholesky": (lambda a: _weighted(vg.linalg.cholesky((a + a.mT) / 2)), lambda: [definite(3, 3)]),
    "triangular_solve": (
        lambda a, y: _weighted(vg.linalg.triangular_solve(a, y, lower=False)), lambda: [definite(3, 3), general(3, 2)],
    ),
    "unit": (
        lambda a, y: _weighted(vg.linalg.triangular_solve(a, y, unit=True)), lambda: [general(3, 3), general(3, 2)],
    ),
    "lu": (lambda a: _weighted(*vg.linalg.lu(a)[1:]), lambda: [general(4, 4)]),
    "tall lu": (lambda a: _weighted(*vg.linalg.lu(a)[1:]), lambda: [general(5, 3)]),
    "wide lu": (lambda a: _weighted(*vg.linalg.lu(a)[1:]), lambda: [general(3, 5)]),
    "large det": (lambda a: _weighted(vg.linalg.det(a)), lambda: [general(5, 5)]),
    "solve": (lambda a, y: _weighted(vg.linalg.solve(a, y)), lambda: [definite(3, 3), general(3)]),
    "inv": (lambda a: _weighted(vg.linalg.inv(a)), lambda: [definite(2, 3, 3)]),
    "det": (lambda a: _weighted(vg.linalg.det(a)), lambda: [general(3, 3)]),
    "slogdet": (lambda a: vg.linalg.slogdet(a).logabsdet, lambda: [general(3, 3)]),
    "qr": (lambda a: _weighted(*vg.linalg.qr(a)), lambda: [general(4, 3)]),
    "svd": (lambda a: _weighted(vg.linalg.svdvals(a)) + (vg.linalg.pinv(a) ** 2).sum(), lambda: [general(4, 3)]),
    "wide svd": (
        lambda a: (vg.linalg.svd(a, False).Vh ** 2 * vg.arange(12.0, dtype=a.dtype).reshape(3, 4)).sum(),
        lambda: [general(3, 4)],
    ),
    "eigh": (
        lambda a: _weighted(vg.linalg.eigvalsh(a + a.mT), vg.linalg.eigh(a + a.mT).eigenvectors ** 2),
        lambda: [general(3, 3)],
    ),
    "lstsq": (lambda a, y: _weighted(vg.linalg.lstsq(a, y).solution), lambda: [general(5, 3), general(5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str, on_cpu: None) -> None:
    function, arrays = DERIVATIVES[name]
    check_grads(function, [x.astype(np.float64) for x in arrays()], order=2)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_on_the_device(name: str) -> None:
    function, arrays = DERIVATIVES[name]
    given = arrays()
    found = vg.grad(function, argnums=tuple(range(len(given))))(*(vg.tensor(x) for x in given))
    with vg.counting() as c:
        vg.eval(*found)
    assert c.host_nodes == 0
    with vg.config.config.override(device="cpu"):
        exact = vg.grad(function, argnums=tuple(range(len(given))))(*(vg.tensor(x.astype(np.float64)) for x in given))
        expected = [x.numpy() for x in exact]
    for gradient, array in zip(found, expected, strict=True):
        near(gradient, array, 3000, name)


def cofactors(a: np.ndarray) -> np.ndarray:
    """The derivative of the determinant by each element, from the determinants of what is left without its lines."""
    n = len(a)
    found = np.zeros((n, n))
    for i, j in np.ndindex(n, n):
        found[i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return found


def singular_matrices() -> dict[str, np.ndarray]:
    five = general(5, 5).astype(np.float64)
    five[4] = five[0] + 2 * five[1]
    return {
        "2": np.array([[1.0, 2], [2, 4]]),
        "3": np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]),
        "3 of rank 1": np.array([[1.0, 2, 3], [2, 4, 6], [3, 6, 9]]),
        "5": five,
        "a zero on the diagonal": np.diag([1.0, 2, 0, 3]),
        "of rank 2": np.diag([1.0, 0, 0, 3]),
        "zero": np.zeros((4, 4)),
        "nothing but shifts": np.diag(np.ones(3), 1),
    }


@pytest.mark.parametrize("name", singular_matrices())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_of_singular_matrices_have_derivatives(name: str, dtype: str) -> None:
    a = singular_matrices()[name]
    x = vg.tensor(a.astype(dtype))
    with vg.counting() as c:
        found = vg.grad(vg.linalg.det)(x).numpy()
    assert c.host_nodes == 0 and c.dispatches > 0
    exact = cofactors(a.astype(dtype).astype(np.float64))
    np.testing.assert_allclose(found, exact, atol=(1e-12 if dtype == "float64" else 1e-4) * max(np.abs(exact).max(), 1))
    batched = vg.vmap(vg.grad(vg.linalg.det))(vg.stack([x, x + vg.eye(len(a), dtype=x.dtype)]))
    np.testing.assert_array_equal(batched[0].numpy(), found)


@pytest.mark.parametrize("name", [name for name in singular_matrices() if name != "nothing but shifts"])
def test_second_derivatives_of_singular_determinants(name: str, on_cpu: None) -> None:
    a = singular_matrices()[name]
    n = len(a)
    exact = np.zeros((n, n, n, n))
    for i, j, k, m in np.ndindex(n, n, n, n):
        if i != k and j != m:
            moved = a.copy()
            moved[[i, k]] = 0
            moved[i, j] = moved[k, m] = 1
            exact[i, j, k, m] = np.linalg.det(moved)
    found = vg.hessian(vg.linalg.det)(vg.tensor(a)).numpy()
    np.testing.assert_allclose(found, exact, atol=1e-13 if n <= 3 else 1e-6)


def _by_differences(function: Callable[[np.ndarray], np.ndarray], a: np.ndarray, way: np.ndarray) -> np.ndarray:
    return (function(a + 1e-5 * way) - function(a - 1e-5 * way)) / 2e-5


@pytest.mark.parametrize(
    ("a", "way"),
    [
        (np.eye(3), general(3, 3)),  # all singular values are equal
        (np.diag([2.0, 2, 5]), general(3, 3)),
        (np.outer([1.0, 2, 3, 4], [1.0, -1, 2]), None),  # rank 1, and two singular values of 0
        (np.zeros((3, 2)), None),
    ],
)
def test_pseudo_inverses_where_singular_values_are_equal(a: np.ndarray, way: np.ndarray | None, on_cpu: None) -> None:
    if way is None:  # a way along which the rank stays
        way = general(len(a), len(a)) @ a
    tangent = vg.jvp(vg.linalg.pinv, (vg.tensor(a),), (vg.tensor(way.astype(np.float64)),))[1]
    np.testing.assert_allclose(tangent.numpy(), _by_differences(np.linalg.pinv, a, way), atol=1e-8)
    y = vg.ones(len(a), dtype="float64")
    solved = vg.jvp(lambda x: vg.linalg.lstsq(x, y).solution, (vg.tensor(a),), (vg.tensor(way.astype(np.float64)),))
    np.testing.assert_allclose(solved[1].numpy(), tangent.numpy().sum(1), atol=1e-8)


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals"])
def test_equal_eigenvalues_have_gradients_and_their_vectors_no_number(name: str) -> None:
    a = vg.tensor(np.diag([2.0, 2, 5]).astype(np.float32))
    with vg.counting() as c:
        cubes = vg.grad(lambda x: (getattr(vg.linalg, name)(x) ** 3).sum())(a)
        np.testing.assert_allclose(cubes.numpy(), 3 * np.diag([4.0, 4, 25]), rtol=1e-5)
    assert c.host_nodes == 0
    take = (lambda x: vg.linalg.eigh(x).eigenvectors) if name == "eigvalsh" else (lambda x: vg.linalg.svd(x).U)
    weights = vg.tensor(general(3, 3))
    found = vg.grad(lambda x: (take(x) * weights).sum())(a).numpy()
    assert not np.isfinite(found).all(), "they turn by any angle: a number would be a wrong one"
    for order in (2, -2):
        g = vg.grad(lambda x, o=order: vg.linalg.matrix_norm(x, ord=o))(vg.eye(3)).numpy()
        np.testing.assert_allclose(g, np.eye(3) / 3, atol=1e-6, err_msg="ties share")


def test_a_wrong_derivative_is_seen(on_cpu: None) -> None:
    rule = OPS["cholesky"].grad
    wrong = replaced_rule(OPS["cholesky"], lambda g, out, a: tuple(x * 1.001 for x in rule(g, out, a)))
    with wrong, pytest.raises(AssertionError):
        check_grads(DERIVATIVES["cholesky"][0], [definite(3, 3, dtype=np.float64)], order=1)


# ---- what the host does
def test_large_ones_are_refused_or_counted_on_the_host() -> None:
    if vg.default_device().kind == "cpu":
        pytest.skip("the cpu device has no largest size")
    large = vg.tensor(general(factorisations.LARGEST_JACOBI + 1, factorisations.LARGEST_JACOBI + 1))
    for call in (vg.linalg.svdvals, vg.linalg.eigvalsh):
        with pytest.raises(UnsupportedError, match=r"more than 128 columns.*host"):
            call(large)
    with vg.host_policy("allow"), vg.counting() as c:
        found = vg.linalg.svdvals(large).numpy()
    assert c.host_nodes == 1
    near(found, np.linalg.svd(large.numpy().astype(np.float64), compute_uv=False), 200)


def test_host_rules_are_data() -> None:
    rules = vg.host_rules()
    assert {rule.op for rule in rules} == {"svd", "eigh"}, "a rule that goes or comes changes this list"
    assert len({rule.op for rule in rules}) == len(rules)
    assert all(rule.reason and rule.condition for rule in rules)


# ---- the rest
def test_norms_and_small_functions() -> None:
    a = general(3, 4)
    exact = a.astype(np.float64)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        near(vg.linalg.matrix_norm(a, ord=order), np.linalg.norm(exact, order), 64, str(order))
    near(vg.linalg.norm(a), np.linalg.norm(exact), 8)
    near(vg.linalg.norm(a, ord=1, axis=0), np.linalg.norm(exact, 1, axis=0), 8)
    square = general(4, 4)
    for power in (-2, 0, 1, 5):
        near(vg.linalg.matrix_power(square, power), np.linalg.matrix_power(square.astype(np.float64), power), 5000)
    near(vg.linalg.cond(square), np.linalg.cond(square.astype(np.float64)), 200)
    near(vg.linalg.kron(a, square), np.kron(exact, square), 4)
    near(vg.linalg.multi_dot([a, square, square[:, 0]]), exact @ square @ square[:, 0], 16)
    x, y = general(5, 3), draw(5, 3, seed=3)
    near(vg.linalg.cross(x, y), np.cross(x.astype(np.float64), y), 8)
    near(vg.linalg.trace(vg.tensor(a), offset=1), np.trace(exact, 1), 8)


def test_lstsq_like_numpy() -> None:
    a, y = general(8, 3), general(8, 2)
    found = vg.linalg.lstsq(a, y)
    solution, residuals, rank, s = np.linalg.lstsq(a.astype(np.float64), y.astype(np.float64), rcond=None)
    near(found.solution, solution, 200)
    near(found.residuals, residuals, 200)
    assert int(found.rank) == rank
    near(found.singular_values, s, 64)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vg.linalg.cholesky(vg.ones((2, 3))), ShapeError, "square matrices"),
        (lambda: vg.linalg.inv(vg.ones(3)), ShapeError, r"takes matrices \(..., M, N\)"),
        (lambda: vg.linalg.solve(vg.ones((3, 3)), vg.ones(4)), ShapeError, "right-hand side of 3 rows"),
        (lambda: vg.linalg.lu(vg.ones(3)), ShapeError, r"takes matrices \(..., M, N\)"),
        (lambda: vg.linalg.qr(vg.ones((2, 3)), mode="full"), OptionError, "mode must be"),
        (lambda: vg.linalg.matrix_norm(vg.ones((2, 3)), ord=3), OptionError, "ord must be"),
        (lambda: vg.linalg.det(vg.ones((2, 2)) > 0), DTypeError, "mask"),
        (lambda: vg.linalg.cross(vg.ones(2), vg.ones(2)), ShapeError, "3 elements"),
    ],
)
def test_mistakes(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
