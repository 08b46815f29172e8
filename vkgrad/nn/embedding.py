"""Layers that look up rows of a table."""

from __future__ import annotations

from typing import Any

from vkgrad import functions as f
from vkgrad.errors import OptionError, ShapeError
from vkgrad.nn import init
from vkgrad.nn.functional import embedding, embedding_bag
from vkgrad.nn.module import Module, parameter
from vkgrad.tensor import Tensor, asarray


class _Table(Module):
    """The rows, and what PyTorch's tables can do that these refuse."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        refused: dict[str, Any],
        weight: Any,
        dtype: Any,
    ) -> None:
        for name, value in refused.items():
            if value:
                raise OptionError(f"{type(self).__name__}: {name} is not there; {_INSTEAD[name]}")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise OptionError(f"{type(self).__name__}: padding_idx {padding_idx} is outside 0..{num_embeddings - 1}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if weight is None:
            weight = init.normal((num_embeddings, embedding_dim), dtype=dtype)
            if self.padding_idx is not None:
                weight = f.where(f.reshape(f.arange(num_embeddings), (-1, 1)) == self.padding_idx, 0.0, weight)
        elif weight.shape != (num_embeddings, embedding_dim):
            raise ShapeError(
                f"{type(self).__name__}: the table is {(num_embeddings, embedding_dim)}, got {weight.shape}"
            )
        self.weight = parameter(weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + (
            "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        )


_INSTEAD = {
    "max_norm": "scale `weight` after a step with `weight.assign`",
    "scale_grad_by_freq": "divide the loss of each row by its count",
    "sparse": "gradients are dense here, and added up by rows on the device",
}


class Embedding(_Table):
    """The rows of `weight` at integer positions.

    Shapes: (...) integers -> (..., embedding_dim); weight (num_embeddings, embedding_dim).

    Args:
        padding_idx: a row that starts at zero and that training leaves alone.
        max_norm, scale_grad_by_freq, sparse: PyTorch's; refused, saying what to do instead.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        dtype: Any = None,
        *,
        _weight: Any = None,
    ) -> None:
        refused = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        super().__init__(num_embeddings, embedding_dim, padding_idx, refused, _weight, dtype)

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """A layer with these rows; frozen unless `freeze=False`."""
        weight = Tensor(asarray(embeddings).node)
        if weight.ndim != 2:
            raise ShapeError(f"{cls.__name__}: from_pretrained takes a table (rows, features), got {weight.shape}")
        rows, features = weight.shape
        layer = cls(rows, features, padding_idx, _weight=weight)
        return layer.freeze() if freeze else layer

    def forward(self, positions: Any) -> Tensor:
        return embedding(positions, self.weight, self.padding_idx)


class EmbeddingBag(_Table):
    """The sum, mean or largest of the rows at the positions of each bag.

    Shapes: positions (B, L), or (N,) with offsets (B,) where each bag begins -> (B, embedding_dim).

    Args:
        mode: "mean", "sum" or "max".
        include_last_offset: the last offset is where the last bag ends, not where one begins.
        padding_idx: positions with this value count nothing.
        max_norm, scale_grad_by_freq, sparse: PyTorch's; refused, saying what to do instead.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = None,
    ) -> None:
        refused = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        super().__init__(num_embeddings, embedding_dim, padding_idx, refused, None, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, positions: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        if offsets is not None and self.include_last_offset:
            offsets = asarray(offsets)[:-1]
        return embedding_bag(positions, self.weight, offsets, self.mode, per_sample_weights, self.padding_idx)
