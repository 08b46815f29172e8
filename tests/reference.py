"""A plain interpreter of graphs: each node by the NumPy meaning of its op, one after the other.

Everything that runs graphs is compared with this. It also holds each op to its own shape and type rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from vkgrad.ir import build
from vkgrad.ir.dtypes import DType, dtype_of
from vkgrad.ir.node import Node, walk
from vkgrad.ops.narrow import narrowed
from vkgrad.ops.sources import leaf


@pytest.fixture(autouse=True)
def graph_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are built with nobody watching: no device is opened, and none refuses its double precision.

    A folder whose tests concern graphs alone imports this in its conftest.
    """
    monkeypatch.setattr(build, "on_rare", [])


def variable(array: Any, values: dict[Node, np.ndarray], dtype: DType | None = None) -> Node:
    """A new leaf whose value in `values` is `array`; of type `dtype`, if that is not the array's."""
    array = np.asarray(array)
    node = leaf(array.shape, dtype or dtype_of(array.dtype))
    values[node] = array
    return node


def evaluate(outputs: Iterable[Node], values: Mapping[Node, np.ndarray]) -> list[np.ndarray]:
    """The values of `outputs`, where `values` holds those of the leaves."""
    outputs = list(outputs)
    known = dict(values)
    for node in walk(outputs, stop=known.__contains__):
        if node in known:
            continue
        operands = (known[source].astype(source.dtype.computed.numpy, copy=False) for source in node.inputs)
        value = np.asarray(node.op.numpy(*operands, **node.attributes))
        if node.dtype.narrow:
            with np.errstate(all="ignore"):
                value = narrowed(value, node.dtype).astype(node.dtype.numpy)
        assert value.dtype == node.dtype.numpy, f"{node.op.name} promised {node.dtype.name}, gave {value.dtype}"
        assert value.shape == node.shape, f"{node.op.name} promised shape {node.shape}, gave {value.shape}"
        known[node] = value
    return [known[node] for node in outputs]
