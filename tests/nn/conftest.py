"""What every test of layers and losses asserts beside values: that nothing was computed on the host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vkgrad as vg


@pytest.fixture(autouse=True)
def nothing_on_the_host() -> Iterator[None]:
    with vg.counting() as census:
        yield
    assert census.host_nodes == 0, census.host_by_op
