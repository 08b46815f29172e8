"""Sizes in memory, in words."""

from __future__ import annotations

UNITS = ("bytes", "KiB", "MiB", "GiB")


def in_words(size_bytes: float) -> str:
    """A size that people can read.

    Example:
        >>> in_words(640), in_words(3 << 20)
        ('640 bytes', '3.0 MiB')
    """
    unit = 0
    while size_bytes >= 1024 and unit < len(UNITS) - 1:
        size_bytes, unit = size_bytes / 1024, unit + 1
    return f"{size_bytes:.1f} {UNITS[unit]}" if unit else f"{size_bytes:.0f} {UNITS[0]}"
