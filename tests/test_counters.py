"""Counters are taken apart from what they count, and reports are copies."""

from __future__ import annotations

from vkgrad.counters import Counts, count, count_host, counting, stats


def test_stats_are_a_copy() -> None:
    before = stats()
    count_host("made up for this test", 1, "float64", 24)
    assert ("made up for this test", 1, "float64") not in before.host_by_op
    after = stats()
    assert after.host_by_op["made up for this test", 1, "float64"] == [1, 24]
    assert after.host_bytes - before.host_bytes == 24


def test_regions_nest_and_report_host_work_by_bytes() -> None:
    with counting() as outer:
        count(dispatches=2)
        with counting() as inner:
            count_host("log", 1, "float64", 8)
            count_host("exp", 2, "float64", 80)
    count(dispatches=5)
    assert (outer.dispatches, inner.dispatches) == (2, 0)
    assert outer.host_by_op == inner.host_by_op
    assert inner.report().splitlines()[-2:] == [
        "  host exp 2-d float64: 1 nodes, 80 bytes",
        "  host log 1-d float64: 1 nodes, 8 bytes",
    ]
    assert Counts().report().splitlines()[-1].split() == ["host_bytes", "0"]


def test_regions_that_have_counted_the_same_stay_apart() -> None:
    with counting() as outer:
        with counting() as inner:
            count(dispatches=1)
        count(dispatches=1)
    assert (outer.dispatches, inner.dispatches) == (2, 1)
