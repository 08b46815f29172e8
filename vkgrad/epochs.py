"""What training comes to, epoch by epoch: the records, as a table and as curves, and the bar that is shown meanwhile.

This module must not know models, loaders or loops.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from io import BytesIO
from typing import Any, SupportsIndex, overload

from vkgrad.errors import UnsupportedError
from vkgrad.metrics import Mean
from vkgrad.showing import html_table

Record = dict[str, float]  # what is known after an epoch, by name

DRAWN_EVERY_S = 0.5  # how often a bar that somebody watches shows another loss
LOGGED_EVERY_S = 10.0  # and one that goes to a file


class Curves:
    """A figure of matplotlib that a notebook shows."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.figure.savefig(drawn, format="png")
        return drawn.getvalue()


class History(list[Record]):
    """What `fit` returns: a record for each epoch, with `epoch`, `loss`, `lr`, `seconds` and what was asked for.

    It prints as a table.
    """

    @overload
    def __getitem__(self, place: SupportsIndex) -> Record: ...

    @overload
    def __getitem__(self, place: slice) -> History: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Record | History:
        return History(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def column(self, name: str) -> list[float]:
        """One number over the epochs."""
        return [record[name] for record in self]

    def plot(self, path: str | os.PathLike[str] | None = None, names: Iterable[str] | None = None) -> Curves:
        """Draw numbers over the epochs (all that are losses or metrics, unless named), to a picture file if named.

        A notebook shows what is returned.

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
        if path is not None:
            figure.savefig(path)
        return Curves(figure)

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
    """A progress bar over all epochs. It reads the loss when it is drawn, and at no other time."""

    def __init__(self, epochs: int, done: int, batches: int | None, shown: bool | None) -> None:
        """Of `epochs` epochs of so many batches (None: not known beforehand) some are done."""
        self.bar: Any = None
        self.epochs = epochs
        self.watched = _is_watched()
        self.known: dict[str, str] = {}
        if self.watched if shown is None else shown:
            from tqdm import tqdm

            self.every_s = DRAWN_EVERY_S if self.watched else LOGGED_EVERY_S
            self.drawn = self.written = time.perf_counter()
            self.bar = tqdm(
                total=None if batches is None else epochs * batches,
                initial=done * (batches or 0),
                desc=f"epoch {done + 1}/{epochs}",
                unit="batch",
                file=sys.stderr,
                mininterval=self.every_s,
            )
            self.bar.set_postfix_str("the first step is recorded and compiled")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def begin(self, epoch: int) -> None:
        if self.bar is not None:
            self.bar.set_description(f"epoch {epoch}/{self.epochs}", refresh=False)

    def step(self, loss: Mean) -> None:
        if self.bar is None:
            return
        if time.perf_counter() - self.drawn >= self.every_s:
            self.drawn = time.perf_counter()
            self.known["loss"] = f"{loss.compute():.4g}"
            self.bar.set_postfix(self.known, refresh=False)
        self.bar.update()

    def finish(self, record: Record) -> None:
        """Show what an epoch came to; in a file that nobody watches on a line of its own, if it was not a short one."""
        if self.bar is None:
            return
        self.known = {name: _shown(value) for name, value in record.items() if name not in ("epoch", "lr", "seconds")}
        is_last = record["epoch"] == self.epochs
        self.bar.set_postfix(self.known, refresh=False)
        if not self.watched and (is_last or time.perf_counter() - self.written >= LOGGED_EVERY_S):
            self.written = time.perf_counter()
            self.bar.write(
                f"epoch {record['epoch']}/{self.epochs}: {', '.join(f'{n} {v}' for n, v in self.known.items())}",
                file=sys.stderr,
            )


def _is_watched() -> bool:
    """Whether somebody sees standard error as it is written: a terminal, or the output of a notebook's cell."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
