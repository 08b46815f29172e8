"""Warnings at the user's own line: what is noticed deep inside a flush was asked for outside the package.

This module must not know what there is to notice.
"""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def notice(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of `text`, at the innermost line that is not this package's."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
