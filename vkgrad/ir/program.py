"""Graphs apart from their leaves: a key for what two graphs have in common, and a recipe to build one on other leaves.

What depends on the structure of a graph alone (its plan, its derivative) is worked out once, remembered under
`structure`, and used for every graph of the same structure. This module must not know what is worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vkgrad.ir.build import Ruled, made, ruled_as
from vkgrad.ir.node import Node, walk
from vkgrad.ir.op import OPS

Structure = tuple


def structure(
    targets: Sequence[Node], input_key: Callable[[Node], Any], *, through: str = ""
) -> tuple[Structure, dict[Node, int], list[Node]]:
    """A key that two graphs share exactly if they compute the same from their inputs; each node's number; the inputs.

    `input_key` says what counts of an input: what it was computed from does not. It is None for all other nodes. Nodes
    are numbered as they are met on the way from the targets, so neither names nor creation order matter. Nodes of the
    op `through` count as the node that they are of.
    """
    skipped = OPS[through] if through else None
    number: dict[Node, int] = {}
    order: list[Node] = []
    key: list[Any] = []
    inputs: list[Node] = []

    def met(node: Node) -> int:
        while node.op is skipped and input_key(node) is None:
            (node,) = node.inputs
        found = number.get(node)
        if found is None:
            found = number[node] = len(order)
            order.append(node)
        return found

    first = tuple([met(target) for target in targets])
    for node in order:  # which grows meanwhile
        own = input_key(node)
        if own is not None:
            inputs.append(node)
            key.append(own)
            continue
        key.append(node.signature)
        for source in node.inputs:
            found = number.get(source)
            key.append(met(source) if found is None else found)
    return (first, *key), number, inputs


@dataclass(frozen=True)
class Program:
    """Nodes to build again: for each what makes it, and where its inputs are among the nodes given and built so far.

    `outputs` are places too, or None.
    """

    steps: tuple[tuple[Ruled, tuple[int, ...]], ...]
    outputs: tuple[int | None, ...]

    def replay(self, given: Iterable[Node]) -> list[Node | None]:
        """The outputs, on the nodes `given` instead of those that the program was recorded on."""
        nodes = list(given)
        for ruled, places in self.steps:
            nodes.append(made(ruled, tuple([nodes[place] for place in places])))
        return [None if place is None else nodes[place] for place in self.outputs]


def recorded(outputs: Sequence[Node | None], given: Sequence[Node]) -> Program | None:
    """The program that builds `outputs` from `given`; None where they need a leaf that is not among those.

    Every node that is not in `given` must have been built `apart`. Otherwise the program might take a given node for
    the result of a step, because the two are equal this time.
    """
    places = {node: place for place, node in enumerate(given)}
    steps: dict[tuple[Any, tuple[int, ...]], int] = {}
    recipe: list[tuple[Ruled, tuple[int, ...]]] = []
    for node in walk([node for node in outputs if node is not None], places.__contains__):
        if node in places:
            continue
        if node.signature.is_unique:
            return None
        step = (node.signature, tuple([places[source] for source in node.inputs]))
        if step not in steps:  # two nodes that are equal whatever is given are built once
            steps[step] = len(given) + len(recipe)
            recipe.append((ruled_as(node), step[1]))
        places[node] = steps[step]
    return Program(tuple(recipe), tuple([None if node is None else places[node] for node in outputs]))
