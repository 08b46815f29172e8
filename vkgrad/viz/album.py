"""Several drawings under their names, that are looked at together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from vkgrad.errors import ConfigError
from vkgrad.viz.drawing import Drawing


class Album:
    """Drawings by name, in order: shown by a notebook one below the other, and saved to one page by `save`."""

    def __init__(self, drawings: Mapping[str, Drawing]) -> None:
        self.drawings = dict(drawings)

    def __iter__(self) -> Iterator[Drawing]:
        return iter(self.drawings.values())

    def __len__(self) -> int:
        return len(self.drawings)

    def __getitem__(self, name: str) -> Drawing:
        return self.drawings[name]

    def __repr__(self) -> str:
        return f"Album of {len(self)} drawings: {', '.join(self.drawings)}; .save(path) writes them to a page"

    def _repr_html_(self) -> str:
        return "".join(
            f'<figure style="margin:0 0 1em;overflow-x:auto"><figcaption>{escape(name)}</figcaption>{drawing.svg()}'
            "</figure>"
            for name, drawing in self.drawings.items()
        )

    def save(self, path: str | Path) -> Path:
        """Write all of them to one page.

        Raises: `ConfigError` if the name does not end in .html.
        """
        path = Path(path)
        if path.suffix != ".html":
            raise ConfigError(f"save: several pictures go to one .html file; {path.name!r} is none")
        path.write_text(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>vkgrad</title>'
            "<style>:root{color-scheme:light dark}body{font-family:system-ui,sans-serif}</style></head>\n"
            f"<body>\n{self._repr_html_()}\n</body></html>\n",
            encoding="utf-8",
        )
        return path
