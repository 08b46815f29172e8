"""Sums of which most is padding, as in the gradient of a window: for each term, the places where it is not.

This module must not know how such a sum is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from vkgrad.ir.layout import Guard
from vkgrad.runtime.access import Region
from vkgrad.runtime.nest import Space
from vkgrad.schedule.kernel import Guarded, Load, Reduce

# A guarded sum of few terms over many places is added up term by term, each only where it is not padding.
MOST_PASSES = 128
LEAST_BY_TERM = 1 << 12


def passes(space: Space, index: int) -> tuple[int, list[Region]] | None:
    """The value that instruction `index` adds up, and per term of R the region of P where that is not padding.

    None where it is no such sum, or adding up term by term is no gain.
    """
    reduce = space.code[index]
    if not isinstance(reduce, Reduce) or reduce.op.name != "sum":
        return None
    if space.terms > MOST_PASSES or prod(space.extents) < LEAST_BY_TERM:
        return None
    value, guards = reduce.value, list[Guard]()
    while isinstance(guarded := space.code[value], Guarded) and guarded.fill == 0:
        guards += guarded.layout.guards
        value = guarded.value
    if isinstance(guarded, Load) and guarded.fill == 0:
        guards += guarded.layout.guards
    if not guards or any(isinstance(space.code[i], Reduce) for i in space.needs([value])):
        return None
    regions = []
    for term in np.ndindex(*(space.extents[a] for a in space.reduced)):
        region = _where_it_holds(space, guards, term)
        if region is None:
            return None
        if region.counts and 0 not in region.counts:
            regions.append(region)
    return value, regions


def _where_it_holds(space: Space, guards: Sequence[Guard], term: Sequence[int]) -> Region | None:
    """The places of P where the guards hold for one term of R; None where that is not a lattice."""
    region = Region.whole(space.extents)
    for axis, at in zip(space.reduced, term, strict=True):
        region = region.along(axis, int(at), 1)
    allowed: dict[int, np.ndarray] = {}
    for g in guards:
        constant = g.constant + sum(g.coefficients[a] * int(at) for a, at in zip(space.reduced, term, strict=True))
        moving = [a for a, c in enumerate(g.coefficients) if c and a not in space.reduced and space.extents[a] > 1]
        if len(moving) > 1:
            return None
        axis = moving[0] if moving else 0
        u = constant + np.arange(space.extents[axis]) * (g.coefficients[axis] if moving else 0)
        passes = (u >= 0) & (u < g.bound) & (u % g.step == 0)
        allowed[axis] = allowed.get(axis, np.ones(space.extents[axis], bool)) & passes
    for axis, passes in allowed.items():
        places = np.flatnonzero(passes)
        step = int(places[1] - places[0]) if len(places) > 1 else 1
        if len(places) > 2 and np.any(np.diff(places) != step):
            return None
        start = int(places[0]) if len(places) else 0
        if axis in space.reduced:
            region = region if len(places) else region.along(axis, 0, 0)
        else:
            region = region.along(axis, start, len(places), step)
    return region
