"""What every drawing can do: show itself in a notebook, and be saved as a file that opens without a network."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from vkgrad.errors import ConfigError
from vkgrad.viz.style import FONT


class Drawing:
    """An SVG with a title; `notes` is text that goes below it on a page of its own."""

    title: str
    notes: str

    def svg(self) -> str:
        raise NotImplementedError

    def _repr_svg_(self) -> tuple[str, dict[str, str]]:
        return self.svg(), {"alt": self.title}  # for readers who do not see it

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.title}; .save(path) writes it to a file"

    def html(self) -> str:
        """A page that holds the drawing and its notes, and needs nothing else."""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f"<style>:root{{color-scheme:light dark}}pre{{font-family:{FONT};white-space:pre-wrap}}</style></head>\n"
            f"<body>\n{self.svg()}\n<pre>{escape(self.notes)}</pre>\n</body></html>\n"
        )

    def _forms(self) -> dict[str, Callable[[], str]]:
        return {".svg": self.svg, ".html": self.html}

    def save(self, path: str | Path) -> Path:
        """Write the drawing in the form that the name's ending says: .svg or .html, a graph also as .dot.

        Raises: `ConfigError` for another ending.
        """
        path, forms = Path(path), self._forms()
        if path.suffix not in forms:
            raise ConfigError(f"save: a picture's file ends in {', '.join(forms)}; {path.name!r} does not")
        path.write_text(forms[path.suffix](), encoding="utf-8")
        return path
