"""Values made from nothing, and values that are already there."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from vkgrad.ir.dtypes import DTYPES, DType, dtype_of
from vkgrad.ir.node import Node, Signature, node_of, signature_of
from vkgrad.ir.op import NOT_DIFFERENTIABLE, ZERO, Family, Op, Shape, register
from vkgrad.ops.samples import Samples, case


def _unreachable(*_: Any, **__: Any) -> Any:
    raise AssertionError("a leaf has no rule; its value is in memory")


LEAF = register(
    Op(
        name="leaf", family=Family.LEAF, arity=0, shape=_unreachable, dtype=_unreachable, numpy=_unreachable,
        grad=ZERO, samples=Samples(), doc="A value in memory. Every leaf is a node of its own.",
    )
)  # fmt: skip


@lru_cache(maxsize=1024)
def _leaf_of(shape: Shape, dtype: DType) -> Signature:
    return signature_of(LEAF, {}, shape, dtype)


def leaf(shape: Shape, dtype: DType) -> Node:
    return node_of(_leaf_of(shape, dtype), ())


CONSTANT = register(
    Op(
        name="constant", family=Family.SOURCE, arity=0,
        shape=lambda shapes, **_: (),
        dtype=lambda dtypes, *, value, type: dtype_of(type),
        numpy=lambda *, value, type: np.asarray(value, dtype_of(type).numpy),
        grad=ZERO, samples=Samples().on(*(case(value=1, type=name) for name in DTYPES)), doc="A literal.",
    )
)  # fmt: skip

IOTA = register(
    Op(
        name="iota", family=Family.SOURCE, arity=0,
        shape=lambda shapes, *, extent: (extent,),
        dtype=lambda dtypes, *, extent: dtype_of("int32"),
        numpy=lambda *, extent: np.arange(extent, dtype=np.int32),
        grad=NOT_DIFFERENTIABLE, samples=Samples().on(case(extent=5), case(extent=0)),
        doc="0, 1, … extent - 1. It has no memory: its address is its value.",
    )
)  # fmt: skip
