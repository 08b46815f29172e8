"""The attention layer of several heads. This module must not know encoders or decoders."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError, ShapeError
from vkgrad.nn import init
from vkgrad.nn.attending import as_mask, attention_weights
from vkgrad.nn.dropout import Dropout
from vkgrad.nn.functional import linear
from vkgrad.nn.linear import Linear
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor, asarray


class MultiheadAttention(Module):
    """Several attentions side by side, each on its own projection of queries, keys and values, joined by a last one.

    Shapes: query (L, B, E), key (S, B, kdim), value (S, B, vdim) -> (L, B, E) and weights (B, L, S); with `batch_first`
    the batch is axis 0; without a batch axis all have none. in_proj_weight (3 E, E), in_proj_bias (3 E,),
    out_proj.weight (E, E), out_proj.bias (E,); with other kdim or vdim q_proj_weight (E, E), k_proj_weight (E, kdim)
    and v_proj_weight (E, vdim) instead of the first.

    Args:
        dropout: of the weights, in training.
        add_bias_kv: learned bias_k and bias_v (1, 1, E) are one more key and value.
        add_zero_attn: zeros are one more key and value.

    Source: Vaswani et al. (2017), arXiv:1706.03762, section 3.2.2.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = None,
    ) -> None:
        if embed_dim % num_heads:
            raise ShapeError(
                f"MultiheadAttention: embed_dim {embed_dim} must be a multiple of num_heads {num_heads}, which share it"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = parameter(init.xavier_uniform((3 * embed_dim, embed_dim), dtype=dtype))
        else:
            self.q_proj_weight = parameter(init.xavier_uniform((embed_dim, embed_dim), dtype=dtype))
            self.k_proj_weight = parameter(init.xavier_uniform((embed_dim, self.kdim), dtype=dtype))
            self.v_proj_weight = parameter(init.xavier_uniform((embed_dim, self.vdim), dtype=dtype))
        self.in_proj_bias = parameter(init.zeros((3 * embed_dim,), dtype)) if bias else None
        shape = (1, 1, embed_dim)
        self.bias_k = parameter(init.xavier_normal(shape, dtype=dtype)) if add_bias_kv else None
        self.bias_v = parameter(init.xavier_normal(shape, dtype=dtype)) if add_bias_kv else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        if self.out_proj.bias is not None:
            self.out_proj.bias.assign(f.zeros_like(self.out_proj.bias))
        self._dropout = Dropout(dropout)  # private: its state is not saved, and PyTorch has no such module

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The outputs, and the weights if `need_weights` (the mean over heads, or (B, heads, L, S)), else None.

        Args:
            key_padding_mask: (B, S); a key whose bool is True is not seen; other masks are added to the scores.
            attn_mask: (L, S) or (B * heads, L, S), likewise: True is not seen.
            is_causal: a hint that `attn_mask` is the causal one; without an `attn_mask` it is refused, as in PyTorch.
        """
        q, k, v = asarray(query), asarray(key), asarray(value)
        self._check(q, k, v)
        if is_causal and attn_mask is None:
            raise OptionError("MultiheadAttention: is_causal says what attn_mask is; pass that mask too")
        batched = q.ndim == 3
        if not batched:
            q, k, v = (f.expand_dims(x, axis=0) for x in (q, k, v))
        elif not self.batch_first:
            q, k, v = (f.swapaxes(x, 0, 1) for x in (q, k, v))
        mask = self._mask(attn_mask, key_padding_mask, q, k)
        heads = self._heads(q, k, v)
        keys = heads[1].shape[-2]
        if mask is not None and keys > mask.shape[-1]:  # the added keys are always seen
            mask = f.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])], mask.dtype.kind == "b")
        weights = attention_weights(heads[0], heads[1], mask, False, None)
        kept = self._dropout(weights)
        joined = f.reshape(f.swapaxes(kept @ heads[2], 1, 2), q.shape)
        out = self.out_proj(joined)
        shown: Tensor | None = None
        if need_weights:
            shown = f.mean(kept, axis=1) if average_attn_weights else kept
            shown = shown if batched else f.squeeze(shown, axis=0)
        if not batched:
            return f.squeeze(out, axis=0), shown
        return out if self.batch_first else f.swapaxes(out, 0, 1), shown

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        found = (q.shape[-1:], k.shape[-1:], v.shape[-1:])
        if q.ndim not in (2, 3) or found != ((self.embed_dim,), (self.kdim,), (self.vdim,)) or k.ndim != q.ndim:
            axes = "(B, L, E)" if self.batch_first else "(L, B, E)"
            raise ShapeError(
                f"MultiheadAttention: needs query {axes} or (L, E) with E = {self.embed_dim}, key with {self.kdim} and "
                f"value with {self.vdim} features; got {q.shape}, {k.shape} and {v.shape}"
            )

    def _heads(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head: (B, heads, positions, E / heads)."""
        e = self.embed_dim
        biases = [None] * 3 if self.in_proj_bias is None else [self.in_proj_bias[n * e : (n + 1) * e] for n in range(3)]
        if self.kdim == self.vdim == e:
            if q is k is v:  # one product for all three
                all_three = linear(q, self.in_proj_weight, self.in_proj_bias)
                q, k, v = (all_three[..., n * e : (n + 1) * e] for n in range(3))
                return self._added(q, k, v)
            rows = [self.in_proj_weight[n * e : (n + 1) * e] for n in range(3)]
        else:
            rows = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        q, k, v = (linear(x, w, bias) for x, w, bias in zip((q, k, v), rows, biases, strict=True))
        return self._added(q, k, v)

    def _added(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.bias_k is not None and self.bias_v is not None:
            shape = (k.shape[0], 1, self.embed_dim)
            k = f.concat([k, f.broadcast_to(self.bias_k, shape)], axis=1)
            v = f.concat([v, f.broadcast_to(self.bias_v, shape)], axis=1)
        if self.add_zero_attn:
            k, v = (f.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (k, v))
        parts = [f.reshape(x, (*x.shape[:2], self.num_heads, -1)) for x in (q, k, v)]
        q, k, v = (f.swapaxes(x, 1, 2) for x in parts)
        return q, k, v

    def _mask(self, attn_mask: Any, key_padding_mask: Any, q: Tensor, k: Tensor) -> Tensor | None:
        """Both masks as one that broadcasts to (B, heads, L, S): bools of what is seen, or numbers to add."""
        masks = []
        if attn_mask is not None:
            attn_mask = as_mask("MultiheadAttention: attn_mask", attn_mask)
            if attn_mask.shape[-2:] != (q.shape[1], k.shape[1]):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask needs (L, S) = {(q.shape[1], k.shape[1])}, got {attn_mask.shape}"
                )
            if attn_mask.ndim == 3:
                attn_mask = f.reshape(attn_mask, (q.shape[0], -1, *attn_mask.shape[1:]))
            masks.append(attn_mask)
        if key_padding_mask is not None:
            padding = as_mask("MultiheadAttention: key_padding_mask", key_padding_mask)
            if padding.shape[-1] != k.shape[1]:
                raise ShapeError(f"MultiheadAttention: key_padding_mask needs (B, {k.shape[1]}), got {padding.shape}")
            masks.append(f.reshape(padding, (-1, 1, 1, k.shape[1])))
        if all(mask.dtype.kind == "b" for mask in masks):
            seen = [f.logical_not(mask) for mask in masks]
            return None if not seen else seen[0] if len(seen) == 1 else f.logical_and(*seen)
        added = [f.where(mask, -float("inf"), 0.0) if mask.dtype.kind == "b" else mask for mask in masks]
        return added[0] if len(added) == 1 else added[0] + added[1]

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}" + ", batch_first=True" * self.batch_first


MultiHeadAttention = MultiheadAttention
