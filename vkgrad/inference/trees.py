"""Stretches of trajectories as trees, and what two of them make: the arithmetic of the No-U-Turn Sampler.

All of it is row by row over chains. This module must not know what is recorded, nor random numbers.

Source: M. Betancourt, "A Conceptual Introduction to Hamiltonian Monte Carlo", 2017, appendix A (choice by weight,
turning by the sum of momenta).
"""

from __future__ import annotations

from typing import NamedTuple

from vkgrad import functions as f
from vkgrad.inference.leapfrog import Phase
from vkgrad.tensor import Tensor


class Tree(NamedTuple):
    """A stretch of trajectory for each chain, in the order in which it was walked.

    first, last   its ends
    total         (C, D) the sum of its momenta
    chosen        one of its places, each with a probability by its energy
    log_weight    (C,) the logarithm of the sum of these weights
    spoilt        (C,) it turned back, or left the level of its energy: nothing of it is chosen
    diverged      (C,) the latter
    accepted      (C,) the sum of the probabilities of acceptance of its steps, and `steps` how many there are
    """

    first: Phase
    last: Phase
    total: Tensor
    chosen: Phase
    log_weight: Tensor
    spoilt: Tensor
    diverged: Tensor
    accepted: Tensor
    steps: Tensor


class Trunk(NamedTuple):
    """The tree of a draw as far as it has grown, from its left end to its right one; what it chose is in `Chains`."""

    left: Phase
    right: Phase
    total: Tensor
    log_weight: Tensor
    diverged: Tensor
    accepted: Tensor
    steps: Tensor
    going: Tensor


def either(mask: Tensor, one: Phase, other: Phase) -> Phase:
    """Row by row `one` where the mask (C,) holds, else `other`."""
    row = mask.expand_dims(-1)
    return Phase(*(f.where(row if a.ndim == 2 else mask, a, b) for a, b in zip(one, other, strict=True)))


def _goes_on(total: Tensor, one: Tensor, other: Tensor, inverse_mass: Tensor) -> Tensor:
    """Whether both ends move along the sum of momenta; False for NaN."""
    along = inverse_mass * total
    return ((along * one).sum(-1) > 0) & ((along * other).sum(-1) > 0)


def turns_back(
    first: tuple[Phase, Phase], total: Tensor, second: tuple[Phase, Phase], other: Tensor, inverse_mass: Tensor
) -> Tensor:
    """Whether a stretch and the one that goes on from its end, with their ends and sums of momenta, turn back together.

    The sum of each with the first momentum of the other sees turns that the whole sum hides.
    """
    begin, end, after, last = (phase.momentum for phase in (*first, *second))
    return f.logical_not(
        _goes_on(total + other, begin, last, inverse_mass)
        & _goes_on(total + after, begin, after, inverse_mass)
        & _goes_on(other + end, end, last, inverse_mass)
    )


def merged(a: Tree, b: Tree, log_u: Tensor, inverse_mass: Tensor) -> Tree:
    """One tree of two of a size, b from the end of a; one place of both is chosen by weight, with u even (C,)."""
    log_weight = f.logaddexp(a.log_weight, b.log_weight)
    counts = f.logical_not(a.spoilt)  # else b would not have been walked
    turned = turns_back((a.first, a.last), a.total, (b.first, b.last), b.total, inverse_mass)
    return Tree(
        a.first,
        b.last,
        a.total + b.total,
        either(log_u < b.log_weight - log_weight, b.chosen, a.chosen),
        log_weight,
        a.spoilt | b.spoilt | turned,
        a.diverged | (counts & b.diverged),
        a.accepted + f.where(counts, b.accepted, 0.0),
        a.steps + f.where(counts, b.steps, 0),
    )
