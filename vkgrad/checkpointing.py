"""`checkpoint`: what a function computes in between is not kept for its gradient but computed once more.

The function's graph is taken as it was recorded, from its results down to what was there before the call, tensors of
closures and modules among it. Its gradient rebuilds that graph on the same values, seen `after` the gradient that asks
for it, so that the recomputation runs then and not beside the first. T. Chen et al., "Training Deep Nets with Sublinear
Memory Cost" (2016). This module must not know how a plan orders its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from weakref import ref

from vkgrad import autodiff, history, tree
from vkgrad.checked import function_in
from vkgrad.ir.node import Node, apart, rebuilt, serial_now, walk
from vkgrad.ir.op import Family
from vkgrad.ops.views import after, alias
from vkgrad.tensor import Tensor, is_operand, lift


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, whose gradient computes what is in between once more instead of keeping it.

    It trades about one more run of f for the memory of its intermediate results. Values and gradients are the same, of
    any order, with respect to arguments and to whatever else f reads. f must not assign to tensors from outside.

    Example:
        >>> import vkgrad as vg
        >>> vg.grad(vg.checkpoint(lambda x: vg.sin(vg.exp(x))))(0.0).item() == vg.grad(lambda x: vg.sin(vg.exp(x)))(0.0).item()
        True
    """  # noqa: E501  an example is a line
    function_in("checkpoint", f)

    @wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.replace(_tensor, args), tree.replace(_tensor, kwargs)
        before = serial_now()
        with apart():  # else an equal expression elsewhere, which is kept, would stand in for a part of it
            output = f(*args, **kwargs)
        leaves, form = tree.flatten(output)
        results = [lift(leaf).node if is_operand(leaf) else None for leaf in leaves]
        region = _Region([node for node in results if node is not None and node.dtype.kind == "f"], before)
        if not history.is_recording() or not history.is_needed(region.outputs, lambda node: False):
            return output
        marked = region.marked()
        return form.unflatten(
            [
                leaf if node not in marked else Tensor(marked[node], keeps_history=True)
                for leaf, node in zip(leaves, results, strict=True)
            ]
        )

    return checkpointed


def _tensor(leaf: Any) -> Any:
    return lift(leaf) if is_operand(leaf) else leaf


class _Region:
    """What one call recorded: the nodes between `outputs` and what was there `before`."""

    def __init__(self, outputs: Sequence[Node], before: int) -> None:
        self.outputs = list(dict.fromkeys(outputs))
        order = walk(self.outputs, stop=lambda node: _is_outside(node, before))
        self.inside = [node for node in order if not _is_outside(node, before)]
        self.inputs = [node for node in order if _is_outside(node, before) and node.op.family is not Family.SOURCE]
        self.wrt = [node for node in self.inputs if node.dtype.kind == "f"]
        self._again: dict[Node, ref[Node]] = {}  # of the last recomputation: inputs and outputs, as long as they live

    def marked(self) -> dict[Node, Node]:
        """A node of its own for each output, whose derivative recomputes the region."""
        found = {}
        for node in self.outputs:
            found[node] = alias(node)
            autodiff.custom_rules[found[node]] = autodiff.CustomRule(tuple(self.wrt), self._pull_of(node))
        return found

    def _pull_of(self, output: Node) -> Callable[[Node], list[Node | None]]:
        def pull(g: Node) -> list[Node | None]:
            new = self._living() or self._recomputed(g)
            return autodiff.vjp([new[output]], [new[node] for node in self.wrt], [g])

        return pull

    def _living(self) -> dict[Node, Node] | None:
        """The last recomputation, which several outputs share, if all of it is still there."""
        found = {node: weak() for node, weak in self._again.items()}
        return None if not found or None in found.values() else found  # type: ignore[return-value]

    def _recomputed(self, g: Node) -> dict[Node, Node]:
        new = {node: after(node, g) for node in self.inputs}
        for node in self.inside:
            new[node] = rebuilt(node, tuple(new.get(source, source) for source in node.inputs))
            rule = autodiff.custom_rules.get(node) if node.is_op("alias") else None
            if rule is not None:
                inputs = tuple(new.get(source, source) for source in rule.inputs)
                autodiff.custom_rules[new[node]] = autodiff.CustomRule(inputs, rule.pull)
        self._again = {node: ref(new[node]) for node in (*self.inputs, *self.outputs)}
        return new


def _is_outside(node: Node, before: int) -> bool:
    return node.serial < before or node.op.family is Family.LEAF
