"""Each move done to a `Layout` and to an array that holds the addresses, and every element compared.

The array starts as 0, 1, 2 … so that its elements *are* the addresses; padding is -1. Mutations of the moves show that
the comparison sees what it should.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vkgrad.ir.layout import Guard, Layout, collapse, merge_axes

PADDING = -1
LARGEST = 3000  # elements; brute force compares each one

EXTENTS = st.sampled_from([2, 3, 4, 5, 1] * 5 + [0])
REPEATS = st.sampled_from([3, 1, 2] * 5 + [0])
RARELY_ZERO = st.sampled_from([1] * 15 + [0])
FEW = st.sampled_from([0, 0, 0, 1, 2])

# The same examples each time: a failure is a bug in the code, not in the weather.
SETTINGS = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


# ---- each move, on addresses. `draw` picks its arguments; None means that it does not apply here.
def _permute(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    axes = draw(st.permutations(range(a.ndim)))
    return layout.permute(axes), a.transpose(axes)


def _expand(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    extents = [draw(REPEATS) if e == 1 else e for e in a.shape]
    return layout.expand(extents), np.broadcast_to(a, extents)


def _slice(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    if a.size == 0:
        return None
    picked = []
    for extent in a.shape:
        start = draw(st.integers(0, extent - 1))
        step = draw(st.sampled_from([1, 2, 3, -1, -2]))
        most = (extent - 1 - start) // step + 1 if step > 0 else start // -step + 1
        picked.append((start, draw(st.integers(draw(RARELY_ZERO), most)), step))
    starts, extents, steps = zip(*picked, strict=True) if picked else ((), (), ())
    chosen = np.ix_(*[[start + i * step for i in range(count)] for start, count, step in picked])
    return layout.slice(starts, extents, steps), a[chosen] if a.ndim else a


def _pad(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    low, high, interior = ([draw(FEW) for _ in a.shape] for _ in range(3))
    out = np.full([lo + (e - 1) * (i + 1) + 1 + hi if e else lo + hi
                   for e, lo, hi, i in zip(a.shape, low, high, interior, strict=True)], PADDING)  # fmt: skip
    if a.size:
        inside = zip(a.shape, low, interior, strict=True)
        out[tuple(slice(lo, lo + (e - 1) * (i + 1) + 1, i + 1) for e, lo, i in inside)] = a
    return layout.pad(low, high, interior), out


def _window(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    if a.ndim == 0 or a.ndim > 5:
        return None
    axis = draw(st.integers(0, a.ndim - 1))
    dilation, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    largest = (a.shape[axis] - 1) // dilation + 1
    if largest < 1:
        return None
    size = draw(st.integers(1, largest))
    places = range(0, a.shape[axis] - (size - 1) * dilation, stride)
    out = np.stack([np.take(a, [p + k * dilation for p in places], axis) for k in range(size)], -1)
    return layout.window(axis, size, stride, dilation), out


def _diagonal(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    pairs = [(i, j) for i in range(a.ndim) for j in range(a.ndim) if i != j and a.shape[i] == a.shape[j]]
    if not pairs:
        return None
    axis, other = draw(st.sampled_from(pairs))
    rest = list(range(a.ndim))
    rest[other] = axis
    out = np.einsum(a, rest, [r for i, r in enumerate(rest) if i != other])
    return layout.diagonal(axis, other), out


def _factors(draw: Callable, size: int) -> list[int]:
    factors: list[int] = []
    while size > 1 and len(factors) < 4:
        factors.append(draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0])))
        size //= factors[-1]
    return [*factors, size] if size > 1 or draw(st.booleans()) else factors


def _reshape(draw: Callable, layout: Layout, a: np.ndarray) -> tuple[Layout | None, np.ndarray] | None:
    extents = _factors(draw, a.size) if a.size else [0, *a.shape[1:]] if a.ndim else None
    return None if extents is None else (layout.reshape(extents), a.reshape(extents))


MOVES = (_permute, _expand, _slice, _pad, _window, _diagonal, _reshape)
MAY_NEED_A_COPY = (_pad, _reshape)


@st.composite
def moved(draw: Callable, moves: Sequence[Callable] = MOVES) -> tuple[Layout, np.ndarray]:
    """A layout after a few moves, and the addresses it should have."""
    extents = draw(st.lists(EXTENTS, min_size=draw(st.integers(0, 3)), max_size=4))
    layout, a = Layout.contiguous(extents), np.arange(prod(extents)).reshape(extents)
    for move in draw(st.lists(st.sampled_from(moves), min_size=draw(st.integers(1, 4)), max_size=6)):
        after = move(draw, layout, a)
        if after is None or after[1].size > LARGEST:
            continue
        if after[0] is None:
            assert move in MAY_NEED_A_COPY, f"{move.__name__} never needs a copy"
        else:
            layout, a = after
    return layout, a


def addresses(layout: Layout) -> np.ndarray:
    """What the layout says, for all places at once; `Layout.address` is compared with it below."""
    coordinates = np.indices(layout.extents, sparse=True) if layout.rank else []

    def form(coefficients: Sequence[int], constant: int) -> np.ndarray:
        total = np.full(layout.extents, constant)
        for c, places in zip(coefficients, coordinates, strict=True):
            total = total + c * places
        return total

    total = form(layout.strides, layout.offset)
    holds = np.ones(layout.extents, bool)
    for g in layout.guards:
        u = form(g.coefficients, g.constant)
        holds &= (u >= 0) & (u < g.bound) & (u % g.step == 0)
        total = total + g.stride * (u // g.step)
    return np.where(holds, total, PADDING)


def assert_same(layout: Layout, expected: np.ndarray) -> None:
    assert layout.extents == expected.shape
    np.testing.assert_array_equal(addresses(layout), expected)


@SETTINGS
@given(moved())
def test_moves(pair: tuple[Layout, np.ndarray]) -> None:
    assert_same(*pair)


@SETTINGS
@given(moved())
def test_address_of_one_place(pair: tuple[Layout, np.ndarray]) -> None:
    layout, expected = pair
    for place in list(np.ndindex(*expected.shape))[:50]:
        found = layout.address(place)
        assert (PADDING if found is None else found) == expected[place]


@SETTINGS
@given(moved())
def test_size_and_contiguity(pair: tuple[Layout, np.ndarray]) -> None:
    layout, a = pair
    assert (layout.rank, layout.size) == (a.ndim, a.size)
    if layout.is_contiguous() and a.size:
        np.testing.assert_array_equal(a.ravel(), a.flat[0] + np.arange(a.size))
    elif not layout.guards:
        assert a.size == 0 or (a.ravel() != a.flat[0] + np.arange(a.size)).any()


@SETTINGS
@given(moved((_permute, _expand, _slice, _window)), st.data())
def test_reshape_asks_for_a_copy_exactly_when_numpy_does(pair: tuple[Layout, np.ndarray], data: st.DataObject) -> None:
    layout, a = pair
    if a.size == 0:
        return
    memory = np.arange(LARGEST)
    strides = [s * memory.itemsize for s in layout.strides]
    view = np.lib.stride_tricks.as_strided(memory[layout.offset :], layout.extents, strides, writeable=False)
    np.testing.assert_array_equal(view, a)
    extents = _factors(data.draw, a.size)
    copied = not np.shares_memory(view.reshape(extents), memory)
    assert (layout.reshape(extents) is None) == copied


@st.composite
def moved_together(draw: Callable) -> tuple[list[Layout], list[np.ndarray], list[int]]:
    """Several layouts over the same places, with the axes cut into groups."""
    extents = draw(st.lists(st.integers(1, 4), max_size=5))
    layouts, expected = [], []
    for _ in range(draw(st.integers(1, 3))):
        axes = draw(st.permutations(range(len(extents))))
        repeated = [draw(st.booleans()) for _ in extents]
        own = [1 if repeated[a] else extents[a] for a in axes]
        back = [axes.index(a) for a in range(len(extents))]
        layout = Layout.contiguous(own).permute(back)
        a = np.arange(prod(own)).reshape(own).transpose(back)
        for move in draw(st.lists(st.sampled_from(["flip", "cut", "dilate"]), max_size=2)):
            if move == "flip":
                layout = layout.slice([e - 1 for e in a.shape], a.shape, [-1] * a.ndim)
                a = np.flip(a)
            elif move == "cut" and a.ndim and a.shape[0] > 1:  # a slice of something padded: guards stay
                layout = layout.pad([1] + [0] * (a.ndim - 1), [0] * a.ndim, [0] * a.ndim)
                a = np.concatenate([np.full((1, *a.shape[1:]), PADDING), a])
                layout = layout.slice([0] * a.ndim, [a.shape[0] - 1, *a.shape[1:]], [1] * a.ndim)
                a = a[:-1]
            elif move == "dilate" and a.ndim and a.shape[-1] > 2 and not layout.guards:
                kept = (a.shape[-1] + 1) // 2
                layout = layout.slice([0] * a.ndim, [*a.shape[:-1], kept], [1] * a.ndim)
                layout = layout.pad(
                    [0] * a.ndim, [0] * (a.ndim - 1) + [a.shape[-1] - 2 * kept + 1], [0] * (a.ndim - 1) + [1]
                )
                wide = np.full_like(a, PADDING)
                wide[..., ::2] = a[..., :kept]
                a = wide
            assert layout is not None
        layouts.append(layout.expand(extents))
        expected.append(np.broadcast_to(a, extents))
    cut = draw(st.integers(0, len(extents)))
    return layouts, expected, [cut, len(extents) - cut]


@SETTINGS
@given(moved_together())
def test_collapse_keeps_every_place(case: tuple[list[Layout], list[np.ndarray], list[int]]) -> None:
    layouts, expected, groups = case
    collapsed, counts = collapse(layouts, groups)
    first = collapsed[0].extents
    assert len(counts) == len(groups) and sum(counts) == len(first) and 1 not in first
    # Row-major order stays, in each group: rows are the first group's places, columns the second's.
    rows = prod(expected[0].shape[: groups[0]])
    for layout, a in zip(collapsed, expected, strict=True):
        assert layout.extents == first
        assert prod(first[: counts[0]]) == rows
        np.testing.assert_array_equal(addresses(layout).ravel(), a.ravel())


@SETTINGS
@given(moved_together())
def test_collapse_is_canonical(case: tuple[list[Layout], list[np.ndarray], list[int]]) -> None:
    """No two neighbours in a group could merge further, and doing it again changes nothing."""
    layouts, _, groups = case
    collapsed, counts = collapse(layouts, groups)
    assert collapse(collapsed, counts) == (collapsed, counts)
    extents = collapsed[0].extents
    for axis in range(len(extents) - 1):
        if axis + 1 == counts[0]:
            continue
        forms = [form for layout in collapsed for form in layout._forms()]
        assert any(f[axis] != f[axis + 1] * extents[axis + 1] for f in forms)


def test_contiguous_layouts_collapse_to_rank_one() -> None:
    """Contiguous is rank 1, broadcasting rank 2 with a stride of 0, whatever the shape: templates see rank alone."""
    shape = (2, 3, 1, 5)
    (one,), _ = collapse([Layout.contiguous(shape)], [4])
    assert one == Layout((30,), (1,))
    row = Layout.contiguous((5,)).reshape((1, 1, 1, 5))
    assert row is not None
    both, counts = collapse([Layout.contiguous(shape), row.expand(shape)], [4])
    assert both == [Layout((6, 5), (5, 1)), Layout((6, 5), (0, 1))] and counts == [2]


def test_merging_stops_at_a_guard() -> None:
    layout = Layout.contiguous((2, 3)).pad((0, 1), (0, 0), (0, 0))
    assert layout is not None and layout.guards == (Guard((0, 1), -1, 3),)
    (same,), _ = collapse([layout], [2])
    assert same.rank == 2


def test_interior_padding_of_a_guarded_axis_needs_a_copy() -> None:
    padded = Layout.contiguous((4,)).pad((1,), (1,), (0,))
    assert padded is not None and padded.pad((0,), (0,), (1,)) is None


# ---- mutations: each of these mistakes must be noticed
def _unmoved_guards(layout: Layout, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Layout:
    return replace(_SLICE(layout, starts, extents, steps), guards=layout.guards)


def _unmoved_offset(layout: Layout, starts: Sequence[int], extents: Sequence[int], steps: Sequence[int]) -> Layout:
    return replace(_SLICE(layout, starts, extents, steps), offset=layout.offset)


def _strides_only(layout: Layout, axes: Sequence[int]) -> Layout:
    return replace(_PERMUTE(layout, axes), guards=layout.guards)


def _low_forgotten(layout: Layout, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Layout | None:
    padded = _PAD(layout, low, high, interior)
    return padded and replace(padded, offset=layout.offset)


def _guardless_pad(layout: Layout, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Layout | None:
    padded = _PAD(layout, low, high, interior)
    return padded and replace(padded, guards=())


def _strides_kept(layout: Layout, extents: Sequence[int]) -> Layout:
    return Layout(tuple(extents), layout.strides, layout.offset, layout.guards)


def _dilation_ignored(layout: Layout, axis: int, size: int, stride: int, dilation: int) -> Layout:
    extents = _WINDOW(layout, axis, size, stride, dilation).extents
    return replace(_WINDOW(layout, axis, size, stride, 1), extents=extents)


def _always_a_view(layout: Layout, extents: Sequence[int]) -> Layout:
    return _RESHAPE(layout, extents) or Layout.contiguous(extents)


def _one_form(layout: Layout, axis: int, other: int) -> Layout:
    return replace(_DIAGONAL(layout, axis, other), strides=tuple(s for a, s in enumerate(layout.strides) if a != other))


_SLICE, _PERMUTE, _PAD, _WINDOW = Layout.slice, Layout.permute, Layout.pad, Layout.window
_RESHAPE, _DIAGONAL = Layout.reshape, Layout.diagonal

MUTATIONS = [
    ("slice", _unmoved_guards),
    ("slice", _unmoved_offset),
    ("permute", _strides_only),
    ("pad", _low_forgotten),
    ("pad", _guardless_pad),
    ("expand", _strides_kept),
    ("window", _dilation_ignored),
    ("reshape", _always_a_view),
    ("diagonal", _one_form),
]


@pytest.mark.parametrize(("method", "mutant"), MUTATIONS, ids=[mutant.__name__ for _, mutant in MUTATIONS])
def test_a_mutant_is_noticed(method: str, mutant: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, method, mutant)

    @settings(SETTINGS, phases=[Phase.generate])
    @given(moved())
    def moves(pair: tuple[Layout, np.ndarray]) -> None:
        assert_same(*pair)

    with pytest.raises(AssertionError):
        moves()


def test_a_greedy_merge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging by the first layout alone would break the others."""

    def by_first(extents: Sequence[int], forms: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
        merged, first = merge_axes(extents, forms[:1])
        return merged, first * len(forms)

    monkeypatch.setattr("vkgrad.ir.layout.merge_axes", by_first)

    @settings(SETTINGS, phases=[Phase.generate])
    @given(moved_together())
    def keeps(case: tuple[list[Layout], list[np.ndarray], list[int]]) -> None:
        layouts, expected, groups = case
        for layout, a in zip(collapse(layouts, groups)[0], expected, strict=True):
            np.testing.assert_array_equal(addresses(layout).ravel(), a.ravel())

    with pytest.raises(AssertionError):
        keeps()
