"""How far to go along a direction: a step that fulfils the strong Wolfe conditions.

Source: Nocedal and Wright (2006), Numerical Optimization, Algorithms 3.5 and 3.6, with the interpolations and the
safeguards that PyTorch has. This module must not know what is minimised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from vkgrad.tensor import Tensor

SUFFICIENT = 1e-4  # the part of the slope by which a step must at least descend
FLAT = 0.9  # the part of the first slope that the slope must come down to
MARGIN = 0.1  # of a bracket: how close to its ends a new step may be


@dataclass(frozen=True)
class Point:
    """A step of length `t` along the direction: the value there, its gradient, and its slope along the direction."""

    t: float
    value: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    at: Callable[[float], Point], first: Point, t: float, reach: float, tolerance_change: float, most: int
) -> tuple[Point, int]:
    """A point that fulfils the conditions, or the best one found, and how often `at` was called.

    Args:
        first: the point to start from, whose t is 0.
        t: the step to try first.
        reach: the largest element of the direction; a bracket whose elements differ by less than `tolerance_change` is
            as good as a point.
        most: how many steps to try after the first one.
    """

    def descends(point: Point) -> bool:
        return point.value <= first.value + SUFFICIENT * point.t * first.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -FLAT * first.slope

    before, now, tries = first, at(t), 0
    bracket = [first, now]
    while tries < most:  # go on until a minimum lies between two points
        bracket = [before, now]
        if not descends(now) or (tries > 1 and now.value >= before.value):
            break
        if is_flat(now):
            return now, tries + 1
        if now.slope >= 0:
            break
        t = _minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
        before, now, tries = now, at(t), tries + 1
        bracket = [first, now]
    low, high = _ordered(bracket)
    was_at_edge = False
    while tries < most:  # and make that interval smaller
        left, right = sorted(point.t for point in bracket)
        if (right - left) * reach < tolerance_change:
            break
        t, edge = _minimum(bracket[0], bracket[1], left, right), MARGIN * (right - left)
        is_at_edge = min(right - t, t - left) < edge
        if is_at_edge and (was_at_edge or t >= right or t <= left):
            t, is_at_edge = (right - edge if abs(t - right) < abs(t - left) else left + edge), False
        was_at_edge = is_at_edge
        now, tries = at(t), tries + 1
        if not descends(now) or now.value >= bracket[low].value:
            bracket[high] = now
            low, high = _ordered(bracket)
            continue
        if is_flat(now):
            return now, tries + 1
        if now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
    return bracket[low], tries + 1


def _ordered(bracket: list[Point]) -> tuple[int, int]:
    """Which of two points is lower, and which is higher."""
    return (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)


def _minimum(a: Point, b: Point, least: float, most: float) -> float:
    """Where the cubic through two points and their slopes is lowest, but at least `least` and at most `most`."""
    a, b = (a, b) if a.t <= b.t else (b, a)
    if a.t == b.t:
        return (least + most) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    divisor = b.slope - a.slope + 2 * sqrt(square) if square >= 0 else 0.0
    if not divisor:  # there is none
        return (least + most) / 2
    lowest = b.t - (b.t - a.t) * ((b.slope + sqrt(square) - d1) / divisor)
    return min(max(lowest, least), most)
