"""Fixtures of the whole suite, and the count of what was derived from the records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkgrad.config import config

CASES = "cases of ops"  # the property in which tests say how many cases they derived; it travels between processes


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """Run on the `cpu` device: in double precision, which every machine has there and which is quick there."""
    with config.override(device="cpu"):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [
        (report.nodeid.partition("[")[2], count)
        for report in terminalreporter.stats.get("passed", ())
        for name, count in report.user_properties
        if name == CASES and report.when == "call"
    ]
    if found:
        cases, ops = sum(count for _, count in found), len({op for op, _ in found})
        terminalreporter.write_line(f"{cases:,} cases of {ops} ops, from their records alone")
