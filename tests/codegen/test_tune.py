"""Choosing rows by measurement, with made-up times: what a class is, who wins, what is kept, what is not believed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE
from tests.planned import plan_of
from tests.reference import graph_only  # noqa: F401  a fixture: double precision is refused by no device
from vkgrad.codegen import tune
from vkgrad.codegen.kernel_class import class_of, slot_sizes
from vkgrad.codegen.rows import Limits, Row, choose
from vkgrad.codegen.tune import Finding, Tuner, candidates, fastest, order_of
from vkgrad.config import config
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import bool_, float32, float64, int32
from vkgrad.ir.node import Node
from vkgrad.ops.contraction import contract
from vkgrad.ops.sources import leaf
from vkgrad.ops.views import flip, pad, permute, window
from vkgrad.schedule.kernel import Kernel

BOTH = pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty cache for each test; yields the folder of choices."""
    with config.override(cache_dir=tmp_path):
        yield tmp_path / "tuned"


def kernels(*targets: Node, fuse: bool = True) -> tuple[Kernel, ...]:
    return plan_of(list(targets), fuse=fuse)[0].kernels


def kernel_of(*targets: Node) -> Kernel:
    (kernel,) = kernels(*targets)
    return kernel


def product(m: int, n: int, k: int, turned: bool = False, before: str = "", dtype=float32) -> Node:
    """An m x k by k x n product; `turned` has the left operand's columns in memory, `before` is applied to it."""
    left, right = leaf((k, m) if turned else (m, k), dtype), leaf((k, n), dtype)
    if turned:
        left = permute(left, (1, 0))
    return contract(b.apply(before, left) if before else left, right, (0, 1), (1, 2), (0, 2))


def total(shape: Sequence[int], axes: tuple[int, ...]) -> Node:
    return b.build("sum", leaf(tuple(shape), float32), axes=axes)


class Measured:
    """A stopwatch that favours the candidates whose names are `wanted`, and remembers what it was asked."""

    def __init__(self, *wanted: str, refuse: bool = False) -> None:
        self.wanted, self.refuse = wanted, refuse
        self.asked: list[tuple[Kernel, list[str]]] = []

    def __call__(self, kernel: Kernel, rows: Sequence[Row]) -> list[Finding]:
        self.asked.append((kernel, [row.name for row in rows]))
        if self.refuse:
            return [Finding(row.name, refused="no room") for row in rows]
        return [Finding(row.name, 1.0 if row.name in self.wanted else 10.0) for row in rows]


def tuned(measure: Measured, kernel: Kernel, mode: int = 2, device: str = "a device, driver 1") -> Row | None:
    """What a new tuner, as in a new process, chooses."""
    with config.override(tune=mode):
        return Tuner(device, SOFTWARE, measure).row(kernel)


# ---- candidates
@BOTH
def test_the_table_comes_first_and_no_two_candidates_are_the_same(limits: Limits):
    for kernel in (
        kernel_of(product(64, 33, 100)),
        kernel_of(total((40, 500), (1,))),
        kernel_of(leaf((9,), float32) * 2.0),
    ):
        found = candidates(kernel, limits)
        assert found[0] is choose(kernel, limits)
        assert len({row.name for row in found}) == len(found) > 1
        assert len({(row.template, *sorted(row.parameters(kernel, limits).items())) for row in found}) == len(found)


def test_who_wins():
    assert fastest([Finding("a", 10.0), Finding("b", 9.0), Finding("c", 9.2)]) == "b"
    assert fastest([Finding("a", 10.0), Finding("b", 9.8)]) == "a", "noise must not choose"
    assert fastest([Finding("a", None, "wrong"), Finding("b", 9.8)]) == "b"
    assert fastest([Finding("a", None, "wrong")]) is None


# ---- classes
def name_of(kernel: Kernel) -> str:
    found = class_of(kernel)
    assert found is not None
    return found.name


def test_what_is_fused_around_a_product_is_no_part_of_its_class():
    bare = product(30, 20, 50)
    bias = leaf((20,), float32)
    fused = b.apply("exp", b.apply("relu", product(30, 20, 50, before="tanh") + bias))
    assert name_of(kernel_of(bare)) == name_of(kernel_of(fused)) == name_of(kernel_of(product(30, 20, 50, turned=True)))
    assert class_of(kernel_of(bare)).bare == class_of(kernel_of(fused)).bare
    others = product(30, 20, 51), product(20, 30, 50), product(30, 20, 50, dtype=int32)
    assert len({name_of(kernel_of(node)) for node in (bare, *others)}) == 4


def test_what_is_fused_around_a_sum_is_no_part_of_its_class():
    x = leaf((30, 400), float32)
    powers = b.apply("exp", x - b.expand(b.build("max", x, axes=(1,), ties="share"), x.shape))
    softmax = b.apply("divide", powers, b.expand(b.build("sum", powers, axes=(1,)), x.shape))
    assert name_of(kernel_of(softmax)) == name_of(kernel_of(total((30, 400), (1,))))
    assert name_of(kernel_of(total((30, 400), (1,)))) == name_of(kernel_of(total((400, 30), (0,))))
    assert name_of(kernel_of(total((30, 400), (1,)))) != name_of(kernel_of(total((30, 400), (0,))))


def test_the_bare_kernel_keeps_the_layouts_and_no_address_lies_outside_its_buffers():
    x, w = leaf((2, 3, 9, 11), float32), leaf((5, 3, 2, 3), float32)
    windows = window(window(pad(x, (0, 0, 1, 1), (0, 0, 1, 1)), 2, 2, 2, 1), 3, 3, 1, 1)
    graphs = [
        contract(windows, w, (0, 1, 2, 3, 4, 5), (6, 1, 4, 5), (0, 6, 2, 3)),
        contract(flip(leaf((7, 8), float32), (0, 1)), leaf((8, 4), float32), (0, 1), (1, 2), (0, 2)),
        b.build("sum", pad(leaf((4, 5), float32), (1, 0), (0, 2), (0, 1), value=0), axes=(0,)),
        b.build("any", leaf((4, 5), bool_), axes=(1,)),
        permute(leaf((4, 5, 6), float64), (2, 0, 1)) * 2.0,
    ]
    for node in graphs:
        kernel = kernel_of(node)
        found = class_of(kernel)
        sizes = slot_sizes(found.bare)
        assert (found.bare.places, found.bare.terms) == (kernel.places, kernel.terms)
        for part in (*found.bare.code, *found.bare.stores):
            if hasattr(part, "slot"):
                every = [range(extent) for extent in part.layout.extents]
                reached = {part.layout.address(place) for place in itertools.product(*every)} - {None}
                assert min(reached) >= 0 and max(reached) < sizes[part.slot][1] < 3 * max(reached) + 40


def test_a_kernel_that_reads_nothing_has_no_class():
    assert class_of(kernel_of(b.expand(b.constant(2.0, float32), (5,)) * 1.0)) is None


# ---- choices
def test_off_measures_nothing_and_leaves_the_table():
    kernel, measure = kernel_of(product(64, 33, 100)), Measured("nest_serial")
    tuned(measure, kernel)
    assert tuned(measure, kernel, mode=0) is None and len(measure.asked) == 1


def test_measured_once_then_known_to_every_process():
    kernel, measure = kernel_of(product(64, 33, 100)), Measured("nest_serial")
    assert tuned(measure, kernel, mode=1) is None and not measure.asked, "1 never measures"
    assert tuned(measure, kernel).name == "nest_serial"
    fused = kernel_of(b.apply("exp", product(64, 33, 100)))
    assert [tuned(measure, k, mode).name for k in (kernel, fused) for mode in (1, 2)] == ["nest_serial"] * 4
    ((bare, asked),) = measure.asked
    assert asked == [row.name for row in candidates(kernel, SOFTWARE)] and bare.labels == ("tuning",)
    assert tune.count_of_classes() == 1


def test_a_variant_is_found_again_with_its_parameters():
    kernel = kernel_of(total((40, 5000), (1,)))
    name = next(row.name for row in candidates(kernel, SOFTWARE) if "lanes=16" in row.name)
    tuned(Measured(name), kernel)
    row = tuned(Measured(), kernel, mode=1)
    assert row.name == name and row.parameters(kernel, SOFTWARE)["lanes"] == 16


def test_other_drivers_limits_and_tables_find_nothing(monkeypatch: pytest.MonkeyPatch):
    kernel = kernel_of(product(64, 33, 100))
    tuned(Measured("nest_serial"), kernel)
    assert tuned(Measured(), kernel, mode=1).name == "nest_serial"
    assert tuned(Measured(), kernel, mode=1, device="a device, driver 2") is None
    monkeypatch.setattr(tune, "table_version", lambda: "another")
    assert tuned(Measured(), kernel, mode=1) is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another's"])
def test_damage_is_ignored_and_heals(folder: Path, damage: str):
    kernel = kernel_of(product(64, 33, 100))
    tuned(Measured("nest_serial"), kernel)
    (file,) = folder.iterdir()
    blob = file.read_bytes()
    if damage == "another's":
        tuned(Measured("nest_serial"), kernel_of(product(64, 33, 101)))
        (other,) = set(folder.iterdir()) - {file}
        file.write_bytes(other.read_bytes())
    else:
        middle = len(blob) // 2
        flipped = blob[:middle] + bytes([blob[middle] ^ 1]) + blob[middle + 1 :]
        file.write_bytes({"cut": blob[:middle], "flipped": flipped, "empty": b""}[damage])
    assert tuned(Measured(), kernel, mode=1) is None
    again = Measured("nest_serial")
    assert tuned(again, kernel).name == "nest_serial" and len(again.asked) == 1
    assert tuned(Measured(), kernel, mode=1).name == "nest_serial"
    assert file.read_bytes() == blob


def test_what_could_not_be_measured_is_asked_again():
    kernel, full = kernel_of(product(64, 33, 100)), Measured(refuse=True)
    assert tuned(full, kernel).name == choose(kernel, SOFTWARE).name
    assert tune.count_of_classes() == 0
    assert tuned(Measured("nest_serial"), kernel).name == "nest_serial"


def test_the_record_says_why(folder: Path):
    kernel = kernel_of(product(64, 33, 100))
    tuned(Measured("nest_serial"), kernel)
    (file,) = folder.iterdir()
    found = re.search(rb'\{\s*".*', file.read_bytes(), re.S)  # after a checksum of any bytes
    assert found is not None
    record = json.loads(found[0])
    assert record["device"] == "a device, driver 1" and record["class"] == "product 1x64x33x100 float32"
    (choice,) = record["choices"].values()
    assert choice["row"] == "nest_serial" and ["nest_serial", 1.0, ""] in choice["findings"]


def turns(kernel_class: str) -> tuple[Kernel, Kernel]:
    """Two kernels of one class whose operands lie in memory differently, as they may with and without fusion."""
    if kernel_class == "product":
        return kernel_of(product(64, 33, 100)), kernel_of(product(64, 33, 100, turned=True, before="tanh"))
    return kernel_of(total((400, 30), (1,))), kernel_of(total((30, 400), (0,)))


@pytest.mark.parametrize("kernel_class", ["product", "sum"])
def test_all_layouts_of_a_class_are_summed_in_one_order(kernel_class: str):
    first, second = turns(kernel_class)
    assert class_of(first).name == class_of(second).name and class_of(first).layouts != class_of(second).layouts
    winner = tuned(Measured("nest_shared"), first)
    unmeasured = tuned(Measured(), second, mode=1)
    measure = Measured("nest_serial", "contract_tiled")  # faster here, but of another order
    measured = tuned(measure, second)
    orders = {order_of(row, first, SOFTWARE) for row in (winner, unmeasured, measured)}
    assert len(orders) == 1 and winner.name == "nest_shared"
    assert measure.asked == [] or {"nest_serial", "contract_tiled"}.isdisjoint(measure.asked[0][1])


def test_without_orders_the_layouts_would_differ(monkeypatch: pytest.MonkeyPatch):
    """The null arm of the test above."""
    monkeypatch.setattr(tune, "order_of", lambda row, kernel, limits: "")
    first, second = turns("sum")
    rows = tuned(Measured("nest_shared"), first), tuned(Measured("nest_serial"), second)
    monkeypatch.undo()
    assert len({order_of(row, first, SOFTWARE) for row in rows}) == 2
