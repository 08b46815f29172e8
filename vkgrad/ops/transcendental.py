"""Exponentials, logarithms, angles and the special functions, element by element, on floats.

GLSL has these in single precision only, and loosely; the kernels use the formulas of `templates/library`, which has one
for each precision. The meanings that NumPy lacks are in `vkgrad.ops.special`.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np

from vkgrad.ir import build as b
from vkgrad.ir.node import Node
from vkgrad.ops import special
from vkgrad.ops.arithmetic import SPECIAL, guarded_product
from vkgrad.ops.families import elementwise, floating, in_order
from vkgrad.ops.samples import Samples, alike, edges, uniform


def _function(name: str, numpy: Any, derivative: Any, samples: Samples, doc: str = "") -> None:
    """One function of one variable. `derivative(out, x)` may be infinite or NaN somewhere."""
    elementwise(
        name, dtype=floating, numpy=in_order(numpy), glsl=f"{name}_{{type}}({{x}})", doc=doc,
        grad=lambda g, out, x: (guarded_product(g, derivative(out, x)),), samples=samples + SPECIAL,
    )  # fmt: skip


def _of(name: str, x: Node, **attributes: Any) -> Node:
    return b.apply(name, x, **attributes)


# ---- exponentials and logarithms
_function("exp", np.exp, lambda out, x: out, uniform(-4, 4) + edges(80.0, 100.0, -100.0))
_function("exp2", np.exp2, lambda out, x: out * log(2), uniform(-4, 4) + edges(120.0, 200.0, -200.0))
_function(  # not `out + 1`, which loses the digits of small derivatives
    "expm1", np.expm1, lambda out, x: _of("exp", x), uniform(-4, 4) + edges(1e-6, 80.0, 100.0, -100.0), "exp(x) - 1."
)
_function("log", np.log, lambda out, x: 1 / x, uniform(0.1, 8) + edges(1e-30, 1e30))
_function("log2", np.log2, lambda out, x: (1 / log(2)) / x, uniform(0.1, 8) + edges(1e-30, 1e30, 8.0))
_function("log10", np.log10, lambda out, x: (1 / log(10)) / x, uniform(0.1, 8) + edges(1e-30, 1e30))
_function("log1p", np.log1p, lambda out, x: 1 / (x + 1), uniform(-0.9, 8) + edges(1e-6, 1e30), "log(1 + x).")


# ---- angles
def _asinh_slope(x: Node) -> Node:
    """1 / sqrt(1 + x**2), by 1 / x where that is smaller and its square does not overflow."""
    size = _of("abs", x)
    far = size > 1
    near = b.apply("where", far, 1 / b.apply("where", far, x, 1), x)
    return _of("rsqrt", _of("square", near) + 1) * b.apply("where", far, 1 / b.apply("where", far, size, 1), 1)


_function("sin", np.sin, lambda out, x: _of("cos", x), uniform(-8, 8) + edges(1e4, -1e6))
_function("cos", np.cos, lambda out, x: -_of("sin", x), uniform(-8, 8) + edges(1e4, -1e6))
_function("tan", np.tan, lambda out, x: _of("square", out) + 1, uniform(-1.4, 1.4))
_function("asin", np.arcsin, lambda out, x: _of("rsqrt", guarded_product(1 - x, x + 1)), uniform(-0.95, 0.95))
_function("acos", np.arccos, lambda out, x: -_of("rsqrt", guarded_product(1 - x, x + 1)), uniform(-0.95, 0.95))
_function("atan", np.arctan, lambda out, x: 1 / (_of("square", x) + 1), uniform(-8, 8))
_function("sinh", np.sinh, lambda out, x: _of("cosh", x), uniform(-4, 4) + edges(1e-6, 80.0, 100.0))
_function("cosh", np.cosh, lambda out, x: _of("sinh", x), uniform(-4, 4) + edges(80.0, 100.0))
_function("asinh", np.arcsinh, lambda out, x: _asinh_slope(x), uniform(-8, 8) + edges(1e-6, 1e30))
_function(  # two roots, since a product would overflow
    "acosh", np.arccosh, lambda out, x: _of("rsqrt", x - 1) * _of("rsqrt", x + 1), uniform(1.1, 8) + edges(1e30)
)
_function("atanh", np.arctanh, lambda out, x: 1 / guarded_product(1 - x, x + 1), uniform(-0.9, 0.9) + edges(1e-6))


def _atan2_grad(g: Node, out: Node, y: Node, x: Node) -> tuple:
    # Scaled by the larger one, as a constant, so that squares do not overflow or vanish.
    larger = b.build("stop_gradient", b.apply("maximum", _of("abs", x), _of("abs", y)))
    scale = b.apply("where", b.apply("logical_and", larger > 0, _of("isfinite", larger)), larger, 1)
    x, y = x / scale, y / scale
    squares = _of("square", x) + _of("square", y)
    away = b.apply("not_equal", squares, 0)
    factor = b.apply("where", away, 1 / b.apply("where", away, squares, 1), 0) / scale
    return guarded_product(g, guarded_product(factor, x)), guarded_product(g, -guarded_product(factor, y))


elementwise(
    "atan2", arity=2, dtype=floating, numpy=in_order(np.arctan2), glsl="atan2_{type}({x}, {y})", grad=_atan2_grad,
    samples=uniform(-4, 4) + SPECIAL + edges(1e-30, 1e30),
    doc="The angle of the point (second operand, first operand), from -pi to pi; its derivative at (0, 0) is 0.",
)  # fmt: skip

# ---- what saturates: the derivative is written with the result
elementwise(
    "tanh", dtype=floating, numpy=in_order(np.tanh), glsl="tanh_{type}({x})",
    grad=lambda g, out, x: (guarded_product(g, 1 - out * out),),
    samples=uniform(-4, 4) + SPECIAL + edges(1e-6, 20.0, 100.0),
)  # fmt: skip
elementwise(
    "sigmoid", dtype=floating, numpy=in_order(special.sigmoid), glsl="sigmoid_{type}({x})",
    grad=lambda g, out, x: (guarded_product(g, out * (1 - out)),),
    samples=uniform(-8, 8) + SPECIAL + edges(-80.0, 100.0),
    doc="1 / (1 + exp(-x)).",
)  # fmt: skip
elementwise(
    "softplus", dtype=floating, numpy=in_order(special.softplus), glsl="softplus_{type}({x})",
    grad=lambda g, out, x: (guarded_product(g, _of("sigmoid", x)),),
    samples=uniform(-8, 8) + SPECIAL + edges(-80.0, 100.0),
    doc="log(1 + exp(x)), without overflow.",
)  # fmt: skip

# ---- special functions
_function(
    "erf", special.erf, lambda out, x: _of("exp", -_of("square", x)) * (2 / sqrt(pi)),
    uniform(-3, 3) + edges(1e-6, 10.0),
)  # fmt: skip
_function(
    "erfc", special.erfc, lambda out, x: _of("exp", -_of("square", x)) * (-2 / sqrt(pi)),
    uniform(-3, 4) + edges(9.0, 30.0), "1 - erf(x), without cancellation.",
)  # fmt: skip
_function(
    "erfinv", special.erfinv, lambda out, x: _of("exp", _of("square", out)) * (sqrt(pi) / 2),
    uniform(-0.95, 0.95) + edges(1e-6, 0.999999), "The inverse of erf.",
)  # fmt: skip
_function(
    "lgamma", special.lgamma, lambda out, x: _of("digamma", x),
    uniform(0.2, 12) + edges(-1.5, 2.0, 1e30), "log(abs(gamma(x))).",
)  # fmt: skip
_function(
    "digamma", special.digamma, lambda out, x: _of("polygamma", x, order=1),
    uniform(0.2, 12) + edges(-1.5, 1e30), "The derivative of lgamma.",
)  # fmt: skip
elementwise(
    "polygamma", dtype=floating, numpy=in_order(special.polygamma), glsl="polygamma_{type}({order}, {x})",
    grad=lambda g, out, x, *, order: (guarded_product(g, _of("polygamma", x, order=order + 1)),),
    samples=(uniform(0.2, 12) + SPECIAL + edges(-0.5, -2.3, -3.9)).on(*alike(1, *({"order": n} for n in (1, 2, 3)))),
    doc="The derivative of digamma, `order` times (at least once).",
)  # fmt: skip
