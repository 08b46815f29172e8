"""`python -m vkgrad cache`: what is kept on disk between processes, and how to be rid of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from vkgrad.codegen import cache, rendered, tune
from vkgrad.config import config

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


def pipeline_files() -> list[Path]:
    """What drivers asked to keep, one file a device and driver version."""
    return sorted(config.cache_dir.glob("pipelines-*.bin"))


def run(arguments: argparse.Namespace) -> int:
    shaders = cache.on_disk()
    print(config.cache_dir)
    print(f"  shaders    {in_words(shaders.size_bytes())} of at most {in_words(shaders.limit_bytes)}")
    print(f"  kernels    {in_words(rendered.on_disk().size_bytes())} as GLSL")
    print(f"  pipelines  {in_words(sum(file.stat().st_size for file in pipeline_files()))}")
    print(f"  tuned      {tune.count_of_classes()} classes of kernels")
    if arguments.action == "clear":
        cache.clear()
        rendered.on_disk().clear()
        tune.on_disk().clear()
        for file in pipeline_files():
            file.unlink(missing_ok=True)
        print("cleared: the next process compiles its shaders anew")
    return 0
