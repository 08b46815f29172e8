"""Scaled products of queries and keys that choose among values: attention without its parameters.

Scores, mask and softmax are one kernel over the rows of a product. This module must not know modules.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from vkgrad import functions as f
from vkgrad.composites import composite
from vkgrad.errors import DTypeError, OptionError, ShapeError
from vkgrad.nn.dropping import dropout
from vkgrad.tensor import Tensor, asarray


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value.

    Shapes: query (..., L, E), key (..., S, E), value (..., S, V) -> (..., L, V); a mask broadcasts to (..., L, S).

    Args:
        attn_mask: where a mask of bools is False nothing is seen; other masks are added to the scores.
        dropout_p: of the weights. It is always applied, as in PyTorch: pass 0 in evaluation.
        is_causal: position i sees positions 0 to i only.
        scale: 1 / sqrt(E) if None.
        enable_gqa: key and value have fewer heads (axis -3), each used by as many heads of the query in a row.

    Source: Vaswani et al. (2017), arXiv:1706.03762, equation 1.

    Raises:
        ShapeError: shapes that do not fit.
        OptionError: both a mask and `is_causal` are given.
        DTypeError: a mask of integers.
    """
    if attn_mask is not None and is_causal:
        raise OptionError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
    q, k, v = asarray(query), asarray(key), asarray(value)
    if enable_gqa:
        k, v = (f.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    if q.shape[-1:] != k.shape[-1:] or k.shape[-2:-1] != v.shape[-2:-1]:
        raise ShapeError(
            f"scaled_dot_product_attention: needs query (..., L, E), key (..., S, E) and value (..., S, V), "
            f"got {q.shape}, {k.shape} and {v.shape}"
        )
    mask = None if attn_mask is None else as_mask("scaled_dot_product_attention: attn_mask", attn_mask)
    weights = attention_weights(q, k, mask, is_causal, scale)
    return (dropout(weights, dropout_p) if dropout_p else weights) @ v


def as_mask(name: str, mask: Any) -> Tensor:
    """The mask as a tensor of bools or floats; integers are refused, since 0 and 1 added to scores hide nothing."""
    mask = asarray(mask)
    if mask.dtype.kind not in "bf":
        raise DTypeError(
            f"{name} must be bools, or floats to add to the scores, got {mask.dtype.name}; write mask.astype(vg.bool_)"
        )
    return mask


@composite
def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    scores = (q * (1.0 / sqrt(q.shape[-1]) if scale is None else scale)) @ k.mT
    if is_causal:
        mask = f.reshape(f.arange(q.shape[-2]), (-1, 1)) >= f.arange(k.shape[-2])
    if mask is not None and mask.dtype.kind == "b":
        scores = f.where(mask, scores, -float("inf"))
    elif mask is not None:
        scores = scores + mask
    return f.softmax(scores, axis=-1)
