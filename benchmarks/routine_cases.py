"""What `benchmarks.routines` measures: scans, sorts, scattering, Fourier transforms and factorisations.

Each case says how vkgrad, PyTorch and CuPy compute it, and how far values are from what they should be. This must not
measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import vkgrad as vg

Arrays = Sequence[np.ndarray]
NEAR_A_COPY = 3.0  # what a scan, and a scatter into few places, may take of a copy's time
ROUNDED, SOLVED = 1e-5, 1e-4  # relative to the largest value; of factors, what their product is off by


@dataclass(frozen=True)
class Case:
    """One function of `arrays`.

    ours, torch, cupy   it; theirs are given the module too
    error               how far found values are from float64, relative to the largest
    tolerance           what the error may be
    words               of 32 bits that must be read and written in all, or 0 where memory is no bound
    within              how many times a copy of those may take, or None
    """

    name: str
    arrays: tuple[np.ndarray, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any] | None
    error: Callable[[Arrays, Arrays], float]
    cupy: Callable[..., Any] | None = None
    tolerance: float = ROUNDED
    words: int = 0
    within: float | None = None


def cases(million: int = 10**6) -> list[Case]:
    """All of them; with a smaller `million` they are smaller in about that proportion."""
    return [*_scans(million), *_sorts(million), *_scatters(million), *_transforms(million), *_factorisations(million)]


def far(wanted: Callable[..., np.ndarray]) -> Callable[[Arrays, Arrays], float]:
    """The error against `wanted` of the arrays, in double precision."""

    def error(found: Arrays, arrays: Arrays) -> float:
        expected = wanted(*(x.astype("f8") if x.dtype.kind == "f" else x for x in arrays))
        return apart(found[0].reshape(expected.shape), expected)  # CuPy's pairs lie in one axis

    return error


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found.astype("f8") - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype("f4")


def _scans(million: int) -> list[Case]:
    n, side = 10 * million, max(million // 1000, 2)

    def case(name: str, x: np.ndarray, axis: int) -> Case:
        return Case(
            name, (x,), lambda x: vg.cumsum(x, axis), lambda t, x: t.cumsum(x, axis), far(lambda x: np.cumsum(x, axis)),
            lambda c, x: c.cumsum(x, axis), words=2 * x.size, within=NEAR_A_COPY,
        )  # fmt: skip

    return [
        case("cumsum 1e7", _draw(n), 0),
        case("cumsum 1000x10000 axis 1", _draw(side, n // side), 1),
        case("cumsum 10000x1000 axis 0", _draw(n // side, side), 0),
        case("cumsum 100x100000 axis 1", _draw(max(side // 10, 1), n // max(side // 10, 1)), 1),
        Case(
            "linear scan 1e6", (_draw(million), _draw(million, seed=1)), lambda a, x: vg.linear_scan(a, x),
            None, far(_recurrence), words=3 * million,
        ),
    ]  # fmt: skip


def _recurrence(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    out, state = np.empty_like(x), 0.0
    for i, (factor, term) in enumerate(zip(a.tolist(), x.tolist(), strict=True)):
        out[i] = state = factor * state + term
    return out


def _sorts(million: int) -> list[Case]:
    keys, side = _draw(million), max(million // 1000, 2)
    rows = keys[: million // side * side].reshape(side, -1)
    return [
        Case("sort 1e6", (keys,), lambda x: vg.sort(x), lambda t, x: t.sort(x).values, far(np.sort),
             lambda c, x: c.sort(x), 0.0, 2 * million),
        Case("argsort 1000x1000", (rows,), lambda x: vg.argsort(x), lambda t, x: t.argsort(x, stable=True),
             far(lambda x: np.argsort(x, -1, "stable")), lambda c, x: c.argsort(x), 0.0, 2 * million),
    ]  # fmt: skip


def _scatters(million: int) -> list[Case]:
    values, draw = np.abs(_draw(million)), np.random.default_rng(0)  # sums that do not cancel

    def case(name: str, places: int, within: float | None, one: bool = False) -> Case:
        index = np.full(million, places // 2, "i4") if one else draw.integers(0, places, million).astype("i4")
        return Case(
            name, (index, values), lambda index, x: vg.segment_sum(x, index, places),
            lambda t, index, x: t.zeros(places, device="cuda").index_add_(0, index, x),
            far(lambda index, x: np.bincount(index, x, places)), lambda c, index, x: c.bincount(index, x, places),
            words=2 * million + places, within=within,
        )  # fmt: skip

    def rows(index: np.ndarray, x: np.ndarray) -> np.ndarray:
        out = np.zeros((words, x.shape[1]))
        np.add.at(out, index, x)
        return out

    words, tokens = max(million // 20, 8), max(million // 125, 8)
    return [
        case("scatter_add 1e6 -> 10", 10, NEAR_A_COPY),
        case("scatter_add 1e6 -> 1e3", 1000, NEAR_A_COPY),
        case("scatter_add 1e6 -> one of 1e3", 1000, None, one=True),
        case("scatter_add 1e6 -> 1e5", max(million // 10, 10), None),
        Case(
            "embedding gradient 8000x768 -> 50000",
            (draw.integers(0, words, tokens).astype("i4"), _draw(tokens, 768)),
            lambda index, x: vg.segment_sum(x, index, words),
            lambda t, index, x: t.zeros(words, 768, device="cuda").index_add_(0, index, x),
            far(rows), words=(tokens + words) * 768,
        ),
    ]  # fmt: skip


def _transforms(million: int) -> list[Case]:
    def pairs(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x).view("f8").reshape(*x.shape, 2)

    def wanted(x: np.ndarray) -> np.ndarray:
        return pairs(np.fft.fft(x[..., 0] + 1j * x[..., 1]))

    def case(name: str, *shape: int) -> Case:
        x = _draw(*shape, 2)
        return Case(
            name, (x,), lambda x: vg.fft.fft(x), lambda t, x: t.view_as_real(t.fft.fft(t.view_as_complex(x))),
            far(wanted), lambda c, x: c.fft.fft(x.view("c8")[..., 0]).view("f4"), words=2 * x.size,
        )  # fmt: skip

    half = 1 << (million.bit_length() // 2)
    power = 1 << (million - 1).bit_length()
    real = _draw(half, half)
    return [
        case("fft 2^20", power),
        case("fft 1e5 + 3, a prime", 10**5 + 3 if million > 10**5 else 103),
        case("fft 1000x1000", max(million // 1000, 2), 1000),
        case("fft 4096x256", max(million // 244, 2), 256),
        Case(
            "rfft 1024x1024", (real,), lambda x: vg.fft.rfft(x), lambda t, x: t.view_as_real(t.fft.rfft(x)),
            far(lambda x: pairs(np.fft.rfft(x))), lambda c, x: c.fft.rfft(x).view("f4"), words=2 * real.size,
        ),
    ]  # fmt: skip


def _factorisations(million: int) -> list[Case]:
    """Batches of small matrices, and one that is larger."""
    count, n = max(million // 1000, 2), 1024 if million >= 10**6 else 40
    columns = 128 if million >= 10**6 else 12

    def near_identity(*shape: int) -> np.ndarray:
        return (_draw(*shape) / shape[-1] ** 0.5 + 2 * np.eye(shape[-1])).astype("f4")

    def definite(*shape: int) -> np.ndarray:
        x = near_identity(*shape)
        return x @ np.swapaxes(x, -1, -2)

    def symmetric(*shape: int) -> np.ndarray:
        x = _draw(*shape)
        return x + np.swapaxes(x, -1, -2)

    def product(found: Arrays, arrays: Arrays) -> float:
        *factors, last = (x.astype("f8") for x in found)
        for factor in reversed(factors):
            last = factor @ last
        return apart(last, arrays[0].astype("f8"))

    def orthogonal(q: np.ndarray) -> float:
        return apart(np.swapaxes(q, -1, -2).astype("f8") @ q, np.eye(q.shape[-1]))

    def solved(found: Arrays, arrays: Arrays) -> float:
        return apart(arrays[0].astype("f8") @ found[0], arrays[1].astype("f8"))

    def squared(found: Arrays, arrays: Arrays) -> float:
        return product([found[0], np.swapaxes(found[0], -1, -2)], arrays)

    def rotated(found: Arrays, arrays: Arrays) -> float:
        return max(product(found, arrays), orthogonal(found[0]))

    def spectral(found: Arrays, arrays: Arrays) -> float:
        w, v = found
        return max(product([v * w[..., None, :], np.swapaxes(v, -1, -2)], arrays), orthogonal(v))

    def singular(found: Arrays, arrays: Arrays) -> float:
        u, s, vh = found
        return max(product([u * s[..., None, :], vh], arrays), orthogonal(u))

    def case(name: str, function: str, error: Callable[..., float], *arrays: np.ndarray, **options: Any) -> Case:
        def theirs(module: Any, *given: Any) -> Any:
            return getattr(module.linalg, function)(*given, **options)

        return Case(
            f"{function} {name}", arrays, lambda *given: getattr(vg.linalg, function)(*given, **options), theirs, error,
            theirs, SOLVED,
        )  # fmt: skip

    found = []
    for size in (8, 32):
        name, at = f"1000 of {size}x{size}", (count, size, size)
        found += [
            case(name, "cholesky", squared, definite(*at)),
            case(name, "solve", solved, near_identity(*at), _draw(count, size, 1)),
            case(name, "qr", rotated, _draw(*at)),
            case(name, "eigh", spectral, symmetric(*at)),
            case(name, "svd", singular, _draw(*at), full_matrices=False),
        ]
    return [
        *found,
        case("1024x1024", "cholesky", squared, definite(n, n)),
        case("1024x1024", "solve", solved, near_identity(n, n), _draw(n, 16)),
        case("1024x128", "qr", rotated, _draw(n, columns)),
        case("128x128", "eigh", spectral, symmetric(columns, columns)),
        case("1024x128", "svd", singular, _draw(n, columns), full_matrices=False),
    ]
