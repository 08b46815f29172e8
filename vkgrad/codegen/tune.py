"""Which row a class of kernels is computed by, found by measurement and kept on disk.

`VKGRAD_TUNE=0` is the table's first row that applies; 1 takes what was found before; 2 also measures what is new. A
choice belongs to one device, driver and table of rows: under any other it is simply not found. All kernels of one class
are summed in one order, whatever is fused into them and however their operands lie. This module must not know devices:
how long a row takes is asked of a function that it is given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from vkgrad.codegen import rows
from vkgrad.codegen.cache import DiskCache
from vkgrad.codegen.kernel_class import KernelClass, class_of
from vkgrad.codegen.render import template_folder
from vkgrad.codegen.rows import ORDERING, Limits, Row, rows_for
from vkgrad.config import config
from vkgrad.schedule.kernel import Kernel

# A row other than the table's must take less than this part of its time: else noise would choose.
MARGIN = 0.95


@dataclass(frozen=True)
class Finding:
    """A candidate's median time, or why it has none."""

    row: str
    time_us: float | None = None
    refused: str = ""


Measure = Callable[[Kernel, Sequence[Row]], list[Finding]]


@dataclass(frozen=True)
class Choice:
    """What was found for one class with operands in one layout."""

    row: str
    findings: tuple[Finding, ...] = ()


@dataclass
class Record:
    """All that is known of one class: the order of its sums, and choices by layout of the operands."""

    order: str
    choices: dict[str, Choice]


def candidates(kernel: Kernel, limits: Limits) -> list[Row]:
    """Every way to compute `kernel`: rows in the order of preference, each followed by its variants."""
    found: dict[tuple, Row] = {}
    for row in rows_for(kernel, limits):
        for change in ({}, *row.variants(kernel, limits)):
            way = changed(row, change)
            parameters = way.parameters(kernel, limits)
            found.setdefault((way.template, tuple(sorted(parameters.items()))), way)
    return list(found.values())


def changed(row: Row, change: dict[str, Any]) -> Row:
    """`row` with some of its parameters set, and named after them."""
    if not change:
        return row
    name = " ".join((row.name, *(f"{parameter}={value}" for parameter, value in change.items())))
    return replace(row, name=name, parameters=lambda kernel, limits: row.parameters(kernel, limits) | change)


def order_of(row: Row, kernel: Kernel, limits: Limits) -> str:
    """The order in which `row` adds up: equal orders promise equal bits."""
    parameters = row.parameters(kernel, limits)
    family = "nest" if row.template.startswith("nest") else row.template  # all of which go about it in one way
    return " ".join((family, *(f"{name}={parameters[name]}" for name in ORDERING if name in parameters)))


def fastest(findings: Sequence[Finding]) -> str | None:
    """The row that won: the first, unless another is clearly faster. None when nothing could be measured."""
    measured = [(finding.time_us, finding.row) for finding in findings if finding.time_us is not None]
    if not measured:
        return None
    first_us, first = measured[0]
    best_us, best = min(measured)
    return best if best_us < MARGIN * first_us else first


@cache
def table_version() -> str:
    """A hash of all that a row's speed and bits depend on here: the table and the templates."""
    modules = ("render", "expressions", "kernel_class", "nests", "strips", "tune", "wide")
    sources = [Path(str(import_module(f"vkgrad.codegen.{name}").__file__)) for name in modules]
    folders = (Path(rows.__path__[0]), template_folder())
    files = sorted(path for folder in folders for path in folder.rglob("*.*") if path.suffix != ".pyc")
    digest = hashlib.sha256()
    for path in (*sources, *files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def on_disk() -> DiskCache:
    """The folder of choices, one file a class."""
    return DiskCache(config.cache_dir / "tuned")


def count_of_classes() -> int:
    """How many classes of kernels were measured, on any device, and are kept on disk."""
    folder = on_disk().folder
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


class Tuner:
    """Chooses the rows of one device.

    device    its name and its driver's version, in words
    measure   times candidates for a bare kernel, each checked against the first
    """

    def __init__(self, device: str, limits: Limits, measure: Measure) -> None:
        self.device, self.limits, self.measure = device, limits, measure
        self.records: dict[str, Record] = {}  # by the name of the class

    def row(self, kernel: Kernel) -> Row | None:
        """The way that was chosen for `kernel`; None for the first row of the table."""
        if config.tune == "0":
            return None
        found = class_of(kernel)
        return self._way(kernel, found) if found else None

    def choice(self, kernel: Kernel) -> Choice | None:
        """What is known of `kernel`'s class and layout, for people."""
        found = class_of(kernel)
        record = self._record(found.name) if found else None
        return record.choices.get(found.layouts) if found and record else None

    def _way(self, kernel: Kernel, found: KernelClass) -> Row | None:
        record = self._record(found.name)
        choice = record.choices.get(found.layouts) if record else None
        if record is None and config.tune != "2":
            return None
        ways = [way for way in candidates(found.bare, self.limits) if way.applies(kernel, self.limits)]
        if record and found.ordered:  # bits must be those of the class's other layouts
            ways = [way for way in ways if order_of(way, kernel, self.limits) == record.order]
        if choice is None and config.tune == "2" and ways:
            choice = self._measured(kernel, found, ways, record)
        names = [way.name for way in ways]
        if choice and choice.row in names:
            return ways[names.index(choice.row)]
        return ways[0] if record and found.ordered and ways else None

    def _measured(self, kernel: Kernel, found: KernelClass, ways: Sequence[Row], record: Record | None) -> Choice:
        findings = self.measure(found.bare, ways) if len(ways) > 1 else [Finding(ways[0].name)]
        winner = fastest(findings)
        choice = Choice(winner or ways[0].name, tuple(findings))
        way = next(way for way in ways if way.name == choice.row)
        record = record or Record(order_of(way, kernel, self.limits), {})
        record.choices[found.layouts] = choice
        self.records[found.name] = record
        if winner or len(ways) == 1:  # what kept all of them from running may be over next time
            on_disk().store(self._key(found.name), _to_json(record, self.device, found.name))
        return choice

    def _record(self, name: str) -> Record | None:
        if name not in self.records:
            record = _from_json(on_disk().load(self._key(name)))
            if record is None:
                return None
            self.records[name] = record
        return self.records[name]

    def _key(self, name: str) -> str:
        parts = (self.device, repr(self.limits), table_version(), name)
        return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def _to_json(record: Record, device: str, name: str) -> bytes:
    choices = {
        layouts: {"row": choice.row, "findings": [[f.row, f.time_us, f.refused] for f in choice.findings]}
        for layouts, choice in record.choices.items()
    }
    return json.dumps({"device": device, "class": name, "order": record.order, "choices": choices}, indent=1).encode()


def _from_json(content: bytes | None) -> Record | None:
    """The record in a file's content. The checksum was right, so the content is what this version wrote."""
    if content is None:
        return None
    read = json.loads(content)
    choices = {
        layouts: Choice(choice["row"], tuple(Finding(*finding) for finding in choice["findings"]))
        for layouts, choice in read["choices"].items()
    }
    return Record(read["order"], choices)
