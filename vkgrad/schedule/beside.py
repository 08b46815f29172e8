"""Kernels of one level that share a dispatch: dispatches in, fewer out.

They need nothing of each other, so each takes a range of workgroups. Which fit together is for the device to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from vkgrad.schedule.kernel import Dispatch, Group, Kernel, parts

# Members, and instructions of all of them, in one shader: more takes long to compile.
MOST_MEMBERS, MOST_CODE = 16, 600


def side_by_side(
    dispatches: Sequence[tuple[Dispatch, int]], key: Callable[[Kernel], Hashable], max_buffers: int
) -> list[tuple[Dispatch, int]]:
    """Dispatches with their levels, in order of levels; kernels of one level with an equal key become one."""
    out: list[tuple[list[Dispatch], int]] = []
    open_groups: dict[tuple[int, Hashable], int] = {}
    for dispatch, level in dispatches:
        own = key(dispatch) if isinstance(dispatch, Kernel) else None
        place = open_groups.get((level, own)) if own is not None else None
        if place is not None:
            members = out[place][0]
            buffers = {buffer for member in (*members, dispatch) for buffer in member.slots}
            code = sum(len(kernel.code) for member in (*members, dispatch) for kernel in parts(member))
            if len(buffers) <= max_buffers and len(members) < MOST_MEMBERS and code <= MOST_CODE:
                members.append(dispatch)
                continue
        if own is not None:
            open_groups[level, own] = len(out)
        out.append(([dispatch], level))
    return [(_one(members), level) for members, level in out]


def longest_first(dispatches: Sequence[tuple[Dispatch, int]]) -> list[tuple[Dispatch, int]]:
    """The same with the most work of each level first: short kernels then fill what a long one leaves idle."""
    return sorted(dispatches, key=lambda pair: (pair[1], -sum(k.places * k.terms for k in parts(pair[0]))))


def _one(members: Sequence[Dispatch]) -> Dispatch:
    kernels = tuple(member for member in members if isinstance(member, Kernel))
    return Group(kernels) if len(kernels) > 1 else members[0]
