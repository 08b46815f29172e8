"""`fit`: the training loop that most programs write, for those that need no other; and what listens to it.

It reads from the device once an epoch, and when a progress bar is drawn anew, never for a step. This module must not
know any layer, loss or optimiser.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vkgrad.errors import OptionError, UnsupportedError
from vkgrad.functional import value_and_grad
from vkgrad.history import no_grad
from vkgrad.jit import jit as recorded
from vkgrad.metrics import Mean
from vkgrad.nn.module import Module
from vkgrad.optim.optimizer import Optimizer
from vkgrad.optim.schedules import Schedule
from vkgrad.resuming import save_checkpoint
from vkgrad.tensor import Tensor

Record = dict[str, float]  # what is known after an epoch, by name
Listener = Callable[[Record, Module], object]  # called after each epoch; what it returns says whether to stop

DRAWN_EVERY_S = 0.5  # how often a bar on a terminal shows another loss
LOGGED_EVERY_S = 10.0  # and one that goes to a file


class History(list[Record]):
    """What `fit` returns: a record for each epoch, with `epoch`, `loss`, `lr`, `seconds` and what was asked for."""

    def column(self, name: str) -> list[float]:
        """One number over the epochs."""
        return [record[name] for record in self]

    def plot(self, path: str | os.PathLike[str], names: Iterable[str] | None = None) -> None:
        """Draw numbers over the epochs (all that are losses or metrics, unless named) to a picture file.

        Raises:
            UnsupportedError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise UnsupportedError("plots need matplotlib: run `pip install vkgrad[plot]`") from error
        shown = (
            [n for n in (self[0] if self else {}) if n not in ("epoch", "lr", "seconds")] if names is None else names
        )
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        for name in shown:
            axes.plot(self.column("epoch"), self.column(name), label=name)
        axes.set_xlabel("epoch")
        axes.legend()
        figure.savefig(path)


def fit(
    model: Module,
    optimizer: Optimizer,
    loss: Callable[[Any, Any], Tensor],
    loader: Any,
    epochs: int,
    *,
    validation: Any = None,
    metrics: Mapping[str, Callable[[Any, Any], Tensor]] | None = None,
    schedule: Schedule | None = None,
    listeners: Iterable[Listener] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    jit: bool = True,
    progress: bool = False,
) -> History:
    """Train a model on batches (x, y) until `loader.epoch` has come to `epochs`.

    Args:
        loss: of the model's output and y; a mean over the batch.
        loader: a `DataLoader`; one that has gone through epochs already goes on.
        validation: a second one, which the model is evaluated on after each epoch: `validation_loss`, and the metrics.
        metrics: further functions like `loss`, such as `vg.metrics.accuracy`, by name; of the validation batches, or of
            the training batches as they come if there are none.
        schedule: moved on after each epoch.
        listeners: called with each epoch's record and the model; training stops when one returns True.
        checkpoint: a file to write after each epoch; `load_checkpoint` brings `model`, `optimizer`, `loader`,
            `schedule` and, for listeners that have a state, `listener0`, `listener1`, ... from it.
        progress: show a bar on standard error, whose loss is read only when it is drawn.

    Raises:
        OptionError: there is nothing to do.

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
    if len(loader) == 0 or epochs <= loader.epoch:
        raise OptionError(f"fit: nothing to do: {len(loader)} batches, and epoch {loader.epoch} of {epochs}")
    measured = dict(metrics or {})
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
    history = History()
    while loader.epoch < epochs:
        began = time.perf_counter()
        number = loader.epoch
        model.train()
        means = {name: Mean() for name in ("loss", *inside)}
        with _Bar(number, len(loader), progress) as bar:
            for x, y in loader:
                value, numbers = train(x, y)
                for name, found in {"loss": value, **numbers}.items():
                    means[name].update(found, x.shape[0])
                bar.step(means["loss"])
        record: Record = {"epoch": number + 1, "lr": optimizer.lr}
        if validation is not None:
            means |= _evaluated(model, evaluate, validation)
        record |= {name: mean.compute() for name, mean in means.items()}
        record["seconds"] = time.perf_counter() - began
        if schedule is not None:
            schedule.step()
        history.append(record)
        answers = [listener(record, model) for listener in listening]  # all of them hear of it
        if checkpoint is not None:
            parts = {"model": model, "optimizer": optimizer, "loader": loader, "schedule": schedule}
            parts |= {f"listener{k}": one for k, one in enumerate(listening) if hasattr(one, "load_state_dict")}
            save_checkpoint(checkpoint, **{name: part for name, part in parts.items() if part is not None})
        if True in answers:
            break
    return history


def _evaluated(model: Module, evaluate: Callable[..., dict[str, Tensor]], batches: Any) -> dict[str, Mean]:
    model.eval()
    means: dict[str, Mean] = {}
    for x, y in batches:
        for name, value in evaluate(x, y).items():
            means.setdefault(name, Mean()).update(value, x.shape[0])
    model.train()
    return means


class _Bar:
    """A progress bar that reads the loss when it is drawn, and at no other time."""

    def __init__(self, epoch: int, steps: int, shown: bool) -> None:
        self.bar: Any = None
        if shown:
            from tqdm import tqdm

            self.every_s = DRAWN_EVERY_S if sys.stderr.isatty() else LOGGED_EVERY_S
            self.bar = tqdm(
                total=steps, desc=f"epoch {epoch + 1}", unit="batch", file=sys.stderr, mininterval=self.every_s
            )
            self.drawn = time.perf_counter()

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def step(self, loss: Mean) -> None:
        if self.bar is None:
            return
        if time.perf_counter() - self.drawn >= self.every_s:
            self.drawn = time.perf_counter()
            self.bar.set_postfix(loss=f"{loss.compute():.4g}", refresh=False)
        self.bar.update()


class EarlyStopping:
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

    def __call__(self, record: Record, model: Module) -> bool:
        if self.monitor not in record:
            raise OptionError(f"EarlyStopping: no {self.monitor!r} in the records, which have {', '.join(record)}")
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

    def __call__(self, record: Record, model: Module) -> None:
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, int(record["epoch"]))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
