"""Colours and letters of every drawing, in light and in dark.

Colours stand in the drawing as attributes, for programs that read no style sheets; `style_sheet` puts others over them
where the reader prefers dark. Paper and ink change together, so a drawing can be read on any page.
"""

from __future__ import annotations

from dataclasses import dataclass

FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"  # one width, so that nothing has to be measured
FONT_PX, LINE_PX, CHARACTER_PX = 12, 16, 7.3
SMALL_PX, SMALL_CHARACTER_PX = 10, 6.1
MARGIN = 16


@dataclass(frozen=True)
class Style:
    """Colours of a kind of box: fill and border on white paper, then on dark. `round_px`: its corners."""

    fill: str
    border: str
    dark_fill: str
    dark_border: str
    round_px: int = 4
    dashed: bool = False


GREY = ("#f3f3f3", "#8a8a8a", "#2c2e33", "#9a9da3")
BLUE = ("#eaf2fb", "#3b76b0", "#1d2f42", "#6ea8dc")
GREEN = ("#e9f6ea", "#3d8b45", "#1f3524", "#71bf7a")
ORANGE = ("#fdf0e0", "#c17717", "#40301a", "#e0a458")
PURPLE = ("#f1eafa", "#7a4fb5", "#31264a", "#b394e6")
RED = ("#fbe9ef", "#b8436f", "#42222f", "#e58aab")
TEAL = ("#e6f5f5", "#2a8080", "#183536", "#64bcbc")
YELLOW = ("#fff6d6", "#b38f00", "#3b3412", "#d9b93c")
STYLES = {
    "leaf": Style(*BLUE, round_px=14),
    "source": Style(*GREY, round_px=14),
    "elementwise": Style(*GREEN),
    "view": Style("#f7f7f7", "#8a8a8a", "#26292e", "#9a9da3", dashed=True),
    "reduction": Style(*ORANGE),
    "contraction": Style(*PURPLE),
    "indexed": Style(*RED),
    "routine": Style(*TEAL),
    "group": Style(*TEAL),
    "stack": Style(*TEAL),
    "input": Style(*BLUE, round_px=14),
    "temporary": Style(*GREY, round_px=14),
    "output": Style(*YELLOW, round_px=14),
}

# Everything else that has a colour, by its class: on white paper, on dark.
INKS = {
    "paper": ("#ffffff", "#1b1d21"),
    "title": ("#1d1d1d", "#f0f0f0"),
    "text": ("#4a4a4a", "#c4c7cc"),
    "faint": ("#6a6a6a", "#a3a7ae"),
    "line": ("#5a5a5a", "#a3a7ae"),
    "grid": ("#e2e2e2", "#35383e"),
    "alarm": ("#b5482f", "#f0937c"),
}


def ink(name: str) -> str:
    """The attributes of something filled with this ink."""
    return f'class="{name}" fill="{INKS[name][0]}"'


def stroke(name: str) -> str:
    """The attributes of a line drawn in this ink."""
    return f'class="{name}-line" fill="none" stroke="{INKS[name][0]}"'


def box(name: str, hollow: bool = False) -> str:
    """The attributes of a box of this style."""
    style = STYLES[name]
    dashes = ' stroke-dasharray="4 3"' if style.dashed else ""
    fill, classes = (INKS["paper"][0], f"box-{name} hollow") if hollow else (style.fill, f"box-{name}")
    return f'class="{classes}" fill="{fill}" stroke="{style.border}" rx="{style.round_px}"{dashes}'


def style_sheet() -> str:
    """What makes a drawing dark where the reader prefers that; it touches nothing outside drawings."""
    rules = [f".vkgrad .{name}{{fill:{dark}}}.vkgrad .{name}-line{{stroke:{dark}}}" for name, (_, dark) in INKS.items()]
    rules += [
        f".vkgrad .box-{name}{{fill:{style.dark_fill};stroke:{style.dark_border}}}" for name, style in STYLES.items()
    ]
    hollow = f".vkgrad .hollow{{fill:{INKS['paper'][1]}}}"
    return f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}{hollow}}}</style>"


def opened(width: float, height: float, label: str) -> str:
    """The beginning of a drawing: its size, letters, style sheet and paper. `label` must be escaped."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vkgrad" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="{FONT_PX}" role="img" '
        f'aria-label="{label}">\n{style_sheet()}\n<rect width="{width:.0f}" height="{height:.0f}" {ink("paper")}/>'
    )
