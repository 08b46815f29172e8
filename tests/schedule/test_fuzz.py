"""Random graphs through the scheduler and the twin, against a plain interpretation of their nodes.

Values are small whole numbers, so every sum and product is exact whatever its order, and results are compared bit for
bit: a scheduler's mistake cannot hide in a tolerance.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.planned import planned
from tests.reference import evaluate, variable
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, dtype_of, float32, int32
from vkgrad.ir.node import Node
from vkgrad.ops import views
from vkgrad.ops.contraction import contract
from vkgrad.ops.indexed import gather, scatter_add
from vkgrad.ops.reductions import argextreme
from vkgrad.schedule.kernel import Load
from vkgrad.schedule.split import Width

GRAPHS = 150
LARGEST = 1 << 9  # elements of a node
EXACT = 1 << 24  # float32 counts exactly up to here; what would grow beyond is made of smaller operands


class Graphs:
    """Draws a graph: leaves first, then nodes on nodes drawn before."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.values: dict[Node, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.bound: dict[Node, int] = {}
        generator = np.random.default_rng(seed)
        for _ in range(self.random.randint(2, 4)):
            shape = tuple(self.random.choice((1, 2, 3, 4, 5)) for _ in range(self.random.randint(0, 4)))
            name = self.random.choice(("float32", "float32", "float32", "int32"))
            self.keep(variable(generator.integers(-3, 4, shape).astype(name), self.values), 3)

    def keep(self, node: Node, bound: int) -> None:
        if node.size > LARGEST:
            return
        assert bound <= EXACT
        self.bound[node] = bound
        self.nodes.append(node)

    def small(self, node: Node, most: int) -> Node:
        """`node`, or where its values may exceed `most` (at least 5), its remainder."""
        if self.bound[node] > most:
            node = b.apply("remainder", node, 5)
            self.bound[node] = 5
        return node

    def pick(self) -> Node:
        """Late nodes more often, so that graphs get deep; early ones too, so that they share."""
        late = self.nodes[-4:]
        return self.random.choice(late if self.random.random() < 0.6 else self.nodes)

    def grow(self, steps: int) -> list[Node]:
        draws = (self.elementwise, self.elementwise, self.binary, self.binary, self.view, self.view, self.view,
                 self.reduction, self.reduction, self.row, self.contraction, self.contraction, self.lookup)  # fmt: skip
        for _ in range(steps):
            self.random.choice(draws)()
        outputs = self.random.sample(self.nodes, min(len(self.nodes), self.random.randint(1, 3)))
        return list(dict.fromkeys([*outputs, self.nodes[-1]]))

    def elementwise(self) -> None:
        x = self.pick()
        if self.random.random() < 0.3:
            other = float32 if x.dtype is int32 else int32
            self.keep(b.cast(x, other), self.bound[x])
            return
        name = self.random.choice(("negative", "abs", "relu", "sign") if x.dtype is float32 else ("negative", "abs"))
        self.keep(b.apply(name, x), self.bound[x])

    def binary(self) -> None:
        x, y = self.pick(), self.pick()
        if self.random.random() < 0.2:
            y = b.expand(b.constant(self.random.randint(-2, 2), x.dtype), ())
            self.bound[y] = 2
        original = y
        y = b.cast(y, x.dtype)
        self.bound.setdefault(y, self.bound[original])
        rank = max(x.ndim, y.ndim)
        wide = [(1,) * (rank - node.ndim) + node.shape for node in (x, y)]
        if any(p != q and 1 not in (p, q) for p, q in zip(*wide, strict=True)):
            return
        name = self.random.choice(("add", "subtract", "multiply", "maximum", "minimum", "where", "equal"))
        x, y = (self.small(node, 1 << (12 if name == "multiply" else 23)) for node in (x, y))
        least, most = sorted((self.bound[x], self.bound[y]))
        if name == "where":
            self.keep(b.apply("where", x > y, x, y), most)
        elif name == "equal":
            self.keep(b.cast(b.apply("equal", x, y), x.dtype), 1)
        else:
            self.keep(b.apply(name, x, y), least * most if name == "multiply" else least + most)

    def view(self) -> None:
        x = self.pick()
        draw, bound = self.random, self.bound[x]
        kind = draw.choice(("reshape", "reshape", "permute", "expand", "slice", "flip", "pad", "window", "diagonal"))
        if kind == "reshape":
            factors = [p for e in x.shape for p in ((2, 2) if e == 4 else (e,))]
            if draw.random() < 0.4:
                factors.insert(draw.randint(0, len(factors)), 1)
            while len(factors) > 1 and draw.random() < 0.6:
                at = draw.randrange(len(factors) - 1)
                factors[at : at + 2] = [factors[at] * factors[at + 1]]
            if len(factors) <= 6:
                self.keep(b.reshape(x, tuple(factors)), bound)
        elif kind == "permute":
            self.keep(views.permute(x, draw.sample(range(x.ndim), x.ndim)), bound)
        elif kind == "expand":
            self.keep(b.expand(x, tuple(draw.choice((1, 2, 3)) if e == 1 else e for e in x.shape)), bound)
        elif kind == "slice" and x.size:
            extents = [draw.randint(1, e) for e in x.shape]
            steps = [draw.choice((1, 1, 2)) for _ in x.shape]
            extents = [min(n, (e - 1) // t + 1) for n, t, e in zip(extents, steps, x.shape, strict=True)]
            starts = [draw.randint(0, e - 1 - (n - 1) * t) for n, t, e in zip(extents, steps, x.shape, strict=True)]
            self.keep(views.slice_(x, starts, extents, steps), bound)
        elif kind == "flip":
            self.keep(views.flip(x, [a for a in range(x.ndim) if draw.random() < 0.5]), bound)
        elif kind == "pad":
            low, high, interior = ([draw.choice((0, 0, 0, 1, 2)) for _ in x.shape] for _ in range(3))
            self.keep(views.pad(x, low, high, interior, draw.choice((0, 0, -1, 2))), max(bound, 2))
        elif kind == "window" and x.ndim and x.ndim < 6:
            axis = draw.randrange(x.ndim)
            size, dilation = draw.randint(1, 3), draw.randint(1, 2)
            if (size - 1) * dilation < x.shape[axis]:
                self.keep(views.window(x, axis, size, draw.randint(1, 2), dilation), bound)
        elif kind == "diagonal":
            pairs = [(p, q) for p in range(x.ndim) for q in range(x.ndim) if p != q and x.shape[p] == x.shape[q]]
            if pairs:
                self.keep(views.diagonal(x, *draw.choice(pairs)), bound)

    def reduction(self) -> None:
        x = self.pick()
        axes = tuple(a for a in range(x.ndim) if self.random.random() < 0.5)
        if not axes:
            return
        terms = prod(x.shape[a] for a in axes)
        x = self.small(x, EXACT // LARGEST)
        name = self.random.choice(("sum", "sum", "sum", "max", "min", "any", "argmax", "overlap_add"))
        if name == "sum":
            self.keep(b.build("sum", x, axes=axes), self.bound[x] * terms)
        elif name in ("max", "min"):
            self.keep(b.build(name, x, axes=axes, ties="share"), self.bound[x])
        elif name == "any":
            mask = b.build(self.random.choice(("any", "all")), b.cast(x, bool_), axes=axes)
            self.keep(b.cast(mask, x.dtype), 1)
        elif name == "argmax":
            self.keep(argextreme(x, "max", axes), terms)
        elif x.ndim > 1:
            size, stride, dilation = x.shape[-1], self.random.randint(1, 2), self.random.randint(1, 2)
            reach = (x.shape[0] - 1) * stride + (size - 1) * dilation + 1
            extent = reach + self.random.randint(0, 1)
            self.keep(views.overlap_add(x, 0, extent, stride, dilation), self.bound[x] * size)

    def row(self) -> None:
        """A reduction beside what it reduced, as in softmax and normalisation, once or twice."""
        x = self.pick()
        axes = tuple(a for a in range(x.ndim) if self.random.random() < 0.6)
        if not axes or x.dtype is not float32:
            return
        x = self.small(x, EXACT // LARGEST // 8)
        for _ in range(self.random.randint(1, 2)):
            if self.random.random() < 0.5:
                joined = b.build(self.random.choice(("max", "min")), x, axes=axes, ties="share")
            else:
                joined = b.build("sum", x, axes=axes)
            bound = self.bound[x] * prod(x.shape[a] for a in axes)
            self.keep(joined, bound)
            y = b.apply(self.random.choice(("subtract", "add", "maximum")), x, b.expand(joined, x.shape))
            self.keep(y, self.bound[x] + bound)
            x = self.small(y, EXACT // LARGEST // 8)

    def contraction(self) -> None:
        x, y = self.small(self.pick(), 16), self.small(self.pick(), 16)
        if x.ndim > 1 and self.random.random() < 0.3:  # fit the second operand: nodes seldom share extents
            y = b.reshape(b.build("sum", x, axes=(0,)), x.shape[1:])
            self.bound.setdefault(y, self.bound[x] * x.shape[0])
            y = self.small(y, 16)
        if y.dtype is not x.dtype:
            return
        left = list(range(x.ndim))
        right: list[int] = []
        free = list(left)
        for extent in y.shape:
            shared = [label for label in free if x.shape[label] == extent]
            label = self.random.choice(shared) if shared and self.random.random() < 0.7 else x.ndim + len(right)
            if label in free:
                free.remove(label)
            right.append(label)
        both = [label for label in left if label in right]
        summed = [label for label in both if self.random.random() < 0.7]
        out = [label for label in dict.fromkeys(left + right) if label not in summed]
        self.random.shuffle(out)
        node = contract(x, y, tuple(left), tuple(right), tuple(out))
        terms = prod(x.shape[label] for label in summed)
        if node.size * terms <= 1 << 14:
            self.keep(node, self.bound[x] * self.bound[y] * terms)

    def lookup(self) -> None:
        x, index = self.pick(), self.pick()
        if not x.ndim or x.ndim + index.ndim > 6 or x.size * index.size > LARGEST:
            return
        axis = self.random.randrange(x.ndim)
        index = b.cast(b.apply("remainder", b.cast(index, int32), x.shape[axis]), int32)
        taken = gather(x, index, axis)
        self.keep(taken, self.bound[x])
        if self.random.random() < 0.5:
            self.keep(scatter_add(taken, index, axis, x.shape[axis]), self.bound[x] * max(index.size, 1))


def compare(seed: int, **options: Any) -> None:
    graphs = Graphs(seed)
    outputs = graphs.grow(graphs.random.randint(4, 18))
    want = evaluate(outputs, graphs.values)
    have = planned(outputs, graphs.values, **options)
    for node, w, h in zip(outputs, want, have, strict=True):
        assert h.dtype == dtype_of(w.dtype).numpy
        np.testing.assert_array_equal(h, w, err_msg=f"seed {seed}, {node}")


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("block", range(10))
def test_random_graphs(block: int, fuse: bool) -> None:
    for seed in range(block * GRAPHS // 10, (block + 1) * GRAPHS // 10):
        compare(seed, fuse=fuse)


def test_few_buffers_force_smaller_kernels() -> None:
    for seed in range(30):
        compare(seed, max_buffers=6)


def test_what_vulkan_devices_do_to_kernels() -> None:
    for seed in range(60):
        compare(seed, width=Width(1, 1, 1 << 20))


def test_a_wrong_address_is_noticed() -> None:
    """The comparison sees kernels that read an axis backwards; sums over that axis rightly do not care."""

    def backwards(instruction: object) -> object:
        if not isinstance(instruction, Load):
            return instruction
        layout = instruction.layout
        axis = next((a for a, stride in enumerate(layout.strides) if stride and layout.extents[a] > 1), None)
        starts = [e - 1 if a == axis else 0 for a, e in enumerate(layout.extents)]
        steps = [-1 if a == axis else 1 for a in range(layout.rank)]
        return replace(instruction, layout=layout.slice(starts, layout.extents, steps))

    noticed = 0
    for seed in range(40):
        try:
            compare(seed, change=lambda kernel: replace(kernel, code=tuple(map(backwards, kernel.code))))
        except AssertionError:
            noticed += 1
    assert noticed >= 20
