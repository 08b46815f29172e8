"""What training comes to, epoch by epoch: the records, as a table and as curves, and the bar that is shown meanwhile.

This module must not know models, loaders or loops.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from vkgrad.errors import UnsupportedError
from vkgrad.metrics import Mean
from vkgrad.showing import html_table

Record = dict[str, float]  # what is known after an epoch, by name

DRAWN_EVERY_S = 0.5  # how often a bar that somebody watches shows another loss
LOGGED_EVERY_S = 10.0  # and one that goes to a file


class History(list[Record]):
    """What `fit` returns: a record for each epoch, with `epoch`, `loss`, `lr`, `seconds` and what was asked for.

    It prints as a table.
    """

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

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for record in self for name in record))

    def _rows(self) -> list[list[str]]:
        return [[_shown(record[name]) if name in record else "" for name in self._names()] for record in self]

    def __repr__(self) -> str:
        if not self:
            return "History of no epochs"
        rows = [self._names(), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)

    def _repr_html_(self) -> str:
        return html_table(f"{len(self)} epochs", self._rows(), self._names())


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


class Bar:
    """A progress bar that reads the loss when it is drawn, and at no other time."""

    def __init__(self, epoch: int, count: int | None, shown: bool | None) -> None:
        self.bar: Any = None
        self.steps = 0
        if _is_watched() if shown is None else shown:
            from tqdm import tqdm

            self.every_s = DRAWN_EVERY_S if _is_watched() else LOGGED_EVERY_S
            self.bar = tqdm(total=count, desc=f"epoch {epoch}", unit="batch", file=sys.stderr, mininterval=self.every_s)
            if epoch == 1:
                self.bar.set_postfix_str("the first step is recorded and compiled")
            self.drawn = time.perf_counter()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def step(self, loss: Mean) -> None:
        self.steps += 1
        if self.bar is None:
            return
        if time.perf_counter() - self.drawn >= self.every_s:
            self.drawn = time.perf_counter()
            self.bar.set_postfix(loss=f"{loss.compute():.4g}", refresh=False)
        self.bar.update()

    def finish(self, record: Record) -> None:
        """Leave what the epoch came to beside the full bar."""
        if self.bar is not None:
            self.bar.set_postfix({n: f"{v:.4g}" for n, v in record.items() if n not in ("epoch", "lr")}, refresh=True)


def _is_watched() -> bool:
    """Whether somebody sees standard error as it is written: a terminal, or the output of a notebook's cell."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
