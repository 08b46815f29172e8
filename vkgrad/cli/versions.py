"""Versions of what vkgrad stands on, as text."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_of(distribution: str) -> str:
    """The installed version, or words that say there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
