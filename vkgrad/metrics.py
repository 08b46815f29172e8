"""How good predictions are: functions of a batch, and objects that add up over batches on the device.

Nothing is read back until `compute`: `update` builds a few nodes, and may be inside a function that `vg.jit` records.
This module must not know models or loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkgrad import functions as f
from vkgrad.errors import OptionError, ShapeError
from vkgrad.history import no_grad
from vkgrad.spelling import answer_misspellings
from vkgrad.tensor import Operand, Tensor, asarray, tensor

__all__ = ["Accuracy", "ConfusionMatrix", "Mean", "accuracy", "confusion_matrix"]


def __dir__() -> list[str]:
    return sorted(__all__)


def accuracy(scores: Operand, labels: Operand, k: int = 1) -> Tensor:
    """The share of examples whose label is among the k highest scores; a tie counts for the label with the lower index.

    Shapes: scores (B, C), labels (B,) integers -> ().

    Raises:
        ShapeError: the shapes differ from these.
        OptionError: k is not from 1 to C.

    Example:
        >>> import vkgrad as vg
        >>> scores = vg.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
        >>> float(vg.metrics.accuracy(scores, vg.tensor([1, 2])))
        0.5
        >>> float(vg.metrics.accuracy(scores, vg.tensor([1, 1]), k=2))
        1.0
    """
    return f.mean(_hits(scores, labels, k))


def _hits(scores: Operand, labels: Operand, k: int) -> Tensor:
    scores, labels = asarray(scores), asarray(labels)
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise ShapeError(f"accuracy: takes scores (B, C) and labels (B,), got {scores.shape} and {labels.shape}")
    if not 1 <= k <= scores.shape[1]:
        raise OptionError(f"accuracy: k must be from 1 to {scores.shape[1]}, the number of classes, got {k}")
    label = labels.reshape((-1, 1))
    place = f.arange(scores.shape[1])
    own = f.sum(f.where(place == label, scores, 0.0), 1, keepdims=True)
    before = f.logical_or(scores > own, f.logical_and(scores == own, place < label))
    is_number = f.logical_not(f.isnan(own.reshape((-1,))))
    return f.logical_and(f.sum(before.astype("int32"), 1) < k, is_number).astype("float32")


def confusion_matrix(predicted: Operand, labels: Operand, num_classes: int) -> Tensor:
    """How often class `row` was predicted as class `column`. Shapes: (B,) and (B,) integers -> (C, C) int32.

    Example:
        >>> import vkgrad as vg
        >>> vg.metrics.confusion_matrix(vg.tensor([0, 1, 1]), vg.tensor([0, 0, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    predicted, labels = asarray(predicted), asarray(labels)
    if predicted.ndim != 1 or predicted.shape != labels.shape:
        raise ShapeError(f"confusion_matrix: takes (B,) and (B,), got {predicted.shape} and {labels.shape}")
    place = f.arange(num_classes)
    rows, columns = ((place.reshape((-1, 1)) == classes).astype("int32") for classes in (labels, predicted))
    return rows @ columns.T


class Mean:
    """The mean of numbers that come batch by batch, each with how many examples it stands for.

    Example:
        >>> import vkgrad as vg
        >>> loss = vg.metrics.Mean()
        >>> loss.update(vg.tensor(1.0), 3)
        >>> loss.update(vg.tensor(5.0), 1)
        >>> loss.compute()
        2.0
    """

    def __init__(self) -> None:
        self._total = tensor(np.zeros((), np.float32))
        self._count = tensor(np.zeros((), np.float32))

    def update(self, value: Operand, count: int = 1) -> None:
        """Add a mean over `count` examples."""
        with no_grad():
            self._total.assign(self._total + asarray(value).astype("float32") * float(count))
            self._count.assign(self._count + float(count))

    def compute(self) -> float:
        """The mean so far, NaN before the first update. It waits for the device."""
        return float(self._total / self._count)

    def reset(self) -> None:
        for own in (self._total, self._count):
            own.assign(tensor(np.zeros((), np.float32)))


class Accuracy(Mean):
    """The share of examples whose label was among the k highest scores."""

    def __init__(self, k: int = 1) -> None:
        super().__init__()
        self.k = k

    def update(self, scores: Operand, labels: Operand) -> None:  # type: ignore[override]
        """Add a batch: scores (B, C) and labels (B,)."""
        super().update(accuracy(scores, labels, self.k), asarray(labels).shape[0])


class ConfusionMatrix:
    """How often each class (row) was predicted as each (column), over batches."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self._counts = tensor(np.zeros((num_classes, num_classes), np.int32))

    def update(self, scores: Operand, labels: Operand) -> None:
        """Add a batch: scores (B, C) and labels (B,)."""
        with no_grad():
            counted = confusion_matrix(f.argmax(asarray(scores), 1), labels, self.num_classes)
            self._counts.assign(self._counts + counted.astype("int32"))

    def compute(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The counts so far, as an array. It waits for the device."""
        return self._counts.numpy()

    def reset(self) -> None:
        self._counts.assign(tensor(np.zeros((self.num_classes, self.num_classes), np.int32)))


answer_misspellings(globals())
