"""Discrete Fourier transforms of any length, on the device, differentiable like everything else.

vkgrad has no complex numbers: a complex tensor has a last axis of extent 2, the real and the imaginary part, as
PyTorch's `view_as_real` gives. `axis` and `axes` count without it. Names and normalisation are NumPy's.

A length whose prime factors are small is one `dft` (see `vkgrad.ops.fourier`). One with a larger prime factor becomes a
convolution of a friendlier length (L. I. Bluestein, "A linear filtering approach to the computation of the discrete
Fourier transform", 1970). This module must not know how a transform is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from vkgrad import engine
from vkgrad import functions as f
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType, float32
from vkgrad.ops.fourier import LARGEST_PRIME, dft, primes
from vkgrad.placement import placed
from vkgrad.spelling import answer_misspellings
from vkgrad.tensor import Operand, Tensor, derived, lift, tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


NORMS = ("backward", "ortho", "forward")
_REVERSED = {"backward": "forward", "forward": "backward"}  # where the transform back is the one asked for


# ---- tables: numbers that depend on lengths alone, made once in double precision
@lru_cache(maxsize=128)
def _on_device(device: Hashable, kind: str, lengths: tuple[int, ...], dtype: DType) -> Tensor:
    return tensor(_TABLES[kind](*lengths), dtype)


def _table(kind: str, lengths: tuple[int, ...], dtype: DType) -> Tensor:
    return _on_device(id(engine.device()), kind, lengths, dtype)  # devices stay open as long as the process


def _turns(numerator: np.ndarray, denominator: int) -> np.ndarray:
    """exp(-2 pi i numerator / denominator) as pairs; whole turns are taken off first, so the angle is exact."""
    angle = -2 * np.pi * (numerator % denominator) / denominator
    parts = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    parts[np.abs(parts) < 1e-15] = 0.0  # quarter turns: pi itself is not exact
    return parts


def _chirp(n: int) -> np.ndarray:
    """exp(-pi i k^2 / n); the square is taken modulo 2 n, where it is exact."""
    return _turns(np.arange(n, dtype=np.int64) ** 2, 2 * n)


def _chirp_transformed(n: int, m: int) -> np.ndarray:
    """The transform of length m of the conjugate chirp over -n < k < n, laid around a circle."""
    chirp = _chirp(n) @ [1, -1j]
    circle = np.zeros(m, complex)
    circle[:n] = chirp
    circle[m - n + 1 :] = chirp[:0:-1]
    found = np.fft.fft(circle)
    return np.stack([found.real, found.imag], axis=-1)


_TABLES: dict[str, Callable[..., np.ndarray]] = {
    "signs": lambda: np.array([-1.0, 1.0]),  # i times (re, im) is (-im, re)
    "chirp": _chirp,
    "chirp transformed": _chirp_transformed,
}


# ---- complex arithmetic on pairs
def _times(x: Tensor, y: Tensor) -> Tensor:
    """The complex product of pairs. Written so that each element reads two of x, and no pair is taken apart."""
    return x * y[..., :1] + f.flip(x, axis=-1) * (y[..., 1:] * _table("signs", (), x.dtype))


def _conjugate(x: Tensor) -> Tensor:
    return x * -_table("signs", (), x.dtype)


# ---- the transform along the last axis (before the pair)
def _transform(x: Tensor, n: int, real: bool = False, inverse: bool = False) -> Tensor:
    """The transform of pairs (..., n, 2), or of real numbers (..., n), unscaled."""
    if max(primes(n), default=1) <= LARGEST_PRIME:
        wide = b.cast(x.node, x.dtype.computed)  # types that are only stored are rounded once, at the end
        return derived(b.cast(dft(wide, inverse, real), x.dtype), x)
    if inverse:
        return _conjugate(_bluestein(_conjugate(x), n))
    return _bluestein(f.stack([x, f.zeros_like(x)], axis=-1) if real else x, n)


def _bluestein(x: Tensor, n: int) -> Tensor:
    m = 1
    while m < 2 * n - 1:
        m *= 2
    chirp = _table("chirp", (n,), x.dtype)
    wide = f.pad(_times(x, chirp), (*[(0, 0)] * (x.ndim - 2), (0, m - n), (0, 0)))
    product = _times(_transform(wide, m), _table("chirp transformed", (n, m), x.dtype))
    around = _transform(product, m, inverse=True) * (1.0 / m)
    return _times(around[..., :n, :], chirp)


# ---- what users call
def _pairs(name: str, x: Operand) -> Tensor:
    found = lift(x)
    if found.ndim < 2 or found.shape[-1] != 2:
        raise ShapeError(
            f"fft.{name}: takes complex numbers as a last axis of extent 2 (real, imaginary), got shape {found.shape}; "
            "for real numbers use rfft, or stack([x, zeros_like(x)], axis=-1)"
        )
    return _floats(name, found)


def _floats(name: str, x: Tensor) -> Tensor:
    if x.dtype.kind == "b":
        raise DTypeError(f"fft.{name}: takes numbers, got a mask; use .astype first")
    return x if x.dtype.kind == "f" else x.astype(float32)


def _scale(name: str, norm: str, n: int, forward: bool) -> float:
    if norm not in NORMS:
        raise OptionError(f"fft.{name}: norm must be one of {', '.join(NORMS)}, got {norm!r}")
    if norm == "ortho":
        return float(n) ** -0.5
    return 1.0 / n if (norm == "forward") == forward else 1.0


def _fitted(name: str, x: Tensor, n: int | None, axis: int) -> Tensor:
    """x cut or filled with zeros to n places along `axis`."""
    have = x.shape[axis]
    n = have if n is None else n
    if n < 1:
        raise ShapeError(f"fft.{name}: a transform has at least 1 place, got {n}")
    if n < have:
        return x[(*(slice(None) for _ in range(axis)), slice(0, n))]
    return f.pad(x, [(0, n - have if a == axis else 0) for a in range(x.ndim)]) if n > have else x


def _along(name: str, x: Tensor, n: int | None, axis: int, norm: str, forward: bool) -> Tensor:
    (along,) = b.normalise_axes(f"fft.{name}", axis, x.ndim - 1)
    x = _fitted(name, x, n, along).moveaxis(along, -2)
    n = x.shape[-2]
    found = _transform(x, n, inverse=not forward)
    scale = _scale(name, norm, n, forward)
    return (found if scale == 1 else found * scale).moveaxis(-2, along)


def fft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """sum over j of x[j] exp(-2 pi i j k / n), for k = 0 … n-1.

    Shapes: (..., N, 2) -> (..., n, 2), along any axis but the pair's. n cuts or fills with zeros; N if None.

    Raises: `ShapeError` when there is no last axis of extent 2; `OptionError` for an unknown norm.

    Example:
        >>> import vkgrad as vg
        >>> vg.fft.fft(vg.tensor([[1.0, 0.0], [2.0, 0.0]])).tolist()
        [[3.0, 0.0], [-1.0, 0.0]]
    """
    return _along("fft", _pairs("fft", x), n, axis, norm, True)


def ifft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`. Shapes: (..., N, 2) -> (..., n, 2)."""
    return _along("ifft", _pairs("ifft", x), n, axis, norm, False)


def rfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first half of the transform of real numbers; the other half mirrors it. Shapes: (..., N) -> (..., n//2+1, 2).

    Example:
        >>> import vkgrad as vg
        >>> (vg.fft.rfft(vg.tensor([1.0, 2.0])) + 0.0).tolist()
        [[3.0, 0.0], [-1.0, 0.0]]
    """
    source = _floats("rfft", lift(x))
    (along,) = b.normalise_axes("fft.rfft", axis, source.ndim)
    source = _fitted("rfft", source, n, along).moveaxis(along, -1)
    length = source.shape[-1]
    found = _transform(source, length, real=True)[..., : length // 2 + 1, :]
    scale = _scale("rfft", norm, length, True)
    return (found if scale == 1 else found * scale).moveaxis(-2, along)


def irfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`, n real numbers: 2 (N - 1) if None, so say n where it is odd. Shapes: (..., N, 2) -> (..., n).

    The imaginary parts of the first place and, for even n, of the last count as zero.
    """  # noqa: E501
    source = _pairs("irfft", x)
    (along,) = b.normalise_axes("fft.irfft", axis, source.ndim - 1)
    n = 2 * (source.shape[along] - 1) if n is None else n
    if n < 1:
        raise ShapeError(
            f"fft.irfft: a transform has at least 1 place, got {n}; say n=1 for {source.shape[along]} places"
        )
    half = _fitted("irfft", source, n // 2 + 1, along).moveaxis(along, -2)
    mirrored = _conjugate(f.flip(half[..., 1 : (n + 1) // 2, :], axis=-2))
    whole = f.concat([half, mirrored], axis=-2)
    found = _transform(whole, n, inverse=True)[..., 0]
    return (found * _scale("irfft", norm, n, False)).moveaxis(-1, along)


def hfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform, which is real, of a signal whose second half mirrors the first half given. Shapes: as `irfft`."""
    source = _pairs("hfft", x)
    return irfft(_conjugate(source), n, axis, _REVERSED.get(norm, norm))


def ihfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the first half of a signal whose transform is real. Shapes as for `rfft`."""
    return _conjugate(rfft(x, n, axis, _REVERSED.get(norm, norm)))


def _axes_of(name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    rank = x.ndim - 1
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes):
        raise ShapeError(f"fft.{name}: {len(lengths)} lengths for {len(axes)} axes")
    found = [b.normalise_axes(f"fft.{name}", axis, rank)[0] for axis in axes]
    return list(zip(found, lengths, strict=True))


def fftn(
    x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along each of `axes` (all if None), with lengths `s`. Shapes: (..., 2) -> (..., 2)."""
    found = _pairs("fftn", x)
    for axis, n in _axes_of("fftn", found, s, axes):
        found = _along("fftn", found, n, axis, norm, True)
    return found


def ifftn(
    x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    found = _pairs("ifftn", x)
    for axis, n in _axes_of("ifftn", found, s, axes):
        found = _along("ifftn", found, n, axis, norm, False)
    return found


def fft2(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """`fftn` along two axes. Shapes: (..., H, W, 2) -> (..., H, W, 2)."""
    return fftn(x, s, axes, norm)


def ifft2(x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Tensor:
    """The inverse of `fft2`."""
    return ifftn(x, s, axes, norm)


def rfftn(
    x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of `axes`, then `fft` along the others. Shapes: (..., W) -> (..., W//2+1, 2)."""
    source = lift(x)
    pairs = _axes_of("rfftn", source.expand_dims(-1), s, axes)
    found = rfft(source, pairs[-1][1], pairs[-1][0], norm)
    for axis, n in pairs[:-1]:
        found = _along("rfftn", found, n, axis, norm, True)
    return found


def irfftn(
    x: Operand, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`. Shapes: (..., W//2+1, 2) -> (..., W)."""
    found = _pairs("irfftn", x)
    pairs = _axes_of("irfftn", found, s, axes)
    for axis, n in pairs[:-1]:
        found = _along("irfftn", found, n, axis, norm, False)
    return irfft(found, pairs[-1][1], pairs[-1][0], norm)


@placed
def fftfreq(n: int, d: float = 1.0, dtype: Any = None) -> Tensor:
    """The frequency of each place of `fft`, in turns per unit of `d`: 0, 1, … then the negative ones, over n d."""
    places = f.arange(n, dtype=dtype or float32)
    return f.where(places < (n + 1) // 2, places, places - n) * (1.0 / (n * d))


@placed
def rfftfreq(n: int, d: float = 1.0, dtype: Any = None) -> Tensor:
    """The frequency of each place of `rfft`."""
    return f.arange(n // 2 + 1, dtype=dtype or float32) * (1.0 / (n * d))


def fftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Tensor:
    """Places 0 … n-1 with frequency 0 moved to the middle, along `axes` (all if None; a pair's axis is one of them)."""
    source = lift(x)
    found = b.normalise_axes("fft.fftshift", axes, source.ndim)
    return f.roll(source, [source.shape[axis] // 2 for axis in found], axis=list(found))


def ifftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    source = lift(x)
    found = b.normalise_axes("fft.ifftshift", axes, source.ndim)
    return f.roll(source, [-(source.shape[axis] // 2) for axis in found], axis=list(found))


answer_misspellings(globals())
