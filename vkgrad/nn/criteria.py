"""Losses as modules: each keeps its options and calls the function of its name in `vkgrad.nn.functional`.

Arguments are PyTorch's, without the deprecated `size_average` and `reduce`. A `weight` is a buffer, as there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from vkgrad.nn import likelihoods, losses, margins
from vkgrad.nn.module import Module
from vkgrad.tensor import Tensor, asarray


class _Loss(Module):
    """Base of the losses: `options` are the arguments of `function` beside the tensors that a call brings."""

    function: ClassVar[Any]
    options: tuple[str, ...] = ("reduction",)
    reduction: str

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, *tensors: Any) -> Tensor:
        return type(self).function(*tensors, **{name: getattr(self, name) for name in self.options})

    def extra_repr(self) -> str:
        shown = {name: getattr(self, name) for name in self.options}
        return ", ".join(f"{k}={v!r}" for k, v in shown.items() if not isinstance(v, Tensor) and v is not None)


class _Weighted(_Loss):
    """A loss with a factor per class or element."""

    options: tuple[str, ...] = ("weight", "reduction")

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = None if weight is None else asarray(weight)


class CrossEntropyLoss(_Weighted):
    """`cross_entropy`: of softmax(input) with labels (B, ...) or probabilities (B, C, ...), for input (B, C, ...).

    `ignore_index` is None where PyTorch has -100: no label is ignored unless asked.
    """

    function = staticmethod(losses.cross_entropy)
    options = ("weight", "ignore_index", "reduction", "label_smoothing")

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class NLLLoss(_Weighted):
    """`nll_loss`: minus the log probability at each label; input (B, C, ...), labels (B, ...)."""

    function = staticmethod(losses.nll_loss)
    options = ("weight", "ignore_index", "reduction")

    def __init__(self, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index


class MSELoss(_Loss):
    """`mse_loss`: the squared difference."""

    function = staticmethod(losses.mse_loss)


class L1Loss(_Loss):
    """`l1_loss`: the absolute difference."""

    function = staticmethod(losses.l1_loss)


class SmoothL1Loss(_Loss):
    """`smooth_l1_loss`: squared up to `beta`, absolute beyond."""

    function = staticmethod(losses.smooth_l1_loss)
    options = ("reduction", "beta")

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """`huber_loss`: half the square up to `delta`, a straight line beyond."""

    function = staticmethod(losses.huber_loss)
    options = ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta


class BCELoss(_Weighted):
    """`binary_cross_entropy` of probabilities with probabilities."""

    function = staticmethod(likelihoods.binary_cross_entropy)


class BCEWithLogitsLoss(_Weighted):
    """`binary_cross_entropy_with_logits`: of sigmoid(input) with probabilities, without overflow."""

    function = staticmethod(losses.binary_cross_entropy_with_logits)
    options = ("weight", "reduction", "pos_weight")

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight, reduction)
        self.pos_weight = None if pos_weight is None else asarray(pos_weight)


class KLDivLoss(_Loss):
    """`kl_div`: the divergence of the distribution `target` from the one whose logarithm is the input."""

    function = staticmethod(losses.kl_div)
    options = ("reduction", "log_target")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target


class PoissonNLLLoss(_Loss):
    """`poisson_nll_loss`: of counts under Poisson distributions."""

    function = staticmethod(likelihoods.poisson_nll_loss)
    options = ("log_input", "full", "eps", "reduction")

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps


class GaussianNLLLoss(_Loss):
    """`gaussian_nll_loss`, called with input, target and var: under normal distributions."""

    function = staticmethod(likelihoods.gaussian_nll_loss)
    options = ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps


class SoftMarginLoss(_Loss):
    """`soft_margin_loss`: log(1 + exp(-target * input))."""

    function = staticmethod(likelihoods.soft_margin_loss)


class MultiLabelSoftMarginLoss(_Weighted):
    """`multilabel_soft_margin_loss`: binary cross entropy with logits, the mean over classes."""

    function = staticmethod(likelihoods.multilabel_soft_margin_loss)


class CTCLoss(_Loss):
    """`ctc_loss`, called with log_probs (T, B, C), targets (B, S), input_lengths and target_lengths (B,)."""

    function = staticmethod(likelihoods.ctc_loss)
    options = ("blank", "reduction", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity


class _Margin(_Loss):
    options = ("margin", "reduction")

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin


class CosineEmbeddingLoss(_Margin):
    """`cosine_embedding_loss`, called with two inputs (B, D) and a target (B,) of 1 and -1."""

    function = staticmethod(margins.cosine_embedding_loss)


class MarginRankingLoss(_Margin):
    """`margin_ranking_loss`, called with two inputs and a target of 1 and -1."""

    function = staticmethod(margins.margin_ranking_loss)


class HingeEmbeddingLoss(_Margin):
    """`hinge_embedding_loss`: the input, or how far it is below `margin`."""

    function = staticmethod(margins.hinge_embedding_loss)

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(margin, reduction)


class TripletMarginLoss(_Loss):
    """`triplet_margin_loss`, called with anchor, positive and negative (B, D)."""

    function = staticmethod(margins.triplet_margin_loss)
    options = ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap


class TripletMarginWithDistanceLoss(_Loss):
    """`triplet_margin_with_distance_loss`: `TripletMarginLoss` by a distance of your own."""

    function = staticmethod(margins.triplet_margin_with_distance_loss)
    options = ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: margins.Distance | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap


class MultiLabelMarginLoss(_Loss):
    """`multilabel_margin_loss`: a hinge for each pair of a label and a class that is none."""

    function = staticmethod(margins.multilabel_margin_loss)


class MultiMarginLoss(_Weighted):
    """`multi_margin_loss`: a hinge for each class other than the label's."""

    function = staticmethod(margins.multi_margin_loss)
    options = ("p", "margin", "weight", "reduction")

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.p = p
        self.margin = margin


class CosineSimilarity(Module):
    """`cosine_similarity` of two inputs along axis `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return margins.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """`pairwise_distance`: the p-norm of the difference along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return margins.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
