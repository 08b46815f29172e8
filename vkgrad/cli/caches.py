"""`python -m vkgrad cache`: what is kept on disk between processes, and how to be rid of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from vkgrad.codegen import cache, rendered, tune
from vkgrad.config import config
from vkgrad.sizes import in_words


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
