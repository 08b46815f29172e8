"""The discrete Fourier transform of lengths whose prime factors are small, as one op, and the steps that compute it.

Complex numbers are pairs, in a last axis of extent 2. A length is cut into factors, one dispatch each (J. W. Cooley,
J. W. Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series", 1965), in T. G. Stockham's order,
after which no places have to change. On a GPU a factor is as long as shared memory allows, and there cut again; a
software driver has one invocation do a small one. This module must not know other lengths: `vkgrad.fft` makes them
friendlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DType
from vkgrad.ir.node import Node
from vkgrad.ir.op import NOT_DIFFERENTIABLE, DeviceLimits, Geometry, Shape
from vkgrad.ops.families import routine, wide
from vkgrad.ops.samples import case, uniform
from vkgrad.ops.views import pad, slice_

LARGEST_PRIME = 31  # of a factor; of larger ones a small product is more work than a longer transform
SMALL = 8  # factors that one invocation does, in registers
LONGEST_BYTES = (
    8192  # of a factor's numbers on a GPU: two columns of it fit the least shared memory that Vulkan promises
)
# Numbers of a workgroup and of an invocation, and the most of these; but columns side by side come by what memory sends
# at once. H200: 4096 rows of 256 take 64.8 us, with twice the numbers 92.4; 2^20 takes 66.2 us, by half a sector 123.7.
WORKGROUP_NUMBERS, NUMBERS_EACH, LANES, SECTOR_BYTES = 2048, 8, 512, 32


def dft(x: Node, inverse: bool = False, real: bool = False) -> Node:
    """sum over j of x[j] exp(-2 pi i j k / n) for each k, along the last axis but the pair's; with `inverse`, exp(+…).

    Shapes: (..., n, 2) -> (..., n, 2); (..., n) -> (..., n, 2) with `real`.
    """
    n = x.shape[-1 if real else -2]
    assert max(primes(n), default=1) <= LARGEST_PRIME
    if n > 1:
        return b.build("dft", x, inverse=inverse, real=real)
    if not real:
        return x
    lead = len(x.shape)
    return pad(b.reshape(x, (*x.shape, 1)), [0] * (lead + 1), [0] * lead + [1], value=0.0)


@cache
def _primes(n: int) -> tuple[int, ...]:
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return (*found, n) if n > 1 else tuple(found)


def primes(n: int) -> list[int]:
    """The prime factors of n, the largest last."""
    return list(_primes(n))


def factors(n: int, most: int) -> list[int]:
    """As few factors of n as possible, about equal and at most `most` (or prime), the largest first."""
    ordered = primes(n)[::-1]
    for count in range(1, len(ordered) + 1):
        found = [1] * count
        for p in ordered:
            found[found.index(min(found))] *= p
        if max(found) <= max(most, ordered[0]) and (max(found) <= most or count == len(ordered)):
            break
    return sorted(found, reverse=True)


def small_factors(n: int) -> list[int]:
    """n as a product of numbers up to SMALL, or primes: twos and threes together, about equal."""
    ordered = primes(n)
    twos = ordered.count(2)
    steps = -(-twos // 3)
    found = [1 << twos // steps + (step < twos % steps) for step in range(steps)]
    return sorted([*found, *(p for p in ordered if p > 2)], reverse=True) or [1]


# ---- meanings
def _complex(x: Any, real: bool) -> Any:
    x = x.astype("f8")
    return x + 0j if real else x[..., 0] + 1j * x[..., 1]


def _along(z: Any, axis: int, inverse: bool) -> Any:
    return np.fft.ifft(z, axis=axis, norm="forward") if inverse else np.fft.fft(z, axis=axis)


def _pairs(z: Any, dtype: Any) -> Any:
    return np.stack([z.real, z.imag], axis=-1).astype(dtype)


def _numpy_dft(x: Any, *, inverse: bool, real: bool) -> Any:
    return _pairs(_along(_complex(x, real), -1, inverse), x.dtype)


def _numpy_stage(x: Any, *, radix: int, done: int, inverse: bool, real: bool) -> Any:
    z = _complex(x, real)
    *lead, n = z.shape
    m = n // (radix * done)
    found = _along(z.reshape(prod(lead), radix, m, done), 1, inverse)
    turns = np.outer(np.arange(radix), np.arange(m)) / (radix * m)
    found = found * np.exp((2j if inverse else -2j) * np.pi * turns)[None, :, :, None]
    return _pairs(found.transpose(0, 2, 1, 3).reshape(*lead, n), x.dtype)


def _grad(g: Node, out: Node, x: Node, *, inverse: bool, real: bool) -> tuple[Node]:
    back = dft(g, not inverse)
    if not real:
        return (back,)
    whole = list(x.shape)
    return (b.reshape(slice_(back, [0] * g.ndim, [*whole, 1], [1] * g.ndim), x.shape),)


# ---- how they run
def _geometry(
    shapes: Sequence[Shape],
    dtypes: Sequence[DType],
    limits: DeviceLimits,
    *,
    inverse: bool,
    real: bool,
    radix: int = 0,
    done: int = 1,
) -> Geometry:
    n = shapes[0][-1 if real else -2]
    radix = radix or n
    lead = prod(shapes[0][: -1 if real else -2])
    total = lead * n // radix
    numbers = {"n": n, "row": n // radix, "done": done, "total": total}
    parameters: dict[str, Any] = {"radix": radix, "inverse": inverse, "real": real}
    if limits.software:
        parameters |= {"way": "alone", "local": 8, "tables": ((radix, _roots(radix, inverse)),)}
        return Geometry(groups=-(-total // 8), numbers=numbers, parameters=parameters)
    size_bytes = 2 * dtypes[0].size_bytes
    columns, least = 1, 1 if radix == n else SECTOR_BYTES // size_bytes
    while (
        (2 * columns * radix <= WORKGROUP_NUMBERS or 2 * columns <= least)
        and (2 * columns + 1) * radix * size_bytes <= limits.shared_bytes
        and columns < total
    ):
        columns *= 2
    local = 32
    while local < min(LANES, limits.max_invocations) and local * NUMBERS_EACH < radix * columns:
        local *= 2
    radices = tuple(small_factors(radix))
    parameters |= {
        "way": "shared",
        "local": local,
        "columns": columns,
        "share": -(-radix * columns // local),
        "radices": radices,
        "tables": tuple((p, _roots(p, inverse)) for p in sorted(set(radices))),
    }
    parts = -(-total // columns)
    return Geometry(
        groups=parts, numbers=numbers | {"parts": parts}, parameters=parameters,
        shared_bytes=(columns + 1) * radix * size_bytes,
    )  # fmt: skip


@cache
def _roots(p: int, inverse: bool) -> tuple[tuple[float, float], ...]:
    """exp(-2 pi i j / p) for each j, with quarters exact."""
    angles = 2 * np.pi * np.arange(p) / p
    parts = np.stack([np.cos(angles), np.sin(angles) * (1 if inverse else -1)], axis=-1)
    parts[np.abs(parts) < 1e-15] = 0.0
    return tuple((float(re), float(im)) for re, im in parts)


def _passes(node: Node, width: Any) -> Node:
    """A stage for each factor."""
    x, inverse, real = node.inputs[0], node.attributes["inverse"], node.attributes["real"]
    n = node.shape[-2]
    most = LONGEST_BYTES // (2 * node.dtype.size_bytes)
    parts = small_factors(n) if width.lanes == 1 else factors(n, most)
    done = 1
    for radix in parts:
        x = b.build("dft_stage", x, radix=radix, done=done, inverse=inverse, real=real and done == 1)
        done *= radix
    return x


def _shape(shapes: Sequence[Shape], *, real: bool, **_: Any) -> Shape:
    return (*shapes[0], 2) if real else shapes[0]


routine(
    "dft", template="dft.comp.j2", geometry=_geometry, shape=_shape, dtype=wide("dft"), numpy=_numpy_dft, grad=_grad,
    passes=_passes, batched=True,
    samples=uniform(-1, 1).on(
        *(case((2, 6, 2), inverse=inverse, real=False) for inverse in (False, True)),
        case((2, 6), inverse=False, real=True), case((0, 4, 2), inverse=False, real=False),
    ),
    doc="The discrete Fourier transform of pairs, or of real numbers, along the last axis but the pair's, unscaled.",
)  # fmt: skip
routine(
    "dft_stage", template="dft.comp.j2", geometry=_geometry, shape=_shape, dtype=wide("dft_stage"), numpy=_numpy_stage,
    grad=NOT_DIFFERENTIABLE,
    samples=uniform(-1, 1).on(
        *(case((2, 12, 2), radix=3, done=done, inverse=done == 2, real=False) for done in (1, 2, 4)),
        case((2, 6), radix=2, done=1, inverse=False, real=True),
        case((0, 4, 2), radix=2, done=1, inverse=False, real=False),
    ),
    doc="One factor of a `dft`.",
)  # fmt: skip
