"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkgrad.config import config


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """Run on the `cpu` device: in double precision, which every machine has there and which is quick there."""
    with config.override(device="cpu"):
        yield
