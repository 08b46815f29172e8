"""Networks as scikit-learn's estimators: `VkgradClassifier` and `VkgradRegressor`. Needs the extra `sklearn`.

They pass scikit-learn's `check_estimator`, so they work in its pipelines, searches and cross-validation. Training is
`vg.fit`. This module must not know any layer but those of the perceptron that it makes unless it is given a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from vkgrad import optim, random
from vkgrad.data import DataLoader
from vkgrad.errors import OptionError, UnsupportedError
from vkgrad.fitting import fit
from vkgrad.history import no_grad
from vkgrad.nn import Linear, Module, ReLU, Sequential, cross_entropy, mse_loss
from vkgrad.nn.functional import softmax
from vkgrad.tensor import tensor

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise UnsupportedError("vkgrad.sklearn needs scikit-learn 1.6: run `pip install vkgrad[sklearn]`") from error

__all__ = ["VkgradClassifier", "VkgradRegressor"]

Array = np.ndarray[Any, np.dtype[Any]]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw first weights from a seed of their own, and leave the program's sequence as it was."""
    before = {name: own.numpy() for name, own in random.generator_state().items()}
    random.manual_seed(seed)
    try:
        yield
    finally:
        random.set_generator_state(before)


class _Estimator(BaseEstimator):
    """What both have.

    Args:
        module: called with the numbers of features and outputs, it makes the network; None for a perceptron with
            layers of `hidden` units and ReLU between them.
        hidden: the perceptron's layers.
        epochs, batch_size: how long to train, by how many examples at a time.
        optimizer: the name of a class of `vkgrad.optim`.
        lr: its learning rate.
        standardize: train on features (and, in regression, targets) of mean 0 and variance 1.
        random_state: an int, or a `numpy.random.RandomState`, that first weights and the order of examples come from.
    """

    def __init__(
        self,
        module: Callable[[int, int], Module] | None = None,
        hidden: Sequence[int] = (64,),
        epochs: int = 100,
        batch_size: int = 64,
        optimizer: str = "Adam",
        lr: float = 0.01,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.lr = lr
        self.standardize = standardize
        self.random_state = random_state

    def _made(self, features: int, outputs: int) -> Module:
        if self.module is not None:
            return self.module(features, outputs)
        layers: list[Module] = []
        sizes = [features, *self.hidden]
        for size, after in pairwise(sizes):
            layers += [Linear(size, after), ReLU()]
        return Sequential(*layers, Linear(sizes[-1], outputs))

    def _trained(self, x: Array, y: Array, outputs: int, loss: Callable[..., Any]) -> None:
        if not hasattr(optim, self.optimizer):
            raise OptionError(f"{type(self).__name__}: vkgrad.optim has no {self.optimizer!r}")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.mean_, self.scale_ = self._statistics(x)
        with _seeded(seed):
            self.module_ = self._made(x.shape[1], outputs)
            optimizer = getattr(optim, self.optimizer)(self.module_, lr=self.lr)
            loader = DataLoader(self._scaled(x), y, batch_size=min(self.batch_size, len(x)), seed=seed)
            self.history_ = fit(self.module_, optimizer, loss, loader, self.epochs, progress=False)
        self.module_.eval()

    def _statistics(self, values: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of each column, 1 where nothing varies; or 0 and 1 if nothing is standardized."""
        columns = values.shape[1]
        if not self.standardize:
            return np.zeros(columns), np.ones(columns)
        scale = values.std(0)
        return values.mean(0), np.where(scale > 0, scale, 1.0)

    def _scaled(self, x: Array) -> Array:
        return ((x - self.mean_) / self.scale_).astype(np.float32)

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self, "module_")
        features = validate_data(self, x, reset=False, dtype=[np.float64, np.float32])
        with no_grad():
            return self.module_(tensor(self._scaled(features))).numpy()


class VkgradClassifier(ClassifierMixin, _Estimator):
    __doc__ = f"""Classify by a network that is trained on cross-entropy.

    {(_Estimator.__doc__ or "").partition("Args:")[2].join(("Args:", ""))}
    Example:
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> VkgradClassifier(epochs=30, random_state=0).fit(x, y).score(x, y) > 0.95
        True
    """

    def fit(self, X: Any, y: Any) -> VkgradClassifier:
        """Train on examples (N, features) and their classes (N,), which may be numbers or texts."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_}")
        self._trained(X, labels.astype(np.int32), len(self.classes_), cross_entropy)
        return self

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class: (N, features) -> (N, classes)."""
        return softmax(tensor(self._outputs(X)), -1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable class of each example."""
        outputs = self._outputs(X)
        return self.classes_[np.argmax(outputs, 1)]


class VkgradRegressor(RegressorMixin, _Estimator):
    __doc__ = f"""Predict numbers by a network that is trained on squared errors.

    {(_Estimator.__doc__ or "").partition("Args:")[2].join(("Args:", ""))}
    Example:
        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 200).reshape(-1, 1)
        >>> VkgradRegressor(random_state=0).fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.95
        True
    """

    def fit(self, X: Any, y: Any) -> VkgradRegressor:
        """Train on examples (N, features) and their targets, (N,) or (N, outputs)."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        self.is_vector_ = y.ndim == 1
        targets = np.asarray(y, np.float64).reshape(len(X), -1)
        columns = targets.shape[1]
        self.target_mean_, self.target_scale_ = self._statistics(targets)
        scaled = ((targets - self.target_mean_) / self.target_scale_).astype(np.float32)
        self._trained(X, scaled, columns, mse_loss)
        return self

    def predict(self, X: Any) -> Array:
        """The targets of each example, as they were given to `fit`: a vector, or a column for each."""
        found = self._outputs(X) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self.is_vector_ else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
