"""What a built page would fetch from elsewhere when it is looked at. Links that a reader may follow are not fetched.

python docs/site/check.py FOLDER
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# A scheme, or the // that takes the page's own; `xmlns` and links of <a> are names.
ELSEWHERE = re.compile(
    r"""<(?:img|script|iframe|source|video|audio|object|embed|image|use)\b[^>]*?\b(?:src|data|srcset|href)="(?:https?:)?//[^"]*"""
    r"""|<link\b[^>]*?\bhref="(?:https?:)?//[^"]*"""
    r"""|\burl\(\s*['"]?(?:https?:)?//[^)]*|@import\s+(?:url\()?['"]?(?:https?:)?//[^;]*"""
)


def fetched(text: str) -> list[str]:
    """Each place in a page or a style sheet that names something elsewhere which a browser would fetch.

    Example:
        >>> fetched('<a href="https://a.example">a</a><script src="https://b.example/b.js"></script>')
        ['<script src="https://b.example/b.js']
    """
    return [match[0] for match in ELSEWHERE.finditer(text)]


def main(folder: Path) -> int:
    files = sorted([*folder.rglob("*.html"), *folder.rglob("*.css")])
    found = [f"{path.relative_to(folder)}: {place}" for path in files for place in fetched(path.read_text())]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(files)} pages and style sheets, {len(found)} places that would be fetched from elsewhere")
    return bool(found) or not files


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
