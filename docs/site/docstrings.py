"""From docstrings as they are written here to reStructuredText.

What is indented below a paragraph stays as it was typed: shapes, tables of attributes, formulas. Words in backticks are
code. Nothing else has a meaning, so that no docstring can break the site.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")  # of a section: what is indented below it belongs to it
SPECIAL = re.compile(r"([\\*|_])")


def as_rst(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring as reStructuredText.

    Example:
        >>> as_rst(["Adds `x` to *y_.", "", "Raises:", "    TypeError: never.", ""])
        ['Adds ``x`` to \\\\*y\\\\_.', '', '**Raises**', '', '::', '', '    TypeError: never.', '']
    """
    out: list[str] = []
    inside = False  # of an indented block
    in_doctest = False
    for line in lines:
        text = line.strip()
        indented = line.startswith(" ")
        if not text:
            out.append("")
            in_doctest = False
            continue
        if not indented:
            if inside and out[-1]:
                out.append("")
            inside = False
            heading = HEADING.match(text)
            out += [f"**{heading[1]}**", ""] if heading else [_paragraph(text)]
            continue
        if text.startswith(">>> ") and not inside:
            in_doctest = True
        if in_doctest:
            out.append(text)
            continue
        if not inside:
            if out and out[-1]:
                out.append("")
            out += ["::", ""]
            inside = True
        out.append(line.rstrip())
    return out


def _paragraph(text: str) -> str:
    pieces = re.split(r"(``.+?``|`[^`]+`)", text)
    return "".join(f"``{piece.strip('`')}``" if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text.replace("`", "'"))
