"""Encoder and decoder layers of transformers, and stacks of them, with PyTorch's names, defaults and keys."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError
from vkgrad.nn.attention import MultiheadAttention
from vkgrad.nn.containers import ModuleList
from vkgrad.nn.dropout import Dropout
from vkgrad.nn.init import xavier_uniform
from vkgrad.nn.linear import Linear
from vkgrad.nn.module import Module
from vkgrad.nn.normalization import LayerNorm
from vkgrad.tensor import Tensor, asarray

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": f.relu, "gelu": f.gelu}


def _copies(layer: Module, count: int) -> ModuleList:
    """Copies of a layer with weights of their own, equal at first; their dropout masks differ."""
    copies = [deepcopy(layer) for _ in range(count)]
    for copy in copies:
        for _, module in copy.named_modules():
            if isinstance(module, Dropout):
                module.reseed()
    return ModuleList(copies)


class _Layer(Module):
    """What encoder and decoder layers share: attention with itself, and two linear layers with one activation."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        dtype: Any,
        crossed: bool,
    ) -> None:
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise OptionError(f'activation must be "relu", "gelu" or a function, not {activation!r}')
        self.activation = activation
        self.norm_first = norm_first
        options = {"dropout": dropout, "bias": bias, "batch_first": batch_first, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, **options)
        if crossed:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2 + crossed)]
        for number, norm in enumerate(norms, 1):
            setattr(self, f"norm{number}", norm)
        for number in range(1, 3 + crossed):
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _with(self, number: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x and what a block makes of it, normalised before or after."""
        norm, dropped = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropped(block(norm(x)))
        return norm(x + dropped(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        activation = _ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation
        return self.linear2(self.dropout(activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence with itself, then two linear layers, each added to its input and normalised.

    Shapes: (T, B, d_model), with `batch_first` (B, T, d_model), or (T, d_model) -> the same.

    Args:
        norm_first: normalise what goes into a block instead of what comes out.
        activation: "relu", "gelu" or a function.

    Source: Vaswani et al. (2017), arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype,
            crossed=False,
        )  # fmt: skip

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._with(2, self._with(1, asarray(src), attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence with itself, then with `memory`, then two linear layers.

    Shapes: tgt (T, B, d_model) and memory (S, B, d_model), the batch first with `batch_first` -> like tgt.

    Source: Vaswani et al. (2017), arXiv:1706.03762, section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype,
            crossed=True,
        )  # fmt: skip

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        seen = asarray(memory)

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            masks = (memory_key_padding_mask, False, memory_mask)
            return self.multihead_attn(x, seen, seen, *masks, is_causal=memory_is_causal)[0]

        x = self._with(2, self._with(1, asarray(tgt), attend), look)
        return self._with(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of an encoder layer one after another, and a last norm if given. Shapes: as the layer's."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True
    ) -> None:
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Tensor:
        x = asarray(src)
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder layer one after another, and a last norm if given. Shapes: as the layer's."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x, seen = asarray(tgt), asarray(memory)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            x = layer(x, seen, *masks, tgt_is_causal, memory_is_causal)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of `src` whose result the decoder of `tgt` looks at.

    Shapes: src (S, B, d_model) and tgt (T, B, d_model), the batch first with `batch_first` -> like tgt.

    Source: Vaswani et al. (2017), arXiv:1706.03762, figure 1.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2)]
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, dtype=dtype), num_encoder_layers, norms[0])
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, dtype=dtype), num_decoder_layers, norms[1])
        for tensor in self.parameters():
            if tensor.ndim > 1:
                tensor.assign(xavier_uniform(tensor.shape, dtype=tensor.dtype))

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks)

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> Tensor:
        """(sz, sz): 0 where a position sees another, minus infinity where that is later."""
        return f.where(f.reshape(f.arange(sz), (-1, 1)) >= f.arange(sz), 0.0, -float("inf"))
