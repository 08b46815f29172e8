"""A picture of boxes and arrows: SVG for notebooks, SVG, HTML or DOT as files. No program outside Python is needed.

This module must not know tensors or plans: it draws what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import pairwise

import networkx as nx

from vkgrad.viz import style
from vkgrad.viz.drawing import Drawing
from vkgrad.viz.layers import Placement, place
from vkgrad.viz.style import CHARACTER_PX, LINE_PX, MARGIN, SMALL_PX, STYLES, ink, stroke

PADDING_X, PADDING_Y = 10, 7
BAND_TITLE_PX = 74
BOLD = ' font-weight="bold"'
PORT_PX = 22  # between the arrows that arrive at a box, so that the numbers beside them do not touch


@dataclass(frozen=True)
class Box:
    """One node of a picture: lines of text (the first is its title), the name of its style, and more text to hover.

    A hollow box has the border of its style, but not its fill.
    """

    lines: tuple[str, ...]
    style: str
    hover: str = ""
    hollow: bool = False

    @property
    def size(self) -> tuple[float, float]:
        widest = max(map(len, self.lines), default=0)
        return widest * CHARACTER_PX + 2 * PADDING_X, len(self.lines) * LINE_PX + 2 * PADDING_Y


@dataclass(frozen=True, repr=False)
class Picture(Drawing):
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
            style.opened(width, height, escape(self.title)),
            '<defs><marker id="vkgrad-arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 z" {ink("line")}/></marker></defs>',
            f'<text x="{MARGIN}" y="{MARGIN + 10}" {ink("title")}>{escape(self.title)}</text>',
            *self._band_lines(width, top),
            f'<g transform="translate({left} {top})">',
            *[self._edge(source, target) for source, target in self.graph.edges],
            *[self._box(key, box) for key, box in self.boxes.items()],
            "</g></svg>",
        ]
        return "\n".join(parts)

    @cached_property
    def ports(self) -> dict[tuple[Hashable, Hashable], float]:
        """How far from its target's middle each edge arrives: side by side, in the order of where they come from."""
        found = {}
        for target, box in self.boxes.items():
            edges = sorted(self.graph.in_edges(target), key=lambda edge: self.placement.paths[edge][-2][0])
            step = min(PORT_PX, (box.size[0] - 2 * PADDING_X) / max(len(edges) - 1, 1))
            found.update({edge: step * (at - (len(edges) - 1) / 2) for at, edge in enumerate(edges)})
        return found

    def _band_lines(self, width: float, top: float) -> list[str]:
        rows, parts = self.placement.rows, []
        for number, (name, covered) in enumerate(self.bands):
            start, end = rows[covered.start][0], rows[covered.stop - 1][1]
            middle = top + (start + end) / 2
            parts.append(f'<text x="{MARGIN}" y="{middle + 4:.0f}" {ink("faint")}>{escape(name)}</text>')
            if number:
                line = top + (rows[covered.start - 1][1] + start) / 2
                parts.append(
                    f'<path d="M{MARGIN} {line:.1f} H{width - MARGIN:.0f}" {stroke("alarm")} stroke-dasharray="5 4"/>'
                    f'<text x="{MARGIN}" y="{line - 4:.1f}" {ink("alarm")}>barrier</text>'
                )
        return parts

    def _edge(self, source: Hashable, target: Hashable) -> str:
        *points, (x, y) = self.placement.paths[source, target]
        points.append((x + self.ports[source, target], y))
        path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for (x0, y0), (x1, y1) in pairwise(points):
            middle = (y0 + y1) / 2
            path.append(f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
        edge = self.graph.edges[source, target]
        dashes = ' stroke-dasharray="4 3"' if edge.get("dashed") else ""
        text = ""
        if edge.get("label"):
            x, y = points[-1]
            text = (
                f'<text x="{x + 3:.1f}" y="{y - 9:.1f}" {ink("faint")} font-size="{SMALL_PX}">'
                f"{escape(edge['label'])}</text>"
            )
        return (
            f'<path d="{" ".join(path)}" {stroke("line")} stroke-opacity="0.75"{dashes} '
            f'marker-end="url(#vkgrad-arrow)"/>{text}'
        )

    def _box(self, key: Hashable, box: Box) -> str:
        (width, height), (x, y) = box.size, self.placement.centre[key]
        top = y - height / 2 + PADDING_Y
        lines = "".join(
            f'<text x="{x:.1f}" y="{top + LINE_PX * (number + 0.75):.1f}" text-anchor="middle" '
            f"{ink('text') if number else ink('title') + BOLD}>{escape(line)}</text>"
            for number, line in enumerate(box.lines)
        )
        place = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
        return (
            f"<g><title>{escape(box.hover or ' '.join(box.lines))}</title>"
            f"<rect {place} {style.box(box.style, box.hollow)}/>{lines}</g>"
        )

    # ---- other forms
    def dot(self) -> str:
        """The graph in Graphviz's language."""
        number = {key: f"n{at}" for at, key in enumerate(self.boxes)}
        lines = ["digraph vkgrad {", '  node [shape=box, style="rounded,filled", fontname=monospace, fontsize=10];']
        for key, box in self.boxes.items():
            colours = STYLES[box.style]
            text = "\\n".join(_quoted(line) for line in box.lines)
            lines.append(f'  {number[key]} [label="{text}", fillcolor="{colours.fill}", color="{colours.border}"];')
        for at, (name, covered) in enumerate(self.bands):
            inside = " ".join(number[key] for key in self.boxes if self.row is not None and self.row[key] in covered)
            lines.append(f'  subgraph cluster_{at} {{ label="{_quoted(name)}"; {inside} }}')
        for source, target, edge in self.graph.edges(data=True):
            label = f' [label="{_quoted(edge["label"])}"]' if edge.get("label") else ""
            lines.append(f"  {number[source]} -> {number[target]}{label};")
        return "\n".join([*lines, "}", ""])

    def _forms(self) -> dict[str, Callable[[], str]]:
        return {**super()._forms(), ".dot": self.dot}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
