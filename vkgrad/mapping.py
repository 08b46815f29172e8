"""`vmap`: a function of one example becomes a function of many, in the same number of kernels.

The function runs once, on tensors that stand for one example and have no value, and the graph that it records is given
a leading axis (see `vkgrad.batching`). So there is no loop, and `vmap` composes with `grad`, `jvp`, `jit` and itself.
This module must not know operations.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from vkgrad import engine, history, tree
from vkgrad.batching import batch
from vkgrad.checked import function_in
from vkgrad.draws.keys import RANDOMNESS, drawing_for
from vkgrad.errors import OptionError, ShapeError
from vkgrad.functional import standing_in
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import int32
from vkgrad.ir.node import Node
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import permute
from vkgrad.tensor import Tensor, is_operand, lift

Axes = Any  # None, an integer, or a nesting of them that fits a part of the arguments' nesting


def vmap(
    f: Callable[..., Any],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    randomness: str = "error",
) -> Callable:
    """A function that applies f to each slice of its arguments along `in_axes`, and joins the results along `out_axes`.

    `in_axes` and `out_axes` are one axis for all, or a nesting of axes that need not go all the way down; None in
    `in_axes` stands for an argument that all calls share, in `out_axes` for a result that is the same for all.
    `in_axes` is a tuple with an entry per positional argument where they differ; keyword arguments are mapped over
    their first axis. `axis_size` is needed only where nothing else says how many slices there are. A module whose axis is not None is one with stacked parameters.

    `randomness` says what dropout in training, and what else draws without being given a key, does inside f: "different"
    draws other numbers for each slice, "same" the same for all, and "error" raises `OptionError`. Keys that are given
    do what they say: map over `random.split(key, n)`, or share one.

    Raises: `ShapeError` when the mapped extents differ or an axis is not there. Values of mapped tensors cannot be
    read inside f (`VkgradError`): use `where` instead of `if`.

    Example:
        >>> import vkgrad as vg
        >>> vg.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(vg.tensor([[1.0, 2.0], [3.0, 4.0]]), vg.ones(2)).tolist()
        [3.0, 7.0]
        >>> per_example = vg.vmap(vg.grad(lambda w, x: vg.sin(w * x)), in_axes=(None, 0))
        >>> per_example(0.0, vg.tensor([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """  # noqa: E501  an example is a line

    function_in("vmap", f)
    if randomness not in RANDOMNESS:
        raise OptionError(f"vmap: randomness must be one of {', '.join(RANDOMNESS)}, got {randomness!r}")

    @wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = _spread("in_axes", in_axes, args) + _spread("in_axes", 0, kwargs)
        found = [*tree.leaves(args), *tree.leaves(kwargs)]
        whole: dict[Node, Node] = {}  # what stands for one example -> all of them, the mapped axis first
        sources: list[Tensor] = []
        given: list[Any] = []
        extents: dict[str, int] = {} if axis_size is None else {"axis_size": axis_size}
        with ExitStack() as until_called:
            until_called.enter_context(engine.aside())
            for place, axis in zip(found, axes, strict=True):
                if axis is None:
                    if not place.of_module:
                        given.append(place.value)
                    continue
                source = _mappable(place)
                rows = _axis_first(source.node, axis, place.path)
                extents[f"axis {axis} of argument {place.path}"] = rows.shape[0]
                one = leaf(rows.shape[1:], rows.dtype)
                whole[one] = rows
                sources.append(source)
                if place.of_module:
                    until_called.enter_context(standing_in(source, one))
                else:
                    given.append(Tensor(one, keeps_history=rows.dtype.kind == "f"))
            size = _common(extents)
            until_called.enter_context(history.traced(whole))
            number = Tensor(leaf((), int32))
            whole[number.node] = b.build("iota", extent=size)
            until_called.enter_context(drawing_for(randomness, number))
            remaining = iter(given)
            call = tree.replace(lambda _: next(remaining), args), tree.replace(lambda _: next(remaining), kwargs)
            output = f(*call[0], **call[1])
        results, form = tree.flatten(output)
        ends = [lift(result).node for result in results]
        joined = [
            end if every is None and axis is None else _axis_at(_all_of(end, every, size), axis)
            for end, every, axis in zip(
                ends, batch(ends, whole, size), _spread("out_axes", out_axes, output), strict=True
            )
        ]
        kept = history.must_keep(sources) or history.is_needed(joined, lambda node: False)
        return form.unflatten([Tensor(node, keeps_history=kept and node.dtype.kind == "f") for node in joined])

    return mapped


def _spread(name: str, axes: Axes, value: Any) -> list[int | None]:
    """The axis of each leaf of `value`: `axes` may stop at any level, and then holds for all that is below."""
    if axes is None or isinstance(axes, int):
        return [axes] * sum(1 for _ in tree.leaves(value))
    children = value.values() if isinstance(value, dict) else value
    own = [axes[key] for key in value] if isinstance(axes, dict) and isinstance(value, dict) else axes
    if tree.is_module(value) or not isinstance(value, dict | list | tuple) or len(own) != len(value):
        raise ShapeError(
            f"vmap: {name}={axes!r} does not fit the nesting it is for; give one axis, or one for each part"
        )
    return [axis for part, child in zip(own, children, strict=True) for axis in _spread(name, part, child)]


def _mappable(place: tree.Leaf) -> Tensor:
    if not is_operand(place.value):
        raise ShapeError(f"vmap: argument {place.path} is a {type(place.value).__name__}; give it in_axes=None")
    return lift(place.value)


def _axis_first(node: Node, axis: int, path: str) -> Node:
    if not -node.ndim <= axis < node.ndim:
        raise ShapeError(
            f"vmap: argument {path} of shape {node.shape} has no axis {axis} to map over; "
            "give it in_axes=None if all calls share it"
        )
    axis %= node.ndim
    return permute(node, [axis, *(a for a in range(node.ndim) if a != axis)])


def _all_of(one: Node, every: Node | None, size: int) -> Node:
    return b.expand(one, (size, *one.shape)) if every is None else every


def _axis_at(node: Node, axis: int | None) -> Node:
    if axis is None:
        raise ShapeError("vmap: out_axes is None for a result that differs between the examples; name an axis")
    if not -node.ndim <= axis < node.ndim:
        raise ShapeError(f"vmap: out_axes must name an axis of each result, and {axis} is none of shape {node.shape}")
    order = list(range(1, node.ndim))
    order.insert(axis % node.ndim, 0)
    return permute(node, order)


def _common(extents: dict[str, int]) -> int:
    if not extents:
        raise ShapeError("vmap: no argument is mapped; give one an axis in in_axes, or say axis_size")
    if len(set(extents.values())) > 1:
        raise ShapeError(
            f"vmap: the mapped extents differ: {', '.join(f'{k} has {v}' for k, v in extents.items())}; "
            "in_axes says which axis each is mapped over, None that all calls share it"
        )
    return next(iter(extents.values()))
