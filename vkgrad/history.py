"""Which values must keep the graph they came from, because a gradient may still be asked of them.

Once a value is computed the engine forgets how, except for tensors with `keeps_history`. This module says which those
are: what is computed from tensors that require gradients, or inside a running transform such as `grad`. It must not
know tensors: it speaks of nodes and of anything with the two flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType, ref

from vkgrad.autodiff import sources
from vkgrad.ir.node import Node
from vkgrad.ir.weak import WeakMap

# Called with the name of what computed gradients, and these in their nesting, when they are handed out.
on_gradients: list[Callable[[str, Any], None]] = []

_recording: ContextVar[bool] = ContextVar("vkgrad_recording", default=True)

# The nodes that stand for tensors with requires_grad. A tensor may have several: a pending one and, after a flush, a
# leaf; graphs built before the flush still name the first.
_owners: WeakMap[Node, ReferenceType[Any]] = WeakMap()

# The nodes that running transforms differentiate with respect to.
_traced: WeakMap[Node, int] = WeakMap()


@contextmanager
def no_grad() -> Iterator[None]:
    """Results computed inside do not remember where they came from, so `backward` stops there.

    Example:
        >>> import vkgrad as vg
        >>> w = vg.tensor([1.0, 2.0], requires_grad=True)
        >>> with vg.no_grad():
        ...     w.assign(w - 0.5)
        >>> w.tolist()
        [0.5, 1.5]
    """
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Whether results remember where they came from, which `no_grad` turns off."""
    return _recording.get()


def must_keep(operands: Iterable[Any]) -> bool:
    """Whether a result computed from `operands` (tensors or anything else) keeps its history."""
    if _recording.get():
        for operand in operands:
            if getattr(operand, "keeps_history", False) or getattr(operand, "requires_grad", False):
                return True
    return False


def own(node: Node, tensor: Any) -> None:
    """Say that `node` stands for `tensor`, which requires a gradient."""
    _owners[node] = ref(tensor)


def owner(node: Node) -> Any | None:
    """The living tensor with `requires_grad` that `node` stands for."""
    reference = _owners.get(node)
    tensor = reference() if reference is not None else None
    return tensor if tensor is not None and tensor.requires_grad else None


@contextmanager
def traced(nodes: Iterable[Node]) -> Iterator[None]:
    """While inside, a running transform differentiates with respect to `nodes`."""
    nodes = tuple(nodes)
    for node in nodes:
        _traced[node] = _traced.get(node, 0) + 1
    try:
        yield
    finally:
        for node in nodes:
            _traced[node] -= 1
            if not _traced[node]:
                del _traced[node]


def is_transforming() -> bool:
    """Whether a transform is running, which must see every operation."""
    return bool(_traced)


def must_run() -> bool:
    """Whether functions under `vg.jit` must be called themselves: a transform or watcher must see what they do."""
    return bool(_traced) or bool(on_gradients)


def is_needed(outputs: Iterable[Node], stop: Callable[[Node], bool]) -> bool:
    """Whether `outputs` depend, without passing a node where `stop` holds, on anything a gradient may be asked of."""
    seen: set[Node] = set()
    stack = list(outputs)
    traced, owned = _traced.entries, _owners.entries
    while stack:
        node = stack.pop()
        if node in seen or stop(node):
            continue
        seen.add(node)
        if id(node) in traced or (id(node) in owned and owner(node) is not None):
            return True
        stack.extend(sources(node))
    return False
