"""The template of every routine: rendered, compiled, validated and run by both kinds of geometry, against its meaning.

A software driver runs what is meant for GPUs too, only slowly, so both are compared here at sizes around their edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE, limits_of, run_plan
from tests.planned import plan_of
from tests.reference import evaluate, graph_only, variable  # noqa: F401  the second is a fixture
from vkgrad import ops  # noqa: F401  fills OPS
from vkgrad.codegen.render import Shader
from vkgrad.codegen.rows import Limits
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import dtype_of
from vkgrad.ir.node import Node
from vkgrad.ir.op import OPS, Family
from vkgrad.ops.fourier import LONGEST_BYTES
from vkgrad.ops.sorting import _block
from vkgrad.runtime._native import Device
from vkgrad.schedule.plan import build_plan
from vkgrad.schedule.split import Width

pytestmark = pytest.mark.device

# Factorisations and recurrences are rounded: tests/test_linalg.py and test_recurrent_template.py compare them.
ROUTINES = [
    op
    for op in OPS.values()
    if op.family is Family.ROUTINE and not str(op.template).startswith(("linalg_", "recurrent"))
]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


@dataclass
class Case:
    """Operands of one routine, and its attributes.

    `large` are blocks that no software driver is given; `units`, how many roundings of the largest value a result may
    be off by."""

    op: str
    arrays: list[np.ndarray]
    attributes: dict[str, Any] = field(default_factory=dict)
    large: bool = False
    units: float = 0


def whole(*shape: int, low: int = -4, high: int = 5, dtype: str = "f4") -> np.ndarray:
    """Whole numbers, of which any sum is exact."""
    return np.random.default_rng([*shape, 1]).integers(low, high, shape).astype(dtype)


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng([*shape, 2]).uniform(-1, 1, shape).astype(dtype)


def with_nan(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[..., ::5], array[..., 1:2] = np.nan, -np.inf
    return array


def ones(*shape: int, dtype: str) -> np.ndarray:
    """1 and -1, of which any product is exact."""
    return np.where(whole(*shape, low=0, high=2), 1, -1).astype(dtype)


TYPES = ("f4", "f8", "i4", "u4")
LENGTHS = (1, 2, 31, 32, 33, 100, 1023, 1025)


def scans() -> Iterator[Case]:
    for dtype in TYPES:
        low = 0 if dtype == "u4" else -4
        for join, reverse in (("sum", True), ("sum", False), ("max", True), ("min", False)):
            yield Case("scan", [whole(3, 70, 1, low=low, dtype=dtype)], {"join": join, "reverse": reverse})
    for n in LENGTHS:
        yield Case("scan", [whole(2, n, 1)], {"join": "sum", "reverse": n % 2 == 0})
    for n, c in ((90, 2), (90, 3), (90, 8), (70, 40), (300, 33), (1, 40)):
        yield Case("scan", [whole(2, n, c)], {"join": "sum", "reverse": c in (3, 33)})
    for shape in ((3, 1, 50), (3, 9, 50)):
        x = np.swapaxes(with_nan(whole(*shape)), 1, 2)
        yield Case("scan", [x], {"join": "max", "reverse": False})
        yield Case("scan", [x], {"join": "min", "reverse": True})
    yield Case("scan", [ones(2, 90, 1, dtype="f4")], {"join": "prod", "reverse": False})


def linear_scans() -> Iterator[Case]:
    for dtype in ("f4", "f8"):
        for n, c in ((1, 1), (7, 2), (64, 1), (60, 40)):
            for reverse in (False, True):
                a, x = whole(2, n, c, low=-1, high=2, dtype=dtype), whole(2, n, c, dtype=dtype)
                yield Case("linear_scan", [a, x], {"reverse": reverse})
        a, x = ones(2, 900, 1, dtype=dtype), whole(2, 900, 1, dtype=dtype)
        yield Case("linear_scan", [a, x], {"reverse": False})


def steps_of_scans() -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    """Operands in chunks of which some are shorter than a tile, some longer, and the last one is cut."""
    for n, c, chunk in ((90, 1, 40), (1300, 1, 600), (200, 3, 64), (300, 8, 100), (250, 40, 64), (5, 2, 1)):
        for reverse in (False, True):
            yield [whole(2, n, c)], {"reverse": reverse, "chunk": chunk}
    for dtype in TYPES:
        yield [whole(2, 300, 1, low=0, dtype=dtype)], {"reverse": False, "chunk": 128}


def scan_totals() -> Iterator[Case]:
    for number, (arrays, attributes) in enumerate(steps_of_scans()):
        yield Case("scan_totals", arrays, attributes | {"join": ("sum", "max", "min")[number % 3]})
    yield Case("scan_totals", [with_nan(whole(1, 2, 90))], {"join": "max", "reverse": False, "chunk": 1})
    yield Case("scan_totals", [ones(2, 90, 1, dtype="f4")], {"join": "prod", "reverse": False, "chunk": 40})


def scans_from() -> Iterator[Case]:
    for case in scan_totals():
        totals = OPS["scan_totals"].numpy(*case.arrays, **case.attributes)
        yield Case("scan_from", [*case.arrays, totals], case.attributes)


def linear_scan_totals() -> Iterator[Case]:
    for (x,), attributes in steps_of_scans():
        if x.dtype.kind == "f":
            yield Case("linear_scan_totals", [ones(*x.shape, dtype=x.dtype.str), x], attributes)
            attributes = attributes | {"reverse": not attributes["reverse"]}
            yield Case("linear_scan_totals", [whole(*x.shape, low=-1, high=2, dtype=x.dtype.str), x], attributes)


def linear_scans_from() -> Iterator[Case]:
    for case in linear_scan_totals():
        totals = OPS["linear_scan_totals"].numpy(*case.arrays, **case.attributes)
        yield Case("linear_scan_from", [*case.arrays, totals], case.attributes)


def sorts() -> Iterator[Case]:
    for dtype in (*TYPES, "i1", "u1", "f2"):
        low = 0 if dtype[0] == "u" else -4
        for descending in (False, True):
            yield Case("argsort", [whole(3, 30, low=low, dtype=dtype)], {"descending": descending})
    for n in (1, 2, 15, 16, 17, 32):
        yield Case("argsort", [with_nan(whole(2, n))], {"descending": n % 2 == 0})


def blocks() -> Iterator[Case]:
    for n in (40, 64, 200):
        yield Case("sort_blocks", [with_nan(whole(2, n))], {"size": 32, "descending": n == 64})
    for size in (32, 512, 1024):
        yield Case("sort_blocks", [whole(2, 1300, dtype="i4")], {"size": size, "descending": False}, size > 32)


def merges() -> Iterator[Case]:
    for n in (33, 64, 90, 257):
        for descending in (False, True):
            x = with_nan(whole(2, n))
            order = OPS["sort_blocks"].numpy(x, size=32, descending=descending)
            yield Case("sort_merge", [x, order], {"run": 32, "descending": descending})
    for n in (1025, 2048, 3000, 4097):
        x = whole(2, n, high=2000)
        order = OPS["sort_blocks"].numpy(x, size=1024, descending=False)
        yield Case("sort_merge", [x, order], {"run": 1024, "descending": False})
    x = np.sort(whole(1, 2048, high=2000))
    for array in (x, x[:, ::-1], np.roll(x, 1024, 1), np.zeros_like(x)):  # all from one run first, or from both in turn
        order = OPS["sort_blocks"].numpy(array, size=1024, descending=True)
        yield Case("sort_merge", [np.ascontiguousarray(array), order], {"run": 1024, "descending": True})


def digit_counts() -> Iterator[Case]:
    for dtype, n, down in (("f4", 300, False), ("i4", 300, True), ("u4", 2049, False)):
        x = whole(2, n, low=0 if dtype == "u4" else -4, dtype=dtype)
        yield Case("digit_counts", [x], {"shift": 0 if dtype == "u4" else 24, "first": True, "descending": down})
    yield Case("digit_counts", [with_nan(random(2, 2048))], {"shift": 24, "first": True, "descending": True})
    pairs = np.random.default_rng(5).integers(0, 1 << 32, (2, 2, 3000)).astype("u4")
    yield Case("digit_counts", [pairs], {"shift": 16, "first": False, "descending": False})


def digit_moves() -> Iterator[Case]:
    for number, case in enumerate(digit_counts()):
        before = np.cumsum(OPS["digit_counts"].numpy(*case.arrays, **case.attributes), -2, dtype="i4")
        yield Case("digit_move", [*case.arrays, before], case.attributes | {"last": number % 2 == 0})


def searches() -> Iterator[Case]:
    for dtype in TYPES:
        low = 0 if dtype == "u4" else -4
        ordered = np.sort(whole(2, 40, low=low, dtype=dtype))
        for right in (False, True):
            yield Case("searchsorted", [ordered, whole(2, 33, low=low, dtype=dtype)], {"right": right})
    ordered = np.sort(with_nan(whole(1, 20)))
    yield Case("searchsorted", [ordered, with_nan(whole(1, 9))], {"right": False})


def inverses() -> Iterator[Case]:
    yield Case("inverse", [np.stack([np.random.default_rng(s).permutation(37) for s in range(3)]).astype("i4")])


def scatters() -> Iterator[Case]:
    for join in ("sum", "max", "min"):
        for (m, extent, c), chunk in (((50, 7, 1), 0), ((50, 7, 3), 20), ((1, 3, 2), 0), ((700, 3000, 1), 300)):
            index = whole(2, m, low=-1, high=extent + 2, dtype="i4")
            yield Case("scatter", [whole(2, m, c), index], {"extent": extent, "join": join, "chunk": chunk})
    for (m, extent, c), chunk in (((2000, 900, 1), 0), ((700, 400, 3), 300), ((300, 2000, 1), 0)):
        index = np.minimum(whole(2, m, low=-1, high=2 * extent, dtype="i4"), extent)  # half of it goes nowhere
        index[0, ::3] = 7
        yield Case("scatter", [whole(2, m, c), index], {"extent": extent, "join": "sum", "chunk": chunk})
    for dtype in TYPES:
        values, index = whole(90, 2, low=0, dtype=dtype), whole(90, low=0, high=5, dtype="i4")
        yield Case("scatter", [values, index], {"extent": 5, "join": "sum", "chunk": 0})
    yield Case("scatter", [ones(60, 1, dtype="f4"), whole(60, low=0, high=4, dtype="i4")],
               {"extent": 4, "join": "prod", "chunk": 25})  # fmt: skip


def segments() -> Iterator[Case]:
    for join in ("sum", "max"):
        for high in (2, 30):
            place = whole(200, low=0, high=high, dtype="i4")
            order = np.argsort(place, kind="stable").astype("i4")
            bounds = np.searchsorted(place[order], np.arange(34)).astype("i4")
            values = whole(200, 2)
            parts = getattr(values[order[:192]].reshape(12, 16, 2), join)(1)
            yield Case("segments", [values, order, bounds, parts], {"join": join, "block": 16})


def transforms() -> Iterator[Case]:
    for number, n in enumerate((2, 3, 8, 11, 12, 30, 31)):
        shape = (3, n) if number % 2 else (3, n, 2)
        yield Case("dft", [random(*shape)], {"inverse": number % 3 == 0, "real": number % 2 == 1}, units=4)
    for n in (64, 100, 256, 310, 1000, 1024):
        yield Case("dft", [random(3, n, 2)], {"inverse": n % 3 == 0, "real": False}, n > 64, 4)
    yield Case("dft", [random(2, 12, 2, dtype="f8")], {"inverse": False, "real": False}, units=4)


def stages_of_transforms() -> Iterator[Case]:
    for n, radix, done in ((8, 2, 1), (24, 3, 2), (24, 8, 3), (60, 5, 12), (62, 31, 2), (77, 7, 1), (24, 4, 6)):
        for inverse in (False, True):
            attributes = {"radix": radix, "done": done, "inverse": inverse, "real": done == 1}
            yield Case("dft_stage", [random(2, n) if done == 1 else random(2, n, 2)], attributes, units=4)
    for n, radix, done in ((512, 64, 1), (512, 64, 8), (2000, 100, 20), (2000, 40, 1), (96, 48, 2)):
        attributes = {"radix": radix, "done": done, "inverse": False, "real": False}
        yield Case("dft_stage", [random(3, n, 2)], attributes, True, 4)
    attributes = {"radix": 8, "done": 4, "inverse": False, "real": False}
    yield Case("dft_stage", [random(2, 64, 2, dtype="f8")], attributes, units=4)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "scan": scans, "linear_scan": linear_scans, "scan_totals": scan_totals, "scan_from": scans_from,
    "linear_scan_totals": linear_scan_totals, "linear_scan_from": linear_scans_from,
    "argsort": sorts, "sort_blocks": blocks, "sort_merge": merges,
    "searchsorted": searches, "inverse": inverses, "scatter": scatters, "segments": segments,
    "digit_counts": digit_counts, "digit_move": digit_moves, "dft": transforms, "dft_stage": stages_of_transforms,
}  # fmt: skip


def ran(device: Device, case: Case, limits: Limits, change: Callable[[Shader], Shader] = lambda s: s) -> tuple:
    values: dict[Node, np.ndarray] = {}
    target = b.build(case.op, *(variable(array, values) for array in case.arrays), **case.attributes)
    plan, leaves = plan_of([target])
    (found,) = run_plan(device, plan, [values[leaf] for leaf in leaves], limits_of(device, limits), change=change)
    (wanted,) = evaluate([target], values)
    return found, wanted


def _is_offered(dtype: np.dtype, device: Device) -> bool:
    needed = {"f8": "shaderFloat64", "i8": "shaderInt64", "u8": "shaderInt64", "i1": "storageBuffer8BitAccess",
              "u1": "storageBuffer8BitAccess", "f2": "storageBuffer16BitAccess", "i2": "storageBuffer16BitAccess",
              "u2": "storageBuffer16BitAccess"}.get(dtype.str[1:])  # fmt: skip
    return needed is None or bool(device.info["features"].get(needed))


# SwiftShader takes minutes, and all memory, to compile what some templates make of a GPU's limits.
BOTH = [pytest.param(SOFTWARE, marks=pytest.mark.swiftshader, id="software"), pytest.param(GPU_LIKE, id="GPU")]


@pytest.mark.parametrize("limits", BOTH)
@pytest.mark.parametrize("op", ROUTINES, ids=lambda op: op.name)
def test_a_template_is_its_meaning(device: Device, op: Any, limits: Limits) -> None:
    for case in CASES[op.name]():
        if case.large and limits.software:
            continue
        if not all(_is_offered(array.dtype, device) for array in case.arrays):
            continue
        found, wanted = ran(device, case, limits)
        shapes = [array.shape for array in case.arrays]
        what = f"{shapes} {case.arrays[0].dtype} {case.attributes}"
        if case.units:
            off = case.units * np.finfo(wanted.dtype).eps * np.abs(wanted).max(initial=1)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=off, err_msg=what)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=what)


GPU = Width(1 << 16, 256, 16, 132)
LONG: dict[str, tuple[list[np.ndarray], dict[str, Any], int]] = {
    "sort": ([with_nan(whole(1, 20_000, high=900))], {"descending": True}, 16),
    "sort of bytes": ([whole(2, 17_000, low=-128, high=128, dtype="i1")], {"descending": False}, 4),
    "sort of masks": ([whole(1, 17_000, low=0, high=2, dtype="?")], {"descending": True}, 4),
    "scan": ([whole(2, 20_000, 1)], {"join": "sum", "reverse": True}, 2),
    "scan of columns": ([whole(300, 40)], {"join": "max", "reverse": False}, 2),
    "linear_scan": ([ones(9000, 1, dtype="f4"), whole(9000, 1)], {"reverse": False}, 2),
    "scatter": ([whole(9000, 1), whole(9000, low=-1, high=700, dtype="i4")],
                {"extent": 600, "join": "sum", "chunk": 0}, 2),
    "scatter by sorting": ([whole(17_000, 1), whole(17_000, low=-1, high=30_500, dtype="i4")],
                           {"extent": 30_000, "join": "sum", "chunk": 0}, 14),
    "dft": ([whole(1, 4096, 2)], {"inverse": False, "real": False}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_the_steps_that_a_gpu_takes(device: Device, name: str) -> None:
    arrays, attributes, most = LONG[name]
    if not all(_is_offered(array.dtype, device) for array in arrays):
        pytest.skip("the device does not store this type")
    values: dict[Node, np.ndarray] = {}
    op = "argsort" if name.startswith("sort") else name.partition(" ")[0]
    target = b.build(op, *(variable(array, values) for array in arrays), **attributes)
    leaves = list(target.inputs)
    plan = build_plan([target], leaves, max_buffers=8, width=GPU)
    assert 1 < len(plan.kernels) <= most
    (found,) = run_plan(device, plan, [values[leaf] for leaf in leaves], limits_of(device, GPU_LIKE))
    (wanted,) = evaluate([target], values)
    off = 4 * np.finfo("f4").eps * np.abs(wanted).max() if op == "dft" else 0
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=off)


def test_what_all_devices_have_is_enough() -> None:
    """Vulkan promises 16 KiB of shared memory and workgroups of 128: every geometry stays within, at any size."""
    least = Limits(software=False, max_invocations=128, shared_bytes=16384)
    for dtype, n in ((dtype_of("float32"), 1 << 20), (dtype_of("float64"), 1 << 20)):
        for op in ROUTINES:
            case, shapes = next(CASES[op.name]()), []
            for array in case.arrays:
                longest = {"argsort": _block(dtype), "dft": LONGEST_BYTES // (2 * dtype.size_bytes)}.get(op.name, n)
                shape = (1, longest, 1) if array.ndim == 3 else (1, longest)
                shapes.append((n, *array.shape[1:]) if op.name == "segments" else shape)
            found = op.geometry(shapes, [dtype] * op.arity, least, **case.attributes)
            assert found.shared_bytes <= least.shared_bytes, op.name
            assert found.parameters.get("lanes", 1) * found.parameters.get("local", 1) <= least.max_invocations, op.name


def test_every_routine_has_cases() -> None:
    assert {op.name for op in ROUTINES} == set(CASES)


def test_a_wrong_template_fails(device: Device) -> None:
    """The null arm: a scan that forgets its last step, a sort that compares the other way."""
    case = next(scans())
    for old, new in (("x + y", "x - y"), ("joined(state, element(place))", "element(place)")):
        found, wanted = ran(device, case, SOFTWARE, lambda s, o=old, n=new: replace(s, source=s.source.replace(o, n)))
        assert not np.array_equal(found, wanted)


@pytest.mark.parametrize(("n", "dtype"), [(9, "f4"), (40, "f4"), (48, "f8")])
def test_eigenvalues_as_a_gpu_finds_them(device: Device, n: int, dtype: str) -> None:
    """All sweeps in one dispatch, of rows in shared memory or, where they do not fit, in the output."""
    if not _is_offered(np.dtype(dtype), device):
        pytest.skip("the device does not store this type")
    values: dict[Node, np.ndarray] = {}
    x = random(2, n, n, dtype=dtype)
    a = variable(x + x.swapaxes(1, 2), values)
    plan = build_plan([b.build("eigh", a)], [a], max_buffers=8, width=GPU)
    (found,) = run_plan(device, plan, [values[a]], limits_of(device, GPU_LIKE))
    found = found.reshape(2, n + 1, n).astype("f8")
    w, v = found[:, :1], found[:, 1:]
    assert np.abs(values[a] @ v - v * w).max() < 8 * n * np.finfo(dtype).eps
    assert np.abs(v.swapaxes(1, 2) @ v - np.eye(n)).max() < n * np.finfo(dtype).eps


@pytest.mark.parametrize(("m", "n", "dtype"), [(7, 5, "f4"), (70, 40, "f4"), (1, 1, "f4"), (33, 32, "f8")])
def test_panels_as_a_gpu_does_them(device: Device, m: int, n: int, dtype: str) -> None:
    if not _is_offered(np.dtype(dtype), device):
        pytest.skip("the device does not store this type")
    for op in ("lu", "qr"):
        values: dict[Node, np.ndarray] = {}
        a = variable(random(2, m, n, dtype=dtype), values)
        plan = build_plan([b.build(op, a)], [a], max_buffers=8, width=GPU)
        (found,) = run_plan(device, plan, [values[a]], limits_of(device, GPU_LIKE))
        wanted = OPS[op].numpy(values[a].astype("f8"))
        if op == "qr":  # a column's sign is a matter of taste
            wanted = wanted * np.sign(wanted[:, range(m, m + n), range(n)])[:, None]
            found = found.reshape(wanted.shape)
            found = found * np.sign(found[:, range(m, m + n), range(n)])[:, None]
            wanted, found = wanted[:, :m], found[:, :m]
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=1000 * np.finfo(dtype).eps)
