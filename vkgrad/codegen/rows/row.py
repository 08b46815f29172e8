"""What a row of the table is, and what it must know of a device.

This module must not know any row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from vkgrad.schedule.kernel import Kernel

# Some software drivers stop an invocation silently after 65,535 trips over all its loops; half of that is safe.
MOST_TRIPS = 32768


# Loops over R in one kernel that choices allow for; fusion makes four (softmax with its loss), more only in odd graphs.
USUAL_LOOPS = 8


@dataclass(frozen=True)
class Limits:
    """What rows must know of a device.

    broadcast  whether `subgroupBroadcast` is there and a workgroup of `subgroup` invocations is one subgroup
    matrices   the half-precision types of which subgroups of 32 multiply 16x16 matrices, with sums in single precision
    packing    sizes in bytes of elements that shaders cannot reach alone, and find packed in 32-bit words
    halves     whether GLSL's conversions of half precision are right to the last bit (see `vkgrad.runtime.halves`)
    """

    software: bool
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    max_invocations: int = 128
    shared_bytes: int = 16384
    subgroup: int = 32
    max_buffers: int = 16
    float64: bool = True
    broadcast: bool = False
    int64: bool = True
    packing: frozenset[int] = frozenset()
    matrices: frozenset[str] = frozenset()
    halves: bool = False


@dataclass(frozen=True)
class Row:
    """One way to compute a kernel.

    parameters(kernel, limits) gives the template's parameters; `groups(kernel, parameters)` the number of workgroups.
    variants(kernel, limits) gives changes of these parameters that are worth measuring too (see `vkgrad.codegen.tune`).
    `estimate_us` is about how long it takes, for rows between which sizes must decide.
    """

    name: str
    template: str
    applies: Callable[[Kernel, Limits], bool]
    parameters: Callable[[Kernel, Limits], dict[str, Any]]
    groups: Callable[[Kernel, dict[str, Any]], int]
    reason: str
    variants: Callable[[Kernel, Limits], Iterable[dict[str, Any]]] = lambda kernel, limits: ()
    estimate_us: Callable[[Kernel, Limits], float] = lambda kernel, limits: 0.0


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two(most: int) -> int:
    """The largest power of two up to `most`, at least 1."""
    return 1 << max(most, 1).bit_length() - 1


def trips(kernel: Kernel) -> int:
    """Terms that one lane may join on a software driver."""
    return MOST_TRIPS // max(USUAL_LOOPS, kernel.loops())
