"""Fourier transforms against NumPy's in double precision, where they ran, in how many dispatches, and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkgrad as vg
from tests.variants import close, draw
from vkgrad import fft
from vkgrad.errors import DTypeError, OptionError, ShapeError

# Small ones, powers, composites, primes that are one product, and lengths with a large prime factor.
LENGTHS = (1, 2, 3, 7, 8, 30, 31, 32, 36, 37, 64, 74, 97, 100, 1000, 1009, 1024)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return draw(*shape, seed=seed, dtype=np.float64) + 1j * draw(*shape, seed=seed + 1, dtype=np.float64)


def pairs(z: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    return np.stack([z.real, z.imag], axis=-1).astype(dtype)


def check(found: vg.Tensor, expected: np.ndarray, units: float = 8) -> None:
    """Raise `AssertionError` where an error is above some units of rounding of the largest element."""
    expected = pairs(expected, found.dtype.numpy) if np.iscomplexobj(expected) else expected.astype(found.dtype.numpy)
    close(found, expected, cost=units, largest=float(np.abs(expected).max(initial=1)))


@pytest.mark.parametrize("n", LENGTHS)
def test_against_numpy(n: int) -> None:
    z = numbers(2, n)
    with vg.counting() as c:
        check(vg.fft.fft(vg.tensor(pairs(z))), np.fft.fft(z))
        check(vg.fft.ifft(vg.tensor(pairs(z))), np.fft.ifft(z))
        check(vg.fft.rfft(vg.tensor(z.real.astype(np.float32))), np.fft.rfft(z.real))
        check(vg.fft.irfft(vg.tensor(pairs(np.fft.rfft(z.real))), n), np.fft.irfft(np.fft.rfft(z.real), n))
    assert c.host_nodes == 0


@pytest.mark.parametrize("n", LENGTHS)
def test_double_precision(n: int, on_cpu: None) -> None:
    z = numbers(n)
    found = vg.fft.fft(vg.tensor(pairs(z, np.float64)))
    assert found.dtype is vg.float64
    check(found, np.fft.fft(z))
    check(vg.fft.irfft(vg.fft.rfft(vg.tensor(z.real)), n), z.real)


@pytest.mark.parametrize(("n", "most"), [(8, 1), (32, 2), (1024, 4), (4096, 4), (37, 9)])
def test_a_pass_for_each_factor(n: int, most: int) -> None:
    x = vg.tensor(pairs(numbers(n)))
    vg.fft.fft(x).numpy()  # the tables are made
    with vg.counting() as c:
        vg.eval(vg.fft.fft(x))
    assert c.dispatches <= most
    assert c.submissions == 1
    assert c.bytes_uploaded == 0


@pytest.mark.parametrize("norm", fft.NORMS)
@pytest.mark.parametrize("n", [None, 5, 9])
def test_norms_lengths_and_axes(norm: str, n: int | None) -> None:
    z = numbers(3, 7, 2)
    x, real = vg.tensor(pairs(z)), vg.tensor(z.real.astype(np.float32))
    check(vg.fft.fft(x, n, 1, norm), np.fft.fft(z, n, 1, norm))
    check(vg.fft.ifft(x, n, -2, norm), np.fft.ifft(z, n, 1, norm))
    check(vg.fft.rfft(real, n, 1, norm), np.fft.rfft(z.real, n, 1, norm))
    check(vg.fft.irfft(x, n, 1, norm), np.fft.irfft(z, n, 1, norm))


def test_several_axes() -> None:
    z = numbers(3, 4, 5)
    x, real = vg.tensor(pairs(z)), vg.tensor(z.real.astype(np.float32))
    check(vg.fft.fftn(x), np.fft.fftn(z))
    check(vg.fft.ifftn(x, axes=(0, 2)), np.fft.ifftn(z, axes=(0, 2)))
    check(vg.fft.fft2(x, (6, 3)), np.fft.fft2(z, (6, 3)))
    check(vg.fft.ifft2(x), np.fft.ifft2(z))
    check(vg.fft.rfftn(real), np.fft.rfftn(z.real))
    check(vg.fft.irfftn(vg.fft.rfftn(real), real.shape), z.real)


def test_frequencies_and_shifts() -> None:
    for n in (4, 5):
        close(vg.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5).astype(np.float32))
        close(vg.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5).astype(np.float32))
        x = draw(n, 3)
        close(vg.fft.fftshift(vg.tensor(x), 0), np.fft.fftshift(x, 0))
        close(vg.fft.ifftshift(vg.tensor(x)), np.fft.ifftshift(x))


@pytest.mark.parametrize("n", [6, 37])
def test_derivatives(n: int, on_cpu: None) -> None:
    vg.testing.check_grads(lambda x: (vg.fft.fft(x) ** 2).sum(), [pairs(numbers(n), np.float64)], order=2)
    vg.testing.check_grads(lambda x: vg.fft.rfft(x).sum(), [draw(n, dtype=np.float64)], order=1)
    vg.testing.check_grads(lambda x: vg.fft.irfft(x, n).sum(), [pairs(numbers(n // 2 + 1), np.float64)], order=1)


def test_views_batches_and_transforms() -> None:
    z = numbers(5, 12)
    x = vg.tensor(pairs(z))
    check(vg.fft.fft(x[::-1, ::2]), np.fft.fft(z[::-1, ::2]))
    check(vg.vmap(vg.fft.fft)(x), np.fft.fft(z))
    check(vg.jit(lambda x: vg.fft.fft(x) * 2)(x), 2 * np.fft.fft(z))
    convolved = vg.fft.irfft(vg.fft.rfft(vg.ones(8)) * vg.fft.rfft(vg.ones(8))[..., :1], 8)
    assert convolved.shape == (8,)


def test_a_wrong_chirp_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fft._TABLES, "chirp", lambda n: fft._turns(np.zeros(n, int), 1))
    fft._on_device.cache_clear()
    try:
        with pytest.raises(AssertionError):
            check(vg.fft.fft(vg.tensor(pairs(numbers(37)))), np.fft.fft(numbers(37)))
    finally:
        fft._on_device.cache_clear()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vg.fft.fft(vg.ones((4, 3))), ShapeError, "last axis of extent 2"),
        (lambda: vg.fft.fft(vg.ones((4, 2)), norm="both"), OptionError, "norm must be one of"),
        (lambda: vg.fft.rfft(vg.ones(4) > 0), DTypeError, "mask"),
        (lambda: vg.fft.fft(vg.ones((4, 2)), n=0), ShapeError, "at least 1 place"),
        (lambda: vg.fft.irfft(vg.ones((1, 2))), ShapeError, "at least 1 place"),
        (lambda: vg.fft.fft(vg.ones((4, 2)), axis=1), ShapeError, "axis 1"),
        (lambda: vg.fft.fftn(vg.ones((4, 4, 2)), (2,), (0, 1)), ShapeError, "1 lengths for 2 axes"),
    ],
)
def test_mistakes(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
