"""Comparisons, logic and bit operations, element by element. None of them has a derivative."""

from __future__ import annotations

import numpy as np

from vkgrad.ir.op import NOT_DIFFERENTIABLE
from vkgrad.ops.families import bits, classifying, comparing, elementwise, integral, mask, ordering
from vkgrad.ops.samples import edges, inf, integers, masks, nan, uniform

_COMPARED = uniform(-2, 2) + edges(0.0, -0.0, 1.0, inf, -inf, nan)
_BITS = integers(-9, 9)

# ---- comparisons
for _name, _sign in (("equal", "=="), ("not_equal", "!=")):
    elementwise(
        _name, arity=2, dtype=comparing, numpy=getattr(np, _name), glsl=f"{{x}} {_sign} {{y}}",
        grad=NOT_DIFFERENTIABLE, samples=_COMPARED,
    )  # fmt: skip
for _name, _sign in (("less", "<"), ("less_equal", "<="), ("greater", ">"), ("greater_equal", ">=")):
    elementwise(
        _name, arity=2, dtype=ordering, numpy=getattr(np, _name), glsl=f"{{x}} {_sign} {{y}}",
        grad=NOT_DIFFERENTIABLE, samples=_COMPARED,
    )  # fmt: skip

# ---- what kind of number. GLSL's own isnan may be compiled away, so single precision looks at the bits.
for _name, _function in (("isnan", "is_nan"), ("isinf", "is_inf"), ("isfinite", "is_finite")):
    elementwise(
        _name, dtype=classifying, numpy=getattr(np, _name), glsl=f"{_function}({{x}})",
        grad=NOT_DIFFERENTIABLE, samples=_COMPARED,
    )  # fmt: skip

elementwise(
    "signbit", dtype=classifying, numpy=np.signbit, glsl="sign_bit({x})", grad=NOT_DIFFERENTIABLE, samples=_COMPARED,
    doc="Whether the sign is a minus, that of -0.0 too.",
)  # fmt: skip

# ---- masks
for _name, _sign in (("logical_and", "&&"), ("logical_or", "||"), ("logical_xor", "!=")):
    elementwise(
        _name, arity=2, dtype=mask, numpy=getattr(np, _name), glsl=f"{{x}} {_sign} {{y}}",
        grad=NOT_DIFFERENTIABLE, samples=masks(),
    )  # fmt: skip
elementwise("logical_not", dtype=mask, numpy=np.logical_not, glsl="!{x}", grad=NOT_DIFFERENTIABLE, samples=masks())

# ---- bits
for _name, _sign, _mask_sign in (("and", "&", "&&"), ("or", "|", "||"), ("xor", "^", "!=")):
    _glsl = f"{{x}} {_sign} {{y}}"
    elementwise(
        f"bitwise_{_name}", arity=2, dtype=bits, numpy=getattr(np, f"bitwise_{_name}"),
        glsl={"i": _glsl, "u": _glsl, "b": f"{{x}} {_mask_sign} {{y}}"}, grad=NOT_DIFFERENTIABLE, samples=_BITS,
    )  # fmt: skip
elementwise(
    "bitwise_invert", dtype=bits, numpy=np.invert, glsl={"i": "~({x})", "u": "~({x})", "b": "!{x}"},
    grad=NOT_DIFFERENTIABLE, samples=_BITS,
)  # fmt: skip

# A shift by a negative number or by all bits and more is undefined in GLSL; NumPy shifts everything out.
elementwise(
    "bitwise_left_shift", arity=2, dtype=integral, numpy=np.left_shift,
    glsl="({unsigned}({y}) < {unsigned}({width}) ? {x} << {y} : {type}(0))", grad=NOT_DIFFERENTIABLE,
    samples=integers(-40, 40),
)  # fmt: skip
elementwise(
    "bitwise_right_shift", arity=2, dtype=integral, numpy=np.right_shift,
    glsl={
        "i": "{x} >> ({unsigned}({y}) < {unsigned}({width}) ? {y} : {type}({width} - 1))",
        "u": "({y} < {type}({width}) ? {x} >> {y} : {type}(0))",
    },
    grad=NOT_DIFFERENTIABLE, samples=integers(-40, 40),
)  # fmt: skip
