"""Long sums in two steps, so that a device has enough to do at once: nodes in, equal nodes out.

A reduction to few elements, or a contraction with a small output and a long inner axis (the weight gradient of a
convolution), would keep most of a GPU idle: the terms are cut into parts, the parts are added up beside each other, and
a second sum joins them. What is split depends on sizes and on the device alone, never on what is fused, so that the
order of a sum, and its bits, stay the same.

The second sum is marked `partial`, which tells the fuser not to undo the split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ir.op import Family
from vkgrad.ops.contraction import extents_of, summed_labels
from vkgrad.ops.views import pad
from vkgrad.schedule.packing import windows_of
from vkgrad.schedule.rewrite import rewrite

# However few elements there are, one invocation or workgroup must not join more terms than this: 256 lanes of 32,768
# trips over up to eight loops (some software drivers stop silently at 65,535 trips).
LONGEST = 1 << 20

# Nor add up more floats in turn than this: 10**7 times 0.1 in 32 parts is off by 2e-5 of itself, for each addition
# rounds the same way. Parts of longer sums, and parts of parts, are then of so few terms that this is no matter.
LONGEST_IN_TURN, FEW_IN_TURN = 1 << 14, 64

# A sum that only loads wants so many times the invocations. H200, 2048x6x28x28 to 6 elements: 37 us by 65,536.
LOADING = 4
# Sums over leading axes are done by workgroups that have so many of them, which lie side by side, and of which a
# processor wants so many; parts are of so many terms at least. Only from so many elements on do they go about it so.
SIDE_BY_SIDE, GROUPS, LEAST_TERMS, BESIDE = 32, 4, 512, 1 << 20
# Below this many multiply-adds a second kernel costs more than a busy device gains.
WORTH_SPLITTING = 15 * 10**6
# Tiles in which contractions are done: rows, columns, and µs for a term of one tile a processor. Then what a kernel
# that joins the parts and its barrier cost at least, and how many words it reads in a µs. All of an H200.
TILES = ((64, 64, 0.0285), (32, 64, 0.0175))
JOIN_US = 6.0
JOINED_PER_US = 500_000
# The gradient of 3x3 filters by Winograd's method: filters and channels of a block, the edge of a tile, tiles that are
# taken at a time, and the µs that they take.
FILTERS = (32, 16, 4, 4, 1.6)
# What is fused behind a sum is fused behind the join instead, and estimates err: so much must be gained.
WORTH_A_KERNEL = 1.2


class Width(NamedTuple):
    """How much a device wants to do at once.

    invocations   that keep it busy
    lanes         how many of them share the terms of one element
    terms         the fewest terms worth an invocation of their own
    tiles         tiles of a contraction that are done at once, or 0 where they are not done in such tiles
    """

    invocations: int
    lanes: int
    terms: int
    tiles: int = 0


def split(outputs: Sequence[Node], has_value: Callable[[Node], bool], width: Width) -> list[Node]:
    """`outputs` with long reductions and contractions split, in the same order."""
    return rewrite(outputs, has_value, lambda node: _split(node, has_value, width))


def _split(node: Node, has_value: Callable[[Node], bool], width: Width) -> Node:
    if node.size and node.op.family is Family.REDUCTION and node.inputs[0].size:
        return _reduction(node, width)
    if node.size and node.op.family is Family.CONTRACTION:
        return _contraction(node, has_value, width)
    return node


def _parts(elements: int, terms: int, width: Width) -> int:
    """Into how many parts to cut `terms`, which are joined for each of `elements`."""
    return max(1, min(width.invocations // max(elements * width.lanes, 1), terms // (width.lanes * width.terms)))


def _divisor(extent: int, most: int) -> int:
    return next(d for d in range(min(most, extent), 0, -1) if extent % d == 0)


def _reduction(node: Node, width: Width) -> Node:
    (source,) = node.inputs
    axes = node.attributes["axes"]
    terms = prod(source.shape[axis] for axis in axes)
    axis = max(axes, key=lambda a: source.shape[a])
    # With only a load each under way, invocations that keep processors busy are too few to keep memory busy.
    loading = width._replace(invocations=width.invocations * LOADING) if width.lanes > 1 else width
    most = _parts(node.size, terms, loading)
    if width.tiles and source.size >= BESIDE and any(e > 1 for e in source.shape[max(axes) + 1 :]):
        most = max(most, min(width.tiles * GROUPS * SIDE_BY_SIDE // node.size, terms // LEAST_TERMS))
    parts = _divisor(source.shape[axis], most)
    rounds = node.is_op("sum") and node.dtype.kind == "f"
    if rounds and terms > LONGEST_IN_TURN * parts * width.lanes:
        parts = 1 << (source.shape[axis] // FEW_IN_TURN).bit_length()
    elif parts == 1 and terms > LONGEST:
        # No even cut: about the square root of the length, with a masked tail.
        parts = 1 << (source.shape[axis].bit_length() + 1) // 2
    return _in_parts(node, source, axis, parts) if parts > 1 else node


def _in_parts(node: Node, source: Node, axis: int, parts: int) -> Node:
    axes, extent = node.attributes["axes"], source.shape[axis]
    row = -(-extent // parts)
    assert node.op.init is not None
    high = [parts * row - extent if a == axis else 0 for a in range(source.ndim)]
    padded = pad(source, [0] * source.ndim, high, value=node.op.init(node.dtype))
    cut = b.reshape(padded, (*source.shape[:axis], parts, row, *source.shape[axis + 1 :]))
    inner = tuple(sorted([axis + 1, *(a + (a > axis) for a in axes if a != axis)]))
    first = b.build(node.op, cut, **{**node.attributes, "axes": inner})
    joined = b.reshape(first, tuple(parts if a == axis else e for a, e in enumerate(node.shape)))
    while node.is_op("sum") and node.dtype.kind == "f" and parts > LONGEST_IN_TURN // 8 and parts % FEW_IN_TURN == 0:
        parts //= FEW_IN_TURN
        beside = b.reshape(joined, (*node.shape[:axis], parts, FEW_IN_TURN, *node.shape[axis + 1 :]))
        some = b.build(node.op, beside, **{**node.attributes, "axes": (axis + 1,), "partial": True})
        joined = b.reshape(some, tuple(parts if a == axis else e for a, e in enumerate(node.shape)))
    return b.build(node.op, joined, **{**node.attributes, "axes": (axis,), "partial": True})


def _parts_of_product(
    node: Node,
    extents: dict[int, int],
    left: Sequence[int],
    right: Sequence[int],
    out: Sequence[int],
    terms: int,
    longest: int,
    width: Width,
) -> int:
    """Into how many parts to cut the longest label (of extent `longest`) of a contraction of `terms` terms."""
    shared = prod(extents[label] for label in out if label in left and label in right)
    m = prod(extents[label] for label in out if label not in right)
    n = prod(extents[label] for label in out if label not in left)
    if min(m, n) >= 48:
        if node.size * terms < WORTH_SPLITTING or not width.tiles:
            return 1

        def time_us(parts: int) -> float:
            product_us = min(_rounds(shared * parts, m, n, tile, width.tiles) for tile in TILES) * terms / parts
            if parts == 1:
                return product_us
            return WORTH_A_KERNEL * (product_us + JOIN_US + parts * node.size / JOINED_PER_US)

        return min((d for d in range(1, longest + 1) if longest % d == 0 and d * 128 <= max(terms, 128)), key=time_us)
    lanes = min(width.lanes, 64)  # of register tiles of 8x8
    tiles = shared * -(-m // 8) * -(-n // 8)
    parts = min(width.invocations // (tiles * lanes), terms // (lanes * width.terms))
    return _divisor(longest, parts) if parts >= 4 else 1


def _rounds(batch: int, m: int, n: int, tile: tuple[int, int, float], at_once: int) -> float:
    """µs a term, all tiles together: of one or two rounds of tiles, one that is not full takes as long as the other."""
    rounds = batch * -(-m // tile[0]) * -(-n // tile[1]) / at_once
    return tile[2] * (-(-rounds // 1) if rounds <= 2 else rounds + 0.25)


def _parts_of_filters(
    node: Node, has_value: Callable[[Node], bool], extents: dict[int, int], at_once: int
) -> tuple[int, int] | None:
    """Of the gradient of 3x3 filters, the label to cut, and into how many parts; None of anything else.

    What is cut is the batch, never the image: so its tiles stay whole.
    """
    labels = [tuple(node.attributes[name]) for name in ("left", "right", "out")]
    for image, (own, other) in zip(node.inputs, (labels[:2], labels[1::-1]), strict=True):
        taps = own[-2:]
        found = windows_of(image, has_value)
        if len(found) != 2 or any(w["size"] != 3 or w["stride"] != w["dilation"] for w in found):
            continue
        summed = [label for label in own if label in other]
        places = [own[w["axis"]] for w in found]
        batches = [label for label in summed if label not in places]
        whole = all(tap in labels[2] for tap in taps) and all(place in summed for place in places)
        filters = prod(extents[label] for label in other if label not in summed)
        channels = prod(extents[label] for label in own if label not in (*summed, *taps))
        if not whole or not batches or any(label in labels[2] for label in summed) or filters < 32 or channels < 32:
            continue
        label = max(batches, key=lambda n: extents[n])
        tiles = prod(-(-extents[n] // FILTERS[2]) if n in places else extents[n] for n in summed)
        times = {
            d: _filters_us(filters, channels, tiles, d, at_once)
            for d in range(1, extents[label] + 1)
            if extents[label] % d == 0
        }
        return label, min(times, key=times.__getitem__)
    return None


def _filters_us(filters: int, channels: int, tiles: int, parts: int, at_once: int) -> float:
    """µs for the gradient of 3x3 filters, of `tiles` of the images in `parts`, and for joining these."""
    bm, bc, _, chunk, chunk_us = FILTERS
    rounds = parts * -(-filters // bm) * -(-channels // bc) / at_once
    rounds = -(-rounds // 1) if rounds <= 4 else rounds + 0.25
    own_us = rounds * (-(-tiles // (parts * chunk)) + 1) * chunk_us
    joined = parts * filters * channels * 9
    return own_us if parts == 1 else WORTH_A_KERNEL * (own_us + JOIN_US + joined / JOINED_PER_US)


def _is_minimal(node: Node, has_value: Callable[[Node], bool], extents: dict[int, int], at_once: int) -> bool:
    """Whether it is a convolution of 3x3 taps that fills a device as it is: in tiles of 2x2 results, 32 by 32."""
    left, right, out = (tuple(node.attributes[name]) for name in ("left", "right", "out"))
    for image, own in zip(node.inputs, (left, right), strict=True):
        found = windows_of(image, has_value)
        if len(found) == 2 and all(w["size"] == 3 and w["stride"] == w["dilation"] for w in found):
            places = prod(extents[label] for label in own if label in out)
            return own[-1] not in out and -(-places // 128) * -(-node.size // places // 32) >= at_once
    return False


def _contraction(node: Node, has_value: Callable[[Node], bool], width: Width) -> Node:
    x, y = node.inputs
    left, right, out = (tuple(node.attributes[name]) for name in ("left", "right", "out"))
    extents = extents_of([x.shape, y.shape], left, right)
    summed = summed_labels(left, right, out)
    if not summed:
        return node
    terms = prod(extents[label] for label in summed)
    label = max(summed, key=lambda n: extents[n])
    if width.tiles and _is_minimal(node, has_value, extents, width.tiles):
        return node
    of_filters = _parts_of_filters(node, has_value, extents, width.tiles) if width.tiles else None
    if of_filters is not None:
        label, parts = of_filters
    else:
        parts = _parts_of_product(node, extents, left, right, out, terms, extents[label], width)
    if parts == 1:
        return node
    fresh = 1 + max(extents)

    def cut(operand: Node, labels: tuple[int, ...]) -> Node:
        axis = labels.index(label)
        shape = operand.shape
        return b.reshape(operand, (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))

    def named(labels: tuple[int, ...]) -> tuple[int, ...]:
        axis = labels.index(label)
        return (*labels[:axis], fresh, *labels[axis:])

    partial = b.build("contract", cut(x, left), cut(y, right), left=named(left), right=named(right), out=(fresh, *out))
    return b.reshape(b.build("sum", partial, axes=(0,), partial=True), node.shape)
