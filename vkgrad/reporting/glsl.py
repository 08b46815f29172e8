"""GLSL with colours, as HTML. It knows just enough of the language to tell its kinds of words apart."""

from __future__ import annotations

import re
from html import escape

KEYWORDS = (
    "if|else|for|while|do|return|break|continue|switch|case|default|const|in|out|inout|uniform|buffer|shared|layout|"
    "readonly|writeonly|coherent|restrict|precise|struct|discard"
)
TYPES = r"void|bool|float|double|u?int(?:8|16|64)?(?:_t)?|float16_t|[biud]?vec[234]|[iu]\d+vec[234]|f16vec[234]|coopmat"
TOKENS = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<directive>^[ \t]*\#[^\n]*)"
    rf"|(?P<type>\b(?:{TYPES})\b)"
    rf"|(?P<keyword>\b(?:{KEYWORDS})\b)"
    r"|(?P<builtin>\bgl_\w+)"
    r"|(?P<number>\b(?:0[xX][0-9a-fA-F]+u?|\d+\.?\d*(?:[eE][+-]?\d+)?(?:lf|LF|[uUfF])?)\b|\.\d+)"
    r"|(?P<call>\b[A-Za-z_]\w*(?=\())",
    re.M | re.S,
)


def highlighted(source: str) -> str:
    """HTML of `source`; its text, tags taken away, is `source` itself.

    Example:
        >>> highlighted("float x = 1.0;")
        '<i class="type">float</i> x = <i class="number">1.0</i>;'
    """
    out, at = [], 0
    for token in TOKENS.finditer(source):
        out.append(escape(source[at : token.start()], quote=False))
        out.append(f'<i class="{token.lastgroup}">{escape(token[0], quote=False)}</i>')
        at = token.end()
    return "".join([*out, escape(source[at:], quote=False)])
