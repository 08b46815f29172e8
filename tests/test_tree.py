"""Nestings taken apart and put together; modules are known by `named_parameters` alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from vkgrad import tree
from vkgrad.errors import ShapeError


class Point(NamedTuple):
    x: Any
    y: Any


class Model:
    """Anything with `named_parameters` is a module."""

    def named_parameters(self) -> list[tuple[str, int]]:
        return [("layer.weight", 1), ("bias", 2)]


NESTED = {"a": [1, (2, None)], "b": Point(3, {}), "c": ()}


def test_round_trip() -> None:
    leaves, form = tree.flatten(NESTED)
    assert leaves == [1, 2, 3]
    assert form.count == 3
    assert form.unflatten(leaves) == NESTED
    assert isinstance(form.unflatten(leaves)["b"], Point)


def test_a_leaf_is_a_nesting_of_its_own() -> None:
    assert tree.flatten(5) == ([5], tree.Structure(None))
    assert tree.Structure(None).unflatten([7]) == 7
    assert tree.flatten(None)[0] == []
    assert tree.flatten(None)[1].unflatten([]) is None


def test_a_module_becomes_a_dict_of_its_parameters() -> None:
    leaves, form = tree.flatten([Model(), 3])
    assert leaves == [1, 2, 3]
    assert form.unflatten("xyz") == [{"layer.weight": "x", "bias": "y"}, "z"]
    assert [(leaf.path, leaf.of_module) for leaf in tree.leaves([Model(), {"k": 3}])] == [
        ("[0].layer.weight", True),
        ("[0].bias", True),
        ("[1]['k']", False),
    ]


def test_structures_are_keys() -> None:
    assert tree.structure(NESTED) == tree.structure({"a": [7, (8, None)], "b": Point(9, {}), "c": ()})
    assert tree.structure([1, 2]) != tree.structure((1, 2))
    assert tree.structure({"a": 1}) != tree.structure({"b": 1})
    assert tree.structure([None]) != tree.structure([[]])
    assert len({tree.structure(NESTED), tree.structure(NESTED)}) == 1


def test_transform_and_replace() -> None:
    assert tree.transform(lambda x: x * 10, NESTED)["a"] == [10, (20, None)]
    model = Model()
    assert tree.replace(lambda x: x * 10, [model, 3]) == [model, 30]


def test_the_number_of_leaves_must_fit() -> None:
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(ShapeError, match=f"this nesting has 2 leaves, got {len(leaves)}"):
            tree.structure([1, 2]).unflatten(leaves)
