"""`x.at[index].set(v)` and its relatives: a new tensor with some elements changed; tensors do not change in place.

A region of integers and slices is written by padding the values to the shape of x and choosing by a mask: views and one
element-wise kernel. Integer arrays reduce, for every place of x, the values that are sent there, in one fixed order, so
that duplicates give the same result on every device. This module must not know how that is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkgrad.errors import DTypeError, ShapeError
from vkgrad.functions.creation import counter
from vkgrad.functions.elementwise import maximum, minimum, where
from vkgrad.functions.joining import padded
from vkgrad.indexing import Lookup, Region, cut, merge, parse
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, int32
from vkgrad.ir.node import Node
from vkgrad.ir.op import Shape
from vkgrad.ops.indexed import scatter
from vkgrad.ops.views import flip, permute
from vkgrad.tensor import Operand, Tensor, derived, lift

Combine = Callable[[Tensor, Tensor], Tensor]


class At:
    """What `x.at` gives: index it, then say what to do with the values."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __getitem__(self, index: Any) -> Update:
        return Update(self.x, index)


class Update:
    """The places `x[index]`, to be changed in a new tensor.

    `index` is what `x[index]` takes, or a mask on the device that broadcasts to x. Values broadcast to `x[index]` and
    take the type of x. Where several go to one place, `set` keeps the last, and the others take all of them.

    Example:
        >>> import vkgrad as vg
        >>> vg.zeros((2, 3)).at[:, ::2].set(1).tolist()
        [[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
        >>> vg.zeros((3,)).at[[0, 0, 2]].add(1).tolist()
        [2.0, 0.0, 1.0]
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        self.x = x
        self.index = index

    def set(self, values: Operand) -> Tensor:
        return self._changed(values, lambda old, new: new, None)

    def add(self, values: Operand) -> Tensor:
        return self._changed(values, lambda old, new: old + new, "sum")

    def subtract(self, values: Operand) -> Tensor:
        """Raises `DTypeError` where x is a mask."""
        if self.x.dtype is bool_:
            raise DTypeError("at: masks have no differences; use .astype(vg.int32) first")
        return self._changed(values, lambda old, new: old - new, "sum")

    def multiply(self, values: Operand) -> Tensor:
        return self._changed(values, lambda old, new: old * new, "prod")

    def divide(self, values: Operand) -> Tensor:
        """Raises `DTypeError` where x has no floats, which a quotient would not fit into."""
        if self.x.dtype.kind != "f":
            raise DTypeError(f"at: {self.x.dtype.name} cannot hold quotients; use .astype(vg.float32) first")
        return self._changed(values, lambda old, new: old / new, "prod")

    def power(self, values: Operand) -> Tensor:
        return self._changed(values, lambda old, new: old**new, "prod")

    def max(self, values: Operand) -> Tensor:
        return self._changed(values, maximum, "max")

    def min(self, values: Operand) -> Tensor:
        return self._changed(values, minimum, "min")

    def get(self) -> Tensor:
        """`x[index]`; a mask on the device is read."""
        return self.x[self.index]

    def apply(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """x with `function` of `x[index]` at these places."""
        return self.set(function(self.get()))

    def _changed(self, values: Operand, combine: Combine, join: str | None) -> Tensor:
        x, index = self.x, self.index
        if x.dtype is bool_ and join is not None:  # as numbers, of which masks say that they are not 0
            numbers = At(x.astype(int32))[index]._changed(lift(values).astype(bool_).astype(int32), combine, join)
            return numbers.astype(bool_)
        new = lift(values).astype(x.dtype)
        if isinstance(index, Tensor) and index.dtype is bool_:
            if b.broadcast_shapes("at", x.shape, index.shape, new.shape) != x.shape:
                raise ShapeError(f"at: a mask {index.shape} and values {new.shape} do not broadcast to {x.shape}")
            return where(index, combine(x, new), x)
        region, lookup = parse(index, x.shape)
        if lookup is None:
            return _write(x, region, _spread(new, region.shape), combine)
        box = derived(cut(x.node, region), x)
        changed = _send(box, lookup, new, combine, join)
        return _write(x, region, changed, lambda old, new: new)


def _spread(values: Tensor, shape: Shape) -> Tensor:
    if b.broadcast_shapes("at", values.shape, shape) != shape:
        raise ShapeError(f"at: values of shape {values.shape} do not broadcast to the {shape} places of the index")
    return derived(b.expand(values.node, shape), values)


def _write(x: Tensor, region: Region, values: Tensor, combine: Combine) -> Tensor:
    """x with `combine(old, value)` in the region."""
    if region.extents == x.shape and all(step == 1 for step in region.steps):
        return combine(x, values.reshape(x.shape))
    if values.size == 0:
        return x
    placed = derived(_uncut(values.node, region, x.shape), values)
    written = Tensor(_uncut(b.constant(True, bool_, region.shape), region, x.shape))
    return where(written, combine(x, placed), x)


def _uncut(values: Node, region: Region, shape: Shape) -> Node:
    """`values` in the region of a tensor of `shape` that is 0 elsewhere: what `cut` took, put back."""
    node = flip(b.reshape(values, region.extents), [axis for axis, step in enumerate(region.steps) if step < 0])
    low, high, between = [], [], []
    for start, count, step, extent in zip(region.starts, region.extents, region.steps, shape, strict=True):
        last = start + (count - 1) * step
        low.append(min(start, last))
        high.append(extent - 1 - max(start, last))
        between.append(abs(step) - 1 if count > 1 else 0)
    return padded(node, low, high, 0, between)


def _send(box: Tensor, lookup: Lookup, values: Tensor, combine: Combine, join: str | None) -> Tensor:
    """`box` with `combine(old, values sent there)` wherever the lookup points."""
    merged, order = merge(box.node, lookup)
    axis, extent, count = lookup.place, merged.shape[lookup.place], lookup.index.size
    before, after = merged.shape[:axis], merged.shape[axis + 1 :]
    sent = _spread(values, (*before, *lookup.index.shape, *after)).reshape(*before, count, *after)
    if sent.size == 0:
        return box
    old, places = derived(merged, box), lookup.index.reshape(-1)
    if join is None:
        # The last value sent to a place is the one with the largest number.
        last = Tensor(scatter(counter(count).reshape(-1, 1).node, places.node, extent, "max")).reshape(extent)
        hit = (last >= 0).reshape(extent, *(1 for _ in after))
        changed = where(hit, combine(old, sent.take(maximum(last, 0), axis)), old)
    else:
        rows = sent.moveaxis(axis, 0)
        joined = derived(scatter(rows.reshape(count, -1).node, places.node, extent, join), sent)
        changed = combine(old, joined.reshape(extent, *before, *after).moveaxis(0, axis))
    # Undo the merge.
    moved = b.reshape(changed.node, tuple(box.shape[a] for a in order))
    return derived(permute(moved, [order.index(a) for a in range(box.ndim)]), changed)


Tensor.at = property(At)
