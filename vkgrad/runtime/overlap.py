"""Contractions over windows of padded data, as one product per element and shifted additions.

Reading each window (im2col, `blas.py`) copies an element once per window it is in, for every input channel. When the
result has fewer channels than the data, as in the gradient of a convolution by its input, it is cheaper to multiply
each element once by the weights of every place it can have in a window, and to add these products up where they belong.
That also skips all padding. This module must not know what a convolution is: all follows from guards and strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from vkgrad.runtime.access import Buffers, Span, parts, settle, spans
from vkgrad.runtime.blas import MOST_KEPT
from vkgrad.runtime.blocks import finishing
from vkgrad.runtime.nest import Space
from vkgrad.runtime.one_thread import multiply
from vkgrad.runtime.program import Program
from vkgrad.runtime.scratch import Scratch
from vkgrad.schedule.kernel import Kernel, Load, Reduce

LARGEST_PRODUCTS = 1 << 19  # products that wait for being added up: about a second-level cache


@dataclass(frozen=True)
class Roles:
    """What each axis does, and which instructions are the data and the weights.

    lead        axes of the data and the result that no window moves along
    others      axes of the result that the data does not have
    positions   axes along which windows move; `taps[i]` is the place inside the window along `positions[i]`
    channels    axes of R that are no taps
    """

    data: int
    weights: int
    lead: tuple[int, ...]
    others: tuple[int, ...]
    positions: tuple[int, ...]
    taps: tuple[int, ...]
    channels: tuple[int, ...]


def overlapping(kernel: Kernel, scratch: Scratch, threads: int = 1) -> Callable[[Buffers], None] | None:
    """A function that runs a product kernel this way, or None where it does not apply or pay."""
    space = Space.of(kernel)
    roles = _roles(kernel, space)
    if roles is None:
        return None
    extents = space.extents
    width = [prod(extents[a] for a in axes) for axes in (roles.others, roles.taps, roles.positions, roles.channels)]
    found = _spans(space, roles.data)
    assert found is not None
    elements = prod(span.count for span in found[0])
    if elements == 0 or 2 * width[0] * elements >= width[2] * width[3]:
        return None
    products = prod(extents[a] for a in roles.lead) * width[0] * width[1] * elements
    regions = list(parts(extents, roles.lead, -(-products // LARGEST_PRODUCTS)))
    if len(regions) <= MOST_KEPT:
        kept = [Part(space.within(region), roles, scratch, threads) for region in regions]

        def run(buffers: Buffers) -> None:
            for part in kept:
                part(buffers)
    else:

        def run(buffers: Buffers) -> None:
            for region in regions:
                Part(space.within(region), roles, scratch, threads)(buffers)

    return run


def _spans(space: Space, data: int) -> tuple[list[Span], int] | None:
    load = space.code[data]
    if not isinstance(load, Load) or load.fill != 0:
        return None
    layout = settle(load.layout)
    return spans(layout) if layout.guards else None


def _roles(kernel: Kernel, space: Space) -> Roles | None:
    product = kernel.product
    assert product is not None
    ends = (product.batch, product.batch + product.m, kernel.parallel, len(kernel.extents))
    batch, m, n, k = (tuple(range(s, e)) for s, e in zip((0, *ends[:-1]), ends, strict=True))
    for data, weights, own, others in ((product.left, product.right, m, n), (product.right, product.left, n, m)):
        found = _spans(space, data)
        if found is None:
            continue
        pairs = [tuple(a for a, c in enumerate(span.coefficients) if c) for span in found[0]]
        if all(len(pair) == 2 and pair[0] in own and pair[1] in k for pair in pairs):
            positions, taps = tuple(p for p, _ in pairs), tuple(t for _, t in pairs)
            lead = (*batch, *(a for a in own if a not in positions))
            channels = tuple(a for a in k if a not in taps)
            return Roles(data, weights, lead, others, positions, taps, channels)
    return None


class Part:
    """The kernel over one space: product, additions, then epilogue and stores.

    Axes of `lead` that the weights do not have come last everywhere, so that each addition runs along them.
    """

    def __init__(self, space: Space, roles: Roles, scratch: Scratch, threads: int):
        self.threads, extents = threads, space.extents
        load, found = space.code[roles.data], _spans(space, roles.data)
        assert isinstance(load, Load) and found is not None
        groups, address = found
        self.reduce = next(i for i, instruction in enumerate(space.code) if isinstance(instruction, Reduce))
        self.dtype = dtype = load.dtype.numpy
        self.weights, self.weights_at = Program(space, scratch, [roles.weights]), roles.weights
        have = self.weights.shapes[roles.weights]
        outer = tuple(a for a in roles.lead if have[a] > 1)
        inner = tuple(a for a in roles.lead if have[a] == 1)
        counts = [span.count for span in groups]

        def sizes(*axes: int) -> list[int]:
            return [extents[a] for a in axes]

        # The elements of the data as (*outer, channels, elements * inner), copied from where they lie in memory.
        strides = [*(load.layout.strides[a] for a in (*outer, *roles.channels)), *(s.stride for s in groups)]
        strides += [load.layout.strides[a] for a in inner]
        unpacked = (*sizes(*outer, *roles.channels), *counts, *sizes(*inner))
        size = dtype.itemsize
        self.source = load.slot, unpacked, address * size, tuple(s * size for s in strides)
        self.data = scratch.take(unpacked, dtype)
        self.packed = (*sizes(*outer), prod(sizes(*roles.channels)), prod(counts) * prod(sizes(*inner)))
        # The weights as (*outer, others * taps, channels).
        used = (*roles.others, *roles.taps, *roles.channels)
        full = tuple(extents[a] if a in used else e for a, e in enumerate(have))
        unused = [a for a in range(len(extents)) if a not in (*outer, *used)]
        self.weights_full, self.weights_order = full, (*unused, *outer, *used)
        rows = prod(sizes(*roles.others, *roles.taps))
        self.weights_packed = (*sizes(*outer), rows, prod(sizes(*roles.channels)))
        # Their products: (*outer, *others, *taps, *spans, *inner). The result: (*outer, *others, *positions, *inner).
        products = scratch.take((*self.packed[:-2], rows, self.packed[-1]), dtype)
        order = (*outer, *roles.others, *roles.positions, *inner)
        self.products = products
        self.total = scratch.take(sizes(*order), dtype)
        apart = products.reshape(*sizes(*outer, *roles.others, *roles.taps), *counts, *sizes(*inner))
        lead = (slice(None),) * (len(outer) + len(roles.others))
        self.moves = [
            (self.total[(*lead, *into)], apart[(*lead, *source)]) for into, source in _moves(groups, roles, extents)
        ]
        back = tuple(order.index(a) for a in sorted(order))
        shape = tuple(1 if a in space.reduced else e for a, e in enumerate(extents))
        self.result = self.total.transpose(back).reshape(shape)
        self.weights.release()
        for array in (self.data, products):
            scratch.give(array)
        self.native = finishing(space, self.reduce, self.result, threads)
        self.finish = None if self.native else Program(space, scratch, given={self.reduce: shape})
        scratch.give(self.total)

    def __call__(self, buffers: Buffers) -> None:
        slot, shape, offset, strides = self.source
        np.copyto(self.data, np.ndarray(shape, self.dtype, buffers[slot], offset, strides))
        weights = np.broadcast_to(self.weights.values(buffers)[self.weights_at], self.weights_full)
        weights = np.ascontiguousarray(weights.transpose(self.weights_order).reshape(self.weights_packed))
        multiply(weights, self.data.reshape(self.packed), self.products, self.threads)
        self.total.fill(0)
        for into, products in self.moves:
            np.add(into, products, into)
        if self.native is not None:
            self.native(buffers)
        elif self.finish is not None:
            self.finish.values(buffers, {self.reduce: self.result})


def _moves(
    groups: Sequence[Span], roles: Roles, extents: Sequence[int]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """For each place in a window, where its products go and which they are, as indices."""
    for tap in np.ndindex(*(extents[a] for a in roles.taps)):
        into: list[slice] = []
        source: list[slice] = []
        for span, position, axis, at in zip(groups, roles.positions, roles.taps, tap, strict=True):
            u = np.arange(extents[position]) * span.coefficients[position] + span.coefficients[axis] * int(at)
            places = np.flatnonzero((u >= span.first) & (u <= span.last) & ((u - span.first) % span.step == 0))
            if len(places) == 0:
                break
            into.append(_slice(places))
            source.append(_slice((u[places] - span.first) // span.step))
        else:
            yield tuple(into), (*(int(at) for at in tap), *source)


def _slice(places: np.ndarray) -> slice:
    """Evenly spaced places as a slice."""
    first, last = int(places[0]), int(places[-1])
    step = int(places[1]) - first if len(places) > 1 else 1
    stop = last + (1 if step > 0 else -1)
    return slice(first, None if stop < 0 else stop, step)
