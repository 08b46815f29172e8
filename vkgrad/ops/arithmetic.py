"""Arithmetic, order and choice, element by element.

Floats follow IEEE 754 and NumPy; integers wrap. Where NumPy leaves a result to the processor (a float outside the range
of the integer it is cast to) one answer is chosen here, so that every device gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.dtypes import DTYPES, DType, dtype_of, float32, float64, integer_range
from vkgrad.ir.node import Node
from vkgrad.ir.op import ZERO
from vkgrad.ops.families import Taking, casting, choosing, elementwise, floating, in_order, numeric
from vkgrad.ops.narrow import narrowed
from vkgrad.ops.samples import alike, edges, inf, nan, uniform

SPECIAL = edges(0.0, -0.0, 1.0, -1.0, inf, -inf, nan)


def guarded_product(g: Node, derivative: Node) -> Node:
    """`g * derivative`, but 0 where `g` is 0 even if the derivative is infinite or NaN.

    Every rule that multiplies goes through here, for operands may be infinite or NaN even where derivatives are finite:
    otherwise the branch that `where` did not take, whose `g` is 0, would send back 0 * inf = NaN, as x * log(x) does at
    0. It is a primitive whose own gradient is written with itself, so it stays clean at every order (inside a rule,
    products and squares of what may be infinite are guarded for the same reason), and a point where `g` happens to be 0
    keeps its second derivative. Beside a finite literal, the scheduler makes it a plain product.
    """
    return b.apply("multiply_no_nan", derivative, g)


def _kept(meaning: Callable) -> Callable:
    """`meaning`, with its result cast to the operands' type: NumPy 1.26 widens 0-d arrays beside Python floats."""
    return lambda *operands, **attributes: np.asarray(meaning(*operands, **attributes)).astype(operands[0].dtype)


def _product_or_zero(x: Any, *guards: Any) -> Any:
    """x times the first guard, 0 where one of them is."""
    product = np.asarray(x * guards[0])
    for guard in guards:
        np.copyto(product, 0, where=guard == 0)
    return product


# ---- sums and products
elementwise(
    "add", arity=2, dtype=numeric, numpy=np.add, glsl="{x} + {y}", grad=lambda g, out, x, y: (g, g),
    samples=uniform(-4, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "subtract", arity=2, dtype=numeric, numpy=np.subtract, glsl="{x} - ({y})", grad=lambda g, out, x, y: (g, -g),
    samples=uniform(-4, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "multiply", arity=2, dtype=numeric, numpy=np.multiply, glsl="{x} * {y}",
    grad=lambda g, out, x, y: (guarded_product(g, y), guarded_product(g, x)), samples=uniform(-4, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "multiply_no_nan", arity=2, dtype=floating, numpy=_product_or_zero,
    glsl="({y} == 0 ? {type}(0) : {x} * {y})",
    grad=lambda g, out, x, y: (b.apply("multiply_or_zero", g, y), guarded_product(g, x)),
    samples=uniform(-4, 4) + SPECIAL, doc="x * y, but 0 where y is 0, whatever x is.",
)  # fmt: skip
elementwise(
    # What a guarded product sends to its derivative: that is 0 where y is, though more than 0 * y may come back, since
    # y's own derivative, which is hidden further on, is not. So at every order the branch not taken gets 0.
    "multiply_or_zero", arity=2, dtype=floating, numpy=lambda x, y: _product_or_zero(x, y, x),
    glsl="({x} == 0 || {y} == 0 ? {type}(0) : {x} * {y})",
    grad=lambda g, out, x, y: (b.apply("multiply_or_zero", g, y), b.apply("multiply_or_zero", g, x)),
    samples=uniform(-4, 4) + SPECIAL, doc="x * y, but 0 where either is 0, whatever the other is.",
)  # fmt: skip
elementwise(
    "divide", arity=2, dtype=floating, numpy=np.divide, glsl="divide_{type}({x}, {y})",
    grad=lambda g, out, x, y: (
        guarded_product(g, b.apply("reciprocal", y)),
        guarded_product(g, -(out / y)),
    ),
    samples=uniform(-4, 4, (0.5, 4)) + SPECIAL,
)  # fmt: skip


# ---- division that rounds down. By zero, integers give 0 (as NumPy does, which also warns); floats give NaN or inf.
elementwise(
    "floor_divide", arity=2, dtype=numeric, numpy=np.floor_divide, glsl="floor_divide({x}, {y})", grad=ZERO,
    samples=uniform(-9, 9) + SPECIAL, doc="floor(x / y), exactly.",
)  # fmt: skip
elementwise(
    "remainder", arity=2, dtype=numeric, numpy=np.remainder, glsl="floor_remainder({x}, {y})",
    grad=lambda g, out, x, y: (g, guarded_product(g, -b.apply("floor_divide", x, y))),
    samples=uniform(-9, 9) + SPECIAL, doc="x - floor_divide(x, y) * y, exactly; it has the sign of y.",
)  # fmt: skip


# ---- powers
def _numpy_pow(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return np.power(x, y)
    # NumPy refuses integers to negative powers. A kernel cannot raise, so they are 1/x**-y without its fraction.
    whole = np.power(x, np.maximum(y, y.dtype.type(0)))
    if x.dtype.kind == "u":
        return whole
    odd = np.where(y % 2 == 0, 1, x)
    return np.where(y >= 0, whole, np.where((x == 1) | (x == -1), odd, 0)).astype(x.dtype)


def _pow_grad(g: Node, out: Node, x: Node, y: Node) -> tuple:
    # y * x**(y - 1) is 0 at x = y = 0, since x**0 is constant. x**y * log(x) at x = 0 is taken as the limit from y > 0,
    # which is 0, also for y = 0. The products inside may be 0 * inf too, at the next order.
    base = b.apply("where", b.apply("logical_and", b.apply("equal", x, 0), y >= 0), 1, x)
    return (
        guarded_product(g, guarded_product(y, b.apply("pow", x, y - 1))),
        guarded_product(g, guarded_product(out, b.apply("log", base))),
    )


elementwise(
    "pow", arity=2, dtype=numeric, numpy=in_order(_numpy_pow),
    glsl={"f": "pow_{type}({x}, {y})", "i": "pow_int({x}, {y})", "u": "pow_int({x}, {y})"},
    grad=_pow_grad, samples=uniform(0.1, 4, (-3, 3)) + SPECIAL + edges(0.5, 2.0, 3.0),
    doc="x ** y; 0 ** 0 is 1. An integer to a negative power is 1 / x**-y without its fraction, 0 if x is 0.",
)  # fmt: skip
elementwise(
    "square", dtype=numeric, numpy=np.square, glsl="{x} * {x}",
    grad=lambda g, out, x: (guarded_product(g, x * 2),), samples=uniform(-4, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "sqrt", dtype=floating, numpy=np.sqrt, glsl="sqrt({x})",
    grad=lambda g, out, x: (guarded_product(g, 0.5 / out),), samples=uniform(0.1, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "rsqrt", dtype=floating, numpy=_kept(lambda x: 1 / np.sqrt(x)), glsl="{type}(1) / sqrt({x})",
    grad=lambda g, out, x: (guarded_product(g, -0.5 * (out / x)),), samples=uniform(0.1, 4) + SPECIAL,
    doc="1 / sqrt(x).",
)  # fmt: skip
elementwise(
    "cbrt", dtype=floating, numpy=in_order(np.cbrt), glsl="cbrt_{type}({x})",
    grad=lambda g, out, x: (guarded_product(g, 1 / (b.apply("square", out) * 3)),), samples=uniform(-4, 4) + SPECIAL,
    doc="The real cube root, also of negative numbers.",
)  # fmt: skip
elementwise(
    "reciprocal", dtype=floating, numpy=_kept(lambda x: 1 / x), glsl="{type}(1) / {x}",
    grad=lambda g, out, x: (guarded_product(g, -b.apply("square", out)),), samples=uniform(0.5, 4) + SPECIAL,
)  # fmt: skip


# ---- sign
elementwise(
    "negative", dtype=numeric, numpy=np.negative, glsl="-({x})", grad=lambda g, out, x: (-g,),
    samples=uniform(-4, 4) + SPECIAL,
)  # fmt: skip
elementwise(
    "abs", dtype=numeric, numpy=np.abs, glsl={"f": "abs({x})", "i": "abs({x})", "u": "{x}"},
    grad=lambda g, out, x: (guarded_product(g, b.apply("sign", x)),), samples=uniform(-4, 4) + SPECIAL,
    doc="|x|; its derivative at 0 is 0. The most negative integer stays as it is.",
)  # fmt: skip
elementwise(
    "sign", dtype=numeric, numpy=np.sign, grad=ZERO, samples=uniform(-4, 4) + SPECIAL,
    glsl={
        "f": "({x} > 0 ? {type}(1) : {x} < 0 ? {type}(-1) : {x} == 0 ? {type}(0) : {x})",
        "i": "sign({x})",
        "u": "min({x}, {type}(1))",
    },
    doc="-1, 0 or 1; NaN of NaN.",
)  # fmt: skip


# ---- the larger, the smaller, the chosen
def _extreme_grad(wins: str) -> Callable:
    def rule(g: Node, out: Node, x: Node, y: Node) -> tuple:
        half = b.apply("where", b.apply("equal", x, y), g * 0.5, 0)
        return (b.apply("where", b.apply(wins, x, y), g, half), b.apply("where", b.apply(wins, y, x), g, half))

    return rule


elementwise(
    "maximum", arity=2, dtype=numeric, numpy=np.maximum, grad=_extreme_grad("greater"),
    glsl={"f": "nan_max({x}, {y})", "i": "max({x}, {y})", "u": "max({x}, {y})"},
    samples=uniform(-4, 4) + SPECIAL, doc="The larger; NaN if either is. Equal operands share the gradient.",
)  # fmt: skip
elementwise(
    "minimum", arity=2, dtype=numeric, numpy=np.minimum, grad=_extreme_grad("less"),
    glsl={"f": "nan_min({x}, {y})", "i": "min({x}, {y})", "u": "min({x}, {y})"},
    samples=uniform(-4, 4) + SPECIAL, doc="The smaller; NaN if either is. Equal operands share the gradient.",
)  # fmt: skip
elementwise(
    "relu", dtype=floating, numpy=_kept(lambda x: np.maximum(x, 0)), glsl="nan_max({x}, {type}(0))",
    grad=lambda g, out, x: (b.apply("where", out > 0, g, 0),), samples=uniform(-4, 4) + SPECIAL,
    doc="max(x, 0); its derivative at 0 is 0.",
)  # fmt: skip
elementwise(
    "where", arity=3, dtype=choosing, numpy=np.where, glsl="({x} ? {y} : {z})",
    grad=lambda g, out, mask, x, y: (ZERO, b.apply("where", mask, g, 0), b.apply("where", mask, 0, g)),
    samples=(uniform(0, 1, (-4, 4), (-4, 4)) + SPECIAL).typed("bool", None, None),
    doc="x where the mask holds, else y.",
)  # fmt: skip


elementwise(
    "nextafter", arity=2, dtype=Taking((float32, float64)), numpy=np.nextafter, glsl="next_after({x}, {y})",
    grad=lambda g, out, x, y: (g, ZERO), samples=uniform(-4, 4) + SPECIAL + edges(1e-45, -1e-45, 3e38),
    doc="The float next to x on the way to y; y where they are equal.",
)  # fmt: skip


# ---- whole numbers
elementwise("floor", dtype=floating, numpy=np.floor, glsl="floor({x})", grad=ZERO, samples=uniform(-4, 4) + SPECIAL)
elementwise("ceil", dtype=floating, numpy=np.ceil, glsl="ceil({x})", grad=ZERO, samples=uniform(-4, 4) + SPECIAL)
elementwise("trunc", dtype=floating, numpy=np.trunc, glsl="trunc({x})", grad=ZERO, samples=uniform(-4, 4) + SPECIAL)
elementwise(
    "round", dtype=floating, numpy=np.round, glsl="roundEven({x})", grad=ZERO,
    samples=uniform(-4, 4) + SPECIAL + edges(0.5, 1.5, -0.5, 2.5), doc="The nearest whole number; halves go to even.",
)  # fmt: skip


# ---- change of type
def _numpy_cast(x: Any, *, type: str) -> Any:
    target = dtype_of(type)
    if x.dtype.kind == "f" and target.kind in "iu":
        return _to_integer(x, target)
    if target.kind == "f" and target.narrow:
        return narrowed(x, target).astype(target.numpy)
    return x.astype(target.numpy)


def _to_integer(x: Any, target: DType) -> Any:
    least, greatest = integer_range(target)
    x = np.where(np.isnan(x), 0, x).astype(np.float64)
    beyond, below = x >= greatest, x <= least
    whole = np.where(beyond | below, 0, x).astype(target.numpy)
    return np.where(beyond, np.array(greatest, target.numpy), np.where(below, np.array(least, target.numpy), whole))


def _cast_grad(g: Node, out: Node, x: Node, *, type: str) -> tuple:
    return (b.cast(g, x.dtype) if x.dtype.kind == "f" else ZERO,)


elementwise(
    "cast", dtype=casting, numpy=_numpy_cast, grad=_cast_grad,
    samples=(uniform(-9, 9) + SPECIAL + edges(3e9, -3e9)).on(*alike(1, *({"type": name} for name in DTYPES))),
    glsl={"f": "cast_{name}({x})", "i": "{type}({x})", "u": "{type}({x})", "b": "{type}({x})"},
    doc="Floats lose their fraction; outside the integer's range they stop at its end, and NaN becomes 0. "
        "Integers wrap. As a mask, everything but 0 holds.",
)  # fmt: skip
