"""The complete record of one primitive, and the registry of all of them.

An `Op` refuses to exist with a field missing: that it has no gradient is said (`NOT_DIFFERENTIABLE`), not left out.
Tests, docs, fusibility and error prefixes are derived from the record. What each primitive means is in `vkgrad.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from vkgrad.ir.dtypes import DType

Shape = tuple[int, ...]


class Family(Enum):
    """What kind of kernel computes a primitive."""

    LEAF = "leaf"  # a value that is already in memory
    SOURCE = "source"  # made from nothing: constants and counters
    ELEMENTWISE = "elementwise"
    VIEW = "view"  # changes only a layout; never runs
    REDUCTION = "reduction"
    CONTRACTION = "contraction"
    INDEXED = "indexed"  # addresses depend on values
    ROUTINE = "routine"  # one dispatch of a template of its own, from whole arrays to one


class _Statement:
    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


ZERO = _Statement("ZERO")  # piecewise constant: the gradient is zero wherever it exists
NOT_DIFFERENTIABLE = _Statement("NOT_DIFFERENTIABLE")  # integers and masks: asking is an error

GradRule = Callable[..., tuple]


class DeviceLimits(Protocol):
    """What a geometry may ask of a device."""

    @property
    def software(self) -> bool: ...
    @property
    def max_invocations(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def subgroup(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """How a routine is dispatched.

    groups        how many workgroups
    numbers       what the template calls `number.NAME`: sizes. They are specialisation constants, so kernels that
                  differ only in them share their SPIR-V
    parameters    what the template calls `NAME`: tile sizes, expressions, anything that goes into the text
    shared_bytes  shared memory of a workgroup
    """

    groups: int
    numbers: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    shared_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class HostRule:
    """When an op has no kernel on a Vulkan device although the types would allow one, and why.

    applies   (input shapes, **attributes) -> whether it has none
    """

    condition: str
    reason: str
    applies: Callable[..., bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class Op:
    """One primitive.

    name       the one name it has
    family     which kernel computes it
    arity      number of inputs
    shape      (input shapes, **attributes) -> output shape; raises `ShapeError`
    dtype      (input dtypes, **attributes) -> output dtype; raises `DTypeError`
    numpy      (*arrays, **attributes) -> array: the meaning
    glsl       for element-wise ops, the expression over {x}, {y}, {z}, {w}, {type} and the attributes; else None
    grad       (g, out, *inputs, **attributes) -> one node or ZERO per input; or ZERO or NOT_DIFFERENTIABLE for all
    samples    where tests and benchmarks look; see `vkgrad.ops.samples`
    layout     for views, (Layout, **attributes) -> Layout, or None where only a copy can do it
    init, combine   for reductions: the identity by dtype, and the GLSL that joins {x} and {y}
    template   for routines, a file of `templates/`, or the text of a template itself
    geometry   for routines, (input shapes, input dtypes, limits, **attributes) -> `Geometry`
    passes     for routines that one dispatch cannot compute at every size, (node, width) -> the same in shorter steps,
               or `node` itself; asked again until nothing changes
    host_rule  where a kernel would be foolish and the host computes instead, if the host policy lets it
    batched    for routines, whether more leading axes, the same for all inputs, are more of the same
    """

    name: str
    family: Family
    arity: int
    shape: Callable[..., Shape]
    dtype: Callable[..., DType]
    numpy: Callable[..., Any]
    grad: GradRule | _Statement
    samples: Any
    glsl: str | Mapping[str, str] | None = None
    layout: Callable[..., Any] | None = None
    init: Callable[[DType], Any] | None = None
    combine: str | Mapping[str, str] | None = None
    template: str | None = None
    geometry: Callable[..., Geometry] | None = None
    passes: Callable[..., Any] | None = None
    batched: bool = False
    host_rule: HostRule | None = None
    doc: str = field(default="")

    def __post_init__(self) -> None:
        def need(present: bool, what: str) -> None:
            if not present:
                raise TypeError(f"op {self.name!r} ({self.family.value}) must state {what}")

        need(callable(self.shape) and callable(self.dtype), "its shape and dtype rules")
        need(callable(self.numpy), "its meaning on NumPy arrays")
        need(callable(self.grad) or isinstance(self.grad, _Statement), "its gradient, ZERO or NOT_DIFFERENTIABLE")
        need(self.samples is not None, "the samples that tests draw")
        need((self.glsl is not None) == (self.family is Family.ELEMENTWISE), "GLSL exactly if it is element-wise")
        need((self.layout is not None) == (self.family is Family.VIEW), "a layout rule exactly if it is a view")
        need((self.init is not None) == (self.family is Family.REDUCTION), "init exactly if it is a reduction")
        need((self.combine is not None) == (self.family is Family.REDUCTION), "combine exactly if it is a reduction")
        need((self.template is not None) == (self.family is Family.ROUTINE), "a template exactly if it is a routine")
        need((self.geometry is not None) == (self.family is Family.ROUTINE), "a geometry exactly if it is a routine")
        need(self.passes is None or self.family is Family.ROUTINE, "passes only if it is a routine")
        need(not self.batched or self.family is Family.ROUTINE, "batched only if it is a routine")

    def __repr__(self) -> str:
        return f"<op {self.name}>"


OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    if op.name in OPS:
        raise TypeError(f"op {op.name!r} is registered twice")
    if not op.samples.cases and op.family is not Family.LEAF:
        raise TypeError(f"op {op.name!r} ({op.family.value}) must state the cases that tests look at: samples.on(...)")
    OPS[op.name] = op
    return op
