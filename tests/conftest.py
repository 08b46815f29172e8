"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkgrad.config import config


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """Run on the `cpu` device: in double precision, whose functions such as `exp` no Vulkan device has."""
    with config.override(device="cpu"):
        yield
