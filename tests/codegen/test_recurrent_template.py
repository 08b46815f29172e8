"""The template of recurrences: by both kinds of geometry, in runs and step by step, it gives what the meaning gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.codegen.run_kernel import GPU_LIKE, SOFTWARE, limits_of, run_plan
from tests.planned import plan_of
from tests.reference import evaluate, graph_only, variable  # noqa: F401  the second is a fixture
from tests.tolerances import differs
from vkgrad.codegen.render import Shader
from vkgrad.codegen.rows import Limits
from vkgrad.ir import build as b
from vkgrad.ir.dtypes import dtype_of
from vkgrad.ir.node import Node
from vkgrad.ir.op import OPS
from vkgrad.ops import recurrences
from vkgrad.ops.recurrent_steps import ADJOINTS, CELLS
from vkgrad.runtime._native import Device
from vkgrad.schedule.split import Width

pytestmark = [pytest.mark.device, pytest.mark.swiftshader]

# Steps, rows and hidden units: one of each, what no number of lanes divides, several rows and units of an invocation.
SIZES = ((1, 1, 1), (3, 2, 7), (4, 9, 33), (2, 150, 5), (3, 3, 130))
WIDTHS = {"software": Width(32, 1, 1024), "GPU": Width(1 << 16, 256, 16, 132)}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = Device()
    yield opened
    opened.close()


def shapes_of(op: str, kind: str, steps: int, batch: int, hidden: int, lead: tuple[int, ...]) -> list[tuple[int, ...]]:
    cell = CELLS[kind]
    columns = cell.gates * hidden
    if op == "recurrent":
        own = [(steps, batch, columns), (cell.states, batch, hidden), (hidden, columns), (columns,)]
    else:
        own = [(steps, cell.states, batch, hidden), (columns, hidden)]
        own += [(steps, batch, hidden)] * ADJOINTS[op.removesuffix("_adjoint")][1]
    return [(*lead, *shape) for shape in own]


Given = tuple[str, list[np.ndarray], dict[str, Any]]


def given(
    size: tuple[int, int, int], dtype: str = "f4", lead: tuple[int, ...] = (), reverse: bool = False
) -> Iterator[Given]:
    """Operands of every op and kind, and its attributes."""
    generator = np.random.default_rng([*size, len(lead)])
    for kind in CELLS:
        shapes = shapes_of("recurrent", kind, *size, lead)
        arrays = [generator.uniform(-0.5, 0.5, shape).astype(dtype) for shape in shapes]
        yield "recurrent", arrays, {"kind": kind, "reverse": reverse}
    for name, (kind, _) in ADJOINTS.items():
        shapes = shapes_of(f"{name}_adjoint", kind, *size, lead)
        arrays = [generator.uniform(-0.5, 0.5, shape).astype(dtype) for shape in shapes]
        yield f"{name}_adjoint", arrays, {"reverse": reverse}


def compared(
    device: Device,
    case: Given,
    limits: Limits,
    change: Callable[[Shader], Shader] = lambda shader: shader,
    **options: Any,
) -> tuple[str, int]:
    """Where the two differ, in words, and how many kernels it took."""
    op, arrays, attributes = case
    values: dict[Node, np.ndarray] = {}
    target = b.build(op, *(variable(array, values) for array in arrays), **attributes)
    plan, leaves = plan_of([target], **options)
    (found,) = run_plan(device, plan, [values[leaf] for leaf in leaves], limits_of(device, limits), change=change)
    (wanted,) = evaluate([target], values)
    off = differs(np.asarray(found).reshape(wanted.shape), wanted, target.dtype)
    return off and f"{op} {attributes}: {off}", len(plan.kernels)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])
def test_it_is_its_meaning(device: Device, limits: Limits, size: tuple[int, int, int]) -> None:
    for case in given(size, reverse=size[0] == 3):
        off, kernels = compared(device, case, limits)
        assert not off
        assert kernels == 1


@pytest.mark.parametrize("limits", [SOFTWARE, GPU_LIKE], ids=["software", "GPU"])
def test_more_leading_axes_are_more_of_the_same(device: Device, limits: Limits) -> None:
    for case in given((2, 3, 5), lead=(2, 2), reverse=True):
        assert not compared(device, case, limits)[0]


def test_in_double_precision(device: Device) -> None:
    if not device.info["features"].get("shaderFloat64"):
        pytest.skip("this device does not compute in float64")
    for limits in (SOFTWARE, GPU_LIKE):
        for case in given((3, 2, 7), "f8"):
            assert not compared(device, case, limits)[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_runs_and_steps_are_the_same(monkeypatch: pytest.MonkeyPatch, device: Device, reverse: bool) -> None:
    """What a software driver cannot count to is done in runs, and what is too large for a workgroup in steps."""
    monkeypatch.setattr(recurrences, "MOST_TRIPS", 80)
    monkeypatch.setattr(recurrences, "MOST_WEIGHTS", 1)
    for case in given((7, 2, 5), reverse=reverse):
        for name, limits in (("software", SOFTWARE), ("GPU", GPU_LIKE)):
            off, kernels = compared(device, case, limits, width=WIDTHS[name])
            assert not off
            assert kernels > 2


def test_every_geometry_is_within_what_all_devices_have() -> None:
    """Vulkan promises 16 KiB of shared memory and workgroups of 128."""
    for least in (
        Limits(software=False, max_invocations=128, shared_bytes=16384),
        Limits(software=True, max_invocations=128, shared_bytes=16384),
    ):
        for dtype in ("float32", "float64"):
            most = recurrences.MOST_HIDDEN if dtype == "float32" else recurrences.MOST_HIDDEN // 2
            for hidden in (1, 31, 128, most):
                for op, arrays, attributes in given((1, 1, 1)):
                    kind = attributes.get("kind") or ADJOINTS[op.removesuffix("_adjoint")][0]
                    shapes = shapes_of(op, kind, 100, 3000, hidden, (2,))
                    found = OPS[op].geometry(shapes, [dtype_of(dtype)] * len(arrays), least, **attributes)  # type: ignore
                    assert found.shared_bytes <= least.shared_bytes
                    assert found.parameters["lanes"] <= least.max_invocations


def test_weights_in_registers_and_in_memory(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    """Some of a lane's terms are kept, others come in turns, whole ones or not."""
    for most, size in ((8, (2, 3, 33)), (16, (3, 2, 64)), (0, (2, 2, 40))):
        monkeypatch.setattr(recurrences, "MOST_KEPT", most)
        for case in given(size):
            assert not compared(device, case, GPU_LIKE)[0]


def test_a_wrong_template_fails(device: Device) -> None:
    """The null arm: a product that forgets what it carries, and a state that is not handed on."""
    lstm = next(case for case in given((3, 2, 7)) if case[2].get("kind") == "lstm")
    back = next(case for case in given((3, 2, 7)) if case[0] == "lstm_adjoint")
    for case, old, new in ((lstm, "carried[slot] = h;", ""), (back, "own[u] = x[7] * c;", "")):
        assert compared(device, case, SOFTWARE)[0] == ""

        def changed(shader: Shader, old: str = old, new: str = new) -> Shader:
            assert old in shader.source
            return replace(shader, source=shader.source.replace(old, new))

        assert compared(device, case, SOFTWARE, changed)[0]
