"""Tables that notebooks show in place of text. They take the colours of the page, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

MOST_SHOWN = 5  # of each end of an axis
CELL = "border:1px solid rgba(128,128,128,.35);padding:2px 8px;text-align:right;white-space:nowrap"
WORDS = CELL.replace("right", "left")


def html_table(caption: str, rows: Iterable[Sequence[Any]], heads: Sequence[str] = ()) -> str:
    """A table as HTML. What is no number stands at the left of its cell."""
    top = "".join(f'<th style="{WORDS}">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_style(cell)}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;font-family:monospace">'
        f'<caption style="text-align:left;font-family:monospace;white-space:nowrap">{escape(caption)}</caption>'
        + (f"<thead><tr>{top}</tr></thead>" if heads else "")
        + f"<tbody>{body}</tbody></table></div>"
    )


def html_array(caption: str, value: np.ndarray) -> str:
    """An array with up to two axes as a table, of which only the corners are shown if it is large; others as text."""
    if not 1 <= value.ndim <= 2 or not value.size:
        return html_table(caption, [[np.array2string(value, separator=", ", threshold=64)]])
    rows, columns = (_shown(extent) for extent in np.atleast_2d(value).shape)
    cells = np.atleast_2d(value)
    return html_table(
        caption,
        [["…" if at is None or on is None else _digits(cells[at, on]) for on in columns] for at in rows],
    )


def _shown(extent: int) -> list[int | None]:
    """Positions along an axis that are shown; None stands for those left out."""
    if extent <= 2 * MOST_SHOWN:
        return list(range(extent))
    return [*range(MOST_SHOWN), None, *range(extent - MOST_SHOWN, extent)]


def _digits(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, np.floating) else str(value)


def _style(cell: Any) -> str:
    return CELL if str(cell).lstrip("-").replace(",", "")[:1].isdigit() else WORDS
