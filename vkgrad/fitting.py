"""`fit`: the training loop that most programs write, for those that need no other; and what listens to it.

It reads from the device once an epoch, and when a progress bar is drawn anew, never for a step. This module must not
know any layer, loss or optimiser.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.checked import Checked
from vkgrad.epochs import Bar, History, Record
from vkgrad.errors import ArgumentError, DataError, NonFiniteError, OptionError, UnsupportedError
from vkgrad.functional import value_and_grad
from vkgrad.history import no_grad
from vkgrad.jit import jit as recorded
from vkgrad.metrics import Mean
from vkgrad.nn.module import Module
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.schedules import Schedule
from vkgrad.resuming import load_checkpoint, save_checkpoint
from vkgrad.spelling import meant, spelled
from vkgrad.tensor import Tensor
from vkgrad.tree import leaves

Metric = Callable[[Any, Any], Tensor]
Listener = Callable[[Record, Module], object]  # called after each epoch; what it returns says whether to stop


@spelled
def fit(
    model: Module,
    optimizer: Optimizer,
    loss: Callable[[Any, Any], Tensor],
    loader: Any,
    epochs: int,
    *,
    validation: Any = None,
    metrics: Mapping[str, Metric] | Iterable[Metric] | Metric | None = None,
    schedule: Schedule | None = None,
    listeners: Iterable[Listener] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    jit: bool = True,
    progress: bool | None = None,
) -> History:
    """Train a model for `epochs` times all batches (x, y) of a loader, and return what each epoch came to.

    Called again it trains on: `epochs` more.

    Args:
        loss: of the model's output and y; a mean over the batch.
        loader: a `DataLoader`, or anything else that gives pairs (x, y) each time it is iterated over.
        validation: a second one, which the model is evaluated on after each epoch: `validation_loss`, and the metrics.
        metrics: further functions like `loss`, such as `vg.metrics.accuracy`, by name or under their own; of the
            validation batches, or of the training batches as they come if there are none.
        schedule: moved on after each epoch.
        listeners: called with each epoch's record and the model; training stops when one returns True.
        checkpoint: a file to write after each epoch: model, optimiser, loader, schedule, listeners that have a state,
            the random generator and the history. `load_checkpoint` reads it too; there listeners are `listener0`,
            `listener1`, ...
        resume: go on from that file where it exists, until the history has `epochs` records or a listener has stopped
            it. The bits are those of a run that never stopped.
        progress: show a bar on standard error, whose loss is read only when it is drawn. By default where that is a
            terminal or a notebook.

    Raises:
        OptionError: an argument is none of these, or there is nothing to do.
        DataError: a batch is no pair.
        NonFiniteError: an epoch's loss is infinite or not a number.

    Example:
        >>> import numpy as np, vkgrad as vg
        >>> vg.manual_seed(0)
        >>> x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(-1, 1)
        >>> model = vg.nn.Linear(1, 1)
        >>> loader = vg.data.DataLoader(x, 3 * x + 1, batch_size=16)
        >>> history = vg.fit(model, vg.optim.Adam(model, lr=0.1), vg.nn.mse_loss, loader, epochs=40)
        >>> len(history), round(model.weight.item()), round(model.bias.item())
        (40, 3, 1)
    """
    _check(loader, validation, epochs, checkpoint, resume)
    if not isinstance(model, Module) or not isinstance(optimizer, Optimizer) or not callable(loss):
        raise ArgumentError(
            "fit: takes model, optimizer and loss, such as vg.optim.Adam(model) and vg.nn.cross_entropy; got a "
            f"{type(model).__name__}, a {type(optimizer).__name__} and a {type(loss).__name__}"
        )
    measured = _by_name(metrics)
    inside = {} if validation is not None else measured

    def train(x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        def of(model: Module) -> tuple[Tensor, dict[str, Tensor]]:
            out = model(x)
            return loss(out, y), {name: metric(out, y) for name, metric in inside.items()}

        (value, numbers), gradients = value_and_grad(of, has_aux=True)(model)
        optimizer.update(model, gradients)
        return value, numbers

    def evaluate(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        with no_grad():
            out = model(x)
            return {"validation_loss": loss(out, y), **{name: metric(out, y) for name, metric in measured.items()}}

    if jit:
        train, evaluate = recorded(train), recorded(evaluate)
    listening = list(listeners)
    own = {"model": model, "optimizer": optimizer, "loader": loader, "schedule": schedule}
    own |= {f"listener{k}": listener for k, listener in enumerate(listening)}
    parts = {name: part for name, part in own.items() if hasattr(part, "load_state_dict")}
    history, stopped = _restored(checkpoint, parts) if resume else (History(), False)
    with Bar(epochs, len(history), _length(loader), progress) as bar:
        while len(history) < epochs and not stopped:
            began = time.perf_counter()
            model.train()
            means = {name: Mean() for name in ("loss", *inside)}
            record: Record = {"epoch": len(history) + 1, "lr": optimizer.lr}
            bar.begin(len(history) + 1)
            is_empty = True
            for x, y in map(_pair, loader):
                is_empty = False
                value, numbers = train(x, y)
                for name, found in {"loss": value, **numbers}.items():
                    means[name].update(found, _count(x))
                bar.step(means["loss"])
            if is_empty:
                raise OptionError("fit: nothing to do: the loader has no batches" if not history else EMPTY_AGAIN)
            if validation is not None:
                means |= _evaluated(model, evaluate, validation)
            record |= {name: mean.compute() for name, mean in means.items()}
            _refuse_strange(record, optimizer)
            record["seconds"] = time.perf_counter() - began
            bar.finish(record)
            if schedule is not None:
                schedule.step()
            history.append(record)
            stopped = True in [listener(record, model) for listener in listening]  # all of them hear of it
            if checkpoint is not None:
                save_checkpoint(checkpoint, **parts, history=json.dumps(history), stopped=stopped)
    return history


EMPTY_AGAIN = "fit: the loader gave no batches the second time; it must give them anew each time it is iterated over"
PAIRS = "pairs (x, y) of a batch each, such as vg.data.DataLoader(x, y, batch_size=32) gives"


def _check(loader: Any, validation: Any, epochs: int, checkpoint: Any, resume: bool) -> None:
    """Refuse what cannot be trained on."""
    for name, batches in (("loader", loader), ("validation", validation)):
        is_array = hasattr(batches, "shape") or (
            isinstance(batches, tuple | list) and any(hasattr(part, "shape") for part in batches)
        )
        if (batches is None and name == "validation") or (hasattr(batches, "__iter__") and not is_array):
            continue
        raise OptionError(f"fit: {name} gives {PAIRS}; got a {type(batches).__name__}{' of arrays' * is_array}")
    if _length(loader) == 0 or epochs < 1:
        raise OptionError(f"fit: nothing to do: {_length(loader)} batches, {epochs} epochs")
    if resume and checkpoint is None:
        raise OptionError("fit: resume goes on from the file that `checkpoint` names; name one")


def _length(batches: Any) -> int | None:
    """How many batches there are, where that is known beforehand."""
    return len(batches) if hasattr(batches, "__len__") else None


def _count(x: Any) -> int:
    """How many examples a batch has, also where x is several arrays."""
    return (x if hasattr(x, "shape") else leaves(x)[0].value).shape[0]


def _pair(batch: Any) -> tuple[Any, Any]:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        parts = f"{len(batch)} parts" if isinstance(batch, tuple | list) else f"a {type(batch).__name__}"
        raise DataError(f"fit: a loader gives {PAIRS}; got {parts}. Other batches: write the loop, docs/training.md")
    return batch[0], batch[1]


def _by_name(metrics: Any) -> dict[str, Metric]:
    """Metrics by name; a function without one has its own."""
    if metrics is None or isinstance(metrics, Mapping):
        found = dict(metrics or {})
    else:
        several = [metrics] if callable(metrics) or isinstance(metrics, str) else list(metrics)
        found = {getattr(metric, "__name__", type(metric).__name__): metric for metric in several}
    for metric in found.values():
        if not callable(metric):
            raise OptionError(
                f"fit: a metric is a function of output and y, such as vg.metrics.accuracy; got {metric!r}"
            )
    return found


def _restored(checkpoint: Any, parts: Mapping[str, Any]) -> tuple[History, bool]:
    """The history of a run, whose parts are brought to where they were, and whether a listener has stopped it; an
    empty history where there is no file yet."""
    if not Path(checkpoint).exists():
        return History(), False
    numbers = load_checkpoint(checkpoint, **parts)
    if "history" not in numbers:
        raise DataError(f"{checkpoint}: not written by fit, so that it has no history; resume with load_checkpoint")
    return History(json.loads(numbers["history"])), numbers["stopped"]


def _refuse_strange(record: Record, optimizer: Optimizer) -> None:
    """Training does not go on, and no checkpoint is written, once the loss is no number."""
    if not isfinite(record["loss"]):
        raise NonFiniteError(
            f"fit: the loss of epoch {record['epoch']} is {record['loss']}, at lr={optimizer.lr:g}; lower the learning "
            "rate or clip gradients, and vg.detect_anomaly() around fit says which layer it comes from"
        )


def _evaluated(model: Module, evaluate: Callable[..., dict[str, Tensor]], batches: Any) -> dict[str, Mean]:
    model.eval()
    means: dict[str, Mean] = {}
    for x, y in map(_pair, batches):
        for name, value in evaluate(x, y).items():
            means.setdefault(name, Mean()).update(value, _count(x))
    model.train()
    return means


class EarlyStopping(Checked):
    """A listener that stops `fit` once a number has not got better for `patience` epochs.

    Args:
        monitor: the number's name in the records.
        patience: how many epochs in a row may be no better than the best one.
        min_delta: by how much an epoch must be better to count.
        mode: "min" if less is better, "max" if more is.
        restore: give the model its state of the best epoch back when it stops.

    It can be a part of a checkpoint; `fit` then goes on waiting where it was.
    """

    open_state = True  # the best epoch's model is in it only once there was an epoch

    def __init__(
        self,
        monitor: str = "validation_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str = "min",
        restore: bool = True,
    ) -> None:
        if mode not in ("min", "max") or patience < 1 or min_delta < 0:
            raise OptionError(
                f"EarlyStopping: needs mode 'min' or 'max', patience >= 1 and min_delta >= 0, got {mode!r}, {patience} "
                f"and {min_delta}"
            )
        self.monitor, self.patience, self.min_delta, self.mode, self.restore = (
            monitor,
            patience,
            min_delta,
            mode,
            restore,
        )
        self.best: float | None = None
        self.waited = 0
        self._state: dict[str, Any] = {}

    def __repr__(self) -> str:
        best = "nothing yet" if self.best is None else f"{self.best:.4g}, {self.waited} epochs ago"
        return f"EarlyStopping({self.monitor!r}, patience={self.patience}): best {best}"

    def __call__(self, record: Record, model: Module) -> bool:
        if self.monitor not in record:
            mended = meant(self.monitor, record) or "validation= of fit adds validation_loss"
            raise OptionError(
                f"EarlyStopping: no {self.monitor!r} in the records, which have {', '.join(record)}; {mended}"
            )
        value = record[self.monitor]
        gain = 0.0 if self.best is None else (self.best - value if self.mode == "min" else value - self.best)
        if self.best is None or gain > self.min_delta:  # NaN is never better
            self.best, self.waited = value, 0
            if self.restore:
                self._state = {name: own.numpy() for name, own in model.state_dict().items()}
            return False
        self.waited += 1
        if self.waited < self.patience:
            return False
        if self.restore:
            model.load_state_dict(self._state)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The best number, for how many epochs none was better, and the model of that epoch."""
        kept = {f"model/{name}": value for name, value in self._state.items()}
        return {"best": self.best, "waited": self.waited, **kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on waiting from a saved state."""
        self.best, self.waited = state["best"], state["waited"]
        kept = {name: value for name, value in state.items() if name.startswith("model/")}
        self._state = {name.removeprefix("model/"): np.asarray(value) for name, value in kept.items()}


class TensorBoard:
    """A listener that writes each epoch's numbers where TensorBoard looks for them, through tensorboardX.

    Raises:
        UnsupportedError: tensorboardX is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise UnsupportedError("TensorBoard needs tensorboardX: run `pip install vkgrad[tensorboard]`") from error
        self._writer = SummaryWriter(str(Path(folder)))
        self._is_closed = False

    def __call__(self, record: Record, model: Module) -> None:
        if self._is_closed:
            raise OptionError("TensorBoard: it was closed before this epoch; make another, vg.TensorBoard(folder)")
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, int(record["epoch"]))
        self._writer.flush()

    def close(self) -> None:
        """Write what is left. It hears of no more epochs then."""
        self._writer.close()
        self._is_closed = True
