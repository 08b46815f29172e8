"""What was done and where: counts that tests and benchmarks assert before they look at values or a stopwatch.

`stats()` counts since the start of the process. `counting()` counts what its own thread does inside a block; blocks
nest. This module must not know what it counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields


@dataclass
class Counts:
    """Counters of a region. Bytes are bytes; everything else is a number of times.

    `host_by_op` maps (op, ndim, dtype) to [nodes, bytes] for what ran on the host under a host policy that allows it.
    """

    nodes: int = 0
    dispatches: int = 0
    barriers: int = 0
    flushes: int = 0
    submissions: int = 0
    plans_built: int = 0
    shaders_compiled: int = 0
    pipelines_created: int = 0
    buffers_allocated: int = 0
    bytes_allocated: int = 0
    bytes_uploaded: int = 0
    bytes_downloaded: int = 0
    host_nodes: int = 0
    host_bytes: int = 0
    host_by_op: dict[tuple[str, int, str], list[int]] = field(default_factory=dict)

    def report(self) -> str:
        """The counters as lines of text; host work sorted by bytes."""
        lines = [f"{f.name:18} {getattr(self, f.name)}" for f in fields(self) if f.name != "host_by_op"]
        for (op, ndim, dtype), (nodes, size) in sorted(self.host_by_op.items(), key=lambda item: -item[1][1]):
            lines.append(f"  host {op} {ndim}-d {dtype}: {nodes} nodes, {size} bytes")
        return "\n".join(lines)

    __str__ = report


_total = Counts()
_lock = threading.Lock()
_regions = threading.local()


def _open_regions() -> list[Counts]:
    if not hasattr(_regions, "stack"):
        _regions.stack = []
    return _regions.stack


def count(**amounts: int) -> None:
    """Add to the process's counters and to every region open on this thread."""
    add(amounts)


def add(amounts: Mapping[str, int]) -> None:
    """`count` of amounts that are at hand as a mapping."""
    with _lock:
        _add(_total, amounts)
    for region in getattr(_regions, "stack", ()):
        _add(region, amounts)


def _add(counts: Counts, amounts: Mapping[str, int]) -> None:
    fields = counts.__dict__  # a replayed step counts each time, and setattr would be a third of what that costs
    for name, amount in amounts.items():
        fields[name] += amount


def count_host(op: str, ndim: int, dtype: str, size_bytes: int) -> None:
    """One node that ran on the host."""
    count(host_nodes=1, host_bytes=size_bytes)
    with _lock:
        for region in (_total, *_open_regions()):
            entry = region.host_by_op.setdefault((op, ndim, dtype), [0, 0])
            entry[0] += 1
            entry[1] += size_bytes


def stats() -> Counts:
    """Counters since the start of the process, as a copy."""
    with _lock:
        return deepcopy(_total)


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what this thread does inside the block.

    Example:
        >>> import vkgrad as vg
        >>> x = vg.ones((3,))
        >>> with vg.counting() as c:
        ...     vg.eval(x + 1)
        >>> c.submissions
        1
    """
    region = Counts()
    stack = _open_regions()
    stack.append(region)
    try:
        yield region
    finally:
        stack[:] = [other for other in stack if other is not region]  # not `remove`: another may be equal
