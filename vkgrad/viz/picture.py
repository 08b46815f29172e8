"""A picture of boxes and arrows: SVG for notebooks, SVG, HTML or DOT as files. No program outside Python is needed.

This module must not know tensors or plans: it draws what it is given.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import pairwise
from pathlib import Path

import networkx as nx

from vkgrad.errors import ConfigError
from vkgrad.viz.layers import Placement, place

FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"  # one width, so that nothing has to be measured
FONT_PX, LINE_PX, CHARACTER_PX = 12, 16, 7.3
PADDING_X, PADDING_Y, MARGIN = 10, 7, 16
BAND_TITLE_PX = 74
FIRST_LINE, OTHER_LINES = 'font-weight="bold" fill="#1d1d1d"', 'fill="#555555"'


@dataclass(frozen=True)
class Style:
    """Colours of a kind of box. The border is the darker of the two; `round_px` its corners."""

    fill: str
    border: str
    round_px: int = 4
    dashed: bool = False


STYLES = {
    "leaf": Style("#eaf2fb", "#3b76b0", 14),
    "source": Style("#f3f3f3", "#8a8a8a", 14),
    "elementwise": Style("#e9f6ea", "#3d8b45"),
    "view": Style("#ffffff", "#9a9a9a", dashed=True),
    "reduction": Style("#fdf0e0", "#c17717"),
    "contraction": Style("#f1eafa", "#7a4fb5"),
    "indexed": Style("#fbe9ef", "#b8436f"),
    "routine": Style("#e6f5f5", "#2a8080"),
    "input": Style("#eaf2fb", "#3b76b0", 14),
    "temporary": Style("#f7f7f7", "#8a8a8a", 14),
    "output": Style("#fff6d6", "#b38f00", 14),
}


@dataclass(frozen=True)
class Box:
    """One node of a picture: lines of text (the first is its title), the name of its style, and more text to hover."""

    lines: tuple[str, ...]
    style: str
    hover: str = ""

    @property
    def size(self) -> tuple[float, float]:
        widest = max(map(len, self.lines), default=0)
        return widest * CHARACTER_PX + 2 * PADDING_X, len(self.lines) * LINE_PX + 2 * PADDING_Y


@dataclass(frozen=True)
class Picture:
    """What `viz.graph` and `viz.plan` return: shown by a notebook, and saved by `save`.

    graph   nodes are keys of `boxes`; an edge may have a `label` and be `dashed`
    row     the row of each box; by the longest path where it is None
    bands   names of horizontal bands and the rows they cover; a dashed line parts them
    notes   text below the picture in HTML
    """

    title: str
    graph: nx.DiGraph
    boxes: Mapping[Hashable, Box]
    row: Mapping[Hashable, int] | None = None
    bands: Sequence[tuple[str, range]] = ()
    notes: str = field(default="", repr=False)

    @cached_property
    def placement(self) -> Placement:
        return place(self.graph, {key: box.size for key, box in self.boxes.items()}, self.row)

    # ---- SVG
    def svg(self) -> str:
        """The picture as one SVG element."""
        left = MARGIN + (BAND_TITLE_PX if self.bands else 0)
        top = MARGIN + LINE_PX + 10
        width, height = self.placement.width + left + MARGIN, self.placement.height + top + MARGIN
        width = max(width, len(self.title) * CHARACTER_PX + 2 * MARGIN)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="{FONT_PX}" role="img" '
            f'aria-label="{escape(self.title)}">',
            '<defs><marker id="vkgrad-arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 z" fill="#5a5a5a"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            f'<text x="{MARGIN}" y="{MARGIN + 10}" fill="#333333">{escape(self.title)}</text>',
            *self._band_lines(width, top),
            f'<g transform="translate({left} {top})">',
            *[self._edge(source, target) for source, target in self.graph.edges],
            *[self._box(key, box) for key, box in self.boxes.items()],
            "</g></svg>",
        ]
        return "\n".join(parts)

    _repr_svg_ = svg

    def _band_lines(self, width: float, top: float) -> list[str]:
        rows, parts = self.placement.rows, []
        for number, (name, covered) in enumerate(self.bands):
            start, end = rows[covered.start][0], rows[covered.stop - 1][1]
            middle = top + (start + end) / 2
            parts.append(f'<text x="{MARGIN}" y="{middle + 4:.0f}" fill="#777777">{escape(name)}</text>')
            if number:
                line = top + (rows[covered.start - 1][1] + start) / 2
                parts.append(
                    f'<path d="M{MARGIN} {line:.1f} H{width - MARGIN:.0f}" stroke="#b5482f" stroke-dasharray="5 4"/>'
                    f'<text x="{MARGIN}" y="{line - 4:.1f}" fill="#b5482f">barrier</text>'
                )
        return parts

    def _edge(self, source: Hashable, target: Hashable) -> str:
        points = self.placement.paths[source, target]
        path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for (x0, y0), (x1, y1) in pairwise(points):
            middle = (y0 + y1) / 2
            path.append(f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
        edge = self.graph.edges[source, target]
        dashes = ' stroke-dasharray="4 3"' if edge.get("dashed") else ""
        text = ""
        if edge.get("label"):
            (x0, y0), (x1, y1) = points[-2:]
            text = (
                f'<text x="{x1 + (x0 - x1) * 0.12 + 4:.1f}" y="{y1 + (y0 - y1) * 0.22:.1f}" fill="#777777" '
                f'font-size="10">{escape(edge["label"])}</text>'
            )
        return (
            f'<path d="{" ".join(path)}" fill="none" stroke="#5a5a5a" stroke-opacity="0.75"{dashes} '
            f'marker-end="url(#vkgrad-arrow)"/>{text}'
        )

    def _box(self, key: Hashable, box: Box) -> str:
        style, (width, height) = STYLES[box.style], box.size
        x, y = self.placement.centre[key]
        dashes = ' stroke-dasharray="4 3"' if style.dashed else ""
        top = y - height / 2 + PADDING_Y
        lines = "".join(
            f'<text x="{x:.1f}" y="{top + LINE_PX * (number + 0.75):.1f}" text-anchor="middle" '
            f"{OTHER_LINES if number else FIRST_LINE}>{escape(line)}</text>"
            for number, line in enumerate(box.lines)
        )
        return (
            f"<g><title>{escape(box.hover or ' '.join(box.lines))}</title>"
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{style.round_px}" fill="{style.fill}" stroke="{style.border}"{dashes}/>{lines}</g>'
        )

    # ---- other forms
    def html(self) -> str:
        """A page that holds the picture and its notes, and needs nothing else."""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title></head>\n'
            f"<body>\n{self.svg()}\n<pre>{escape(self.notes)}</pre>\n</body></html>\n"
        )

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        number = {key: f"n{at}" for at, key in enumerate(self.boxes)}
        lines = ["digraph vkgrad {", '  node [shape=box, style="rounded,filled", fontname=monospace, fontsize=10];']
        for key, box in self.boxes.items():
            style = STYLES[box.style]
            text = "\\n".join(_quoted(line) for line in box.lines)
            lines.append(f'  {number[key]} [label="{text}", fillcolor="{style.fill}", color="{style.border}"];')
        for at, (name, covered) in enumerate(self.bands):
            inside = " ".join(number[key] for key in self.boxes if self.row is not None and self.row[key] in covered)
            lines.append(f'  subgraph cluster_{at} {{ label="{_quoted(name)}"; {inside} }}')
        for source, target, edge in self.graph.edges(data=True):
            label = f' [label="{_quoted(edge["label"])}"]' if edge.get("label") else ""
            lines.append(f"  {number[source]} -> {number[target]}{label};")
        return "\n".join([*lines, "}", ""])

    def save(self, path: str | Path) -> Path:
        """Write the picture in the form that the name's ending says: .svg, .html or .dot.

        Raises: `ConfigError` for another ending.
        """
        path = Path(path)
        forms = {".svg": self.svg, ".html": self.html, ".dot": self.dot}
        if path.suffix not in forms:
            raise ConfigError(f"save: a picture's file ends in {', '.join(forms)}; {path.name!r} does not")
        path.write_text(forms[path.suffix](), encoding="utf-8")
        return path


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
