"""What the members of a family share: their shape rule, their type rule and the fields that must be given.

Each function here makes and registers one `Op`. It knows no kernel: how a family is computed is the scheduler's and the
templates' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from vkgrad.errors import DTypeError, ShapeError
from vkgrad.ir.dtypes import ANY, FLOATING, INTEGRAL, NUMERIC, DType, bool_, dtype_of, float32, float64
from vkgrad.ir.op import Family, Geometry, GradRule, HostRule, Op, Shape, _Statement, register
from vkgrad.ops.samples import Case, Samples, alike, case

DTypeRule = Callable[..., DType]


def _names(dtypes: Sequence[DType]) -> str:
    return ", ".join(d.name for d in dtypes)


def described(allowed: Sequence[DType]) -> str:
    """Element types in words: those of a kind together where all of them are there."""
    words = {"floats": FLOATING, "integers": INTEGRAL, "bools": (bool_,)}
    whole = {word: group for word, group in words.items() if set(group) <= set(allowed)}
    rest = [d.name for d in allowed if all(d not in group for group in whole.values())]
    return " or ".join([*whole, *([", ".join(rest)] if rest else [])])


@dataclass(frozen=True)
class Taking:
    """All inputs have one type among `allowed`; the output has that type, or `gives`. Called with an op's name."""

    allowed: tuple[DType, ...]
    gives: DType | None = None

    def __call__(self, name: str) -> DTypeRule:
        def rule(dtypes: Sequence[DType], **_: Any) -> DType:
            first = dtypes[0]
            if any(d is not first for d in dtypes):
                raise DTypeError(f"{name}: operands must have one type, got {_names(dtypes)}")
            if first not in self.allowed:
                raise DTypeError(f"{name}: takes {described(self.allowed)}, got {first.name}; convert it with .astype")
            return self.gives or first

        return rule


floating = Taking(FLOATING)
wide = Taking((float32, float64))  # what factorisations need at least
integral = Taking(INTEGRAL)
numeric = Taking(NUMERIC)
bits = Taking((*INTEGRAL, bool_))
mask = Taking((bool_,))
comparing = Taking(ANY, gives=bool_)
ordering = Taking(NUMERIC, gives=bool_)
classifying = Taking(FLOATING, gives=bool_)


def same_shape(name: str) -> Callable[..., Shape]:
    def rule(shapes: Sequence[Shape], **_: Any) -> Shape:
        if any(shape != shapes[0] for shape in shapes):
            raise ShapeError(f"{name}: operands must have one shape, got {', '.join(map(str, shapes))}")
        return shapes[0]

    return rule


def quiet(numpy: Callable) -> Callable:
    """`numpy` without its warnings: overflow, 1/0 and NaN are results here, as they are on a GPU.

    It is there as `__wrapped__` for callers that have turned the warnings off themselves.
    """

    @wraps(numpy)
    def meaning(*operands: Any, **attributes: Any) -> Any:
        with np.errstate(all="ignore"):
            return numpy(*operands, **attributes)

    return meaning


def in_order(numpy: Callable) -> Callable:
    """`numpy` on operands in C order.

    NumPy computes exp and its kin by one routine on most arrays and by another on flipped ones, which differ in the
    last place; a result must not depend on how its operand lies in memory.
    """
    return lambda *operands, **attributes: numpy(*(np.asarray(x, order="C") for x in operands), **attributes)


def elementwise(
    name: str,
    *,
    dtype: Taking | DTypeRule,
    numpy: Callable,
    glsl: str | Mapping[str, str],
    grad: GradRule | _Statement,
    samples: Samples,
    arity: int = 1,
    doc: str = "",
) -> Op:
    """An op that computes each output element from the input elements at the same place.

    glsl is an expression over {x}, {y}, {z} (the operands) and the fields of `DType.glsl_fields` of the result's type,
    or a mapping from the operands' kind ("f", "i", "u", "b") to one; attributes are fields too. An expression is used
    as a whole, and its operands are names or literals, so only a literal's minus sign needs care.
    """
    rule = dtype(name) if isinstance(dtype, Taking) else dtype
    meaning = quiet(numpy)
    samples = samples if samples.cases else samples.on(*alike(arity))
    return register(
        Op(
            name=name, family=Family.ELEMENTWISE, arity=arity, shape=same_shape(name), dtype=rule, numpy=meaning,
            glsl=glsl, grad=grad, samples=samples, doc=doc,
        )
    )  # fmt: skip


def casting(dtypes: Sequence[DType], *, type: str) -> DType:
    """The rule `the type that was asked for`."""
    return dtype_of(type)


def choosing(dtypes: Sequence[DType]) -> DType:
    """The rule `a mask, and two operands of one type, which the output has`."""
    chooser, first, second = dtypes
    if chooser is not bool_:
        raise DTypeError(f"where: the first operand must be a mask (bool), got {chooser.name}")
    if first is not second:
        raise DTypeError(f"where: the two choices must have one type, got {_names((first, second))}")
    return first


def reduction(
    name: str,
    *,
    dtype: Taking,
    numpy: Callable,
    init: Callable[[DType], Any],
    combine: str | Mapping[str, str],
    grad: GradRule | _Statement,
    samples: Samples,
    attributes: Sequence[Mapping[str, Any]] = ({},),
    doc: str = "",
) -> Op:
    """An op that joins the elements along `axes` into one; the reduced axes stay, with extent 1.

    Keeping them makes `sum` and `expand` each other's gradient with no shape code. `numpy(x, axis=, keepdims=)`.
    `attributes` are those that it takes beside `axes`.
    """

    def shape(shapes: Sequence[Shape], *, axes: Sequence[int], **_: Any) -> Shape:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shapes[0]))

    places: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((3, 4), ()), ((), ()), ((0, 3), (0,)), ((2, 0), (0,)),
    )  # fmt: skip
    samples = samples.on(*(case(at, axes=axes, **given) for given in attributes for at, axes in places))

    def meaning(x: Any, *, axes: Sequence[int], **_: Any) -> Any:
        return numpy(x, axis=tuple(axes), keepdims=True)

    return register(
        Op(
            name=name, family=Family.REDUCTION, arity=1, shape=shape, dtype=dtype(name), numpy=quiet(meaning),
            grad=grad, samples=samples, init=init, combine=combine, doc=doc,
        )
    )  # fmt: skip


def view(
    name: str,
    *,
    shape: Callable[..., Shape],
    numpy: Callable,
    layout: Callable,
    grad: GradRule | _Statement,
    cases: Sequence[Case],
    doc: str = "",
) -> Op:
    """An op that only changes where elements are looked up; it never runs."""
    return register(
        Op(
            name=name, family=Family.VIEW, arity=1, shape=shape, dtype=lambda dtypes, **_: dtypes[0], numpy=numpy,
            layout=layout, grad=grad, samples=Samples().on(*cases), doc=doc,
        )
    )  # fmt: skip


def routine(
    name: str,
    *,
    template: str,
    geometry: Callable[..., Geometry],
    shape: Callable[..., Shape],
    dtype: DTypeRule,
    numpy: Callable,
    grad: GradRule | _Statement,
    samples: Samples,
    arity: int = 1,
    passes: Callable[..., Any] | None = None,
    batched: bool = False,
    host_rule: HostRule | None = None,
    doc: str = "",
) -> Op:
    """An op that is one dispatch of a template of its own: whole arrays in row-major order in, one out.

    For what no loop nest can say, because elements depend on each other: scans, sorts, scattering. It fuses with
    nothing, so let it do as little as it can and leave what is element-wise to nodes around it.
    """
    return register(
        Op(
            name=name, family=Family.ROUTINE, arity=arity, shape=shape, dtype=dtype, numpy=quiet(numpy), grad=grad,
            samples=samples, template=template, geometry=geometry, passes=passes, batched=batched,
            host_rule=host_rule, doc=doc,
        )
    )  # fmt: skip
